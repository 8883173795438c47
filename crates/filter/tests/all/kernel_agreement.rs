//! The compiled program agrees with the interpreter: both see the same packets, the program in the kernel
//! (`BPF_PROG_TEST_RUN`). Needs the privilege to load programs; without it each test says that it was skipped.

use crate::common;

use common::{PORTS, Random, hex};
use exos_filter::{
    Action, Counter, Filter, Program, ProgramMaps, Rule, compile, compile_classifier, dispatcher,
    stamping_dispatcher,
};
use exos_host::bpf::{Map, Prog, permitted};
use exos_testing::ebpf::disassemble;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const PASS: u32 = 2;
const DROP: u32 = 1;
const NO_MAPS: ProgramMaps = ProgramMaps {
    xskmap_fd: -1,
    counters_fd: None,
    early_drop: None,
};

/// Tests that measure do not run beside others.
static ALONE: Mutex<()> = Mutex::new(());

fn allowed(test: &str) -> bool {
    match permitted() {
        Ok(()) => true,
        Err(error) => {
            common::skipped(&format!("{test}: {error}"));
            false
        }
    }
}

/// The kernel frees a program some time after its descriptor is closed, by work in a queue of the processor's. A thousand pieces
/// of it that wait for a load fill the queue, and loads wait for work behind them (Linux 6.18: for ever). So each 64th load
/// begins when programs that were closed before are free.
fn load(program: &Program, what: &dyn std::fmt::Display) -> Prog {
    static LOADS: AtomicU32 = AtomicU32::new(0);
    if LOADS.fetch_add(1, Relaxed) % 64 == 63 {
        // SAFETY: a call without pointers, which waits for a grace period of RCU (membarrier(2)).
        unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    }
    Prog::load(&program.words(), "agreement", true)
        .unwrap_or_else(|e| panic!("{what}\n{}\n{}\n{e}", disassemble(&program.words()), e.log))
}

fn drop_rule(filter: &Filter) -> Vec<Rule> {
    vec![Rule {
        filter: filter.clone(),
        action: Action::Drop,
    }]
}

/// Compile, load, and compare on `packets` packets drawn from `random`.
fn agrees(filter: &Filter, random: &mut Random, packets: usize, what: &str) {
    let program = compile(&drop_rule(filter), Action::Pass, &NO_MAPS).expect(what);
    let prog = load(&program, &what);
    for _ in 0..packets {
        let packet = common::packet(random);
        compare(filter, &program, &prog, &packet, what);
    }
}

fn compare(filter: &Filter, program: &Program, prog: &Prog, packet: &[u8], what: &str) {
    let expected = if filter.matches(packet) { DROP } else { PASS };
    let run = prog.test_run(packet).unwrap();
    assert!(
        run.verdict == expected,
        "{what}\nfilter {filter}\npacket {}\nexpected {expected}, the kernel says {}\n{}",
        hex(packet),
        run.verdict,
        disassemble(&program.words())
    );
}

/// How many filters each random test draws: EXOS_FILTER_CASES says it for a machine that is slow.
fn cases(usual: u64) -> u64 {
    let said = std::env::var("EXOS_FILTER_CASES").ok();
    said.and_then(|n| n.parse().ok())
        .unwrap_or_else(|| exos_testing::cases(usual))
}

#[test]
fn written_filters_agree() {
    if !allowed("written_filters_agree") {
        return;
    }
    for seed in 0..cases(500) {
        let random = &mut Random(seed);
        let depth = random.below(4);
        let text = common::text(random, depth);
        match Filter::parse(&text) {
            Ok(filter) => agrees(&filter, random, 60, &format!("seed {seed}: {text}")),
            Err(error) => assert!(
                error.message().contains("too large"),
                "seed {seed}: {error}"
            ),
        }
    }
}

