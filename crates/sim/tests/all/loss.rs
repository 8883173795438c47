//! Repairing single losses, frame by frame.

use exos_sim::prelude::*;

/// An established connection on a wire of 50 ms, trace from 1 s on.
fn connected() -> (Sim, Conn) {
    connected_with(&Options::default())
}

fn connected_with(options: &Options) -> (Sim, Conn) {
    let mut sim = Sim::new(Seed(11)).latency(ms(50));
    sim.server.listen(80, Plan::LISTEN);
    let to = sim.server.addr();
    let conn = sim.client.connect_with(to, Plan::MANUAL, options);
    sim.run_for(secs(1));
    sim.trace().clear();
    (sim, conn)
}

/// Lose the data segments of these numbers, counted from 0 as they leave.
fn lose(sim: &mut Sim, numbers: &'static [usize]) {
    let mut count = 0;
    sim.link().drop_if(move |from, frame| {
        let is_data = from == CLIENT && frame.len() > 200;
        count += usize::from(is_data);
        is_data && numbers.contains(&(count - 1))
    });
}

fn data_lines(sim: &mut Sim) -> String {
    let lines = sim.trace().lines();
    let words = |l: String| l.split_whitespace().collect::<Vec<_>>().join(" ");
    lines
        .into_iter()
        .filter(|l| l.contains("client >"))
        .map(words)
        .collect::<Vec<_>>()
        .join("\n")
}

fn without_sack() -> Options {
    Options {
        sack: false,
        ..Options::default()
    }
}

fn received(sim: &Sim) -> usize {
    let endpoint = sim.server.endpoint(sim.server.nth(0));
    assert!(endpoint.received_pattern());
    endpoint.received.len()
}

/// RFC 8985: the selective acknowledgement of three segments behind the missing one is enough, and several
/// losses of one window are repaired in one round trip, those in the middle of the window too.
#[test]
fn losses_of_one_window_are_repaired_in_one_round_trip() {
    let (mut sim, conn) = connected();
    lose(&mut sim, &[1, 3, 6]);
    sim.client.send_pattern(conn, 10 * 1448);
    sim.run_for(secs(2));
    assert_eq!(received(&sim), 10 * 1448);
    let counters = sim.client.stack.counters();
    assert_eq!(
        (
            counters.tcp_timeouts,
            counters.tcp_tail_probes,
            counters.tcp_segments_retransmitted
        ),
        (0, 0, 3),
        "{}",
        data_lines(&mut sim)
    );
    let lines = data_lines(&mut sim);
    let last = lines.lines().last().unwrap();
    assert!(last.starts_with("1.100 "), "{lines}");
}

/// RFC 8985 §7: the last segments are lost; the probe after two round trips shows it, long before the timer.
#[test]
fn a_lost_tail_is_probed_for() {
    let (mut sim, conn) = connected();
    lose(&mut sim, &[7, 8, 9]);
    sim.client.send_pattern(conn, 10 * 1448);
    sim.run_for(secs(2));
    assert_eq!(received(&sim), 10 * 1448);
    let lines = data_lines(&mut sim);
    let counters = sim.client.stack.counters();
    assert_eq!(
        (counters.tcp_timeouts, counters.tcp_tail_probes),
        (0, 1),
        "{lines}"
    );
    // Two round trips and 2 ms after the last acknowledgement the probe, a round trip later the next one.
    assert!(
        lines.contains("\n1.302 client > server P. seq 13033 "),
        "{lines}"
    );
    assert!(
        lines.contains("\n1.402 client > server . seq 10137 "),
        "{lines}"
    );
}

