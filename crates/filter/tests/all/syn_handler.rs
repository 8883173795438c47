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
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const PASS: u32 = 2;
const TX: u32 = 3;
const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfd10, 1, 0, 0, 0, 0, 2, 3);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 1, 200, 7);
const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd10, 1, 0, 0, 9, 8, 200, 7);
const PORT: u16 = 8080;
const SEED: u64 = 77;

/// Where things lie in a frame.
const SOURCES: std::ops::Range<usize> = 6..12;

fn is_v6(frame: &[u8]) -> bool {
    frame[12..14] == [0x86, 0xdd]
}

/// Where TCP begins in a frame that is as it was made.
const fn tcp_of(ipv6: bool) -> usize {
    if ipv6 { 54 } else { 34 }
}

/// Where both addresses lie.
const fn addresses_of(ipv6: bool) -> std::ops::Range<usize> {
    if ipv6 { 22..54 } else { 26..34 }
}

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
    config.addresses = vec![(ADDRESS.into(), 16), (ADDRESS_V6.into(), 32)];
    let mut stack = Stack::new(config, SEED, now()).unwrap();
    for peer in [PEER.into(), PEER_V6.into()] {
        stack.set_neighbor(now(), peer, THEIRS);
    }
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
    may_decline: bool,
    prog: Prog,
    counters: Map,
    /// Kept, for the program goes on to what is in it.
    _slots: Map,
}

impl Bench {
    fn new(may_be_partial: bool) -> Self {
        Self::with(may_be_partial, false)
    }

