//! The kernel's program does what the interpreter says: with drawn handlers and messages, and with packets that are no messages.

use std::sync::atomic::Ordering::Relaxed;

use exos_ash::{Checked, Layout, Memory, Outcome, interpret, parse};
use exos_filter::Counter;
use exos_testing::Random;

use crate::packets::{self, Bench, allowed, frame, load_in_gate};
use crate::{draw, words};

const SEED: u64 = 2310;

#[test]
fn drawn_handlers_do_in_the_kernel_what_they_mean() {
    if !allowed("drawn_handlers_do_in_the_kernel_what_they_mean") {
        return;
    }
    let mut random = Random(SEED);
    let mut outcomes = [0u32; 3];
    for number in 0..handlers() {
        let handler = draw::handler(&mut random);
        let counts = agree(&handler, &mut random, number);
        for (sum, count) in outcomes.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let [given_up, done, replies] = outcomes;
    assert!(
        given_up > 100 && done > 100 && replies > 100,
        "{outcomes:?}"
    );
}

/// `EXOS_ASH_HANDLERS` for a long run.
pub fn handlers() -> u32 {
    let asked = std::env::var("EXOS_ASH_HANDLERS").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(150)
}

/// Of which versions of IP a handler's addresses may be: it begins in another way if they are of both.
const VERSIONS: [&[bool]; 3] = [&[false, true], &[false], &[true]];

/// On a link of its own at addresses of these versions, or as every fourth behind a gate, which has both.
fn bench_of(handler: &Checked, number: u32) -> (Bench, &'static [bool]) {
    match VERSIONS.get(number as usize % (VERSIONS.len() + 1)) {
        Some(versions) => (Bench::of_versions(handler, versions), versions),
        None => (Bench::behind_gate(handler), VERSIONS[0]),
    }
}

/// How many messages were given up, done with, answered.
fn agree(handler: &Checked, random: &mut Random, number: u32) -> [u32; 3] {
    let (bench, versions) = bench_of(handler, number);
    let layout = Layout::of(handler.handler());
    let ours = words(&layout);
    let memory = Memory::new(&ours, &layout, handler.handler());
    let mut counts = [0; 3];
    let tables = [bench.seen(&layout, handler), memory].map(|memory| memory.table("keys"));
    for _ in 0..24 {
        let (key, word) = (draw::key(random), u64::from(random.byte()));
        for table in tables.into_iter().flatten() {
            let _full = table.insert(&key, word);
        }
        let message = draw::message(random);
        let meant = interpret(handler, memory, &message);
        let version = versions[random.below(versions.len())];
        let done = bench.outcome(version, &message);
        let text = handler.handler();
        assert_eq!(done, meant, "handler {number}, message {message:?}\n{text}");
        let theirs = bench.memory.words().iter().map(|word| word.load(Relaxed));
        let ours = ours.iter().map(|word| word.load(Relaxed));
        assert!(
            ours.eq(theirs.take(layout.bytes() as usize / 8)),
            "memory differs: {number}\n{text}"
        );
        counts[match meant {
            Outcome::GivenUp => 0,
            Outcome::Done => 1,
            Outcome::Reply(_) => 2,
        }] += 1;
    }
    let counted = [Counter::Done, Counter::Answered].map(|counter| bench.counted(counter));
    let expected = [counts[1], counts[2]].map(u64::from);
    assert!(
        counted == [None; 2] || counted == expected.map(Some),
        "{counted:?}"
    );
    counts
}

const ECHO: &str = "handler echo { reply length up to 1400 { u8(0) = 33; } }";

#[test]
fn what_is_not_whole_or_not_for_us_goes_on_as_it_came() {
    if !allowed("what_is_not_whole_or_not_for_us_goes_on_as_it_came") {
        return;
    }
    let bench = Bench::new(&parse(ECHO).unwrap(), false);
    for v6 in [false, true] {
        let whole = frame(v6, b"hello, world");
        assert_eq!(bench.run(&whole).verdict, packets::TX);
        // Whose hardware it comes from nobody checks; of IPv6's header nothing covers what only routers and schedulers read.
        let uncovered = |at| (6..12).contains(&at) || v6 && [14, 15, 16, 17, 21].contains(&at);
        for at in (0..whole.len()).filter(|at| !uncovered(*at)) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            let run = bench.run(&damaged);
            assert_eq!(run.verdict, packets::PASS, "byte {at}, IPv6 {v6}");
            assert_eq!(run.packet, damaged);
        }
        for len in 14..whole.len() {
            let run = bench.run(&whole[..len]);
            assert_eq!(
                (run.verdict, run.packet),
                (packets::PASS, whole[..len].to_vec())
            );
        }
    }
}