/// Verdicts of traffic control: the next program, or dropped.
const TC_NEXT: u32 = -1_i32 as u32;
const TC_PASS: u32 = 0;
const TC_DROP: u32 = 2;

/// A program of traffic control says of a packet what one of XDP says, but that a claim is a mark.
#[test]
fn classifiers_agree() {
    if !allowed("classifiers_agree") {
        return;
    }
    for seed in 0..cases(100) {
        let random = &mut Random(seed ^ 0x7c7c);
        let filter = common::raw(random);
        for (action, verdict) in [(Action::Drop, TC_DROP), (Action::RedirectToSocket, TC_PASS)] {
            let rules = [Rule {
                filter: filter.clone(),
                action,
            }];
            let program = compile_classifier(&rules, Action::Pass, 0x1234_5678, None).unwrap();
            let words = program.words();
            let prog = Prog::load_classifier(&words, "agreement")
                .unwrap_or_else(|e| panic!("{filter}\n{}\n{}\n{e}", disassemble(&words), e.log));
            for _ in 0..30 {
                let packet = common::packet(random);
                // The kernel makes no socket buffer of a packet that is too short for its type.
                let Ok(run) = prog.test_run(&packet) else {
                    continue;
                };
                let expected = if filter.matches(&packet) {
                    verdict
                } else {
                    TC_NEXT
                };
                let packet = hex(&packet);
                assert_eq!(run.verdict, expected, "seed {seed}: {filter}\n{packet}");
            }
        }
    }
}

#[test]
fn arbitrary_filters_agree() {
    if !allowed("arbitrary_filters_agree") {
        return;
    }
    for seed in 0..cases(500) {
        let random = &mut Random(seed ^ 0xa5a5_0000);
        let filter = common::raw(random);
        agrees(&filter, random, 60, &format!("seed {seed}: {filter}"));
    }
}

/// Every length from 14 bytes up of packets of every shape.
#[test]
fn cut_packets_agree() {
    if !allowed("cut_packets_agree") {
        return;
    }
    let texts = [
        "tcp dst port 80 and dst host 10.0.0.2",
        "port 80",
        "not port 80",
        "proto 6 or ip6 proto 17",
        "not (ip6 and tcp)",
        "less 60 and not arp",
        "vlan 5 and udp",
        "ether src 02:00:00:00:00:01 and dst net fd10::/16",
    ];
    for (i, text) in texts.iter().enumerate() {
        let random = &mut Random(77 + i as u64);
        let filter = Filter::parse(text).unwrap();
        let program = compile(&drop_rule(&filter), Action::Pass, &NO_MAPS).unwrap();
        let prog = load(&program, text);
        for _ in 0..60 {
            let whole = common::whole_packet(random);
            for length in 14..=whole.len() {
                compare(&filter, &program, &prog, &whole[..length], text);
            }
        }
    }
}

/// Several rules of mixed actions: the first that matches decides.
#[test]
fn rule_lists_agree() {
    if !allowed("rule_lists_agree") {
        return;
    }
    for seed in 0..cases(200) {
        let random = &mut Random(seed ^ 0x77_0000);
        let rules = (0..1 + random.below(6)).map(|_| Rule {
            filter: Filter::parse(&common::text(random, 1)).unwrap(),
            action: pass_or_drop(random),
        });
        let rules: Vec<Rule> = rules.collect();
        list_agrees(&rules, random, 60, seed);
    }
}

/// Lists of many values of a few words, some again with more conditions and other actions: what is found by halving.
#[test]
fn lists_of_values_agree() {
    if !allowed("lists_of_values_agree") {
        return;
    }
    for seed in 0..cases(100) {
        let random = &mut Random(seed ^ 0x55_0000);
        let rules = (0..6 + random.below(40)).map(|_| value_rule(random));
        let rules: Vec<Rule> = rules.collect();
        list_agrees(&rules, random, 100, seed);
    }
}

