//! What becomes of a segment, by how its connection stands.
//!
//! ```text
//! slot      segment                                               what happens
//! any       reset at the next sequence number, its checksum right the slot is free
//! OPEN      in order, all acknowledged: nothing, bare             taken
//!                                       a request with an entry   answered: OPEN, or FINISHED where the response closes
//!                                       FIN alone                 answered by FIN: LAST_ACK
//!           all acknowledged, anything else, or a request without handed up
//!            word of the server
//!           the last request again, its response not acknowledged answered again
//!           the last request and more again                       handed up as before the response
//!           the last request a fourth time                        handed up as before the response
//! FINISHED  all acknowledged, FIN alone                           acknowledged: DONE
//!           all acknowledged, data that is new                    the server's, who resets it; the slot stays
//!           all acknowledged                                      taken
//!           the last request again                                as if OPEN
//! LAST_ACK  all acknowledged                                      DONE
//!           FIN again                                             answered again
//! DONE      FIN again                                             acknowledged again
//! any       the first request again, acknowledged long ago          dropped
//! any       anything else, no connection: brings a cookie back    begins (OPEN), if it says nothing, it is taken and nothing kept
//!                                       and may not begin         the server's, and the slot's for a while
//!           none of these: of a slot                              dropped: it comes again
//!                          of none                                the server's
//! ```

use super::layout::{MSS_INDEX_MIN, REQUEST_MAX, copy, entry, slot};
use super::report::Outcome;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Label, Reg, Size};
use exos_wire::tcp::cookie::{ECN_BIT, NO_SCALE, SCALE_BITS, TIMESTAMP_BITS};

/// How long a slot stays closed for connections behind one that is the server's, if it does not say that it has it. Longer than
/// connections may begin without word of the server.
pub(super) const CLOSED_MS: i32 = 4000;
/// How often a response is sent again. Beyond that it may be too long for some part of the way, which the stack finds out.
const RESENT_MAX: i32 = 3;
/// When a connection that did not end is forgotten.
const FORGOTTEN_MS: i32 = 60_000;

