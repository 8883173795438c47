//! Reports of answers to the server, where it wants them (for its log): each when the peer has taken the response, or when the
//! connection is over. An answer is given where there is room for its report; without it the connection goes up.

use super::layout::{HEARD, REPORT_COUNT, REPORT_LEN, REPORTED, TO_REPORT, report, slot};
use super::leave::AT_ONCE;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Fetch, Helper, Insn, Label, Reg, Size};

/// What became of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The peer has acknowledged it.
    Taken,
    /// The connection is over without that.
    Lost,
}

impl Generator<'_> {
    /// To `full` where one more answer might not find room for its report.
    pub(super) fn expect_room_to_report(&mut self, of: &WebHandler, full: Label) {
        if !of.reports {
            return;
        }
        let asm = &mut *self.asm;
        asm.load_map_value(Reg::R3, of.memory_fd, 0);
        asm.load(Size::Double, Reg::R1, Reg::R3, TO_REPORT as i16);
        asm.load(Size::Double, Reg::R2, Reg::R3, HEARD as i16);
        asm.alu(Alu::Sub, Reg::R1, Reg::R2);
        let most = REPORT_COUNT as i32 - AT_ONCE;
        asm.jump_if(Reg::R1, Condition::Greater, most, full);
    }

    /// The slot's request is being answered.
    pub(super) fn begin_report(&mut self, of: &WebHandler) {
        if !of.reports {
            return;
        }
        let asm = &mut *self.asm;
        asm.call(Helper::KtimeGetNs);
        asm.store(Size::Double, SLOT, slot::BEGUN as i16, Reg::R0);
        asm.load_map_value(Reg::R1, of.memory_fd, 0);
        asm.set(Reg::R2, 1);
        asm.push(Insn::atomic_add(Reg::R1, TO_REPORT as i16, Reg::R2));
    }

    /// Reports the slot's answer, if it is not reported yet. Loses r0 to r5.
    pub(super) fn report(&mut self, of: &WebHandler, outcome: Outcome) {
        if !of.reports {
            return;
        }
        let none = self.asm.label();
        let (at, number) = (Reg::R3, Reg::R4);
        let asm = &mut *self.asm;
        asm.load(Size::Double, Reg::R1, SLOT, slot::BEGUN as i16);
        asm.jump_if(Reg::R1, Condition::Equal, 0, none);
        asm.call(Helper::KtimeGetNs);
        asm.load_map_value(at, of.memory_fd, 0);
        asm.set(number, 1);
        asm.push(Insn::fetch(Fetch::Add, at, REPORTED as i16, number));
        asm.set(Reg::R5, number);
        asm.alu(Alu::And, Reg::R5, (REPORT_COUNT - 1) as i32);
        asm.alu(Alu::Mul, Reg::R5, REPORT_LEN as i32);
        asm.load_map_value(at, of.memory_fd, of.entries.memory_len() as u32);
        asm.alu(Alu::Add, at, Reg::R5);
        for (size, to, from) in [
            (Size::Double, report::PEER, slot::ENDS + 16),
            (Size::Double, report::PEER + 8, slot::ENDS + 24),
            (Size::Word, report::NOTE, slot::NOTE),
            (Size::Double, report::BEGUN, slot::BEGUN),
        ] {
            asm.load(size, Reg::R1, SLOT, from as i16);
            asm.store(Size::Double, at, to as i16, Reg::R1);
        }
        asm.store(Size::Double, at, report::ENDED as i16, Reg::R0);
        let is_taken = i32::from(outcome == Outcome::Taken);
        asm.store_imm(Size::Double, at, report::IS_TAKEN as i16, is_taken);
        asm.alu(Alu::Add, number, 1);
        asm.push(Insn::fetch(Fetch::Swap, at, report::NUMBER as i16, number));
        asm.store_imm(Size::Double, SLOT, slot::BEGUN as i16, 0);
        asm.bind(none);
    }

    /// The connection goes up: with the response, of which the server tells then, or behind it. Loses r0 to r5.
    pub(super) fn report_handed_up(&mut self, of: &WebHandler) {
        if !of.reports {
            return;
        }
        let [with, done] = [(); 2].map(|()| self.asm.label());
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, UP_SENT);
        asm.jump_if(Reg::R1, Condition::NotEqual, 0, with);
        self.report(of, Outcome::Taken);
        let asm = &mut *self.asm;
        asm.jump(done);
        asm.bind(with);
        asm.store_imm(Size::Double, SLOT, slot::BEGUN as i16, 0);
        asm.bind(done);
    }
}
