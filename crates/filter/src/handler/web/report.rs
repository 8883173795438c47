//! Reports of answers to the server, where it wants them (for its log): each when the peer has taken the response, or when the
//! connection is over. An answer is given where there is room for its report; without it the connection goes up.

use super::layout::{
    HEARD, LOGGED_LEN, LOGGED_MAX, REPORT_COUNT, REPORT_LEN, REPORTED, SLOT_COUNT, SLOT_LEN,
    TO_REPORT, report, slot,
};
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Fetch, Helper, Insn, Label, Reg, Size};
use crate::limits::AT_ONCE;

/// What became of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The peer has acknowledged it.
    Taken,
    /// The connection is over without that.
    Lost,
}

/// Registers of a copy of lines: from where, to where, and how many bytes.
const FROM: Reg = Reg::R0;
const TO: Reg = Reg::R1;
const LEN_OF_LINES: Reg = Reg::R2;

impl Generator<'_> {
    /// To `full` where one more answer might not find room for its report.
    pub(super) fn expect_room_to_report(&mut self, of: &WebHandler, full: Label) {
        if !of.reports {
            return;
        }
        self.load_map_value(Reg::R3, of.memory_fd, 0);
        self.load(Size::Double, Reg::R1, Reg::R3, TO_REPORT);
        self.load(Size::Double, Reg::R2, Reg::R3, HEARD);
        self.alu(Alu::Sub, Reg::R1, Reg::R2);
        let most = REPORT_COUNT as i32 - AT_ONCE;
        self.jump_if(Reg::R1, Condition::Greater, most, full);
    }

    /// The slot's request is being answered.
    pub(super) fn begin_report(&mut self, of: &WebHandler) {
        if !of.reports {
            return;
        }
        self.call(Helper::KtimeGetNs);
        self.store(Size::Double, SLOT, slot::BEGUN, Reg::R0);
        self.load_map_value(Reg::R1, of.memory_fd, 0);
        self.set(Reg::R2, 1);
        self.push(Insn::atomic_add(Reg::R1, TO_REPORT as i16, Reg::R2));
        if of.http {
            self.keep_logged_lines(of);
        }
    }

    /// Of a request that was found without noise, the lines for the log; of one that was found as it came the server knows them.
    fn keep_logged_lines(&mut self, of: &WebHandler) {
        let none = self.label();
        self.kept(LEN_OF_LINES, LOGGED_BYTES);
        logged_of_slot(self.asm, of, TO);
        self.store(Size::Double, TO, 0, LEN_OF_LINES);
        self.jump_if(LEN_OF_LINES, Condition::Equal, 0, none);
        self.store_imm(Size::Word, Reg::R10, COUNTER, 0);
        self.look_up(of.scratch_fd, COUNTER, self.labels.drop);
        self.alu(Alu::Add, FROM, i32::from(super::reduce::LOGGED_LINES));
        logged_of_slot(self.asm, of, TO);
        self.alu(Alu::Add, TO, 8);
        self.kept(LEN_OF_LINES, LOGGED_BYTES);
        copy_lines(self.asm);
        self.bind(none);
    }

    /// The slot's lines for the log, to those of the report whose number is in r4.
    fn report_logged_lines(&mut self, of: &WebHandler) {
        self.set(TO, Reg::R4);
        self.alu(Alu::And, TO, (REPORT_COUNT - 1) as i32);
        self.alu(Alu::Mul, TO, LOGGED_LEN as i32);
        let at = of.entries.logged_of_report(0);
        self.load_map_value(FROM, of.memory_fd, at as u32);
        self.alu(Alu::Add, TO, FROM);
        logged_of_slot(self.asm, of, FROM);
        self.load(Size::Double, LEN_OF_LINES, FROM, 0);
        self.store(Size::Double, TO, 0, LEN_OF_LINES);
        self.alu(Alu::Add, FROM, 8);
        self.alu(Alu::Add, TO, 8);
        copy_lines(self.asm);
    }

    /// Reports the slot's answer, if it is not reported yet. Loses r0 to r5.
    pub(super) fn report(&mut self, of: &WebHandler, outcome: Outcome) {
        if !of.reports {
            return;
        }
        let none = self.label();
        let (at, number) = (Reg::R3, Reg::R4);
        self.load(Size::Double, Reg::R1, SLOT, slot::BEGUN);
        self.jump_if(Reg::R1, Condition::Equal, 0, none);
        self.load_map_value(at, of.memory_fd, 0);
        self.set(number, 1);
        self.push(Insn::fetch(Fetch::Add, at, REPORTED as i16, number));
        self.keep(SPARE, number);
        if of.http {
            self.report_logged_lines(of);
        }
        self.call(Helper::KtimeGetNs);
        self.kept(number, SPARE);
        self.set(Reg::R5, number);
        self.alu(Alu::And, Reg::R5, (REPORT_COUNT - 1) as i32);
        self.alu(Alu::Mul, Reg::R5, REPORT_LEN as i32);
        self.load_map_value(at, of.memory_fd, of.entries.memory_len() as u32);
        self.alu(Alu::Add, at, Reg::R5);
        for (size, to, from) in [
            (Size::Double, report::PEER, slot::ENDS + 16),
            (Size::Double, report::PEER + 8, slot::ENDS + 24),
            (Size::Word, report::NOTE, slot::NOTE),
            (Size::Double, report::BEGUN, slot::BEGUN),
        ] {
            self.load(size, Reg::R1, SLOT, from);
            self.store(Size::Double, at, to, Reg::R1);
        }
        self.store(Size::Double, at, report::ENDED, Reg::R0);
        let is_taken = i32::from(outcome == Outcome::Taken);
        self.store_imm(Size::Double, at, report::IS_TAKEN, is_taken);
        self.alu(Alu::Add, number, 1);
        self.push(Insn::fetch(Fetch::Swap, at, report::NUMBER as i16, number));
        self.store_imm(Size::Double, SLOT, slot::BEGUN, 0);
        self.bind(none);
    }

    /// The connection goes up: with the response, of which the server tells then, or behind it. Loses r0 to r5.
    pub(super) fn report_handed_up(&mut self, of: &WebHandler) {
        if !of.reports {
            return;
        }
        let [with, done] = [(); 2].map(|()| self.label());
        self.kept(Reg::R1, UP_SENT);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, with);
        self.report(of, Outcome::Taken);
        self.jump(done);
        self.bind(with);
        self.store_imm(Size::Double, SLOT, slot::BEGUN, 0);
        self.bind(done);
    }
}

