//! Ending connections, frame by frame: in order, half, at once, by force, and with the last
//! segments lost.

use exos_sim::prelude::*;

/// An established connection, 10 ms apart, with an empty trace that begins at 1 s.
fn connected(server: Plan) -> (Sim, Conn) {
    let mut sim = Sim::new(Seed(3)).latency(ms(10));
    sim.server.listen(80, server);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    assert!(sim.client.is_established(conn) && sim.server.is_established(sim.server.nth(0)));
    (sim, conn)
}

fn states(sim: &Sim) -> (Option<State>, Option<State>) {
    let state = |host: &Host| host.info(host.nth(0)).map(|info| info.state);
    (state(&sim.client), state(&sim.server))
}

const HANDSHAKE: &str = "
    0.000  client > server  S   seq 0
    0.010  server > client  S.  seq 0 ack 1
    0.020  client > server  .   seq 1 ack 1
";

fn expect(sim: &Sim, rest: &str) {
    sim.expect_trace(&(HANDSHAKE.to_owned() + rest));
}

/// RFC 9293 §3.6, figure 12: and the server's FIN rides on its acknowledgement.
#[test]
fn in_order() {
    let (mut sim, conn) = connected(Plan::LISTEN);
    sim.client.finish(conn);
    sim.run_until(
        |s| s.client.closed(conn).is_some() && s.server.closed(s.server.nth(0)).is_some(),
        at_most(secs(1)),
    );
    assert_eq!(
        (
            sim.client.closed(conn),
            sim.server.closed(sim.server.nth(0))
        ),
        (Some(Reason::Done), Some(Reason::Done))
    );
    expect(
        &sim,
        "
        1.000  client > server  F.  seq 1 ack 1
        1.010  server > client  F.  seq 1 ack 2
        1.020  client > server  .   seq 2 ack 2
        ",
    );
    assert_eq!(sim.client.stack.tcp.time_wait_connections(), 1);
    sim.run_for(secs(61));
    assert_eq!(
        sim.client.stack.tcp.time_wait_connections(),
        0,
        "2 MSL are over"
    );
}

/// RFC 9293 §3.6.1: who has finished still hears everything.
#[test]
fn half_close() {
    let (mut sim, conn) = connected(Plan::MANUAL);
    let server = sim.server.nth(0);
    sim.client.finish(conn);
    sim.run_for(secs(1));
    assert_eq!(
        states(&sim),
        (Some(State::FinWait2), Some(State::CloseWait))
    );
    sim.server.send_pattern(server, 5000);
    sim.run_for(secs(1));
    assert_eq!(sim.client.endpoint(conn).received.len(), 5000);
    assert!(sim.client.endpoint(conn).received_pattern());
    sim.server.finish(server);
    sim.run_for(secs(1));
    assert_eq!(
        (sim.client.closed(conn), sim.server.closed(server)),
        (Some(Reason::Done), Some(Reason::Done))
    );
    expect(
        &sim,
        "
        1.000  client > server  F.  seq 1 ack 1
        1.010  server > client  .   seq 1 ack 2
        2.000  server > client  .   seq 1 ack 2 len 1448
        2.000  server > client  .   seq 1449 ack 2 len 1448
        2.000  server > client  .   seq 2897 ack 2 len 1448
        2.000  server > client  P.  seq 4345 ack 2 len 656
        2.010  client > server  .   seq 2 ack 5001
        3.000  server > client  F.  seq 5001 ack 2
        3.010  client > server  .   seq 2 ack 5002
        ",
    );
}

/// RFC 9293 §3.6, figure 13.
#[test]
fn simultaneous_close() {
    let (mut sim, conn) = connected(Plan::MANUAL);
    let server = sim.server.nth(0);
    sim.client.finish(conn);
    sim.server.finish(server);
    sim.run_for(ms(10));
    sim.run_for(secs(1));
    assert_eq!(
        (sim.client.closed(conn), sim.server.closed(server)),
        (Some(Reason::Done), Some(Reason::Done))
    );
    expect(
        &sim,
        "
        1.000  client > server  F.  seq 1 ack 1
        1.000  server > client  F.  seq 1 ack 1
        1.010  client > server  .   seq 2 ack 2
        1.010  server > client  .   seq 2 ack 2
        ",
    );
    let waiting = |host: &Host| host.stack.tcp.time_wait_connections();
    assert_eq!((waiting(&sim.client), waiting(&sim.server)), (1, 1));
}

