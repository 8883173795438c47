//! Bytes that go to a row through pipes become what the same pipes make of them in user space (`exos_pipes`): by the interpreter, as machine
//! code and in the kernel.

use std::sync::atomic::Ordering::Relaxed;

use exos_ash::{Layout, Memory, Outcome, interpret, parse};
use exos_pipes::{Gauge, List, Pipe};
use exos_testing::Random;

use crate::native::outcome;
use crate::packets::{Bench, allowed, load_in_gate};
use crate::words;

const ROW: usize = 1472;

/// Up to four pipes as they are written, and as `exos_pipes` has them. One takes the checksum.
fn draw(random: &mut Random) -> (String, List, usize) {
    let gauges = [
        (1, Gauge::One),
        (2, Gauge::Two),
        (4, Gauge::Four),
        (8, Gauge::Eight),
    ];
    let checksum = random.below(4);
    let (mut text, mut pipes, mut widest) = (Vec::new(), Vec::new(), 1);
    for number in 0..=checksum.max(random.below(4)) {
        let (bytes, gauge) = gauges[random.below(4)];
        let word = random.next() >> (64 - 8 * bytes);
        let (said, pipe) = match random.one_in(2) {
            _ if number == checksum => ("checksum".into(), Pipe::Checksum),
            true if bytes > 1 => (format!("swap({bytes})"), Pipe::Swap(gauge)),
            _ => (format!("xor({bytes}, {word})"), Pipe::Xor(gauge, word)),
        };
        widest = widest.max(if number == checksum {
            1
        } else {
            bytes as usize
        });
        text.push(said);
        pipes.push(pipe);
    }
    (text.join(", "), List::new(pipes).unwrap(), widest)
}

/// What a handler has taken: how it ended, the row, and the sum.
type Taken = (Outcome, Vec<u8>, u64);

fn taken(memory: Memory<'_>, outcome: Outcome) -> Taken {
    let row = memory.row("lines", 1).unwrap().iter();
    let row = row.flat_map(|word| word.load(Relaxed).to_ne_bytes());
    let row = row.collect();
    let sum = memory.words("sums").unwrap()[0].load(Relaxed);
    (outcome, row, sum)
}

fn expected(part: Option<&[u8]>, list: &List, widest: usize) -> Taken {
    let mut row = vec![0; ROW];
    let Some(part) = part.filter(|part| part.len().is_multiple_of(widest)) else {
        return (Outcome::GivenUp, row, 0);
    };
    let (passed, mut state) = (&mut row[..part.len()], list.state());
    passed.copy_from_slice(part);
    list.passes(passed, &mut state).unwrap();
    let mut sums = list.pipes().iter().zip(state.registers());
    let sum = sums.find(|(pipe, _)| **pipe == Pipe::Checksum);
    let sum = *sum.unwrap().1;
    (Outcome::Done, row, sum)
}

