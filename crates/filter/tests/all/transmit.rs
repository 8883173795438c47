//! The program that sends in live frame mode: which frame it takes for which descriptor, and which descriptors it refuses.

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exos_filter::transmit::{
    BEGINNING_LEN, DESCRIPTORS, QUEUE_LEN, QUEUE_WORDS, REFUSED, TAKEN, TransmitMaps, descriptor,
    frame_len_max, transmit,
};
use exos_host::bpf::{Map, MappedArray, Prog, permitted};
use exos_testing::ebpf::{Map as Values, Program, disassemble};

const DROP: u32 = 1;
const REDIRECT: u32 = 4;

/// Chunks of the memory.
const CHUNKS: u32 = 4;

/// The program with memory of its own, in which every byte differs from its neighbours.
struct Sender {
    program: Prog,
    queue: MappedArray,
    bytes: Vec<u8>,
    _frames: MappedArray,
}

impl Sender {
    fn new(chunk_size: u32) -> Self {
        let queue = MappedArray::new("queue", 8 * QUEUE_WORDS, 1).unwrap();
        let frames = MappedArray::new("frames", chunk_size as usize, CHUNKS).unwrap();
        let mut bytes = Vec::new();
        for (i, word) in frames.words().iter().enumerate() {
            let value = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word.store(value, Relaxed);
            bytes.extend(value.to_ne_bytes());
        }
        let interfaces = Map::devmap(1).unwrap();
        let loopback = 1_u32.to_ne_bytes();
        interfaces.update(&0_u32.to_ne_bytes(), &loopback).unwrap();
        let maps = TransmitMaps {
            queue_fd: queue.raw_fd(),
            frames_fd: frames.raw_fd(),
            chunks: CHUNKS,
            interfaces_fd: interfaces.raw_fd(),
        };
        let code = transmit(&maps, chunk_size);
        let program = Prog::load(&code.words(), "transmit", false)
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&code.words()), e.log));
        Self {
            program,
            queue,
            bytes,
            _frames: frames,
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.queue.words()[at].load(Relaxed)
    }

    /// Has the program take this descriptor: its verdict, and the frame it made.
    fn take(&self, word: u64) -> (u32, Vec<u8>) {
        let taken = self.word(TAKEN);
        let place = DESCRIPTORS + (taken % u64::from(QUEUE_LEN)) as usize;
        self.queue.words()[place].store(word, Relaxed);
        let run = self.program.test_run(&[0; BEGINNING_LEN]).unwrap();
        assert_eq!(
            self.word(TAKEN),
            taken.wrapping_add(1),
            "one for each frame"
        );
        (run.verdict, run.packet)
    }
}

fn allowed(test: &str) -> bool {
    permitted()
        .map_err(|error| common::skipped(&format!("{test}: {error}")))
        .is_ok()
}

#[test]
fn each_frame_is_copied_from_where_its_descriptor_says() {
    if !allowed("each_frame_is_copied_from_where_its_descriptor_says") {
        return;
    }
    for chunk_size in [2048, 4096] {
        let sender = Sender::new(chunk_size);
        let longest = frame_len_max(chunk_size);
        // More than the queue has places for: it goes round.
        for n in 0..2 * QUEUE_LEN + 7 {
            let (chunk, offset) = (n % CHUNKS, [0, 1, 255, 256][n as usize / 4 % 4]);
            let len = [14, 59, 60, 61, 64, 1514, longest - 1, longest][n as usize / 16 % 8];
            let word = descriptor(chunk_size, chunk, offset, len).expect("a sound frame");
            let start = (chunk * chunk_size + offset) as usize;
            let expected = &sender.bytes[start..start + len as usize];
            let (verdict, frame) = sender.take(word);
            assert_eq!(verdict, REDIRECT, "chunk {chunk}, {len} bytes at {offset}");
            assert!(frame == expected, "chunk {chunk}, {len} bytes at {offset}");
        }
        assert_eq!(sender.word(REFUSED), 0);
    }
}

