//! Finding neighbours: ARP and neighbour discovery between two stacks, with losses and with moves.

use exos_sim::prelude::*;
use exos_wire::Mac;
use exos_wire::arp::{self, ArpPacket};
use exos_wire::ethernet::{ETHERTYPE_ARP, EthernetHeader};
use std::net::IpAddr;

/// Two hosts that have never met; their announcements were lost.
fn strangers(ipv6: bool) -> Sim {
    let mut sim = Sim::new(Seed(7)).ipv6(ipv6).cold().latency(ms(10));
    sim.server.listen(80, Plan::LISTEN);
    sim.link().drop_if(|_, _| true);
    sim.run_for(ms(1));
    sim.link().drop_none();
    sim.trace().clear();
    sim
}

/// The question is lost twice and asked again every second; then the SYN that waited leaves at
/// once.
#[test]
fn arp_lost_twice_then_connects() {
    let mut sim = strangers(false);
    sim.link().drop_next(2);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(conn), at_most(secs(4)));
    sim.expect_trace(
        "
        0.001  client > server  arp who-has server  (dropped)
        1.001  client > server  arp who-has server  (dropped)
        # The second SYN is one more frame that waits.
        2.001  client > server  arp who-has server
        2.011  server > client  arp server is-at 02:00:00:00:00:02
        2.021  client > server  S   seq 0
        2.021  client > server  S   seq 0
        # Two SYNs in one batch are one question.
        2.031  server > client  S.  seq 0 ack 1
        2.041  client > server  .   seq 1 ack 1
        ",
    );
}

/// A lost question is asked again over IPv6, by multicast to the server's solicited-node group (RFC 4861 §7.2.2).
#[test]
fn neighbor_solicitation_lost_then_connects() {
    let mut sim = strangers(true);
    sim.link().drop_next(1);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(conn), at_most(secs(4)));
    sim.expect_trace(
        "
        0.001  client > ff02::1:ff00:2  icmp6 who-has server  (dropped)
        1.001  client > ff02::1:ff00:2  icmp6 who-has server
        1.011  server > client          icmp6 server is-at 02:00:00:00:00:02
        1.021  client > server  S   seq 0
        1.021  client > server  S   seq 0
        # Two SYNs in one batch are one question.
        1.031  server > client  S.  seq 0 ack 1
        1.041  client > server  .   seq 1 ack 1
        ",
    );
}

/// The one who was asked knows the one who asked: one question serves both.
#[test]
fn one_question_serves_both() {
    for ipv6 in [false, true] {
        let mut sim = strangers(ipv6);
        let to = sim.server.ip();
        sim.client.ping(to, 1, b"hello");
        sim.run_for(secs(1));
        assert_eq!(sim.client.echo_replies.len(), 1);
        let questions = sim
            .trace()
            .lines()
            .iter()
            .filter(|l| l.contains("who-has"))
            .count();
        assert_eq!(questions, 1, "{}", sim.trace().tail(10));
    }
}

/// Nobody has the address: three questions, then silence; TCP goes on trying, and comes through
/// when somebody does.
#[test]
fn an_absent_neighbor_appears_later() {
    let mut sim = strangers(false);
    sim.link().drop_if(|_, _| true);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(20));
    let questions = sim.trace().len();
    // Of the SYNs at 0, 1, 3, 7 and 15 s, those at 0, 7 and 15 s begin to ask; at 3 s the hold is
    // on.
    assert_eq!(questions, 9, "{}", sim.trace().tail(20));
    sim.link().drop_none();
    sim.run_until(|s| s.client.is_established(conn), at_most(secs(60)));
}

/// The server's card was changed: its announcement is believed, and the connection goes on (RFC
/// 5227 §2.3).
#[test]
fn a_gratuitous_announcement_moves_a_connection() {
    let mut sim = strangers(false);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    let server = sim.server.ip();
    sim.inject(CLIENT, &gratuitous(Mac([2, 0, 0, 0, 0, 0x99]), server));
    sim.client.send(conn, b"to the new address");
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let sink = seen.clone();
    sim.link().drop_if(move |from, frame| {
        if from == CLIENT && is_tcp(frame) {
            sink.borrow_mut().push(frame[..6].to_vec());
        }
        false
    });
    sim.run_for(ms(1));
    assert_eq!(*seen.borrow(), [[2, 0, 0, 0, 0, 0x99]]);
}

