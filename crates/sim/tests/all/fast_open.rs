//! Fast Open: data on the SYN, and all that may come of it.

use crate::forge;

use exos_inet::tcp::{FastOpen, ListenOptions};
use exos_sim::prelude::*;
use exos_wire::tcp::{TcpFlags, TcpView};
use forge::{overhear, tcp_at};

fn wishing() -> Options {
    Options {
        fast_open: true,
        ..Options::default()
    }
}

fn sim(seed: u64, plan: Plan, setup: Option<FastOpen>) -> Sim {
    let mut sim = Sim::new(Seed(seed)).latency(ms(10));
    let listen = ListenOptions {
        fast_open: setup,
        ..ListenOptions::default()
    };
    sim.server.listen_with(80, plan, listen);
    sim
}

/// Ends of a request and response of their own, so that the trace can be read.
const REQUEST: &[u8] = b"GET / HTTP/1.0\r\n\r\n";

/// A connection with the request queued before the SYN leaves.
fn ask(sim: &mut Sim) -> Conn {
    let conn = sim
        .client
        .connect_with(sim.server.addr(), Plan::LISTEN, &wishing());
    sim.client.send(conn, REQUEST);
    conn
}

/// A client that has been there before.
fn met(seed: u64, plan: Plan) -> Sim {
    let mut sim = sim(seed, plan, Some(FastOpen::default()));
    let first = ask(&mut sim);
    sim.run_until(|s| s.client.closed(first).is_some(), at_most(secs(10)));
    sim.run_for(secs(1));
    sim.trace().clear();
    sim
}

/// The first connection asks for a cookie and is like any other; the second has its answer after one
/// round trip.
#[test]
fn an_answer_after_one_round_trip() {
    let mut sim = sim(7, Plan::serve(2000), Some(FastOpen::default()));
    let first = ask(&mut sim);
    sim.run_until(|s| s.client.closed(first).is_some(), at_most(secs(1)));
    sim.run_for(secs(1));
    sim.trace().clear();
    let start = sim.now();
    let second = ask(&mut sim);
    sim.run_until(
        |s| s.client.endpoint(second).received.len() == 2000,
        at_most(secs(1)),
    );
    assert_eq!(sim.now() - start, ms(20));
    assert!(sim.client.endpoint(second).received_pattern());
    sim.run_until(|s| s.client.closed(second).is_some(), at_most(secs(1)));
    assert_eq!(sim.client.closed(second), Some(Reason::Done));
    let (client, server) = (sim.client.stack.counters(), sim.server.stack.counters());
    assert_eq!(
        (server.tcp_fast_open_accepted, client.tcp_fast_open_taken),
        (1, 1)
    );
    assert_eq!(server.tcp_accepted, 2);
    assert_eq!(sim.server.endpoints.len(), 2);
    assert_eq!(sim.server.endpoint(sim.server.nth(1)).received, REQUEST);
    assert_eq!(sim.server.stack.counters().tcp_segments_retransmitted, 0);
}

/// Frame by frame: the SYN-ACK acknowledges the data, the response is behind it.
#[test]
fn frame_by_frame() {
    let mut sim = met(7, Plan::serve(100));
    ask(&mut sim);
    sim.run_for(ms(35));
    sim.expect_trace(
        "
        1.060  client > server  S   seq 0 len 18
        1.070  server > client  S.  seq 0 ack 19
        1.070  server > client  P.  seq 1 ack 19 len 100
        1.080  client > server  .   seq 19 ack 101
        1.090  server > client  F.  seq 101 ack 19
        ",
    );
}

/// Neither side by itself, nor an ordinary client at a willing listener, changes anything.
#[test]
fn both_must_wish_it() {
    for (client, server) in [(true, false), (false, true), (false, false)] {
        let setup = server.then(FastOpen::default);
        let mut sim = sim(7, Plan::serve(100), setup);
        let heard = overhear(&mut sim);
        let options = if client {
            wishing()
        } else {
            Options::default()
        };
        for _ in 0..3 {
            let conn = sim
                .client
                .connect_with(sim.server.addr(), Plan::LISTEN, &options);
            sim.client.send(conn, REQUEST);
            sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(1)));
            assert_eq!(sim.client.endpoint(conn).received.len(), 100);
        }
        for (from, frame) in heard.borrow().iter() {
            let segment = TcpView::parse(&frame[tcp_at(frame)..]).unwrap();
            let syn = segment.flags().contains(TcpFlags::SYN);
            assert!(!syn || segment.payload().is_empty());
            let option = segment.options().fast_open;
            assert_eq!(option.is_some(), client && syn && *from == CLIENT);
        }
        assert_eq!(sim.server.stack.counters().tcp_fast_open_accepted, 0);
    }
}

/// The listener does not know the cookie any more: the data goes again at once, and the new cookie
/// serves the next connection.
#[test]
fn a_stale_cookie_is_replaced() {
    let mut sim = met(7, Plan::serve(100));
    sim.run_for(secs(3 * 24 * 3600));
    // They have forgotten each other's MAC, too.
    let server = sim.server.ip();
    sim.client.ping(server, 1, b"hello");
    sim.run_for(secs(1));
    let conn = ask(&mut sim);
    let start = sim.now();
    sim.run_until(
        |s| s.client.endpoint(conn).received.len() == 100,
        at_most(secs(1)),
    );
    assert_eq!(sim.now() - start, ms(40), "an ordinary handshake's time");
    assert_eq!(sim.server.stack.counters().tcp_fast_open_bad_cookie, 1);
    assert_eq!(sim.client.stack.counters().tcp_fast_open_not_taken, 1);
    sim.run_for(secs(1));
    ask(&mut sim);
    sim.run_for(secs(1));
    assert_eq!(sim.client.stack.counters().tcp_fast_open_taken, 1);
}

