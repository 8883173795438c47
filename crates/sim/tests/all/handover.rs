//! Connections that move from one stack to another in the middle of their work.

use exos_inet::tcp::congestion::Algorithm;
use exos_inet::tcp::{DetachedConnection, HandoverError, Keepalive, ListenOptions};
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

/// Bytes that each end of a transfer sends.
const SENT: usize = 150_000;

/// All bytes of both directions arrive, and both ends hear that it is over.
fn run_to_the_end(sim: &mut Sim, client: Conn, server: Conn) {
    let done = |s: &Sim| {
        s.client.endpoint(client).peer_finished && s.server.endpoint(server).peer_finished
    };
    sim.run_until(done, at_most(secs(2000)));
    for (host, conn) in [(&sim.client, client), (&sim.server, server)] {
        assert_eq!(host.endpoint(conn).received.len(), SENT);
        assert!(host.endpoint(conn).received_pattern());
    }
    sim.run_until(
        |s| s.client.closed(client).is_some() && s.server.closed(server).is_some(),
        at_most(secs(2000)),
    );
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
            send: SENT,
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
        run_to_the_end(&mut sim, client, server);
        // Where nearly everything is lost, the last acknowledgement may be for longer than TIME-WAIT lasts: a
        // peer that has backed off to a minute is then told that nobody is there any more.
        let lost = seed % 3 == 2 && sim.client.closed(client) == Some(Reason::Reset);
        assert!(lost || sim.client.closed(client) == Some(Reason::Done));
        assert_eq!(sim.server.closed(server), Some(Reason::Done));
        if seed % 3 == 0 {
            // PAWS never saw time run backwards (where the wire reorders, it may).
            assert_eq!(sim.client.stack.counters().drop_tcp_timestamp, 0);
        }
    }
}

/// Move a connection of the server, as bytes, to another process, where it goes on with what it had.
fn move_server_as_bytes(sim: &mut Sim, server: Conn, seed: u64, gap: Duration) {
    let before = sim.server.info(server).expect("it stands");
    let twin = sim.server.twin(seed);
    let bytes = sim.server.take_out(server).encode();
    sim.run_for(gap);
    let detached = DetachedConnection::decode(&bytes).expect("what was encoded");
    assert_eq!(detached.encode(), bytes);
    assert_eq!(detached.unacknowledged(), before.unacknowledged);
    sim.server.stack = twin;
    sim.server.put_in(server, detached);
    let after = sim.server.info(server).expect("it goes on");
    assert_eq!(after.congestion, before.congestion);
    assert_eq!(after.slow_start_threshold, before.slow_start_threshold);
    assert_eq!((after.rtt, after.mss), (before.rtt, before.mss));
    assert_eq!(after.out_of_order_ranges, before.out_of_order_ranges);
}

/// A transfer with losses under way: encoded in the middle of it, and decoded by another process, whose clock began
/// elsewhere; every byte of both directions arrives, whatever the algorithm.
#[test]
fn transfers_go_on_in_another_process() {
    let mut gaps = 0;
    let algorithms = [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr];
    for seed in 0..60 {
        let conditions = Conditions {
            loss: [0.0, 0.01, 0.03][seed as usize % 3],
            jitter: ms(3),
            ..Conditions::PERFECT
        };
        let mut sim = Sim::new(Seed(seed))
            .conditions(conditions)
            .latency(ms(10))
            .ipv6(seed % 2 == 1);
        let plan = Plan {
            send: SENT,
            then: Then::Finish,
            ..Plan::MANUAL
        };
        let options = Options {
            congestion: algorithms[seed as usize / 3 % 3],
            ..Options::default()
        };
        let listen = ListenOptions {
            connection: options.clone(),
            ..ListenOptions::default()
        };
        sim.server.listen_with(80, plan, listen);
        let client = sim.client.connect_with(sim.server.addr(), plan, &options);
        sim.run_until(|s| s.server.endpoints.len() == 1, at_most(secs(100)));
        let server = sim.server.nth(0);
        let mut random = Random::new(Seed(seed), 93);
        let (mut moves, mut flights) = (0, 0);
        for _ in 0..12 {
            sim.run_for(Duration::from_micros(random.below(30_000)));
            let Some(before) = sim.server.info(server) else {
                break;
            };
            moves += 1;
            gaps += usize::from(before.out_of_order > 0);
            flights += usize::from(before.in_flight > 0);
            let gap = Duration::from_micros(random.below(3) * random.below(20_000));
            move_server_as_bytes(&mut sim, server, 2000 + seed, gap);
        }
        assert!(moves > 2 && flights > 0, "over before it moved");
        assert!(
            conditions.loss < 0.02 || gaps > 0,
            "nothing waited beyond a gap"
        );
        run_to_the_end(&mut sim, client, server);
        assert_eq!(sim.client.closed(client), Some(Reason::Done));
        assert_eq!(sim.server.closed(server), Some(Reason::Done));
    }
    assert!(gaps > 10, "{gaps} moves with data beyond a gap");
}

