//! What a handler can cost at most.

use crate::code::{Block, Condition, Expression, Handler, Part, Pipe, Statement};
use crate::code::{RegionKind, VariableId, VariableKind};
use crate::limits::MESSAGE_MAX;

/// Steps of the dearest way through a handler.
pub(super) fn steps(handler: &Handler) -> u64 {
    Cost { handler }.block(&handler.body)
}

/// More than any handler may cost; what costs more is not told apart, so that no sum is too large for its type.
const FAR_TOO_MANY: u64 = 1 << 32;

/// A likely length at most: what is longer is summed in some hundreds of instructions more, which few messages may need.
const LIKELY_MAX: i32 = 64;

/// The longest reply of any in a block, if there is one.
pub(super) fn longest_reply(block: &Block) -> Option<u16> {
    let of = |statement: &Statement| match statement {
        Statement::Reply(reply) => Some(reply.most),
        Statement::If(_, yes, no) => longest_reply(yes).max(longest_reply(no)),
        Statement::Repeat(_, _, body) => longest_reply(body),
        _ => None,
    };
    block.iter().filter_map(of).max()
}

/// How long a message has to be made before anything has an effect, so that each reply of a block has room: none for one as long as the
/// message.
pub(super) fn room(block: &Block) -> u16 {
    let of = |statement: &Statement| match statement {
        Statement::Reply(reply) if reply.length == Expression::Length => 0,
        Statement::Reply(reply) => reply.most,
        Statement::If(_, yes, no) => room(yes).max(room(no)),
        Statement::Repeat(_, _, body) => room(body),
        _ => 0,
    };
    block.iter().map(of).max().unwrap_or(0)
}

/// The most bytes that a message needs on each way, but those that are many.
pub(super) fn likely_length(block: &Block) -> i32 {
    let needed = block.iter().filter_map(|statement| match statement {
        Statement::Need(bytes) => Some(i32::from(*bytes)),
        _ => None,
    });
    needed
        .filter(|bytes| *bytes <= LIKELY_MAX)
        .max()
        .unwrap_or(0)
}

struct Cost<'a> {
    handler: &'a Handler,
}

impl Cost<'_> {
    fn block(&self, block: &Block) -> u64 {
        block
            .iter()
            .map(|statement| self.statement(statement))
            .sum()
    }

    fn statement(&self, statement: &Statement) -> u64 {
        1 + match statement {
            Statement::Set(_, value) | Statement::Point(_, value) => expression(value),
            Statement::Change { change, .. } => change.words().map(expression).sum(),
            // Both buckets; the key is read once for its hash and once to compare it.
            Statement::Find {
                table,
                from,
                length,
                ..
            } => expression(from) + expression(length) + 16 + u64::from(self.key_max(*table) / 4),
            Statement::Take {
                row,
                from,
                length,
                pipes,
                ..
            } => {
                let keys: u64 = pipes.iter().filter_map(Pipe::word).map(expression).sum();
                let passes = 1 + pipes.len() as u64;
                expression(from) + expression(length) + keys + self.row(*row) * passes
            }
            Statement::If(when, yes, no) => condition(when) + self.block(yes).max(self.block(no)),
            Statement::Repeat(_, times, body) => {
                let each = self.block(body) + 1;
                u64::from(*times).saturating_mul(each).min(FAR_TOO_MANY)
            }
            Statement::Reply(reply) => {
                let parts = reply.parts.iter().map(|part| match part {
                    Part::Number { value, .. } => 1 + expression(value),
                    Part::Row { row, length, .. } => 1 + expression(length) + self.row(*row),
                });
                expression(&reply.length) + u64::from(reply.most / 8) + parts.sum::<u64>()
            }
            Statement::Need(_) | Statement::Break | Statement::GiveUp | Statement::Done => 0,
        }
    }

    fn key_max(&self, table: u8) -> u32 {
        match self.handler.regions[usize::from(table)].kind {
            RegionKind::Table(key_max) => key_max,
            RegionKind::Words | RegionKind::Rows(_) => 0,
        }
    }

    /// Steps to copy a row, or as much of it as a message can be.
    fn row(&self, row: VariableId) -> u64 {
        let kind = self.handler.variables.get(usize::from(row.0));
        let Some(VariableKind::Place(region)) = kind.map(|variable| variable.kind) else {
            return 0;
        };
        match self.handler.regions[usize::from(region)].kind {
            RegionKind::Words | RegionKind::Table(_) => 1,
            RegionKind::Rows(bytes) => u64::from(bytes.min(u32::from(MESSAGE_MAX)) / 8),
        }
    }
}

fn expression(of: &Expression) -> u64 {
    1 + match of {
        Expression::Number(_, at) => expression(at),
        Expression::Binary(_, a, b) => expression(a) + expression(b),
        Expression::Constant(_) | Expression::Variable(_) => 0,
        Expression::Length | Expression::Word(_) => 0,
    }
}

fn condition(of: &Condition) -> u64 {
    match of {
        Condition::Compare(_, a, b) => expression(a) + expression(b),
        Condition::Both(a, b) | Condition::Either(a, b) => condition(a) + condition(b),
    }
}
