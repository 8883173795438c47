//! Machine code does what the interpreter says, and beside the kernel on one memory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exos_ash::limits::MESSAGE_MAX;
use exos_ash::{Layout, Memory, Native, Outcome, Verdict, interpret, parse};
use exos_testing::Random;

use crate::packets::{Bench, allowed};
use crate::{draw, words};

const SEED: u64 = 5142;

/// What became of a message. What stood where the reply is written must not be in it.
pub fn outcome(native: &Native, memory: Memory<'_>, message: &[u8]) -> Outcome {
    let mut reply = [0xa5; MESSAGE_MAX as usize];
    match native.run(memory, message, &mut reply) {
        Verdict::GivenUp => Outcome::GivenUp,
        Verdict::Done => Outcome::Done,
        Verdict::Reply(bytes) => Outcome::Reply(reply[..bytes].to_vec()),
    }
}

#[test]
fn drawn_handlers_do_as_machine_code_what_they_mean() {
    let mut random = Random(SEED);
    let mut outcomes = [0; 3];
    for number in 0..crate::agreement::handlers() {
        let handler = draw::handler(&mut random);
        let text = handler.handler();
        let native = handler.compile().unwrap();
        let layout = Layout::of(text);
        let both = [words(&layout), words(&layout)];
        let memories = both
            .each_ref()
            .map(|words| Memory::new(words, &layout, text));
        for _ in 0..24 {
            let (key, word) = (draw::key(&mut random), u64::from(random.byte()));
            for memory in memories {
                let _full = memory.table("keys").unwrap().insert(&key, word);
            }
            let message = draw::message(&mut random);
            let meant = interpret(&handler, memories[0], &message);
            let done = outcome(&native, memories[1], &message);
            assert_eq!(done, meant, "handler {number}, message {message:?}\n{text}");
            let [ours, theirs] = both.each_ref().map(|words| values(words));
            assert!(ours.eq(theirs), "memory differs: {number}\n{text}");
            outcomes[match meant {
                Outcome::GivenUp => 0,
                Outcome::Done => 1,
                Outcome::Reply(_) => 2,
            }] += 1;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 100), "{outcomes:?}");
}

fn values(words: &[AtomicU64]) -> impl Iterator<Item = u64> {
    words.iter().map(|word| word.load(Relaxed))
}

#[test]
fn nothing_is_written_behind_a_row_or_read_behind_a_message() {
    let handler = parse(
        "handler box {
             rows box[3] of 16;
             need 3;
             line = &box[u8(0)];
             take(line, u8(1), u8(2));
             done;
         }",
    )
    .unwrap();
    let native = handler.compile().unwrap();
    let layout = Layout::of(handler.handler());
    let words = words(&layout);
    let memory = Memory::new(&words, &layout, handler.handler());
    let run = |message: &[u8]| outcome(&native, memory, message);
    let message = |row, from, bytes| [&[row, from, bytes][..], &[7; 17]].concat();
    for given_up in [
        message(3, 0, 1),
        message(255, 0, 0),
        message(0, 0, 17),
        message(0, 5, 16),
        message(0, 20, 1),
        message(0, 21, 0),
        vec![0, 0],
    ] {
        assert_eq!(run(&given_up), Outcome::GivenUp, "{given_up:?}");
    }
    assert!(values(&words).all(|word| word == 0));
    assert_eq!(run(&message(1, 3, 15)), Outcome::Done);
    let row = u64::from_ne_bytes([7; 8]);
    let last = u64::from_ne_bytes([7, 7, 7, 7, 7, 7, 7, 0]);
    assert!(values(&words).eq([0, 0, row, last, 0, 0, 0, 0]));
    assert_eq!(run(&message(0, 20, 0)), Outcome::Done, "nothing is there");
    assert_eq!(run(&[0; MESSAGE_MAX as usize + 1]), Outcome::GivenUp);
}

/// The kernel and two threads of ours add to one word.
#[test]
fn no_increment_is_lost_beside_the_kernel() {
    const EACH: u64 = 20_000;
    if !allowed("no_increment_is_lost_beside_the_kernel") {
        return;
    }
    let text =
        "handler h { words w[1]; p = &w[0]; before = add(p, 1); reply 8 { be64(0) = before; } }";
    let handler = parse(text).unwrap();
    let native = handler.compile().unwrap();
    let layout = Layout::of(handler.handler());
    let bench = Bench::new(&handler, false);
    let memory = bench.seen(&layout, &handler);
    let ours = || {
        let told = |_| match outcome(&native, memory, b"") {
            Outcome::Reply(before) => u64::from_be_bytes(before.try_into().unwrap()),
            other => panic!("{other:?}"),
        };
        (0..EACH).map(told).collect::<Vec<_>>()
    };
    let mut all = std::thread::scope(|scope| {
        let two = [(); 2].map(|()| scope.spawn(ours));
        for _ in 0..EACH / 10 {
            assert!(matches!(bench.outcome(false, b""), Outcome::Reply(_)));
        }
        two.map(|one| one.join().unwrap()).concat()
    });
    let sum = memory.words("w").unwrap()[0].load(Relaxed);
    assert_eq!(sum, 2 * EACH + EACH / 10);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len() as u64, 2 * EACH, "each was told another number");
}