/// A thousand connections that carry data over a wire that loses some of it, all of which move to another process at once, and
/// again; every byte of both directions arrives.
#[test]
fn a_thousand_connections_move_together_over_a_bad_wire() {
    const CONNECTIONS: usize = 1000;
    const BYTES: usize = 40_000;
    let conditions = Conditions {
        loss: 0.02,
        jitter: ms(3),
        ..Conditions::PERFECT
    };
    let mut sim = Sim::new(Seed(22)).conditions(conditions).latency(ms(10));
    sim.server.listen(80, Plan::MANUAL);
    let addr = sim.server.addr();
    let clients: Vec<Conn> = (0..CONNECTIONS).map(|_| sim.client.connect(addr)).collect();
    let accepted = |s: &Sim| s.server.endpoints.len() == CONNECTIONS;
    sim.run_until(accepted, at_most(secs(100)));
    let servers: Vec<Conn> = (0..CONNECTIONS).map(|n| sim.server.nth(n)).collect();
    for (client, server) in clients.iter().zip(&servers) {
        sim.client.send_pattern(*client, BYTES);
        sim.server.send_pattern(*server, BYTES);
    }
    let mut in_flight = 0;
    for round in 0..5 {
        sim.run_for(ms(15));
        let unacknowledged = |c: &&Conn| sim.server.info(**c).is_some_and(|i| i.in_flight > 0);
        in_flight += servers.iter().filter(unacknowledged).count();
        let twin = sim.server.twin(3000 + round);
        let taken = servers.iter().map(|c| sim.server.take_out(*c).encode());
        let taken: Vec<Vec<u8>> = taken.collect();
        sim.run_for(ms(2));
        sim.server.stack = twin;
        for (conn, bytes) in servers.iter().zip(taken) {
            let detached = DetachedConnection::decode(&bytes).expect("what was encoded");
            sim.server.put_in(*conn, detached);
        }
    }
    assert!(in_flight > 2 * CONNECTIONS, "{in_flight} moves in flight");
    for (client, server) in clients.iter().zip(&servers) {
        sim.client.finish(*client);
        sim.server.finish(*server);
    }
    let over = |s: &Sim| clients.iter().all(|c| s.client.closed(*c).is_some());
    sim.run_until(over, at_most(secs(2000)));
    for (host, conns) in [(&sim.client, &clients), (&sim.server, &servers)] {
        for conn in conns {
            let endpoint = host.endpoint(*conn);
            assert_eq!(endpoint.received.len(), BYTES);
            assert!(endpoint.received_pattern());
        }
    }
    for client in clients {
        assert_eq!(sim.client.closed(client), Some(Reason::Done));
    }
}

/// A connection in the middle of its work: data in flight, unread bytes, gaps, wishes.
fn busy(seed: u64) -> (Sim, Conn, Vec<u8>) {
    let mut sim = Sim::new(Seed(seed)).latency(ms(10)).ipv6(seed % 2 == 1);
    let plan = Plan {
        reading: Reading::Never,
        ..Plan::MANUAL
    };
    sim.server.listen_with(80, plan, ListenOptions::default());
    let client = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    let server = sim.server.nth(0);
    let id = sim.server.id(server);
    let keepalive = Keepalive::default();
    sim.server.stack.tcp.set_keepalive(id, Some(keepalive));
    sim.server.stack.tcp.set_user_timeout(id, Some(secs(77)));
    sim.client.send_pattern(client, 3000);
    sim.run_for(ms(100));
    sim.link().drop_next_from(CLIENT, 1);
    sim.client.send_pattern(client, 9000);
    sim.server.send_pattern(server, 20_000);
    sim.run_for(ms(12));
    let info = sim.server.info(server).expect("it stands");
    assert!(info.in_flight > 0 && info.unread == 3000 && info.out_of_order > 4000);
    let bytes = sim.server.take_out(server).encode();
    (sim, server, bytes)
}