fn pass_or_drop(random: &mut Random) -> Action {
    match random.one_in(2) {
        true => Action::Pass,
        false => Action::Drop,
    }
}

fn decided(rules: &[Rule], otherwise: Action, packet: &[u8]) -> Action {
    let first = rules.iter().find(|rule| rule.filter.matches(packet));
    first.map_or(otherwise, |rule| rule.action)
}

/// Compile with a random action for what no rule matches, load, and compare on `packets` packets.
fn list_agrees(rules: &[Rule], random: &mut Random, packets: usize, seed: u64) {
    let otherwise = pass_or_drop(random);
    let program = compile(rules, otherwise, &NO_MAPS).unwrap();
    let prog = load(&program, &seed);
    for _ in 0..packets {
        let packet = common::packet(random);
        let expected = match decided(rules, otherwise, &packet) {
            Action::Pass => PASS,
            _ => DROP,
        };
        assert_eq!(
            prog.test_run(&packet).unwrap().verdict,
            expected,
            "seed {seed} {}\n{}",
            hex(&packet),
            disassemble(&program.words())
        );
    }
}

fn value_rule(random: &mut Random) -> Rule {
    let port = match random.below(3) {
        0 => random.below(65536),
        _ => usize::from(PORTS[random.below(7)]),
    };
    let text = match random.below(8) {
        0..4 => format!("tcp dst port {port}"),
        4 => format!("tcp dst port {port} and ip"),
        5 => format!(
            "tcp dst port {port} and src host 10.0.0.{}",
            random.below(4)
        ),
        6 => format!("proto {}", random.below(256)),
        _ => format!("ether proto {}", 0x8800 + random.below(256)),
    };
    // Long runs of one action, so that values meet.
    let action = if random.one_in(6) {
        Action::Pass
    } else {
        Action::Drop
    };
    Rule {
        filter: Filter::parse(&text).unwrap(),
        action,
    }
}

/// A thousand grants of a port and an address each, as one program.
#[test]
fn a_thousand_rules_load_and_agree() {
    if !allowed("a_thousand_rules_load_and_agree") {
        return;
    }
    let rules: Vec<Rule> = (0..1000)
        .map(|i| Rule {
            filter: Filter::parse(&format!(
                "tcp dst port {} and dst host 10.0.{}.2",
                5000 + i,
                i % 7
            ))
            .unwrap(),
            action: Action::Drop,
        })
        .collect();
    let program = compile(&rules, Action::Pass, &NO_MAPS).unwrap();
    let prog = load(&program, &"a thousand rules");
    let random = &mut Random(3);
    for _ in 0..2000 {
        let mut packet = common::packet(random);
        if random.one_in(2) && packet.len() > 38 {
            packet[30..34].copy_from_slice(&[10, 0, random.below(8) as u8, 2]);
            packet[36..38].copy_from_slice(&(4990 + random.below(1020) as u16).to_be_bytes());
        }
        let matches = rules.iter().any(|r| r.filter.matches(&packet));
        assert_eq!(
            prog.test_run(&packet).unwrap().verdict,
            if matches { DROP } else { PASS },
            "{}",
            hex(&packet)
        );
    }
}

