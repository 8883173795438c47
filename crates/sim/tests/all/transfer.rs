//! Data over bad wires: every byte arrives, or the connection ends with a clean error. For
//! thousands of seeds.
//!
//! `EXOS_SEEDS=N` runs N times as many seeds as the default, for a soak by hand. Each seed is one
//! run of one scenario over one wire in one family; a failure prints the seed, and the scenario's
//! name is the test's.

use exos_sim::prelude::*;

/// Seeds of one scenario.
fn seeds(usual: u64) -> impl Iterator<Item = Seed> {
    (0..exos_testing::cases(usual)).map(Seed)
}

/// A wire drawn from the seed: some of everything, with the given loss.
fn wire(seed: Seed, loss: f64) -> Conditions {
    let mut random = Random::new(seed, 77);
    let mut up_to = |most: u64| Duration::from_micros(random.below(most + 1));
    let (latency, jitter, reorder_by) = (up_to(50_000), up_to(10_000), up_to(30_000));
    let mut some = |probability: f64| if random.chance(0.5) { probability } else { 0.0 };
    let (reorder, duplicate, corrupt) = (some(0.1), some(0.1), some(0.05));
    let bursts = (some(1.0) > 0.0).then_some(Bursts {
        enter: 0.005,
        leave: 0.4,
        loss: 0.7,
    });
    let rate = (some(1.0) > 0.0).then(|| 1_000_000 + random.below(50_000_000));
    let queue_bytes_max = 10_000 + random.below(200_000) as usize;
    Conditions {
        latency,
        jitter,
        loss,
        bursts,
        reorder,
        reorder_by,
        duplicate,
        corrupt,
        rate,
        queue_bytes_max,
    }
}

/// What a finished run must look like, whatever happened on the wire.
fn check(sim: &Sim, expect_client: usize, expect_server: usize) {
    for (host, expected) in [(&sim.client, expect_client), (&sim.server, expect_server)] {
        for endpoint in &host.endpoints {
            assert!(endpoint.received_pattern(), "{}: wrong bytes", host.name);
            let all = endpoint.received.len() == expected;
            match endpoint.closed {
                Some(Reason::Done) => assert!(
                    all,
                    "{}: {} bytes of {expected}",
                    host.name,
                    endpoint.received.len()
                ),
                // The peer gave up, and all its resets were lost.
                None | Some(Reason::TimedOut | Reason::Reset) => {}
                other => panic!("{}: ended for {other:?}", host.name),
            }
        }
    }
}

/// Nothing more will happen: both are over, or one is and the other, with nothing to send, cannot
/// know.
fn is_over(sim: &Sim) -> bool {
    let over = |host: &Host| host.endpoints.iter().all(|e| e.closed.is_some());
    let idle = |host: &Host| {
        let waits = |n| {
            host.info(host.nth(n))
                .is_none_or(|i| i.unacknowledged == 0 && i.in_flight == 0)
        };
        (0..host.endpoints.len()).all(waits)
    };
    let (client, server) = (over(&sim.client), over(&sim.server));
    client && (server || idle(&sim.server))
        || server && idle(&sim.client) && !sim.server.endpoints.is_empty()
}

/// Fetch `bytes` over a wire with `loss`; true when all of them came.
fn fetch(seed: Seed, loss: f64, bytes: usize) -> bool {
    let mut sim = Sim::new(seed)
        .ipv6(seed.0 % 2 == 1)
        .conditions(wire(seed, loss));
    sim.server.listen(80, Plan::serve(bytes));
    let conn = sim
        .client
        .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
    // Two ends that give up one after the other: 13 retries of up to a minute each, twice.
    sim.run_until(is_over, at_most(secs(2 * 14 * 60)));
    check(&sim, bytes, 100);
    sim.client.endpoint(conn).peer_finished && sim.client.endpoint(conn).received.len() == bytes
}

fn fetch_all(default_seeds: u64, loss: f64, bytes: usize, done_at_least: f64) {
    let (mut runs, mut done) = (0, 0);
    for seed in seeds(default_seeds) {
        runs += 1;
        done += u64::from(fetch(seed, loss, bytes));
    }
    assert!(
        done as f64 >= runs as f64 * done_at_least,
        "only {done} of {runs} transfers came through"
    );
}

#[test]
fn one_percent() {
    fetch_all(1000, 0.01, 200_000, 1.0);
}

#[test]
fn three_percent() {
    fetch_all(1000, 0.03, 100_000, 1.0);
}

#[test]
fn ten_percent() {
    fetch_all(1000, 0.10, 50_000, 0.99);
}

#[test]
fn thirty_percent() {
    fetch_all(1000, 0.30, 10_000, 0.9);
}

