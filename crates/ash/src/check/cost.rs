//! What a handler can cost at most, in [steps](crate::limits::STEPS_MAX) of a nanosecond.
//!
//! Weights are tenths of a step, measured with one core of an AMD EPYC in the kernel's test run. They say how much dearer one thing is than
//! another; another machine is faster or slower at all of them.

use crate::code::{
    Block, Condition, Expression, Find, Handler, Operator, Part, Pipe, Region, RegionKind, Reply,
    Statement, Take, VariableId, VariableKind,
};
use crate::limits::{MESSAGE_MAX, REGIONS_MAX, TAKEN_BY_WORDS_MAX};

/// A statement, a word that is at hand, an operation, a jump.
const OPERATION: u64 = 1;
const MULTIPLICATION: u64 = 3;
const DIVISION: u64 = 34;
/// A number of the message, at a known byte and at a computed one.
const NUMBER: u64 = 3;
const NUMBER_SOMEWHERE: u64 = 7;
/// Once more through a repetition: its counter waits in memory.
const REPETITION: u64 = 4;
/// A change of a word, which no other processor sees half of.
const CHANGE: u64 = 46;
/// A place that is looked for.
const PLACE: u64 = 4;
/// A helper of the kernel that copies, what 8 bytes take it, and what a word of 8 bytes or fewer takes where they go word by word, for each pipe
/// again: more where it is a sum, and for each word of a hash, which waits for the one before.
const COPY: u64 = 300;
const COPIED_WORD: u64 = 1;
const TAKEN_WORD: u64 = 3;
const ADDED_WORD: u64 = 7;
const HASHED_WORD: u64 = 12;
/// A packet that has to be moved to have room for a reply is read and written by as many bytes at once.
const MOVED_LEN: u64 = 64;
/// A look-up: the heads of both buckets; and 8 bytes of the key, once for its hash and once to compare them.
const FIND: u64 = 110;
const KEY_WORD: u64 = 18;
/// A reply's headers; and where its checksum is not known, or its length is another: that, and each 8 bytes.
const REPLY: u64 = 100;
const REPLY_MADE: u64 = 250;
const SUMMED_WORD: u64 = 4;

/// A place takes as much more where the handler's memory is too large for the nearest caches, and where it is too large for any; but one in
/// a region that is small, of which as many as a handler may have are near.
const SMALL_MAX: u64 = NEAR_MAX / REGIONS_MAX as u64;
const NEAR_MAX: u64 = 512 << 10;
const FAR: u64 = 110;
const CACHED_MAX: u64 = 4 << 20;
const FARTHEST: u64 = 1300;

