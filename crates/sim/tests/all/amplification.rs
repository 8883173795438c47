//! What strangers can have us send to addresses that are not theirs: one SYN-ACK for one SYN, and a bounded
//! number of repetitions for the whole stack.

use crate::forge;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use exos_inet::limits::{SYN_ACK_RETRIES_MAX, SYN_ACKS_AGAIN_PER_SECOND};
use exos_sim::prelude::*;
use forge::{Overheard, host_unreachable, mend, overhear, port_unreachable, set_source, tcp_at};

/// Bytes in front of the IP header.
const ETHERNET: usize = 14;

/// A server, and the SYN of a client that is connected since.
fn world(seed: u64) -> (Sim, Overheard, Vec<u8>) {
    let mut sim = Sim::new(Seed(seed)).latency(ms(5));
    sim.server.listen(80, Plan::LISTEN);
    let heard = overhear(&mut sim);
    for last in 100..200 {
        let nobody = Ipv4Addr::new(10, 10, 0, last).into();
        let now = sim.now();
        sim.server.stack.set_neighbor(now, nobody, mac(CLIENT));
    }
    let conn = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(conn), at_most(secs(1)));
    sim.run_for(secs(1));
    let syn = heard.borrow()[0].1.clone();
    heard.borrow_mut().clear();
    (sim, heard, syn)
}

/// This SYN, as if from the `n`th of many hosts that do not exist.
fn forged(syn: &[u8], n: u32) -> Vec<u8> {
    let mut frame = syn.to_vec();
    let from = Ipv4Addr::new(10, 10, 0, 100 + (n % 100) as u8);
    set_source(&mut frame, from, 1024 + (n / 100) as u16);
    frame
}

/// The shortest SYN that there is: no options.
fn bare(syn: &[u8]) -> Vec<u8> {
    let mut frame = syn[..tcp_at(syn) + 20].to_vec();
    frame[16..18].copy_from_slice(&40u16.to_be_bytes());
    let at = tcp_at(&frame);
    frame[at + 12] = 5 << 4;
    mend(&mut frame);
    frame
}

/// Four thousand SYNs of nobody, below the backlog. In each second no more leaves than a SYN-ACK for each SYN that
/// came and the stated number of repetitions; without that limit every SYN would be answered six times.
#[test]
fn syn_acks_are_repeated_at_a_bounded_rate() {
    for seed in [1, 2] {
        let (mut sim, heard, syn) = world(seed);
        // With options, and without: then a SYN-ACK is longer than its SYN by the MSS option.
        let syn = if seed == 1 { syn } else { bare(&syn) };
        let mut came: BTreeMap<u64, u64> = BTreeMap::new();
        for n in 0..4000 {
            sim.inject(SERVER, &forged(&syn, n));
            *came.entry(sim.now().millis() / 1000).or_default() += 1;
            if n % 10 == 9 {
                sim.run_for(ms(1));
            }
        }
        let mut seconds: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for _ in 0..100 {
            let second = sim.now().millis() / 1000;
            let until = Instant::from_millis((second + 1) * 1000);
            let rest = until - sim.now();
            sim.run_for(rest.saturating_sub(Duration::from_micros(1)));
            let frames: Vec<_> = heard.borrow_mut().drain(..).collect();
            let sent = frames.iter().filter(|(from, _)| *from == SERVER);
            let sizes = sent.map(|(_, frame)| frame.len() - ETHERNET);
            seconds.entry(second).or_default().extend(sizes);
            sim.run_for(Duration::from_micros(1));
        }
        let limit = u64::from(SYN_ACKS_AGAIN_PER_SECOND);
        let mut total = 0;
        for (second, sizes) in &seconds {
            let came = came.get(second).copied().unwrap_or(0);
            let left = sizes.len() as u64;
            assert!(
                left <= came + limit,
                "{left} left in second {second}, {came} came"
            );
            total += sizes.iter().sum::<usize>() as u64;
        }
        // In all: what came, a SYN-ACK for each, and the repetitions of the seconds that had some.
        let syn_ack = seconds.values().flatten().max().copied().unwrap() as u64;
        let busy = seconds.values().filter(|s| !s.is_empty()).count() as u64;
        assert!(total <= 4000 * syn_ack + busy * limit * syn_ack);
        assert!(syn_ack <= (syn.len() - ETHERNET) as u64 + 4);
        let counters = sim.server.stack.counters();
        assert!(counters.drop_tcp_syn_ack_rate_limited > 4000);
        assert!(counters.tcp_timeouts >= 4000 * u64::from(SYN_ACK_RETRIES_MAX));
        assert_eq!(sim.server.stack.tcp.connections(), 1, "only the honest one");
    }
}

/// Where all repetitions are used up by others, a client whose SYN-ACK was lost connects by its second SYN.
#[test]
fn an_honest_client_needs_no_repetition() {
    let (mut sim, _heard, syn) = world(3);
    for n in 0..3000 {
        sim.inject(SERVER, &forged(&syn, n));
    }
    sim.run_for(ms(1));
    sim.link().drop_next_from(SERVER, 1);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(conn), at_most(ms(1100)));
    assert!(sim.server.stack.counters().drop_tcp_syn_ack_rate_limited > 1000);
}

/// A host that is told by ICMP that nobody is there, or by a reset that nobody asked, says no more.
#[test]
fn what_is_unwanted_is_not_repeated() {
    type Answer = fn(&[u8]) -> Vec<u8>;
    let answers: [Answer; 3] = [port_unreachable, host_unreachable, |syn_ack| {
        // The reset of RFC 9293 §3.10.7.1, from the one whose address was forged.
        let mut frame = syn_ack.to_vec();
        let at = tcp_at(&frame);
        frame.truncate(at + 20);
        frame[16..18].copy_from_slice(&40u16.to_be_bytes());
        frame[..12].rotate_left(6);
        frame[26..34].rotate_left(4);
        frame[at..at + 4].rotate_left(2);
        let ack: [u8; 4] = frame[at + 8..at + 12].try_into().unwrap();
        frame[at + 4..at + 8].copy_from_slice(&ack);
        frame[at + 8..at + 12].fill(0);
        (frame[at + 12], frame[at + 13]) = (5 << 4, 4);
        let address: [u8; 4] = frame[26..30].try_into().unwrap();
        let port = u16::from_be_bytes([frame[at], frame[at + 1]]);
        set_source(&mut frame, address.into(), port);
        frame
    }];
    for answer in answers {
        let (mut sim, heard, syn) = world(4);
        sim.inject(SERVER, &forged(&syn, 7));
        sim.run_for(ms(1));
        let syn_ack = heard.borrow()[0].1.clone();
        sim.inject(SERVER, &answer(&syn_ack));
        sim.run_for(secs(100));
        assert_eq!(heard.borrow().len(), 1, "one SYN-ACK for one SYN");
        assert_eq!(sim.server.stack.tcp.connections(), 1);
        // A peer that asks again is answered, once for each SYN.
        sim.inject(SERVER, &forged(&syn, 7));
        sim.run_for(ms(1));
        assert_eq!(heard.borrow().len(), 2);
    }
}
