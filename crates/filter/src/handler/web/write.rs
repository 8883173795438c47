//! The headers of what leaves, written over those of what came.

use super::arrive::TIMESTAMPS;
use super::layout::slot;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Reg, Size, half};
use crate::handler::arithmetic::{fold, put, put_known, set_wide};
use crate::handler::forward::Shape as Headers;
use crate::handler::syn::shape::ATOMIC;
use crate::packet::{ETHERTYPE, NETWORK as IP};
use exos_wire::tcp::cookie::{SCALED, SynAck, TIMESTAMP_BITS};
use exos_wire::{Mac, ipv4, protocol, tcp};

/// What is kept of a cookie without timestamps that keeps a window scale.
pub(super) const KEPT_SCALED: i32 = (SCALED << 8) as i32 | (TIMESTAMP_BITS + 1) as i32;

impl Generator<'_> {
    /// The headers.
    pub(super) fn write(&mut self, of: &WebHandler, headers: Headers, stamped: bool) {
        if stamped {
            of.syn.clock(self.asm, headers);
            self.keep(CLOCK, Reg::R0);
        }
        self.load(Size::Word, Reg::R2, CONTEXT, 4);
        self.set(Reg::R1, FRAME);
        let len = headers.upper() + header_len(stamped);
        self.alu(Alu::Add, Reg::R1, len as i32);
        self.jump_if(Reg::R1, Condition::Greater, Reg::R2, self.labels.drop);
        write_ethernet(self.asm, of.syn.mac, headers);
        write_addresses(self.asm, headers);
        write_ip(self.asm, of.syn.says(headers), headers, stamped);
        write_tcp(self.asm, of.syn.says(headers), headers, stamped);
        self.write_checksum(of, headers);
    }

    /// Of the sum in r9. Where a second stage completes the packet, it makes the checksum from nothing.
    fn write_checksum(&mut self, of: &WebHandler, headers: Headers) {
        let (sum, whole) = (Reg::R9, self.label());
        fold(self.asm, sum, Reg::R1);
        if of.second_stage.is_some() {
            self.keep(SEGMENT_SUM, sum);
            let at = headers.checksum() as i32;
            self.store_imm(Size::Double, Reg::R10, CHECKSUM_AT, at);
            self.kept(Reg::R1, IS_SHORT);
            self.jump_if(Reg::R1, Condition::Equal, 0, whole);
            self.set(sum, 0xffff);
            self.bind(whole);
        }
        self.alu(Alu::Xor, sum, 0xffff);
        self.alu(Alu::ShiftLeft, sum, 16);
        put(self.asm, FRAME, headers.checksum(), sum);
    }
}

/// Bytes of TCP's header.
pub(super) const fn header_len(stamped: bool) -> usize {
    if stamped { 32 } else { tcp::LEN }
}

fn write_ethernet(asm: &mut Assembler, mac: Mac, headers: Headers) {
    asm.load(Size::Word, Reg::R1, Reg::R10, PEER_MAC);
    asm.store(Size::Word, FRAME, 0, Reg::R1);
    asm.load(Size::Half, Reg::R1, Reg::R10, PEER_MAC + 4);
    asm.store(Size::Half, FRAME, 4, Reg::R1);
    let [m0, m1, m2, m3, m4, m5] = mac.0;
    put_known(asm, FRAME, 6, u32::from_be_bytes([m0, m1, m2, m3]));
    asm.store_imm(Size::Half, FRAME, 10, half(u16::from_be_bytes([m4, m5])));
    asm.store_imm(Size::Half, FRAME, ETHERTYPE, half(headers.ethertype()));
}

/// Both addresses; leaves their sum in r4.
fn write_addresses(asm: &mut Assembler, headers: Headers) {
    let (word, sum) = (Reg::R1, Reg::R4);
    asm.set(sum, 0);
    for (from, to) in [(LOCAL, headers.addresses()), (REMOTE, headers.receiver())] {
        // IPv4's is the last of four words.
        let first = 4 - headers.address_words() / 2;
        for number in first..4 {
            asm.kept(word, from + 8 * (number as i16 / 2));
            if number % 2 == 0 {
                asm.alu(Alu::ShiftRight, word, 32);
            } else {
                asm.alu32(Alu::Move, word, word);
            }
            asm.alu(Alu::Add, sum, word);
            put(asm, FRAME, to + 4 * (number - first), word);
        }
    }
}

