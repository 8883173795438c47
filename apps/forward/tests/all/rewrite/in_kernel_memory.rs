//! The memory that the program and user space share: what of it the program goes by, also where it is not as it should
//! be, or changes while packets come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use exos_forward::packets::packet::Transport;
use exos_forward::packets::rewrite::Sums;
use exos_host::bpf::TestRun;
use exos_testing::Random;

use super::super::MAC;
use super::super::common::{Ends, Shape, build};
use super::bench::{Bench, HOPS, NEXT, PASS, PLACE, RECORD_LEN, TX, allowed, flow};

fn datagram() -> Shape {
    Shape {
        transport: Transport::Udp,
        payload: vec![1, 2, 3],
        hops: 9,
        options: 0,
        padding: 0,
    }
}

/// Until the next hop is known, and without a flow, packets go to user space.
#[test]
fn what_is_not_known_goes_to_user_space() {
    if !allowed("what_is_not_known_goes_to_user_space") {
        return;
    }
    let bench = Bench::new(Sums::Complete);
    let from = Ends::of("10.0.0.1:1000", "10.0.0.2:2000");
    let to = Ends::of("10.0.0.3:3000", "10.0.0.4:4000");
    let frame = build(MAC, &from, &datagram());
    for (way, hop) in HOPS.into_iter().enumerate() {
        bench.set_hop(hop, None);
        bench.way.set(1 - way);
        assert_eq!(bench.run(Transport::Udp, (&from, &to), &frame), None);
        bench.set_hop(hop, Some(NEXT[way]));
        bench.way.set(1 - way);
        assert!(bench.run(Transport::Udp, (&from, &to), &frame).is_some());
    }
    let gone = bench.both(&frame);
    assert_eq!(gone.verdict, PASS, "the flow has gone");
    // With other ends, and the same of TCP, there is none.
    for _ in 0..2 {
        assert_eq!(bench.run(Transport::Udp, (&to, &from), &frame), None);
        assert_eq!(bench.run(Transport::Tcp, (&from, &to), &frame), None);
    }
}

/// Both ways of one flow at once: each packet goes the way that its ends say.
#[test]
fn a_flow_is_both_its_ways() {
    if !allowed("a_flow_is_both_its_ways") {
        return;
    }
    let bench = Bench::new(Sums::Complete);
    for (client, ours) in [
        (
            Ends::of("10.0.0.1:1000", "10.0.0.2:2000"),
            Ends::of("10.0.0.2:3000", "10.0.0.4:4000"),
        ),
        (
            Ends::of("[fd00::1]:1000", "[fd00::2]:2000"),
            Ends::of("[fd00::2]:3000", "[fd00::4]:4000"),
        ),
    ] {
        let turned = |ends: &Ends| Ends {
            src: ends.dst,
            dst: ends.src,
        };
        let flow = flow(Transport::Udp, (&client, &ours), 0);
        bench.flows().insert(PLACE, &flow, 0).unwrap();
        let ways = [(&client, &ours), (&turned(&ours), &turned(&client))];
        for (way, (from, to)) in ways.into_iter().enumerate() {
            let frame = build(MAC, from, &datagram());
            let run = bench.both(&frame);
            bench.way.set(way);
            let wanted = bench.oracle(Transport::Udp, (from, to), &frame);
            assert_eq!((run.verdict, Some(run.packet)), (TX, wanted));
        }
        bench.flows().remove(PLACE).unwrap();
    }
}