/// Steps of the dearest way through a handler.
pub(super) fn steps(handler: &Handler) -> u64 {
    let moved = u64::from(room(&handler.body, 0)) / MOVED_LEN * 2 * COPY;
    (moved + Cost { handler }.block(&handler.body)).div_ceil(10)
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

/// How long a message has to be made before anything has an effect, so that each reply of a block has room: none for one that is no longer
/// than the message, because it is as long, or `needed` bytes are known to be there.
pub(super) fn room(block: &Block, mut needed: u16) -> u16 {
    let of = |statement: &Statement| match statement {
        Statement::Need(bytes) => {
            needed = needed.max(*bytes);
            0
        }
        Statement::Reply(reply) if reply.length == Expression::Length => 0,
        Statement::Reply(reply) if reply.most <= needed => 0,
        Statement::Reply(reply) => reply.most,
        Statement::If(_, yes, no) => room(yes, needed).max(room(no, needed)),
        Statement::Repeat(_, _, body) => room(body, needed),
        _ => 0,
    };
    block.iter().map(of).max().unwrap_or(0)
}

/// The length of all replies of a block, if they have one.
pub(super) fn reply_length(block: &Block) -> Option<u16> {
    fn collect(block: &Block, lengths: &mut Vec<Option<u64>>) {
        for statement in block {
            match statement {
                Statement::Reply(reply) => lengths.push(reply.length.constant()),
                Statement::If(_, yes, no) => {
                    collect(yes, lengths);
                    collect(no, lengths);
                }
                Statement::Repeat(_, _, body) => collect(body, lengths),
                _ => {}
            }
        }
    }
    let mut lengths = Vec::new();
    collect(block, &mut lengths);
    let first = *lengths.first()?;
    let is_one = lengths.iter().all(|length| *length == first);
    first.filter(|_| is_one)?.try_into().ok()
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
            .map(|statement| OPERATION + self.statement(statement))
            .sum()
    }

    fn statement(&self, statement: &Statement) -> u64 {
        match statement {
            Statement::Set(_, value) => expression(value),
            Statement::Point(place, index) => {
                let region = self.region_of(*place);
                PLACE + region.map_or(0, |region| self.distance(region)) + expression(index)
            }
            Statement::Update(update) => {
                CHANGE + update.change.words().map(expression).sum::<u64>()
            }
            Statement::Find(find) => self.look_up(find),
            Statement::Take(take) => self.take(take),
            Statement::If(when, yes, no) => condition(when) + self.block(yes).max(self.block(no)),
            Statement::Repeat(_, times, body) => {
                let each = self.block(body) + REPETITION;
                u64::from(*times).saturating_mul(each).min(FAR_TOO_MANY)
            }
            Statement::Reply(reply) => self.reply(reply),
            Statement::Need(_) | Statement::Break | Statement::GiveUp | Statement::Done => 0,
        }
    }

    /// Two lines of heads, and an entry.
    fn look_up(&self, find: &Find) -> u64 {
        let region = self.handler.regions.get(usize::from(find.table));
        let looked_up = region.map_or(0, |region| match region.kind {
            RegionKind::Table(key) => {
                FIND + u64::from(key / 8) * KEY_WORD + 3 * self.distance(region)
            }
            RegionKind::Words | RegionKind::Rows(_) => 0,
        });
        expression(&find.from) + expression(&find.length) + looked_up
    }

    fn take(&self, take: &Take) -> u64 {
        let (row, pipes) = (take.row, &take.pipes);
        let is_known = take.from.constant().is_some();
        let few = take.length.constant();
        let few = few.filter(|few| *few <= TAKEN_BY_WORDS_MAX);
        let keys: u64 = pipes.iter().filter_map(Pipe::word).map(expression).sum();
        let passes = TAKEN_WORD + pipes.iter().map(pass).sum::<u64>();
        let taken = match few {
            Some(few) if is_known => keys + words_of(few) * passes,
            _ if pipes.is_empty() => self.copy(row),
            // The most words are those of one byte less than the row has.
            _ => keys + self.copy(row) + (self.words_of(row) + 2) * passes,
        };
        expression(&take.from) + expression(&take.length) + taken
    }

    fn reply(&self, reply: &Reply) -> u64 {
        let parts = reply.parts.iter().map(|part| match part {
            Part::Number { value, .. } => NUMBER + expression(value),
            Part::Row { row, length, .. } => expression(length) + self.copy(*row),
        });
        let follows = reply.parts.iter().all(Part::can_follow);
        let made = match reply.length == Expression::Length && follows {
            true => 0,
            false => REPLY_MADE + u64::from(reply.most / 8) * SUMMED_WORD,
        };
        REPLY + made + expression(&reply.length) + parts.sum::<u64>()
    }

    /// A row that is copied by a call, as much of it as a message can be.
    fn copy(&self, row: VariableId) -> u64 {
        COPY + self.words_of(row) * COPIED_WORD
    }

    fn words_of(&self, row: VariableId) -> u64 {
        self.region_of(row).map_or(0, |region| {
            u64::from(region.stride().min(MESSAGE_MAX.into()) / 8)
        })
    }

    /// What a place of a region takes that nobody has been at lately.
    fn distance(&self, region: &Region) -> u64 {
        let bytes = |region: &Region| u64::from(region.count) * u64::from(region.stride());
        let all: u64 = self.handler.regions.iter().map(bytes).sum();
        if bytes(region) <= SMALL_MAX || all <= NEAR_MAX {
            0
        } else if all <= CACHED_MAX {
            FAR
        } else {
            FARTHEST
        }
    }

    fn region_of(&self, place: VariableId) -> Option<&Region> {
        let variable = self.handler.variables.get(usize::from(place.0))?;
        match variable.kind {
            VariableKind::Place(region) => self.handler.regions.get(usize::from(region)),
            VariableKind::Word => None,
        }
    }
}

/// Words that bytes are taken by: of 8 bytes, and of 4, 2 and 1 at the end.
fn words_of(bytes: u64) -> u64 {
    bytes / 8 + u64::from((bytes % 8).count_ones())
}

/// What a word takes in a pipe.
fn pass(pipe: &Pipe) -> u64 {
    match pipe {
        Pipe::Hash(bytes, _) => HASHED_WORD * 8 / u64::from(*bytes),
        Pipe::Sum(..) => ADDED_WORD,
        _ => TAKEN_WORD,
    }
}

fn expression(of: &Expression) -> u64 {
    match of {
        Expression::Number(_, at) => match at.constant() {
            Some(_) => NUMBER,
            None => NUMBER_SOMEWHERE + expression(at),
        },
        Expression::Binary(operator, a, b) => {
            let operation = match operator {
                Operator::Multiply => MULTIPLICATION,
                Operator::Divide | Operator::Remainder => DIVISION,
                _ => OPERATION,
            };
            operation + expression(a) + expression(b)
        }
        Expression::Constant(_)
        | Expression::Variable(_)
        | Expression::Length
        | Expression::Word(_) => OPERATION,
    }
}

fn condition(of: &Condition) -> u64 {
    match of {
        Condition::Compare(_, a, b) => OPERATION + expression(a) + expression(b),
        Condition::Both(a, b) | Condition::Either(a, b) => condition(a) + condition(b),
    }
}
