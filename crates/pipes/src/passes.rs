//! A list of pipes and its meaning: one pass over the message for each. The compiled loop is right when it agrees with this.

use crate::error::PipeError;
use crate::pipe::{Pipe, ones_add};
use crate::state::State;

/// Pipes of a list: their registers and operands stay in those of the processor.
pub const PIPES_MAX: usize = 8;

/// Pipes, which each word goes through in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    pipes: Vec<Pipe>,
    /// Bytes of the largest word.
    widest: usize,
    /// Bytes of the largest word that is turned round.
    whole: usize,
    commutative: bool,
}

impl List {
    /// Puts pipes together. Without any it copies.
    ///
    /// # Errors
    ///
    /// There are too many, or an operand is wider than its pipe's words.
    pub fn new(pipes: Vec<Pipe>) -> Result<Self, PipeError> {
        if pipes.len() > PIPES_MAX {
            return Err(PipeError::TooMany(pipes.len()));
        }
        let wide = |pipe: &Pipe| {
            pipe.operand()
                .is_some_and(|word| word > pipe.gauge().mask())
        };
        match pipes.iter().position(wide) {
            Some(pipe) => Err(PipeError::WideOperand(pipe)),
            None => Ok(Self::of(pipes)),
        }
    }

    fn of(pipes: Vec<Pipe>) -> Self {
        let bytes = |pipe: &Pipe| pipe.gauge().bytes();
        let swaps = pipes.iter().filter(|pipe| matches!(pipe, Pipe::Swap(_)));
        Self {
            widest: pipes.iter().map(bytes).max().unwrap_or(1),
            whole: swaps.map(bytes).max().unwrap_or(1),
            commutative: pipes.iter().all(|pipe| pipe.commutative()),
            pipes,
        }
    }

    /// The pipes.
    pub fn pipes(&self) -> &[Pipe] {
        &self.pipes
    }

    /// Whether the message becomes another.
    pub fn modifies(&self) -> bool {
        self.pipes.iter().any(|pipe| pipe.modifies())
    }

    /// The state before the first part of a message: all registers are zero.
    pub fn state(&self) -> State {
        State::begin(self.pipes.len())
    }

    /// The state with these registers: of a part that ended with a whole word, or what a message is to begin with.
    ///
    /// # Errors
    ///
    /// There is not one for each pipe.
    pub fn resume(&self, registers: &[u64]) -> Result<State, PipeError> {
        if registers.len() != self.pipes.len() {
            return Err(PipeError::OtherList);
        }
        let mut state = self.state();
        state.registers_mut().copy_from_slice(registers);
        Ok(state)
    }

    /// The state of a message of two parts which were passed apart from each other, each from [`state`](Self::state) on. The first
    /// ended with a whole word.
    ///
    /// # Errors
    ///
    /// A pipe needs the words in their order, the first part ended within one, or a state is of another list.
    pub fn join(&self, first: &State, second: &State) -> Result<State, PipeError> {
        if let Some(pipe) = self.pipes.iter().position(|pipe| !pipe.commutative()) {
            return Err(PipeError::InOrder(pipe));
        }
        let mut joined = second.clone();
        joined.part(self, 0)?;
        // As though another word followed it.
        first.clone().part(self, self.widest())?;
        let both = joined.registers_mut().iter_mut().zip(first.registers());
        for (pipe, (to, from)) in self.pipes.iter().zip(both) {
            *to = match pipe {
                Pipe::Checksum => ones_add(*to, *from),
                _ => to.wrapping_add(*from),
            };
        }
        Ok(joined)
    }

    /// Passes the next part of a message, in place, once through each pipe.
    ///
    /// # Errors
    ///
    /// The part before ended within a word, or this ends in one that would be turned round. Nothing is changed.
    pub fn passes(&self, part: &mut [u8], state: &mut State) -> Result<(), PipeError> {
        state.part(self, part.len())?;
        self.each(part, state.registers_mut());
        Ok(())
    }

    pub(crate) fn each(&self, part: &mut [u8], registers: &mut [u64]) {
        for (pipe, register) in self.pipes.iter().zip(registers) {
            pass(*pipe, part, register);
        }
    }

    /// Bytes of the largest word: a part that is not the last has a multiple of them.
    pub fn widest(&self) -> usize {
        self.widest
    }

    /// Whether no pipe needs the words in their order.
    pub(crate) fn commutative(&self) -> bool {
        self.commutative
    }

    /// That a part has whole words where a pipe needs them.
    pub(crate) fn whole_words(&self, length: usize) -> Result<(), PipeError> {
        if length & (self.whole - 1) == 0 {
            return Ok(());
        }
        let partial = |pipe: &Pipe| match pipe {
            Pipe::Swap(gauge) => !length.is_multiple_of(gauge.bytes()),
            _ => false,
        };
        let pipe = self.pipes.iter().position(partial);
        let pipe = pipe.expect("a pipe turns words of this size round");
        Err(PipeError::PartialWord { pipe, length })
    }
}

/// One pipe's pass.
fn pass(pipe: Pipe, part: &mut [u8], register: &mut u64) {
    let bytes = pipe.gauge().bytes();
    for chunk in part.chunks_mut(bytes) {
        let mut word = [0; 8];
        let first = 8 - bytes;
        word[first..first + chunk.len()].copy_from_slice(chunk);
        let new = pipe.word(u64::from_be_bytes(word), register).to_be_bytes();
        chunk.copy_from_slice(&new[first..first + chunk.len()]);
    }
}