/// An announcement for an address that nobody here talks to leaves no trace.
#[test]
fn announcements_of_strangers_are_not_recorded() {
    let mut sim = strangers(false);
    let before = sim.client.stack.neighbors().len();
    for last in 100..200 {
        sim.inject(
            CLIENT,
            &gratuitous(Mac([2, 0, 0, 0, 1, last]), [10, 10, 0, last].into()),
        );
    }
    assert_eq!(sim.client.stack.neighbors().len(), before);
}

/// A neighbour in use is verified by TCP's own progress; when there is none, by unicast, and data
/// do not wait.
#[test]
fn a_used_neighbor_is_verified() {
    for ipv6 in [false, true] {
        let mut sim = strangers(ipv6);
        let conn = sim.client.connect(sim.server.addr());
        for _ in 0..10 {
            sim.run_for(secs(10));
            sim.client.send(conn, b"still there");
        }
        sim.run_for(secs(1));
        assert_eq!(sim.server.endpoint(sim.server.nth(0)).received.len(), 110);
        let questions = |sim: &mut Sim, who: &str| {
            let lines = sim.trace().lines();
            lines
                .iter()
                .filter(|l| l.contains("who-has") && l.contains(who))
                .count()
        };
        // The first of all; the server, which only acknowledges, must ask.
        assert_eq!(
            questions(&mut sim, "client >"),
            1,
            "{}",
            sim.trace().tail(60)
        );
        assert!(
            (1..5).contains(&questions(&mut sim, "server >")),
            "{}",
            sim.trace().tail(60)
        );
        let multicast = sim
            .trace()
            .lines()
            .iter()
            .filter(|l| l.contains("> ff02"))
            .count();
        assert_eq!(multicast, usize::from(ipv6), "asked of everybody once only");
    }
}

/// A connection that has rested for hours sends a whole window at once: its neighbour is trusted first and
/// verified, by TCP's progress or alone, then; nothing waits, nothing is dropped, nothing is sent again.
#[test]
fn a_neighbor_is_there_after_a_long_rest() {
    for ipv6 in [false, true] {
        let mut sim = strangers(ipv6);
        let conn = sim.client.connect(sim.server.addr());
        sim.run_for(secs(1));
        for rest in [601, 7200, 100_000] {
            sim.run_for(secs(rest));
            sim.trace().clear();
            let before = sim.server.endpoint(sim.server.nth(0)).received.len();
            sim.client.send_pattern(conn, 14_000);
            sim.run_for(ms(25));
            let received = sim.server.endpoint(sim.server.nth(0)).received.len();
            assert_eq!(received - before, 14_000, "in one way's time");
            sim.run_for(secs(20));
            let multicast = |l: &&String| l.contains("who-has") && l.contains("> ff02");
            assert_eq!(sim.trace().lines().iter().filter(multicast).count(), 0);
        }
        for host in [&sim.client, &sim.server] {
            let counters = host.stack.counters();
            assert_eq!(counters.drop_neighbor_unresolved, 0);
            assert_eq!(counters.tcp_segments_retransmitted, 0);
        }
    }
}

/// One that was replaced in the meantime is found out by the probes that follow its first use; the
/// connection goes on.
#[test]
fn a_neighbor_that_changed_during_a_rest_is_found() {
    for ipv6 in [false, true] {
        let mut sim = strangers(ipv6);
        let conn = sim.client.connect(sim.server.addr());
        sim.run_for(secs(3600));
        let (now, server) = (sim.now(), sim.server.ip());
        // What the client remembers is somebody who is not there any more.
        sim.client
            .stack
            .set_neighbor(now, server, Mac([2, 0, 0, 0, 0, 0x99]));
        sim.run_for(secs(60));
        sim.client.send(conn, b"is anybody there");
        sim.run_until(
            |s| s.server.endpoint(s.server.nth(0)).received.len() == 16,
            at_most(secs(20)),
        );
    }
}