impl Generator<'_> {
    /// The slot is locked.
    pub(super) fn cases(&mut self, of: &WebHandler) {
        let [unknown, fresh, open, finished, last_ack] = [(); 5].map(|()| self.asm.label());
        let drop = self.labels.drop;
        let asm = &mut *self.asm;
        for (ours, its) in ADDRESSES.into_iter().zip((slot::ENDS..).step_by(8)) {
            kept(asm, Reg::R1, ours);
            asm.load(Size::Double, Reg::R2, SLOT, its as i16);
            asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, unknown);
        }
        kept(asm, Reg::R1, PORTS);
        asm.alu(Alu::ShiftRight, Reg::R1, 32);
        asm.load(Size::Word, Reg::R2, SLOT, slot::PORTS as i16);
        asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, unknown);
        asm.load(Size::Double, Reg::R1, SLOT, slot::STATE as i16);
        asm.jump_if(Reg::R1, Condition::Equal, slot::FREE, unknown);
        asm.store_imm(Size::Double, Reg::R10, IS_KNOWN, 1);
        self.expect_no_reset(of);
        let asm = &mut *self.asm;
        asm.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        asm.jump_if(Reg::R1, Condition::Set, ACK_FLAG, open);
        asm.jump(drop);
        asm.bind(open);
        // From here on r3 is the segment's number, r4 what it acknowledges, r5 our next.
        kept(asm, Reg::R3, SEQ);
        kept(asm, Reg::R4, ACK);
        asm.load(Size::Word, Reg::R5, SLOT, slot::NXT as i16);
        asm.load(Size::Double, Reg::R1, SLOT, slot::STATE as i16);
        asm.jump_if(Reg::R1, Condition::Equal, slot::FINISHED, finished);
        asm.jump_if(Reg::R1, Condition::Equal, slot::LAST_ACK, last_ack);
        asm.jump_if(Reg::R1, Condition::NotEqual, slot::OPEN, self.labels.done);
        self.open(of, fresh);
        self.asm.bind(finished);
        self.finished(of, fresh);
        self.asm.bind(last_ack);
        self.last_ack(fresh);
        self.asm.bind(self.labels.done);
        self.done(fresh);
        self.asm.bind(unknown);
        self.asm.store_imm(Size::Double, Reg::R10, IS_KNOWN, 0);
        self.asm.bind(fresh);
        self.fresh(of);
    }

    fn expect_no_reset(&mut self, of: &WebHandler) {
        let none = self.asm.label();
        let asm = &mut *self.asm;
        asm.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        asm.alu(Alu::And, Reg::R1, RST);
        asm.jump_if(Reg::R1, Condition::Equal, 0, none);
        kept(asm, Reg::R1, SEQ);
        asm.load(Size::Word, Reg::R2, SLOT, slot::RCV as i16);
        asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, self.labels.drop);
        self.expect_read(self.labels.drop);
        self.report(of, Outcome::Lost);
        let asm = &mut *self.asm;
        asm.store_imm(Size::Double, SLOT, slot::STATE as i16, slot::FREE);
        asm.jump(self.labels.drop);
        asm.bind(none);
    }

    /// To `other` with a segment whose checksum was not looked at: the slot does not change by what that says.
    fn expect_read(&mut self, other: Label) {
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, HEADER);
        asm.jump_if(Reg::R1, Condition::Equal, 0, other);
        kept(asm, Reg::R1, LEN);
        asm.jump_if(Reg::R1, Condition::Greater, REQUEST_MAX as i32, other);
    }

    fn open(&mut self, of: &WebHandler, fresh: Label) {
        let [unacknowledged, hand_up, some] = [(); 3].map(|()| self.asm.label());
        let (drop, again) = (self.labels.drop, self.labels.again);
        let asm = &mut *self.asm;
        asm.jump_if(Reg::R4, Condition::NotEqual, Reg::R5, unacknowledged);
        asm.load(Size::Word, Reg::R1, SLOT, slot::RCV as i16);
        keep(asm, UP_RCV, Reg::R1);
        keep(asm, UP_NXT, Reg::R5);
        asm.jump_if(Reg::R3, Condition::NotEqual, Reg::R1, hand_up);
        self.expect_read(hand_up);
        self.keep_what_it_says();
        let asm = &mut *self.asm;
        asm.store(Size::Word, SLOT, slot::UNA as i16, Reg::R5);
        self.report(of, Outcome::Taken);
        let asm = &mut *self.asm;
        kept(asm, Reg::R2, LEN);
        asm.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        asm.alu(Alu::And, Reg::R1, FIN);
        asm.jump_if(Reg::R2, Condition::NotEqual, 0, some);
        asm.jump_if(Reg::R1, Condition::Equal, 0, drop);
        // The peer has finished, and so do we.
        self.grow(slot::RCV, 1);
        self.grow(slot::NXT, 1);
        self.set_state(slot::LAST_ACK);
        self.asm.jump(self.labels.finish);
        self.asm.bind(some);
        let asm = &mut *self.asm;
        asm.jump_if(Reg::R1, Condition::NotEqual, 0, hand_up);
        kept(asm, Reg::R1, HIT);
        asm.jump_if(Reg::R1, Condition::Equal, 0, hand_up);
        // What the server said before may be out of date where it says nothing any more.
        kept(asm, Reg::R1, MILLIS);
        asm.load_map_value(Reg::R2, of.memory_fd, super::layout::UNTIL as u32);
        asm.load(Size::Double, Reg::R2, Reg::R2, 0);
        asm.jump_if(Reg::R1, Condition::Less, Reg::R2, self.labels.answer);
        asm.bind(hand_up);
        asm.jump(self.labels.hand_up);

        asm.bind(unacknowledged);
        asm.load(Size::Word, Reg::R1, SLOT, slot::UNA as i16);
        asm.jump_if(Reg::R1, Condition::Equal, Reg::R5, fresh);
        asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R4, fresh);
        asm.load(Size::Word, Reg::R2, SLOT, slot::LAST as i16);
        asm.jump_if(Reg::R2, Condition::NotEqual, Reg::R3, fresh);
        kept(asm, Reg::R1, HEADER);
        asm.jump_if(Reg::R1, Condition::Equal, 0, drop);
        kept(asm, Reg::R1, LEN);
        asm.jump_if(Reg::R1, Condition::Equal, 0, drop);
        asm.alu32(Alu::Add, Reg::R3, Reg::R1);
        asm.load(Size::Word, Reg::R2, SLOT, slot::RCV as i16);
        asm.jump_if(Reg::R3, Condition::Equal, Reg::R2, again);
        self.undo(of);
    }

    /// Handed up as it was before the last response, if that is still as long: then the server answers as we did, and it does not
    /// matter which answer arrives.
    fn undo(&mut self, of: &WebHandler) {
        let drop = self.labels.drop;
        self.expect_same_request(of, drop);
        let asm = &mut *self.asm;
        asm.load(Size::Double, Reg::R1, Reg::R0, entry::TAG as i16);
        asm.jump_if(Reg::R1, Condition::Equal, 0, drop);
        self.choose_copy(of);
        self.expect_same_len(of, drop);
        let asm = &mut *self.asm;
        for (from, to) in [(slot::LAST, UP_RCV), (slot::UNA, UP_NXT)] {
            asm.load(Size::Word, Reg::R1, SLOT, from as i16);
            keep(asm, to, Reg::R1);
        }
        asm.jump(self.labels.hand_up);
    }

    fn finished(&mut self, of: &WebHandler, fresh: Label) {
        let [unacknowledged, read, taken] = [(); 3].map(|()| self.asm.label());
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, HEADER);
        asm.jump_if(Reg::R1, Condition::Equal, 0, fresh);
        asm.load(Size::Word, Reg::R1, SLOT, slot::RCV as i16);
        asm.jump_if(Reg::R4, Condition::NotEqual, Reg::R5, unacknowledged);
        asm.load(Size::Byte, Reg::R2, Reg::R10, FLAGS);
        asm.alu(Alu::And, Reg::R2, FIN);
        asm.jump_if(Reg::R2, Condition::Equal, 0, read);
        asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R3, read);
        kept(asm, Reg::R2, LEN);
        asm.jump_if(Reg::R2, Condition::NotEqual, 0, read);
        self.report(of, Outcome::Taken);
        self.grow(slot::RCV, 1);
        self.set_state(slot::DONE);
        self.asm.jump(self.labels.acknowledge);
        let asm = &mut *self.asm;
        asm.bind(read);
        // Data that nobody will read: the stack, which has no such connection, judges it and resets.
        kept(asm, Reg::R2, LEN);
        asm.jump_if(Reg::R2, Condition::Equal, 0, taken);
        asm.alu32(Alu::Add, Reg::R3, Reg::R2);
        asm.alu32(Alu::Sub, Reg::R3, Reg::R1);
        asm.jump_if(Reg::R3, Condition::Equal, 0, taken);
        asm.jump_if(Reg::R3, Condition::Set, i32::MIN, taken);
        self.expect_read(self.labels.pass_locked);
        self.report(of, Outcome::Taken);
        let asm = &mut *self.asm;
        asm.jump(self.labels.pass_locked);
        asm.bind(taken);
        self.expect_read(self.labels.drop);
        let asm = &mut *self.asm;
        asm.store(Size::Word, SLOT, slot::UNA as i16, Reg::R5);
        self.report(of, Outcome::Taken);
        let asm = &mut *self.asm;
        asm.jump(self.labels.drop);
        asm.bind(unacknowledged);
        asm.load(Size::Word, Reg::R2, SLOT, slot::UNA as i16);
        asm.jump_if(Reg::R4, Condition::NotEqual, Reg::R2, fresh);
        asm.load(Size::Word, Reg::R2, SLOT, slot::LAST as i16);
        asm.jump_if(Reg::R3, Condition::NotEqual, Reg::R2, fresh);
        kept(asm, Reg::R2, LEN);
        asm.alu32(Alu::Add, Reg::R3, Reg::R2);
        asm.jump_if(Reg::R3, Condition::Equal, Reg::R1, self.labels.again);
        asm.jump(fresh);
    }

    fn last_ack(&mut self, fresh: Label) {
        let all = self.asm.label();
        let asm = &mut *self.asm;
        asm.jump_if(Reg::R4, Condition::Equal, Reg::R5, all);
        asm.alu32(Alu::Sub, Reg::R5, 1);
        asm.jump_if(Reg::R4, Condition::NotEqual, Reg::R5, fresh);
        self.expect_fin_again(fresh);
        self.asm.jump(self.labels.finish);
        self.asm.bind(all);
        self.expect_read(self.labels.drop);
        self.set_state(slot::DONE);
        self.asm.jump(self.labels.drop);
    }

    fn done(&mut self, fresh: Label) {
        let asm = &mut *self.asm;
        asm.jump_if(Reg::R4, Condition::NotEqual, Reg::R5, fresh);
        self.expect_fin_again(fresh);
        self.asm.jump(self.labels.acknowledge);
    }

    fn expect_fin_again(&mut self, other: Label) {
        let asm = &mut *self.asm;
        for (place, unwanted) in [(HEADER, 0), (LEN, TOO_LONG)] {
            kept(asm, Reg::R1, place);
            asm.jump_if(Reg::R1, Condition::Equal, unwanted, other);
        }
        asm.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        asm.alu(Alu::And, Reg::R1, FIN);
        asm.jump_if(Reg::R1, Condition::Equal, 0, other);
        asm.load(Size::Word, Reg::R1, SLOT, slot::RCV as i16);
        asm.alu32(Alu::Sub, Reg::R1, 1);
        asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R3, other);
    }

    /// No connection that the slot has.
    fn fresh(&mut self, of: &WebHandler) {
        let [none, pass, usable, up, another] = [(); 5].map(|()| self.asm.label());
        let asm = &mut *self.asm;
        // The first request of a connection that stands, or is over, late: its cookie is still good, but it begins nothing.
        kept(asm, Reg::R1, IS_KNOWN);
        asm.jump_if(Reg::R1, Condition::Equal, 0, another);
        kept(asm, Reg::R1, SEQ);
        asm.load(Size::Word, Reg::R2, SLOT, slot::FIRST as i16);
        asm.jump_if(Reg::R1, Condition::Equal, Reg::R2, self.labels.drop);
        asm.bind(another);
        asm.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        asm.jump_if(Reg::R1, Condition::Set, RST, none);
        kept(asm, Reg::R1, HEADER);
        asm.jump_if(Reg::R1, Condition::Equal, 0, none);
        self.expect_cookie(of, none);
        // May a connection begin here now?
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, MILLIS);
        asm.load_map_value(Reg::R2, of.memory_fd, super::layout::UNTIL as u32);
        asm.load(Size::Double, Reg::R2, Reg::R2, 0);
        asm.jump_if(Reg::R1, Condition::GreaterOrEqual, Reg::R2, up);
        asm.load(Size::Double, Reg::R2, SLOT, slot::CLOSED as i16);
        asm.jump_if(Reg::R1, Condition::Less, Reg::R2, up);
        kept(asm, Reg::R2, IS_KNOWN);
        asm.jump_if(Reg::R2, Condition::NotEqual, 0, usable);
        asm.load(Size::Double, Reg::R2, SLOT, slot::STATE as i16);
        asm.jump_if(Reg::R2, Condition::Equal, slot::FREE, usable);
        asm.jump_if(Reg::R2, Condition::Equal, slot::DONE, usable);
        asm.jump_if(Reg::R2, Condition::Equal, slot::OPEN, up);
        asm.load(Size::Double, Reg::R2, SLOT, slot::TIME as i16);
        asm.alu(Alu::Add, Reg::R2, FORGOTTEN_MS);
        asm.jump_if(Reg::R1, Condition::Less, Reg::R2, up);
        asm.bind(usable);
        asm.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        asm.jump_if(Reg::R1, Condition::Set, FIN, up);
        kept(asm, Reg::R1, LEN);
        asm.jump_if(Reg::R1, Condition::Equal, 0, self.labels.drop);
        kept(asm, Reg::R1, HIT);
        asm.jump_if(Reg::R1, Condition::Equal, 0, up);
        kept(asm, Reg::R1, KEPT);
        asm.set(Reg::R2, Reg::R1);
        asm.alu(Alu::ShiftRight, Reg::R2, 8);
        asm.jump_if(Reg::R2, Condition::Less, MSS_INDEX_MIN as i32, up);
        asm.jump_if(Reg::R1, Condition::Set, ECN_BIT as i32, up);
        self.begin(of);
        self.asm.jump(self.labels.answer);

        let asm = &mut *self.asm;
        asm.bind(up);
        kept(asm, Reg::R1, MILLIS);
        asm.alu(Alu::Add, Reg::R1, CLOSED_MS);
        asm.store(Size::Double, SLOT, slot::CLOSED as i16, Reg::R1);
        kept(asm, Reg::R1, IS_KNOWN);
        asm.jump_if(Reg::R1, Condition::Equal, 0, pass);
        self.report(of, Outcome::Lost);
        let asm = &mut *self.asm;
        asm.store_imm(Size::Double, SLOT, slot::STATE as i16, slot::FREE);
        asm.bind(pass);
        asm.jump(self.labels.pass_locked);
        asm.bind(none);
        kept(asm, Reg::R1, IS_KNOWN);
        asm.jump_if(Reg::R1, Condition::Equal, 0, pass);
        asm.jump(self.labels.drop);
    }

    /// The slot is this connection's from now on.
    fn begin(&mut self, of: &WebHandler) {
        self.report(of, Outcome::Lost); // Of a connection that was forgotten.
        keep_ends(self.asm, SLOT, slot::ENDS);
        kept(self.asm, Reg::R1, KEPT);
        let to = slot::KEPT as i16;
        self.asm.store(Size::Word, SLOT, to, Reg::R1);
        self.set_state(slot::OPEN);
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, SEQ);
        for to in [slot::FIRST, slot::RCV] {
            asm.store(Size::Word, SLOT, to as i16, Reg::R1);
        }
        keep(asm, UP_RCV, Reg::R1);
        kept(asm, Reg::R1, ACK);
        keep(asm, UP_NXT, Reg::R1);
        for to in [slot::NXT, slot::UNA] {
            asm.store(Size::Word, SLOT, to as i16, Reg::R1);
        }
        self.keep_what_it_says();
    }

    fn keep_what_it_says(&mut self) {
        let words = [
            (Size::Double, STAMPS, slot::STAMPS),
            (Size::Word, WINDOW, slot::WINDOW),
            (Size::Double, MILLIS, slot::TIME),
        ];
        for (size, from, to) in words {
            kept(self.asm, Reg::R1, from);
            self.asm.store(size, SLOT, to as i16, Reg::R1);
        }
    }

    fn set_state(&mut self, state: i32) {
        let asm = &mut *self.asm;
        asm.store_imm(Size::Double, SLOT, slot::STATE as i16, state);
        kept(asm, Reg::R1, MILLIS);
        asm.store(Size::Double, SLOT, slot::TIME as i16, Reg::R1);
    }

    /// A sequence number of the slot.
    fn grow(&mut self, which: u64, by: i32) {
        let asm = &mut *self.asm;
        asm.load(Size::Word, Reg::R1, SLOT, which as i16);
        asm.alu32(Alu::Add, Reg::R1, by);
        asm.store(Size::Word, SLOT, which as i16, Reg::R1);
    }

    /// The request, in the slot's order and with an entry, is answered for the first time. To the place of hand-ups, with what is
    /// kept for that, where the peer has no room or the packet cannot grow.
    pub(super) fn answer(&mut self, of: &WebHandler) {
        let [unscaled, whole, undo, other, same] = [(); 5].map(|()| self.asm.label());
        self.asm.bind(self.labels.answer);
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, HIT);
        asm.alu(Alu::Sub, Reg::R1, 1);
        asm.store(Size::Word, SLOT, slot::ENTRY as i16, Reg::R1);
        self.choose_copy(of);
        self.copy(of, Reg::R0);
        let asm = &mut *self.asm;
        asm.load(Size::Double, Reg::R3, Reg::R0, copy::LEN as i16);
        keep(asm, OUT_LEN, Reg::R3);
        kept(asm, Reg::R1, WINDOW);
        asm.load(Size::Word, Reg::R2, SLOT, slot::KEPT as i16);
        asm.jump_if(Reg::R2, Condition::Set, TIMESTAMP_BITS as i32 + 1, unscaled);
        asm.alu(Alu::And, Reg::R2, SCALE_BITS as i32);
        asm.jump_if(Reg::R2, Condition::Equal, NO_SCALE as i32, unscaled);
        asm.alu(Alu::ShiftLeft, Reg::R1, Reg::R2);
        asm.bind(unscaled);
        asm.jump_if(Reg::R1, Condition::Less, Reg::R3, self.labels.hand_up);
        self.expect_room_to_report(of, self.labels.hand_up);
        self.make_room(of, self.labels.hand_up);
        self.begin_report(of);
        let asm = &mut *self.asm;
        asm.load(Size::Word, Reg::R1, SLOT, slot::NXT as i16);
        asm.store(Size::Word, SLOT, slot::UNA as i16, Reg::R1);
        kept(asm, Reg::R1, SEQ);
        asm.store(Size::Word, SLOT, slot::LAST as i16, Reg::R1);
        kept(asm, Reg::R2, LEN);
        asm.alu32(Alu::Add, Reg::R1, Reg::R2);
        asm.store(Size::Word, SLOT, slot::RCV as i16, Reg::R1);
        asm.store_imm(Size::Word, SLOT, slot::RESENT as i16, 0);
        self.slot_entry(of, Reg::R0);
        let asm = &mut *self.asm;
        asm.load(Size::Word, Reg::R1, Reg::R0, entry::GENERATION as i16);
        asm.store(Size::Word, SLOT, slot::GENERATION as i16, Reg::R1);
        asm.set(Reg::R1, 1);
        asm.push(crate::ebpf::Insn::atomic_add(
            Reg::R0,
            entry::HITS as i16,
            Reg::R1,
        ));
        self.copy(of, Reg::R0);
        let asm = &mut *self.asm;
        asm.load(Size::Word, Reg::R1, Reg::R0, copy::NOTE as i16);
        asm.store(Size::Word, SLOT, slot::NOTE as i16, Reg::R1);
        kept(asm, Reg::R2, OUT_LEN);
        asm.load(Size::Word, Reg::R3, Reg::R0, copy::CLOSES as i16);
        asm.alu(Alu::Add, Reg::R2, Reg::R3);
        asm.load(Size::Word, Reg::R1, SLOT, slot::NXT as i16);
        asm.alu32(Alu::Add, Reg::R1, Reg::R2);
        asm.store(Size::Word, SLOT, slot::NXT as i16, Reg::R1);
        asm.jump_if(Reg::R3, Condition::Equal, 0, whole);
        asm.store_imm(Size::Double, SLOT, slot::STATE as i16, slot::FINISHED);
        asm.bind(whole);
        self.asm.jump(self.labels.send_response);

        self.asm.bind(self.labels.again);
        self.expect_same_request(of, self.labels.drop);
        // Either copy is an answer that the request may have, if it is as long.
        self.choose_copy(of);
        self.expect_same_len(of, other);
        self.asm.jump(same);
        self.asm.bind(other);
        kept(self.asm, Reg::R1, OUT_COPY);
        self.asm.alu(Alu::Xor, Reg::R1, 1);
        keep(self.asm, OUT_COPY, Reg::R1);
        self.expect_same_len(of, self.labels.drop);
        self.asm.bind(same);
        let asm = &mut *self.asm;
        asm.load(Size::Word, Reg::R1, SLOT, slot::RESENT as i16);
        asm.jump_if(Reg::R1, Condition::GreaterOrEqual, RESENT_MAX, undo);
        asm.alu(Alu::Add, Reg::R1, 1);
        asm.store(Size::Word, SLOT, slot::RESENT as i16, Reg::R1);
        self.keep_what_it_says();
        self.make_room(of, self.labels.drop);
        self.asm.jump(self.labels.send_response);
        self.asm.bind(undo);
        self.undo(of);
    }
}
