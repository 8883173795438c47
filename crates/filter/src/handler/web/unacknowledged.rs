//! What a client sends before it has acknowledged the response: the request again, its FIN, or what it asks next.
//!
//! The response is sent again for a request that comes again, a few times. It may be too long for some part of the way, which the stack
//! finds out: then the connection goes up, as it does with what is asked next, where a part is acknowledged, and where the response was
//! replaced; and the stack has just what was sent to send again.

use super::layout::slot;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Emit, Label, Reg, Size};
use crate::program::Counter;

/// How often a response is sent again.
const RESENT_MAX: i32 = 3;

/// Where what was taken of the peer's data ends.
const END: Reg = Reg::R9;

impl Generator<'_> {
    /// Goes on with a segment whose numbers, in r3 to r5, say something of the last response, or where none is out.
    pub(super) fn unacknowledged(&mut self, of: &WebHandler) {
        let [other, partly, behind, again, as_sent, newer] = [(); 6].map(|()| self.label());
        let drop = self.labels.drop;
        let (begin, end, len) = (Reg::R3, Reg::R4, Reg::R2);
        self.expect_unacknowledged(partly, other);
        self.kept(len, LEN);
        self.jump_if(begin, Condition::Equal, END, behind);
        self.kept(Reg::R1, HEADER);
        self.jump_if(Reg::R1, Condition::Equal, 0, drop);
        self.jump_if(len, Condition::Equal, 0, drop);
        self.set(end, begin);
        self.alu32(Alu::Add, end, len);
        self.load(Size::Word, Reg::R1, SLOT, slot::LAST);
        self.jump_if(begin, Condition::NotEqual, Reg::R1, newer);
        self.jump_if(end, Condition::Equal, END, again);
        self.bind(newer);
        self.alu32(Alu::Sub, end, END);
        self.jump_if(end, Condition::Equal, 0, drop);
        self.jump_if(end, Condition::Set, i32::MIN, drop);
        self.jump(as_sent);
        self.bind(behind);
        self.expect_fin_alone(as_sent);
        self.answer_fin(again);
        self.bind(again);
        self.send_again(of, as_sent);
        self.bind(as_sent);
        self.hand_up_as_sent();
        self.bind(partly);
        self.expect_part(other);
        self.jump(as_sent);
        self.bind(other);
    }

    /// To `other` unless a part of the response is acknowledged, also by a segment that is not read, which may be forged or damaged. All that
    /// comes of it is that the stack has the connection, sooner than by a second's quiet: what is handed up are the slot's numbers, with the
    /// whole response, and the stack looks at the segment.
    fn expect_part(&mut self, other: Label) {
        let (una, acked, left, state) = (Reg::R1, Reg::R2, Reg::R0, Reg::R2);
        let some = self.label();
        self.load(Size::Word, una, SLOT, slot::UNA);
        self.set(acked, Reg::R4);
        self.alu32(Alu::Sub, acked, una);
        self.set(left, Reg::R5);
        self.alu32(Alu::Sub, left, una);
        self.jump_if(acked, Condition::GreaterOrEqual, left, other);
        // Behind the peer's FIN all but ours is no part.
        self.alu32(Alu::Sub, left, acked);
        self.jump_if(left, Condition::NotEqual, 1, some);
        self.load(Size::Double, state, SLOT, slot::STATE);
        self.jump_if(state, Condition::Equal, slot::LAST_ACK, other);
        self.bind(some);
    }

    /// A segment says that all is acknowledged, and was not read, or is not the next: the stack judges that, and has the connection with the
    /// response. Without, a forged one would have a lost response never sent again. To `known` where all was acknowledged before.
    pub(super) fn hand_up_unread(&mut self, known: Label) {
        self.load(Size::Word, Reg::R1, SLOT, slot::UNA);
        self.jump_if(Reg::R1, Condition::Equal, Reg::R5, known);
        self.load(Size::Word, END, SLOT, slot::RCV);
        self.hand_up_as_sent();
    }

    /// To `other` where all is acknowledged, to `partly` with what says so of more than is known. Leaves the end of the peer's data.
    fn expect_unacknowledged(&mut self, partly: Label, other: Label) {
        let known = self.label();
        let (una, nxt, state, spare) = (Reg::R1, Reg::R5, Reg::R2, Reg::R0);
        self.load(Size::Word, una, SLOT, slot::UNA);
        self.jump_if(una, Condition::Equal, nxt, other);
        self.load(Size::Word, END, SLOT, slot::RCV);
        self.load(Size::Double, state, SLOT, slot::STATE);
        self.jump_if(state, Condition::NotEqual, slot::LAST_ACK, known);
        self.alu32(Alu::Sub, END, 1);
        // There may be our FIN alone.
        self.set(spare, una);
        self.alu32(Alu::Add, spare, 1);
        self.jump_if(spare, Condition::Equal, nxt, other);
        self.bind(known);
        self.jump_if(una, Condition::NotEqual, Reg::R4, partly);
    }

    /// To `other` with data, whose length is in r2.
    fn expect_fin_alone(&mut self, other: Label) {
        self.jump_if(Reg::R2, Condition::NotEqual, 0, other);
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.alu(Alu::And, Reg::R1, FIN);
        self.jump_if(Reg::R1, Condition::Equal, 0, self.labels.drop);
    }

    /// The peer's FIN comes behind its request; to `again` if it does so again. The response may be on its way, so it is not sent again.
    fn answer_fin(&mut self, again: Label) {
        let state = Reg::R9;
        self.load(Size::Double, Reg::R1, SLOT, slot::STATE);
        self.jump_if(Reg::R1, Condition::Equal, slot::LAST_ACK, again);
        self.set(state, Reg::R1);
        self.take_fin();
        self.jump_if(
            state,
            Condition::Equal,
            slot::FINISHED,
            self.labels.acknowledge,
        );
        self.jump(self.labels.finish);
    }

    /// Takes the peer's FIN in, and ours follows the response.
    fn take_fin(&mut self) {
        let closes = self.label();
        self.grow(slot::RCV, 1);
        self.load(Size::Double, Reg::R1, SLOT, slot::STATE);
        self.jump_if(Reg::R1, Condition::Equal, slot::FINISHED, closes);
        self.grow(slot::NXT, 1);
        self.bind(closes);
        self.set_state(slot::LAST_ACK);
    }

    /// The request has come again, perhaps with a FIN; to `as_sent` where the response was sent often, or replaced.
    fn send_again(&mut self, of: &WebHandler, as_sent: Label) {
        let no_fin = self.label();
        self.load(Size::Word, Reg::R1, SLOT, slot::RESENT);
        self.jump_if(Reg::R1, Condition::GreaterOrEqual, RESENT_MAX, as_sent);
        self.expect_response(of, as_sent);
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.alu(Alu::And, Reg::R1, FIN);
        self.jump_if(Reg::R1, Condition::Equal, 0, no_fin);
        self.load(Size::Double, Reg::R1, SLOT, slot::STATE);
        self.jump_if(Reg::R1, Condition::Equal, slot::LAST_ACK, no_fin);
        self.take_fin();
        self.bind(no_fin);
        self.grow(slot::RESENT, 1);
        self.keep_what_it_says(of);
        self.note_time();
        self.make_room(of, self.labels.drop);
        self.behind.count(self.asm, COUNTER, Counter::SentAgain);
        self.jump(self.labels.send_response);
    }

    /// The connection goes up, and with it the response; the peer's FIN, if it has come, comes again.
    fn hand_up_as_sent(&mut self) {
        let whole = self.label();
        self.keep(UP_RCV, END);
        self.load(Size::Word, Reg::R1, SLOT, slot::ENTRY);
        self.alu(Alu::ShiftLeft, Reg::R1, 32);
        self.load(Size::Word, Reg::R2, SLOT, slot::VERSION);
        self.alu(Alu::Or, Reg::R1, Reg::R2);
        self.keep(UP_SENT, Reg::R1);
        self.load(Size::Double, Reg::R1, SLOT, slot::BEGUN);
        self.keep(UP_BEGUN, Reg::R1);
        self.load(Size::Word, Reg::R1, SLOT, slot::NXT);
        self.load(Size::Double, Reg::R2, SLOT, slot::STATE);
        self.jump_if(Reg::R2, Condition::Equal, slot::OPEN, whole);
        // But for our FIN.
        self.alu32(Alu::Sub, Reg::R1, 1);
        self.bind(whole);
        self.keep(UP_NXT, Reg::R1);
        self.jump(self.labels.hand_up);
    }
}
