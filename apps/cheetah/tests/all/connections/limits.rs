//! Limits of clients: how many connections a peer has, how fast it reads, how fast it asks.

use crate::common::visit;

use std::time::Duration;

use exos_cheetah::connections::Bounds;
use visit::{Visit, big};

const LEN: usize = 3_000_000;
const GET: &[u8] = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n";

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn visit(bounds: Bounds) -> Visit {
    let mut visit = Visit::new(big(LEN), |_| {});
    visit.cheetah.set_bounds(bounds);
    visit
}

fn counter(visit: &Visit, name: &str) -> u64 {
    let counters = visit.cheetah.counters();
    let found = counters.iter().find(|(counter, _)| *counter == name);
    found.expect("a counter of that name").1
}

#[test]
fn a_peer_has_so_many_connections_and_others_theirs() {
    let mut visit = visit(Bounds {
        peer_connections: Some(3),
        ..Bounds::default()
    });
    // Two addresses of one network of 64 bits are one peer.
    for from in [
        "10.0.0.1",
        "10.0.0.1",
        "10.0.0.1",
        "10.0.0.1",
        "10.0.0.3",
        "fd00::1",
        "fd00::1:1",
        "fd00::1",
        "fd00::1:1",
        "fd00:1::1",
    ] {
        visit.ask(from, b"");
        visit.run(Duration::from_millis(50), 0);
    }
    let is_over: Vec<bool> = visit
        .connections
        .iter()
        .map(|side| side.over.is_some())
        .collect();
    let wanted = [
        false, false, false, true, false, false, false, false, true, false,
    ];
    assert_eq!(is_over, wanted);
    assert_eq!(counter(&visit, "http_peer_refusals"), 2);
    assert_eq!(visit.cheetah.connections(), 8);
    // One of them goes, another may come.
    visit.give_up(0);
    visit.run(Duration::from_millis(50), 0);
    let place = visit.ask("10.0.0.1", GET);
    visit.run(secs(3), LEN);
    assert!(visit.connections[place].received.len() > LEN);
    assert_eq!(counter(&visit, "http_peer_refusals"), 2);
}

/// A thousand connections of one peer cost what the limit allows, and another is served beside them.
#[test]
fn many_connections_of_one_peer_leave_room_for_others() {
    let mut visit = visit(Bounds {
        peer_connections: Some(16),
        ..Bounds::default()
    });
    for _ in 0..1000 {
        visit.ask("10.0.0.1", b"GET /");
    }
    let other = visit.ask("10.0.0.3", GET);
    visit.run(secs(5), LEN);
    assert!(visit.connections[other].received.len() > LEN);
    assert_eq!(visit.cheetah.connections(), 17);
    assert_eq!(counter(&visit, "http_peer_refusals"), 984);
}

#[test]
fn readers_that_are_too_slow_are_reset_and_others_are_not() {
    let mut visit = visit(Bounds {
        read_rate: Some(20_000),
        ..Bounds::default()
    });
    visit.ask("10.0.0.1", GET);
    visit.run(secs(40), 10_000);
    let slow = &visit.connections[0];
    assert!(slow.over.is_some(), "{} bytes read", slow.received.len());
    assert_eq!(counter(&visit, "http_slow_readers"), 1);
    visit.ask("10.0.0.3", GET);
    visit.run(secs(60), 60_000);
    let enough = &visit.connections[1];
    assert!(
        enough.over.is_none() && enough.received.len() > LEN,
        "{}",
        enough.received.len()
    );
    assert_eq!(counter(&visit, "http_slow_readers"), 1);
}

/// An idle client takes nothing, and nothing is asked of it.
#[test]
fn time_between_requests_does_not_count() {
    let mut visit = visit(Bounds {
        read_rate: Some(20_000),
        ..Bounds::default()
    });
    let place = visit.ask("10.0.0.1", GET);
    visit.run(secs(50), 200_000);
    assert!(visit.connections[place].received.len() > LEN);
    visit.say(place, GET);
    visit.run(secs(40), 200_000);
    assert!(visit.connections[place].received.len() > 2 * LEN);
    assert_eq!(counter(&visit, "http_slow_readers"), 0);
}

/// A head that comes a byte a second is cut off after some seconds, one that comes fast enough is answered.
#[test]
fn heads_that_come_too_slowly_are_cut_off() {
    let mut visit = visit(Bounds {
        head_rate: Some(100),
        ..Bounds::default()
    });
    let slow = visit.ask("10.0.0.1", b"G");
    let steady = visit.ask("10.0.0.3", b"GET /none HTTP/1.1\r\nHost: a\r\nX: ");
    for _ in 0..9 {
        visit.say(slow, b"E");
        visit.say(steady, &[b'x'; 120]);
        visit.run(secs(1), LEN);
    }
    visit.say(steady, b"\r\n\r\n");
    visit.run(secs(1), LEN);
    let starts = |place: usize, with: &[u8]| visit.connections[place].received.starts_with(with);
    assert!(starts(slow, b"HTTP/1.1 408 "));
    assert!(starts(steady, b"HTTP/1.1 404 "));
    assert_eq!(counter(&visit, "http_slow_heads"), 1);
    assert_eq!(counter(&visit, "http_request_timeouts"), 0);
}

/// Connections in all: further SYNs are not answered, and get through when there is room.
#[test]
fn connections_in_all_are_bounded_at_their_first_packet() {
    let mut visit = visit(Bounds::default());
    visit.server.tcp.set_connections_max(2);
    for from in ["10.0.0.1", "fd00::1", "10.0.0.3"] {
        visit.ask(from, GET);
    }
    visit.run(Duration::from_millis(500), 0);
    assert_eq!(visit.cheetah.connections(), 2);
    assert!(visit.connections[2].over.is_none(), "it goes on trying");
    assert!(visit.server.counters().drop_tcp_connections_full > 0);
    visit.give_up(0);
    visit.run(secs(8), LEN);
    assert!(visit.connections[2].received.len() > LEN);
}