#[test]
fn what_is_no_frame_of_the_memory_is_refused_and_counted() {
    if !allowed("what_is_no_frame_of_the_memory_is_refused_and_counted") {
        return;
    }
    for chunk_size in [2048, 4096] {
        let sender = Sender::new(chunk_size);
        let longest = frame_len_max(chunk_size);
        let word = |chunk: u32, offset: u32, len: u32| {
            u64::from(len) << 48 | u64::from(offset) << 32 | u64::from(chunk)
        };
        let lies = [
            (0, 0, 0),
            (0, 0, 13),
            (0, 0, longest + 1),
            (0, 0, 0xffff),
            (0, 257, 60),
            (0, 0xffff, 60),
            (CHUNKS, 0, 60),
            (u32::MAX, 0, 60),
        ];
        for (n, (chunk, offset, len)) in lies.into_iter().enumerate() {
            let what = format!("chunk {chunk}, {len} bytes at {offset}");
            let said = descriptor(chunk_size, chunk, offset, len);
            assert!(said.is_none() || chunk >= CHUNKS, "{what}");
            assert_eq!(sender.take(word(chunk, offset, len)).0, DROP, "{what}");
            assert_eq!(sender.word(REFUSED), n as u64 + 1, "{what}");
        }
        assert_eq!(sender.take(word(0, 0, 60)).0, REDIRECT);
    }
}

/// User space can set the count to anything; the program keeps to the queue.
#[test]
fn a_count_that_lies_leads_nowhere_else() {
    if !allowed("a_count_that_lies_leads_nowhere_else") {
        return;
    }
    let sender = Sender::new(2048);
    for taken in [u64::MAX, 1 << 63, u64::from(u32::MAX), 511, 512] {
        sender.queue.words()[TAKEN].store(taken, Relaxed);
        let word = descriptor(2048, 1, 0, 100).expect("sound");
        let (verdict, frame) = sender.take(word);
        assert_eq!((verdict, frame.len()), (REDIRECT, 100));
    }
}

/// Of a memory whose chunks are no power of two.
const ODD: u32 = 3;

/// Whether the program reaches beyond its memory with this descriptor, on some way with two wrong jumps at most.
fn leads_out(code: &[u64], chunk_size: u32, descriptor: u64) -> bool {
    let words = |bytes: usize| -> Vec<_> { (0..bytes / 8).map(|_| AtomicU64::new(0)).collect() };
    let queue = words(8 * QUEUE_WORDS);
    let frames = words((ODD * chunk_size) as usize);
    queue[DESCRIPTORS].store(descriptor, Relaxed);
    let array = |words, value_len| Values::Array { words, value_len };
    let maps = vec![
        (1, array(&queue[..], 8 * QUEUE_WORDS)),
        (2, array(&frames[..], chunk_size as usize)),
        (3, Values::Programs),
    ];
    let program = Program::new(code, maps);
    let ahead = |wrong: &[usize]| program.ahead(&[0; BEGINNING_LEN], 0, wrong);
    let mut jumps = (0..12).flat_map(|first| (first..12).map(move |second| [first, second]));
    jumps.any(|wrong| !ahead(&wrong).beyond.is_empty())
}

/// The program with one of its masks all ones, each once.
fn without_a_clamp(code: &[u64]) -> Vec<Vec<u64>> {
    const SIGN: u64 = 0xc7;
    const SET: u64 = 0xb7;
    let masks = (0..code.len()).filter(|at| code[*at] & 0xff == SIGN);
    let without = masks.map(|at| {
        let mut without = code.to_vec();
        without[at] = u64::from(u32::MAX) << 32 | code[at] & 0xff00 | SET;
        without
    });
    without.collect()
}

/// Who writes descriptors chooses what would be read while a comparison is awaited (Spectre, variant 1).
#[test]
fn on_no_mistaken_way_a_descriptor_leads_out_of_the_memory() {
    for chunk_size in [2048, 4096] {
        let maps = TransmitMaps {
            queue_fd: 1,
            frames_fd: 2,
            chunks: ODD,
            interfaces_fd: 3,
        };
        let code = transmit(&maps, chunk_size).words();
        let longest = u64::from(frame_len_max(chunk_size));
        let lies = [
            (u64::from(ODD), 0, 60),
            (0xffff_ffff, 256, longest),
            (2, 0xffff, 60),
            (2, 256, 0xffff),
            (2, 256, longest + 2000),
        ];
        let lies = lies.map(|(chunk, offset, len)| len << 48 | offset << 32 | chunk);
        let out = |code: &[u64]| {
            lies.into_iter()
                .find(|lie| leads_out(code, chunk_size, *lie))
        };
        assert_eq!(out(&code), None, "{}", disassemble(&code));
        let without = without_a_clamp(&code);
        assert_eq!(without.len(), 3);
        for code in without {
            assert!(out(&code).is_some(), "{}", disassemble(&code));
        }
    }
}