/// `dst` = where the lines of the slot's request are. Loses r5.
fn logged_of_slot(asm: &mut Assembler, of: &WebHandler, dst: Reg) {
    let at = Reg::R5;
    asm.kept(at, SLOT_AT);
    asm.alu(Alu::And, at, ((SLOT_COUNT - 1) * SLOT_LEN) as i32);
    asm.alu(Alu::Mul, at, (LOGGED_LEN / SLOT_LEN) as i32);
    let first = of.entries.logged_of_slot(0);
    asm.load_map_value(dst, of.memory_fd, first as u32);
    asm.alu(Alu::Add, dst, at);
}

/// In words. Loses all of r0 to r4.
fn copy_lines(asm: &mut Assembler) {
    let [again, done] = [(); 2].map(|()| asm.label());
    let (at, word) = (Reg::R3, Reg::R4);
    asm.set(at, 0);
    asm.bind(again);
    asm.jump_if(LEN_OF_LINES, Condition::LessOrEqual, at, done);
    asm.load(Size::Double, word, FROM, 0);
    asm.store(Size::Double, TO, 0, word);
    for place in [FROM, TO, at] {
        asm.alu(Alu::Add, place, 8);
    }
    asm.jump_if(at, Condition::Less, LOGGED_MAX as i32, again);
    asm.bind(done);
}
