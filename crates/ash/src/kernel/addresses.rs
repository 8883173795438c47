//! What becomes an address, of memory or of the instruction that is next, also where one instruction decides (a division, a comparison): what is
//! read of the message on a mistaken way must not be that ([`nospec`](super::nospec)). What is only added to memory, or written into a reply, need not be masked, if nothing of that memory becomes one.

use crate::code::{
    Block, Change, Condition, Expression, Handler, Operator, Part, Reply, Statement, Update,
    VariableId,
};

/// Variables, and memory, of which something becomes an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    variables: u32,
    memory: bool,
}

/// Whether how long it takes tells what it is made of.
pub(super) fn takes_its_time(operator: Operator) -> bool {
    matches!(operator, Operator::Divide | Operator::Remainder)
}

impl Addresses {
    /// Follows what variables and memory are made of, until nothing is new.
    pub fn of(handler: &Handler) -> Self {
        let mut found = Self::default();
        loop {
            let before = found;
            found.block(&handler.body);
            if found == before {
                return found;
            }
        }
    }

    /// Whether something of a variable becomes an address.
    pub fn has(self, variable: VariableId) -> bool {
        self.variables & 1 << variable.0 != 0
    }

    /// Whether something of memory that handlers change becomes one.
    pub fn has_memory(self) -> bool {
        self.memory
    }

    fn block(&mut self, block: &Block) {
        block.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Set(variable, value) => self.value(value, self.has(*variable)),
            Statement::Point(_, index) => self.value(index, true),
            Statement::Find(find) => {
                self.value(&find.from, true);
                self.value(&find.length, true);
            }
            Statement::Update(Update { change, before, .. }) => {
                // Some processors compare by a jump (arm64 without LSE).
                self.memory |= matches!(change, Change::CompareSwap(..))
                    || before.is_some_and(|before| self.has(before));
                for word in change.words() {
                    self.value(word, self.memory);
                }
            }
            Statement::Take(take) => {
                self.value(&take.from, true);
                self.value(&take.length, true);
                let words = take.pipes.iter().filter_map(|pipe| pipe.word());
                words.for_each(|word| self.value(word, true));
            }
            Statement::If(condition, yes, no) => {
                self.condition(condition);
                self.block(yes);
                self.block(no);
            }
            Statement::Repeat(_, _, body) => self.block(body),
            Statement::Reply(reply) => self.reply(reply),
            Statement::Need(_) | Statement::Break | Statement::GiveUp | Statement::Done => {}
        }
    }

    fn reply(&mut self, reply: &Reply) {
        self.value(&reply.length, true);
        for part in &reply.parts {
            match part {
                Part::Number { value, .. } => self.value(value, false),
                Part::Row { length, .. } => self.value(length, true),
            }
        }
    }

    fn condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Compare(_, a, b) => {
                self.value(a, true);
                self.value(b, true);
            }
            Condition::Both(a, b) | Condition::Either(a, b) => {
                self.condition(a);
                self.condition(b);
            }
        }
    }

    /// What a word is made of, which becomes an address or not.
    fn value(&mut self, value: &Expression, is_one: bool) {
        match value {
            Expression::Constant(_) | Expression::Length => {}
            Expression::Variable(variable) => {
                self.variables |= u32::from(is_one) << variable.0;
            }
            Expression::Word(_) => self.memory |= is_one,
            Expression::Number(_, at) => self.value(at, true),
            Expression::Binary(operator, a, b) => {
                let is_one = is_one || takes_its_time(*operator);
                self.value(a, is_one);
                self.value(b, is_one);
            }
        }
    }
}