#[test]
fn padding_behind_a_message_is_not_part_of_it() {
    if !allowed("padding_behind_a_message_is_not_part_of_it") {
        return;
    }
    let bench = Bench::new(&parse("handler longer { reply 20; }").unwrap(), false);
    let mut padded = frame(false, b"ab");
    padded.extend([0xee; 16]);
    let run = bench.run(&padded);
    assert_eq!(run.verdict, packets::TX);
    let expected = [&b"ab"[..], &[0; 18]].concat();
    assert_eq!(packets::said(false, &run.packet), expected);
}

#[test]
fn a_datagram_without_a_checksum_or_with_one_to_be_made_is_a_message() {
    if !allowed("a_datagram_without_a_checksum_or_with_one_to_be_made_is_a_message") {
        return;
    }
    let handler = parse(ECHO).unwrap();
    let [plain, partial] = [false, true].map(|may_be| Bench::new(&handler, may_be));
    let mut none = frame(false, b"hello");
    none[40..42].fill(0);
    assert_eq!(plain.run(&none).verdict, packets::TX);
    let mut none = frame(true, b"hello");
    none[60..62].fill(0);
    assert_eq!(
        plain.run(&none).verdict,
        packets::PASS,
        "RFC 8200 section 8.1"
    );
    for v6 in [false, true] {
        let mut unfinished = frame(v6, b"hello");
        let start = if v6 { 62 } else { 42 };
        let addresses = start - 8 - if v6 { 32 } else { 8 }..start - 8;
        let pseudo = [&unfinished[addresses], &[0, 17, 0, 13]].concat();
        let words = pseudo
            .chunks_exact(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) as u16 + (sum >> 16) as u16;
        unfinished[start - 2..start].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(plain.run(&unfinished).verdict, packets::PASS);
        let run = partial.run(&unfinished);
        assert_eq!(run.verdict, packets::TX);
        assert_eq!(packets::said(v6, &run.packet), b"!ello");
    }
}

#[test]
fn memory_is_the_programs_too() {
    if !allowed("memory_is_the_programs_too") {
        return;
    }
    let handler = parse(
        "handler mailbox {
             words taken[1];
             rows box[4] of 64;
             number = &taken[0];
             line = &box[*number];
             take(line, 0, length);
             add(number, 1);
             done;
         }",
    )
    .unwrap();
    let layout = Layout::of(handler.handler());
    let bench = Bench::new(&handler, false);
    let memory = bench.seen(&layout, &handler);
    for (number, said) in [&b"one"[..], b"two", b"three", b"four"].iter().enumerate() {
        assert_eq!(bench.outcome(false, said), Outcome::Done);
        let row = memory.row("box", number as u32).unwrap();
        assert_eq!(&row[0].load(Relaxed).to_ne_bytes()[..said.len()], *said);
    }
    assert_eq!(
        bench.outcome(false, b"five"),
        Outcome::GivenUp,
        "the box is full"
    );
    memory.words("taken").unwrap()[0].store(0, Relaxed);
    assert_eq!(
        bench.outcome(false, b"six"),
        Outcome::Done,
        "and was emptied"
    );
    assert_eq!(
        bench.outcome(false, &[0; 65]),
        Outcome::GivenUp,
        "a row has 64 bytes"
    );
}

/// There is room for such a reply already: the packet is only cut.
#[test]
fn replies_that_are_no_longer_than_what_is_needed_are_right() {
    if !allowed("replies_that_are_no_longer_than_what_is_needed_are_right") {
        return;
    }
    let texts = [
        "handler counters { words w[64]; need 12; p = &w[be32(0) & 63]; before = add(p, be64(4));
             reply 12 { be64(4) = before; } }",
        "handler several { need 24; if u8(0) < 64 { reply 8 { be32(0) = 7; } }
             if u8(0) < 128 { reply u8(1) & 15 up to 15 { u8(0) = 9; be16(1) = 5; } }
             if u8(0) < 192 { reply length { be64(3) = be64(0); } } reply 24 { u8(23) = 1; } }",
        "handler rows_of { rows r[1] of 16; need 16; p = &r[0]; take(p, 0, 16);
             reply 16 { row(0, p, u8(0) & 15); be16(14) = length; } }",
        "handler both { words w[1]; need 4; p = &w[0];
             if u8(0) < 128 { need 32; add(p, 1); reply 32; } add(p, 2); reply 0; }",
    ];
    let mut random = Random(99);
    let mut replies = 0;
    for text in texts {
        let handler = parse(text).unwrap();
        let layout = Layout::of(handler.handler());
        for versions in VERSIONS {
            let bench = Bench::of_versions(&handler, versions);
            let ours = words(&layout);
            let memory = Memory::new(&ours, &layout, handler.handler());
            for _ in 0..60 {
                let len = [4, 11, 12, 16, 24, 25, 40, 1471, 1472][random.below(9)];
                let message: Vec<_> = (0..len).map(|_| random.byte()).collect();
                let meant = interpret(&handler, memory, &message);
                let version = versions[random.below(versions.len())];
                // Some come with what is not theirs behind them.
                if let Outcome::Reply(reply) = &meant
                    && random.one_in(2)
                {
                    let behind = [0xaa; 9];
                    let run = bench.run(&[&frame(version, &message)[..], &behind].concat());
                    assert_eq!(run.verdict, packets::TX);
                    assert_eq!(&packets::said(version, &run.packet), reply, "{text}");
                    replies += 1;
                    continue;
                }
                assert_eq!(
                    bench.outcome(version, &message),
                    meant,
                    "{text}\n{message:?}"
                );
            }
        }
    }
    assert!(replies > 100, "{replies}");
}