/// A flow of which servers answer by themselves has one way: what comes the other is not its, also where the memory leads there.
#[test]
fn one_way_is_no_way_back() {
    if !allowed("one_way_is_no_way_back") {
        return;
    }
    let bench = Bench::new(Sums::Complete);
    for ends in [
        Ends::of("10.0.0.1:1000", "10.0.0.2:80"),
        Ends::of("[fd00::1]:1000", "[fd00::2]:80"),
    ] {
        let turned = Ends {
            src: ends.dst,
            dst: ends.src,
        };
        let [there, back] = [&ends, &turned].map(|ends| build(MAC, ends, &datagram()));
        let verdicts = || [&there, &back].map(|frame| bench.both(frame).verdict);
        let mut flow = flow(Transport::Udp, (&ends, &ends), 0);
        bench.flows().insert(PLACE, &flow, 0).unwrap();
        assert_eq!(verdicts(), [TX, TX], "with a way back");
        // Now the index has both ways, and the record one.
        let what = &bench.records.words()[PLACE as usize * RECORD_LEN / 8 + 2];
        let one_way = u64::from_ne_bytes([0, 0, 1, 0, 0, 0, 0, 0]);
        what.fetch_or(one_way, Ordering::Relaxed);
        assert_eq!(verdicts(), [TX, PASS]);
        what.fetch_xor(one_way, Ordering::Relaxed);
        bench.flows().remove(PLACE).unwrap();

        flow.is_one_way = true;
        bench.flows().insert(PLACE, &flow, 0).unwrap();
        let entries = bench.index.words().iter();
        let taken = entries.filter(|entry| entry.load(Ordering::Relaxed) != 0);
        assert_eq!((taken.count(), verdicts()), (1, [TX, PASS]));
        bench.flows().remove(PLACE).unwrap();
        assert_eq!(verdicts(), [PASS; 2]);
    }
}

/// Where the client alone is heard, what it says of beginnings and ends is user space's.
#[test]
fn one_way_flows_end_in_user_space() {
    if !allowed("one_way_flows_end_in_user_space") {
        return;
    }
    let bench = Bench::new(Sums::Complete);
    for ends in [
        Ends::of("10.0.0.1:1000", "10.0.0.2:80"),
        Ends::of("[fd00::1]:1000", "[fd00::2]:80"),
    ] {
        let mut flow = flow(Transport::Tcp, (&ends, &ends), 0);
        flow.is_one_way = true;
        bench.flows().insert(PLACE, &flow, 0).unwrap();
        let shape = Shape {
            transport: Transport::Tcp,
            ..datagram()
        };
        let mut frame = build(MAC, &ends, &shape);
        let flags = if ends.src.is_ipv6() { 54 } else { 34 } + 13;
        for (set, verdict) in [(0x10, TX), (0x11, PASS), (0x02, PASS), (0x14, PASS)] {
            frame[flags] = set;
            assert_eq!(bench.both(&frame).verdict, verdict, "{set:x}");
        }
        assert_eq!(bench.flows().remove(PLACE), Some(flow));
    }
}

