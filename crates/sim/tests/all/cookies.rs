//! SYN cookies: what connections made from them can do, what a flood can and cannot do.

use crate::forge;

use exos_inet::tcp::{ListenOptions, SynCookies};
use exos_sim::prelude::*;
use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpView};
use forge::{mend, overhear, set_source, tcp_at};
use std::net::Ipv4Addr;

/// A server that keeps nothing before the handshake is complete.
fn always(sim: &mut Sim, plan: Plan) {
    let options = ListenOptions {
        syn_cookies: SynCookies::Always,
        ..ListenOptions::default()
    };
    sim.server.listen_with(80, plan, options);
}

fn tcp(frame: &[u8]) -> TcpView<'_> {
    TcpView::parse(&frame[tcp_at(frame)..]).unwrap()
}

/// The peer cannot tell: the same segments, the same options, and nothing kept between them.
#[test]
fn a_handshake_without_state() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    always(&mut sim, Plan::LISTEN);
    let heard = overhear(&mut sim);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(ms(15));
    assert_eq!(sim.server.stack.tcp.connections(), 0);
    sim.run_until(
        |s| s.client.is_established(conn) && s.server.endpoints.len() == 1,
        at_most(secs(1)),
    );
    sim.expect_trace(
        "
        0.000  client > server  S   seq 0
        0.010  server > client  S.  seq 0 ack 1
        0.020  client > server  .   seq 1 ack 1
        ",
    );
    let frames = heard.borrow();
    let (syn, syn_ack) = (tcp(&frames[0].1).options(), tcp(&frames[1].1).options());
    assert_eq!(syn_ack.mss, Some(1460));
    assert!(syn_ack.window_scale.is_some() && syn_ack.sack_permitted);
    assert_eq!(
        syn_ack.timestamps.unwrap().echo,
        syn.timestamps.unwrap().value
    );
    let counters = sim.server.stack.counters();
    assert_eq!(
        (
            counters.tcp_syn_cookies_sent,
            counters.tcp_syn_cookies_accepted
        ),
        (1, 1)
    );
    let info = sim.server.info(sim.server.nth(0)).unwrap();
    assert_eq!(info.mss, 1460 - 12);
    // When the SYN-ACK left is forgotten, so nothing is measured yet.
    assert_eq!(info.rtt, None);
}

/// Transfers both ways over bad wires: scaled windows, timestamps and all else hold.
#[test]
fn connections_from_cookies_are_like_all_others() {
    for seed in 0..40 {
        let conditions = Conditions {
            loss: if seed % 4 == 0 { 0.0 } else { 0.02 },
            jitter: ms(2),
            ..Conditions::PERFECT
        };
        let mut sim = Sim::new(Seed(seed))
            .ipv6(seed % 2 == 1)
            .conditions(conditions)
            .latency(ms(5));
        always(&mut sim, Plan::serve(300_000));
        let plan = Plan {
            send: 100_000,
            ..Plan::fetch()
        };
        let conn = sim
            .client
            .connect_with(sim.server.addr(), plan, &Options::default());
        sim.run_until(
            |s| s.client.endpoint(conn).peer_finished,
            at_most(secs(200)),
        );
        sim.run_until(
            |s| s.server.endpoint(s.server.nth(0)).received.len() == 100_000,
            at_most(secs(100)),
        );
        assert_eq!(sim.client.endpoint(conn).received.len(), 300_000);
        assert!(sim.client.endpoint(conn).received_pattern());
        assert!(sim.server.endpoint(sim.server.nth(0)).received_pattern());
        assert_eq!(
            sim.server.endpoints.len(),
            1,
            "one connection from one cookie"
        );
    }
}

/// The third segment is lost: the client's data brings the cookie. When the first segment of that is
/// lost too, those behind it are not answered with a reset.
#[test]
fn data_brings_the_cookie() {
    for lost in [1, 2, 3] {
        let mut sim = Sim::new(Seed(7)).latency(ms(10));
        always(&mut sim, Plan::LISTEN);
        let conn = sim.client.connect(sim.server.addr());
        sim.run_for(ms(15));
        sim.client.send_pattern(conn, 20_000);
        sim.link().drop_next_from(CLIENT, lost);
        sim.run_until(
            |s| {
                s.server
                    .endpoints
                    .first()
                    .is_some_and(|e| e.received.len() == 20_000)
            },
            at_most(secs(10)),
        );
        assert_eq!(sim.client.closed(conn), None);
        assert_eq!(sim.server.stack.counters().tcp_resets_sent, 0);
    }
}