/// Both sides send at once, in pieces of odd sizes, and read slowly: an echo of everything.
#[test]
fn echo_in_both_directions() {
    for seed in seeds(300) {
        let mut random = Random::new(seed, 78);
        let mut below = |bound| random.below(bound) as usize;
        let reading = Reading::Slowly {
            bytes: 1 + below(5000),
            every: ms(1 + below(20) as u64),
        };
        let (bytes, slice_max) = (1 + below(60_000), 1 + below(3000));
        let mut sim = Sim::new(seed)
            .ipv6(seed.0 % 2 == 1)
            .conditions(wire(seed, 0.02));
        sim.server.listen(
            80,
            Plan {
                reading,
                ..Plan::ECHO
            },
        );
        let plan = Plan {
            send: bytes,
            then: Then::Finish,
            reading,
            slice_max,
            ..Plan::MANUAL
        };
        let options = Options {
            receive_buffer_bytes: 2000 + below(80_000) as u32,
            receive_buffer_max_bytes: below(500_000) as u32,
            nagle: below(2) == 1,
            ..Options::default()
        };
        let conn = sim.client.connect_with(sim.server.addr(), plan, &options);
        sim.run_until(is_over, at_most(secs(2 * 14 * 60)));
        let echo = &sim.client.endpoint(conn).received;
        assert!(
            echo.iter()
                .enumerate()
                .all(|(offset, &byte)| byte == pattern(true, offset)),
            "wrong bytes"
        );
        assert_eq!(
            echo.len(),
            bytes,
            "{:?} {:?}",
            sim.client.closed(conn),
            sim.server.endpoints[0].closed
        );
    }
}

/// Fifteen connections each that fetch, that upload, that the server aborts, and that the client does.
fn open_many(sim: &mut Sim) {
    sim.server.listen(80, Plan::serve(20_000));
    sim.server.listen(81, Plan::LISTEN);
    let aborted = Plan {
        then: Then::Abort,
        ..Plan::serve(3000)
    };
    sim.server.listen(82, aborted);
    let to = |port| std::net::SocketAddr::new(sim.server.ip(), port);
    let (to_80, to_81, to_82) = (to(80), to(81), to(82));
    let options = Options::default();
    for _ in 0..15 {
        let aborting = Plan {
            then: Then::Abort,
            ..Plan::upload(5000)
        };
        for (to, plan) in [
            (to_80, Plan::fetch()),
            (to_81, Plan::upload(20_000)),
            (to_82, Plan::fetch()),
            (to_81, aborting),
        ] {
            sim.client.connect_with(to, plan, &options);
        }
        sim.run_for(ms(5));
    }
}

/// Many connections share the wire, each with its own ending: fetched, uploaded, aborted on either
/// side.
#[test]
fn many_connections_at_once() {
    for seed in seeds(40) {
        let mut sim = Sim::new(seed)
            .ipv6(seed.0 % 2 == 1)
            .conditions(wire(seed, 0.02));
        open_many(&mut sim);
        sim.run_for(secs(300));
        for endpoint in sim.client.endpoints.iter().chain(&sim.server.endpoints) {
            assert!(endpoint.received_pattern(), "wrong bytes");
        }
        let fetched = sim.client.endpoints.iter();
        let fetched = fetched.filter(|e| e.received.len() == 20_000).count();
        assert!(fetched >= 14, "{fetched} of 15 fetched");
        // A host whose peer's reset was lost finds out when it next says something.
        sim.link().set_conditions(Conditions::PERFECT);
        for host in [&mut sim.client, &mut sim.server] {
            for n in 0..host.endpoints.len() {
                let conn = host.nth(n);
                if host.closed(conn).is_none() {
                    host.send(conn, b"?");
                }
            }
        }
        sim.run_for(secs(200));
        for host in [&sim.client, &sim.server] {
            let tcp = &host.stack.tcp;
            let left = (tcp.connections(), tcp.time_wait_connections());
            assert_eq!(left, (0, 0), "left behind");
        }
    }
}

/// The worst wire that the simulator has: a page still arrives.
#[test]
fn the_worst_wire() {
    let mut done = 0;
    let mut runs = 0;
    for seed in seeds(100) {
        let mut sim = Sim::new(seed)
            .ipv6(seed.0 % 2 == 1)
            .conditions(Conditions::WORST);
        sim.server.listen(80, Plan::serve(30_000));
        let conn = sim
            .client
            .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
        sim.run_until(is_over, at_most(secs(2 * 14 * 60)));
        check(&sim, 30_000, 100);
        runs += 1;
        done += usize::from(sim.client.endpoint(conn).received.len() == 30_000);
    }
    assert!(
        done * 100 >= runs * 98,
        "only {done} of {runs} came through"
    );
}

