//! What a handler means: each step carried out as it is written. What other back ends do is compared with this.

use std::sync::atomic::Ordering;

use exos_wire::Sum;

use crate::check::Checked;
use crate::code::{
    Block, Change, Condition, Expression, FNV_PRIME, Format, Handler, Part, Pipe, Reply, Statement,
    Take, Update, VariableId,
};
use crate::limits::{MESSAGE_MAX, VARIABLES_MAX};
use crate::memory::Memory;

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes to the program, as it came.
    GivenUp,
    /// It was dealt with.
    Done,
    /// It was dealt with, and this goes back.
    Reply(Vec<u8>),
}

/// Runs a handler on a message.
pub fn interpret(handler: &Checked, memory: Memory<'_>, message: &[u8]) -> Outcome {
    if message.len() > usize::from(MESSAGE_MAX) {
        return Outcome::GivenUp;
    }
    let mut run = Run {
        handler: handler.handler(),
        memory,
        message,
        variables: [0; VARIABLES_MAX],
    };
    match run.block(&handler.handler().body) {
        Ok(()) | Err(End::Break) => unreachable!("each way ends with a verdict"),
        Err(End::With(outcome)) => outcome,
    }
}

/// Why a block does not go on.
enum End {
    Break,
    With(Outcome),
}

const GIVEN_UP: End = End::With(Outcome::GivenUp);

struct Run<'a> {
    handler: &'a Handler,
    memory: Memory<'a>,
    message: &'a [u8],
    /// Words; of a place, its first byte in the memory.
    variables: [u64; VARIABLES_MAX],
}

impl<'a> Run<'a> {
    fn block(&mut self, block: &Block) -> Result<(), End> {
        block.iter().try_for_each(|step| self.statement(step))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), End> {
        match statement {
            Statement::Need(bytes) if self.message.len() < usize::from(*bytes) => Err(GIVEN_UP),
            Statement::Need(_) => Ok(()),
            Statement::Set(variable, value) => {
                let value = self.word(value)?;
                self.set(*variable, value);
                Ok(())
            }
            Statement::Point(variable, index) => {
                let index = self.word(index)?;
                let place = self.place(*variable, index).ok_or(GIVEN_UP)?;
                self.set(*variable, u64::from(place));
                Ok(())
            }
            Statement::Find(find) => {
                let key = self.taken(&find.from, &find.length)?;
                let table = self.memory.table_at(usize::from(find.table));
                let found = table.and_then(|table| table.get(key)).ok_or(GIVEN_UP)?;
                self.set(find.word, found);
                Ok(())
            }
            Statement::Update(update) => self.change(update),
            Statement::Take(take) => self.take(take),
            Statement::If(condition, yes, no) => match self.condition(condition)? {
                true => self.block(yes),
                false => self.block(no),
            },
            Statement::Repeat(counter, times, body) => self.repeat(*counter, *times, body),
            Statement::Break => Err(End::Break),
            Statement::GiveUp => Err(GIVEN_UP),
            Statement::Done => Err(End::With(Outcome::Done)),
            Statement::Reply(reply) => Err(End::With(Outcome::Reply(self.reply(reply)?))),
        }
    }

    fn repeat(&mut self, counter: VariableId, times: u16, body: &Block) -> Result<(), End> {
        for count in 0..times {
            self.set(counter, u64::from(count));
            match self.block(body) {
                Ok(()) => {}
                Err(End::Break) => break,
                Err(end) => return Err(end),
            }
        }
        Ok(())
    }

    fn change(&mut self, update: &Update) -> Result<(), End> {
        const ORDER: Ordering = Ordering::SeqCst;
        let at = self.variables[usize::from(update.place.0)] as u32;
        let word = self.memory.word(at);
        let was = match &update.change {
            Change::Store(value) => word.swap(self.word(value)?, ORDER),
            Change::Add(value) => word.fetch_add(self.word(value)?, ORDER),
            Change::And(value) => word.fetch_and(self.word(value)?, ORDER),
            Change::Or(value) => word.fetch_or(self.word(value)?, ORDER),
            Change::Xor(value) => word.fetch_xor(self.word(value)?, ORDER),
            Change::CompareSwap(expected, new) => {
                let (expected, new) = (self.word(expected)?, self.word(new)?);
                let (Ok(was) | Err(was)) = word.compare_exchange(expected, new, ORDER, ORDER);
                was
            }
        };
        if let Some(variable) = update.before {
            self.set(variable, was);
        }
        Ok(())
    }

    fn take(&mut self, take: &Take) -> Result<(), End> {
        let bytes = self.taken(&take.from, &take.length)?;
        if bytes.len() > self.handler.row_len(take.row) as usize {
            return Err(GIVEN_UP);
        }
        let (bytes, results) = self.through(&take.pipes, bytes)?;
        let at = self.variables[usize::from(take.row.0)] as u32;
        self.memory.fill(at, &bytes);
        for (variable, result) in take.registers.iter().zip(results) {
            self.set(*variable, result);
        }
        Ok(())
    }

