//! Windows: closed, probed, opened again; slow readers; acknowledgements that wait.

use exos_inet::tcp::ListenOptions;
use exos_sim::prelude::*;

/// A receive buffer of this many bytes.
fn buffer(bytes: u32) -> Options {
    Options::with_receive_buffer(bytes)
}

/// A client connected to a server with a buffer of `bytes` that reads as told; 10 ms apart, from 1
/// s on.
fn connected(bytes: u32, reading: Reading) -> (Sim, Conn) {
    let mut sim = Sim::new(Seed(5)).latency(ms(10)).style(Style {
        hide_neighbors: true,
        ..Style::default()
    });
    let plan = Plan {
        reading,
        finish_with_peer: true,
        ..Plan::MANUAL
    };
    sim.server.listen_with(
        80,
        plan,
        ListenOptions {
            connection: buffer(bytes),
            ..ListenOptions::default()
        },
    );
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    sim.trace().clear();
    (sim, conn)
}

/// RFC 9293 §3.8.6.1: a closed window is probed, at growing intervals, for as long as the peer
/// answers.
#[test]
fn a_closed_window_is_probed_and_opens() {
    let (mut sim, conn) = connected(2000, Reading::Never);
    let server = sim.server.nth(0);
    sim.client.send_pattern(conn, 10_000);
    sim.run_for(secs(600));
    let probes = sim.client.stack.counters().tcp_window_probes;
    // 0.2 s doubling up to 60 s: 9 in the first 100 s, then one a minute.
    assert!((14..22).contains(&probes), "{probes} probes in ten minutes");
    assert_eq!(
        sim.client.closed(conn),
        None,
        "the peer answers: nothing is given up"
    );
    sim.server.set_reading(server, Reading::Promptly);
    let opened = sim.now();
    sim.run_until(
        |s| s.server.endpoint(server).received.len() == 10_000,
        at_most(secs(2)),
    );
    assert!(sim.server.endpoint(server).received_pattern());
    assert!(
        sim.now() - opened < ms(500),
        "opening is announced, not waited for"
    );
}

/// The announcement that a window has opened is lost: the probe finds out (that is what it is for).
#[test]
fn a_lost_window_update_is_made_up_for() {
    let (mut sim, conn) = connected(2000, Reading::Never);
    let server = sim.server.nth(0);
    sim.client.send_pattern(conn, 10_000);
    sim.run_for(ms(500));
    sim.link().drop_next_from(SERVER, 1);
    sim.server.set_reading(server, Reading::Promptly);
    sim.run_until(
        |s| s.server.endpoint(server).received.len() == 10_000,
        at_most(secs(3)),
    );
    assert!(sim.server.endpoint(server).received_pattern());
}

/// Nobody answers the probes: the connection is given up, as for any other segment.
#[test]
fn probes_that_nobody_answers_end_the_connection() {
    let (mut sim, conn) = connected(2000, Reading::Never);
    sim.client.send_pattern(conn, 10_000);
    sim.run_for(secs(30));
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(3600)));
    assert_eq!(sim.client.closed(conn), Some(Reason::TimedOut));
}

/// Readers of every pace, buffers of every size: all bytes arrive, and no segment is silly.
#[test]
fn slow_readers_get_everything_in_reasonable_segments() {
    for (bytes, every, take) in [
        (2000, 3, 10),
        (4000, 5, 100),
        (3000, 20, 1000),
        (70_000, 10, 900),
        (1000, 1, 7),
    ] {
        let (mut sim, conn) = connected(
            bytes,
            Reading::Slowly {
                bytes: take,
                every: ms(every),
            },
        );
        let server = sim.server.nth(0);
        let total = 30_000;
        sim.client.send_pattern(conn, total);
        sim.client.finish(conn);
        sim.run_until(
            |s| s.server.endpoint(server).peer_finished,
            at_most(secs(200)),
        );
        assert_eq!(sim.server.endpoint(server).received.len(), total);
        assert!(sim.server.endpoint(server).received_pattern());
        let data: Vec<_> = sim
            .trace()
            .lines()
            .into_iter()
            .filter(|l| l.contains(" len "))
            .collect();
        // RFC 9293 §3.8.6.2: half a buffer or a full segment, but for probes and the last ones.
        let fair = total / (bytes as usize / 2).min(1448);
        assert!(
            data.len() <= fair * 3 / 2 + 20,
            "buffer {bytes}: {} segments for {total} bytes",
            data.len()
        );
    }
}

/// RFC 9293 §3.8.6.3: every second full segment at once, a lone one after a while.
#[test]
fn acknowledgements_wait_for_a_second_segment() {
    let (mut sim, conn) = connected(60_000, Reading::Promptly);
    sim.client.send_pattern(conn, 2 * 1448);
    sim.run_for(secs(1));
    sim.client.send_pattern(conn, 100);
    sim.run_for(secs(1));
    sim.trace()
        .compare(
            "
        1.000  client > server  .   seq 1 ack 1 len 1448
        1.000  client > server  P.  seq 1449 ack 1 len 1448
        1.010  server > client  .   seq 1 ack 2897
        2.000  client > server  P.  seq 2897 ack 1 len 100
        2.050  server > client  .   seq 1 ack 2997
        ",
        )
        .unwrap();
}

/// The acknowledgement rides on an answer that comes at once.
#[test]
fn acknowledgements_ride_on_answers() {
    let mut sim = Sim::new(Seed(5)).latency(ms(10));
    sim.server.listen(80, Plan::ECHO);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    sim.trace().clear();
    sim.client.send(conn, b"ping");
    sim.run_for(secs(1));
    sim.client.send(conn, b"pong");
    sim.run_for(secs(1));
    assert_eq!(sim.client.endpoint(conn).received, b"pingpong");
    let echoes = sim
        .trace()
        .lines()
        .iter()
        .filter(|l| l.contains("server > client"))
        .count();
    assert_eq!(
        echoes,
        2,
        "no acknowledgement of its own:\n{}",
        sim.trace().tail(10)
    );
}

/// Nagle holds small pieces back while data is in flight, when asked to (RFC 9293 §3.7.4).
#[test]
fn nagle_joins_small_pieces() {
    for (nagle, segments) in [(false, 10), (true, 2)] {
        let mut sim = Sim::new(Seed(5)).latency(ms(10));
        sim.server.listen(80, Plan::LISTEN);
        let options = Options {
            nagle,
            ..Options::default()
        };
        let conn = sim
            .client
            .connect_with(sim.server.addr(), Plan::MANUAL, &options);
        sim.run_for(secs(1));
        sim.trace().clear();
        for byte in 0..10 {
            sim.client.send(conn, &[byte]);
            sim.run_for(ms(1));
        }
        sim.run_for(secs(1));
        let count = sim
            .trace()
            .lines()
            .iter()
            .filter(|l| l.contains(" len "))
            .count();
        assert_eq!(count, segments, "\n{}", sim.trace().tail(20));
        assert_eq!(
            sim.server.endpoint(sim.server.nth(0)).received,
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        );
    }
}
