//! Silence: keepalive, the user timeout, and what ICMP says meanwhile.

use crate::forge;

use exos_inet::icmp;
use exos_inet::tcp::Keepalive;
use exos_sim::prelude::*;
use forge::{host_unreachable, overhear};

const KEEPALIVE: Keepalive = Keepalive {
    idle: secs(10),
    interval: secs(5),
    count: 3,
};

/// An idle connection, 10 ms apart, opened at 0, its trace cleared.
fn idle(options: &Options) -> (Sim, Conn) {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    sim.server.listen(80, Plan::LISTEN);
    let conn = sim
        .client
        .connect_with(sim.server.addr(), Plan::MANUAL, options);
    sim.run_for(ms(100));
    assert!(sim.client.is_established(conn));
    sim.trace().clear();
    (sim, conn)
}

/// RFC 9293 §3.8.4 (MUST-25): off unless asked for.
#[test]
fn silence_is_no_reason_to_speak() {
    let (mut sim, conn) = idle(&Options::default());
    sim.run_for(secs(100_000));
    sim.trace().set_style(Style {
        hide_neighbors: true,
        ..Style::default()
    });
    sim.expect_trace("");
    assert_eq!(sim.client.closed(conn), None);
}

/// A peer that answers is asked again after the same silence; its own data count as an answer.
#[test]
fn a_silent_peer_is_asked_and_answers() {
    let options = Options {
        keepalive: Some(KEEPALIVE),
        ..Options::default()
    };
    let (mut sim, conn) = idle(&options);
    sim.run_until_or(|_| false, at_most(ms(21_900)));
    sim.server.send(sim.server.nth(0), b"x");
    sim.run_until_or(|_| false, at_most(secs(15)));
    sim.trace().set_style(Style {
        hide_neighbors: true,
        ..Style::default()
    });
    sim.expect_trace(
        "
        10.020  client > server  .   seq 0 ack 1
        10.030  server > client  .   seq 1 ack 1
        20.040  client > server  .   seq 0 ack 1
        20.050  server > client  .   seq 1 ack 1
        22.000  server > client  P.  seq 1 ack 1 len 1
        22.050  client > server  .   seq 1 ack 2
        32.010  client > server  .   seq 0 ack 2
        32.020  server > client  .   seq 2 ack 1
        ",
    );
    assert_eq!(sim.client.closed(conn), None);
    assert_eq!(sim.client.stack.counters().tcp_keepalives_sent, 3);
}

/// One that does not is given up after this many questions; the reset tells it if it is there.
#[test]
fn a_peer_that_is_gone_is_given_up() {
    let options = Options {
        keepalive: Some(KEEPALIVE),
        ..Options::default()
    };
    let (mut sim, conn) = idle(&options);
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(60)));
    assert_eq!(sim.client.closed(conn), Some(Reason::TimedOut));
    sim.run_for(ms(1));
    sim.trace().set_style(Style {
        hide_neighbors: true,
        ..Style::default()
    });
    sim.expect_trace(
        "
        10.020  client > server  .   seq 0 ack 1  (dropped)
        15.020  client > server  .   seq 0 ack 1  (dropped)
        20.020  client > server  .   seq 0 ack 1  (dropped)
        25.020  client > server  R.  seq 1 ack 1  (dropped)
        ",
    );
}

/// A lost question or two do not matter (RFC 1122 §4.2.3.6); and it may be asked for later.
#[test]
fn a_lost_question_is_asked_again() {
    let (mut sim, conn) = idle(&Options::default());
    let id = sim.client.id(conn);
    sim.client.stack.tcp.set_keepalive(id, Some(KEEPALIVE));
    for _ in 0..20 {
        sim.link().drop_next(2);
        sim.run_for(secs(30));
        assert_eq!(sim.client.closed(conn), None);
    }
    let asked = sim.client.stack.counters().tcp_keepalives_sent;
    assert!((25..=90).contains(&asked), "{asked}");
    sim.client.stack.tcp.set_keepalive(id, None);
    sim.run_for(secs(1000));
    assert_eq!(sim.client.stack.counters().tcp_keepalives_sent, asked);
}

/// While data is out its retransmission asks.
#[test]
fn no_question_while_data_is_out() {
    let options = Options {
        keepalive: Some(Keepalive {
            idle: secs(1),
            interval: secs(1),
            count: 1,
        }),
        ..Options::default()
    };
    let (mut sim, conn) = idle(&options);
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.client.send(conn, b"into the void");
    sim.run_for(secs(60));
    assert_eq!(sim.client.closed(conn), None);
    assert_eq!(sim.client.stack.counters().tcp_keepalives_sent, 0);
    sim.link().drop_none();
    sim.run_for(secs(60));
    assert_eq!(sim.client.closed(conn), None);
    let server = sim.server.nth(0);
    assert_eq!(sim.server.endpoint(server).received, b"into the void");
}

/// The user timeout ends a connection whose data nobody acknowledges, sooner or later than counting
/// would.
#[test]
fn unacknowledged_for_too_long() {
    for (timeout, least) in [(5, 5), (3000, 3000)] {
        let options = Options {
            user_timeout: Some(secs(timeout)),
            ..Options::default()
        };
        let (mut sim, conn) = idle(&options);
        sim.link().drop_if(|_, frame| is_tcp(frame));
        sim.client.send(conn, b"into the void");
        let start = sim.now();
        sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(4000)));
        assert_eq!(sim.client.closed(conn), Some(Reason::TimedOut));
        let after = sim.now() - start;
        assert!(
            after >= secs(least) - ms(1) && after < secs(least) + ms(500),
            "{after:?} of {timeout} s"
        );
    }
}

