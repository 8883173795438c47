//! Opening connections, frame by frame.

use exos_inet::tcp::ListenOptions;
use exos_sim::prelude::*;

/// Both hosts 10 ms apart, the server listening.
fn sim() -> Sim {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    sim.server.listen(80, Plan::LISTEN);
    sim
}

/// A lost SYN is sent again after 1 s, then after 2 s more (RFC 6298 §2.1, §5.5).
#[test]
fn syn_lost_twice_then_connects() {
    let mut sim = sim();
    sim.link().drop_next(2);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(conn), at_most(secs(4)));
    sim.expect_trace(
        "
        0.000  client > server  S   seq 0        (dropped)
        1.000  client > server  S   seq 0        (dropped)
        3.000  client > server  S   seq 0
        3.010  server > client  S.  seq 0 ack 1
        3.020  client > server  .   seq 1 ack 1
        ",
    );
}

/// Both timers run: anyone who's segment is missing asks again, and nothing is opened twice.
#[test]
fn syn_ack_lost() {
    let mut sim = sim();
    sim.link().drop_next_from(SERVER, 1);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_until(
        |s| s.client.is_established(conn) && s.server.endpoints.len() == 1,
        at_most(secs(4)),
    );
    sim.run_for(secs(2));
    sim.expect_trace(
        "
        0.000  client > server  S   seq 0
        0.010  server > client  S.  seq 0 ack 1  (dropped)
        1.000  client > server  S   seq 0
        1.010  server > client  S.  seq 0 ack 1
        1.020  client > server  .   seq 1 ack 1
        ",
    );
    assert!(sim.server.is_established(sim.server.nth(0)));
}

/// The third segment of the handshake is lost: the SYN-ACK comes again and is acknowledged again.
#[test]
fn ack_of_syn_ack_lost() {
    let mut sim = sim();
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(ms(10));
    sim.link().drop_next_from(CLIENT, 1);
    sim.run_for(secs(3));
    assert!(sim.client.is_established(conn) && sim.server.is_established(sim.server.nth(0)));
    sim.expect_trace(
        "
        0.000  client > server  S   seq 0
        0.010  server > client  S.  seq 0 ack 1
        0.020  client > server  .   seq 1 ack 1  (dropped)
        1.010  server > client  S.  seq 0 ack 1
        1.020  client > server  .   seq 1 ack 1
        ",
    );
}

/// Data behind a lost third segment completes the handshake by itself.
#[test]
fn data_completes_the_handshake() {
    let mut sim = sim();
    let conn = sim.client.connect_with(
        sim.server.addr(),
        Plan {
            send: 100,
            ..Plan::MANUAL
        },
        &Options::default(),
    );
    sim.run_for(secs(1));
    assert!(sim.client.is_established(conn));
    sim.expect_trace(
        "
        0.000  client > server  S   seq 0
        0.010  server > client  S.  seq 0 ack 1
        # The acknowledgement rides on the request.
        0.020  client > server  P.  seq 1 ack 1 len 100
        # The window of a SYN cannot be scaled: it is opened wide with the first reading.
        0.030  server > client  .   seq 1 ack 101
        ",
    );
}

/// Nobody listens (RFC 9293 §3.10.7.1): a reset, and the program is told at once.
#[test]
fn refused() {
    for ipv6 in [false, true] {
        let mut sim = Sim::new(Seed(7)).ipv6(ipv6).latency(ms(10));
        let conn = sim.client.connect(sim.server.addr());
        sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(1)));
        assert_eq!(sim.client.closed(conn), Some(Reason::Refused));
        sim.expect_trace(
            "
            0.000  client > server  S   seq 0
            0.010  server > client  R.  seq 0 ack 1
            ",
        );
    }
}

/// Nobody answers: the SYN leaves eight times, ever more slowly, then the program is told.
#[test]
fn nobody_answers() {
    let mut sim = sim();
    sim.link().drop_if(|_, frame| is_tcp(frame));
    let conn = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(600)));
    assert_eq!(sim.client.closed(conn), Some(Reason::TimedOut));
    sim.trace().set_style(Style {
        hide_neighbors: true,
        ..Style::default()
    });
    let times: Vec<_> = sim
        .trace()
        .lines()
        .iter()
        .map(|l| l.split('.').next().unwrap().to_owned())
        .collect();
    // RFC 9293 §3.8.3 (R2 of a SYN is at least 3 minutes): 1 + 2 + 4 + 8 + 16 + 32 + 60 s, then 60
    // s more.
    assert!(
        times.starts_with(&["0", "1", "3", "7", "15", "31", "63"].map(String::from)),
        "{times:?}"
    );
    assert!(
        sim.now() >= Instant::from_millis(180_000),
        "given up at {}",
        sim.now()
    );
}

/// RFC 9293 §3.5, figure 7: both sides open at once, and one connection comes of it.
#[test]
fn simultaneous_open() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    let (client, server) = (sim.client.ip(), sim.server.ip());
    let a = sim
        .client
        .connect_from(1000, (server, 2000).into(), Plan::upload(500));
    let b = sim
        .server
        .connect_from(2000, (client, 1000).into(), Plan::upload(700));
    sim.run_until(
        |s| s.client.is_established(a) && s.server.is_established(b),
        at_most(secs(1)),
    );
    sim.run_until(
        |s| s.client.closed(a).is_some() && s.server.closed(b).is_some(),
        at_most(secs(200)),
    );
    assert_eq!(
        (
            sim.client.endpoint(a).received.len(),
            sim.server.endpoint(b).received.len()
        ),
        (700, 500)
    );
    let first: Vec<_> = sim
        .trace()
        .lines()
        .iter()
        .take(4)
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        first,
        [
            "0.000 client > server S seq 0",
            "0.000 server > client S seq 0",
            "0.010 client > server S. seq 0 ack 1",
            "0.010 server > client S. seq 0 ack 1",
        ]
    );
}