/// Sequence numbers wrap in the middle of the transfer, in both directions and at every place of a
/// segment.
#[test]
fn sequence_numbers_wrap() {
    // RFC 6528: the initial number is a clock of 4 µs ticks and a hash of the ends, so that waiting
    // chooses it.
    for seed in seeds(100) {
        let bytes_before_wrap = (seed.0 * 577 % 60_000) as u32;
        let seen = std::rc::Rc::new(std::cell::RefCell::new(None));
        let look = |sim: &mut Sim| {
            let sink = seen.clone();
            sim.link().drop_if(move |_, frame| {
                if is_tcp(frame) {
                    let number = u32::from_be_bytes(frame[38..42].try_into().unwrap());
                    sink.borrow_mut().get_or_insert(number);
                }
                false
            });
        };
        let start = |wait: Duration, look: &dyn Fn(&mut Sim)| {
            let mut sim = Sim::new(seed).conditions(wire(seed, 0.02));
            sim.server.listen(80, Plan::ECHO);
            sim.run_for(wait);
            look(&mut sim);
            let conn = sim
                .client
                .connect_from(4000, sim.server.addr(), Plan::upload(60_000));
            // After a long wait the neighbour is asked for first.
            sim.run_until(|_| seen.borrow().is_some(), at_most(secs(60)));
            (sim, conn)
        };
        drop(start(Duration::ZERO, &look));
        let at_zero = seen.borrow_mut().take().unwrap();
        let ticks = u32::MAX
            .wrapping_sub(at_zero)
            .wrapping_sub(bytes_before_wrap);
        let (mut sim, conn) = start(Duration::from_micros(u64::from(ticks) * 4), &look);
        let chosen = seen.borrow_mut().take().unwrap();
        assert!(
            chosen.wrapping_add(bytes_before_wrap).wrapping_add(100) < 200,
            "{chosen} is not where it was wanted"
        );
        sim.link().drop_none();
        sim.run_until(is_over, at_most(secs(2 * 14 * 60)));
        assert_eq!(
            sim.client.endpoint(conn).received.len(),
            60_000,
            "{:?}",
            sim.client.closed(conn)
        );
    }
}

/// Stacks that leave checksums and segmentation to the link: packets of many segments, cut up and
/// then lost in part.
#[test]
fn segmentation_by_the_link() {
    let mut cut = 0;
    for seed in seeds(200) {
        let ipv6 = seed.0 % 2 == 1;
        let mut sim = Sim::new(seed)
            .ipv6(ipv6)
            .offload(seed.0 % 4 < 2)
            .conditions(wire(seed, 0.01));
        sim.server.listen(80, Plan::serve(300_000));
        let conn = sim
            .client
            .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
        sim.run_until(is_over, at_most(secs(2 * 14 * 60)));
        check(&sim, 300_000, 100);
        assert_eq!(sim.client.endpoint(conn).received.len(), 300_000);
        let given = sim.server.stack.counters().tcp_segments_sent;
        let sent = sim
            .trace()
            .lines()
            .iter()
            .filter(|l| l.contains(" len "))
            .count() as u64;
        cut += u64::from(given * 2 < sent);
    }
    assert!(cut > 20, "only {cut} transfers used large packets");
}

/// Who cuts changes all the time, as where the cheaper way is taken: what was sent one way is lost, acknowledged and sent again as
/// before.
#[test]
fn segmentation_by_the_link_and_by_the_stack_in_turns() {
    let mut sent_by = [0, 0];
    for seed in seeds(100) {
        let mut sim = Sim::new(seed)
            .offload(seed.0 % 4 < 2)
            .conditions(wire(seed, 0.01));
        sim.server.listen(80, Plan::serve(300_000));
        let to = sim.server.addr();
        let conn = sim
            .client
            .connect_with(to, Plan::fetch(), &Options::default());
        let end = sim.now() + secs(2 * 14 * 60);
        for turn in 0_u64.. {
            let whole = !(turn + seed.0).is_multiple_of(3);
            let stack = &mut sim.server.stack;
            stack.set_segmentation(whole.then_some(65_535));
            let before = stack.counters().tcp_segments_sent;
            let is_done = sim.run_until_or(is_over, at_most(ms(1 + turn % 5)));
            let sent = sim.server.stack.counters().tcp_segments_sent - before;
            sent_by[usize::from(whole)] += sent;
            if is_done {
                break;
            }
            assert!(sim.now() < end, "not done at {:?}, {seed:?}", sim.now());
        }
        check(&sim, 300_000, 100);
        assert_eq!(sim.client.endpoint(conn).received.len(), 300_000);
    }
    assert!(sent_by.iter().all(|sent| *sent > 1_000), "{sent_by:?}");
}

/// Short segments are not left to the link: gates refuse packets that are cut into so many. Losses, SACK's blocks in segments
/// and time-outs change nothing.
#[test]
fn short_segments_leave_one_by_one() {
    for seed in seeds(40) {
        // MTUs on both sides of the bound: 256 bytes of data, 40 of headers, 12 of timestamps.
        for (mtu, are_cut) in [(100, false), (296, false), (307, false), (308, true)] {
            let mut sim = Sim::new(seed)
                .mtu(mtu)
                .offload(true)
                .conditions(wire(seed, 0.01));
            sim.server.listen(80, Plan::serve(30_000));
            let to = sim.server.addr();
            sim.client
                .connect_with(to, Plan::fetch(), &Options::default());
            sim.run_until(is_over, at_most(secs(2 * 14 * 60)));
            check(&sim, 30_000, 100);
            let given = sim.server.stack.counters().tcp_segments_sent;
            let lines = sim.trace().lines();
            let sent = lines.iter().filter(|l| l.contains("server >")).count() as u64;
            // The wire duplicates some.
            let more = given + given / 10 < sent;
            assert_eq!(more, are_cut, "MTU {mtu}: {given} of {sent}, {seed:?}");
        }
    }
}