/// The last data segment carries the FIN.
#[test]
fn fin_rides_on_data() {
    let (mut sim, conn) = connected(Plan::LISTEN);
    sim.client.send(conn, &[7; 2000]);
    sim.client.finish(conn);
    sim.run_for(secs(1));
    expect(
        &sim,
        "
        1.000  client > server  .   seq 1 ack 1 len 1448
        1.000  client > server  FP. seq 1449 ack 1 len 552
        1.010  server > client  F.  seq 1 ack 2002
        1.020  client > server  .   seq 2002 ack 2
        ",
    );
    assert_eq!(sim.server.endpoint(sim.server.nth(0)).received, [7; 2000]);
}

/// A lost FIN is sent again by the timer.
#[test]
fn fin_lost() {
    let (mut sim, conn) = connected(Plan::LISTEN);
    sim.link().drop_next(1);
    sim.client.finish(conn);
    sim.run_for(secs(1));
    assert_eq!(sim.client.closed(conn), Some(Reason::Done));
    expect(
        &sim,
        "
        1.000  client > server  F.  seq 1 ack 1      (dropped)
        1.220  client > server  F.  seq 1 ack 1
        1.230  server > client  F.  seq 1 ack 2
        1.240  client > server  .   seq 2 ack 2
        ",
    );
}

/// The last acknowledgement is lost: TIME-WAIT is there to repeat it (RFC 9293 §3.10.7.4, eighth).
#[test]
fn last_ack_lost() {
    let (mut sim, conn) = connected(Plan::LISTEN);
    sim.client.finish(conn);
    sim.run_for(ms(10));
    sim.link().drop_next_from(CLIENT, 1);
    sim.run_for(secs(1));
    assert_eq!(sim.server.closed(sim.server.nth(0)), Some(Reason::Done));
    expect(
        &sim,
        "
        1.000  client > server  F.  seq 1 ack 1
        1.010  server > client  F.  seq 1 ack 2
        1.020  client > server  .   seq 2 ack 2      (dropped)
        1.230  server > client  F.  seq 1 ack 2
        1.240  client > server  .   seq 2 ack 2
        ",
    );
}

/// An abort is a reset at once, and the data that was queued is gone (RFC 9293 §3.10.5).
#[test]
fn abort_resets() {
    let (mut sim, conn) = connected(Plan::MANUAL);
    sim.client.send(conn, &[1; 100]);
    sim.client.abort(conn);
    sim.run_for(secs(1));
    assert_eq!(sim.client.closed(conn), Some(Reason::Aborted));
    assert_eq!(sim.server.closed(sim.server.nth(0)), Some(Reason::Reset));
    expect(&sim, "1.000  client > server  R.  seq 1 ack 1");
    assert_eq!(
        sim.client.stack.tcp.connections() + sim.server.stack.tcp.connections(),
        0
    );
}

/// The reset is lost: the peer's next segment finds nobody, and is told so.
#[test]
fn a_lost_reset_is_made_up_for() {
    let (mut sim, conn) = connected(Plan::MANUAL);
    sim.link().drop_next(1);
    sim.client.abort(conn);
    sim.run_for(ms(100));
    sim.server.send(sim.server.nth(0), b"hello?");
    sim.run_for(secs(1));
    assert_eq!(sim.server.closed(sim.server.nth(0)), Some(Reason::Reset));
    expect(
        &sim,
        "
        1.000  client > server  R.  seq 1 ack 1      (dropped)
        1.100  server > client  P.  seq 1 ack 1 len 6
        1.110  client > server  R   seq 1
        ",
    );
}

/// FIN-WAIT-2 does not wait for ever for a peer that is gone.
#[test]
fn fin_wait_2_ends() {
    let (mut sim, conn) = connected(Plan::MANUAL);
    sim.client.finish(conn);
    sim.run_for(secs(170));
    assert_eq!(states(&sim).0, Some(State::FinWait2));
    sim.run_for(secs(20));
    assert!(sim.client.closed(conn).is_some(), "{:?}", states(&sim));
}

