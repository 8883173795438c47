//! The forwarder, packet by packet: which flow, which way, what is noted, and what is refused.

mod changes;
use crate::common;
mod day;
mod failover;
mod forged;
mod hops;
mod life;
mod links;
mod reaches;
mod resting;
mod tunnels;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use common::receive;
use common::steps::*;
use exos_forward::flow::Class;
use exos_forward::forwarder::{Forwarder, Verdict};
use exos_forward::limits::{
    CHECK_PORTS, CLOSING_TIME, ESTABLISHED_TIME, EVICTABLE_AFTER, OPENING_TIME, READ_AHEAD_FROM,
};
use exos_forward::packets::packet::{Packet, Transport};
use exos_forward::packets::reach::Reach;
use exos_forward::service::{Affinity, Listen, Services, Standing};
use exos_inet::RxChecksum;

#[test]
fn both_ways_over_both_families() {
    for (client, vip, server) in [(CLIENT, VIP, SERVER), (CLIENT6, VIP6, SERVER6)] {
        let mut forwarder = forwarder(100);
        let syn = give(&mut forwarder, START, tcp(at(client), at(vip), SYN, 0)).unwrap();
        let ours = SocketAddr::new(at(vip).ip(), 40_000);
        assert_eq!(ends_of(&syn), (ours, at(server)), "the client's own port");
        let answer = tcp(at(server), ours, SYN | ACK, 101);
        let answer = give(&mut forwarder, START, answer).unwrap();
        assert_eq!(ends_of(&answer), (at(vip), at(client)));
        assert!(receive(&syn) && receive(&answer));
        let datagram = give(&mut forwarder, START, udp(client, at(vip), vec![1, 2])).unwrap();
        assert_eq!(
            ends_of(&datagram),
            (ours, at(server)),
            "ports of UDP are others"
        );
        let counters = forwarder.counters();
        assert_eq!(
            (counters.forwarded_to_servers, counters.forwarded_to_clients),
            (2, 1)
        );
        assert_eq!(counters.flows_begun, 2);
    }
}

/// What belongs to no flow is left for the stack, as it was.
#[test]
fn what_is_nobody_s_is_the_stack_s() {
    let mut forwarder = forwarder(100);
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    let cases = [
        ("no flow", tcp(at("10.0.0.3:1"), at(VIP), ACK, 1)),
        (
            "a reset begins none",
            tcp(at("10.0.0.3:1"), at(VIP), SYN | RST, 0),
        ),
        (
            "nor a SYN with a FIN",
            tcp(at("10.0.0.3:1"), at(VIP), SYN | FIN, 0),
        ),
        (
            "another port of ours",
            tcp(at(CLIENT), at("10.0.0.20:81"), SYN, 0),
        ),
        (
            "another host's packet to a port of ours",
            tcp(at("10.0.0.12:8080"), ours, ACK, 1),
        ),
        (
            "another port of the server's",
            tcp(at("10.0.0.11:8081"), ours, ACK, 1),
        ),
        (
            "a port that no flow has",
            tcp(at(SERVER), at("10.0.0.20:40001"), ACK, 1),
        ),
    ];
    for (name, frame) in cases {
        assert_eq!(
            give(&mut forwarder, START, frame),
            Err(Verdict::Stack),
            "{name}"
        );
    }
    let mut other = tcp(at(CLIENT), at(VIP), ACK, 1);
    other[0..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    let mut said = forwarder.handle_frame(START, &mut other, RxChecksum::Unknown);
    assert_eq!(said, Verdict::Stack, "another host's frame");
    let mut damaged = tcp(at(CLIENT), at(VIP), ACK, 1);
    damaged[14 + 10] ^= 1;
    said = forwarder.handle_frame(START, &mut damaged, RxChecksum::Unknown);
    assert_eq!(said, Verdict::Stack, "a header's checksum that is wrong");
    assert_eq!(forwarder.counters().unknown_flow, 4);
}

/// A packet of IPv6 with IPv4-mapped addresses is none of a flow of IPv4.
#[test]
fn families_are_not_mixed() {
    let mut forwarder = forwarder(100);
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    let mapped = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    };
    for (src, dst) in [(at(CLIENT), at(VIP)), (at(SERVER), ours)] {
        let frame = tcp(mapped(src), mapped(dst), ACK, 1);
        assert_eq!(give(&mut forwarder, START, frame), Err(Verdict::Stack));
    }
}

