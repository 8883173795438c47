//! A reply on its way: everything before it turned around, in place.

use exos_filter::ebpf::{Alu, Condition, Label, Reg, Size};
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
        let [unknown, known] = [(); 2].map(|()| self.asm.label());
        self.asm.bind(self.labels.leave);
        if self.datagram_length().is_none() {
            self.asm.alu(Alu::Add, KEPT, HEADER);
        }
        self.headers();
        self.finish(unknown, known);
        self.answered();
        self.asm.bind(unknown);
        self.sum_up();
        self.asm.jump(known);
    }

    /// Of the version that the message came by.
    fn headers(&mut self) {
        let [v6, turned] = [(); 2].map(|()| self.asm.label());
        let [has_v4, has_v6] = self.of.versions();
        if has_v4 && has_v6 {
            self.load_start(Reg::R1);
            self.asm
                .jump_if(Reg::R1, Condition::NotEqual, START_MIN, v6);
        }
        if has_v4 {
            if !self.are_headers_known {
                self.expect_message();
            }
            self.turn_around_v4();
        }
        if has_v4 && has_v6 {
            self.asm.jump(turned);
        }
        self.asm.bind(v6);
        if has_v6 {
            self.asm.load(Size::Word, MESSAGE, CONTEXT, 0);
            self.asm.alu(Alu::Sub, MESSAGE, V6.ethernet);
            self.expect_message();
            self.turn_around_v6();
        }
        self.asm.bind(turned);
    }

    /// Says what is so: its headers are there.
    fn expect_message(&mut self) {
        self.end_of_packet(Reg::R1);
        self.asm
            .jump_if(MESSAGE, Condition::Greater, Reg::R1, self.labels.wrong);
    }

    /// What was for us is from us.
    fn turn_around(&mut self, before: Before) {
        let (sender, asm) = (Reg::R1, &mut self.asm);
        let ethernet = before.ethernet;
        for (size, at) in [(Size::Word, 0), (Size::Half, 4)] {
            asm.load(size, sender, MESSAGE, ethernet + 6 + at);
            asm.store(size, MESSAGE, ethernet + at, sender);
        }
        let [m0, m1, m2, m3, m4, m5] = self.of.mac.0;
        let ours = ethernet + 6;
        asm.store_imm(
            Size::Word,
            MESSAGE,
            ours,
            i32::from_ne_bytes([m0, m1, m2, m3]),
        );
        let last = half(u16::from_be_bytes([m4, m5]));
        asm.store_imm(Size::Half, MESSAGE, ours + 4, last);
    }

    fn swap(&mut self, size: Size, a: i32, b: i32) {
        self.asm.load(size, Reg::R1, MESSAGE, a);
        self.asm.load(size, Reg::R3, MESSAGE, b);
        self.asm.store(size, MESSAGE, a, Reg::R3);
        self.asm.store(size, MESSAGE, b, Reg::R1);
    }

    /// The header's sum is that of what is written, known or computed, and of the addresses: nothing of it is read again.
    fn turn_around_v4(&mut self) {
        self.turn_around(V4);
        let (length, sum, ip) = (Reg::R1, Reg::R5, V4.ip);
        let (known, asm) = (self.datagram_length(), &mut self.asm);
        let mut words = WORDS_V4;
        words[0] += known.map_or(0, |length| 20 + u32::from(length));
        for (at, value) in (ip..).step_by(4).zip(words) {
            asm.store_imm(Size::Word, MESSAGE, at, word(value));
        }
        asm.load(Size::Double, sum, Reg::R10, stack::ADDRESSES);
        if known.is_none() {
            asm.set(length, KEPT);
            asm.alu(Alu::Add, length, 20);
            asm.to_big_endian(length, 16);
            asm.store(Size::Half, MESSAGE, ip + 2, length);
            asm.alu(Alu::Add, sum, length);
        }
        let words = words.map(|value| Sum::of(&value.to_be_bytes()));
        let words = words.into_iter().fold(Sum::default(), Sum::plus);
        asm.alu(Alu::Add, sum, half(words.value()));
        fold(asm, sum, Reg::R1);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.store(Size::Half, MESSAGE, ip + 10, sum);
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
        let (ip, asm) = (V6.ip, &mut self.asm);
        asm.store_imm(Size::Word, MESSAGE, ip, word(0x6000_0000));
        match known {
            Some(length) => asm.store_imm(Size::Half, MESSAGE, ip + 4, half(length)),
            None => {
                asm.set(Reg::R1, KEPT);
                asm.to_big_endian(Reg::R1, 16);
                asm.store(Size::Half, MESSAGE, ip + 4, Reg::R1);
            }
        }
        asm.store_imm(Size::Byte, MESSAGE, ip + 7, HOPS as i32);
        for at in (ip + 8..ip + 24).step_by(4) {
            self.swap(Size::Word, at, at + 16);
        }
    }

    /// UDP's ports and checksum. Where the sum is not known both are made elsewhere.
    fn finish(&mut self, unknown: Label, known: Label) {
        let (sum, asm) = (Reg::R4, &mut self.asm);
        asm.load(Size::Half, Reg::R1, MESSAGE, PORTS);
        asm.store(Size::Half, MESSAGE, PORTS + 2, Reg::R1);
        asm.store_imm(Size::Half, MESSAGE, PORTS, half(self.of.port));
        asm.jump_if(sum, Condition::Equal, 0, unknown);
        // As long as it came: addresses and ports add up to the same the other way round.
        asm.bind(known);
        // RFC 768: never zero, which says "none".
        checksum(asm, sum, Reg::R1);
        asm.store(Size::Half, MESSAGE, CHECKSUM, sum);
    }

    /// r4 = the sum of a datagram, all of whose bytes are read. It says so, and has no checksum yet.
    fn sum_up(&mut self) {
        if self.of.versions() == [true, true] {
            self.find_any_message();
            self.expect_message();
        }
        let (known, asm) = (self.datagram_length(), &mut self.asm);
        if let Some(length) = known {
            asm.set(KEPT, i32::from(length));
        }
        asm.set(LEFT, KEPT);
        asm.to_big_endian(KEPT, 16);
        asm.store(Size::Half, MESSAGE, UDP_LENGTH, KEPT);
        asm.store_imm(Size::Half, MESSAGE, CHECKSUM, 0);
        asm.load(Size::Double, KEPT, Reg::R10, stack::ADDRESSES);
        self.add_pseudo_header();
        self.add_any_datagram();
        self.asm.set(Reg::R4, KEPT);
    }
}