/// What is put in and at once taken out again says the same, every field of it.
#[test]
fn the_bytes_survive_a_stay_in_another_stack() {
    for seed in 0..4 {
        let (sim, _, bytes) = busy(seed);
        let mut twin = sim.server.twin(9);
        let detached = DetachedConnection::decode(&bytes).expect("what was encoded");
        assert_eq!(detached.readable().len(), 3000);
        let id = twin.tcp.put_in(sim.now(), detached).expect("room for it");
        let again = twin.tcp.take_out(sim.now(), id).expect("it stands");
        let mut expected = bytes;
        // The news of unread bytes is told again, in the byte of the events: behind flow, state and token.
        let events = 10 + 36 + 1 + 8;
        expected[events] = again.encode()[events];
        let again = again.encode();
        let differ: Vec<_> = (0..again.len())
            .filter(|&n| again[n] != expected[n])
            .collect();
        assert!(differ.is_empty(), "bytes {differ:?}");
        assert_eq!(twin.tcp.memory().used, 0, "all memory goes back");
    }
}

/// No beginning of the bytes is a connection, nor is more than all of them; another version says so.
#[test]
fn damaged_bytes_are_refused() {
    let (_, _, bytes) = busy(3);
    for end in 0..bytes.len() {
        let cut = DetachedConnection::decode(&bytes[..end]);
        assert!(matches!(cut, Err(HandoverError::Truncated)), "{end}");
    }
    let longer = [&bytes[..], &[0]].concat();
    let refused = DetachedConnection::decode(&longer).unwrap_err();
    assert_eq!(refused, HandoverError::Trailing(1));
    let mut other = bytes.clone();
    other[4] = 9;
    let refused = DetachedConnection::decode(&other).unwrap_err();
    assert_eq!(refused, HandoverError::Version(9));
    assert!(refused.to_string().contains("version 9"));
    other[0] = 0;
    let refused = DetachedConnection::decode(&other).unwrap_err();
    assert_eq!(refused, HandoverError::NotAConnection);
}

/// Bytes that say anything: an error, or a connection that a stack can live with until its peer's silence ends it.
#[test]
fn no_bytes_do_harm() {
    let mut taken = 0;
    for seed in 0..3 {
        let (sim, _, bytes) = busy(seed);
        let mut random = Random::new(Seed(seed), 91);
        for _ in 0..400 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random.below(3) {
                // Mostly in the fields, which come first.
                let most = [200, bytes.len() as u64][usize::from(random.below(4) == 0)];
                let at = 10 + random.below(most - 10) as usize;
                damaged[at] = random.below(256) as u8;
            }
            let Ok(detached) = DetachedConnection::decode(&damaged) else {
                continue;
            };
            let (mut twin, mut now) = (sim.server.twin(9), sim.now());
            let Ok(id) = twin.tcp.put_in(now, detached) else {
                continue;
            };
            taken += 1;
            for _ in 0..300 {
                while twin.poll_transmit(now).is_some() {}
                while twin.poll_event().is_some() {}
                let Some(at) = twin.poll_timeout(now) else {
                    break;
                };
                now = now.max(at);
                twin.handle_timeout(now);
            }
            let left = twin.tcp.connection(id).map_or(0, |c| c.unacknowledged());
            assert_eq!(left, 0, "it ends when nobody answers");
        }
    }
    assert!(taken > 300, "{taken} of the damaged were taken");
}

/// A full segment size that no link has: it stands before the name of the algorithm.
#[test]
fn an_absurd_segment_size_is_refused() {
    let (_, _, bytes) = busy(2);
    let name = [&5u32.to_le_bytes()[..], b"cubic"].concat();
    let at = bytes.windows(name.len()).position(|w| w == name);
    let full = at.expect("the name of the algorithm") - 2;
    for size in [0x7fffu16, 0xfffe, 0xffff] {
        let mut damaged = bytes.clone();
        damaged[full..full + 2].copy_from_slice(&size.to_le_bytes());
        let refused = DetachedConnection::decode(&damaged).unwrap_err();
        assert!(matches!(refused, HandoverError::Impossible(_)), "{size}");
    }
}

/// Bytes at random, with the right beginning and length.
#[test]
fn random_bytes_are_no_connection() {
    let mut random = Random::new(Seed(5), 90);
    for _ in 0..20_000 {
        let len = 10 + random.below(400) as u32;
        let mut bytes = b"EXTC\x01\x00".to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend((10..len).map(|_| random.below(256) as u8 & random.below(256) as u8));
        assert!(DetachedConnection::decode(&bytes).is_err());
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
    let id = sim.client.id(half_open);
    let now = sim.now();
    assert!(sim.client.stack.tcp.take_out(now, id).is_none());
    sim.run_for(secs(1));
    let detached = sim.server.take_out(sim.server.nth(0));
    // The client has other addresses.
    let now = sim.now();
    let (error, detached) = sim.client.stack.tcp.put_in(now, detached).unwrap_err();
    assert_eq!(error, exos_inet::tcp::OpenError::NoRoute);
    let mut twin = sim.server.twin(3);
    twin.tcp.put_in(now, detached).unwrap();
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
    let id = sim.server.id(server);
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
