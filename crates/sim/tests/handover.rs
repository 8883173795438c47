//! Connections that move from one stack to another in the middle of their work.

use exos_inet::tcp::Keepalive;
use exos_sim::prelude::*;

/// Move a connection of the server into a fresh stack; for `gap` it is in none.
fn move_server(sim: &mut Sim, conn: Conn, seed: u64, gap: Duration) {
    let twin = sim.server.twin(seed);
    let detached = sim.server.take_out(conn);
    // The old stack hears what comes meanwhile.
    sim.run_for(gap);
    assert_eq!(sim.server.stack.counters().tcp_resets_sent, 0);
    sim.server.stack = twin;
    sim.server.put_in(conn, detached);
}

/// Every byte of both directions arrives, however often the connection moves.
#[test]
fn transfers_go_on_in_another_stack() {
    for seed in 0..60 {
        let conditions = match seed % 3 {
            0 => Conditions::PERFECT,
            1 => Conditions {
                loss: 0.02,
                jitter: ms(3),
                ..Conditions::PERFECT
            },
            _ => Conditions::WORST,
        };
        let mut sim = Sim::new(Seed(seed))
            .conditions(conditions)
            .latency(ms(10))
            .ipv6(seed % 2 == 1);
        let plan = Plan {
            send: 150_000,
            then: Then::Finish,
            ..Plan::MANUAL
        };
        sim.server.listen(80, plan);
        let client = sim
            .client
            .connect_with(sim.server.addr(), plan, &Options::default());
        sim.run_until(|s| s.server.endpoints.len() == 1, at_most(secs(100)));
        let server = sim.server.nth(0);
        let mut random = Random::new(Seed(seed), 95);
        let mut moves = 0;
        for _ in 0..12 {
            sim.run_for(Duration::from_micros(random.below(15_000)));
            if sim.server.info(server).is_none() {
                break;
            }
            moves += 1;
            let gap = Duration::from_micros(random.below(3) * random.below(20_000));
            move_server(&mut sim, server, 1000 + seed, gap);
        }
        assert!(moves > 2, "over before it moved");
        let done = |s: &Sim| {
            s.client.endpoint(client).peer_finished && s.server.endpoint(server).peer_finished
        };
        sim.run_until(done, at_most(secs(2000)));
        for (host, conn) in [(&sim.client, client), (&sim.server, server)] {
            assert_eq!(host.endpoint(conn).received.len(), 150_000);
            assert!(host.endpoint(conn).received_pattern());
        }
        sim.run_until(
            |s| s.client.closed(client).is_some() && s.server.closed(server).is_some(),
            at_most(secs(2000)),
        );
        assert_eq!(sim.client.closed(client), Some(Reason::Done));
        assert_eq!(sim.server.closed(server), Some(Reason::Done));
        if seed % 3 == 0 {
            // PAWS never saw time run backwards (where the wire reorders, it may).
            assert_eq!(sim.client.stack.counters().drop_tcp_timestamp, 0);
        }
    }
}

/// An idle connection, too: frame by frame.
#[test]
fn a_connection_at_rest_says_where_it_is() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    sim.server.listen(80, Plan::ECHO);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    sim.trace().clear();
    let server = sim.server.nth(0);
    move_server(&mut sim, server, 5, secs(1));
    sim.run_for(secs(1));
    sim.client.send(conn, b"hello");
    sim.run_for(secs(1));
    sim.expect_trace(
        "
        # The new stack pays what may have been owed.
        2.000  server > client  .   seq 1 ack 1
        3.000  client > server  P.  seq 1 ack 1 len 5
        3.010  server > client  P.  seq 1 ack 6 len 5
        3.060  client > server  .   seq 6 ack 6
        ",
    );
    assert_eq!(sim.client.endpoint(conn).received, b"hello");
}

