//! Replays the fuzzers' corpora, generated packets, and seeded mutations of both, with a stable
//! compiler.
//!
//! What is checked of each input stands in `fuzz/bodies/dump.rs` and `dump_quic.rs`, which the fuzz targets include
//! too. A failure names its input, so that it can be replayed alone.

#[path = "../../../../fuzz/bodies/dump.rs"]
mod bodies;
#[path = "../../../../fuzz/bodies/dump_quic.rs"]
pub mod quic_bodies;
use crate::common;

use common::packets;
use exos_testing::{Random, corpus, replay};

/// Mutations of each input.
const MUTATIONS: usize = 20;

#[test]
fn text_of_the_corpus() {
    replay(corpus("dump_text"), MUTATIONS, bodies::text);
}

#[test]
fn files_of_the_corpus() {
    replay(corpus("dump_file"), MUTATIONS, bodies::file);
}

#[test]
fn quic_of_the_corpus() {
    replay(corpus("dump_quic"), 20 * MUTATIONS, quic_bodies::quic);
}

#[test]
fn text_of_generated_packets() {
    let mut random = Random(7);
    let makers: [fn(&mut Random) -> Vec<u8>; 12] = [
        packets::plain_udp,
        packets::plain_tcp,
        packets::odd_tcp_options,
        packets::http,
        packets::arp,
        packets::icmpv4,
        packets::icmpv6,
        packets::odd_ipv4,
        packets::odd_ipv6,
        packets::other_ethertype,
        packets::stacked_tags,
        packets::dns,
    ];
    let mut inputs = Vec::new();
    for (number, make) in makers.iter().enumerate() {
        for i in 0..60 {
            let more = if random.one_in(2) { 0 } else { random.byte() };
            let input = [vec![more], make(&mut random)].concat();
            inputs.push((format!("packet {i} of kind {number}"), input));
        }
    }
    replay(inputs, MUTATIONS, bodies::text);
}
