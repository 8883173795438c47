//! Each specialisation turned off: the same responses, and what it saved is spent.

use crate::common::visit;

use std::time::Duration;

use exos_cheetah::connections::Specialisation;
use visit::{Visit, big};

const CLOSE: &[u8] = b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// What came of three requests on connections of their own, and the segments that the server sent.
fn fetch(without: &[Specialisation], len: usize) -> (Vec<Vec<u8>>, u64) {
    let mut visit = Visit::new(big(len), |_| {});
    visit.do_without(without);
    for _ in 0..3 {
        visit.ask("10.0.0.1", CLOSE);
        visit.run(Duration::from_secs(1), 10_000_000);
    }
    let sides = visit.connections.into_iter();
    let received: Vec<Vec<u8>> = sides.map(|side| side.received).collect();
    assert!(
        received.iter().all(|bytes| bytes.len() > len),
        "whole responses"
    );
    (received, visit.server.counters().tcp_segments_sent)
}

#[test]
fn responses_are_the_same_without_any() {
    let all = <Specialisation as clap::ValueEnum>::value_variants();
    let (wanted, _) = fetch(&[], 100_000);
    for one in all {
        assert_eq!(fetch(&[*one], 100_000).0, wanted, "{one:?}");
    }
    assert_eq!(fetch(all, 100_000).0, wanted);
}

/// With it the SYN-ACK and one packet more answer a client; without it, the acknowledgement of the request and the FIN
/// have a packet each.
#[test]
fn without_packet_merging_control_information_has_packets_of_its_own() {
    assert_eq!(fetch(&[], 100).1, 3 * 2);
    assert_eq!(fetch(&[Specialisation::PacketMerging], 100).1, 3 * 4);
}

/// How many references there are to a document's buffer while a slow client holds its response.
fn references(without: &[Specialisation]) -> usize {
    let mut visit = Visit::new(big(1_000_000), |_| {});
    visit.do_without(without);
    let sites = visit.cheetah.server().sites();
    let entry = sites.iter().next().and_then(|site| site.find(b"/big"));
    let buffer = entry
        .and_then(|e| e.document())
        .expect("it is there")
        .buffer()
        .clone();
    let before = buffer.reference_count();
    visit.ask("10.0.0.1", CLOSE);
    visit.run(Duration::from_secs(1), 1000);
    buffer.reference_count() - before
}

#[test]
fn without_the_merged_cache_connections_have_copies() {
    assert_eq!(references(&[]), 1);
    assert_eq!(references(&[Specialisation::MergedCache]), 0);
}