/// The largest filters that the language gives still pass the verifier, which follows every path.
#[test]
fn the_largest_filters_load_and_agree() {
    if !allowed("the_largest_filters_load_and_agree") {
        return;
    }
    let list = |n: usize, item: &dyn Fn(usize) -> String| {
        (0..n).map(item).collect::<Vec<_>>().join(" or ")
    };
    let texts = [
        format!(
            "port ({})",
            list(80, &|i| PORTS[i % 7].wrapping_add(i as u16 / 7).to_string())
        ),
        format!("not port ({})", list(40, &|i| (5000 + i).to_string())),
        // What a pool of addresses is taken by, IPv4 and IPv6.
        "(dst net 10.0.0.64/26 and not arp or arp dst net 10.0.0.64/26) and (not vlan or vlan 0)"
            .to_owned(),
        "(dst net fd10::/125 or icmp6 and dst net ff02::1:ff00:0/125) and (not vlan or vlan 0)"
            .to_owned(),
        format!("host ({})", list(120, &|i| format!("10.0.0.{i}"))),
        format!("not host ({})", list(20, &|i| format!("10.0.0.{i}"))),
        format!("ip6 host ({})", list(100, &|i| format!("fd10::{i:x}"))),
        format!(
            "not ip6 src host ({})",
            list(3, &|i| format!("fd10::{i:x}"))
        ),
        format!(
            "({}) and ({})",
            list(4, &|i| format!("port {}", PORTS[i])),
            list(10, &|i| format!("host 10.0.0.{i}"))
        ),
        list(20, &|i| {
            format!(
                "(tcp[{}] & 3 = 1 and not ip[{}:2] > 7 and greater {})",
                i,
                i % 30,
                50 + i
            )
        }),
    ];
    for (seed, text) in texts.iter().enumerate() {
        let filter = Filter::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let program = compile(&drop_rule(&filter), Action::Pass, &NO_MAPS).unwrap();
        let started = std::time::Instant::now();
        let verified = load(&program, text).info().unwrap().verified_insns;
        let (conjunctions, length) = (filter.conjunctions().len(), program.insns().len());
        let time = started.elapsed();
        eprintln!(
            "{conjunctions:4} conjunctions {length:6} instructions {verified:7} verified in {time:?}"
        );
        assert!((length as u32 / 2..200_000).contains(&verified), "{text}");
        agrees(&filter, &mut Random(seed as u64), 200, text);
    }
}

/// Every verdict is counted once, and a queue without a socket takes the fallback.
#[test]
fn verdicts_are_counted_and_fall_back() {
    if !allowed("verdicts_are_counted_and_fall_back") {
        return;
    }
    let random = &mut Random(5);
    let rule = |text: &str, action| Rule {
        filter: Filter::parse(text).unwrap(),
        action,
    };
    for (otherwise, fallback) in [
        (Action::Pass, PASS),
        (Action::Drop, DROP),
        (Action::RedirectToSocket, PASS),
    ] {
        let sockets = Map::xskmap(1).unwrap();
        let counters = Map::percpu_array("counters", 8, Counter::COUNT).unwrap();
        let maps = ProgramMaps {
            xskmap_fd: sockets.raw_fd(),
            counters_fd: Some(counters.raw_fd()),
            early_drop: None,
        };
        let rules = [
            rule("tcp", Action::RedirectToSocket),
            rule("udp", Action::Drop),
            rule("arp", Action::Pass),
        ];
        let program = compile(&rules, otherwise, &maps).unwrap();
        let prog = load(&program, &"counted");
        let mut expected = [0u64; Counter::COUNT as usize];
        for _ in 0..300 {
            let packet = common::packet(random);
            let (counter, verdict) = match decided(&rules, otherwise, &packet) {
                Action::Pass => (Counter::Pass, PASS),
                Action::Drop => (Counter::Drop, DROP),
                Action::RedirectToSocket => (Counter::NoSocket, fallback),
            };
            expected[counter as usize] += 1;
            assert_eq!(
                prog.test_run(&packet).unwrap().verdict,
                verdict,
                "{}",
                hex(&packet)
            );
        }
        let counted: Vec<u64> = (0..Counter::COUNT)
            .map(|i| counters.sum_percpu_u64(i).unwrap()[0])
            .collect();
        assert_eq!(counted, expected);
    }
}