/// The old stack neither answers nor resets what comes for a connection that has moved, for a minute
/// after the last of it.
#[test]
fn the_old_stack_keeps_silent() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    sim.server.listen(80, Plan::ECHO);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    let server = sim.server.nth(0);
    let detached = sim.server.take_out(server);
    assert_eq!(sim.server.stack.tcp.connections(), 0);
    sim.trace().clear();
    sim.client.send(conn, b"is anybody there");
    sim.run_for(secs(30));
    let lines = sim.trace().lines();
    assert!(
        lines.len() > 4 && lines.iter().all(|l| !l.contains("server > client  .")),
        "{lines:?}"
    );
    assert_eq!(sim.server.stack.counters().tcp_resets_sent, 0);
    assert!(sim.server.stack.counters().drop_tcp_handed_over > 4);
    // Others are served.
    let other = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(other), at_most(secs(1)));
    // Put in where it came from: it goes on.
    sim.server.put_in(server, detached);
    sim.run_until(
        |s| s.client.endpoint(conn).received == b"is anybody there",
        at_most(secs(60)),
    );
    // Taken out for good, it is denied at last.
    drop(sim.server.take_out(server));
    sim.run_for(secs(61));
    sim.client.send(conn, b"hello");
    sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(1)));
    assert_eq!(sim.client.closed(conn), Some(Reason::Reset));
}

/// What a stack cannot take is given back; what does not stand is not taken out.
#[test]
fn refusals_give_the_connection_back() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    sim.server.listen(80, Plan::ECHO);
    let half_open = sim.client.connect(sim.server.addr());
    let id = sim.client.connection_id(half_open);
    let now = sim.now();
    assert!(sim.client.stack.tcp_take_out(now, id).is_none());
    sim.run_for(secs(1));
    let detached = sim.server.take_out(sim.server.nth(0));
    // The client has other addresses.
    let now = sim.now();
    let (error, detached) = sim.client.stack.tcp_put_in(now, detached).unwrap_err();
    assert_eq!(error, exos_inet::tcp::OpenError::NoRoute);
    let mut twin = sim.server.twin(3);
    twin.tcp_put_in(now, detached).unwrap();
    let taken = twin.poll_event();
    assert!(taken.is_none_or(|e| !e.set.contains(exos_inet::tcp::EventSet::CLOSED)));
}

/// Keepalive goes on asking in the new stack; unread bytes and the program's word are there.
#[test]
fn wishes_and_unread_bytes_travel() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    let plan = Plan {
        reading: Reading::Never,
        ..Plan::MANUAL
    };
    sim.server.listen(80, plan);
    let conn = sim.client.connect(sim.server.addr());
    sim.client.send_pattern(conn, 50_000);
    sim.run_for(secs(2));
    let server = sim.server.nth(0);
    let id = sim.server.connection_id(server);
    let keepalive = Keepalive {
        idle: secs(10),
        interval: secs(1),
        count: 3,
    };
    sim.server.stack.tcp.set_keepalive(id, Some(keepalive));
    let detached = sim.server.take_out(server);
    assert_eq!(detached.readable().len(), 50_000);
    assert_eq!(
        (detached.token(), detached.state()),
        (1, State::Established)
    );
    let twin = sim.server.twin(9);
    sim.server.stack = twin;
    sim.server.put_in(server, detached);
    sim.run_for(secs(25));
    assert_eq!(sim.server.stack.counters().tcp_keepalives_sent, 2);
    sim.server.set_reading(server, Reading::Promptly);
    assert_eq!(sim.server.endpoint(server).received.len(), 50_000);
    assert!(sim.server.endpoint(server).received_pattern());
}

/// In FIN-WAIT-2 and CLOSE-WAIT, and with the FIN in flight.
#[test]
fn half_closed_connections_move_too() {
    for (finish_first, wait) in [(true, 5), (true, 100), (false, 5), (false, 100)] {
        let mut sim = Sim::new(Seed(7)).latency(ms(10));
        sim.server.listen(80, Plan::MANUAL);
        let conn = sim.client.connect(sim.server.addr());
        sim.run_for(secs(1));
        let server = sim.server.nth(0);
        if finish_first {
            sim.server.send(server, b"last words");
            sim.server.finish(server);
        } else {
            sim.client.finish(conn);
        }
        sim.run_for(ms(wait));
        move_server(&mut sim, server, 8, ms(3));
        sim.run_for(ms(100));
        sim.client.finish(conn);
        sim.server.finish(server);
        sim.run_until(
            |s| s.client.closed(conn).is_some() && s.server.closed(server).is_some(),
            at_most(secs(10)),
        );
        assert_eq!(sim.server.closed(server), Some(Reason::Done));
        let expected: &[u8] = if finish_first { b"last words" } else { b"" };
        assert_eq!(sim.client.endpoint(conn).received, expected);
    }
}
