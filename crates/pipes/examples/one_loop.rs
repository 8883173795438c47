//! What copies cost (*ASHs*, Table 4), and what it saves to take the Internet checksum of a message and to turn its words of 32 bits round
//! while it is copied (Table 5): in passes of their own, in one loop that is compiled here, and in one that is written by hand. Passes
//! and what is written by hand are made by the compiler for the widest vectors of this machine, AVX2's or AVX-512's, whichever is faster.
//!
//! `cargo run --release -p exos-pipes --example one_loop` prints MB/s for messages of 64 bytes to 64 KiB, the best of several turns: first
//! in the processor's nearest cache, and then each message in memory that it has not touched for 96 MB.

use std::hint::black_box;
use std::time::Instant;

use exos_pipes::{Gauge, List, Loop, Pipe, PipeError};

const SIZES: [usize; 7] = [64, 256, 1024, 1472, 4096, 16384, 65536];
const AREA: usize = 96 << 20;

/// Passes for vectors of these features; sums are of words in the machine's order, to be folded.
macro_rules! vectors {
    ($name:ident, $features:literal) => {
        mod $name {
            #[target_feature(enable = $features)]
            pub fn sum(bytes: &[u8]) -> u64 {
                let words = bytes.as_chunks::<4>().0.iter();
                words.map(|word| u64::from(u32::from_le_bytes(*word))).sum()
            }

            #[target_feature(enable = $features)]
            pub fn swap(bytes: &mut [u8]) {
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

fn main() -> Result<(), PipeError> {
    assert!(is_x86_feature_detected!("avx2"), "its vectors are AVX2's");
    let sum = Loop::compile(List::new(vec![Pipe::Checksum])?)?;
    let both = Loop::compile(List::new(vec![Pipe::Checksum, Pipe::Swap(Gauge::Four)])?)?;
    for (far, place) in [(false, "in the nearest cache"), (true, "in memory")] {
        println!(
            "{place}, MB/s\n                            copy and checksum             and swap"
        );
        println!("  bytes    copy   twice  passes one loop by hand  passes one loop by hand");
        for length in SIZES {
            let mut other = vec![0; length];
            let copy = rate(length, far, |from, to| copies(from, to, None));
            let twice = rate(length, far, |from, to| copies(from, to, Some(&mut other)));
            print!("{length:>7}");
            let table_5 = [(&sum, false), (&both, true)]
                .map(|(pipes, swap)| table_5(length, far, pipes, swap));
            for rate in [copy, twice].into_iter().chain(table_5.concat()) {
                print!("{rate:>8}");
            }
            println!();
        }
    }
    Ok(())
}

fn copies(from: &[u8], to: &mut [u8], other: Option<&mut Vec<u8>>) -> u64 {
    to.copy_from_slice(from);
    if let Some(other) = other {
        other.copy_from_slice(black_box(to));
    }
    0
}

/// Passes, one loop, by hand.
fn table_5(length: usize, far: bool, pipes: &Loop, swap: bool) -> [u64; 3] {
    let compiled = |from: &[u8], to: &mut [u8]| {
        let mut state = pipes.list().state();
        let passed = pipes.copy(from, to, &mut state);
        passed.map_or(0, |()| state.registers()[0])
    };
    // SAFETY: the machine has AVX2, `main` says.
    let passes = rate(length, far, |from, to| unsafe {
        avx2::passes(from, to, swap)
    });
    // SAFETY: as above.
    let by_hand = rate(length, far, |from, to| unsafe {
        avx2::copy(from, to, swap)
    });
    let one_loop = rate(length, far, compiled);
    if !is_x86_feature_detected!("avx512bw") || !is_x86_feature_detected!("avx512vl") {
        return [passes, one_loop, by_hand];
    }
    // SAFETY: the machine has AVX-512.
    let wide_passes = rate(length, far, |from, to| unsafe {
        avx512::passes(from, to, swap)
    });
    // SAFETY: as above.
    let wide = rate(length, far, |from, to| unsafe {
        avx512::copy(from, to, swap)
    });
    [passes.max(wide_passes), one_loop, by_hand.max(wide)]
}

/// MB/s of what is done with a message and where it goes.
fn rate(length: usize, far: bool, mut once: impl FnMut(&[u8], &mut [u8]) -> u64) -> u64 {
    let (area, step, turns) = match far {
        true => (AREA, length.max(2048), 3),
        false => (length, 0, 9),
    };
    let (from, mut to) = (vec![1; area], vec![2; area]);
    let messages = if far { AREA / step } else { AREA / length };
    let mut best = 0;
    for _ in 0..turns {
        let begin = Instant::now();
        for message in 0..messages {
            let range = message * step..message * step + length;
            black_box(once(black_box(&from[range.clone()]), &mut to[range]));
        }
        let nanos = begin.elapsed().as_nanos().max(1) as usize;
        best = best.max((messages * length * 1000 / nanos) as u64);
    }
    best
}
