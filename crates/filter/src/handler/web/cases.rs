//! What becomes of a segment, by how its connection stands.
//!
//! ```text
//! slot      segment                                               what happens
//! any       reset at the next sequence number, its checksum right the slot is free
//! any       the response not acknowledged (`unacknowledged`):
//!            the request again                                    answered again; the fourth time, or where the response was
//!                                                                 replaced, handed up with the response
//!            the request again, with a FIN                        answered again, with our FIN: LAST_ACK
//!            FIN alone behind the request                         acknowledged, or answered by our FIN: LAST_ACK
//!            that FIN again                                       as the request again
//!            further data                                         handed up with the response
//!            a part of it acknowledged                            handed up with the response
//!            anything else                                        dropped: it comes again
//! OPEN      in order, all acknowledged: nothing, bare             taken
//!                                       a request with an entry   answered: OPEN, or FINISHED where the response closes
//!                                       FIN alone                 answered by FIN: LAST_ACK
//!           all acknowledged, anything else, or a request without handed up; where only this segment says that all is acknowledged,
//!            word of the server                                  and it is not read or not in order, with the response
//! FINISHED  all acknowledged, FIN alone                           acknowledged: DONE
//!           all acknowledged, new data of 1,024 bytes at most     the server's, which resets it: DONE
//!           all acknowledged, more new data                       handed up with the response, where that was not acknowledged before
//!           all acknowledged                                      taken
//! LAST_ACK  all acknowledged                                      DONE
//!           FIN again, all but ours acknowledged                  answered again
//! DONE      FIN again                                             acknowledged again
//!           new data                                              the server's, which resets it
//! any       the first request again, acknowledged long ago        dropped
//! stands    IP options, extension headers                         handed up, with the response where that is out (`unusual`)
//! any       a fragment                                            the server's, which looks in the slot once it is whole
//! any       anything else, no connection: brings a cookie back    begins (OPEN), also if it says nothing
//!                                       with nothing, and the     taken, and nothing kept: it may come late
//!                                       slot's client's stands
//!                                       and may not begin         the server's, and the slot's for a while
//!                                       without an entry, cores   begins, and is handed up
//!           none of these: of a slot                              dropped: it comes again
//!                          of none                                the server's
//! ```

use super::layout::{REQUEST_MAX, slot};
use super::report::Outcome;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Emit, Label, Reg, Size};

