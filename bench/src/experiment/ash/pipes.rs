//! What copies of a message cost (Table 4), and what it saves to take the Internet checksum of a message and to turn its words of 32 bits
//! round while it is copied (Table 5): in passes of their own, in one loop that is compiled by [`exos::pipes`], and in one that is
//! written by hand. Passes and what is written by hand are made by the compiler for the vectors of this machine, AVX2's and AVX-512's,
//! whichever are faster.

mod vectors;

use crate::experiment::figure::{Figures, Goal};
use exos::pipes::{Gauge, List, Loop, Pipe, PipeError};
use exos_host::{Error, Result};
use std::hint::black_box;
use std::time::Instant;
use vectors::Vectors;

/// Bytes between two uses of the same memory, where messages are not in the cache.
const AREA: usize = 96 << 20;
/// Bytes of messages in a turn where they are in the cache, and in a quick one.
const CACHED: usize = 96 << 20;
const CACHED_QUICK: usize = 1 << 20;

/// Measures messages of a length; nothing on a machine without vectors, which has nothing to compare with.
pub(super) fn compare(bytes: u32, is_quick: bool, figures: &mut Figures) -> Result<()> {
    let vectors = Vectors::available();
    if vectors.is_empty() {
        return Ok(());
    }
    let (name, length) = (format!("pipes/{bytes}"), bytes as usize);
    let cached = Messages::cached(length, is_quick);
    jobs(&format!("{name}/cache"), cached, &vectors, figures)?;
    let in_memory = Messages::in_memory(length, is_quick);
    jobs(&format!("{name}/memory"), in_memory, &vectors, figures)
}

fn jobs(
    name: &str,
    mut messages: Messages,
    vectors: &[Vectors],
    figures: &mut Figures,
) -> Result<()> {
    copies(name, &mut messages, figures);
    for (job, swap) in [("sum", false), ("sum-and-swap", true)] {
        let name = format!("{name}/{job}");
        ways(&name, &mut messages, vectors, swap, figures)
            .map_err(|why| Error::new(why.to_string()))?;
    }
    Ok(())
}

/// One copy, and one of the other.
fn copies(name: &str, messages: &mut Messages, figures: &mut Figures) {
    let copy = messages.rate(|from, to| {
        to.copy_from_slice(from);
        0
    });
    let mut other = vec![0; messages.length];
    let twice = messages.rate(|from, to| {
        to.copy_from_slice(from);
        other.copy_from_slice(black_box(to));
        0
    });
    figures.add(format!("{name}/copy"), "MB/s", copy);
    figures.add(format!("{name}/two-copies"), "MB/s", twice);
}

/// A copy with the checksum, and with words turned round if asked for, in each way.
fn ways(
    name: &str,
    messages: &mut Messages,
    vectors: &[Vectors],
    swap: bool,
    figures: &mut Figures,
) -> std::result::Result<(), PipeError> {
    let swapping = swap.then_some(Pipe::Swap(Gauge::Four));
    let pipes = List::new([Pipe::Checksum].into_iter().chain(swapping).collect())?;
    let pipes = Loop::compile(pipes)?;
    let [mut passes, mut by_hand] = [0.0_f64; 2];
    for &vectors in vectors {
        passes = passes.max(messages.rate(|from, to| vectors.passes(from, to, swap)));
        by_hand = by_hand.max(messages.rate(|from, to| vectors.copy(from, to, swap)));
    }
    let one_loop = messages.rate(|from, to| {
        let mut state = pipes.list().state();
        let passed = pipes.copy(from, to, &mut state);
        passed.map_or(0, |()| state.registers()[0])
    });
    figures.add(format!("{name}/passes"), "MB/s", passes);
    figures.add(format!("{name}/one-loop"), "MB/s", one_loop);
    figures.add(format!("{name}/by-hand"), "MB/s", by_hand);
    let ratio = one_loop / passes;
    figures.add_goal(format!("{name}/ratio"), "", Goal::AtLeast(1.0), ratio);
    Ok(())
}

/// Messages of one length in one place, and where they go.
struct Messages {
    from: Vec<u8>,
    to: Vec<u8>,
    length: usize,
    /// From one to the next.
    step: usize,
    /// In a turn.
    count: usize,
    turns: u32,
}

impl Messages {
    /// In the processor's nearest cache, as far as they fit.
    fn cached(length: usize, is_quick: bool) -> Self {
        let (bytes, turns) = if is_quick {
            (CACHED_QUICK, 1)
        } else {
            (CACHED, 9)
        };
        Self {
            from: vec![1; length],
            to: vec![2; length],
            length,
            step: 0,
            count: bytes / length,
            turns,
        }
    }

    /// Each in memory that was not touched for [`AREA`].
    fn in_memory(length: usize, is_quick: bool) -> Self {
        let step = length.max(2048);
        Self {
            from: vec![1; AREA],
            to: vec![2; AREA],
            length,
            step,
            count: AREA / step,
            turns: if is_quick { 1 } else { 3 },
        }
    }

    /// MB/s of what is done with a message and where it goes, the best of the turns.
    fn rate(&mut self, mut once: impl FnMut(&[u8], &mut [u8]) -> u64) -> f64 {
        let mut best = 0.0_f64;
        for _ in 0..self.turns {
            let begin = Instant::now();
            for message in 0..self.count {
                let range = message * self.step..message * self.step + self.length;
                black_box(once(
                    black_box(&self.from[range.clone()]),
                    &mut self.to[range],
                ));
            }
            let bytes = (self.count * self.length) as f64;
            best = best.max(bytes / 1e6 / begin.elapsed().as_secs_f64());
        }
        best
    }
}