/// SYNs from addresses that do not answer.
fn flood(sim: &mut Sim, syn: &[u8], count: u32) {
    for n in 0..count {
        let mut frame = syn.to_vec();
        let from = Ipv4Addr::new(10, 10, 0, 100 + (n % 100) as u8);
        set_source(&mut frame, from, 1024 + (n / 100) as u16);
        sim.inject(SERVER, &frame);
    }
}

/// A flood fills the backlog: those that stand go on, new ones are made, nothing is amplified, and a
/// second after it the backlog is empty.
#[test]
fn a_flood_shuts_nobody_out() {
    let mut sim = Sim::new(Seed(4)).latency(ms(5));
    let options = ListenOptions {
        backlog: 64,
        ..ListenOptions::default()
    };
    sim.server.listen_with(80, Plan::serve(5000), options);
    let heard = overhear(&mut sim);
    for last in 100..200 {
        let nobody = Ipv4Addr::new(10, 10, 0, last);
        let now = sim.now();
        sim.server
            .stack
            .set_neighbor(now, nobody.into(), mac(CLIENT));
    }
    let standing = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(standing), at_most(secs(1)));
    let syn = heard.borrow()[0].1.clone();
    heard.borrow_mut().clear();
    let mut conns = Vec::new();
    for _ in 0..20 {
        flood(&mut sim, &syn, 500);
        let conn = sim
            .client
            .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
        conns.push(conn);
        sim.run_for(ms(30));
    }
    sim.client.send_pattern(standing, 100);
    sim.run_for(ms(100));
    assert_eq!(sim.client.endpoint(standing).received.len(), 5000);
    for &conn in &conns {
        assert_eq!(sim.client.endpoint(conn).received.len(), 5000);
    }
    // One SYN-ACK for one SYN, and none longer than the SYN.
    let frames = heard.borrow();
    let syn_acks = frames.iter().filter(|(from, frame)| {
        *from == SERVER && frame[30..34] != [10, 10, 0, 1] && tcp_at(frame) == 34
    });
    let sizes: Vec<_> = syn_acks.map(|(_, frame)| frame.len()).collect();
    assert!(
        sizes.len() <= 10_000 && sizes.len() > 9_000,
        "{}",
        sizes.len()
    );
    assert!(sizes.iter().all(|&len| len <= syn.len()));
    drop(frames);
    let counters = sim.server.stack.counters();
    assert!(counters.tcp_syn_cookies_accepted >= 19);
    assert_eq!(counters.drop_tcp_backlog_full, 0);
    sim.client.finish(standing);
    sim.run_for(secs(2));
    assert_eq!(sim.server.stack.counters().tcp_half_open_replaced, 64);
    assert_eq!(
        sim.server.stack.tcp.connections(),
        0,
        "all served, none half open"
    );
}

/// Acknowledgements with guessed cookies make nothing, and are answered with at most as much.
#[test]
fn guessed_cookies_open_nothing() {
    let mut sim = Sim::new(Seed(9)).latency(ms(5));
    always(&mut sim, Plan::LISTEN);
    let heard = overhear(&mut sim);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(ms(30));
    assert!(sim.client.is_established(conn));
    let ack = heard.borrow()[2].1.clone();
    heard.borrow_mut().clear();
    let mut random = Random::new(Seed(9), 96);
    let (at, mut bytes_in) = (tcp_at(&ack), 0);
    for n in 0..5000u32 {
        let mut frame = ack.clone();
        frame[at..at + 2].copy_from_slice(&(2000 + n as u16).to_be_bytes());
        frame[at + 8..at + 12].copy_from_slice(&random.next_u64().to_be_bytes()[..4]);
        mend(&mut frame);
        bytes_in += frame.len();
        sim.inject(SERVER, &frame);
    }
    let counters = sim.server.stack.counters();
    assert_eq!(counters.drop_tcp_cookie, 5000);
    assert_eq!(sim.server.stack.tcp.connections(), 1);
    let answers: usize = heard
        .borrow()
        .iter()
        .filter(|(f, _)| *f == SERVER)
        .map(|(_, b)| b.len())
        .sum();
    assert!(answers <= bytes_in, "{answers} bytes for {bytes_in}");
}

