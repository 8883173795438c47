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

const GAUGES: [(u8, Gauge); 4] = [
    (1, Gauge::One),
    (2, Gauge::Two),
    (4, Gauge::Four),
    (8, Gauge::Eight),
];

/// Pipes as they are written and as `exos_pipes` has them.
struct Drawn {
    said: Vec<String>,
    list: List,
    widest: usize,
    /// What each register begins with: this, or what it was after the message before.
    begins: Vec<Option<u64>>,
}

impl Drawn {
    fn new(random: &mut Random) -> Self {
        let (mut said, mut pipes, mut begins, mut widest) = (vec![], vec![], vec![], 1);
        let most = [4, 8][random.below(2)];
        for _ in 0..1 + random.below(most) {
            let (bytes, gauge) = GAUGES[random.below(4)];
            let word = random.next() >> (64 - 8 * bytes);
            let kind = random.below(7);
            let mut begin = |name: String| {
                let number = begins.len();
                let (begin, word) = match random.below(3) {
                    0 => (Some(0), String::new()),
                    1 => (Some(random.next()), String::new()),
                    _ => (None, format!("*k{number}")),
                };
                begins.push(begin);
                let word = begin.map_or(word, |begin| begin.to_string());
                match (begin, name.split_once('(')) {
                    (Some(0), _) => name,
                    (_, Some((name, bytes))) => format!("{name}({}, {word})", &bytes[..1]),
                    _ => format!("{name}({word})"),
                }
            };
            let (text, pipe) = match kind {
                0 => (begin("checksum".into()), Pipe::Checksum),
                1 => (begin(format!("sum({bytes})")), Pipe::Sum(gauge)),
                2 => (begin(format!("hash({bytes})")), Pipe::Hash(gauge)),
                3 if bytes > 1 => (format!("swap({bytes})"), Pipe::Swap(gauge)),
                4 => (format!("and({bytes}, {word})"), Pipe::And(gauge, word)),
                5 => (format!("or({bytes}, {word})"), Pipe::Or(gauge, word)),
                _ => (format!("xor({bytes}, {word})"), Pipe::Xor(gauge, word)),
            };
            if pipe != Pipe::Checksum {
                widest = widest.max(bytes.into());
            }
            said.push(text);
            pipes.push(pipe);
        }
        Self {
            said,
            list: List::new(pipes).unwrap(),
            widest,
            begins,
        }
    }

    /// A handler that takes so, and keeps what registers have come to.
    fn handler(&self, from: usize, length: &str) -> String {
        let all = 0..self.begins.len();
        let each = |of: &dyn Fn(usize) -> String| all.clone().map(of).collect::<Vec<_>>();
        let places = each(&|n| format!("k{n} = &kept[{n}];")).join(" ");
        let stores = each(&|n| format!("*k{n} = x{n};")).join(" ");
        let kept = match self.begins.is_empty() {
            true => String::new(),
            false => each(&|n| format!("x{n}")).join(", ") + " = ",
        };
        let through = self.said.join(", ");
        format!(
            "handler pipes {{ rows lines[2] of {ROW}; words kept[8]; p = &lines[1]; {places}
             {kept}take(p, {from}, {length}) through {through}; {stores} done; }}"
        )
    }

    /// What the next message leaves.
    fn expect(&self, part: Option<&[u8]>, seen: &mut Taken) {
        let part = part.filter(|part| part.len().is_multiple_of(self.widest));
        let Some(part) = part else {
            seen.0 = Outcome::GivenUp;
            return;
        };
        let mut begins = self.begins.iter().zip(&seen.2);
        let mut begin = || begins.next().map(|(begin, kept)| begin.unwrap_or(*kept));
        let pipes = self.list.pipes().iter();
        let registers: Vec<_> = pipes
            .map(|pipe| match pipe.modifies() {
                true => 0,
                false => begin().unwrap(),
            })
            .collect();
        let mut state = self.list.resume(&registers).unwrap();
        let passed = &mut seen.1[..part.len()];
        passed.copy_from_slice(part);
        self.list.passes(passed, &mut state).unwrap();
        let ended = self.list.pipes().iter().zip(state.registers());
        let ended = ended.filter(|(pipe, _)| !pipe.modifies());
        let kept = seen.2.iter_mut();
        kept.zip(ended).for_each(|(kept, (pipe, ended))| {
            *kept = match pipe {
                // Of no words at all, too.
                Pipe::Checksum => folded(*ended),
                _ => *ended,
            }
        });
        seen.0 = Outcome::Done;
    }
}