    /// What bytes become, pipe by pipe, and the registers of those that have one.
    fn through(&self, pipes: &[Pipe], bytes: &[u8]) -> Result<(Vec<u8>, Vec<u64>), End> {
        let (mut bytes, mut registers) = (bytes.to_vec(), Vec::new());
        if bytes.len() % usize::from(Pipe::widest(pipes)) != 0 {
            return Err(GIVEN_UP);
        }
        for pipe in pipes {
            let mut register = match pipe.word() {
                Some(word) => self.word(word)?,
                None => 0,
            };
            pass(pipe, &mut register, &mut bytes);
            if pipe.has_register() {
                registers.push(register);
            }
        }
        Ok((bytes, registers))
    }

    fn reply(&self, reply: &Reply) -> Result<Vec<u8>, End> {
        let length = self.word(&reply.length)?;
        if length > u64::from(reply.most) {
            return Err(GIVEN_UP);
        }
        let mut bytes = self.message.to_vec();
        bytes.resize(length as usize, 0);
        for part in &reply.parts {
            self.write(part, &mut bytes)?;
        }
        Ok(bytes)
    }

    fn write(&self, part: &Part, reply: &mut [u8]) -> Result<(), End> {
        match part {
            Part::Number { format, at, value } => {
                let value = self.word(value)?;
                let to = part_mut(reply, *at, u64::from(format.bytes)).ok_or(GIVEN_UP)?;
                format.write(to, value);
            }
            Part::Row { at, row, length } => {
                let length = self.word(length)?;
                if length > u64::from(self.handler.row_len(*row)) {
                    return Err(GIVEN_UP);
                }
                let to = part_mut(reply, *at, length).ok_or(GIVEN_UP)?;
                self.memory
                    .read(self.variables[usize::from(row.0)] as u32, to);
            }
        }
        Ok(())
    }

    fn condition(&self, condition: &Condition) -> Result<bool, End> {
        match condition {
            Condition::Compare(how, a, b) => Ok(how.holds(self.word(a)?, self.word(b)?)),
            Condition::Both(a, b) => Ok(self.condition(a)? && self.condition(b)?),
            Condition::Either(a, b) => Ok(self.condition(a)? || self.condition(b)?),
        }
    }

    fn word(&self, expression: &Expression) -> Result<u64, End> {
        match expression {
            Expression::Constant(value) => Ok(*value),
            Expression::Variable(variable) => Ok(self.variables[usize::from(variable.0)]),
            Expression::Length => Ok(self.message.len() as u64),
            Expression::Number(format, at) => self.number(*format, self.word(at)?),
            Expression::Word(place) => {
                let at = self.variables[usize::from(place.0)] as u32;
                Ok(self.memory.word(at).load(Ordering::SeqCst))
            }
            Expression::Binary(operator, a, b) => Ok(operator.apply(self.word(a)?, self.word(b)?)),
        }
    }

    /// The message's bytes from `from` on, `length` of them.
    fn taken(&self, from: &Expression, length: &Expression) -> Result<&'a [u8], End> {
        let (from, length) = (self.word(from)?, self.word(length)?);
        part(self.message, from, length).ok_or(GIVEN_UP)
    }

    fn number(&self, format: Format, at: u64) -> Result<u64, End> {
        let bytes = part(self.message, at, u64::from(format.bytes)).ok_or(GIVEN_UP)?;
        Ok(format.read(bytes))
    }

    fn set(&mut self, variable: VariableId, value: u64) {
        self.variables[usize::from(variable.0)] = value;
    }

    /// The first byte of a place, if there is one with this number.
    fn place(&self, variable: VariableId, index: u64) -> Option<u32> {
        let number = self.handler.region_of(variable);
        let region = &self.handler.regions[number];
        let index = u32::try_from(index)
            .ok()
            .filter(|&index| index < region.count)?;
        Some(self.memory.layout().start(number) + index * region.stride())
    }
}

/// One pipe's pass; it is made with what the register has, or that is its own.
fn pass(pipe: &Pipe, register: &mut u64, bytes: &mut [u8]) {
    if let Pipe::Checksum(_) = pipe {
        *register = added(*register, Sum::of(bytes));
        return;
    }
    let format = Format {
        bytes: pipe.gauge(),
        little_endian: false,
    };
    for bytes in bytes.chunks_mut(pipe.gauge().into()) {
        let word = format.read(bytes);
        let becomes = match pipe {
            Pipe::Swap(_) => {
                bytes.reverse();
                continue;
            }
            Pipe::Xor(..) => word ^ *register,
            Pipe::And(..) => word & *register,
            Pipe::Or(..) => word | *register,
            Pipe::Sum(..) => {
                *register = register.wrapping_add(word);
                continue;
            }
            Pipe::Hash(..) => {
                *register = (*register ^ word).wrapping_mul(FNV_PRIME);
                continue;
            }
            Pipe::Checksum(_) => unreachable!("summed above"),
        };
        format.write(bytes, becomes);
    }
}

/// The ones' complement sum of words of 16 bits, those of `begin` among them.
fn added(begin: u64, sum: Sum) -> u64 {
    let words = begin.to_be_bytes();
    Sum::of(&words).plus(sum).value().into()
}

fn part(of: &[u8], from: u64, length: u64) -> Option<&[u8]> {
    let end = from.checked_add(length)?;
    of.get(usize::try_from(from).ok()?..usize::try_from(end).ok()?)
}

fn part_mut(of: &mut [u8], from: u16, length: u64) -> Option<&mut [u8]> {
    let from = usize::from(from);
    let end = from.checked_add(usize::try_from(length).ok()?)?;
    of.get_mut(from..end)
}
