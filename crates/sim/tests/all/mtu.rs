//! Paths that carry less than the links at their ends: reported, or not.

use exos_sim::prelude::*;

/// A wire that swallows IP packets longer than `mtu` without a word.
fn swallow(sim: &mut Sim, mtu: usize) {
    sim.link().drop_if(move |_, frame| frame.len() > 14 + mtu);
}

fn start(ipv6: bool) -> (Sim, Conn) {
    let mut sim = Sim::new(Seed(4)).ipv6(ipv6).latency(ms(5));
    sim.server.listen(80, Plan::LISTEN);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    (sim, conn)
}

fn arrived(sim: &Sim) -> usize {
    sim.server.endpoint(sim.server.nth(0)).received.len()
}

/// RFC 4821, RFC 2923 §2.1: nobody reports that full segments are lost; shorter ones get through.
#[test]
fn a_black_hole_is_found() {
    for (ipv6, mtu, steps) in [(false, 1400, 1), (false, 600, 2), (true, 1300, 1)] {
        let (mut sim, conn) = start(ipv6);
        swallow(&mut sim, mtu);
        sim.client.send_pattern(conn, 100_000);
        sim.run_until(|s| arrived(s) == 100_000, at_most(secs(120)));
        assert!(sim.server.endpoint(sim.server.nth(0)).received_pattern());
        assert_eq!(sim.client.stack.counters().tcp_black_holes, steps);
    }
}

/// What passes is found to within 32 bytes, by segments of new data; then it is left alone for ten
/// minutes, and found to be larger when it has become so.
#[test]
fn what_passes_is_searched_for() {
    for (ipv6, mtu) in [(false, 1400), (true, 1400), (false, 1100), (false, 1499)] {
        let (mut sim, conn) = start(ipv6);
        swallow(&mut sim, mtu);
        sim.client.send_pattern(conn, 100_000);
        sim.run_until(|s| arrived(s) == 100_000, at_most(secs(60)));
        for _ in 0..20 {
            sim.client.send_pattern(conn, 50_000);
            sim.run_for(secs(6));
        }
        let headers = if ipv6 { 72 } else { 52 };
        let passes = mtu - headers;
        let mss = usize::from(sim.client.info(conn).unwrap().mss);
        assert!(
            mss <= passes && passes - mss <= 32,
            "{mss} where {passes} passes"
        );
        // At rest: no losses for as long as the search is over.
        let losses = |sim: &Sim| {
            let counters = sim.client.stack.counters();
            counters.tcp_fast_retransmits + counters.tcp_timeouts
        };
        let before = losses(&sim);
        for _ in 0..20 {
            sim.client.send_pattern(conn, 50_000);
            sim.run_for(secs(6));
        }
        assert_eq!(losses(&sim), before);
        // The path becomes wide again.
        sim.link().drop_none();
        sim.run_for(secs(600));
        sim.client.send_pattern(conn, 100_000);
        sim.run_for(secs(10));
        sim.client.send_pattern(conn, 100_000);
        sim.run_for(secs(10));
        let mss = usize::from(sim.client.info(conn).unwrap().mss);
        assert_eq!(mss, 1500 - headers);
        assert_eq!(arrived(&sim), 100_000 + 40 * 50_000 + 200_000);
        assert!(sim.server.endpoint(sim.server.nth(0)).received_pattern());
    }
}

/// An outage is no black hole: full segments come back seconds after it.
#[test]
fn an_outage_costs_no_size_for_long() {
    let (mut sim, conn) = start(false);
    let full = sim.client.info(conn).unwrap().mss;
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.client.send_pattern(conn, 100_000);
    sim.run_for(secs(10));
    assert!(sim.client.info(conn).unwrap().mss < full);
    sim.link().drop_none();
    sim.run_until(|s| arrived(s) == 100_000, at_most(secs(60)));
    sim.run_for(secs(5));
    sim.client.send_pattern(conn, 100_000);
    sim.run_until(|s| arrived(s) == 200_000, at_most(secs(60)));
    assert_eq!(sim.client.info(conn).unwrap().mss, full);
}

/// Little data, or a peer that is silent about little, is no reason to suspect the path.
#[test]
fn short_segments_are_not_suspected() {
    let (mut sim, conn) = start(false);
    let full = sim.client.info(conn).unwrap().mss;
    sim.link().drop_if(|_, frame| is_tcp(frame));
    sim.client.send(conn, b"short");
    sim.run_for(secs(60));
    assert_eq!(sim.client.info(conn).unwrap().mss, full);
    assert_eq!(sim.client.stack.counters().tcp_black_holes, 0);
}