/// The dispatcher falls back while its slot is empty, and runs whatever is in it.
#[test]
fn the_dispatcher_calls_what_is_in_its_slot() {
    if !allowed("the_dispatcher_calls_what_is_in_its_slot") {
        return;
    }
    let slots = Map::prog_array(1).unwrap();
    let kinds = [dispatcher, stamping_dispatcher];
    let fallbacks = [(Action::Pass, PASS), (Action::Drop, DROP)];
    let cases = kinds.iter().flat_map(|kind| fallbacks.map(|f| (kind, f)));
    for (kind, (fallback, verdict)) in cases {
        // A program array takes programs of one kind only: all marked for fragments, or none.
        let outer = load(&kind(slots.raw_fd(), fallback), &"dispatcher");
        let packet = [0; 60];
        assert_eq!(outer.test_run(&packet).unwrap().verdict, verdict);
        for (action, verdict) in [(Action::Pass, PASS), (Action::Drop, DROP)] {
            let inner = load(&compile(&[], action, &NO_MAPS).unwrap(), &"inner");
            slots.set_fd(0, inner.as_fd()).unwrap();
            assert_eq!(outer.test_run(&packet).unwrap().verdict, verdict);
        }
        assert!(slots.clear(0).unwrap());
        assert_eq!(outer.test_run(&packet).unwrap().verdict, verdict);
    }
}

/// Not a judgement but a record: instructions and time of typical programs. Run with `--nocapture`.
#[test]
fn sizes_and_times_are_reported() {
    if !allowed("sizes_and_times_are_reported") {
        return;
    }
    let _alone = ALONE.lock();
    let tcp = common_tcp_packet();
    for text in [
        "all",
        "ip",
        "tcp dst port 80 and dst host 10.0.0.2",
        "port 80",
        "not port 22",
        "icmp6 or arp",
    ] {
        let filter = Filter::parse(text).unwrap();
        let started = std::time::Instant::now();
        let program = compile(&drop_rule(&filter), Action::Pass, &NO_MAPS).unwrap();
        let prog = load(&program, &text);
        let loaded = started.elapsed();
        let run = prog.test_run_repeated(&tcp, 1_000_000).unwrap();
        let verified = prog.info().unwrap().verified_insns;
        let length = program.insns().len();
        eprintln!(
            "{length:5} instructions {verified:7} verified {:4} ns, made in {loaded:?}  {text}",
            run.nanoseconds
        );
        assert!(program.insns().len() < 1000);
    }
}

/// What a thousand listeners cost a packet for the last of them.
#[test]
fn the_time_of_a_thousand_rules_is_reported() {
    if !allowed("the_time_of_a_thousand_rules_is_reported") {
        return;
    }
    let _alone = ALONE.lock();
    let rules: Vec<Rule> = (0..1000)
        .map(|i| Rule {
            filter: Filter::parse(&format!("tcp dst port {} and dst host 10.0.0.2", 1080 - i))
                .unwrap(),
            action: Action::Drop,
        })
        .collect();
    let started = std::time::Instant::now();
    let program = compile(&rules, Action::Pass, &NO_MAPS).unwrap();
    let compiled = started.elapsed();
    let prog = load(&program, &"a thousand rules");
    eprintln!(
        "1000 rules compiled in {compiled:?}, loaded in {:?}",
        started.elapsed() - compiled
    );
    let mut packet = common_tcp_packet();
    for port in [81u16, 1080] {
        packet[36..38].copy_from_slice(&port.to_be_bytes());
        let run = prog.test_run_repeated(&packet, 100_000).unwrap();
        eprintln!(
            "{:5} instructions {:4} ns  1000 rules, port {port}",
            program.insns().len(),
            run.nanoseconds
        );
        assert_eq!(run.verdict, DROP);
    }
}

/// Ethernet, IPv4 to 10.0.0.2, TCP to port 80.
fn common_tcp_packet() -> Vec<u8> {
    let mut packet = vec![0; 60];
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14] = 0x45;
    packet[23] = 6;
    packet[30..34].copy_from_slice(&[10, 0, 0, 2]);
    packet[36..38].copy_from_slice(&80u16.to_be_bytes());
    packet
}
