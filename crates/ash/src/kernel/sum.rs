//! The Internet checksum of a datagram and its pseudo header (RFC 1071, RFC 768, RFC 8200 §8.1).
//!
//! Read in parts of a length that the verifier knows; the last one is copied.

use exos_filter::ebpf::{Alu, Condition, Helper, Label, Reg, Size};
use exos_filter::handler::arithmetic::{add_words, fold, half};
use exos_wire::protocol;

use super::{CONTEXT, Generator, KEPT, MESSAGE, stack};
use crate::limits::MESSAGE_MAX;

/// Bytes of the UDP header.
pub(super) const HEADER: i32 = 8;
pub(super) const PART_LEN: i32 = 64;
/// Parts that a datagram may have whole.
const PARTS: i32 = (MESSAGE_MAX as i32 + HEADER) / PART_LEN;

/// Where a packet's addresses lie before its message, and how many words they are.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub(super) before: i32,
    pub(super) words: usize,
}

pub(super) const V4: Addresses = Addresses {
    before: 16,
    words: 2,
};
pub(super) const V6: Addresses = Addresses {
    before: 40,
    words: 8,
};

impl Generator<'_> {
    /// `sum` = the pseudo header's, not folded; r1 and r2 are lost. The headers are known to be there.
    pub(super) fn pseudo_header(&mut self, sum: Reg, addresses: Addresses) {
        let from = Reg::R1;
        self.asm.load(Size::Double, sum, Reg::R10, stack::UDP_LEN);
        self.asm.to_big_endian(sum, 16);
        self.asm.alu(Alu::Add, sum, half(u16::from(protocol::UDP)));
        self.asm.set(from, MESSAGE);
        self.asm.alu(Alu::Sub, from, addresses.before);
        add_words(&mut self.asm, sum, from, 0, addresses.words);
    }

    /// Adds the datagram from its header on to r9, whose high half is lost; r0 to r5 are, too.
    pub(super) fn add_datagram(&mut self) {
        let [rest, done] = [self.asm.label(), self.asm.label()];
        for part in 0..=PARTS {
            let from = part * PART_LEN;
            let left = Reg::R4;
            self.asm.load(Size::Double, left, Reg::R10, stack::UDP_LEN);
            self.asm.alu(Alu::Sub, left, from);
            // Where the rest begins in the packet.
            self.asm.load(Size::Double, Reg::R2, Reg::R10, stack::START);
            self.asm.alu(Alu::Add, Reg::R2, from - HEADER);
            if part == PARTS {
                self.asm.jump(rest);
            } else {
                self.asm.jump_if(left, Condition::Less, PART_LEN, rest);
                self.add_part(from - HEADER);
            }
        }
        self.asm.bind(rest);
        self.add_rest(done);
        self.asm.bind(done);
    }

    /// Adds a part where it lies, so far from the message's beginning.
    fn add_part(&mut self, at: i32) {
        let part = Reg::R3;
        self.asm.set(part, MESSAGE);
        self.asm.alu(Alu::Add, part, at);
        self.asm.set(Reg::R1, part);
        self.asm.alu(Alu::Add, Reg::R1, PART_LEN);
        self.end_of_packet(Reg::R2);
        self.asm
            .jump_if(Reg::R1, Condition::Greater, Reg::R2, self.labels.wrong);
        self.add();
    }

    /// Adds the r4 bytes from byte r2 of the packet on, fewer than a part, if there are any.
    fn add_rest(&mut self, done: Label) {
        let wrong = self.labels.wrong;
        let asm = &mut self.asm;
        // Not a comparison with 0 for equality, of which the verifier before Linux 6.2 learns no least length.
        asm.jump_if(Reg::R4, Condition::Less, 1, done);
        asm.jump_if(Reg::R4, Condition::Greater, PART_LEN, wrong);
        for at in (stack::PART..stack::PART + PART_LEN as i16).step_by(8) {
            asm.store_imm(Size::Double, Reg::R10, at, 0);
        }
        asm.set(Reg::R1, CONTEXT);
        asm.set(Reg::R3, Reg::R10);
        asm.alu(Alu::Add, Reg::R3, i32::from(stack::PART));
        asm.call(Helper::XdpLoadBytes);
        asm.jump_if(Reg::R0, Condition::NotEqual, 0, wrong);
        asm.set(Reg::R3, Reg::R10);
        asm.alu(Alu::Add, Reg::R3, i32::from(stack::PART));
        self.add();
    }

    /// Adds a part at r3.
    fn add(&mut self) {
        let asm = &mut self.asm;
        asm.set(Reg::R1, 0);
        asm.set(Reg::R2, 0);
        asm.set(Reg::R4, PART_LEN);
        asm.alu32(Alu::Move, Reg::R5, KEPT);
        asm.call(Helper::CsumDiff);
        asm.set(KEPT, Reg::R0);
    }

    /// r9 = the folded sum of what was added and the pseudo header. r0 to r2 are lost.
    pub(super) fn add_pseudo_header(&mut self, addresses: Addresses) {
        let sum = Reg::R3;
        self.pseudo_header(sum, addresses);
        self.asm.alu32(Alu::Move, KEPT, KEPT);
        self.asm.alu(Alu::Add, KEPT, sum);
        fold(&mut self.asm, KEPT, Reg::R1);
    }
}
