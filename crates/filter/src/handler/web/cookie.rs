//! Whether a segment brings a SYN cookie back: as the stack sees it (`exos_inet`, `opening/cookie.rs`).

use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Label, Reg, Size};
use exos_wire::tcp::cookie::{EPOCH_SHIFT, HASH_MASK, MSS_SHIFT, TIMESTAMP_BITS};

impl Generator<'_> {
    /// To `other` unless it does; keeps what the cookie does ([`KEPT`]).
    pub(super) fn expect_cookie(&mut self, of: &WebHandler, other: Label) {
        let [bare, said] = [(); 2].map(|()| self.asm.label());
        let asm = &mut *self.asm;
        let (iss, kept_of) = (Reg::R9, Reg::R3);
        kept(asm, iss, ACK);
        asm.alu32(Alu::Sub, iss, 1);
        // The index of the MSS.
        asm.set(kept_of, iss);
        asm.alu(Alu::ShiftRight, kept_of, MSS_SHIFT as i32);
        asm.alu(Alu::And, kept_of, 7);
        asm.alu(Alu::ShiftLeft, kept_of, 8);
        kept(asm, Reg::R1, HEADER);
        asm.jump_if(Reg::R1, Condition::Equal, 20, bare);
        asm.load(Size::Word, Reg::R1, Reg::R10, STAMPS + 4);
        asm.alu(Alu::And, Reg::R1, TIMESTAMP_BITS as i32);
        asm.alu(Alu::Or, kept_of, Reg::R1);
        asm.jump(said);
        asm.bind(bare);
        asm.alu(Alu::Or, kept_of, TIMESTAMP_BITS as i32 + 1);
        asm.bind(said);
        keep(asm, KEPT, kept_of);
        kept(asm, Reg::R1, SEQ);
        asm.alu32(Alu::Sub, Reg::R1, 1);
        asm.alu(Alu::ShiftLeft, Reg::R1, 32);
        asm.alu(Alu::Or, Reg::R1, kept_of);
        keep(asm, SAID, Reg::R1);
        // The epoch: this one, or the one before.
        kept(asm, Reg::R1, EPOCH);
        asm.set(Reg::R2, iss);
        asm.alu(Alu::ShiftRight, Reg::R2, EPOCH_SHIFT as i32);
        asm.set(Reg::R3, Reg::R1);
        asm.alu(Alu::Sub, Reg::R3, Reg::R2);
        asm.alu(Alu::And, Reg::R3, 31);
        asm.jump_if(Reg::R3, Condition::Greater, 1, other);
        asm.alu(Alu::Sub, Reg::R1, Reg::R3);
        keep(asm, EPOCH, Reg::R1);
        of.syn.cookie_hash(asm);
        asm.alu32(Alu::And, iss, HASH_MASK as i32);
        asm.jump_if(Reg::R0, Condition::NotEqual, iss, other);
    }
}