/// What a SYN offers: MSS of the link, window scale, selective acknowledgements, timestamps.
#[test]
fn options_of_a_syn() {
    for (ipv6, mtu, mss) in [
        (false, 1500, 1460),
        (true, 1500, 1440),
        (false, 9000, 8960),
        (true, 1280, 1220),
    ] {
        let mut sim = Sim::new(Seed(7)).mtu(mtu).ipv6(ipv6).style(Style {
            options: true,
            ..Style::default()
        });
        sim.client.connect(sim.server.addr());
        sim.run_for(ms(1));
        let syn = &sim.trace().lines()[0];
        assert!(
            syn.contains(&format!("mss {mss} wscale 7 sackOK ts ")),
            "{syn}"
        );
    }
}

/// RFC 2018 §2: who does not offer selective acknowledgements is not offered them.
#[test]
fn a_syn_ack_permits_sack_only_when_the_syn_does() {
    for (ours, theirs) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut sim = Sim::new(Seed(7)).style(Style {
            options: true,
            ..Style::default()
        });
        let offering = |sack| Options {
            sack,
            ..Options::default()
        };
        let listen = ListenOptions {
            connection: offering(theirs),
            ..ListenOptions::default()
        };
        sim.server.listen_with(80, Plan::MANUAL, listen);
        sim.client
            .connect_with(sim.server.addr(), Plan::MANUAL, &offering(ours));
        sim.run_for(secs(1));
        let lines = sim.trace().lines();
        let permits = |flags: &str| {
            let line = lines.iter().find(|l| l.contains(flags)).expect("was sent");
            line.contains(" sackOK")
        };
        assert_eq!(permits(" S   seq"), ours);
        assert_eq!(permits(" S.  seq"), ours && theirs);
    }
}

/// RFC 9293 §3.5.1, figure 9: an old duplicate of a SYN opens nothing, for its acknowledgement is
/// wrong.
#[test]
fn an_old_duplicate_syn_is_reset() {
    let mut sim = sim();
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    sim.client.abort(conn);
    sim.run_for(secs(1));
    assert_eq!(sim.server.closed(sim.server.nth(0)), Some(Reason::Reset));
    // The same client is back with a new number; an old SYN of another connection comes first.
    let before = sim.server.endpoints.len();
    sim.client
        .connect_from(5000, sim.server.addr(), Plan::MANUAL);
    sim.link().drop_next(1);
    sim.run_for(ms(1));
    let old = sim
        .client
        .connect_from(5001, sim.server.addr(), Plan::MANUAL);
    sim.run_for(secs(4));
    assert!(sim.client.is_established(old));
    assert_eq!(sim.server.endpoints.len(), before + 2);
}

/// More half-open connections than the backlog allows: the rest wait for their retransmission.
#[test]
fn a_full_backlog_drops_syns() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    let options = exos_inet::tcp::ListenOptions {
        backlog: 3,
        syn_cookies: exos_inet::tcp::SynCookies::Never,
        ..Default::default()
    };
    sim.server.listen_with(80, Plan::LISTEN, options);
    let conns: Vec<_> = (0..5)
        .map(|_| sim.client.connect(sim.server.addr()))
        .collect();
    sim.run_for(ms(100));
    assert_eq!(
        conns
            .iter()
            .filter(|&&c| sim.client.is_established(c))
            .count(),
        3
    );
    assert_eq!(sim.server.stack.counters().drop_tcp_backlog_full, 2);
    sim.run_for(secs(2));
    assert!(conns.iter().all(|&c| sim.client.is_established(c)));
}

/// A peer that has had its time to answer makes room: a flood of SYNs does not shut others out.
#[test]
fn a_full_backlog_gives_up_who_does_not_answer() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    let options = exos_inet::tcp::ListenOptions {
        backlog: 3,
        syn_cookies: exos_inet::tcp::SynCookies::Never,
        ..Default::default()
    };
    sim.server.listen_with(80, Plan::LISTEN, options);
    // Once for the addresses' neighbours, so that the SYNs below leave at once.
    let first = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(first), at_most(secs(1)));
    for port in 4000..4003 {
        sim.client
            .connect_from(port, sim.server.addr(), Plan::MANUAL);
    }
    sim.run_for(ms(5));
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.run_for(ms(40));
    assert_eq!(sim.server.stack.tcp.connections(), 4);
    sim.link().drop_none();
    let late = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(late), at_most(ms(50)));
    let counters = sim.server.stack.counters();
    assert_eq!(
        (
            counters.tcp_half_open_replaced,
            counters.drop_tcp_backlog_full
        ),
        (1, 0)
    );
}

/// The client falls silent after its SYN: the server asks five times, forgets it without a word,
/// and the client may try again.
#[test]
fn a_half_open_connection_is_forgotten_in_silence() {
    let mut sim = sim();
    let lost = sim
        .client
        .connect_from(4000, sim.server.addr(), Plan::MANUAL);
    sim.run_for(ms(5));
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.run_for(secs(180));
    assert_eq!(sim.server.stack.tcp.connections(), 0);
    let resets = sim
        .trace()
        .lines()
        .iter()
        .filter(|l| l.contains(" R"))
        .count();
    assert_eq!(resets, 0, "{}", sim.trace().tail(30));
    assert!(
        sim.client
            .closed(lost)
            .is_none_or(|reason| reason == Reason::TimedOut)
    );
    sim.link().drop_none();
    let again = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(again), at_most(secs(1)));
}