/// A flood of SYNs from addresses of others takes its part of the table, and no connection.
#[test]
fn a_flood_of_syns_spares_who_is_there() {
    let mut forwarder = forwarder(1000);
    let mut open_ones = Vec::new();
    for n in 0..500 {
        let from = client(n);
        open_ones.push((from, open(&mut forwarder, START, from, VIP)));
    }
    for n in 0..200_000 {
        let frame = tcp(client(1_000_000 + n), at(VIP), SYN, 0);
        give(&mut forwarder, START, frame).expect("a server answers with cookies if need be");
    }
    assert_eq!(forwarder.flows().count(Class::Opening), 250, "a quarter");
    assert_eq!(forwarder.flows().count(Class::Established), 500);
    for (from, ours) in open_ones {
        let frame = give(&mut forwarder, START, tcp(at(SERVER), ours, ACK, 1)).unwrap();
        assert_eq!(ends_of(&frame), (at(VIP), from));
    }
    // Anyone who answers in time gets in meanwhile.
    open(&mut forwarder, START, at(CLIENT), VIP);
    assert_eq!(forwarder.flows().count(Class::Established), 501);
}

/// An acknowledgement that acknowledges nothing of the server's does not make a connection.
#[test]
fn who_has_not_seen_the_server_s_answer_is_not_established() {
    let mut forwarder = forwarder(100);
    let syn = give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    let (ours, server) = ends_of(&syn);
    give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), ACK, 1)).unwrap();
    give(&mut forwarder, START, tcp(server, ours, SYN | ACK, 101)).unwrap();
    for wrong in [0, ISN, ISN - 1, ISN.wrapping_add(1 << 21)] {
        give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), ACK, wrong)).unwrap();
        assert_eq!(forwarder.flows().count(Class::Opening), 1, "{wrong}");
    }
    give(
        &mut forwarder,
        START,
        tcp(at(CLIENT), at(VIP), ACK, ISN + 1),
    )
    .unwrap();
    assert_eq!(forwarder.flows().count(Class::Established), 1);
}

/// The table full of connections that were seen lately takes no other; of those silent for long, the one silent for
/// longest makes room.
#[test]
fn a_full_table_refuses_or_gives_up_who_is_silent() {
    let mut forwarder = forwarder(4);
    let first = open(&mut forwarder, START, client(0), VIP);
    let mut now = START + Duration::from_secs(1);
    for n in 1..4 {
        open(&mut forwarder, now, client(n), VIP);
    }
    let syn = || tcp(at(CLIENT), at(VIP), SYN, 0);
    assert_eq!(give(&mut forwarder, now, syn()), Err(Verdict::Drop));
    assert_eq!(forwarder.counters().drop_table_full, 1);
    // The first one says something again, so the second is the one silent for longest.
    now = START + EVICTABLE_AFTER;
    give(&mut forwarder, now, tcp(at(SERVER), first, ACK, 1)).unwrap();
    now += Duration::from_secs(1);
    give(&mut forwarder, now, syn()).unwrap();
    assert_eq!(forwarder.counters().flows_evicted, 1);
    assert!(give(&mut forwarder, now, tcp(client(0), at(VIP), ACK, 1)).is_ok());
    assert!(give(&mut forwarder, now, tcp(client(1), at(VIP), ACK, 1)).is_err());
}

