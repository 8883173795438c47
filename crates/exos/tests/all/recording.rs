//! The example that records a stream, from the kernel's UDP at the other end of a wire, beside pipes in user space.

use std::sync::atomic::{AtomicU64, Ordering};

use exos::ash::{self, Layout, Memory, Outcome};
use exos::pipes::{Gauge, List, Pipe};

use crate::download::on_each;

#[path = "../../examples/recording.rs"]
#[allow(dead_code)] // Its `main`.
mod example;

/// Masked numbers of a block.
fn block(number: u32, numbers: u64) -> Vec<u8> {
    let masked = (0..numbers).map(|n| (n * 977 + u64::from(number)) ^ example::KEY);
    let masked = masked.flat_map(u64::to_be_bytes);
    number.to_be_bytes().into_iter().chain(masked).collect()
}

#[test]
fn a_stream_is_recorded_from_message_to_message() {
    on_each(
        "a_stream_is_recorded_from_message_to_message",
        |exos| example::download(exos).unwrap(),
        |wire, recorded| {
            let own = wire.exos.stack.udp.bind(None, 4000).unwrap();
            let blocks = [block(0, 1), block(1, 128), block(2, 7), block(3, 64)];
            let key = example::KEY;
            let list = vec![
                Pipe::Xor(Gauge::Eight, key),
                Pipe::Sum(Gauge::Eight),
                Pipe::Hash(Gauge::Eight),
            ];
            let list = List::new(list).unwrap();
            let mut state = list.state();
            wire.wait_for_answers(&blocks[0]);
            for (number, block) in blocks.iter().enumerate() {
                // One that is too early, of which nothing is carried out.
                if let Some(early) = blocks.get(number + 1)
                    && number > 0
                {
                    wire.peer.send(early).unwrap();
                    assert_eq!(&wire.heard(own, 1)[0], early);
                }
                list.passes(&mut block[4..].to_vec(), &mut state).unwrap();
                let hash = state.register(2).unwrap();
                // It may come twice.
                for _ in 0..2 {
                    let answer = wire.answer(block).unwrap();
                    assert_eq!(answer[..4], block[..4]);
                    assert_eq!(answer[4..], hash.to_be_bytes());
                }
                let sum = state.register(1).unwrap();
                assert_eq!(example::state(recorded), [number as u64 + 1, sum, hash]);
            }
            let row = recorded.memory().row("blocks", 1).unwrap();
            let first = row[0].load(Ordering::Acquire);
            assert_eq!(u64::from_be(first), 1);
        },
    );
}

/// Both have read where the stream is before one of them takes the block.
#[test]
fn a_block_that_another_processor_records_is_neither_recorded_nor_answered() {
    let handler = ash::parse(example::HANDLER).unwrap();
    let layout = Layout::of(handler.handler());
    let words = layout.bytes().div_ceil(8);
    let words: Vec<_> = (0..words).map(|_| AtomicU64::new(0)).collect();
    let memory = Memory::new(&words, &layout, handler.handler());
    let state = memory.words("state").unwrap();
    let known = [1, example::KEY, 7, 9, 2];
    for (word, value) in state.iter().zip(known) {
        word.store(value, Ordering::Relaxed);
    }
    let seen = || state.iter().map(|word| word.load(Ordering::Relaxed));
    let answered = || ash::interpret(&handler, memory, &block(1, 2));
    assert_eq!(answered(), Outcome::Done);
    assert!(seen().eq(known));
    state[4].store(1, Ordering::Relaxed);
    let Outcome::Reply(answer) = answered() else {
        panic!("it is not recorded");
    };
    let sum = 7 + 1 + 978;
    let hash = u64::from_be_bytes(*answer[4..].first_chunk().unwrap());
    assert!(seen().eq([2, example::KEY, sum, hash, 2]));
}