impl Generator<'_> {
    /// The slot is locked.
    pub(super) fn cases(&mut self, of: &WebHandler) {
        let [unknown, fresh, open, finished, last_ack] = [(); 5].map(|()| self.label());
        let drop = self.labels.drop;
        self.expect_known(unknown);
        self.store_imm(Size::Double, Reg::R10, IS_KNOWN, 1);
        self.expect_no_reset(of);
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.jump_if(Reg::R1, Condition::Set, ACK_FLAG, open);
        self.jump(drop);
        self.bind(open);
        // From here on r3 is the segment's number, r4 what it acknowledges, r5 our next.
        self.kept(Reg::R3, SEQ);
        self.kept(Reg::R4, ACK);
        self.load(Size::Word, Reg::R5, SLOT, slot::NXT);
        self.unacknowledged(of);
        self.load(Size::Double, Reg::R1, SLOT, slot::STATE);
        self.jump_if(Reg::R1, Condition::Equal, slot::FINISHED, finished);
        self.jump_if(Reg::R1, Condition::Equal, slot::LAST_ACK, last_ack);
        self.jump_if(Reg::R1, Condition::NotEqual, slot::OPEN, self.labels.done);
        self.open(of, fresh);
        self.bind(finished);
        self.finished(of, fresh);
        self.bind(last_ack);
        self.last_ack(of, fresh);
        self.bind(self.labels.done);
        self.done(fresh);
        self.bind(unknown);
        self.store_imm(Size::Double, Reg::R10, IS_KNOWN, 0);
        self.bind(fresh);
        self.fresh(of);
    }

    fn expect_no_reset(&mut self, of: &WebHandler) {
        let none = self.label();
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.alu(Alu::And, Reg::R1, RST);
        self.jump_if(Reg::R1, Condition::Equal, 0, none);
        self.kept(Reg::R1, SEQ);
        self.load(Size::Word, Reg::R2, SLOT, slot::RCV);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, self.labels.drop);
        self.expect_read(self.labels.drop);
        self.report(of, Outcome::Lost);
        self.end(of, slot::FREE);
        self.jump(self.labels.taken);
        self.bind(none);
    }

    /// To `other` with a segment whose checksum was not looked at: the slot does not change by what that says. It may be forged or damaged:
    /// at worst the stack has the connection then, with what the slot says, and looks at the segment itself.
    pub(super) fn expect_read(&mut self, other: Label) {
        self.kept(Reg::R1, HEADER);
        self.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.kept(Reg::R1, LEN);
        self.jump_if(Reg::R1, Condition::Greater, REQUEST_MAX as i32, other);
    }

    fn open(&mut self, of: &WebHandler, fresh: Label) {
        let [unread, hand_up, some, news, said] = [(); 5].map(|()| self.label());
        self.jump_if(Reg::R4, Condition::NotEqual, Reg::R5, fresh);
        self.load(Size::Word, Reg::R1, SLOT, slot::RCV);
        self.keep(UP_RCV, Reg::R1);
        self.keep(UP_NXT, Reg::R5);
        self.jump_if(Reg::R3, Condition::NotEqual, Reg::R1, unread);
        self.expect_read(unread);
        self.keep_what_it_says(of);
        self.kept(Reg::R1, LEN);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, news);
        self.load(Size::Word, Reg::R1, SLOT, slot::UNA);
        self.jump_if(Reg::R1, Condition::Equal, Reg::R5, said);
        self.bind(news);
        self.note_time();
        self.bind(said);
        self.store(Size::Word, SLOT, slot::UNA, Reg::R5);
        self.report(of, Outcome::Taken);
        self.kept(Reg::R2, LEN);
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.alu(Alu::And, Reg::R1, FIN);
        self.jump_if(Reg::R2, Condition::NotEqual, 0, some);
        self.jump_if(Reg::R1, Condition::Equal, 0, self.labels.taken);
        // The peer has finished, and so do we.
        self.grow(slot::RCV, 1);
        self.grow(slot::NXT, 1);
        self.set_state(slot::LAST_ACK);
        self.jump(self.labels.finish);
        self.bind(some);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, hand_up);
        self.kept(Reg::R1, HIT);
        self.jump_if(Reg::R1, Condition::Equal, 0, hand_up);
        // What the server said before may be out of date where it says nothing any more.
        self.kept(Reg::R1, MILLIS);
        self.load_map_value(Reg::R2, of.memory_fd, super::layout::UNTIL as u32);
        self.load(Size::Double, Reg::R2, Reg::R2, 0);
        self.jump_if(Reg::R1, Condition::Less, Reg::R2, self.labels.answer);
        self.bind(hand_up);
        self.jump(self.labels.hand_up);
        self.bind(unread);
        self.hand_up_unread(self.labels.hand_up);
    }

    fn finished(&mut self, of: &WebHandler, fresh: Label) {
        let [read, taken, unread] = [(); 3].map(|()| self.label());
        self.kept(Reg::R1, HEADER);
        self.jump_if(Reg::R1, Condition::Equal, 0, fresh);
        self.load(Size::Word, Reg::R1, SLOT, slot::RCV);
        self.jump_if(Reg::R4, Condition::NotEqual, Reg::R5, fresh);
        self.load(Size::Byte, Reg::R2, Reg::R10, FLAGS);
        self.alu(Alu::And, Reg::R2, FIN);
        self.jump_if(Reg::R2, Condition::Equal, 0, read);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R3, read);
        self.kept(Reg::R2, LEN);
        self.jump_if(Reg::R2, Condition::NotEqual, 0, read);
        self.report(of, Outcome::Taken);
        self.grow(slot::RCV, 1);
        self.acknowledge_all();
        self.end(of, slot::DONE);
        self.jump(self.labels.acknowledge);
        self.bind(read);
        // The stack, which has no such connection, resets it.
        self.expect_new_data(taken);
        self.expect_read(unread);
        self.acknowledge_all();
        self.report(of, Outcome::Taken);
        self.end(of, slot::DONE);
        self.jump(self.labels.pass_locked);
        self.bind(unread);
        self.hand_up_unread(self.labels.pass_locked);
        self.bind(taken);
        self.expect_read(self.labels.drop);
        self.acknowledge_all();
        self.report(of, Outcome::Taken);
        self.jump(self.labels.taken);
    }

    fn last_ack(&mut self, of: &WebHandler, fresh: Label) {
        let all = self.label();
        self.jump_if(Reg::R4, Condition::Equal, Reg::R5, all);
        self.alu32(Alu::Sub, Reg::R5, 1);
        self.jump_if(Reg::R4, Condition::NotEqual, Reg::R5, fresh);
        // All but our FIN.
        self.expect_read(fresh);
        self.store(Size::Word, SLOT, slot::UNA, Reg::R5);
        self.report(of, Outcome::Taken);
        self.kept(Reg::R3, SEQ);
        self.expect_fin_again(fresh);
        self.jump(self.labels.finish);
        self.bind(all);
        self.expect_read(self.labels.drop);
        self.report(of, Outcome::Taken);
        self.acknowledge_all();
        self.end(of, slot::DONE);
        self.jump(self.labels.taken);
    }

    fn done(&mut self, fresh: Label) {
        let other = self.label();
        self.jump_if(Reg::R4, Condition::NotEqual, Reg::R5, fresh);
        self.expect_fin_again(other);
        self.jump(self.labels.acknowledge);
        self.bind(other);
        // The stack's reset may be lost.
        self.kept(Reg::R1, HEADER);
        self.jump_if(Reg::R1, Condition::Equal, 0, fresh);
        self.expect_new_data(fresh);
        self.jump(self.labels.pass_locked);
    }

    /// To `other` unless the segment brings data behind all that came, which nobody will read. Loses r1 to r3.
    fn expect_new_data(&mut self, other: Label) {
        self.kept(Reg::R2, LEN);
        self.jump_if(Reg::R2, Condition::Equal, 0, other);
        self.load(Size::Word, Reg::R1, SLOT, slot::RCV);
        self.alu32(Alu::Add, Reg::R3, Reg::R2);
        self.alu32(Alu::Sub, Reg::R3, Reg::R1);
        self.jump_if(Reg::R3, Condition::Equal, 0, other);
        self.jump_if(Reg::R3, Condition::Set, i32::MIN, other);
    }

    fn expect_fin_again(&mut self, other: Label) {
        self.expect_read(other);
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.alu(Alu::And, Reg::R1, FIN);
        self.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.load(Size::Word, Reg::R1, SLOT, slot::RCV);
        self.alu32(Alu::Sub, Reg::R1, 1);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R3, other);
    }
}