/// Somebody swallows SYNs with data: the second goes without, and for an hour all do.
#[test]
fn a_middlebox_that_swallows_them_is_remembered() {
    let mut sim = met(7, Plan::serve(100));
    sim.link().drop_if(|_, frame| {
        let segment = is_tcp(frame).then(|| TcpView::parse(&frame[tcp_at(frame)..]).unwrap());
        segment
            .is_some_and(|s| s.flags().contains(TcpFlags::SYN) && s.options().fast_open.is_some())
    });
    let conn = ask(&mut sim);
    sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(5)));
    assert_eq!(sim.client.endpoint(conn).received.len(), 100);
    for wait in [1, 3500] {
        sim.run_for(secs(wait));
        let start = sim.now();
        let conn = ask(&mut sim);
        sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(5)));
        assert!(sim.now() - start < ms(500), "no SYN was lost");
    }
    sim.run_for(secs(200));
    let start = sim.now();
    let conn = ask(&mut sim);
    sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(5)));
    assert!(sim.now() - start > ms(900), "tried again after an hour");
}

/// Too many pending: an ordinary handshake. Those that were reset keep their places for a minute.
#[test]
fn pending_connections_are_bounded() {
    let setup = FastOpen {
        pending_max: 2,
        ..FastOpen::default()
    };
    let mut sim = sim(7, Plan::serve(100), Some(setup));
    let first = ask(&mut sim);
    sim.run_until(|s| s.client.closed(first).is_some(), at_most(secs(1)));
    let many: Vec<_> = (0..5).map(|_| ask(&mut sim)).collect();
    sim.run_for(secs(1));
    let counters = sim.server.stack.counters();
    assert_eq!(
        (counters.tcp_fast_open_accepted, counters.tcp_fast_open_full),
        (2, 3)
    );
    for conn in many {
        assert_eq!(sim.client.endpoint(conn).received.len(), 100);
        assert_eq!(sim.client.closed(conn), Some(Reason::Done));
    }
    // Two that reset while pending: nothing more for a minute, then again.
    for _ in 0..2 {
        let conn = ask(&mut sim);
        sim.run_for(ms(11));
        sim.client.abort(conn);
        sim.link().drop_next_from(SERVER, 10);
        sim.run_for(ms(100));
    }
    assert_eq!(sim.server.stack.counters().tcp_fast_open_accepted, 4);
    for (wait, accepted) in [(1, 4), (61, 5)] {
        sim.run_for(secs(wait));
        sim.link().drop_none();
        let conn = ask(&mut sim);
        sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(9)));
        assert_eq!(
            sim.server.stack.counters().tcp_fast_open_accepted,
            accepted,
            "after {wait} s"
        );
    }
}

/// A large request and a large response over bad wires, IPv4 and IPv6: every byte, once.
#[test]
fn transfers_begin_early_and_end_well() {
    for seed in 0..60 {
        let conditions = match seed % 3 {
            0 => Conditions::PERFECT,
            1 => Conditions {
                loss: 0.1,
                jitter: ms(3),
                ..Conditions::PERFECT
            },
            _ => Conditions::WORST,
        };
        let mut sim = Sim::new(Seed(seed)).ipv6(seed % 2 == 1).latency(ms(10));
        let listen = ListenOptions {
            fast_open: Some(FastOpen::default()),
            ..ListenOptions::default()
        };
        let plan = Plan {
            send: 40_000,
            ..Plan::fetch()
        };
        let server_plan = Plan {
            finish_with_peer: false,
            ..Plan::serve(60_000)
        };
        sim.server.listen_with(80, server_plan, listen);
        let first = ask(&mut sim);
        sim.run_until(|s| s.client.closed(first).is_some(), at_most(secs(100)));
        sim.link().set_conditions(conditions);
        let conn = sim.client.connect_with(sim.server.addr(), plan, &wishing());
        // Queued before the SYN leaves: the plan's own bytes.
        sim.client.queue_pattern(conn, 5_000);
        let done = |s: &Sim| {
            s.client.closed(conn).is_some()
                && s.server
                    .endpoints
                    .get(1)
                    .is_some_and(|e| e.closed.is_some())
        };
        sim.run_until(done, at_most(secs(2000)));
        if sim.client.closed(conn) != Some(Reason::Done) {
            // A handshake may be given up on the worst of wires.
            assert!(seed % 3 == 2, "{:?}", sim.client.closed(conn));
            continue;
        }
        assert_eq!(sim.client.endpoint(conn).received.len(), 60_000);
        assert!(sim.client.endpoint(conn).received_pattern());
        let server = sim.server.endpoint(sim.server.nth(1));
        assert_eq!(server.received.len(), 40_000);
        assert!(server.received_pattern());
    }
}

/// The program may give up a connection whose handshake is not complete; the listener has its place back.
#[test]
fn an_early_connection_can_be_aborted() {
    let mut sim = sim(7, Plan::MANUAL, Some(FastOpen::default()));
    let first = ask(&mut sim);
    sim.run_for(secs(1));
    sim.client.abort(first);
    sim.run_for(secs(1));
    for _ in 0..3 {
        let conn = ask(&mut sim);
        sim.run_for(ms(10));
        let server = sim.server.nth(sim.server.endpoints.len() - 1);
        assert_eq!(sim.server.info(server).unwrap().state, State::SynReceived);
        sim.server.abort(server);
        sim.run_for(ms(100));
        assert!(sim.client.closed(conn).is_some());
        assert_eq!(sim.server.closed(server), Some(Reason::Aborted));
    }
    assert_eq!(sim.server.stack.tcp.connections(), 0);
}
