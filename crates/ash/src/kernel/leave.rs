//! A reply on its way: everything before it turned around, in place.

use exos_filter::ebpf::{Alu, Condition, Emit, Label, Reg, Size};
use exos_filter::handler::arithmetic::{checksum, fold, half, word};
use exos_wire::{Sum, protocol};

use super::sum::{HEADER, LEFT};
use super::{CONTEXT, Generator, KEPT, MESSAGE, START_MIN, stack};

/// Where things lie before the message: Ethernet's header is the first, UDP's the last.
const V4: Before = Before {
    ethernet: -START_MIN,
    ip: -28,
};
const V6: Before = Before {
    ethernet: -62,
    ip: -48,
};
const PORTS: i32 = -HEADER;
const UDP_LENGTH: i32 = -4;
const CHECKSUM: i32 = -2;
const HOPS: u32 = 64;

#[derive(Clone, Copy)]
struct Before {
    ethernet: i32,
    ip: i32,
}

/// The words of IPv4's header before its addresses, without its length: one packet, not to be cut (RFC 6864: an identifier says nothing
/// then).
const WORDS_V4: [u32; 3] = [
    0x4500_0000,
    0x0000_4000,
    HOPS << 24 | (protocol::UDP as u32) << 16,
];

impl Generator<'_> {
    /// From a reply of r9 bytes at the message's place, whose sum is r4 or not known, to its verdict.
    pub(super) fn leave(&mut self) {
        let [unknown, known] = [(); 2].map(|()| self.label());
        self.bind(self.labels.leave);
        if self.datagram_length().is_none() {
            self.alu(Alu::Add, KEPT, HEADER);
        }
        self.headers();
        self.finish(unknown, known);
        self.answered();
        self.bind(unknown);
        self.sum_up();
        self.jump(known);
    }

    /// Of the version that the message came by.
    fn headers(&mut self) {
        let [v6, turned] = [(); 2].map(|()| self.label());
        let [has_v4, has_v6] = self.of.versions();
        if has_v4 && has_v6 {
            self.load_start(Reg::R1);
            self.jump_if(Reg::R1, Condition::NotEqual, START_MIN, v6);
        }
        if has_v4 {
            if !self.are_headers_known {
                self.expect_message();
            }
            self.turn_around_v4();
        }
        if has_v4 && has_v6 {
            self.jump(turned);
        }
        self.bind(v6);
        if has_v6 {
            self.load(Size::Word, MESSAGE, CONTEXT, 0);
            self.alu(Alu::Sub, MESSAGE, V6.ethernet);
            self.expect_message();
            self.turn_around_v6();
        }
        self.bind(turned);
    }

    /// Says what is so: its headers are there.
    fn expect_message(&mut self) {
        self.end_of_packet(Reg::R1);
        self.jump_if(MESSAGE, Condition::Greater, Reg::R1, self.labels.wrong);
    }

    /// What was for us is from us.
    fn turn_around(&mut self, before: Before) {
        let sender = Reg::R1;
        let ethernet = before.ethernet;
        for (size, at) in [(Size::Word, 0), (Size::Half, 4)] {
            self.load(size, sender, MESSAGE, ethernet + 6 + at);
            self.store(size, MESSAGE, ethernet + at, sender);
        }
        let [m0, m1, m2, m3, m4, m5] = self.of.mac.0;
        let ours = ethernet + 6;
        self.store_imm(
            Size::Word,
            MESSAGE,
            ours,
            i32::from_ne_bytes([m0, m1, m2, m3]),
        );
        let last = half(u16::from_be_bytes([m4, m5]));
        self.store_imm(Size::Half, MESSAGE, ours + 4, last);
    }

    fn swap(&mut self, size: Size, a: i32, b: i32) {
        self.load(size, Reg::R1, MESSAGE, a);
        self.load(size, Reg::R3, MESSAGE, b);
        self.store(size, MESSAGE, a, Reg::R3);
        self.store(size, MESSAGE, b, Reg::R1);
    }

    /// The header's sum is that of what is written, known or computed, and of the addresses: nothing of it is read again.
    fn turn_around_v4(&mut self) {
        self.turn_around(V4);
        let (length, sum, ip) = (Reg::R1, Reg::R5, V4.ip);
        let known = self.datagram_length();
        let mut words = WORDS_V4;
        words[0] += known.map_or(0, |length| 20 + u32::from(length));
        for (at, value) in (ip..).step_by(4).zip(words) {
            self.store_imm(Size::Word, MESSAGE, at, word(value));
        }
        self.kept(sum, stack::ADDRESSES);
        if known.is_none() {
            self.set(length, KEPT);
            self.alu(Alu::Add, length, 20);
            self.to_big_endian(length, 16);
            self.store(Size::Half, MESSAGE, ip + 2, length);
            self.alu(Alu::Add, sum, length);
        }
        let words = words.map(|value| Sum::of(&value.to_be_bytes()));
        let words = words.into_iter().fold(Sum::default(), Sum::plus);
        self.alu(Alu::Add, sum, half(words.value()));
        fold(&mut self.asm, sum, Reg::R1);
        self.alu(Alu::Xor, sum, 0xffff);
        self.store(Size::Half, MESSAGE, ip + 10, sum);
        self.swap(Size::Word, ip + 12, ip + 16);
    }

    /// Of all replies, if they have one; else it is r9.
    fn datagram_length(&self) -> Option<u16> {
        let length = self.of.handler.reply_length();
        length.map(|bytes| bytes + HEADER as u16)
    }

    fn turn_around_v6(&mut self) {
        self.turn_around(V6);
        let known = self.datagram_length();
        let ip = V6.ip;
        self.store_imm(Size::Word, MESSAGE, ip, word(0x6000_0000));
        match known {
            Some(length) => self.store_imm(Size::Half, MESSAGE, ip + 4, half(length)),
            None => {
                self.set(Reg::R1, KEPT);
                self.to_big_endian(Reg::R1, 16);
                self.store(Size::Half, MESSAGE, ip + 4, Reg::R1);
            }
        }
        self.store_imm(Size::Byte, MESSAGE, ip + 7, HOPS as i32);
        for at in (ip + 8..ip + 24).step_by(4) {
            self.swap(Size::Word, at, at + 16);
        }
    }

    /// UDP's ports and checksum. Where the sum is not known both are made elsewhere.
    fn finish(&mut self, unknown: Label, known: Label) {
        let sum = Reg::R4;
        self.load(Size::Half, Reg::R1, MESSAGE, PORTS);
        self.store(Size::Half, MESSAGE, PORTS + 2, Reg::R1);
        self.store_imm(Size::Half, MESSAGE, PORTS, half(self.of.port));
        self.jump_if(sum, Condition::Equal, 0, unknown);
        // As long as it came: addresses and ports add up to the same the other way round.
        self.bind(known);
        // RFC 768: never zero, which says "none".
        checksum(&mut self.asm, sum, Reg::R1);
        self.store(Size::Half, MESSAGE, CHECKSUM, sum);
    }

    /// r4 = the sum of a datagram, all of whose bytes are read. It says so, and has no checksum yet.
    fn sum_up(&mut self) {
        if self.of.versions() == [true, true] {
            self.find_any_message();
            self.expect_message();
        }
        let known = self.datagram_length();
        if let Some(length) = known {
            self.set(KEPT, i32::from(length));
        }
        self.set(LEFT, KEPT);
        self.to_big_endian(KEPT, 16);
        self.store(Size::Half, MESSAGE, UDP_LENGTH, KEPT);
        self.store_imm(Size::Half, MESSAGE, CHECKSUM, 0);
        self.kept(KEPT, stack::ADDRESSES);
        self.add_pseudo_header();
        self.add_any_datagram();
        self.set(Reg::R4, KEPT);
    }
}