/// All ports towards a server in use: what is over makes room, what is not does not.
#[test]
fn ports_run_out_and_come_back() {
    let mut forwarder = forwarder(200_000);
    let ports = 64_512 - CHECK_PORTS.len() as u32;
    for n in 0..ports {
        open(&mut forwarder, START, client(n), VIP);
    }
    let syn = || tcp(at(CLIENT), at(VIP), SYN, 0);
    assert_eq!(give(&mut forwarder, START, syn()), Err(Verdict::Drop));
    assert_eq!(forwarder.counters().drop_no_port, 1);
    // A tenth of all is reset.
    for n in (0..ports).step_by(10) {
        give(&mut forwarder, START, tcp(client(n), at(VIP), RST, 0)).unwrap();
    }
    open(&mut forwarder, START, at(CLIENT), VIP);
    assert_eq!(forwarder.counters().flows_replaced, 1);
}

#[test]
fn flows_end_by_their_age() {
    let mut forwarder = forwarder(100);
    give(&mut forwarder, START, tcp(client(1), at(VIP), SYN, 0)).unwrap();
    let ours = open(&mut forwarder, START, client(2), VIP);
    for (src, dst) in [(client(2), at(VIP)), (at(SERVER), ours)] {
        give(&mut forwarder, START, tcp(src, dst, FIN | ACK, ISN + 1)).unwrap();
    }
    open(&mut forwarder, START, client(3), VIP);
    let mut left = |after: Duration| {
        forwarder.handle_timeout(START + after + Duration::from_secs(2));
        forwarder.flows().len()
    };
    assert_eq!(left(OPENING_TIME.min(CLOSING_TIME) / 2), 3);
    assert_eq!(left(OPENING_TIME.max(CLOSING_TIME)), 1);
    assert_eq!(left(ESTABLISHED_TIME), 0);
    assert_eq!(forwarder.counters().flows_expired, 3);
    let server = &forwarder.services().servers[0];
    assert_eq!(server.ports.taken(), 0, "ports are given back");
}

/// A client that uses its port again gets the same port of ours: the server sees what the client means.
#[test]
fn a_port_that_is_used_again() {
    let mut forwarder = forwarder(100);
    let before = open(&mut forwarder, START, at(CLIENT), VIP);
    for (src, dst) in [(at(CLIENT), at(VIP)), (at(SERVER), before)] {
        give(&mut forwarder, START, tcp(src, dst, FIN | ACK, ISN + 1)).unwrap();
    }
    assert_eq!(forwarder.flows().count(Class::Closing), 1);
    assert_eq!(open(&mut forwarder, START, at(CLIENT), VIP), before);
    assert_eq!(forwarder.counters().flows_begun, 1);
    assert_eq!(forwarder.flows().count(Class::Established), 1);
}

/// Of many clients each server gets its share, and each client always the same server.
#[test]
fn clients_are_spread_by_weight() {
    let servers = ["10.0.0.11:80", "10.0.0.12:80", "10.0.0.13:80"];
    let to = [1, 2, 0].iter().zip(servers);
    let listen = Listen {
        transport: Transport::Tcp,
        at: at(VIP),
        reach: Reach::Nat,
        to: to.map(|(w, s)| (at(s), *w, at(VIP).ip())).collect(),
    };
    let run = |seed| {
        let services = Services::new(std::slice::from_ref(&listen)).unwrap();
        let mut forwarder = Forwarder::new(services, MAC, 10_000, seed);
        let choose = |n| {
            let syn = tcp(client(n), at(VIP), SYN, 0);
            ends_of(&give(&mut forwarder, START, syn).unwrap()).1
        };
        (0..2400).map(choose).collect::<Vec<SocketAddr>>()
    };
    let chosen = run(1);
    let count = |server: &str| chosen.iter().filter(|&&s| s == at(server)).count();
    let [first, second, third] = servers.map(count);
    assert!((700..900).contains(&first), "{first} of 800");
    assert_eq!((first + second, third), (2400, 0));
    assert_eq!(chosen, run(2), "another forwarder chooses alike");
}