fn gratuitous(mac: Mac, ip: IpAddr) -> Vec<u8> {
    let IpAddr::V4(ip) = ip else {
        panic!("ARP is for IPv4")
    };
    let mut frame = vec![0; 14 + 28];
    let header = EthernetHeader {
        dst: Mac::BROADCAST,
        src: mac,
        vlan: None,
        ethertype: ETHERTYPE_ARP,
    };
    header.emit(&mut frame);
    let packet = ArpPacket {
        operation: arp::REQUEST,
        sender_mac: mac,
        sender_ip: ip,
        target_mac: Mac::ZERO,
        target_ip: ip,
    };
    packet.emit(&mut frame[14..]);
    frame
}

/// A forged reply that nobody asked for is found out as soon as it does not work, not only after it
/// has been believed for as long as an answer.
#[test]
fn a_forged_reply_does_not_last() {
    let mut sim = strangers(false);
    let first = sim.client.connect(sim.server.addr());
    sim.run_for(secs(2));
    assert!(sim.client.is_established(first));
    let (IpAddr::V4(client), server) = (sim.client.ip(), sim.server.ip()) else {
        panic!("ARP is for IPv4")
    };
    let mut forged = gratuitous(Mac([2, 0, 0, 0, 0, 0x66]), server);
    forged[14 + 6..14 + 8].copy_from_slice(&arp::REPLY.to_be_bytes());
    forged[14 + 24..14 + 28].copy_from_slice(&client.octets());
    sim.inject(CLIENT, &forged);
    let next = sim.client.connect(sim.server.addr());
    sim.run_for(secs(5));
    assert!(!sim.client.is_established(next), "believed at first");
    // 5 s for the upper layer to confirm, 3 for probes; the SYN is repeated after 15.
    sim.run_until(|s| s.client.is_established(next), at_most(secs(11)));
}

/// A stack that shares the host's address: it never asks or answers on the link, and sends what
/// waited when it is told.
#[test]
fn with_external_neighbors_the_stack_is_silent() {
    use exos_inet::stack::{Config, Neighbors, RxChecksum, Stack};
    let (ours, theirs): (IpAddr, IpAddr) = ([10, 10, 0, 1].into(), [10, 10, 0, 2].into());
    let mut config = Config::new(mac(CLIENT), 1500);
    config.addresses = vec![(ours, 24)];
    config.neighbors = Neighbors::External;
    let now = Instant::START;
    let mut stack = Stack::new(config, 1, now).unwrap();
    assert!(stack.poll_transmit(now).is_none(), "announces nothing");
    stack
        .tcp
        .connect(now, None, (theirs, 80).into(), &Options::default())
        .unwrap();
    assert!(
        stack.poll_transmit(now).is_none(),
        "asks nobody on the link"
    );
    assert_eq!(
        (stack.poll_unresolved(), stack.poll_unresolved()),
        (Some(theirs), None)
    );
    stack.handle_frame(
        now,
        &gratuitous(Mac([2, 0, 0, 0, 0, 0x66]), theirs),
        RxChecksum::Unknown,
    );
    assert!(
        stack.poll_transmit(now).is_none(),
        "believes nobody on the link"
    );
    stack.set_neighbor(now, theirs, mac(SERVER));
    let syn = stack.poll_transmit(now).expect("what waited");
    assert!(is_tcp(syn.head) && syn.head[..6] == mac(SERVER).0);
    assert!(stack.poll_transmit(now).is_none());
    // A question for the shared address is the host's to answer.
    let mut question = gratuitous(mac(SERVER), theirs);
    question[14 + 24..14 + 28].copy_from_slice(&[10, 10, 0, 1]);
    stack.handle_frame(now, &question, RxChecksum::Unknown);
    assert!(stack.poll_transmit(now).is_none());
}
