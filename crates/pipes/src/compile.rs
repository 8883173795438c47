//! Makes one loop of a list of pipes (`compile_pl` of *ASHs*, section 4.3): each word is loaded once, goes through all pipes, and is stored
//! once.
//!
//! The code goes through the message by 128 bytes and then by 32. What is left behind the last 32 goes through it in a frame, with zeros
//! behind it, or through [`List::passes`]' steps if a pipe takes words in their order. Without AVX2 all of the message goes through those.

use std::sync::Arc;

use crate::code::{Code, Frame, VECTOR};
use crate::error::PipeError;
use crate::lower::lower;
use crate::passes::List;
use crate::pipe::{Pipe, fold, ones_add};
use crate::state::State;

/// A list of pipes as machine code. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Loop {
    list: List,
    codes: Option<Codes>,
}

#[derive(Clone, Debug)]
struct Codes {
    copy: Arc<Code>,
    in_place: Arc<Code>,
}

impl Loop {
    /// Compiles a list. On a machine without AVX2 the loop makes the list's passes instead.
    ///
    /// # Errors
    ///
    /// There is no memory for the code.
    pub fn compile(list: List) -> Result<Self, PipeError> {
        let codes = match has_avx2() {
            true => Some(Codes::compile(&list)?),
            false => None,
        };
        Ok(Self { list, codes })
    }

    /// What it was made of.
    pub fn list(&self) -> &List {
        &self.list
    }

    /// Passes the next part of a message on its way to a destination of its length.
    ///
    /// # Errors
    ///
    /// As [`List::passes`], or the lengths differ. Nothing is written.
    pub fn copy(&self, from: &[u8], to: &mut [u8], state: &mut State) -> Result<(), PipeError> {
        if from.len() != to.len() {
            return Err(PipeError::Lengths(from.len(), to.len()));
        }
        state.part(&self.list, from.len())?;
        let whole = self.whole(from.len());
        let (from, from_tail) = from.split_at(whole);
        let (to, tail) = to.split_at_mut(whole);
        tail.copy_from_slice(from_tail);
        self.run(tail, state, |codes, frame| codes.copy.copy(from, to, frame));
        Ok(())
    }

    /// Passes the next part of a message in place. It is not written to if no pipe modifies.
    ///
    /// # Errors
    ///
    /// As [`List::passes`].
    pub fn in_place(&self, part: &mut [u8], state: &mut State) -> Result<(), PipeError> {
        state.part(&self.list, part.len())?;
        let (part, tail) = part.split_at_mut(self.whole(part.len()));
        self.run(tail, state, |codes, frame| {
            codes.in_place.in_place(part, frame)
        });
        Ok(())
    }

    /// As many of a part's bytes as the code takes from where they lie.
    fn whole(&self, bytes: usize) -> usize {
        match self.codes {
            Some(_) => bytes & !(VECTOR - 1),
            None => 0,
        }
    }

    /// Runs the code, and passes the tail.
    fn run(&self, tail: &mut [u8], state: &mut State, code: impl FnOnce(&Codes, &mut Frame)) {
        let Some(codes) = &self.codes else {
            return self.list.each(tail, state.registers_mut());
        };
        let in_frame = self.list.commutative();
        let mut frame = Frame::default();
        if !in_frame {
            self.before(state, &mut frame);
        } else if !tail.is_empty() {
            frame.tail[..tail.len()].copy_from_slice(tail);
            frame.mask[..tail.len()].fill(0xff);
            frame.tails = 1;
        }
        code(codes, &mut frame);
        self.after(&frame, state);
        if !in_frame {
            self.list.each(tail, state.registers_mut());
        } else if !tail.is_empty() {
            tail.copy_from_slice(&frame.tail[..tail.len()]);
        }
    }

    /// The code's registers: sums of this part alone, and of hashes what they have come to.
    fn before(&self, state: &State, frame: &mut Frame) {
        let all = self.list.pipes().iter().zip(state.registers());
        for (to, (pipe, from)) in frame.registers.iter_mut().zip(all) {
            if !pipe.commutative() {
                *to = *from;
            }
        }
    }

    fn after(&self, frame: &Frame, state: &mut State) {
        let all = self.list.pipes().iter().zip(&frame.registers);
        for ((pipe, from), to) in all.zip(state.registers_mut()) {
            match pipe {
                // Of words with their low byte first: turned round, the sum is that of words in the network's order.
                Pipe::Checksum => {
                    let sum = (fold(*from) as u16).swap_bytes();
                    *to = ones_add(*to, u64::from(sum));
                }
                Pipe::Sum(_) => *to = to.wrapping_add(*from),
                Pipe::Hash(_) => *to = *from,
                Pipe::Swap(_) | Pipe::Xor(..) | Pipe::And(..) | Pipe::Or(..) => {}
            }
        }
    }
}

impl Codes {
    fn compile(list: &List) -> Result<Self, PipeError> {
        let copy = function(list, true)?;
        let in_place = match list.modifies() {
            true => copy.clone(),
            false => function(list, false)?,
        };
        Ok(Self { copy, in_place })
    }
}

fn function(list: &List, store: bool) -> Result<Arc<Code>, PipeError> {
    let (code, constants) = lower(list.pipes(), store);
    // SAFETY: what `lower` makes reads and writes as `Frame` says, and the machine has its instructions.
    let code = unsafe { Code::new(&code, constants) };
    code.map(Arc::new)
        .map_err(|error| PipeError::Memory(error.raw_os_error()))
}

fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
