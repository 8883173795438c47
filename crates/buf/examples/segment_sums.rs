//! Measures what the table of prefix sums is worth: the time to sum each 1,448-byte segment of a
//! document through the table, and by reading its bytes.
//!
//! `cargo run --release -p exos-buf --example segment_sums`

use std::hint::black_box;
use std::time::Instant;

use exos_buf::Buffer;
use exos_buf::limits::BLOCK_LEN;
use exos_wire::checksum::Sum;

const SEGMENT_LEN: usize = 1448;
const ROUNDS: usize = 2_000;

fn main() {
    let bytes: Vec<u8> = (0..100_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let buffer = Buffer::from(bytes);
    buffer.prepare_sums();
    let starts = (215..buffer.len() - SEGMENT_LEN).step_by(SEGMENT_LEN);
    let table = ns_per_segment(starts.clone(), |at| buffer.sum(at..at + SEGMENT_LEN));
    let bytes = buffer.as_slice();
    let direct = ns_per_segment(starts, |at| Sum::of(&bytes[at..at + SEGMENT_LEN]));
    println!("blocks of {BLOCK_LEN}: {table:.1} ns from the table, {direct:.1} ns from the bytes");
}

/// The best of several measurements.
fn ns_per_segment(starts: impl Iterator<Item = usize> + Clone, sum: impl Fn(usize) -> Sum) -> f64 {
    let count = (starts.clone().count() * ROUNDS) as f64;
    let measure = || {
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            for at in starts.clone() {
                black_box(sum(black_box(at)));
            }
        }
        begin.elapsed().as_nanos() as f64 / count
    };
    (0..7).map(|_| measure()).fold(f64::INFINITY, f64::min)
}