/// A half-closed connection lives for as long as the peer has something to say, however slowly.
#[test]
fn fin_wait_2_hears_a_slow_peer_out() {
    let (mut sim, conn) = connected(Plan::MANUAL);
    let server = sim.server.nth(0);
    sim.client.finish(conn);
    for _ in 0..10 {
        sim.run_for(secs(40));
        sim.server.send_pattern(server, 10);
    }
    sim.server.finish(server);
    sim.run_for(secs(1));
    assert_eq!(sim.client.closed(conn), Some(Reason::Done));
    assert_eq!(sim.client.endpoint(conn).received.len(), 100);
}

/// A program that ends leaves its waiting connections with another stack of the same address: that answers the
/// FIN whose acknowledgement was lost, where a stack that knows nothing would reset.
#[test]
fn time_wait_is_left_with_another_stack() {
    for left in [true, false] {
        let (mut sim, conn) = connected(Plan::LISTEN);
        sim.client.finish(conn);
        sim.run_for(ms(5));
        // After the FIN, which is under way, the acknowledgement of the server's.
        sim.link().drop_next_from(0, 1);
        sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(1)));
        let server = sim.server.nth(0);
        assert_eq!(sim.server.closed(server), None);
        let now = sim.now();
        let records = sim
            .client
            .stack
            .tcp
            .take_time_wait(now, 10, |flow| flow.remote().port() == 80);
        assert_eq!(records.len(), exos_inet::tcp::TIME_WAIT_RECORD_LEN);
        assert_eq!(sim.client.stack.tcp.time_wait_connections(), 0);
        let config = sim.client.stack.config().clone();
        let mut heir = exos_inet::Stack::new(config, 4711, now).unwrap();
        if left {
            let refused = heir
                .tcp
                .put_time_wait(now, &records, |flow| flow.remote().port() != 80);
            let taken = heir.tcp.put_time_wait(now, &records, |_| true);
            let again = heir.tcp.put_time_wait(now, &records, |_| true);
            assert_eq!((refused, taken, again), (0, 1, 0));
        }
        sim.client.stack = heir;
        sim.run_for(secs(3));
        let reason = if left { Reason::Done } else { Reason::Reset };
        assert_eq!(sim.server.closed(server), Some(reason));
    }
}

/// A new connection from the same port finds TIME-WAIT and is let in, its numbers being newer (RFC
/// 6191).
#[test]
fn time_wait_gives_way_to_a_newer_syn() {
    let mut sim = Sim::new(Seed(3)).latency(ms(10));
    // The server finishes first, so that it is the one to wait.
    sim.server.listen(80, Plan::upload(100));
    let first = sim.client.connect_from(
        4000,
        sim.server.addr(),
        Plan {
            finish_with_peer: true,
            ..Plan::MANUAL
        },
    );
    sim.run_for(secs(1));
    assert_eq!(sim.client.closed(first), Some(Reason::Done));
    assert_eq!(sim.server.stack.tcp.time_wait_connections(), 1);
    let second = sim.client.connect_from(
        4000,
        sim.server.addr(),
        Plan {
            finish_with_peer: true,
            ..Plan::MANUAL
        },
    );
    sim.run_for(secs(1));
    assert_eq!(sim.client.closed(second), Some(Reason::Done));
    assert_eq!(sim.client.endpoint(second).received.len(), 100);
    assert_eq!(sim.server.stack.counters().tcp_time_wait_reused, 1);
}

/// Data that arrives for a program which has aborted, or died: reset (RFC 9293 §3.10.7.1).
#[test]
fn data_after_abort_is_reset() {
    let (mut sim, conn) = connected(Plan::MANUAL);
    let server = sim.server.nth(0);
    sim.server.abort(server);
    sim.client.send(conn, b"crossing");
    sim.run_for(secs(1));
    assert_eq!(sim.client.closed(conn), Some(Reason::Reset));
    expect(
        &sim,
        "
        1.000  client > server  P.  seq 1 ack 1 len 8
        1.000  server > client  R.  seq 1 ack 1
        1.010  server > client  R   seq 1
        ",
    );
}
