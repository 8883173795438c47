//! What a list of pipes keeps from one part of a message to the next.

use crate::error::PipeError;
use crate::passes::List;

/// The registers of a list's pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    registers: Vec<u64>,
    ended: bool,
}

impl State {
    pub(crate) fn new(registers: Vec<u64>) -> Self {
        Self {
            registers,
            ended: false,
        }
    }

    /// The register of the pipe at this place of the list; zero of one that modifies.
    pub fn register(&self, pipe: usize) -> Option<u64> {
        self.registers.get(pipe).copied()
    }

    /// All registers, to go on with another time ([`List::resume`]).
    pub fn registers(&self) -> &[u64] {
        &self.registers
    }

    pub(crate) fn registers_mut(&mut self) -> &mut [u64] {
        &mut self.registers
    }

    /// Takes note of a part's length.
    pub(crate) fn part(&mut self, list: &List, length: usize) -> Result<(), PipeError> {
        if self.registers.len() != list.pipes().len() {
            return Err(PipeError::OtherList);
        }
        list.whole_words(length)?;
        if self.ended && length > 0 {
            return Err(PipeError::Ended);
        }
        self.ended |= !length.is_multiple_of(list.widest());
        Ok(())
    }
}