/// Both where the sum follows what is written, and where it is added up.
#[test]
fn a_checksum_that_comes_to_zero_is_sent_as_all_ones() {
    if !allowed("a_checksum_that_comes_to_zero_is_sent_as_all_ones") {
        return;
    }
    let text = "handler sums { need 4; reply length { be16(0) = 5; } }";
    let bench = Bench::new(&parse(text).unwrap(), false);
    for v6 in [false, true] {
        let at = if v6 { 60 } else { 40 };
        let answered = |frame: &[u8]| {
            let run = bench.run(frame);
            assert_eq!(run.verdict, packets::TX);
            let message = packets::said(v6, &run.packet);
            (run.packet[at..at + 2].to_vec(), message)
        };
        let (sum, _) = answered(&frame(v6, &[7, 7, 0, 0]));
        let mut whole = frame(v6, &[[7, 7], [sum[0], sum[1]]].concat());
        let reply = (vec![0xff; 2], vec![0, 5, sum[0], sum[1]]);
        assert_eq!(answered(&whole), reply);
        if !v6 {
            whole[at..at + 2].fill(0);
            assert_eq!(answered(&whole), reply);
        }
    }
}

#[test]
fn where_we_have_addresses_of_one_version_the_other_goes_on() {
    if !allowed("where_we_have_addresses_of_one_version_the_other_goes_on") {
        return;
    }
    let handler = parse(ECHO).unwrap();
    for ours in [false, true] {
        let bench = Bench::at(&handler, false, &[packets::ends(ours).0]);
        for v6 in [false, true] {
            let expected = match v6 == ours {
                true => Outcome::Reply(b"!ello".to_vec()),
                false => Outcome::GivenUp,
            };
            assert_eq!(bench.outcome(v6, b"hello"), expected);
        }
    }
}

#[test]
fn who_cannot_be_answered_or_might_be_a_handler_is_not() {
    if !allowed("who_cannot_be_answered_or_might_be_a_handler_is_not") {
        return;
    }
    let bench = Bench::new(&parse(ECHO).unwrap(), false);
    let from = |address: &str, port| {
        let address: std::net::Ipv4Addr = address.parse().unwrap();
        bench.run(&packets::frame_from(address, port)).verdict
    };
    assert_eq!(from("10.1.200.7", packets::PEERS_PORT), packets::TX);
    assert_eq!(
        from("10.1.200.7", packets::PORT),
        packets::PASS,
        "another handler's"
    );
    for nobody in [
        "10.1.255.255",
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "10.1.2.3",
    ] {
        assert_eq!(from(nobody, packets::PEERS_PORT), packets::PASS, "{nobody}");
    }
    let mut of_a_group = frame(false, b"hello");
    of_a_group[6] |= 1;
    assert_eq!(bench.run(&of_a_group).verdict, packets::PASS);
}

/// It would be some 80,000 if it followed each length of a message to the end, and 6,000 if it took the parts of a sum for different each time.
#[test]
fn the_verifier_follows_a_short_handler_in_a_few_thousand_steps() {
    if !allowed("the_verifier_follows_a_short_handler_in_a_few_thousand_steps") {
        return;
    }
    let text = "handler counters {
         words counters[1024];
         need 12;
         counter = &counters[be32(0)];
         before = add(counter, be64(4));
         reply length { be64(4) = before; }
     }";
    let followed = load_in_gate(&parse(text).unwrap());
    assert!(followed < 4000, "{followed} instructions");
}
