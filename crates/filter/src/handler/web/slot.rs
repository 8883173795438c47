//! What changes in the slot of a connection.

use super::layout::slot;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Reg, Size};

impl Generator<'_> {
    /// The segment says it, and its checksum is right.
    pub(super) fn keep_what_it_says(&mut self, of: &WebHandler) {
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, STAMPS);
        asm.store(Size::Double, SLOT, slot::STAMPS as i16, Reg::R1);
        kept(asm, Reg::R1, WINDOW);
        if of.rings.cores() > 1 {
            kept(asm, Reg::R2, CORE);
            asm.alu(Alu::ShiftLeft, Reg::R2, slot::CORE_SHIFT as i32);
            asm.alu(Alu::Or, Reg::R1, Reg::R2);
        }
        asm.store(Size::Word, SLOT, slot::WINDOW as i16, Reg::R1);
    }

    pub(super) fn set_state(&mut self, state: i32) {
        let asm = &mut *self.asm;
        asm.store_imm(Size::Double, SLOT, slot::STATE as i16, state);
        self.note_time();
    }

    /// Something has come: data, or an acknowledgement of some. What says nothing new does not count, or a client that repeats it would hold
    /// its connection for ever.
    pub(super) fn note_time(&mut self) {
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, MILLIS);
        asm.store(Size::Double, SLOT, slot::TIME as i16, Reg::R1);
    }

    /// A sequence number of the slot.
    pub(super) fn grow(&mut self, which: u64, by: i32) {
        let asm = &mut *self.asm;
        asm.load(Size::Word, Reg::R1, SLOT, which as i16);
        asm.alu32(Alu::Add, Reg::R1, by);
        asm.store(Size::Word, SLOT, which as i16, Reg::R1);
    }

    /// All that was sent is acknowledged.
    pub(super) fn acknowledge_all(&mut self) {
        let asm = &mut *self.asm;
        asm.load(Size::Word, Reg::R1, SLOT, slot::NXT as i16);
        asm.store(Size::Word, SLOT, slot::UNA as i16, Reg::R1);
    }
}