    fn with(may_be_partial: bool, may_decline: bool) -> Self {
        let mut stack = stack();
        let listener = listen(&mut stack);
        let recipe = stack.offload_syns(now(), listener).unwrap();
        let ours: [IpAddr; 2] = [ADDRESS.into(), ADDRESS_V6.into()];
        let handler = SynHandler {
            mac: OURS,
            addresses: ["10.9.9.9", "fd10:1::2:9"]
                .map(|other| other.parse().unwrap())
                .into_iter()
                .chain(ours)
                .collect(),
            not_from: ours.into_iter().chain([[10, 1, 255, 255].into()]).collect(),
            recipe,
            may_be_partial,
            may_decline,
            way_out: WayOut::Transmit,
        };
        let slots = Map::prog_array(2).unwrap();
        let counters = Map::percpu_array("test", 8, Counter::COUNT).unwrap();
        let code = handler.program(slots.raw_fd(), counters.raw_fd());
        let prog = Prog::load(&code.words(), "syn", false)
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&code.words()), e.log));
        Self {
            may_decline,
            prog,
            counters,
            _slots: slots,
        }
    }

    fn answered(&self) -> u64 {
        let sums = self.counters.sum_percpu_u64(Counter::Answered as u32);
        sums.unwrap()[0]
    }

    /// What the program makes of a frame, and what the stack sends, at the same millisecond: to one that does not ask for ECN where the
    /// program may decline that.
    fn both(&self, frame: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        for _ in 0..1000 {
            let before = now();
            let run = self.prog.test_run(frame).unwrap();
            if now().millis() != before.millis() {
                continue;
            }
            assert!(run.verdict == PASS || run.verdict == TX, "{}", run.verdict);
            let ours = (run.verdict == TX).then_some(run.packet);
            let theirs = match self.may_decline && ours.is_some() {
                true => oracle(&without_ecn(frame), before),
                false => oracle(frame, before),
            };
            return (ours, theirs);
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

/// The SYN without its flags of ECN.
fn without_ecn(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let tcp = tcp_of(is_v6(&frame));
    let (asks, asks_not) = (be16(&frame[tcp + 12..]), be16(&frame[tcp + 12..]) & 0xfe3f);
    // RFC 1624.
    let sum = u64::from(!be16(&frame[tcp + 16..])) + u64::from(!asks) + u64::from(asks_not);
    frame[tcp + 12..tcp + 14].copy_from_slice(&asks_not.to_be_bytes());
    frame[tcp + 16..tcp + 18].copy_from_slice(&Sum::from_wide(sum).finish().to_be_bytes());
    frame
}

fn be16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// What systems say in their SYNs: flags, and options, in which values are drawn.
struct System {
    name: &'static str,
    /// With the reserved bits before them.
    flags: u16,
    options: &'static [u8],
    /// It offers what a program that may decline does not take up.
    is_declined: bool,
}

const SYSTEMS: [System; 16] = {
    const fn system(name: &'static str, options: &'static [u8]) -> System {
        System {
            name,
            flags: 2,
            options,
            is_declined: false,
        }
    }
    const fn declined(flags: u16, system: System) -> System {
        System {
            flags,
            is_declined: true,
            ..system
        }
    }
    const MSS_ALONE: &[u8] = &[2, 4, 5, 0xb4];
    const LINUX: &[u8] = &[
        2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    const APPLE: &[u8] = &[
        2, 4, 5, 0xb4, 1, 3, 3, 6, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 4, 2, 0, 0,
    ];
    const FREEBSD: &[u8] = &[
        2, 4, 5, 0xb4, 1, 3, 3, 6, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0,
    ];
    const OPENBSD: &[u8] = &[
        2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 6, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0,
    ];
    const SOLARIS: &[u8] = &[
        4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 2, 4, 5, 0xb4, 1, 3, 3, 5,
    ];
    const PADDED: &[u8] = &[1, 1, 1, 1, 2, 4, 5, 0xb4, 1, 1, 1, 1];
    const WINDOWS: &[u8] = &[2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2];
    const OLD_WINDOWS: &[u8] = &[2, 4, 5, 0xb4, 1, 1, 4, 2];
    const SCALE_ALONE: &[u8] = &[2, 4, 5, 0xb4, 1, 3, 3, 6];
    [
        system("MSS alone", MSS_ALONE),
        system("MSS and nothing", &[2, 4, 5, 0xb4, 1, 1, 1, 1]),
        system("Linux", LINUX),
        system("macOS and iOS", APPLE),
        system("FreeBSD", FREEBSD),
        system("OpenBSD", OPENBSD),
        system("Solaris", SOLARIS),
        system("padding", PADDED),
        system("two of a kind", &[2, 4, 1, 1, 2, 4, 5, 0xb4]),
        declined(2, system("Windows", WINDOWS)),
        declined(
            2,
            system("Windows XP, Linux without timestamps", OLD_WINDOWS),
        ),
        declined(2, system("scale without timestamps", SCALE_ALONE)),
        declined(0xc2, system("Windows with ECN", WINDOWS)),
        declined(0xc2, system("macOS with ECN", APPLE)),
        declined(0x1c2, system("macOS with accurate ECN", APPLE)),
        declined(0xc2, system("Linux with ECN", LINUX)),
    ]
};

/// A SYN of one of the systems.
fn syn(random: &mut Random) -> Vec<u8> {
    let all = SYSTEMS.iter().filter(|system| !system.is_declined);
    let all: Vec<_> = all.collect();
    // Half of them of the two that are answered in a straight line.
    let system = match random.one_in(2) {
        true => all[[0, 2][random.below(2)]],
        false => all[random.below(all.len())],
    };
    syn_of_system(random, system)
}

/// With values that are drawn.
fn syn_of_system(random: &mut Random, system: &System) -> Vec<u8> {
    let ipv6 = random.one_in(2);
    let length = 20 + system.options.len() as u8;
    let mut frame = [&OURS.0[..], &THEIRS.0].concat();
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60 | random.byte() & 15]);
        frame.extend([random.byte() & 0xcf, random.byte(), random.byte()]);
        frame.extend([0, length, 6, 64]);
        frame.extend(PEER_V6.octets());
        frame.extend(ADDRESS_V6.octets());
    } else {
        frame.extend([8, 0, 0x45, random.byte() & 0xfc, 0, 20 + length]);
        frame.extend([random.byte(), random.byte(), 0x40, 0, 64, 6, 0, 0]);
        frame.extend(PEER.octets());
        frame.extend(ADDRESS.octets());
    }
    frame.extend((1 + random.below(65535) as u16).to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend((random.next() as u32).to_be_bytes());
    frame.extend([0; 4]);
    let first = u16::from(length / 4) << 12 | system.flags;
    frame.extend(first.to_be_bytes());
    frame.extend([random.byte(), random.byte(), 0, 0, 0, 0]);
    frame.extend(drawn_options(random, system.options));
    mend_checksums(&mut frame, ipv6);
    frame
}

/// The options with other values.
fn drawn_options(random: &mut Random, options: &[u8]) -> Vec<u8> {
    let mut options = options.to_vec();
    let mss = [0, 47, 48, 536, 1219, 1220, 1459, 1460, 8939, 8940, 65535][random.below(11)];
    let values: [(&[u8], &[u8]); 3] = [
        (&[2, 4], &u16::to_be_bytes(mss)),
        (&[8, 10], &(random.next() as u32).to_be_bytes()),
        (&[3, 3], &[random.below(15) as u8]),
    ];
    for (kind, value) in values {
        if let Some(at) = options.windows(2).position(|two| two == kind) {
            options[at + 2..at + 2 + value.len()].copy_from_slice(value);
        }
    }
    options
}

fn mend_checksums(frame: &mut [u8], ipv6: bool) {
    if !ipv6 {
        frame[24..26].fill(0);
        let ip = Sum::of(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&ip.to_be_bytes());
    }
    let tcp = tcp_of(ipv6);
    frame[tcp + 16..tcp + 18].fill(0);
    let sum = pseudo(frame, ipv6).plus(Sum::of(&frame[tcp..])).finish();
    frame[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
}

fn pseudo(frame: &[u8], ipv6: bool) -> Sum {
    let length = frame.len() - tcp_of(ipv6);
    Sum::of(&frame[addresses_of(ipv6)]).plus(Sum::from_wide(length as u64 + 6))
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

/// Those that offer more are answered where the program may decline that.
#[test]
fn syns_of_all_systems_are_answered() {
    if !allowed("syns_of_all_systems_are_answered") {
        return;
    }
    let (all, declining) = (Bench::new(false), Bench::with(false, true));
    for system in &SYSTEMS {
        for seed in 0..200 {
            let frame = syn_of_system(&mut Random(seed), system);
            let (ours, theirs) = declining.both(&frame);
            same(ours.as_ref(), theirs.as_ref(), &frame);
            let answer = ours.unwrap();
            let tcp = tcp_of(is_v6(&frame));
            let length = usize::from(answer[tcp + 12] >> 4) * 4;
            assert_eq!(answer.len(), tcp + length, "{}", system.name);
            let (ours, theirs) = all.both(&frame);
            assert_eq!(ours.is_none(), system.is_declined, "{}", system.name);
            assert!(theirs.is_some(), "{}", system.name);
        }
    }
}

/// Options that the stack reads otherwise, or that a cookie does not keep, are its own.
#[test]
fn options_that_are_not_known_are_left() {
    if !allowed("options_that_are_not_known_are_left") {
        return;
    }
    let bench = Bench::with(false, true);
    let cases: [(&str, &[u8]); 9] = [
        ("no MSS", &[1, 3, 3, 7]),
        ("another length", &[2, 4, 5, 0xb4, 3, 4, 7, 0]),
        ("a scale that is too great", &[2, 4, 5, 0xb4, 1, 3, 3, 15]),
        ("fast open", &[2, 4, 5, 0xb4, 34, 2, 1, 1]),
        (
            "an end before others",
            &[2, 4, 5, 0xb4, 4, 2, 0, 0, 1, 3, 3, 7],
        ),
        (
            "timestamps without the rest",
            &[2, 4, 5, 0xb4, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0],
        ),
        (
            "timestamps that are cut",
            &[2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 8, 10, 1, 2, 3, 4],
        ),
        ("an end alone", &[0, 0, 0, 0]),
        ("more than is read", &[1; 28]),
    ];
    for (name, options) in cases {
        let system = System {
            name,
            flags: 2,
            options,
            is_declined: false,
        };
        for seed in 0..4 {
            let mut frame = syn_of_system(&mut Random(seed), &system);
            let ipv6 = is_v6(&frame);
            frame.truncate(tcp_of(ipv6) + 20);
            frame.extend(options);
            mend_checksums(&mut frame, ipv6);
            assert!(bench.both(&frame).0.is_none(), "{name}");
        }
    }
}

/// Damage, or anything unusual: either the stack answers the same, or the program does not answer.
#[test]
fn whatever_is_answered_is_answered_as_by_the_stack() {
    if !allowed("whatever_is_answered_is_answered_as_by_the_stack") {
        return;
    }
    let benches = [Bench::new(false), Bench::with(false, true)];
    let (mut answered, mut left) = (0, 0);
    for seed in 0..6000 {
        let mut random = Random(seed);
        let bench = &benches[random.below(2)];
        let system = &SYSTEMS[random.below(SYSTEMS.len())];
        let mut frame = syn_of_system(&mut random, system);
        let ipv6 = is_v6(&frame);
        let sender = addresses_of(ipv6);
        let sender = sender.start..(sender.start + sender.end) / 2;
        for _ in 0..=random.below(3) {
            let at = random.below(frame.len());
            // Who the stack would have to ask for the way back.
            if !SOURCES.contains(&at) && !sender.contains(&at) {
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
        if random.one_in(2) && frame.len() >= tcp_of(ipv6) + 24 {
            mend_checksums(&mut frame, ipv6);
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

/// The first SYN of a family among those that are drawn.
fn syn_of(ipv6: bool) -> Vec<u8> {
    let mut drawn = (0..).map(|seed| syn(&mut Random(seed)));
    drawn.find(|frame| is_v6(frame) == ipv6).unwrap()
}

/// Each of these is left to the stack.
#[test]
fn what_is_unusual_is_left() {
    if !allowed("what_is_unusual_is_left") {
        return;
    }
    let bench = Bench::new(false);
    let link: [(&str, usize, &[u8]); 4] = [
        ("another link address", 5, &[9]),
        ("a group", 0, &[0xff; 6]),
        ("from a group", 6, &[3]),
        ("a tag", 12, &[0x81, 0]),
    ];
    let v4: [(&str, usize, &[u8]); 11] = [
        ("a fragment", 20, &[0x20, 0]),
        ("a later fragment", 20, &[0, 1]),
        ("UDP", 23, &[17]),
        ("from nowhere", 26, &[0]),
        ("from loopback", 26, &[127]),
        ("from a group's address", 26, &[224]),
        ("from ourselves", 26, &ADDRESS.octets()),
        ("from everybody", 26, &[10, 1, 255, 255]),
        ("to another address", 30, &[10, 1, 2, 4]),
        ("from port 0", 34, &[0, 0]),
        ("to another port", 36, &[0, 80]),
    ];
    let mut mapped = [0; 16];
    mapped[10..].copy_from_slice(&[0xff, 0xff, 10, 1, 200, 7]);
    let v6: [(&str, usize, &[u8]); 12] = [
        ("another version", 14, &[0x45]),
        ("another length", 19, &[9]),
        ("options of the way", 20, &[0]),
        ("UDP", 20, &[17]),
        ("from nowhere", 22, &[0; 16]),
        ("from loopback", 22, &Ipv6Addr::LOCALHOST.octets()),
        ("from a mapped address", 22, &mapped),
        ("from a group's address", 22, &[0xff]),
        ("from ourselves", 22, &ADDRESS_V6.octets()),
        ("to another address", 53, &[4]),
        ("from port 0", 54, &[0, 0]),
        ("to another port", 56, &[0, 80]),
    ];
    for (ipv6, cases) in [(false, &v4[..]), (true, &v6[..])] {
        let good = syn_of(ipv6);
        let tcp = tcp_of(ipv6);
        assert!(bench.both(&good).0.is_some());
        for &(what, at, bytes) in link.iter().chain(cases) {
            let mut frame = good.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            mend_checksums(&mut frame, ipv6);
            assert!(bench.both(&frame).0.is_none(), "{what}, IPv6 {ipv6}");
        }
        for flags in (0..=255u8).filter(|&flags| flags != 2) {
            let mut frame = good.clone();
            frame[tcp + 13] = flags;
            mend_checksums(&mut frame, ipv6);
            assert!(bench.both(&frame).0.is_none(), "flags {flags:#x}");
        }
        let sums = if ipv6 { 0..0 } else { 24..26 };
        for at in sums.chain(tcp + 16..tcp + 18) {
            let mut frame = good.clone();
            frame[at] ^= 1;
            assert!(bench.both(&frame).0.is_none(), "a wrong checksum");
        }
        for len in 0..good.len() {
            assert!(bench.both(&good[..len.max(14)]).0.is_none(), "cut to {len}");
        }
    }
}

/// Whole extension headers before TCP's: rare enough to be the stack's.
#[test]
fn extension_headers_are_left() {
    if !allowed("extension_headers_are_left") {
        return;
    }
    let bench = Bench::new(false);
    let good = syn_of(true);
    for next_header in [0, 60, 43, 44] {
        let mut frame = good.clone();
        frame[19] += 8;
        frame[20] = next_header;
        let mut extension = [6, 0, 0, 0, 0, 0, 0, 0];
        if next_header == 0 || next_header == 60 {
            extension[2..].copy_from_slice(&[1, 4, 0, 0, 0, 0]); // Padding.
        }
        frame.splice(54..54, extension);
        let (ours, theirs) = bench.both(&frame);
        assert!(ours.is_none(), "header {next_header}");
        assert!(theirs.is_some(), "which the stack takes, {next_header}");
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
        let tcp = tcp_of(is_v6(&good));
        let mut partial = good.clone();
        let sum = pseudo(&good, is_v6(&good)).value().to_be_bytes();
        partial[tcp + 16..tcp + 18].copy_from_slice(&sum);
        assert!(strict.both(&partial).0.is_none());
        let (ours, _) = lenient.both(&partial);
        let (expected, _) = lenient.both(&good);
        let (ours, expected) = (ours.expect("answered"), expected.expect("answered"));
        let (before, behind) = (tcp + 4, tcp + 8..tcp + 16);
        assert_eq!(hex(&ours[..before]), hex(&expected[..before]));
        let same = "but for the clock";
        assert_eq!(hex(&ours[behind.clone()]), hex(&expected[behind]), "{same}");
        let mut wrong = partial.clone();
        wrong[tcp + 17] ^= 1;
        assert!(lenient.both(&wrong).0.is_none());
    }
}

/// What the verifier follows of it is far below its limit of a million instructions.
#[test]
fn the_verifier_follows_few_instructions() {
    if !allowed("the_verifier_follows_few_instructions") {
        return;
    }
    let bench = Bench::with(true, true);
    let verified = bench.prog.info().unwrap().verified_insns;
    eprintln!("{verified} instructions verified");
    assert!(verified < 20_000, "{verified}");
}
