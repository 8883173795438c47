//! Code of shares: who may go when not all can.
//!
//! Each slot has a bucket that fills at its guaranteed rate, the link one that fills at its own. A packet that its
//! slot's bucket allows always goes, and is charged to both. One beyond it goes while the link's bucket has tokens
//! left, that is while others leave some of their shares unused. So nothing is wasted, nobody is starved, and no
//! control loop runs. [`super::model::police`] is the meaning.

use super::code::{CHARGE, Code, Side};
use super::layout::Slot;
use super::limits::{REFILL_NS_MAX, REFILL_NS_MIN, SEGMENT_HEADERS_LEN};
use crate::ebpf::{Alu, Condition, Helper, Insn, Label, Reg, Size};

/// Offsets in [`super::layout::Bucket`].
const RATE: i16 = 0;
const BURST: i16 = 8;
const TOKENS: i16 = 16;
const LAST: i16 = 24;
/// Offset of the flags in [`Slot`].
const FLAGS: i16 = 14;
/// Offset of the bucket of what arrives in [`Slot`].
pub(super) const SLOT_RX: i16 = 16;
/// Offset of the bucket of what is sent in [`Slot`].
pub(super) const SLOT_TX: i16 = 48;

const SLOT_POINTER: Reg = Reg::R7;
const LINK: Reg = Reg::R8;
const NOW: Reg = Reg::R9;

/// Offset of `gso_size` in `struct __sk_buff`: bytes of each segment of a super-packet, else 0.
pub(super) const SEGMENT_SIZE: i16 = 176;

impl Code<'_> {
    /// What the frame, its length in r0, costs: a super-packet as much as its segments with a header each. Otherwise
    /// whoever asks for tiny segments would get many times his share.
    pub(super) fn weigh(&mut self) {
        let whole = self.asm.label();
        if self.side != Side::In {
            self.load(Size::Word, Reg::R1, Reg::R6, SEGMENT_SIZE);
            self.asm.jump_if(Reg::R1, Condition::Equal, 0, whole);
            self.asm.set(Reg::R2, Reg::R0);
            self.asm.alu(Alu::Div, Reg::R2, Reg::R1);
            self.asm.alu(Alu::Mul, Reg::R2, SEGMENT_HEADERS_LEN);
            self.asm.alu(Alu::Add, Reg::R0, Reg::R2);
        }
        self.asm.bind(whole);
        self.put(CHARGE, Reg::R0);
    }

    /// Charge the frame to the slot that r7 points to, or go to `over`. Uses r8 and r9.
    pub(super) fn police(&mut self, bucket: i16, link: u32, over: Label) {
        let [go, excess] = [(); 2].map(|()| self.asm.label());
        self.lookup_index(self.maps.link_buckets, link as i32, go);
        self.asm.set(LINK, Reg::R0);
        self.load(Size::Double, Reg::R1, SLOT_POINTER, bucket + RATE);
        self.load(Size::Double, Reg::R2, LINK, RATE);
        self.asm.alu(Alu::Or, Reg::R1, Reg::R2);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, go);
        self.asm.call(Helper::KtimeGetNs);
        self.asm.set(NOW, Reg::R0);

        self.load(Size::Double, Reg::R1, SLOT_POINTER, bucket + RATE);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, excess);
        self.refill(SLOT_POINTER, bucket);
        self.spend(SLOT_POINTER, bucket, excess);
        self.load(Size::Double, Reg::R1, LINK, RATE);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, go);
        self.refill(LINK, 0);
        self.charge(LINK, 0);
        self.asm.jump(go);

        self.asm.bind(excess);
        self.load(Size::Double, Reg::R1, LINK, RATE);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, over);
        self.load(Size::Half, Reg::R1, SLOT_POINTER, FLAGS);
        self.asm
            .jump_if(Reg::R1, Condition::Set, i32::from(Slot::CAPPED), over);
        self.refill(LINK, 0);
        self.spend(LINK, 0, over);
        self.asm.bind(go);
    }

    /// Take what the frame costs if there are tokens at all, else go to `none`.
    fn spend(&mut self, pointer: Reg, bucket: i16, none: Label) {
        self.load(Size::Double, Reg::R1, pointer, bucket + TOKENS);
        self.asm
            .jump_if(Reg::R1, Condition::SignedLessOrEqual, 0, none);
        self.charge(pointer, bucket);
    }

    fn charge(&mut self, pointer: Reg, bucket: i16) {
        self.asm.set(Reg::R1, 0);
        self.get(Reg::R2, CHARGE);
        self.asm.alu(Alu::Sub, Reg::R1, Reg::R2);
        self.asm
            .push(Insn::atomic_add(pointer, bucket + TOKENS, Reg::R1));
    }

    /// Whoever moves `last` on gives the tokens of the time between: one CPU of many.
    fn refill(&mut self, pointer: Reg, bucket: i16) {
        let [done, full, give, fits] = [(); 4].map(|()| self.asm.label());
        self.load(Size::Double, Reg::R1, pointer, bucket + LAST);
        self.asm.set(Reg::R2, NOW);
        self.asm.alu(Alu::Sub, Reg::R2, Reg::R1);
        // Signed: another CPU may have read a later time.
        self.asm
            .jump_if(Reg::R2, Condition::SignedLess, REFILL_NS_MIN as i32, done);
        self.asm.set(Reg::R0, Reg::R1);
        self.asm
            .push(Insn::compare_exchange(pointer, bucket + LAST, NOW));
        self.asm
            .jump_if(Reg::R0, Condition::NotEqual, Reg::R1, done);
        self.load(Size::Double, Reg::R3, pointer, bucket + BURST);
        self.asm
            .jump_if(Reg::R2, Condition::Greater, REFILL_NS_MAX as i32, full);
        self.load(Size::Double, Reg::R4, pointer, bucket + RATE);
        self.asm.alu(Alu::Mul, Reg::R4, Reg::R2);
        self.asm.alu(Alu::Div, Reg::R4, 1_000_000_000);
        self.asm.jump(give);
        self.asm.bind(full);
        self.asm.set(Reg::R4, i32::MAX);
        self.asm.alu(Alu::ShiftLeft, Reg::R4, 31);
        self.asm.bind(give);
        // No more than there is room for.
        self.load(Size::Double, Reg::R1, pointer, bucket + TOKENS);
        self.asm.alu(Alu::Sub, Reg::R3, Reg::R1);
        self.asm
            .jump_if(Reg::R3, Condition::SignedLessOrEqual, 0, done);
        self.asm
            .jump_if(Reg::R4, Condition::LessOrEqual, Reg::R3, fits);
        self.asm.set(Reg::R4, Reg::R3);
        self.asm.bind(fits);
        self.asm
            .push(Insn::atomic_add(pointer, bucket + TOKENS, Reg::R4));
        self.asm.bind(done);
    }
}
