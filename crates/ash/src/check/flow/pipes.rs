//! Pipes of a `take`.

use super::{Checked, Flow};
use crate::check::known::Known;
use crate::code::{Pipe, Take};
use crate::limits::PIPES_MAX;

impl Flow<'_> {
    /// Whether bytes that go through pipes are whole words of each, whatever the message.
    pub(super) fn pipes(&self, take: &Take, known: Known) -> Checked<bool> {
        let (pipes, registers) = (&take.pipes, &take.registers);
        if pipes.len() > PIPES_MAX || !pipes.is_empty() && !self.counting.is_empty() {
            return Err(format!(
                "bytes go through at most {PIPES_MAX} pipes, and through none in a repetition"
            ));
        }
        let is_again = |(at, register)| registers[..at].contains(register);
        if Pipe::with_registers(pipes).count() != registers.len()
            || registers.iter().enumerate().any(is_again)
        {
            return Err(
                "each `checksum`, `sum` and `hash` has one variable of its own, in their order: `a, b = take(r, 0, 8) through checksum, sum(4);`".into(),
            );
        }
        for pipe in pipes {
            match (pipe, pipe.gauge()) {
                (Pipe::Swap(_), 2 | 4 | 8) => {}
                (Pipe::Swap(_), _) => return Err("`swap` turns words of 2, 4 or 8 bytes".into()),
                (_, 1 | 2 | 4 | 8) => {}
                _ => return Err("a pipe's words have 1, 2, 4 or 8 bytes".into()),
            }
            if let Some(word) = pipe.word() {
                self.word(word, known)?;
            }
        }
        let widest = u64::from(Pipe::widest(pipes));
        match take.length.constant() {
            Some(length) if !length.is_multiple_of(widest) => Err(format!(
                "{length} bytes are no whole words of {widest} bytes"
            )),
            length => Ok(length.is_some() || widest == 1),
        }
    }
}
