//! The answer, written over the SYN in its frame.

use super::settings::SynHandler;
use super::shape::{
    ATOMIC, FRAME, ISS, MSS_OPTION, NOPS_AND_SACK, Offers, PORTS, SACK_AND_TIMESTAMPS, SAID,
    SCALE_OPTION, SYN_ACK, Shape,
};
use crate::ebpf::{Alu, Assembler, Emit, Reg, Size};
use crate::handler::arithmetic::{fold, get, half, put, put_known, set_wide};
use crate::handler::forward::Shape as Headers;
use crate::packet::NETWORK as IP;
use exos_wire::tcp::cookie::SynAck;
use exos_wire::{ipv4, protocol};

/// The sum of both addresses.
const ADDRESSES: Reg = Reg::R5;

impl SynHandler {
    /// What is said over the version of IP.
    pub(in crate::handler) fn says(&self, headers: Headers) -> SynAck {
        match headers.ipv6 {
            true => self.recipe.v6,
            false => self.recipe.v4,
        }
    }

    /// Ethernet and IP of the answer. Leaves the sum of the addresses in r5.
    pub(super) fn write_before_tcp(&self, asm: &mut Assembler, shape: Shape) {
        asm.load(Size::Word, Reg::R1, FRAME, 6);
        asm.load(Size::Half, Reg::R2, FRAME, 10);
        asm.store(Size::Word, FRAME, 0, Reg::R1);
        asm.store(Size::Half, FRAME, 4, Reg::R2);
        let [m0, m1, m2, m3, m4, m5] = self.mac.0;
        put_known(asm, FRAME, 6, u32::from_be_bytes([m0, m1, m2, m3]));
        let last = half(u16::from_be_bytes([m4, m5]));
        asm.store_imm(Size::Half, FRAME, 10, last);
        turn_addresses(asm, shape.headers);
        let says = self.says(shape.headers);
        let length = 4 * shape.words() as u32;
        let (class, hops) = (u32::from(says.class), u32::from(says.hop_limit));
        let tcp = u32::from(protocol::TCP);
        if shape.headers.ipv6 {
            put_known(asm, FRAME, IP, 6 << 28 | class << 20);
            put_known(asm, FRAME, IP + 4, length << 16 | tcp << 8 | hops);
            return;
        }
        let sum = Reg::R8;
        let first = 0x4500_0000 | class << 16 | (ipv4::LEN as u32 + length);
        let hops = hops << 24 | tcp << 16;
        let known = u64::from(first) + u64::from(ATOMIC) + u64::from(hops);
        set_wide(asm, sum, known);
        asm.alu(Alu::Add, sum, ADDRESSES);
        fold(asm, sum, Reg::R1);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.alu32(Alu::Or, sum, hops as i32);
        put_known(asm, FRAME, IP, first);
        put_known(asm, FRAME, IP + 4, ATOMIC);
        put(asm, FRAME, IP + 8, sum);
    }

    /// TCP of the answer; the timestamp is in r9.
    pub(super) fn write_tcp(&self, asm: &mut Assembler, shape: Shape) {
        let (sum, word) = (Reg::R8, Reg::R1);
        let says = self.says(shape.headers);
        let (tcp, options) = (shape.tcp(), shape.options());
        let offset_flags_window =
            (shape.words() as u32) << 28 | SYN_ACK << 16 | u32::from(says.window);
        let mut known = vec![(tcp + 12, offset_flags_window), (tcp + 16, 0)];
        known.push((options, MSS_OPTION | u32::from(says.mss)));
        let scale = SCALE_OPTION | u32::from(says.scale);
        match shape.offers {
            Offers::Mss => {}
            Offers::Scaled => known.extend([(options + 4, NOPS_AND_SACK), (options + 8, scale)]),
            Offers::All => {
                known.extend([(options + 4, SACK_AND_TIMESTAMPS), (options + 16, scale)])
            }
        }
        let length = 4 * shape.words() as u64 + u64::from(protocol::TCP);
        let all: u64 = known.iter().map(|&(_, word)| u64::from(word)).sum();
        set_wide(asm, sum, all + length);
        asm.alu(Alu::Add, sum, ADDRESSES);
        for (at, value) in known {
            put_known(asm, FRAME, at, value);
        }
        asm.kept(word, PORTS);
        asm.alu(Alu::ShiftRight, word, 32);
        asm.alu32(Alu::And, word, 0xffff);
        asm.alu32(Alu::Or, word, (u32::from(self.recipe.port) << 16) as i32);
        add_and_put(asm, tcp);
        asm.kept(word, ISS);
        add_and_put(asm, tcp + 4);
        asm.kept(word, SAID);
        asm.alu(Alu::ShiftRight, word, 32);
        asm.alu32(Alu::Add, word, 1);
        add_and_put(asm, tcp + 8);
        if shape.offers == Offers::All {
            get(asm, word, FRAME, options + 8);
            add_and_put(asm, options + 12);
            asm.set(word, Reg::R9);
            add_and_put(asm, options + 8);
        }
        fold(asm, sum, word);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.to_big_endian(sum, 16);
        asm.store(Size::Half, FRAME, shape.headers.checksum(), sum);
    }
}

/// Source and destination change places.
fn turn_addresses(asm: &mut Assembler, headers: Headers) {
    let (source, receiver) = (headers.addresses(), headers.receiver());
    asm.set(ADDRESSES, 0);
    for at in (0..receiver - source).step_by(4) {
        for (address, word) in [(source, Reg::R1), (receiver, Reg::R2)] {
            get(asm, word, FRAME, address + at);
            asm.alu(Alu::Add, ADDRESSES, word);
        }
        put(asm, FRAME, receiver + at, Reg::R1);
        put(asm, FRAME, source + at, Reg::R2);
    }
}

/// Adds the word in r1 to the sum in r8, and writes it.
fn add_and_put(asm: &mut Assembler, at: usize) {
    asm.alu(Alu::Add, Reg::R8, Reg::R1);
    put(asm, FRAME, at, Reg::R1);
}
