//! Loads of a server that writes its own segments, over our stack, in virtual time: wrong checksums, handshakes that never end,
//! resets where they belong and elsewhere, silence. Nothing is left to chance or to the machine, so that every count and
//! every distribution is predicted exactly, and held against the peer's own counts.

#[path = "../../../../../fuzz/bodies/frames.rs"]
mod frames;

mod cases;
mod peer;
mod rates;
mod stalls;
mod world;

use std::time::Duration;

use exos_webswamp::schedule::Arrivals;
use exos_webswamp::statistics::ErrorKind;
use hdrhistogram::Histogram;

use cases::{CASES, Case, TIMEOUT};
use world::{LATENCY, Load, Seen, Setting, run};

const CLOSED: Load = Load::Closed {
    clients: 3,
    requests: 12,
};

/// Twelve requests, 100 ms apart.
const OPEN: Load = Load::Open {
    rate: 10.0,
    time: Duration::from_millis(1200),
    connections: 100,
    arrivals: Arrivals::Even,
};

const REQUESTS: u64 = 12;

/// This many, all of them so long, as histograms tell times apart.
fn is_all(histogram: &Histogram<u64>, count: u64, millis: u64) -> bool {
    let alike = histogram.count_at(millis * 1000);
    alike == count && histogram.len() == count
}

fn counter(seen: &Seen, name: &str) -> u64 {
    let all = seen.counters.list();
    let found = all.iter().find(|(its, _)| *its == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

fn check(case: &Case, load: &Load) {
    let name = format!("{}, {load:?}", case.name);
    let setting = Setting {
        load: load.clone(),
        requests_per_connection: 1,
        timeout: TIMEOUT,
        latency: LATENCY,
        think: Duration::ZERO,
    };
    let seen = run(&setting, case.script);
    let errors: Vec<(ErrorKind, u64)> = seen.statistics.errors.list().collect();
    let wanted: Vec<(ErrorKind, u64)> = case.error.iter().map(|kind| (*kind, REQUESTS)).collect();
    assert_eq!(errors, wanted, "{name}");
    check_times(case, &seen, &name);
    check_counts(case, &seen, &name);
}

fn check_times(case: &Case, seen: &Seen, name: &str) {
    let it = &seen.statistics;
    let answered = if case.error.is_none() { REQUESTS } else { 0 };
    let connected = if case.connect_millis.is_some() {
        REQUESTS
    } else {
        0
    };
    assert_eq!(
        (it.responses, it.connections),
        (answered, connected),
        "{name}"
    );
    let connect = case.connect_millis.unwrap_or(0);
    for (what, histogram, count, millis) in [
        ("connect", &it.connect, connected, connect),
        ("first byte", &it.first, answered, case.first_millis),
        ("service", &it.service, answered, case.last_millis),
        ("total", &it.total, answered, case.last_millis),
    ] {
        let found: Vec<_> = histogram
            .iter_recorded()
            .map(|at| (at.value_iterated_to(), at.count_at_value()))
            .collect();
        assert!(
            is_all(histogram, count, millis),
            "{name}: {what}: {found:?}"
        );
    }
    assert_eq!(it.content, 5 * answered, "{name}");
    assert!(answered == 0 || it.bytes > it.content, "{name}");
}

/// What our stack counted is what the case says, and what the peer did.
fn check_counts(case: &Case, seen: &Seen, name: &str) {
    for (counter_name, each) in case.counters {
        assert_eq!(
            counter(seen, counter_name),
            each * REQUESTS,
            "{name}: {counter_name}"
        );
    }
    if let Some(each) = case.sent_again {
        assert_eq!(
            seen.counters.tcp_segments_retransmitted,
            each * REQUESTS,
            "{name}"
        );
    }
    let peer = &seen.peer;
    assert_eq!(
        seen.counters.tcp_segments_sent, peer.heard,
        "{name}: segments sent"
    );
    assert_eq!(
        seen.counters.tcp_segments_retransmitted, peer.heard_again,
        "{name}: sent again"
    );
    assert_eq!(
        seen.counters.tcp_window_probes, peer.probes,
        "{name}: probes"
    );
    let lost = seen.counters.drop_ipv4_checksum + seen.counters.drop_tcp_checksum;
    assert_eq!(
        seen.counters.tcp_segments_received,
        peer.said - lost,
        "{name}: received"
    );
}

#[test]
fn faults_in_a_closed_loop() {
    CASES.iter().for_each(|case| check(case, &CLOSED));
}

#[test]
fn faults_in_an_open_loop() {
    CASES.iter().for_each(|case| check(case, &OPEN));
}
