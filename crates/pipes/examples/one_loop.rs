//! Copies messages, takes their Internet checksum and turns their words of 32 bits round (*ASHs*, Tables 4 and 5): in three passes, in one
//! loop that is compiled here, and in one that is written by hand and compiled with the program.
//!
//! `cargo run --release -p exos-pipes --example one_loop` prints MB/s, the best of nine turns each, for messages of 64 bytes to 64 KiB.

use std::hint::black_box;
use std::time::Instant;

use exos_pipes::{Gauge, List, Loop, Pipe, PipeError};

/// Bytes of all messages in a turn.
const TURN: usize = 64 << 20;

fn main() -> Result<(), PipeError> {
    let compile = |pipes| Loop::compile(List::new(pipes)?);
    let both = compile(vec![Pipe::Checksum, Pipe::Swap(Gauge::Four)])?;
    let sum = compile(vec![Pipe::Checksum])?;
    let swap = compile(vec![Pipe::Swap(Gauge::Four)])?;
    println!(
        "{:>8} {:>10} {:>10} {:>10}",
        "bytes", "passes", "one loop", "by hand"
    );
    for length in [64, 256, 1024, 1472, 4096, 16384, 65536] {
        let from: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        let mut to = vec![0; length];
        let passes = rate(length, || {
            to.copy_from_slice(black_box(&from));
            black_box(in_place(&sum, &mut to)?);
            in_place(&swap, &mut to).map(black_box)
        })?;
        let one = rate(length, || {
            let mut state = both.list().state();
            both.copy(black_box(&from), &mut to, &mut state)?;
            Ok(black_box(state.registers()[0]))
        })?;
        let hand = rate(length, || Ok(by_hand(black_box(&from), &mut to)))?;
        println!("{length:>8} {passes:>10} {one:>10} {hand:>10}");
    }
    Ok(())
}

fn in_place(pipe: &Loop, bytes: &mut [u8]) -> Result<u64, PipeError> {
    let mut state = pipe.list().state();
    pipe.in_place(bytes, &mut state)?;
    Ok(state.registers()[0])
}

fn by_hand(from: &[u8], to: &mut [u8]) -> u64 {
    let mut sum = 0;
    for (to, from) in to.as_chunks_mut::<4>().0.iter_mut().zip(from.as_chunks().0) {
        let word = u32::from_le_bytes(*from);
        sum += u64::from(word);
        *to = word.to_be_bytes();
    }
    black_box(sum)
}

fn rate(length: usize, mut once: impl FnMut() -> Result<u64, PipeError>) -> Result<u64, PipeError> {
    let mut best = 0;
    for _ in 0..9 {
        let begin = Instant::now();
        for _ in 0..TURN / length {
            once()?;
        }
        let micros = begin.elapsed().as_micros().max(1) as u64;
        best = best.max(TURN as u64 / micros);
    }
    Ok(best)
}