/// It begins again with every acknowledgement, and a SYN nobody answers is under it too.
#[test]
fn acknowledgements_start_it_again() {
    let options = Options {
        user_timeout: Some(secs(8)),
        ..Options::default()
    };
    let (mut sim, conn) = idle(&options);
    for _ in 0..5 {
        sim.link().drop_if(|_, frame| is_tcp(frame));
        sim.client.send(conn, b"late");
        sim.run_for(secs(3));
        sim.link().drop_none();
        sim.run_for(secs(6));
        assert_eq!(sim.client.closed(conn), None);
    }
    sim.link().drop_if(|_, frame| is_tcp(frame));
    let nobody = sim
        .client
        .connect_with(sim.server.addr(), Plan::MANUAL, &options);
    sim.run_until(|s| s.client.closed(nobody).is_some(), at_most(secs(9)));
    assert_eq!(sim.client.closed(nobody), Some(Reason::TimedOut));
}

/// RFC 9293 §3.8.6.1 (MUST-35): a peer that keeps its window closed but answers is never given up.
#[test]
fn a_closed_window_is_no_silence() {
    let options = Options {
        user_timeout: Some(secs(5)),
        ..Options::default()
    };
    let (mut sim, conn) = idle(&options);
    let server = sim.server.nth(0);
    sim.server.set_reading(server, Reading::Never);
    sim.client.send_pattern(conn, 1_000_000);
    sim.run_for(secs(1000));
    assert_eq!(sim.client.closed(conn), None);
    sim.server.set_reading(server, Reading::Promptly);
    sim.run_until(
        |s| s.server.endpoint(server).received.len() == 1_000_000,
        at_most(secs(100)),
    );
}

/// RFC 1122 §4.2.3.9: a soft error is remembered, forgotten when the peer is heard again, and told when
/// the connection is given up.
#[test]
fn soft_errors_are_remembered() {
    let options = Options {
        user_timeout: Some(secs(20)),
        ..Options::default()
    };
    let (mut sim, conn) = idle(&options);
    let heard = overhear(&mut sim);
    let error = |sim: &Sim| sim.client.info(conn).unwrap().soft_error;
    assert_eq!(error(&sim), None);
    sim.client.send(conn, b"one");
    sim.run_for(ms(1));
    let frame = heard.borrow().last().unwrap().1.clone();
    sim.inject(CLIENT, &host_unreachable(&frame));
    assert_eq!(error(&sim), Some(icmp::Reason::HostUnreachable));
    sim.run_for(ms(100));
    assert_eq!(error(&sim), None, "the acknowledgement has come");
    // Not in flight any more: a forgery, or late.
    sim.inject(CLIENT, &host_unreachable(&frame));
    assert_eq!(error(&sim), None);
    sim.client.send(conn, b"two");
    sim.run_for(Duration::ZERO);
    let frame = heard.borrow().last().unwrap().1.clone();
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.run_for(ms(50));
    sim.inject(CLIENT, &host_unreachable(&frame));
    sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(30)));
    assert_eq!(sim.client.closed(conn), Some(Reason::Unreachable));
}

/// What `tcp_info` would say, as far as it can be known.
#[test]
fn a_picture_of_a_connection() {
    let (mut sim, conn) = idle(&Options::default());
    let server = sim.server.nth(0);
    sim.server.send(server, &[7; 300]);
    sim.client.send_pattern(conn, 5000);
    sim.run_for(secs(1));
    let info = sim.client.info(conn).unwrap();
    assert_eq!((info.bytes_acked, info.bytes_received), (5000, 300));
    assert_eq!(
        (info.mss, info.mss_full, info.receive_mss),
        (1448, 1448, 536)
    );
    assert!(info.timestamps && info.sack && info.window_scales.is_some());
    assert_eq!(
        (info.unsent, info.in_flight, info.sacked, info.lost),
        (0, 0, 0, 0)
    );
    assert!(info.last_heard > info.last_sent && info.last_heard <= sim.now());
    assert_eq!(info.retransmitted, 0);
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.client.send_pattern(conn, 100_000);
    sim.run_for(ms(1500));
    let info = sim.client.info(conn).unwrap();
    assert!(info.retransmits >= 2 && info.backoff >= 2, "{info:?}");
    assert!(
        info.retransmitted >= info.retransmits.into(),
        "each timeout sends something again, and the probe before them: {info:?}"
    );
    assert!(
        info.in_flight > 0 && info.unsent > 0 && info.lost > 0,
        "{info:?}"
    );
}

/// R1 (RFC 9293 §3.8.3): after three retransmissions the neighbour is asked whether it is still there.
#[test]
fn a_doubted_neighbour_is_verified() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10)).cold();
    sim.server.listen(80, Plan::LISTEN);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(2));
    assert!(sim.client.is_established(conn));
    sim.trace().clear();
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.client.send(conn, b"into the void");
    // Well before the neighbour's entry grows old (30 s).
    sim.run_for(secs(20));
    let asked = |sim: &mut Sim| {
        sim.trace()
            .lines()
            .iter()
            .filter(|l| l.contains("client") && l.contains("who"))
            .count()
    };
    let lines = sim.trace().lines().join("\n");
    assert!(asked(&mut sim) > 0, "{lines}");
}
