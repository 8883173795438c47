//! How many of the kernel's instructions a handler can become at most. Of a branch both sides count, of a repetition its body once.
//!
//! The numbers are those of `kernel/body`; a test compares them with what is generated.

use crate::code::{Block, Condition, Expression, Part, Statement};

/// Instructions that a block can become.
pub(super) fn instructions(block: &Block) -> u64 {
    block.iter().map(statement).sum()
}

fn statement(of: &Statement) -> u64 {
    match of {
        Statement::Need(_) => 5,
        Statement::Set(_, value) => 1 + expression(value),
        Statement::Point(_, index) => 12 + expression(index),
        Statement::Find { from, length, .. } => 220 + expression(from) + expression(length),
        Statement::Change { change, .. } => 7 + change.words().map(expression).sum::<u64>(),
        Statement::Take { from, length, .. } => 55 + expression(from) + expression(length),
        Statement::If(when, yes, no) => 1 + condition(when) + instructions(yes) + instructions(no),
        Statement::Repeat(_, _, body) => 5 + instructions(body),
        Statement::Break | Statement::GiveUp => 1,
        // With its counter.
        Statement::Done => 15,
        Statement::Reply(reply) => {
            let parts: u64 = reply.parts.iter().map(part).sum();
            33 + expression(&reply.length) + parts
        }
    }
}

fn part(of: &Part) -> u64 {
    match of {
        Part::Number { value, .. } => 22 + expression(value),
        Part::Row { length, .. } => 14 + expression(length),
    }
}

fn condition(of: &Condition) -> u64 {
    match of {
        Condition::Compare(_, a, b) => 5 + expression(a) + expression(b),
        Condition::Both(a, b) | Condition::Either(a, b) => condition(a) + condition(b),
    }
}

fn expression(of: &Expression) -> u64 {
    match of {
        Expression::Constant(_) | Expression::Word(_) => 2,
        Expression::Variable(_) | Expression::Length => 1,
        Expression::Number(_, at) if at.constant().is_some() => 6,
        Expression::Number(_, at) => 20 + expression(at),
        Expression::Binary(_, a, b) => 5 + expression(a) + expression(b),
    }
}
