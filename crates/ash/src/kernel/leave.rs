//! A reply on its way: everything before it turned around, in place.

use exos_filter::ebpf::{Alu, Condition, Label, Reg, Size};
use exos_filter::handler::arithmetic::{add_words, fold, half, put_known};
use exos_wire::protocol;

use super::sum::{Addresses, HEADER, V4, V6};
use super::{CONTEXT, Generator, KEPT, MESSAGE, stack};

const FRAME: Reg = Reg::R2;
const IP: usize = 14;
const HOPS: u32 = 64;

impl Generator<'_> {
    /// From a reply of r9 bytes at the message's place to its verdict.
    pub(super) fn leave(&mut self) {
        let [v6, ready] = [self.asm.label(), self.asm.label()];
        self.asm.bind(self.labels.leave);
        self.asm.alu(Alu::Add, KEPT, HEADER);
        self.asm.store(Size::Double, Reg::R10, stack::UDP_LEN, KEPT);
        self.asm.load(Size::Word, FRAME, CONTEXT, 0);
        self.asm.load(Size::Double, Reg::R1, Reg::R10, stack::START);
        self.asm.jump_if(Reg::R1, Condition::NotEqual, 42, v6);
        self.is_at(42);
        self.turn_around_v4();
        self.finish(V4, ready);
        self.asm.bind(v6);
        self.is_at(62);
        self.turn_around_v6();
        self.finish(V6, ready);
        self.asm.bind(ready);
        self.answered();
    }

    /// Says where the message is.
    fn is_at(&mut self, start: i32) {
        let asm = &mut self.asm;
        asm.store_imm(Size::Double, Reg::R10, stack::START, start);
        asm.set(MESSAGE, FRAME);
        asm.alu(Alu::Add, MESSAGE, start);
    }

    fn expect_headers(&mut self, len: i32) {
        self.asm.set(Reg::R1, FRAME);
        self.asm.alu(Alu::Add, Reg::R1, len);
        self.end_of_packet(Reg::R3);
        self.asm
            .jump_if(Reg::R1, Condition::Greater, Reg::R3, self.labels.wrong);
        for (size, a, b) in [(Size::Word, 0, 6), (Size::Half, 4, 10)] {
            self.swap(size, a, b);
        }
    }

    fn swap(&mut self, size: Size, a: usize, b: usize) {
        self.asm.load(size, Reg::R1, FRAME, a);
        self.asm.load(size, Reg::R3, FRAME, b);
        self.asm.store(size, FRAME, a, Reg::R3);
        self.asm.store(size, FRAME, b, Reg::R1);
    }

    /// One packet, not to be cut (RFC 6864: an identifier says nothing then).
    fn turn_around_v4(&mut self) {
        self.expect_headers(42);
        let asm = &mut self.asm;
        put_known(asm, FRAME, IP, 0x4500_0000);
        asm.set(Reg::R1, KEPT);
        asm.alu(Alu::Add, Reg::R1, 20);
        asm.to_big_endian(Reg::R1, 16);
        asm.store(Size::Half, FRAME, IP + 2, Reg::R1);
        put_known(asm, FRAME, IP + 4, 0x0000_4000);
        let udp = u32::from(protocol::UDP);
        put_known(asm, FRAME, IP + 8, HOPS << 24 | udp << 16);
        self.swap(Size::Word, IP + 12, IP + 16);
        let (from, sum) = (Reg::R3, Reg::R4);
        let asm = &mut self.asm;
        asm.set(sum, 0);
        asm.set(from, FRAME);
        // The sum's own scratch is r2.
        asm.set(Reg::R5, FRAME);
        add_words(asm, sum, from, IP, 5);
        fold(asm, sum, Reg::R1);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.set(FRAME, Reg::R5);
        asm.store(Size::Half, FRAME, IP + 10, sum);
        self.swap(Size::Half, 34, 36);
    }

    fn turn_around_v6(&mut self) {
        self.expect_headers(62);
        let asm = &mut self.asm;
        put_known(asm, FRAME, IP, 0x6000_0000);
        asm.set(Reg::R1, KEPT);
        asm.to_big_endian(Reg::R1, 16);
        asm.store(Size::Half, FRAME, IP + 4, Reg::R1);
        asm.store_imm(Size::Byte, FRAME, IP + 7, HOPS as i32);
        for at in (0..16).step_by(4) {
            self.swap(Size::Word, IP + 8 + at, IP + 24 + at);
        }
        self.swap(Size::Half, 54, 56);
    }

    /// UDP's length and checksum; r9 is UDP's length.
    fn finish(&mut self, addresses: Addresses, ready: Label) {
        let [unknown, known, is_some] = [(); 3].map(|()| self.asm.label());
        self.asm.set(Reg::R1, KEPT);
        self.asm.load(Size::Double, KEPT, Reg::R10, stack::SUM);
        self.asm.jump_if(KEPT, Condition::Equal, 0, unknown);
        // As long as it came: addresses and ports add up to the same the other way round.
        fold(&mut self.asm, KEPT, Reg::R1);
        self.asm.jump(known);
        self.asm.bind(unknown);
        self.asm.to_big_endian(Reg::R1, 16);
        self.asm.store(Size::Half, MESSAGE, -4, Reg::R1);
        self.asm.store_imm(Size::Half, MESSAGE, -2, 0);
        self.asm.set(KEPT, 0);
        self.add_datagram();
        self.add_pseudo_header(addresses);
        self.asm.bind(known);
        self.asm.alu(Alu::Xor, KEPT, 0xffff);
        // RFC 768: a computed zero is sent as all ones, because zero says "none".
        self.asm.jump_if(KEPT, Condition::NotEqual, 0, is_some);
        self.asm.set(KEPT, half(0xffff));
        self.asm.bind(is_some);
        self.asm.store(Size::Half, MESSAGE, -2, KEPT);
        self.asm.jump(ready);
    }
}
