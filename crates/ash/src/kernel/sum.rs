//! The Internet checksum of a datagram and its pseudo header (RFC 1071, RFC 768, RFC 8200 §8.1).
//!
//! Read in parts whose length the verifier knows: long ones by a helper, others word by word. A call of the helper takes as long as 512
//! bytes word by word; those are too many instructions.

use std::ops::Range;

use exos_filter::ebpf::{Alu, Condition, Emit, Helper, Label, Reg, Size};
use exos_filter::handler::arithmetic::{fold, half};
use exos_wire::protocol;

use super::{Generator, KEPT, LENGTH, MESSAGE, stack};
use crate::limits::MESSAGE_MAX;

/// Bytes of the UDP header.
pub(super) const HEADER: i32 = 8;
/// Bytes that the helper takes at once.
const HELPED_MAX: i32 = 512;
/// Bytes of the longest part that is added word by word.
const WORDS_MAX: i32 = 256;

/// A power of two beyond twice the longest part, so that the verifier does not know where the longest begins.
const LEFT_END: i32 = 4096;

const _: () = assert!(MESSAGE_MAX as i32 + HEADER < 2048, "the bits of a length");

/// The bytes of the datagram, while it is summed, and where in the packet the part lies.
pub(super) const LEFT: Reg = Reg::R4;
const PART: Reg = Reg::R3;

impl Generator<'_> {
    /// r9, the sum of the addresses, becomes the pseudo header's; not folded. r1 is lost.
    pub(super) fn add_pseudo_header(&mut self) {
        let length = Reg::R1;
        self.load(Size::Half, length, MESSAGE, -4);
        self.alu(Alu::Add, KEPT, length);
        let udp = half(u16::from(protocol::UDP));
        self.alu(Alu::Add, KEPT, udp);
    }

    /// Adds the datagram from its header on to r9; r0 to r5 are lost. One as long as the handler says that its messages are, at least, is
    /// added in a straight line; others elsewhere.
    pub(super) fn add_datagram(&mut self) {
        let [other, added] = [(); 2].map(|()| self.label());
        let likely = self.of.handler.likely_length();
        self.jump_if(LENGTH, Condition::NotEqual, likely, other);
        self.expect_part(MESSAGE, likely);
        self.add_part(MESSAGE, -HEADER..likely);
        self.bind(added);
        self.others.push([other, added]);
    }

    /// What [`Self::add_datagram`] leaves.
    pub(super) fn add_others(&mut self) {
        for [other, added] in std::mem::take(&mut self.others) {
            self.bind(other);
            self.set(LEFT, LENGTH);
            self.alu(Alu::Add, LEFT, HEADER);
            self.add_any_datagram();
            self.jump(added);
        }
    }

    /// It is taken apart by the bits of its length, r4.
    ///
    /// What comes of a branch is lost before its ways meet, so that the verifier follows what comes next once. To it each part begins
    /// somewhere in the packet: if it were known how far from the message, the message would be known to reach to the part's end.
    pub(super) fn add_any_datagram(&mut self) {
        let few = self.label();
        self.alu(Alu::ShiftLeft, LEFT, 16);
        self.keep(stack::UDP_LEN, LEFT);
        self.jump_if(LEFT, Condition::Less, (2 * WORDS_MAX) << 16, few);
        fold(&mut self.asm, KEPT, Reg::R1);
        for bytes in [1024, 512] {
            self.add_by_helper(bytes);
        }
        self.alu32(Alu::Move, KEPT, KEPT);
        self.bind(few);
        self.load_left();
        self.begin_of(2 * WORDS_MAX);
        for bytes in [WORDS_MAX, 128, 64, 32, 16, 8, 4, 2, 1] {
            self.add_word_by_word(bytes);
        }
    }

    /// r4 = the datagram's bytes, of which the verifier knows no more than that they are less than [`LEFT_END`].
    fn load_left(&mut self) {
        self.load(Size::Half, LEFT, Reg::R10, stack::UDP_LEN + 2);
        self.alu(Alu::And, LEFT, LEFT_END - 1);
    }

    /// r3 = where the bytes begin that `behind` does not divide.
    fn begin_of(&mut self, behind: i32) {
        self.set(PART, LEFT);
        self.alu(Alu::And, PART, -behind);
        self.alu(Alu::Add, PART, MESSAGE);
        self.alu(Alu::Sub, PART, HEADER);
    }

    /// Adds a part where the datagram has it.
    fn add_by_helper(&mut self, bytes: i32) {
        let none = self.label();
        self.load_left();
        self.jump_without(bytes, none);
        for begin in (0..bytes).step_by(HELPED_MAX as usize) {
            let len = bytes.min(HELPED_MAX);
            self.load_left();
            self.begin_of(2 * bytes);
            self.alu(Alu::Add, PART, begin);
            self.expect_part(PART, len);
            self.set(Reg::R1, 0);
            self.set(Reg::R2, 0);
            self.set(Reg::R4, len);
            self.alu32(Alu::Move, Reg::R5, KEPT);
            self.call(Helper::CsumDiff);
            self.set(KEPT, Reg::R0);
        }
        self.bind(none);
    }

    fn add_word_by_word(&mut self, bytes: i32) {
        let (none, next) = (self.label(), Reg::R5);
        self.set(next, LEFT);
        self.alu(Alu::And, next, bytes);
        self.alu(Alu::Add, next, PART);
        self.jump_without(bytes, none);
        self.expect_part(PART, bytes);
        self.add_part(PART, 0..bytes);
        self.bind(none);
        self.set(PART, next);
    }

    /// Adds a part that is there; r0 and r1 are lost.
    fn add_part(&mut self, from: Reg, part: Range<i32>) {
        let (word, other) = (Reg::R1, Reg::R0);
        // An addition waits for the last one to the same sum, so there are two.
        self.set(other, 0);
        let mut at = part.start;
        while at < part.end {
            let (size, len) = match part.end - at {
                4.. => (Size::Word, 4),
                2.. => (Size::Half, 2),
                _ => (Size::Byte, 1),
            };
            self.load(size, word, from, at);
            // A last byte is the first of its half word (RFC 1071 §4.1).
            if size == Size::Byte {
                self.alu(Alu::ShiftLeft, word, 8);
                self.to_big_endian(word, 16);
            }
            let sum = if at % 8 == 0 { KEPT } else { other };
            self.alu(Alu::Add, sum, word);
            at += len;
        }
        self.alu(Alu::Add, KEPT, other);
    }

    /// A bit of the length; r1 is lost.
    fn jump_without(&mut self, bytes: i32, none: Label) {
        self.set(Reg::R1, LEFT);
        self.alu(Alu::And, Reg::R1, bytes);
        self.jump_if(Reg::R1, Condition::Equal, 0, none);
    }

    /// Says what is so: the part is within the packet. r1 and r2 are lost.
    fn expect_part(&mut self, part: Reg, bytes: i32) {
        self.set(Reg::R1, part);
        self.alu(Alu::Add, Reg::R1, bytes);
        self.end_of_packet(Reg::R2);
        self.jump_if(Reg::R1, Condition::Greater, Reg::R2, self.labels.wrong);
    }
}
