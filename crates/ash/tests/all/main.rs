//! All integration tests of this crate, in one program: each module has its own first line.

mod agreement;
mod builder;
mod checks;
mod corpus;
mod draw;
mod layers;
mod mistaken;
mod native;
mod packets;
mod pipes;
mod steps;
mod tables;
mod text;

use exos_ash::{Layout, Memory, Outcome, interpret};
use std::sync::atomic::AtomicU64;

/// Words of memory for a layout, all zero.
fn words(layout: &Layout) -> Vec<AtomicU64> {
    let count = layout.bytes() as usize / 8;
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

#[test]
fn a_remote_increment_answers_with_what_was_there() {
    let handler = exos_ash::parse(
        "handler counters {
             words counters[4];
             need 12;
             counter = &counters[be32(0)];
             before = add(counter, be64(4));
             reply 12 { be64(4) = before; }
         }",
    )
    .unwrap();
    let layout = Layout::of(handler.handler());
    let words = words(&layout);
    let memory = Memory::new(&words, &layout, handler.handler());
    let message = |counter: u32, by: u64| [&counter.to_be_bytes()[..], &by.to_be_bytes()].concat();
    let run = |counter, by| interpret(&handler, memory, &message(counter, by));
    assert_eq!(run(2, 5), Outcome::Reply(message(2, 0)));
    assert_eq!(run(2, 1), Outcome::Reply(message(2, 5)));
    assert_eq!(run(4, 1), Outcome::GivenUp);
    assert_eq!(interpret(&handler, memory, &[0; 11]), Outcome::GivenUp);
    let counters = memory.words("counters").unwrap();
    let now: Vec<u64> = counters
        .iter()
        .map(|c| c.load(std::sync::atomic::Ordering::Relaxed))
        .collect();
    assert_eq!(now, [0, 0, 6, 0]);
}
