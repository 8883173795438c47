//! Replays the fuzzer's corpus, conversations of all kinds, and seeded mutations of both, with a stable compiler.
//!
//! What is checked of each input stands in `fuzz/bodies/forward.rs`, which the fuzz target includes too. A failure names its
//! input, so that it can be replayed alone.

#[path = "../../../../fuzz/bodies/forward.rs"]
mod bodies;
use crate::common;

use std::net::SocketAddr;

use common::steps::*;
use exos_testing::{Random, corpus, replay};

/// Mutations of each input.
const MUTATIONS: usize = 200;

#[test]
fn frames_of_the_corpus() {
    replay(corpus("forward_frames"), MUTATIONS, bodies::frames);
}

#[test]
fn conversations() {
    let inputs = (0..40).map(|seed| (format!("conversation {seed}"), conversation(seed)));
    replay(inputs.collect(), MUTATIONS, bodies::frames);
}

/// Some clients and the servers, over both families, with segments of any kind in any order.
fn conversation(seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut input = Vec::new();
    for _ in 0..40 {
        let ipv6 = random.one_in(3);
        let (client, vip, server) = match ipv6 {
            true => (CLIENT6, VIP6, SERVER6),
            false => (CLIENT, VIP, SERVER),
        };
        let client = SocketAddr::new(at(client).ip(), 40_000 + random.below(12) as u16);
        // Servers know clients by their own ports, as long as these are free, at their own addresses or at ours.
        let ours = random.pick(&[SocketAddr::new(at(vip).ip(), client.port()), client]);
        let flags = random.pick(&[SYN, ACK, ACK, FIN | ACK, RST, SYN | ACK]);
        let ack = random.pick(&[0, ISN + 1, ISN + 100]);
        let frame = match random.below(5) {
            0 => udp(&client.to_string(), at(vip), random.bytes(20)),
            1 => udp(server, ours, random.bytes(21)),
            2 => tcp(at(server), ours, flags, ack),
            _ => tcp(client, at(vip), flags, ack),
        };
        input.push(random.pick(&[0, 0, 0, 1, 30, 70]));
        input.extend((frame.len() as u16).to_be_bytes());
        input.extend(frame);
    }
    input
}
