//! How many of the kernel's instructions a handler can become at most. Of a branch both sides count, of a repetition its body once.
//!
//! The numbers are those of `kernel/body`; a test compares them with what is generated.

use crate::code::{Block, Condition, Expression, Part, Pipe, Statement, Take};
use crate::limits::TAKEN_BY_WORDS_MAX;

/// Instructions that a block can become.
pub(super) fn instructions(block: &Block) -> u64 {
    block.iter().map(statement).sum()
}

fn statement(of: &Statement) -> u64 {
    match of {
        Statement::Need(_) => 5,
        Statement::Set(_, value) => 1 + expression(value),
        Statement::Point(_, index) => 12 + expression(index),
        Statement::Find(find) => 220 + expression(&find.from) + expression(&find.length),
        Statement::Update(update) => 7 + update.change.words().map(expression).sum::<u64>(),
        Statement::Take(Take {
            from,
            length,
            pipes,
            ..
        }) => 75 + expression(from) + expression(length) + through(length, pipes),
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

/// Pipes are written for each word where it is known how many there are, and few; else for each length of a word.
fn through(length: &Expression, pipes: &[Pipe]) -> u64 {
    let words = match length.constant() {
        Some(bytes) if bytes <= TAKEN_BY_WORDS_MAX => bytes / 8 + 3,
        _ => 4,
    };
    let computed = pipes.iter().filter_map(Pipe::word);
    let keys: u64 = computed.map(|word| 20 + expression(word)).sum();
    let kept = 22 * Pipe::with_registers(pipes).count() as u64;
    match pipes.is_empty() {
        true => 0,
        false => keys + kept + words * (10 + pipes.iter().map(pass).sum::<u64>()),
    }
}

/// Of 8 bytes, with its register brought to hand.
fn pass(of: &Pipe) -> u64 {
    match of {
        Pipe::Swap(_) => 8,
        Pipe::Xor(..) | Pipe::And(..) | Pipe::Or(..) => 2,
        Pipe::Checksum(_) => 8,
        Pipe::Sum(..) => 17,
        Pipe::Hash(bytes, _) => 5 + 5 * 8 / u64::from(*bytes),
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
