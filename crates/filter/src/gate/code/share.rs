//! Code of shares: who may go when not all can.
//!
//! Each slot has a bucket that fills at its guaranteed rate, the link one that fills at its own. A packet that its
//! slot's bucket allows always goes, and is charged to both. One beyond it goes while the link's bucket has tokens
//! left, that is while others leave some of their shares unused, and while the slot has not had more of that than its
//! part. So nothing is wasted, nobody is starved, and no control loop runs. `tests/all/gate/model/buckets.rs` computes it in plain Rust.

use super::{CHARGE, Code, Side};
use crate::ebpf::{Alu, Condition, Emit, Helper, Insn, Label, Reg, Size};
use crate::gate::limits::{
    FADE_NS, FADE_SHIFT, PAUSE_SHIFT, PAUSES_MAX, PAUSES_PER_SEC, REFILL_NS_MAX, REFILL_NS_MIN,
    SEGMENT_HEADERS_LEN,
};

/// Offsets in [`crate::gate::layout::Bucket`].
const RATE: i16 = 0;
const BURST: i16 = 8;
pub(in crate::gate) const TOKENS: i16 = 16;
const LAST: i16 = 24;
/// Offsets in [`crate::gate::layout::Share`].
const GUARANTEE: i16 = 0;
const CEILING: i16 = 32;
const PART: i16 = 64;
const USED: i16 = 72;
const SINCE: i16 = 80;
/// Offset of the share of what arrives in [`crate::gate::layout::Slot`].
pub(in crate::gate) const SLOT_RX: i16 = 16;
/// Offset of the share of what is sent in [`crate::gate::layout::Slot`].
pub(in crate::gate) const SLOT_TX: i16 = 104;

const SLOT_POINTER: Reg = Reg::R7;
const LINK: Reg = Reg::R8;
const NOW: Reg = Reg::R9;

/// Offset of `gso_size` in `struct __sk_buff`: bytes of each segment of a super-packet, else 0.
pub(in crate::gate) const SEGMENT_SIZE: i16 = 176;

