//! What changes in the slot of a connection.

use super::layout::slot;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Emit, Reg, Size};

impl Generator<'_> {
    /// The segment says it, and its checksum is right.
    pub(super) fn keep_what_it_says(&mut self, of: &WebHandler) {
        self.kept(Reg::R1, STAMPS);
        self.store(Size::Double, SLOT, slot::STAMPS, Reg::R1);
        self.kept(Reg::R1, WINDOW);
        if of.rings.cores() > 1 {
            self.kept(Reg::R2, CORE);
            self.alu(Alu::ShiftLeft, Reg::R2, slot::CORE_SHIFT as i32);
            self.alu(Alu::Or, Reg::R1, Reg::R2);
        }
        self.store(Size::Word, SLOT, slot::WINDOW, Reg::R1);
    }

    pub(super) fn set_state(&mut self, state: i32) {
        self.store_imm(Size::Double, SLOT, slot::STATE, state);
        self.note_time();
    }

    /// Something has come: data, or an acknowledgement of some. What says nothing new does not count, or a client that repeats it would hold
    /// its connection for ever.
    pub(super) fn note_time(&mut self) {
        self.kept(Reg::R1, MILLIS);
        self.store(Size::Double, SLOT, slot::TIME, Reg::R1);
    }

    /// A sequence number of the slot.
    pub(super) fn grow(&mut self, which: u64, by: i32) {
        self.load(Size::Word, Reg::R1, SLOT, which);
        self.alu32(Alu::Add, Reg::R1, by);
        self.store(Size::Word, SLOT, which, Reg::R1);
    }

    /// All that was sent is acknowledged.
    pub(super) fn acknowledge_all(&mut self) {
        self.load(Size::Word, Reg::R1, SLOT, slot::NXT);
        self.store(Size::Word, SLOT, slot::UNA, Reg::R1);
    }
}
