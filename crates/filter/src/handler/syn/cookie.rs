//! The initial sequence number and the timestamp of an answer: the stack's SYN cookie, by the stack's recipe.

use super::settings::SynHandler;
use super::shape::{
    DESTINATION, EPOCH, FRAME, ISS, LOCAL, MILLIS, OPTIONS, PAIR, PORTS, REMOTE, SAID, SOURCE,
    Shape, TCP, keep, kept,
};
use crate::ebpf::{Alu, Assembler, Condition, Helper, Reg, Size};
use crate::handler::arithmetic::{get, set_wide};
use crate::handler::sip;
use exos_wire::tcp::cookie::{
    EPOCH_SHIFT, HASH_MASK, MSS_SHIFT, MSS_TABLE, SACK_BIT, TIMESTAMP_BITS,
};

impl SynHandler {
    /// Puts the four-tuple and the time aside.
    pub(in crate::handler) fn look(&self, asm: &mut Assembler) {
        asm.call(Helper::KtimeGetNs);
        asm.alu(Alu::Div, Reg::R0, 1000);
        asm.set(Reg::R1, Reg::R0);
        asm.alu(Alu::Div, Reg::R1, self.recipe.epoch_us as i32);
        keep(asm, EPOCH, Reg::R1);
        asm.alu(Alu::Div, Reg::R0, 1000);
        keep(asm, MILLIS, Reg::R0);
        // IPv4 addresses in IPv6's form (RFC 4291 §2.5.5.2): their second halves.
        set_wide(asm, Reg::R3, 0xffff_0000_0000);
        get(asm, Reg::R1, FRAME, DESTINATION);
        asm.set(Reg::R2, Reg::R1);
        asm.alu(Alu::ShiftLeft, Reg::R2, 32);
        asm.alu(Alu::Or, Reg::R1, Reg::R3);
        keep(asm, LOCAL, Reg::R1);
        get(asm, Reg::R1, FRAME, SOURCE);
        asm.alu(Alu::Or, Reg::R2, Reg::R1);
        keep(asm, PAIR, Reg::R2);
        asm.alu(Alu::Or, Reg::R1, Reg::R3);
        keep(asm, REMOTE, Reg::R1);
        asm.load(Size::Half, Reg::R1, FRAME, TCP);
        asm.to_big_endian(Reg::R1, 16);
        asm.alu(Alu::ShiftLeft, Reg::R1, 32);
        set_wide(asm, Reg::R2, u64::from(self.recipe.port) << 48);
        asm.alu(Alu::Or, Reg::R1, Reg::R2);
        keep(asm, PORTS, Reg::R1);
    }

    /// The initial sequence number; the bits that a timestamp carries stay in r9.
    pub(super) fn cookie(&self, asm: &mut Assembler, shape: Shape) {
        let (index, bits) = (Reg::R8, Reg::R9);
        self.mss_index(asm, index);
        match shape {
            // One more than all bits: there are no timestamps.
            Shape::Bare => asm.set(bits, TIMESTAMP_BITS as i32 + 1),
            Shape::Full => {
                asm.load(Size::Byte, bits, FRAME, OPTIONS + 19);
                asm.alu(Alu::Or, bits, SACK_BIT as i32);
            }
        }
        get(asm, Reg::R1, FRAME, TCP + 4);
        asm.alu(Alu::ShiftLeft, Reg::R1, 24);
        asm.alu(Alu::Or, Reg::R1, index);
        asm.alu(Alu::ShiftLeft, Reg::R1, 8);
        asm.alu(Alu::Or, Reg::R1, bits);
        keep(asm, SAID, Reg::R1);
        sip::begin(asm, self.recipe.key);
        sip::take_zero(asm);
        take(asm, LOCAL);
        sip::take_zero(asm);
        take(asm, REMOTE);
        self.take_ports(asm, self.recipe.cookie_salt);
        take(asm, EPOCH);
        take(asm, SAID);
        sip::finish(asm, 7);
        asm.alu32(Alu::And, Reg::R0, HASH_MASK as i32);
        kept(asm, Reg::R1, EPOCH);
        asm.alu32(Alu::ShiftLeft, Reg::R1, EPOCH_SHIFT as i32);
        asm.alu32(Alu::Or, Reg::R0, Reg::R1);
        asm.alu32(Alu::ShiftLeft, index, MSS_SHIFT as i32);
        asm.alu32(Alu::Or, Reg::R0, index);
        keep(asm, ISS, Reg::R0);
    }

    /// The greatest entry of the table that is not above the SYN's MSS.
    fn mss_index(&self, asm: &mut Assembler, index: Reg) {
        let found = asm.label();
        asm.load(Size::Half, Reg::R1, FRAME, OPTIONS + 2);
        asm.to_big_endian(Reg::R1, 16);
        asm.set(index, 0);
        for (at, &entry) in MSS_TABLE.iter().enumerate().skip(1) {
            asm.jump_if(Reg::R1, Condition::Less, i32::from(entry), found);
            asm.set(index, at as i32);
        }
        asm.bind(found);
    }

    /// The latest timestamp with the bits in r9 that is not ahead of the clock; leaves it in r9.
    pub(super) fn timestamp(&self, asm: &mut Assembler) {
        let (clock, bits, not_ahead) = (Reg::R0, Reg::R9, asm.label());
        sip::begin(asm, self.recipe.key);
        take(asm, PAIR);
        self.take_ports(asm, self.recipe.sequence_salt);
        sip::finish(asm, 2);
        asm.alu(Alu::ShiftRight, clock, 32);
        kept(asm, Reg::R1, MILLIS);
        asm.alu32(Alu::Add, clock, Reg::R1);
        asm.set(Reg::R1, clock);
        asm.alu32(Alu::And, Reg::R1, TIMESTAMP_BITS as i32);
        asm.alu32(Alu::And, clock, !(TIMESTAMP_BITS as i32));
        asm.alu32(Alu::Or, clock, bits);
        asm.jump_if(bits, Condition::LessOrEqual, Reg::R1, not_ahead);
        asm.alu32(Alu::Sub, clock, TIMESTAMP_BITS as i32 + 1);
        asm.bind(not_ahead);
        asm.set(Reg::R9, clock);
    }

    pub(in crate::handler) fn take_ports(&self, asm: &mut Assembler, salt: u32) {
        kept(asm, sip::WORD, PORTS);
        asm.alu(Alu::Or, sip::WORD, salt as i32);
        sip::take(asm);
    }
}

pub(in crate::handler) fn take(asm: &mut Assembler, at: i16) {
    kept(asm, sip::WORD, at);
    sip::take(asm);
}