/// A cookie is good for two epochs at most, and only while its listener hands out any.
#[test]
fn an_old_cookie_is_a_stray() {
    for (wait, accepted) in [(1, 2), (60, 2), (129, 1)] {
        let mut sim = Sim::new(Seed(9)).latency(ms(5));
        always(&mut sim, Plan::LISTEN);
        let heard = overhear(&mut sim);
        let conn = sim.client.connect(sim.server.addr());
        sim.run_for(ms(30));
        let ack = heard.borrow()[2].1.clone();
        sim.client.abort(conn);
        sim.run_for(secs(wait));
        assert_eq!(sim.server.stack.tcp.connections(), 0);
        // The same acknowledgement once more.
        sim.inject(SERVER, &ack);
        let counters = sim.server.stack.counters();
        assert_eq!(
            counters.tcp_syn_cookies_accepted, accepted,
            "after {wait} s"
        );
    }
    // A listener that has room hands out none and believes none.
    let mut sim = Sim::new(Seed(9)).latency(ms(5));
    sim.server.listen(80, Plan::LISTEN);
    let heard = overhear(&mut sim);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(ms(30));
    let ack = heard.borrow()[2].1.clone();
    sim.client.abort(conn);
    sim.run_for(ms(30));
    sim.inject(SERVER, &ack);
    let counters = sim.server.stack.counters();
    assert_eq!((counters.tcp_accepted, counters.tcp_resets_sent), (1, 1));
    assert_eq!(counters.drop_tcp_cookie, 0);
}

/// A SYN without timestamps gets a SYN-ACK that promises nothing which a cookie cannot keep.
#[test]
fn without_timestamps_only_the_mss_is_kept() {
    let mut sim = Sim::new(Seed(9)).latency(ms(5));
    always(&mut sim, Plan::LISTEN);
    let heard = overhear(&mut sim);
    sim.client.connect(sim.server.addr());
    sim.run_for(ms(1));
    let mut syn = heard.borrow()[0].1.clone();
    // MSS, then no-operations in the place of all else.
    let at = tcp_at(&syn) + 24;
    syn[at..].fill(1);
    set_source(&mut syn, Ipv4Addr::new(10, 10, 0, 1), 4444);
    heard.borrow_mut().clear();
    sim.inject(SERVER, &syn);
    let frames = heard.borrow();
    let answer = tcp(&frames[0].1);
    assert_eq!(answer.flags(), TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0));
    let options = answer.options();
    assert_eq!((options.mss, options.window_scale), (Some(1460), None));
    assert!(!options.sack_permitted && options.timestamps.is_none());
    let seq = tcp(&syn).seq() + 1;
    let (cookie, mut ack) = (answer.seq(), syn.clone());
    drop(frames);
    let tcp_start = tcp_at(&ack);
    ack[tcp_start + 4..tcp_start + 8].copy_from_slice(&seq.0.to_be_bytes());
    let number = |n: SeqNumber| n.0.to_be_bytes();
    ack[tcp_start + 8..tcp_start + 12].copy_from_slice(&number(cookie + 1));
    ack[tcp_start + 13] = TcpFlags::ACK.0;
    ack[tcp_start + 20..].fill(1);
    mend(&mut ack);
    sim.inject(SERVER, &ack);
    assert_eq!(sim.server.stack.counters().tcp_syn_cookies_accepted, 1);
    let last = sim.server.endpoints.len() - 1;
    assert_eq!(sim.server.info(sim.server.nth(last)).unwrap().mss, 1460);
}

/// A SYN that also finishes is nobody's: not answered, and no way to end a TIME-WAIT.
#[test]
fn a_syn_with_a_fin_is_dropped() {
    let mut sim = Sim::new(Seed(9)).latency(ms(5));
    sim.server.listen(80, Plan::LISTEN);
    let heard = overhear(&mut sim);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(ms(30));
    let mut syn = heard.borrow()[0].1.clone();
    sim.client.abort(conn);
    sim.run_for(ms(30));
    heard.borrow_mut().clear();
    let at = tcp_at(&syn);
    syn[at + 13] |= TcpFlags::FIN.0;
    mend(&mut syn);
    sim.inject(SERVER, &syn);
    sim.run_for(ms(30));
    assert_eq!(sim.server.stack.counters().drop_tcp_syn_fin, 1);
    assert!(heard.borrow().is_empty() && sim.server.stack.tcp.connections() == 0);
}
