//! Connections that begin: what comes brings a cookie back, of no connection that the slot has.

use super::layout::{UNTIL, slot};
use super::report::Outcome;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Emit, Label, Reg, Size};
use crate::limits::{CLOSED_MS, FORGOTTEN_MS};
use exos_wire::tcp::cookie::ECN_BIT;

impl Generator<'_> {
    /// No connection that the slot has.
    pub(super) fn fresh(&mut self, of: &WebHandler) {
        let [none, pass, up, other, begins] = [(); 5].map(|()| self.label());
        self.expect_not_first();
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.jump_if(Reg::R1, Condition::Set, RST, none);
        self.kept(Reg::R1, HEADER);
        self.jump_if(Reg::R1, Condition::Equal, 0, none);
        self.expect_cookie(of, none);
        self.expect_no_late_one();
        self.expect_usable(of, up);
        self.expect_request(begins, other);
        self.bind(begins);
        self.begin_with_room(of, up);
        self.kept(Reg::R1, LEN);
        self.jump_if(Reg::R1, Condition::Equal, 0, self.labels.taken);
        self.jump(self.labels.answer);
        self.bind(other);
        self.begin_above(of, up);
        self.bind(up);
        self.leave_slot(of);
        self.bind(pass);
        self.jump(self.labels.pass_locked);
        self.bind(none);
        self.kept(Reg::R1, IS_KNOWN);
        self.jump_if(Reg::R1, Condition::Equal, 0, pass);
        self.jump(self.labels.drop);
    }

    /// Drops what a connection began with that stands, or is over, late: the handshake's acknowledgement or the first request, whose cookie is
    /// still good. It begins nothing.
    fn expect_not_first(&mut self) {
        let another = self.label();
        self.kept(Reg::R1, IS_KNOWN);
        self.jump_if(Reg::R1, Condition::Equal, 0, another);
        self.kept(Reg::R1, SEQ);
        self.load(Size::Word, Reg::R2, SLOT, slot::FIRST);
        self.jump_if(Reg::R1, Condition::Equal, Reg::R2, self.labels.drop);
        self.bind(another);
    }

    /// While the slot's connection between the same ends stands, what says nothing begins no other, here or in the server: it may come late,
    /// and would end the one that stands.
    fn expect_no_late_one(&mut self) {
        let other = self.label();
        self.kept(Reg::R1, IS_KNOWN);
        self.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.jump_if(Reg::R1, Condition::Set, FIN, other);
        self.kept(Reg::R1, LEN);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, other);
        self.load(Size::Double, Reg::R1, SLOT, slot::STATE);
        self.jump_if(Reg::R1, Condition::NotEqual, slot::DONE, self.labels.taken);
        self.bind(other);
    }

    /// To `up` where no connection may begin in the slot now.
    fn expect_usable(&mut self, of: &WebHandler, up: Label) {
        let usable = self.label();
        self.kept(Reg::R1, MILLIS);
        self.load_map_value(Reg::R2, of.memory_fd, UNTIL as u32);
        self.load(Size::Double, Reg::R2, Reg::R2, 0);
        self.jump_if(Reg::R1, Condition::GreaterOrEqual, Reg::R2, up);
        self.load(Size::Double, Reg::R2, SLOT, slot::CLOSED);
        self.jump_if(Reg::R1, Condition::Less, Reg::R2, up);
        self.kept(Reg::R2, IS_KNOWN);
        self.jump_if(Reg::R2, Condition::NotEqual, 0, usable);
        self.load(Size::Double, Reg::R2, SLOT, slot::STATE);
        self.jump_if(Reg::R2, Condition::Equal, slot::FREE, usable);
        self.jump_if(Reg::R2, Condition::Equal, slot::DONE, usable);
        self.jump_if(Reg::R2, Condition::Equal, slot::OPEN, up);
        self.load(Size::Double, Reg::R2, SLOT, slot::TIME);
        self.alu(Alu::Add, Reg::R2, FORGOTTEN_MS);
        self.jump_if(Reg::R1, Condition::Less, Reg::R2, up);
        self.bind(usable);
    }

    /// Of several cores the one that gets the segment gets its connection, too, and need not ask the others: none of them has it, for its slot
    /// was open. Goes on behind this where it has to.
    fn begin_above(&mut self, of: &WebHandler, up: Label) {
        if of.rings.cores() == 1 {
            return;
        }
        self.expect_read(up);
        self.kept(Reg::R1, KEPT);
        self.jump_if(Reg::R1, Condition::Set, ECN_BIT as i32, up);
        self.begin_with_room(of, up);
        self.jump(self.labels.hand_up);
    }

    /// To `other` unless the segment brings a request with an entry, of a connection whose options can be had here; to `begins` where it says
    /// nothing, so that the connection is known, and ends when its client never asks.
    fn expect_request(&mut self, begins: Label, other: Label) {
        let some = self.label();
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.jump_if(Reg::R1, Condition::Set, FIN, other);
        self.kept(Reg::R2, KEPT);
        self.kept(Reg::R1, LEN);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, some);
        self.jump_if(Reg::R2, Condition::Set, ECN_BIT as i32, other);
        self.jump(begins);
        self.bind(some);
        self.kept(Reg::R1, HIT);
        self.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.jump_if(Reg::R2, Condition::Set, ECN_BIT as i32, other);
    }

    /// The connection is the server's: the slot is closed for a while, and what it had of the client's before is over. So it is also by a segment
    /// that was not read, for the cookie says who sent it, and vouches for its number.
    fn leave_slot(&mut self, of: &WebHandler) {
        let other = self.label();
        self.kept(Reg::R1, MILLIS);
        self.alu(Alu::Add, Reg::R1, CLOSED_MS);
        self.store(Size::Double, SLOT, slot::CLOSED, Reg::R1);
        self.kept(Reg::R1, IS_KNOWN);
        self.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.report(of, Outcome::Lost);
        self.end(of, slot::FREE);
        self.bind(other);
    }

    /// The slot is this connection's from now on, in place of one that was forgotten. To `up` where there is no room.
    fn begin_with_room(&mut self, of: &WebHandler, up: Label) {
        self.report(of, Outcome::Lost);
        self.end(of, slot::FREE);
        self.take_room(of, up);
        self.begin(of);
    }

    /// The slot is this connection's from now on.
    fn begin(&mut self, of: &WebHandler) {
        keep_ends(self.asm, SLOT, slot::ENDS);
        self.kept(Reg::R1, KEPT);
        self.store(Size::Word, SLOT, slot::KEPT, Reg::R1);
        self.set_state(slot::OPEN);
        self.kept(Reg::R1, SEQ);
        for to in [slot::FIRST, slot::RCV] {
            self.store(Size::Word, SLOT, to, Reg::R1);
        }
        self.keep(UP_RCV, Reg::R1);
        self.kept(Reg::R1, ACK);
        self.keep(UP_NXT, Reg::R1);
        for to in [slot::NXT, slot::UNA] {
            self.store(Size::Word, SLOT, to, Reg::R1);
        }
        self.keep_what_it_says(of);
    }
}
