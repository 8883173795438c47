//! Passes and loops of the compiler for vectors, and how long all take.

use std::hint::black_box;
use std::time::Instant;

use super::{Place, Rates, Ways};
use crate::{Gauge, List, Loop, Pipe, PipeError};

const AREA: usize = 96 << 20;

/// Passes for vectors of these features; sums are of words in the machine's order, to be folded.
macro_rules! vectors {
    ($name:ident, $features:literal) => {
        mod $name {
            #[target_feature(enable = $features)]
            fn sum(bytes: &[u8]) -> u64 {
                let words = bytes.as_chunks::<4>().0.iter();
                words.map(|word| u64::from(u32::from_le_bytes(*word))).sum()
            }

            #[target_feature(enable = $features)]
            fn swap(bytes: &mut [u8]) {
                bytes
                    .as_chunks_mut::<4>()
                    .0
                    .iter_mut()
                    .for_each(|word| word.reverse());
            }

            #[target_feature(enable = $features)]
            pub fn copy(from: &[u8], to: &mut [u8], swap: bool) -> u64 {
                let to = to.as_chunks_mut::<4>().0.iter_mut();
                let mut sum = 0;
                for (to, from) in to.zip(from.as_chunks::<4>().0) {
                    let word = u32::from_le_bytes(*from);
                    sum += u64::from(word);
                    *to = if swap { word.swap_bytes() } else { word }.to_le_bytes();
                }
                sum
            }

            #[target_feature(enable = $features)]
            pub fn passes(from: &[u8], to: &mut [u8], turn: bool) -> u64 {
                to.copy_from_slice(from);
                let sum = sum(std::hint::black_box(&mut *to));
                if turn {
                    swap(to);
                }
                sum
            }
        }
    };
}

vectors!(avx2, "avx2");
vectors!(avx512, "avx512f,avx512bw,avx512vl");

/// Measures messages of a length, on a machine with AVX2.
pub(super) fn rates(length: usize, place: Place) -> Result<Rates, PipeError> {
    let sum = Loop::compile(List::new(vec![Pipe::Checksum])?)?;
    let both = Loop::compile(List::new(vec![Pipe::Checksum, Pipe::Swap(Gauge::Four)])?)?;
    let mut other = vec![0; length];
    Ok(Rates {
        copy: rate(length, place, |from, to| {
            to.copy_from_slice(from);
            0
        }),
        twice: rate(length, place, |from, to| {
            to.copy_from_slice(from);
            other.copy_from_slice(black_box(to));
            0
        }),
        sum: ways(length, place, &sum, false),
        swap: ways(length, place, &both, true),
    })
}

/// A copy with the checksum, on a machine with AVX2.
fn ways(length: usize, place: Place, pipes: &Loop, swap: bool) -> Ways {
    // SAFETY: the machine has AVX2, the caller says.
    let passes = rate(length, place, |from, to| unsafe {
        avx2::passes(from, to, swap)
    });
    // SAFETY: as above.
    let by_hand = rate(length, place, |from, to| unsafe {
        avx2::copy(from, to, swap)
    });
    let one_loop = rate(length, place, |from, to| {
        let mut state = pipes.list().state();
        let passed = pipes.copy(from, to, &mut state);
        passed.map_or(0, |()| state.registers()[0])
    });
    let (wide_passes, wide) = wide(length, place, swap).unwrap_or((0.0, 0.0));
    Ways {
        passes: passes.max(wide_passes),
        one_loop,
        by_hand: by_hand.max(wide),
    }
}

/// Passes and what is written by hand, where the machine has AVX-512.
fn wide(length: usize, place: Place, swap: bool) -> Option<(f64, f64)> {
    let has_it = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    has_it.then(|| {
        // SAFETY: the machine has AVX-512.
        let passes = rate(length, place, |from, to| unsafe {
            avx512::passes(from, to, swap)
        });
        // SAFETY: as above.
        let by_hand = rate(length, place, |from, to| unsafe {
            avx512::copy(from, to, swap)
        });
        (passes, by_hand)
    })
}

/// MB/s of what is done with a message and where it goes.
fn rate(length: usize, place: Place, mut once: impl FnMut(&[u8], &mut [u8]) -> u64) -> f64 {
    let (area, step, turns) = match place {
        Place::Memory => (AREA, length.max(2048), 3),
        Place::Cache => (length, 0, 9),
    };
    let (from, mut to) = (vec![1; area], vec![2; area]);
    let messages = AREA / step.max(length);
    let mut best = 0.0_f64;
    for _ in 0..turns {
        let begin = Instant::now();
        for message in 0..messages {
            let range = message * step..message * step + length;
            black_box(once(black_box(&from[range.clone()]), &mut to[range]));
        }
        let bytes = (messages * length) as f64;
        best = best.max(bytes / 1e6 / begin.elapsed().as_secs_f64());
    }
    best
}