/// RFC 2883, RFC 4015: segments that were only late are no loss. The repair is taken back when the peer
/// reports all of it as duplicates, and reordering is waited for from then on.
#[test]
fn reordering_is_no_loss() {
    let mut sim = Sim::new(Seed(5)).latency(ms(50));
    sim.server.listen(80, Plan::LISTEN);
    let to = sim.server.addr();
    let conn = sim
        .client
        .connect_with(to, Plan::MANUAL, &Options::default());
    sim.run_for(secs(1));
    sim.link().set_conditions(Conditions {
        latency: ms(50),
        reorder: 0.05,
        reorder_by: ms(5),
        ..Conditions::PERFECT
    });
    sim.client.send_pattern(conn, 4_000_000);
    sim.run_for(secs(20));
    assert_eq!(received(&sim), 4_000_000);
    let counters = sim.client.stack.counters();
    assert_eq!(counters.tcp_timeouts, 0);
    let share = counters.tcp_segments_retransmitted as f64 / counters.tcp_segments_sent as f64;
    assert!(share < 0.01, "{share} sent again in vain: {counters:?}");
}

/// Whether a timestamp or a D-SACK tells first that a segment was only late: it teaches to wait (RFC 8985 §6.2).
/// The first to be late may be sent again in vain, all within the first round trips, but not those of later ones.
#[test]
fn one_late_segment_teaches_to_wait() {
    for seed in 0..20 {
        let mut sim = Sim::new(Seed(seed)).conditions(Conditions {
            latency: ms(50),
            reorder: 0.01,
            reorder_by: ms(6),
            rate: Some(200_000_000),
            queue_bytes_max: 1_250_000,
            ..Conditions::PERFECT
        });
        sim.server.listen(80, Plan::LISTEN);
        let to = sim.server.addr();
        let conn = sim
            .client
            .connect_with(to, Plan::MANUAL, &Options::default());
        sim.run_for(secs(1));
        sim.client.send_pattern(conn, 2_000_000);
        sim.run_for(secs(10));
        assert_eq!(received(&sim), 2_000_000);
        let again = sim.client.stack.counters().tcp_segments_retransmitted;
        assert!(again <= 8, "seed {seed}: {again} sent again in vain");
    }
}

/// Where the path reorders, what is delivered beyond a hole lets the window grow too: slow start is hardly slower
/// than without. (Else half of what is delivered would not count, because it comes while something is late.)
#[test]
fn reordering_does_not_slow_slow_start() {
    let run = |seed, reorder| {
        let mut sim = Sim::new(Seed(seed)).conditions(Conditions {
            latency: ms(50),
            reorder,
            reorder_by: ms(6),
            rate: Some(1_000_000_000),
            queue_bytes_max: 10_000_000,
            ..Conditions::PERFECT
        });
        sim.server.listen(80, Plan::LISTEN);
        let to = sim.server.addr();
        let options = Options::default();
        let conn = sim.client.connect_with(to, Plan::MANUAL, &options);
        sim.run_for(secs(1));
        sim.client.send_pattern(conn, 20_000_000);
        sim.run_for(ms(750));
        f64::from(sim.client.info(conn).expect("it stands").bytes_acked)
    };
    let (mut with, mut without) = (0.0, 0.0);
    for seed in 0..10 {
        with += run(seed, 0.1);
        without += run(seed, 0.0);
    }
    assert!(with > 0.6 * without, "{with} beside {without}");
}

/// RFC 5681 §3.2: three duplicates, and the missing segment goes again without waiting for the
/// timer.
#[test]
fn fast_retransmit_without_sack() {
    let (mut sim, conn) = connected_with(&without_sack());
    lose(&mut sim, &[1]);
    sim.client.send_pattern(conn, 6 * 1448);
    sim.run_for(secs(2));
    assert_eq!(received(&sim), 6 * 1448);
    assert_eq!(
        data_lines(&mut sim),
        "1.000 client > server . seq 1 ack 1 len 1448
1.000 client > server . seq 1449 ack 1 len 1448 (dropped)
1.000 client > server . seq 2897 ack 1 len 1448
1.000 client > server . seq 4345 ack 1 len 1448
1.000 client > server . seq 5793 ack 1 len 1448
1.000 client > server P. seq 7241 ack 1 len 1448
1.100 client > server . seq 1449 ack 1 len 1448"
    );
    let counters = sim.client.stack.counters();
    assert_eq!(
        (counters.tcp_fast_retransmits, counters.tcp_timeouts),
        (1, 0)
    );
}

