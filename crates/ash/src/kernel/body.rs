//! What the handler does, step by step.

mod find;
mod pipes;
mod reply;
mod take;
mod word;

use exos_filter::ebpf::{Alu, Condition as Jump, Emit, Fetch, Insn, Label, Reg, Size};

use super::{Generator, KEPT, LENGTH, MESSAGE, stack};
use crate::code::{Block, Change, Expression, Statement, Update, VariableId, goes_on};

impl Generator<'_> {
    pub(super) fn block(&mut self, block: &Block) {
        let needed = self.needed;
        for (number, statement) in block.iter().enumerate() {
            if let Statement::Point(place, _) = statement {
                self.held = is_changed_by(block.get(number + 1), *place).then_some(*place);
            }
            self.statement(statement);
        }
        self.needed = needed;
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Need(bytes) => self.need(i32::from(*bytes)),
            Statement::Set(variable, value) => {
                self.bare = !self.addresses.has(*variable);
                self.word(value, 0);
                self.bare = false;
                self.assign(*variable);
            }
            Statement::Point(variable, index) => self.point(*variable, index),
            Statement::Find(find) => {
                self.find_word(find);
                self.assign(find.word);
            }
            Statement::Update(update) => {
                self.bare = !self.addresses.has_memory();
                self.change(update);
                self.bare = false;
            }
            Statement::Take(take) => match take.pipes.is_empty() {
                true => self.take(take),
                false => self.take_through(take),
            },
            Statement::If(condition, yes, no) => {
                let [otherwise, end] = [self.label(), self.label()];
                self.jump_where(condition, false, otherwise);
                self.block(yes);
                if !no.is_empty() && goes_on(yes) {
                    self.jump(end);
                }
                self.bind(otherwise);
                self.block(no);
                self.bind(end);
            }
            Statement::Repeat(counter, times, body) => self.repeat(*counter, *times, body),
            Statement::Break => {
                let behind = self.loops.last().expect("checked: within a repetition");
                self.jump(*behind);
            }
            Statement::GiveUp => self.jump(self.labels.give_up),
            Statement::Done => self.done(),
            Statement::Reply(reply) => self.reply(reply),
        }
    }

    /// Once for what is meant, unless the packet ends with the message, and once for what the verifier is to know.
    fn need(&mut self, bytes: i32) {
        let give_up = self.labels.give_up;
        if !self.of.handler.is_cut() {
            self.jump_if(LENGTH, Jump::Less, bytes, give_up);
        }
        self.expect_bytes(bytes, give_up);
        self.needed = self.needed.max(bytes);
    }

    /// Jumps where the packet does not have this many bytes of the message. r1 and r2 are lost.
    fn expect_bytes(&mut self, bytes: i32, other: Label) {
        self.set(Reg::R1, MESSAGE);
        self.alu(Alu::Add, Reg::R1, bytes);
        self.end_of_packet(Reg::R2);
        self.jump_if(Reg::R1, Jump::Greater, Reg::R2, other);
    }

    fn point(&mut self, variable: VariableId, index: &Expression) {
        let number = self.of.handler.handler().region_of(variable);
        let region = &self.of.handler.handler().regions[number];
        let (last, stride) = (region.count - 1, region.stride());
        self.word(index, 0);
        self.jump_if(Reg::R0, Jump::Greater, last as i32, self.labels.give_up);
        if index.constant().is_none() {
            self.clamp(Reg::R0, Reg::R1, region.count);
        }
        self.alu(Alu::Mul, Reg::R0, stride as i32);
        self.load_map_value(Reg::R1, self.of.memory_fd, self.layout.start(number));
        self.alu(Alu::Add, Reg::R1, Reg::R0);
        self.keep(stack::variable(variable), Reg::R1);
        if self.held.is_some() {
            self.set(KEPT, Reg::R1);
        }
    }

    fn change(&mut self, update: &Update) {
        let (place, before) = (update.place, update.before);
        let (fetch, value) = match &update.change {
            Change::Store(value) => (Fetch::Swap, value),
            Change::Add(value) => (Fetch::Add, value),
            Change::And(value) => (Fetch::And, value),
            Change::Or(value) => (Fetch::Or, value),
            Change::Xor(value) => (Fetch::Xor, value),
            Change::CompareSwap(expected, new) => {
                self.word(expected, 0);
                let waiting = stack::intermediate(0);
                self.keep(waiting, Reg::R0);
                self.word(new, 1);
                self.set(Reg::R2, Reg::R0);
                self.kept(Reg::R0, waiting);
                let at = self.changed(place);
                self.push(Insn::compare_exchange(at, 0, Reg::R2));
                return self.keep_before(before);
            }
        };
        self.word(value, 0);
        let at = self.changed(place);
        self.push(Insn::fetch(fetch, at, 0, Reg::R0));
        self.keep_before(before);
    }

    /// Where the place is that is changed: one that has just been pointed at is in r9, for which nothing has to wait.
    fn changed(&mut self, place: VariableId) -> Reg {
        if self.held.take() == Some(place) {
            return KEPT;
        }
        self.place(place);
        Reg::R1
    }

    fn keep_before(&mut self, before: Option<VariableId>) {
        if let Some(before) = before {
            self.assign(before);
        }
    }

    fn repeat(&mut self, counter: VariableId, times: u16, body: &Block) {
        let [again, behind] = [self.label(), self.label()];
        let counter = stack::variable(counter);
        self.store_imm(Size::Double, Reg::R10, counter, 0);
        self.bind(again);
        self.loops.push(behind);
        self.block(body);
        self.loops.pop();
        if goes_on(body) {
            self.kept(Reg::R0, counter);
            self.alu(Alu::Add, Reg::R0, 1);
            self.keep(counter, Reg::R0);
            self.jump_if(Reg::R0, Jump::Less, i32::from(times), again);
        }
        self.bind(behind);
    }

    /// A variable becomes r0.
    fn assign(&mut self, variable: VariableId) {
        self.keep(stack::variable(variable), Reg::R0);
    }

    /// r1 = where a place is.
    fn place(&mut self, variable: VariableId) {
        self.kept(Reg::R1, stack::variable(variable));
    }
}

/// Whether a statement, the next one, changes a place.
fn is_changed_by(next: Option<&Statement>, place: VariableId) -> bool {
    matches!(next, Some(Statement::Update(update)) if update.place == place)
}