/// Whatever is in the memory that user space shares with it, the program keeps within its bounds.
#[test]
fn memory_that_is_not_as_it_should_be() {
    if !allowed("memory_that_is_not_as_it_should_be") {
        return;
    }
    let bench = Bench::new(Sums::Complete);
    let from = Ends::of("10.0.0.1:1000", "10.0.0.2:2000");
    let to = Ends::of("10.0.0.3:3000", "10.0.0.4:4000");
    let frame = build(MAC, &from, &datagram());
    let flow = flow(Transport::Udp, (&from, &to), 0);
    let run = |change: &dyn Fn(&Bench)| {
        bench.flows().insert(PLACE, &flow, 0).unwrap();
        change(&bench);
        let run = bench.both(&frame);
        let clear = bench.index.words().iter().chain(bench.records.words());
        clear.for_each(|word| word.store(0, Ordering::Relaxed));
        assert!(run.verdict == TX || run.packet == frame);
        run.verdict
    };
    assert_eq!(run(&|_| {}), TX);
    let change = |bench: &Bench, change: &dyn Fn(u64) -> u64| {
        let entries = bench.index.words().iter();
        for entry in entries.filter(|e| e.load(Ordering::Relaxed) != 0) {
            entry.store(change(entry.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    };
    // Entries that lead to no record, to one without a flow, and to the other way.
    let beyond = run(&|bench| change(bench, &|entry| entry | 0xffff_ffff));
    let empty = run(&|bench| change(bench, &|entry| entry ^ 2));
    let other_way = run(&|bench| change(bench, &|entry| entry ^ 1));
    assert_eq!([beyond, empty, other_way], [PASS; 3]);
    // A hop and a tally that there are not: without the one it cannot be sent, without the other not be counted.
    let word = |bench: &Bench, at: usize| {
        let record = PLACE as usize * RECORD_LEN / 8;
        bench.records.words()[record + at].store(u64::MAX, Ordering::Relaxed);
    };
    assert_eq!(run(&|bench| word(bench, 3)), PASS);
    let tallies = bench.tallies();
    let kind = u64::from_ne_bytes([17, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    let uncounted = run(&|bench| {
        let record = PLACE as usize * RECORD_LEN / 8;
        bench.records.words()[record + 2].store(kind, Ordering::Relaxed);
    });
    assert_eq!((uncounted, bench.tallies()), (TX, tallies));
    // And anything at all.
    let mut random = Random(3);
    for _ in 0..2000 {
        let seed = random.next();
        run(&|bench| {
            let mut random = Random(seed);
            let words = bench.index.words().iter().chain(bench.records.words());
            let words: Vec<_> = words.collect();
            for _ in 0..1 + random.below(40) {
                let word = words[random.below(words.len())];
                word.fetch_xor(random.next() & random.next(), Ordering::Relaxed);
            }
        });
    }
}

/// While user space puts one flow after the other to the same place, no packet is rewritten by what is of two of them.
#[test]
fn no_packet_is_of_two_flows() {
    if !allowed("no_packet_is_of_two_flows") {
        return;
    }
    for fences in [false, true] {
        let bench = Bench::with_fences(Sums::Complete, fences);
        let from = Ends::of("[fd00::1]:1000", "[fd00::2]:2000");
        let frame = build(MAC, &from, &datagram());
        // What differs is in every word of the record, and in the hop.
        let both = [
            (0, Ends::of("[fd11::3]:3000", "[fd11::4]:4000")),
            (
                1,
                Ends::of("[2001:db8:a:b:c:d:e:f]:5001", "[2001:db8:1:2:3:4:5:6]:6001"),
            ),
        ];
        let flows = both.each_ref().map(|(way, to)| {
            let mut flow = flow(Transport::Udp, (&from, to), *way);
            flow.pair = *way as u32;
            flow
        });
        let wanted = both.each_ref().map(|(way, to)| {
            bench.way.set(*way);
            bench.oracle(Transport::Udp, (&from, to), &frame).unwrap()
        });
        let stop = AtomicBool::new(false);
        let (table, prog) = (bench.flows(), &bench.prog);
        let changed = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut changed = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    let flow = &flows[changed as usize % 2];
                    table.insert(PLACE, flow, 0).unwrap();
                    // Long enough, now and then, for a whole run of the program.
                    (0..changed % 400).for_each(|_| std::hint::spin_loop());
                    table.remove(PLACE).unwrap();
                    changed += 1;
                }
                changed
            });
            let (mut sent, mut left) = ([0; 2], 0);
            let late = Instant::now() + Duration::from_secs(300);
            for run in 0.. {
                let TestRun {
                    verdict, packet, ..
                } = prog.test_run(&frame).unwrap();
                match wanted.iter().position(|wanted| *wanted == packet) {
                    Some(flow) => sent[flow] += 1,
                    None if verdict == PASS && packet == frame => left += 1,
                    None => panic!("{packet:02x?} is of neither flow: {wanted:02x?}"),
                }
                let all_met = sent.iter().all(|n| *n > 100) && left > 100;
                if run > 50_000 && all_met || Instant::now() > late {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(sent.iter().all(|n| *n > 0) && left > 0, "{sent:?}, {left}");
            writer.join().unwrap()
        });
        assert!(changed > 1000, "{changed}");
    }
}
