//! A request is answered for the first time.

use super::layout::{RESPONSE_MAX, copy, entry, slot};
use super::shape::*;
use super::write::{KEPT_SCALED, header_len};
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Emit, Insn, Label, Reg, Size};
use exos_wire::tcp;
use exos_wire::tcp::cookie::{
    MSS_TABLE, NO_SCALE, SCALE_BITS, SCALED, SCALED_BY, SCALED_MSS, TIMESTAMP_BITS,
};

/// With an MSS of this index of a cookie's, or a greater one, a response of any length fits.
const FITS_ALL: usize = 3;
const _: () = assert!(RESPONSE_MAX + header_len(true) - tcp::LEN <= MSS_TABLE[FITS_ALL] as usize);
const _: () = assert!(SCALED >= FITS_ALL && SCALED_MSS >= MSS_TABLE[FITS_ALL]);

impl Generator<'_> {
    /// The request, in the slot's order and with an entry, is answered for the first time. To the place of hand-ups, with what is
    /// kept for that, where the peer has no room or the packet cannot grow.
    pub(super) fn answer(&mut self, of: &WebHandler) {
        self.bind(self.labels.answer);
        self.kept(Reg::R1, HIT);
        self.alu(Alu::Sub, Reg::R1, 1);
        self.store(Size::Word, SLOT, slot::ENTRY, Reg::R1);
        self.choose_response(of);
        self.copy(of, Reg::R0);
        self.load(Size::Double, Reg::R3, Reg::R0, copy::LEN);
        self.keep(OUT_LEN, Reg::R3);
        self.expect_window(self.labels.hand_up);
        self.expect_fits_segment(self.labels.hand_up);
        self.expect_room_to_report(of, self.labels.hand_up);
        self.make_room(of, self.labels.hand_up);
        self.begin_report(of);
        self.note_request();
        self.note_response(of);
        self.jump(self.labels.send_response);
    }

    /// To `other` where the peer has no room for the response, whose length is in r3.
    fn expect_window(&mut self, other: Label) {
        let [stamped, scaled, unscaled] = [(); 3].map(|()| self.label());
        self.kept(Reg::R1, WINDOW);
        self.load(Size::Word, Reg::R2, SLOT, slot::KEPT);
        self.jump_if(Reg::R2, Condition::NotEqual, KEPT_SCALED, stamped);
        self.set(Reg::R2, i32::from(SCALED_BY));
        self.jump(scaled);
        self.bind(stamped);
        self.jump_if(Reg::R2, Condition::Set, TIMESTAMP_BITS as i32 + 1, unscaled);
        self.alu(Alu::And, Reg::R2, SCALE_BITS as i32);
        self.jump_if(Reg::R2, Condition::Equal, NO_SCALE as i32, unscaled);
        self.bind(scaled);
        self.alu(Alu::ShiftLeft, Reg::R1, Reg::R2);
        self.bind(unscaled);
        self.jump_if(Reg::R1, Condition::Less, Reg::R3, other);
    }

    /// To `other` where the response, whose length is in r3, is longer than the peer takes in one segment.
    fn expect_fits_segment(&mut self, other: Label) {
        let [fits, found] = [(); 2].map(|()| self.label());
        let (most, index) = (Reg::R1, Reg::R2);
        self.load(Size::Word, index, SLOT, slot::KEPT);
        self.alu(Alu::ShiftRight, index, 8);
        self.jump_if(index, Condition::GreaterOrEqual, FITS_ALL as i32, fits);
        for (at, mss) in MSS_TABLE.into_iter().enumerate().take(FITS_ALL) {
            self.set(most, i32::from(mss) + tcp::LEN as i32);
            self.jump_if(index, Condition::Equal, at as i32, found);
        }
        self.bind(found);
        // Options are taken off (RFC 6691 §2).
        self.kept(index, HEADER);
        self.alu(Alu::Sub, most, index);
        self.jump_if(most, Condition::Less, Reg::R3, other);
        self.bind(fits);
    }

    /// The slot's request is this one from now on.
    fn note_request(&mut self) {
        self.load(Size::Word, Reg::R1, SLOT, slot::NXT);
        self.store(Size::Word, SLOT, slot::UNA, Reg::R1);
        self.kept(Reg::R1, SEQ);
        self.store(Size::Word, SLOT, slot::LAST, Reg::R1);
        self.kept(Reg::R2, LEN);
        self.alu32(Alu::Add, Reg::R1, Reg::R2);
        self.store(Size::Word, SLOT, slot::RCV, Reg::R1);
        self.store_imm(Size::Word, SLOT, slot::RESENT, 0);
    }

    /// Its response is the copy that was chosen.
    fn note_response(&mut self, of: &WebHandler) {
        let whole = self.label();
        self.slot_entry(of, Reg::R0);
        self.kept(Reg::R1, OUT_VERSION);
        self.store(Size::Word, SLOT, slot::VERSION, Reg::R1);
        self.set(Reg::R1, 1);
        self.push(Insn::atomic_add(Reg::R0, entry::HITS as i16, Reg::R1));
        self.copy(of, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R0, copy::NOTE);
        self.store(Size::Word, SLOT, slot::NOTE, Reg::R1);
        self.kept(Reg::R2, OUT_LEN);
        self.load(Size::Word, Reg::R3, Reg::R0, copy::CLOSES);
        self.alu(Alu::Add, Reg::R2, Reg::R3);
        self.load(Size::Word, Reg::R1, SLOT, slot::NXT);
        self.alu32(Alu::Add, Reg::R1, Reg::R2);
        self.store(Size::Word, SLOT, slot::NXT, Reg::R1);
        self.jump_if(Reg::R3, Condition::Equal, 0, whole);
        self.store_imm(Size::Double, SLOT, slot::STATE, slot::FINISHED);
        self.bind(whole);
    }
}