fn folded(mut sum: u64) -> u64 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// What a handler has taken: how it ended, the row, and what its registers have come to.
type Taken = (Outcome, Vec<u8>, Vec<u64>);

fn taken(memory: Memory<'_>, outcome: Outcome) -> Taken {
    let row = memory.row("lines", 1).unwrap().iter();
    let row = row.flat_map(|word| word.load(Relaxed).to_ne_bytes());
    let kept = memory.words("kept").unwrap().iter();
    let kept = kept.map(|word| word.load(Relaxed));
    (outcome, row.collect(), kept.collect())
}

#[test]
fn pipes_do_on_the_way_to_a_row_what_they_do_alone() {
    let in_kernel = allowed("pipes_do_on_the_way_to_a_row_what_they_do_alone");
    let mut random = Random(46);
    let mut done = 0;
    for number in 0..120 {
        let drawn = Drawn::new(&mut random);
        // Known and few, known and many, computed.
        let from = random.below(12);
        let fixed = (number % 3 < 2)
            .then(|| random.below([129, 700][number % 3]) / drawn.widest * drawn.widest);
        let length = fixed.map_or(format!("length - {from}"), |fixed| fixed.to_string());
        let text = drawn.handler(from, &length);
        let handler = parse(&text).unwrap();
        let again = parse(&handler.handler().to_string()).unwrap();
        assert_eq!(again.handler(), handler.handler());
        let native = handler.compile().unwrap();
        let layout = Layout::of(handler.handler());
        let bench = in_kernel.then(|| Bench::new(&handler, false));
        let [own, compiled] = [words(&layout), words(&layout)];
        let seen = |words| Memory::new(words, &layout, handler.handler());
        let [own, compiled] = [&own, &compiled].map(|words| seen(words));
        let mut expected = (Outcome::Done, vec![0; ROW], vec![0; 8]);
        for _ in 0..30 {
            let len = random.below(ROW + 1);
            let len = [len, len & 63, from + (len & !7)][random.below(3)].min(ROW);
            let message: Vec<_> = (0..len).map(|_| random.byte()).collect();
            let part = message.get(from..);
            let part = part.and_then(|part| part.get(..fixed.unwrap_or(part.len())));
            drawn.expect(part, &mut expected);
            done += u32::from(expected.0 == Outcome::Done);
            let meant = taken(own, interpret(&handler, own, &message));
            assert_eq!(meant, expected, "{text}\n{message:?}");
            let native = taken(compiled, outcome(&native, compiled, &message));
            assert_eq!(native, expected, "{text}\n{message:?}");
            if let Some(bench) = &bench {
                let ended = bench.outcome(false, &message);
                let kernel = taken(bench.seen(&layout, &handler), ended);
                assert_eq!(kernel, expected, "{text}\n{message:?}");
            }
        }
    }
    assert!(done > 800, "{done}");
}

/// A stream that comes in two messages has the registers that it has in one.
#[test]
fn registers_go_on_with_the_next_message() {
    let text = "handler stream { rows lines[2] of 64; words kept[3]; need 8; p = &lines[1];
        sum = &kept[0]; all = &kept[1]; hash = &kept[2];
        s, a, h = take(p, 0, length & 0xfff8) through checksum(*sum), sum(2, *all), hash(1, *hash);
        *sum = s; *all = a; *hash = h; done; }";
    let handler = parse(text).unwrap();
    let (layout, stream) = (Layout::of(handler.handler()), b"one stream, in two parts");
    let registers = |parts: &[&[u8]]| {
        let words = words(&layout);
        let memory = Memory::new(&words, &layout, handler.handler());
        for part in parts {
            assert_eq!(interpret(&handler, memory, part), Outcome::Done);
        }
        taken(memory, Outcome::Done).2
    };
    let whole = registers(&[stream]);
    assert!(whole.iter().all(|register| *register != 0));
    assert_eq!(registers(&[&stream[..16], &stream[16..]]), whole);
}