#[test]
fn pipes_do_on_the_way_to_a_row_what_they_do_alone() {
    let in_kernel = allowed("pipes_do_on_the_way_to_a_row_what_they_do_alone");
    let mut random = Random(46);
    let mut done = 0;
    for number in 0..60 {
        let (pipes, list, widest) = draw(&mut random);
        // Known and few, known and many, computed.
        let from = random.below(12);
        let fixed =
            (number % 3 < 2).then(|| random.below([129, 700][number % 3]) / widest * widest);
        let length = fixed.map_or(format!("length - {from}"), |fixed| fixed.to_string());
        let text = format!(
            "handler pipes {{ rows lines[2] of {ROW}; words sums[1]; w = &sums[0]; p = &lines[1];
             s = take(p, {from}, {length}) through {pipes}; *w = s; done; }}"
        );
        let handler = parse(&text).unwrap();
        let again = parse(&handler.handler().to_string()).unwrap();
        assert_eq!(again.handler(), handler.handler());
        let native = handler.compile().unwrap();
        let layout = Layout::of(handler.handler());
        let bench = in_kernel.then(|| Bench::new(&handler, false));
        for _ in 0..30 {
            let len = random.below(ROW + 1);
            let len = [len, len & 63, from + (len & !7)][random.below(3)].min(ROW);
            let message: Vec<_> = (0..len).map(|_| random.byte()).collect();
            let part = message.get(from..);
            let part = part.and_then(|part| part.get(..fixed.unwrap_or(part.len())));
            let expected = expected(part, &list, widest);
            done += u32::from(expected.0 == Outcome::Done);
            let run = |how: &dyn Fn(Memory<'_>) -> Outcome| {
                let words = words(&layout);
                let memory = Memory::new(&words, &layout, handler.handler());
                taken(memory, how(memory))
            };
            let meant = run(&|memory| interpret(&handler, memory, &message));
            assert_eq!(meant, expected, "{text}\n{message:?}");
            let native = run(&|memory| outcome(&native, memory, &message));
            assert_eq!(native, expected, "{text}\n{message:?}");
            if let Some(bench) = &bench {
                let all = bench.memory.words().iter();
                all.for_each(|word| word.store(0, Relaxed));
                let ended = bench.outcome(false, &message);
                let kernel = taken(bench.seen(&layout, &handler), ended);
                assert_eq!(kernel, expected, "{text}\n{message:?}");
            }
        }
    }
    assert!(done > 400, "{done}");
}

/// A loop to the longest row, at each word of which it may end.
#[test]
fn the_verifier_follows_a_loop_of_pipes_to_its_end() {
    if !allowed("the_verifier_follows_a_loop_of_pipes_to_its_end") {
        return;
    }
    let text = "handler pipes { rows lines[8] of 1472; words w[64]; need 8; p = &lines[u8(0) & 7];
        s = take(p, u8(1), length - 1) through swap(2), xor(1, be32(4)), checksum, xor(1, 3);
        c = &w[s & 63]; if s == 3 { add(c, 1); } done; }";
    let followed = load_in_gate(&parse(text).unwrap());
    assert!(followed < 100_000, "{followed} instructions");
}

#[test]
fn pipes_that_could_not_be_are_refused_with_the_reason() {
    let error = |take: &str| {
        let text = format!(
            "handler h {{ rows lines[1] of 64; words w[1]; need 8; c = &w[0]; p = &lines[0]; {take} done; }}"
        );
        parse(&text).map(drop).unwrap_err().to_string()
    };
    for (take, why) in [
        ("take(p, 0, 8) through swap(3);", "2, 4 or 8"),
        ("take(p, 0, 8) through swap(1);", "2, 4 or 8"),
        ("take(p, 0, 8) through xor(5, 1);", "1, 2, 4 or 8"),
        ("take(p, 0, 8) through;", "a pipe is"),
        ("take(p, 0, 6) through swap(4);", "no whole words of 4"),
        ("take(p, 0, 8) through checksum;", "one variable"),
        ("s = take(p, 0, 8);", "one variable"),
        (
            "s = take(p, 0, 8) through checksum, checksum;",
            "one variable",
        ),
        (
            "take(p, 0, 8) through swap(2), swap(2), swap(2), swap(2), swap(2);",
            "at most 4",
        ),
        (
            "for i in 0..2 { take(p, 0, 8) through swap(2); }",
            "none in a repetition",
        ),
        (
            "add(c, 1); take(p, 0, length) through swap(2);",
            "may give the message up",
        ),
        ("take(p, 0, 8) through xor(1, nobody);", "nobody"),
    ] {
        let said = error(take);
        assert!(said.contains(why), "{take}: {said}");
    }
    // It cannot fail.
    let text = "handler h { rows lines[1] of 64; words w[1]; need 8; c = &w[0]; p = &lines[0];
        add(c, 1); s = take(p, 0, 8) through swap(4), checksum; *c = s; done; }";
    parse(text).unwrap();
}
