//! Pings, UDP, fragments and ICMP errors between two stacks.

use exos_buf::{Buffer, Slice};
use exos_inet::icmp::{ErrorKind, Reason as Why};
use exos_sim::prelude::*;
use std::net::SocketAddr;

fn slice(len: usize) -> Slice {
    Buffer::from((0..len).map(|o| pattern(true, o)).collect::<Vec<_>>()).slice(0..len)
}

fn sim(ipv6: bool) -> Sim {
    Sim::new(Seed(7)).ipv6(ipv6).latency(ms(10))
}

#[test]
fn ping() {
    for (ipv6, icmp) in [(false, "icmp"), (true, "icmp6")] {
        let mut sim = sim(ipv6);
        let to = sim.server.ip();
        sim.client.ping(to, 1, &[0; 56]);
        sim.run_for(secs(1));
        sim.expect_trace(&format!(
            "
            0.000  client > server  {icmp} echo request id 7 seq 1 len 56
            0.010  server > client  {icmp} echo reply id 7 seq 1 len 56
            "
        ));
        let reply = sim.client.echo_replies[0];
        assert_eq!((reply.from, reply.ident, reply.seq), (to, 7, 1));
    }
}

/// Larger than the MTU: fragments there, fragments back (RFC 791 §3.2, RFC 8200 §4.5).
#[test]
fn a_large_ping_is_fragmented_and_answered() {
    let mut sim = sim(false);
    let to = sim.server.ip();
    sim.client.ping(to, 1, &[7; 4000]);
    sim.run_for(secs(1));
    sim.expect_trace(
        "
        0.000  client > server  fragment protocol 1 offset 0 len 1480 more
        0.000  client > server  fragment protocol 1 offset 1480 len 1480 more
        0.000  client > server  fragment protocol 1 offset 2960 len 1048
        0.010  server > client  fragment protocol 1 offset 0 len 1480 more
        0.010  server > client  fragment protocol 1 offset 1480 len 1480 more
        0.010  server > client  fragment protocol 1 offset 2960 len 1048
        ",
    );
    assert_eq!(sim.client.echo_replies.len(), 1);
}

/// A fragment of IPv6 has 8 bytes less room than one of IPv4 with its header 20 bytes shorter.
#[test]
fn a_large_ping_over_ipv6() {
    let mut sim = sim(true);
    let to = sim.server.ip();
    sim.client.ping(to, 1, &[7; 2000]);
    sim.run_for(secs(1));
    sim.expect_trace(
        "
        0.000  client > server  fragment protocol 58 offset 0 len 1448 more
        0.000  client > server  fragment protocol 58 offset 1448 len 560
        0.010  server > client  fragment protocol 58 offset 0 len 1448 more
        0.010  server > client  fragment protocol 58 offset 1448 len 560
        ",
    );
    assert_eq!(sim.client.echo_replies.len(), 1);
}

/// Datagrams of every size around the MTU and up to the largest, in both families.
#[test]
fn udp_of_every_size() {
    for (ipv6, mtu, largest) in [
        (false, 1500, 65_507),
        (true, 1500, 65_527),
        (false, 576, 60_000),
        (true, 1280, 65_527),
    ] {
        let mut sim = sim(ipv6).mtu(mtu);
        let server = sim.server.stack.udp.bind(None, 53).unwrap();
        let client = sim.client.stack.udp.bind(None, 0).unwrap();
        let to = SocketAddr::new(sim.server.ip(), 53);
        let headers = if ipv6 { 48 } else { 28 };
        for len in [
            0,
            1,
            mtu - headers - 1,
            mtu - headers,
            mtu - headers + 1,
            2 * mtu,
            9_999,
            largest,
        ] {
            let now = sim.now();
            sim.client
                .stack
                .udp_send(now, client, None, to, slice(len))
                .unwrap();
            sim.run_for(ms(100));
            let received = sim.server.stack.udp.receive(server).unwrap();
            let received =
                received.unwrap_or_else(|| panic!("{len} bytes over MTU {mtu} did not arrive"));
            assert_eq!(received.payload, slice(len).as_bytes());
            assert_eq!(received.from.ip(), sim.client.ip());
        }
    }
}

/// RFC 1122 §3.3.2, RFC 4443 §3.3: a fragment is missing; after its time the sender is told.
#[test]
fn reassembly_gives_up_and_says_so() {
    for (ipv6, wait, icmp) in [(false, 30, "icmp"), (true, 60, "icmp6")] {
        let mut sim = sim(ipv6);
        let to = sim.server.ip();
        sim.client.ping(to, 1, &[7; 2000]);
        let mut count = 0;
        sim.link().drop_if(move |_, _| {
            count += 1;
            count == 2
        });
        sim.run_for(secs(wait + 1));
        sim.trace().set_style(Style {
            hide_neighbors: true,
            ..Style::default()
        });
        let last = sim.trace().lines().pop().unwrap();
        assert!(
            last.ends_with(&format!(
                "server > client    {icmp} reassembly time exceeded"
            )),
            "{last}"
        );
        assert_eq!(sim.server.stack.counters().drop_fragment, 1);
        assert_eq!(sim.client.stack.counters().icmp_errors_received, 1);
    }
}

/// Nobody has the port: the sender's socket is told (RFC 1122 §4.1.3.1, §4.1.3.3).
#[test]
fn port_unreachable_reaches_the_sender() {
    for (ipv6, icmp) in [(false, "icmp"), (true, "icmp6")] {
        let mut sim = sim(ipv6);
        let client = sim.client.stack.udp.bind(None, 4000).unwrap();
        let to = SocketAddr::new(sim.server.ip(), 9);
        let now = sim.now();
        sim.client
            .stack
            .udp_send(now, client, None, to, slice(3))
            .unwrap();
        sim.run_for(secs(1));
        sim.expect_trace(&format!(
            "
            0.000  client > server  udp 4000 > 9 len 3
            0.010  server > client  {icmp} port unreachable
            "
        ));
        let error = sim.client.stack.udp.take_error(client).unwrap();
        assert_eq!(error, Some((to, ErrorKind::Hard(Why::PortUnreachable))));
    }
}

/// Pings and datagrams over the worst wire: what arrives is right, and most does.
#[test]
fn datagrams_over_a_bad_wire() {
    for seed in 0..50 {
        let mut sim = Sim::new(Seed(seed))
            .ipv6(seed % 2 == 1)
            .conditions(Conditions::WORST);
        let server = sim.server.stack.udp.bind(None, 53).unwrap();
        let client = sim.client.stack.udp.bind(None, 0).unwrap();
        let to = SocketAddr::new(sim.server.ip(), 53);
        let mut arrived = 0;
        for n in 0..100 {
            let now = sim.now();
            sim.client
                .stack
                .udp_send(now, client, None, to, slice(n * 37))
                .unwrap();
            sim.run_for(ms(50));
            while let Some(received) = sim.server.stack.udp.receive(server).unwrap() {
                assert_eq!(received.payload, slice(received.payload.len()).as_bytes());
                arrived += 1;
            }
        }
        assert!((40..160).contains(&arrived), "{arrived} of 100");
    }
}
