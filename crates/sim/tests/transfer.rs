//! Data over bad wires: every byte arrives, or the connection ends with a clean error. For thousands of seeds.
//!
//! `EXOS_SEEDS=N` runs N times as many seeds as the default, for a soak by hand. Each seed is one run of one
//! scenario over one wire in one family; a failure prints the seed, and the scenario's name is the test's.

use exos_sim::prelude::*;

/// Seeds of one scenario: `default`, or more by hand.
fn seeds(default: u64) -> impl Iterator<Item = Seed> {
    let times: u64 = std::env::var("EXOS_SEEDS")
        .ok()
        .map_or(1, |n| n.parse().expect("EXOS_SEEDS is a number"));
    (0..default * times).map(Seed)
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
        leave: 0.25,
        loss: 0.8,
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
            match endpoint.closed.expect("over") {
                Reason::Done => assert_eq!(
                    endpoint.received.len(),
                    expected,
                    "{}: not all bytes",
                    host.name
                ),
                Reason::TimedOut | Reason::Reset => {}
                other => panic!("{}: ended for {other:?}", host.name),
            }
        }
    }
}

fn is_over(sim: &Sim) -> bool {
    let over = |host: &Host| {
        !host.endpoints.is_empty() && host.endpoints.iter().all(|e| e.closed.is_some())
    };
    // The server may never have heard of a client that gave up.
    over(&sim.client) && (over(&sim.server) || sim.server.endpoints.is_empty())
}

/// Fetch `bytes` over a wire with `loss`; the virtual time that took.
fn fetch(seed: Seed, loss: f64, bytes: usize) -> (Sim, bool) {
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
    let done = sim.client.closed(conn) == Some(Reason::Done);
    (sim, done)
}

fn fetch_all(default_seeds: u64, loss: f64, bytes: usize, done_at_least: f64) {
    let (mut runs, mut done) = (0, 0);
    for seed in seeds(default_seeds) {
        runs += 1;
        done += u64::from(fetch(seed, loss, bytes).1);
    }
    assert!(
        done as f64 >= runs as f64 * done_at_least,
        "only {done} of {runs} transfers came through"
    );
}

#[test]
fn one_percent() {
    fetch_all(400, 0.01, 200_000, 1.0);
}

#[test]
fn three_percent() {
    fetch_all(400, 0.03, 100_000, 1.0);
}

#[test]
fn ten_percent() {
    fetch_all(400, 0.10, 50_000, 0.99);
}

#[test]
fn thirty_percent() {
    fetch_all(400, 0.30, 10_000, 0.9);
}