/// RFC 6582 §3.2: of two losses in one window the second is repaired by the partial
/// acknowledgement.
#[test]
fn two_losses_in_one_window_without_sack() {
    let (mut sim, conn) = connected_with(&without_sack());
    lose(&mut sim, &[1, 4]);
    sim.client.send_pattern(conn, 9 * 1448);
    sim.run_for(secs(2));
    assert_eq!(received(&sim), 9 * 1448);
    let counters = sim.client.stack.counters();
    assert_eq!(
        (counters.tcp_timeouts, counters.tcp_segments_retransmitted),
        (0, 2),
        "{}",
        data_lines(&mut sim)
    );
}

/// Nothing behind the loss tells of it: a probe does, after two round trips, and repairs it without a
/// timeout (RFC 8985 §7).
#[test]
fn tail_loss() {
    let (mut sim, conn) = connected();
    lose(&mut sim, &[2]);
    sim.client.send_pattern(conn, 3 * 1448);
    sim.run_for(secs(2));
    assert_eq!(received(&sim), 3 * 1448);
    assert_eq!(sim.client.stack.counters().tcp_timeouts, 0);
    let lines = data_lines(&mut sim);
    let last = lines.lines().last().unwrap();
    assert!(
        last.ends_with("client > server P. seq 2897 ack 1 len 1448"),
        "{lines}"
    );
    // One round trip of 100 ms measured.
    let at: f64 = last.split(' ').next().unwrap().parse().unwrap();
    assert!((1.2..2.0).contains(&at), "{lines}");
}

