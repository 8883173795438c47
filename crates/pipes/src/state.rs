//! What a list of pipes keeps from one part of a message to the next.

use crate::error::PipeError;
use crate::passes::{List, PIPES_MAX};

/// The registers of a list's pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    registers: [u64; PIPES_MAX],
    pipes: usize,
    ended: bool,
}

impl State {
    /// All registers are zero, of as many pipes as a list may have at most.
    pub(crate) const fn begin(pipes: usize) -> Self {
        Self {
            registers: [0; PIPES_MAX],
            pipes,
            ended: false,
        }
    }

    /// The register of the pipe at this place of the list; zero of one that modifies.
    pub fn register(&self, pipe: usize) -> Option<u64> {
        self.registers().get(pipe).copied()
    }

    /// All registers, to go on with another time ([`List::resume`]).
    pub fn registers(&self) -> &[u64] {
        &self.registers[..self.pipes]
    }

    pub(crate) fn registers_mut(&mut self) -> &mut [u64] {
        &mut self.registers[..self.pipes]
    }

    /// Takes note of a part's length.
    pub(crate) fn part(&mut self, list: &List, length: usize) -> Result<(), PipeError> {
        if self.pipes != list.pipes().len() {
            return Err(PipeError::OtherList);
        }
        list.whole_words(length)?;
        if self.ended && length > 0 {
            return Err(PipeError::Ended);
        }
        self.ended |= length & (list.widest() - 1) != 0;
        Ok(())
    }
}