/// The rest of IP's header; the sum of the addresses is in r4. Leaves the bytes that TCP's is of, with what it carries, in r3.
fn write_ip(asm: &mut Assembler, says: SynAck, headers: Headers, stamped: bool) {
    let (word, length, sum) = (Reg::R1, Reg::R3, Reg::R9);
    let (class, hops) = (u32::from(says.class), u32::from(says.hop_limit));
    let tcp = u32::from(protocol::TCP);
    asm.kept(length, OUT_LEN);
    asm.alu(Alu::Add, length, header_len(stamped) as i32);
    asm.set(word, length);
    if headers.ipv6 {
        put_known(asm, FRAME, IP, 6 << 28 | class << 20);
        asm.alu32(Alu::ShiftLeft, word, 16);
        asm.alu32(Alu::Or, word, (tcp << 8 | hops) as i32);
        return put(asm, FRAME, IP + 4, word);
    }
    let first = 0x4500_0000 | class << 16;
    let hops = hops << 24 | tcp << 16;
    let known = u64::from(first) + u64::from(ATOMIC) + u64::from(hops);
    asm.alu(Alu::Add, word, ipv4::LEN as i32);
    set_wide(asm, sum, known);
    asm.alu(Alu::Add, sum, word);
    asm.alu(Alu::Add, sum, Reg::R4);
    asm.alu32(Alu::Or, word, first as i32);
    put(asm, FRAME, IP, word);
    put_known(asm, FRAME, IP + 4, ATOMIC);
    fold(asm, sum, word);
    asm.alu(Alu::Xor, sum, 0xffff);
    asm.alu32(Alu::Or, sum, hops as i32);
    put(asm, FRAME, IP + 8, sum);
}

/// TCP's header: what it is of is in r3, the sum of the addresses in r4. Each word is summed as it is written; leaves
/// the sum in r9.
fn write_tcp(asm: &mut Assembler, says: SynAck, headers: Headers, stamped: bool) {
    let (sum, word) = (Reg::R9, Reg::R1);
    let (at, options) = (headers.upper(), headers.upper() + tcp::LEN);
    asm.set(sum, Reg::R3);
    asm.alu(Alu::Add, sum, i32::from(protocol::TCP));
    asm.alu(Alu::Add, sum, Reg::R4);
    asm.keep(PSEUDO_SUM, sum);
    asm.kept(word, OUT_SUM);
    asm.alu(Alu::Add, sum, word);
    asm.kept(word, PORTS);
    asm.alu(Alu::ShiftRight, word, 32);
    add_and_put(asm, at);
    for (place, at) in [(OUT_SEQ, at + 4), (OUT_ACK, at + 8)] {
        asm.kept(word, place);
        add_and_put(asm, at);
    }
    asm.kept(word, OUT_FLAGS);
    asm.alu(Alu::ShiftLeft, word, 16);
    let length = (header_len(stamped) / 4) as u32;
    asm.alu32(Alu::Or, word, (length << 28) as i32);
    or_window(asm, says, stamped);
    add_and_put(asm, at + 12);
    if stamped {
        set_wide(asm, word, u64::from(TIMESTAMPS));
        add_and_put(asm, options);
        asm.kept(word, CLOCK);
        add_and_put(asm, options + 4);
        asm.load(Size::Word, word, Reg::R10, STAMPS);
        add_and_put(asm, options + 8);
    }
}

/// The window as it stands in segments, into r1: scaled as the slot's cookie has it. Loses r2.
fn or_window(asm: &mut Assembler, says: SynAck, stamped: bool) {
    let [unscaled, known] = [(); 2].map(|()| asm.label());
    let window = i32::from(says.window);
    let scaled = window >> says.scale;
    if stamped {
        return asm.alu32(Alu::Or, Reg::R1, scaled);
    }
    asm.load(Size::Word, Reg::R2, SLOT, slot::KEPT);
    asm.jump_if(Reg::R2, Condition::NotEqual, KEPT_SCALED, unscaled);
    asm.alu32(Alu::Or, Reg::R1, scaled);
    asm.jump(known);
    asm.bind(unscaled);
    asm.alu32(Alu::Or, Reg::R1, window);
    asm.bind(known);
}

/// Adds the word in r1 to the sum in r9, and writes it.
fn add_and_put(asm: &mut Assembler, at: usize) {
    asm.alu(Alu::Add, Reg::R9, Reg::R1);
    put(asm, FRAME, at, Reg::R1);
}
