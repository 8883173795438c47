//! The initial sequence number and the timestamp of an answer: the stack's SYN cookie, by the stack's recipe.

use super::settings::SynHandler;
use super::shape::{EPOCH, FRAME, ISS, LOCAL, MILLIS, Offers, PORTS, REMOTE, SAID, Shape};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Helper, Reg, Size};
use crate::handler::arithmetic::{get, set_wide};
use crate::handler::forward::Shape as Headers;
use crate::handler::sip;
use exos_wire::tcp::cookie::{
    EPOCH_SHIFT, HASH_MASK, MSS_SHIFT, MSS_TABLE, SACK_BIT, SCALED, TIMESTAMP_BITS,
};

impl SynHandler {
    /// Puts the four-tuple and the time aside. TCP's header is so far behind where a register points.
    pub(in crate::handler) fn look(
        &self,
        asm: &mut Assembler,
        headers: Headers,
        (from, tcp): (Reg, usize),
    ) {
        asm.call(Helper::KtimeGetNs);
        asm.alu(Alu::Div, Reg::R0, 1000);
        asm.set(Reg::R1, Reg::R0);
        asm.alu(Alu::Div, Reg::R1, self.recipe.epoch_us as i32);
        asm.keep(EPOCH, Reg::R1);
        asm.alu(Alu::Div, Reg::R0, 1000);
        asm.keep(MILLIS, Reg::R0);
        keep_address(asm, headers, headers.receiver(), LOCAL);
        keep_address(asm, headers, headers.addresses(), REMOTE);
        asm.load(Size::Half, Reg::R1, from, tcp);
        asm.to_big_endian(Reg::R1, 16);
        asm.alu(Alu::ShiftLeft, Reg::R1, 32);
        set_wide(asm, Reg::R2, u64::from(self.recipe.port) << 48);
        asm.alu(Alu::Or, Reg::R1, Reg::R2);
        asm.keep(PORTS, Reg::R1);
    }

    /// The initial sequence number; the bits that a timestamp carries stay in r9.
    pub(super) fn cookie(&self, asm: &mut Assembler, shape: Shape) {
        let (index, bits) = (Reg::R8, Reg::R9);
        match shape.offers {
            Offers::Mss => mss_index(asm, shape, index, SCALED),
            Offers::Scaled => asm.set(index, SCALED as i32),
            Offers::All => mss_index(asm, shape, index, MSS_TABLE.len()),
        }
        if shape.offers == Offers::All {
            asm.load(Size::Byte, bits, FRAME, shape.options() + 19);
            asm.alu(Alu::Or, bits, SACK_BIT as i32);
        } else {
            // One more than all bits: there are no timestamps.
            asm.set(bits, TIMESTAMP_BITS as i32 + 1);
        }
        get(asm, Reg::R1, FRAME, shape.tcp() + 4);
        asm.alu(Alu::ShiftLeft, Reg::R1, 24);
        asm.alu(Alu::Or, Reg::R1, index);
        asm.alu(Alu::ShiftLeft, Reg::R1, 8);
        asm.alu(Alu::Or, Reg::R1, bits);
        asm.keep(SAID, Reg::R1);
        self.cookie_hash(asm);
        asm.kept(Reg::R1, EPOCH);
        asm.alu32(Alu::ShiftLeft, Reg::R1, EPOCH_SHIFT as i32);
        asm.alu32(Alu::Or, Reg::R0, Reg::R1);
        asm.alu32(Alu::ShiftLeft, index, MSS_SHIFT as i32);
        asm.alu32(Alu::Or, Reg::R0, index);
        asm.keep(ISS, Reg::R0);
    }

    /// The keyed hash of a cookie, in r0.
    pub(in crate::handler) fn cookie_hash(&self, asm: &mut Assembler) {
        sip::begin(asm, self.recipe.key);
        take_addresses(asm);
        self.take_ports(asm, self.recipe.cookie_salt);
        take(asm, EPOCH);
        take(asm, SAID);
        sip::finish(asm, 7);
        asm.alu32(Alu::And, Reg::R0, HASH_MASK as i32);
    }