impl Code<'_> {
    /// What the frame, its length in r0, costs: a super-packet as much as its segments with a header each. Otherwise
    /// anyone who asks for tiny segments would get many times their share.
    pub(in crate::gate) fn weigh(&mut self) {
        let whole = self.label();
        // A batch has no super-packets.
        if matches!(self.side, Side::Out | Side::Host) {
            self.load(Size::Word, Reg::R1, Reg::R6, SEGMENT_SIZE);
            self.jump_if(Reg::R1, Condition::Equal, 0, whole);
            self.set(Reg::R2, Reg::R0);
            self.alu(Alu::Div, Reg::R2, Reg::R1);
            self.alu(Alu::Mul, Reg::R2, SEGMENT_HEADERS_LEN);
            self.alu(Alu::Add, Reg::R0, Reg::R2);
        }
        self.bind(whole);
        self.put(CHARGE, Reg::R0);
    }

    /// Charge the frame to the slot that r7 points to, whose share is at `share`, or go to `over`. Uses r8 and r9.
    pub(in crate::gate) fn police(&mut self, share: i16, link: u32, over: Label) {
        let [go, limited, divided, within] = [(); 4].map(|()| self.label());
        self.lookup_index(self.maps.link_buckets, link as i32, go);
        self.set(LINK, Reg::R0);
        self.load(Size::Double, Reg::R1, SLOT_POINTER, share + CEILING + RATE);
        self.load(Size::Double, Reg::R2, LINK, RATE);
        self.alu(Alu::Or, Reg::R1, Reg::R2);
        self.jump_if(Reg::R1, Condition::Equal, 0, go);
        self.call(Helper::KtimeGetNs);
        self.set(NOW, Reg::R0);

        self.load(Size::Double, Reg::R1, SLOT_POINTER, share + CEILING + RATE);
        self.jump_if(Reg::R1, Condition::Equal, 0, divided);
        self.refill(SLOT_POINTER, share + CEILING);
        self.need_tokens(SLOT_POINTER, share + CEILING, over);

        self.bind(divided);
        self.load(Size::Double, Reg::R1, LINK, RATE);
        self.jump_if(Reg::R1, Condition::Equal, 0, limited);
        self.refill(LINK, 0);
        self.spend_guarantee(share + GUARANTEE, within);
        self.spend_unused(share, over);
        self.bind(within);
        self.charge(LINK, TOKENS);

        self.bind(limited);
        self.load(Size::Double, Reg::R1, SLOT_POINTER, share + CEILING + RATE);
        self.jump_if(Reg::R1, Condition::Equal, 0, go);
        self.charge(SLOT_POINTER, share + CEILING + TOKENS);
        self.bind(go);
    }

    /// Takes what is in [`CHARGE`] from the bucket at this offset of what r8 points to, or goes to `over`. Uses r9. The time is that of the kernel's
    /// last tick, which costs a fraction of a clock's: a bucket that holds what several ticks give fills as fast.
    pub(in crate::gate) fn spend(&mut self, bucket: i16, over: Label) {
        self.call(Helper::KtimeGetCoarseNs);
        self.set(NOW, Reg::R0);
        self.refill(LINK, bucket);
        self.need_tokens(LINK, bucket, over);
        self.charge(LINK, bucket + TOKENS);
    }

    /// Go to `done` when the guarantee allows the frame, charged with it.
    fn spend_guarantee(&mut self, guarantee: i16, done: Label) {
        let beyond = self.label();
        self.load(Size::Double, Reg::R1, SLOT_POINTER, guarantee + RATE);
        self.jump_if(Reg::R1, Condition::Equal, 0, beyond);
        self.refill(SLOT_POINTER, guarantee);
        self.need_tokens(SLOT_POINTER, guarantee, beyond);
        self.charge(SLOT_POINTER, guarantee + TOKENS);
        self.jump(done);
        self.bind(beyond);
    }

    /// Take the frame's cost from what others leave unused, or go to `over`.
    fn spend_unused(&mut self, share: i16, over: Label) {
        self.fade(share);
        self.need_tokens(LINK, 0, over);
        // r1 has the tokens.
        self.load(Size::Double, Reg::R2, SLOT_POINTER, share + PART);
        self.alu(Alu::Mul, Reg::R1, Reg::R2);
        self.load(Size::Double, Reg::R2, SLOT_POINTER, share + USED);
        self.alu(Alu::ShiftLeft, Reg::R2, 4);
        self.jump_if(Reg::R2, Condition::SignedGreater, Reg::R1, over);
        self.get(Reg::R1, CHARGE);
        self.push(Insn::atomic_add(SLOT_POINTER, share + USED, Reg::R1));
    }

    /// What was used lately becomes less with time. Anyone who moves `since` on does it: one CPU of many. One that was held
    /// up before it subtracts may take what another took already: less than nothing is nothing the next time.
    fn fade(&mut self, share: i16) {
        let [done, part, faded] = [(); 3].map(|()| self.label());
        self.take_time(SLOT_POINTER, share + SINCE, done);
        self.jump_if(Reg::R2, Condition::LessOrEqual, FADE_NS as i32, part);
        self.set(Reg::R2, FADE_NS as i32);
        self.bind(part);
        self.load(Size::Double, Reg::R1, SLOT_POINTER, share + USED);
        self.jump_if(Reg::R1, Condition::SignedLessOrEqual, 0, faded);
        self.alu(Alu::Mul, Reg::R1, Reg::R2);
        self.alu(Alu::ShiftRight, Reg::R1, FADE_SHIFT as i32);
        self.bind(faded);
        self.subtract(SLOT_POINTER, share + USED, Reg::R1);
        self.bind(done);
    }

    /// Go to `none` when a bucket has no tokens; else they are in r1.
    fn need_tokens(&mut self, pointer: Reg, bucket: i16, none: Label) {
        self.load(Size::Double, Reg::R1, pointer, bucket + TOKENS);
        self.jump_if(Reg::R1, Condition::SignedLessOrEqual, 0, none);
    }

    /// Takes what the frame costs.
    fn charge(&mut self, pointer: Reg, at: i16) {
        self.get(Reg::R2, CHARGE);
        self.subtract(pointer, at, Reg::R2);
    }

    /// Subtracts atomically. Uses r3.
    fn subtract(&mut self, pointer: Reg, at: i16, amount: Reg) {
        self.set(Reg::R3, 0);
        self.alu(Alu::Sub, Reg::R3, amount);
        self.push(Insn::atomic_add(pointer, at, Reg::R3));
    }

    /// Moves a time on to now; the time that has passed is in r2. Goes to `not` when that is too short, or another
    /// CPU did it.
    fn take_time(&mut self, pointer: Reg, at: i16, not: Label) {
        self.load(Size::Double, Reg::R1, pointer, at);
        self.set(Reg::R2, NOW);
        self.alu(Alu::Sub, Reg::R2, Reg::R1);
        // Signed: another CPU may have read a later time.
        self.jump_if(Reg::R2, Condition::SignedLess, REFILL_NS_MIN as i32, not);
        self.set(Reg::R0, Reg::R1);
        self.push(Insn::compare_exchange(pointer, at, NOW));
        self.jump_if(Reg::R0, Condition::NotEqual, Reg::R1, not);
    }

    /// Anyone who moves `last` on gives the tokens of the time between: one CPU of many.
    fn refill(&mut self, pointer: Reg, bucket: i16) {
        let [done, pause, short, give, fits] = [(); 5].map(|()| self.label());
        self.take_time(pointer, bucket + LAST, done);
        self.load(Size::Double, Reg::R3, pointer, bucket + BURST);
        self.load(Size::Double, Reg::R4, pointer, bucket + RATE);
        self.jump_if(Reg::R2, Condition::Greater, REFILL_NS_MAX as i32, pause);
        self.alu(Alu::Mul, Reg::R4, Reg::R2);
        self.alu(Alu::Div, Reg::R4, 1_000_000_000);
        self.jump(give);
        self.bind(pause);
        self.alu(Alu::ShiftRight, Reg::R2, PAUSE_SHIFT as i32);
        self.jump_if(Reg::R2, Condition::LessOrEqual, PAUSES_MAX as i32, short);
        self.set(Reg::R2, PAUSES_MAX as i32);
        self.bind(short);
        self.alu(Alu::Mul, Reg::R4, Reg::R2);
        self.alu(Alu::Div, Reg::R4, PAUSES_PER_SEC as i32);
        self.bind(give);
        // No more than there is room for.
        self.load(Size::Double, Reg::R1, pointer, bucket + TOKENS);
        self.alu(Alu::Sub, Reg::R3, Reg::R1);
        self.jump_if(Reg::R3, Condition::SignedLessOrEqual, 0, done);
        self.jump_if(Reg::R4, Condition::LessOrEqual, Reg::R3, fits);
        self.set(Reg::R4, Reg::R3);
        self.bind(fits);
        self.push(Insn::atomic_add(pointer, bucket + TOKENS, Reg::R4));
        self.bind(done);
    }
}
