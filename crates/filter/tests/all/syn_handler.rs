//! The handler of SYNs answers byte for byte as the stack does with a cookie, and leaves to the stack what it does not
//! answer. The stack is the oracle; the program runs in the kernel (`BPF_PROG_TEST_RUN`), by the kernel's own clock.
//! Needs the privilege to load programs; without it each test says that it was skipped.

use crate::common;

use common::{Random, hex};
use exos_filter::Counter;
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::{Handler as _, SynHandler};
use exos_host::bpf::{Map, Prog, permitted};
use exos_inet::tcp::{ListenOptions, SynCookies};
use exos_inet::{Config, Instant, Neighbors, RxChecksum, Stack};
use exos_testing::ebpf::disassemble;
use exos_wire::{Mac, Sum};
use std::net::Ipv4Addr;

const PASS: u32 = 2;
const TX: u32 = 3;
const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 1, 200, 7);
const PORT: u16 = 8080;
const SEED: u64 = 77;

/// Where things lie in a frame.
const SOURCES: std::ops::Range<usize> = 6..12;
const SOURCE_IP: std::ops::Range<usize> = 26..30;

fn allowed(test: &str) -> bool {
    match permitted() {
        Ok(()) => true,
        Err(error) => {
            common::skipped(&format!("{test}: {error}"));
            false
        }
    }
}

fn now() -> Instant {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000)
}

fn stack() -> Stack {
    let mut config = Config::new(OURS, 1500);
    config.neighbors = Neighbors::External;
    config.addresses = vec![(ADDRESS.into(), 16)];
    let mut stack = Stack::new(config, SEED, now()).unwrap();
    stack.set_neighbor(now(), PEER.into(), THEIRS);
    stack
}

fn listen(stack: &mut Stack) -> exos_inet::tcp::ListenerId {
    let options = ListenOptions {
        syn_cookies: SynCookies::Always,
        ..ListenOptions::default()
    };
    stack.tcp.listen(None, PORT, options).unwrap()
}

struct Bench {
    prog: Prog,
    counters: Map,
    /// Kept, for the program goes on to what is in it.
    _slots: Map,
}

impl Bench {
    fn new(may_be_partial: bool) -> Self {
        let mut stack = stack();
        let listener = listen(&mut stack);
        let recipe = stack.offload_syns(now(), listener).unwrap();
        let handler = SynHandler {
            mac: OURS,
            addresses: vec![Ipv4Addr::new(10, 9, 9, 9), ADDRESS],
            not_from: vec![ADDRESS, Ipv4Addr::new(10, 1, 255, 255)],
            recipe,
            may_be_partial,
            way_out: WayOut::Transmit,
        };
        let slots = Map::prog_array(2).unwrap();
        let counters = Map::percpu_array("test", 8, Counter::COUNT).unwrap();
        let code = handler.program(slots.raw_fd(), counters.raw_fd());
        let prog = Prog::load(&code.words(), "syn", false)
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&code.words()), e.log));
        Self {
            prog,
            counters,
            _slots: slots,
        }
    }

    fn answered(&self) -> u64 {
        let sums = self.counters.sum_percpu_u64(Counter::Answered as u32);
        sums.unwrap()[0]
    }

    /// What the program makes of a frame, and what the stack sends, at the same millisecond.
    fn both(&self, frame: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        for _ in 0..1000 {
            let before = now();
            let run = self.prog.test_run(frame).unwrap();
            if now().millis() != before.millis() {
                continue;
            }
            assert!(run.verdict == PASS || run.verdict == TX, "{}", run.verdict);
            let ours = (run.verdict == TX).then_some(run.packet);
            return (ours, oracle(frame, before));
        }
        panic!("no millisecond was long enough");
    }
}

/// What the stack answers with a cookie.
fn oracle(frame: &[u8], now: Instant) -> Option<Vec<u8>> {
    let mut stack = stack();
    listen(&mut stack);
    stack.handle_frame(now, frame, RxChecksum::Unknown);
    let sent = stack.poll_transmit(now)?;
    Some([&[sent.head], sent.body.parts()].concat().concat())
}

/// A SYN of one of the two shapes.
fn syn(random: &mut Random) -> Vec<u8> {
    let full = random.one_in(2);
    let mut frame = [&OURS.0[..], &THEIRS.0, &[8, 0]].concat();
    let total: u16 = if full { 60 } else { 44 };
    frame.extend([0x45, random.byte() & 0xfc]);
    frame.extend(total.to_be_bytes());
    frame.extend([random.byte(), random.byte(), 0x40, 0, 64, 6, 0, 0]);
    frame.extend(PEER.octets());
    frame.extend(ADDRESS.octets());
    frame.extend((1 + random.below(65535) as u16).to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend((random.next() as u32).to_be_bytes());
    frame.extend([0; 4]);
    let words = if full { 10 } else { 6 };
    frame.extend([words << 4, 2, random.byte(), random.byte(), 0, 0, 0, 0]);
    let mss = [0, 47, 48, 536, 1219, 1220, 1459, 1460, 8939, 8940, 65535][random.below(11)];
    frame.extend([2, 4]);
    frame.extend(u16::to_be_bytes(mss));
    if full {
        frame.extend([4, 2, 8, 10]);
        frame.extend((random.next() as u32).to_be_bytes());
        frame.extend([0, 0, 0, 0, 1, 3, 3, random.below(15) as u8]);
    }
    mend_checksums(&mut frame);
    frame
}

fn mend_checksums(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let ip = Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&ip.to_be_bytes());
    frame[50..52].fill(0);
    let tcp = pseudo(frame).plus(Sum::of(&frame[34..])).finish();
    frame[50..52].copy_from_slice(&tcp.to_be_bytes());
}

