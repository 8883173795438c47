//! Whether a segment brings a SYN cookie back: as the stack sees it (`exos_inet`, `opening/cookie.rs`).

use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Emit, Label, Reg, Size};
use exos_wire::tcp::cookie::{EPOCH_SHIFT, HASH_MASK, MSS_SHIFT, TIMESTAMP_BITS};

impl Generator<'_> {
    /// To `other` unless it does; keeps what the cookie does ([`KEPT`]).
    pub(super) fn expect_cookie(&mut self, of: &WebHandler, other: Label) {
        let [bare, said] = [(); 2].map(|()| self.label());
        let (iss, kept_of) = (Reg::R9, Reg::R3);
        self.kept(iss, ACK);
        self.alu32(Alu::Sub, iss, 1);
        // The index of the MSS.
        self.set(kept_of, iss);
        self.alu(Alu::ShiftRight, kept_of, MSS_SHIFT as i32);
        self.alu(Alu::And, kept_of, 7);
        self.alu(Alu::ShiftLeft, kept_of, 8);
        self.kept(Reg::R1, HEADER);
        self.jump_if(Reg::R1, Condition::Equal, 20, bare);
        self.load(Size::Word, Reg::R1, Reg::R10, STAMPS + 4);
        self.alu(Alu::And, Reg::R1, TIMESTAMP_BITS as i32);
        self.alu(Alu::Or, kept_of, Reg::R1);
        self.jump(said);
        self.bind(bare);
        self.alu(Alu::Or, kept_of, TIMESTAMP_BITS as i32 + 1);
        self.bind(said);
        self.keep(KEPT, kept_of);
        self.kept(Reg::R1, SEQ);
        self.alu32(Alu::Sub, Reg::R1, 1);
        self.alu(Alu::ShiftLeft, Reg::R1, 32);
        self.alu(Alu::Or, Reg::R1, kept_of);
        self.keep(SAID, Reg::R1);
        // The epoch: this one, or the one before.
        self.kept(Reg::R1, EPOCH);
        self.set(Reg::R2, iss);
        self.alu(Alu::ShiftRight, Reg::R2, EPOCH_SHIFT as i32);
        self.set(Reg::R3, Reg::R1);
        self.alu(Alu::Sub, Reg::R3, Reg::R2);
        self.alu(Alu::And, Reg::R3, 31);
        self.jump_if(Reg::R3, Condition::Greater, 1, other);
        self.alu(Alu::Sub, Reg::R1, Reg::R3);
        self.keep(EPOCH, Reg::R1);
        of.syn.cookie_hash(self.asm);
        self.alu32(Alu::And, iss, HASH_MASK as i32);
        self.jump_if(Reg::R0, Condition::NotEqual, iss, other);
    }
}
