//! What the handler does, step by step.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, MemFlags, Value};

use super::{DONE, Generator};
use crate::code::{Block, Change, Condition, Expression, Statement, VariableId, goes_on};

impl Generator<'_, '_> {
    pub(super) fn block(&mut self, block: &Block) {
        for statement in block {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Need(bytes) => {
                let bytes = self.constant(i64::from(*bytes));
                self.give_up_if_more(bytes, self.length);
            }
            Statement::Set(variable, value) => {
                let value = self.word(value);
                self.keep(*variable, value);
            }
            Statement::Point(variable, index) => self.point(*variable, index),
            Statement::Find(find) => {
                let found = self.look_up(find);
                self.keep(find.word, found);
            }
            Statement::Update(update) => {
                let was = self.change(update.place, &update.change);
                if let Some(before) = update.before {
                    self.keep(before, was);
                }
            }
            Statement::Take(take) => {
                let results = self.take(take);
                for (variable, result) in take.registers.iter().zip(results) {
                    self.keep(*variable, result);
                }
            }
            Statement::If(condition, yes, no) => self.either(condition, yes, no),
            Statement::Repeat(counter, times, body) => self.repeat(*counter, *times, body),
            Statement::Break => {
                let behind = self.loops.last().expect("checked: within a repetition");
                self.build.ins().jump(*behind, &[]);
            }
            Statement::GiveUp => {
                self.build.ins().jump(self.give_up, &[]);
            }
            Statement::Done => self.end(DONE),
            Statement::Reply(reply) => self.reply(reply),
        }
    }

    fn point(&mut self, variable: VariableId, index: &Expression) {
        let number = self.handler.region_of(variable);
        let region = &self.handler.regions[number];
        let (last, stride) = (region.count - 1, region.stride());
        let index = self.word(index);
        let last = self.constant(last.into());
        self.give_up_if_more(index, last);
        let offset = self.build.ins().imul_imm(index, i64::from(stride));
        let start = i64::from(self.layout.start(number));
        let region = self.build.ins().iadd_imm(self.memory, start);
        let place = self.build.ins().iadd(region, offset);
        self.keep(variable, place);
    }

    /// What a word was before.
    fn change(&mut self, place: VariableId, change: &Change) -> Value {
        let (operation, value) = match change {
            Change::Store(value) => (AtomicRmwOp::Xchg, value),
            Change::Add(value) => (AtomicRmwOp::Add, value),
            Change::And(value) => (AtomicRmwOp::And, value),
            Change::Or(value) => (AtomicRmwOp::Or, value),
            Change::Xor(value) => (AtomicRmwOp::Xor, value),
            Change::CompareSwap(expected, new) => {
                let (expected, new) = (self.word(expected), self.word(new));
                let place = self.variable(place);
                let flags = MemFlags::trusted();
                return self.build.ins().atomic_cas(flags, place, expected, new);
            }
        };
        let value = self.word(value);
        let (place, flags) = (self.variable(place), MemFlags::trusted());
        self.build
            .ins()
            .atomic_rmw(I64, flags, operation, place, value)
    }

    fn either(&mut self, condition: &Condition, yes: &Block, no: &Block) {
        let [first, second, end] = [(); 3].map(|()| self.build.create_block());
        self.branch(condition, first, second);
        for (label, block) in [(first, yes), (second, no)] {
            self.build.switch_to_block(label);
            self.block(block);
            if goes_on(block) {
                self.build.ins().jump(end, &[]);
            }
        }
        if goes_on(yes) || goes_on(no) {
            self.build.switch_to_block(end);
        }
    }

    fn repeat(&mut self, counter: VariableId, times: u16, body: &Block) {
        let [again, behind] = [(); 2].map(|()| self.build.create_block());
        let zero = self.constant(0);
        self.keep(counter, zero);
        self.build.ins().jump(again, &[]);
        self.build.switch_to_block(again);
        self.loops.push(behind);
        self.block(body);
        self.loops.pop();
        if goes_on(body) {
            let count = self.variable(counter);
            let count = self.build.ins().iadd_imm(count, 1);
            self.keep(counter, count);
            let times = self.constant(times.into());
            let more = self.compare(IntCC::UnsignedLessThan, count, times);
            self.build.ins().brif(more, again, &[], behind, &[]);
        }
        self.build.switch_to_block(behind);
    }
}