/// From FNV's offset on it is FNV-1a (draft-eastlake-fnv, appendix C).
#[test]
fn a_hash_of_bytes_is_the_usual_one() {
    let text = "handler h { rows r[1] of 8; words w[1]; need 6; p = &r[0]; kept = &w[0];
        hash = take(p, 0, 6) through hash(1, 0xcbf2_9ce4_8422_2325); *kept = hash; done; }";
    let handler = parse(text).unwrap();
    let layout = Layout::of(handler.handler());
    let words = words(&layout);
    let memory = Memory::new(&words, &layout, handler.handler());
    assert_eq!(interpret(&handler, memory, b"foobar"), Outcome::Done);
    let hash = memory.words("w").unwrap()[0].load(Relaxed);
    assert_eq!(hash, 0x8594_4171_f739_67e8);
}

/// A loop to the longest row, at each word of which it may end.
#[test]
fn the_verifier_follows_a_loop_of_pipes_to_its_end() {
    if !allowed("the_verifier_follows_a_loop_of_pipes_to_its_end") {
        return;
    }
    for (pipes, most) in [
        ("s =", "swap(2), xor(1, be32(4)), checksum, xor(1, 3)", 50_000),
        (
            "s, t, u =",
            "swap(2), hash(1, *w0), or(1, 3), sum(1), xor(1, be32(4)), checksum(be32(4)), swap(2), and(2, 7)",
            100_000,
        ),
    ]
    .map(|(kept, pipes, most)| (format!("{kept} take(p, u8(1), length - 1) through {pipes};"), most))
    {
        let text = format!(
            "handler pipes {{ rows lines[8] of 1472; words w[64]; need 8; p = &lines[u8(0) & 7];
             w0 = &w[0]; {pipes} c = &w[s & 63]; if s == 3 {{ add(c, 1); }} done; }}"
        );
        let followed = load_in_gate(&parse(&text).unwrap());
        assert!(followed < most, "{followed} instructions of {text}");
    }
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
        ("take(p, 0, 8) through and(0, 1);", "1, 2, 4 or 8"),
        ("s = take(p, 0, 8) through sum(3);", "1, 2, 4 or 8"),
        ("take(p, 0, 8) through or(4);", "`,` is expected"),
        ("take(p, 0, 8) through and;", "`(` is expected"),
        ("take(p, 0, 8) through rotate(4);", "a pipe is"),
        ("s = take(p, 0, 6) through hash(4);", "no whole words of 4"),
        ("take(p, 0, 8) through sum(4);", "one variable"),
        ("s, t = take(p, 0, 8) through sum(4);", "one variable"),
        (
            "s, s = take(p, 0, 8) through sum(4), hash(4);",
            "of its own",
        ),
        (
            "s, t = add(c, 1);",
            "several variables are what `take` keeps",
        ),
        (
            "s, p = take(p, 0, 8) through sum(4), hash(4);",
            "p is a place",
        ),
        ("s = take(p, 0, 8) through sum(4, t);", "t"),
        ("take(p, 0, 8) through;", "a pipe is"),
        ("take(p, 0, 6) through swap(4);", "no whole words of 4"),
        ("take(p, 0, 8) through checksum;", "one variable"),
        ("s = take(p, 0, 8);", "one variable"),
        (
            "s = take(p, 0, 8) through checksum, checksum;",
            "one variable",
        ),
        (
            "take(p, 0, 8) through or(1, 1), or(1, 1), or(1, 1), or(1, 1), or(1, 1), or(1, 1), or(1, 1), or(1, 1), or(1, 1);",
            "at most 8",
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
        add(c, 1); s = take(p, 0, 8) through swap(4), checksum(*c), and(8, *c); *c = s; done; }";
    parse(text).unwrap();
}