/// RFC 6298 §5.5: each timeout is twice as long, and acknowledged data resets that. (With SACK the first
/// of them would be a probe.)
#[test]
fn timeouts_back_off() {
    let (mut sim, conn) = connected_with(&without_sack());
    lose(&mut sim, &[0, 1, 2, 3]);
    sim.client.send_pattern(conn, 1000);
    sim.run_for(secs(20));
    assert_eq!(received(&sim), 1000);
    let lines = data_lines(&mut sim);
    let times: Vec<f64> = lines
        .lines()
        .map(|l| l.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(times.len(), 5, "{lines}");
    let first = times[1] - times[0];
    for (n, pair) in times.windows(2).enumerate() {
        let expected = first * f64::from(1 << n);
        assert!((pair[1] - pair[0] - expected).abs() < 0.01, "{lines}");
    }
}

/// RFC 5681 §3.1: after a timeout the window is one segment, the first and every later time, also where the link cuts up what
/// is longer.
#[test]
fn a_timeout_sends_one_segment() {
    for (sack, offload) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut sim = Sim::new(Seed(11)).latency(ms(50));
        if offload {
            sim = sim.offload(true);
        }
        sim.server.listen(80, Plan::LISTEN);
        let to = sim.server.addr();
        let options = Options {
            sack,
            ..Options::default()
        };
        let conn = sim.client.connect_with(to, Plan::MANUAL, &options);
        sim.run_for(secs(1));
        sim.trace().clear();
        // The flight, a probe of its tail with SACK, and what is sent again the first times.
        lose(&mut sim, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        sim.client.send_pattern(conn, 10 * 1448);
        sim.run_for(secs(30));
        assert_eq!(received(&sim), 10 * 1448);
        let lines = data_lines(&mut sim);
        let sent: Vec<(f64, u32)> = lines
            .lines()
            .filter(|line| !line.ends_with("len 0"))
            .map(|line| {
                let words: Vec<_> = line.split(' ').collect();
                let len = words.iter().position(|w| *w == "len").unwrap();
                (words[0].parse().unwrap(), words[len + 1].parse().unwrap())
            })
            .collect();
        for again in &sent[10..13] {
            // One of 1,448 bytes; shorter once the path is taken for one that loses long ones.
            let at_once = sent.iter().filter(|(at, _)| (at - again.0).abs() < 0.01);
            assert_eq!(
                at_once.count(),
                1,
                "sack {sack}, offload {offload}:\n{lines}"
            );
        }
    }
}

/// A reordered segment makes fewer than three duplicates: nothing is sent again.
#[test]
fn reordering_by_two_is_no_loss() {
    let mut sim = Sim::new(Seed(11)).latency(ms(50));
    sim.server.listen(80, Plan::LISTEN);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    // Each frame takes 1 ms; a reordered one is overtaken by two.
    *sim.link().conditions_mut(CLIENT) = Conditions {
        latency: ms(50),
        reorder: 0.05,
        reorder_by: Duration::from_micros(2500),
        rate: Some(12_000_000),
        ..Conditions::PERFECT
    };
    sim.client.send_pattern(conn, 300_000);
    sim.run_until(
        |s| s.server.endpoint(s.server.nth(0)).received.len() == 300_000,
        at_most(secs(20)),
    );
    assert!(
        sim.server.stack.counters().tcp_out_of_order > 0,
        "something was reordered"
    );
    assert_eq!(sim.client.stack.counters().tcp_segments_retransmitted, 0);
}

/// Everything arrives twice: all is taken once, and the duplicates provoke no retransmission.
#[test]
fn duplicates_are_harmless() {
    let mut sim = Sim::new(Seed(11)).conditions(Conditions {
        latency: ms(5),
        duplicate: 1.0,
        ..Conditions::PERFECT
    });
    sim.server.listen(80, Plan::serve(100_000));
    let conn = sim
        .client
        .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
    sim.run_until(|s| s.client.closed(conn).is_some(), at_most(secs(10)));
    assert_eq!(sim.client.endpoint(conn).received.len(), 100_000);
    assert!(sim.client.endpoint(conn).received_pattern());
}

/// Slow start fills a path of 100 ms and 10 Mbit/s, and loss leaves most of it used.
#[test]
fn a_long_path_is_filled() {
    for (loss, secs_max) in [(0.0, 12), (0.0005, 25)] {
        let conditions = Conditions {
            latency: ms(50),
            loss,
            rate: Some(10_000_000),
            queue_bytes_max: 125_000,
            ..Conditions::PERFECT
        };
        let mut sim = Sim::new(Seed(11)).conditions(conditions);
        sim.server.listen(80, Plan::serve(10_000_000));
        let conn = sim
            .client
            .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
        sim.run_until(
            |s| s.client.endpoint(conn).peer_finished,
            at_most(secs(secs_max)),
        );
        assert_eq!(sim.client.endpoint(conn).received.len(), 10_000_000);
    }
}

/// Both sides send, and everything in flight in both directions is lost: the timers repair it.
/// While one side sends again from an earlier place its acknowledgements must still be taken (a
/// duel of acknowledgements that neither side takes is the alternative).
#[test]
fn losses_on_both_sides_at_once() {
    let mut sim = Sim::new(Seed(11)).latency(ms(50));
    sim.server.listen(80, Plan::MANUAL);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    let server = sim.server.nth(0);
    sim.client.send_pattern(conn, 8 * 1448);
    sim.server.send_pattern(server, 8 * 1448);
    let mut count = 0;
    // Of each side's first eight segments only the second half arrives, out of order.
    sim.link().drop_if(move |_, frame| {
        count += usize::from(frame.len() > 200);
        frame.len() > 200 && ((count - 1) % 8 < 4 && count <= 16 || (17..19).contains(&count))
    });
    sim.run_for(secs(5));
    assert_eq!(sim.client.endpoint(conn).received.len(), 8 * 1448);
    assert_eq!(received(&sim), 8 * 1448);
    assert!(
        sim.trace().len() < 80,
        "{} segments for 16 of data",
        sim.trace().len()
    );
}