fn pseudo(frame: &[u8]) -> Sum {
    Sum::of(&frame[26..34]).plus(Sum::from_wide(frame.len() as u64 - 34 + 6))
}

fn same(ours: Option<&Vec<u8>>, theirs: Option<&Vec<u8>>, frame: &[u8]) {
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        panic!(
            "{}\nthe program: {:?}\nthe stack:   {:?}",
            hex(frame),
            ours.map(|f| hex(f)),
            theirs.map(|f| hex(f))
        );
    };
    // Padding of short frames stays.
    let ours = &ours[..ours.len().min(theirs.len())];
    assert_eq!(hex(ours), hex(theirs), "to {}", hex(frame));
}

#[test]
fn syns_are_answered_as_by_the_stack() {
    if !allowed("syns_are_answered_as_by_the_stack") {
        return;
    }
    let bench = Bench::new(false);
    let mut runs = 0;
    for seed in 0..3000 {
        let mut frame = syn(&mut Random(seed));
        if seed % 3 == 0 {
            frame.resize(frame.len() + seed as usize % 20, 0); // Padding.
        }
        let (ours, theirs) = bench.both(&frame);
        same(ours.as_ref(), theirs.as_ref(), &frame);
        runs += 1;
    }
    assert!(bench.answered() >= runs, "all were counted");
}

/// Damage, or anything unusual: either the stack answers the same, or the program does not answer.
#[test]
fn whatever_is_answered_is_answered_as_by_the_stack() {
    if !allowed("whatever_is_answered_is_answered_as_by_the_stack") {
        return;
    }
    let bench = Bench::new(false);
    let (mut answered, mut left) = (0, 0);
    for seed in 0..6000 {
        let mut random = Random(seed);
        let mut frame = syn(&mut random);
        for _ in 0..=random.below(3) {
            let at = random.below(frame.len());
            // Who the stack would have to ask for the way back.
            if !SOURCES.contains(&at) && !SOURCE_IP.contains(&at) {
                frame[at] = if random.one_in(2) {
                    frame[at] ^ 1 << random.below(8)
                } else {
                    random.byte()
                };
            }
        }
        if random.one_in(4) {
            frame.truncate(14 + random.below(frame.len() - 13));
        }
        if random.one_in(2) && frame.len() >= 58 {
            mend_checksums(&mut frame);
        }
        let (ours, theirs) = bench.both(&frame);
        if ours.is_some() {
            answered += 1;
            same(ours.as_ref(), theirs.as_ref(), &frame);
        } else {
            left += 1;
        }
    }
    assert!(answered > 500 && left > 500, "{answered} {left}");
}

/// Each of these is left to the stack.
#[test]
fn what_is_unusual_is_left() {
    if !allowed("what_is_unusual_is_left") {
        return;
    }
    let bench = Bench::new(false);
    let good = syn(&mut Random(4));
    assert!(bench.both(&good).0.is_some());
    let cases: [(&str, usize, &[u8]); 14] = [
        ("another link address", 5, &[9]),
        ("a group", 0, &[0xff; 6]),
        ("from a group", 6, &[3]),
        ("a tag", 12, &[0x81, 0]),
        ("a fragment", 20, &[0x20, 0]),
        ("a later fragment", 20, &[0, 1]),
        ("UDP", 23, &[17]),
        ("from loopback", 26, &[127]),
        ("from a group's address", 26, &[224]),
        ("from ourselves", 26, &ADDRESS.octets()),
        ("from everybody", 26, &[10, 1, 255, 255]),
        ("to another address", 30, &[10, 1, 2, 4]),
        ("from port 0", 34, &[0, 0]),
        ("to another port", 36, &[0, 80]),
    ];
    for (what, at, bytes) in cases {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        mend_checksums(&mut frame);
        assert!(bench.both(&frame).0.is_none(), "{what}");
    }
    for flags in (0..=255u8).filter(|&flags| flags != 2) {
        let mut frame = good.clone();
        frame[47] = flags;
        mend_checksums(&mut frame);
        assert!(bench.both(&frame).0.is_none(), "flags {flags:#x}");
    }
    for at in [24, 25, 50, 51] {
        let mut frame = good.clone();
        frame[at] ^= 1;
        assert!(bench.both(&frame).0.is_none(), "a wrong checksum");
    }
}

/// A kernel on the other end of a virtual link leaves the checksum to a device that is not there.
#[test]
fn unfinished_checksums_are_taken_where_they_may_come() {
    if !allowed("unfinished_checksums_are_taken_where_they_may_come") {
        return;
    }
    let (strict, lenient) = (Bench::new(false), Bench::new(true));
    for seed in 0..200 {
        let good = syn(&mut Random(seed));
        let mut partial = good.clone();
        let sum = pseudo(&good).value().to_be_bytes();
        partial[50..52].copy_from_slice(&sum);
        assert!(strict.both(&partial).0.is_none());
        let (ours, _) = lenient.both(&partial);
        let (expected, _) = lenient.both(&good);
        let at = 54.min(good.len());
        let (ours, expected) = (ours.expect("answered"), expected.expect("answered"));
        assert_eq!(hex(&ours[..38]), hex(&expected[..38]), "but for the clock");
        assert_eq!(hex(&ours[42..at - 4]), hex(&expected[42..at - 4]));
        let mut wrong = partial.clone();
        wrong[51] ^= 1;
        assert!(lenient.both(&wrong).0.is_none());
    }
}