/// Frames of a batch are read ahead from this many flows on that the caches do not hold them.
#[test]
fn large_tables_are_read_ahead() {
    let mut forwarder = forwarder(1 << 14);
    for n in 0..READ_AHEAD_FROM {
        assert!(!forwarder.reads_ahead(), "with {n} flows");
        open(&mut forwarder, START, client(n), VIP);
    }
    assert!(forwarder.reads_ahead());
}

/// What a frame was found to be holds for that frame alone: not for one that takes its place in memory after the batch, nor for
/// one that was not shown.
#[test]
fn what_was_shown_is_forgotten_with_its_batch() {
    let mut forwarder = forwarder(100);
    let ours = [0, 1].map(|n| open(&mut forwarder, START, client(n), VIP));
    let segment = |n: usize| tcp(at(SERVER), ours[n], ACK, 101);
    let mut place = segment(0);
    let mut elsewhere = segment(1);
    forwarder.look(&place);
    forwarder.read_ahead(START);
    // One that was not shown comes first, at another place, and the batch ends before the one that was.
    let goes_to = |forwarder: &mut Forwarder, frame: &mut Vec<u8>| {
        let verdict = forwarder.handle_frame(START, frame, RxChecksum::Unknown);
        assert!(matches!(verdict, Verdict::Onward(_)), "{verdict:?}");
        ends_of(frame).1
    };
    assert_eq!(goes_to(&mut forwarder, &mut elsewhere), client(1));
    forwarder.read_ahead(START);
    place.copy_from_slice(&segment(1));
    assert_eq!(goes_to(&mut forwarder, &mut place), client(1));
}

/// With affinity by client all connections of a client go to one server, by whichever listener, at whichever port servers have
/// it, and clients are spread evenly.
#[test]
fn a_client_keeps_its_server() {
    let servers = ["10.0.0.11", "10.0.0.12", "10.0.0.13"];
    let listen = |port: u16| Listen {
        transport: Transport::Tcp,
        at: SocketAddr::new(at(VIP).ip(), port),
        reach: Reach::Nat,
        to: servers
            .map(|s| {
                let server = SocketAddr::new(s.parse().unwrap(), 8000 + port);
                (server, 1, at(VIP).ip())
            })
            .to_vec(),
    };
    let services = Services::new(&[listen(80), listen(81)]).unwrap();
    let mut forwarder = Forwarder::new(services, common::steps::MAC, 100_000, 1);
    for affinity in [Affinity::Client, Affinity::Connection] {
        let services = forwarder.services_mut();
        services.set_affinity(affinity);
        while !services.build(usize::MAX) {}
        let mut clients_of = BTreeMap::new();
        for host in 0..150u8 {
            let mut its = BTreeSet::new();
            for port in 0..20u16 {
                let client = SocketAddr::from(([10, 9, 8, host], 2000 + port));
                let vip = SocketAddr::new(at(VIP).ip(), 80 + port % 2);
                let syn = give(&mut forwarder, START, tcp(client, vip, SYN, 0)).unwrap();
                its.insert(ends_of(&syn).1.ip());
                give(&mut forwarder, START, tcp(client, vip, RST, 0)).unwrap();
            }
            for server in &its {
                *clients_of.entry(*server).or_insert(0) += 1;
            }
            assert_eq!(its.len() == 1, affinity == Affinity::Client, "{its:?}");
        }
        assert!(clients_of.values().all(|n| *n >= 30), "{clients_of:?}");
        // What is remembered would go where it went.
        forwarder.handle_timeout(START + CLOSING_TIME + secs(3));
        while !forwarder.flows().is_empty() {
            forwarder.handle_timeout(START + CLOSING_TIME + secs(3));
        }
    }
}