    /// The latest timestamp with the bits in r9 that is not ahead of the clock; leaves it in r9.
    pub(super) fn timestamp(&self, asm: &mut Assembler, headers: Headers) {
        let (clock, bits, not_ahead) = (Reg::R0, Reg::R9, asm.label());
        self.clock(asm, headers);
        asm.set(Reg::R1, clock);
        asm.alu32(Alu::And, Reg::R1, TIMESTAMP_BITS as i32);
        asm.alu32(Alu::And, clock, !(TIMESTAMP_BITS as i32));
        asm.alu32(Alu::Or, clock, bits);
        asm.jump_if(bits, Condition::LessOrEqual, Reg::R1, not_ahead);
        asm.alu32(Alu::Sub, clock, TIMESTAMP_BITS as i32 + 1);
        asm.bind(not_ahead);
        asm.set(Reg::R9, clock);
    }

    /// The stack's clock of timestamps for this connection, in r0.
    pub(in crate::handler) fn clock(&self, asm: &mut Assembler, headers: Headers) {
        sip::begin(asm, self.recipe.key);
        if headers.ipv6 {
            take_addresses(asm);
        } else {
            // Both in one word.
            asm.kept(sip::WORD, LOCAL + 8);
            asm.alu(Alu::ShiftLeft, sip::WORD, 32);
            asm.kept(Reg::R5, REMOTE + 8);
            asm.alu32(Alu::Move, Reg::R5, Reg::R5);
            asm.alu(Alu::Or, sip::WORD, Reg::R5);
            sip::take(asm);
        }
        self.take_ports(asm, self.recipe.sequence_salt);
        sip::finish(asm, if headers.ipv6 { 5 } else { 2 });
        asm.alu(Alu::ShiftRight, Reg::R0, 32);
        asm.kept(Reg::R1, MILLIS);
        asm.alu32(Alu::Add, Reg::R0, Reg::R1);
    }

    fn take_ports(&self, asm: &mut Assembler, salt: u32) {
        asm.kept(sip::WORD, PORTS);
        asm.alu(Alu::Or, sip::WORD, salt as i32);
        sip::take(asm);
    }
}

fn take(asm: &mut Assembler, at: i16) {
    asm.kept(sip::WORD, at);
    sip::take(asm);
}

fn take_addresses(asm: &mut Assembler) {
    for at in [LOCAL, LOCAL + 8, REMOTE, REMOTE + 8] {
        take(asm, at);
    }
}

/// Puts the packet's address at `at` aside.
fn keep_address(asm: &mut Assembler, headers: Headers, at: usize, place: i16) {
    if !headers.ipv6 {
        asm.store_imm(Size::Double, Reg::R10, place, 0);
        get(asm, Reg::R1, FRAME, at);
        set_wide(asm, Reg::R2, 0xffff_0000_0000);
        asm.alu(Alu::Or, Reg::R1, Reg::R2);
        return asm.keep(place + 8, Reg::R1);
    }
    for (place, at) in [(place, at), (place + 8, at + 8)] {
        get(asm, Reg::R1, FRAME, at);
        asm.alu(Alu::ShiftLeft, Reg::R1, 32);
        get(asm, Reg::R2, FRAME, at + 4);
        asm.alu(Alu::Or, Reg::R1, Reg::R2);
        asm.keep(place, Reg::R1);
    }
}

/// The greatest of the table's first `entries` that is not above the SYN's MSS.
fn mss_index(asm: &mut Assembler, shape: Shape, index: Reg, entries: usize) {
    let found = asm.label();
    asm.load(Size::Half, Reg::R1, FRAME, shape.options() + 2);
    asm.to_big_endian(Reg::R1, 16);
    asm.set(index, 0);
    for (at, &entry) in MSS_TABLE.iter().enumerate().take(entries).skip(1) {
        asm.jump_if(Reg::R1, Condition::Less, i32::from(entry), found);
        asm.set(index, at as i32);
    }
    asm.bind(found);
}
