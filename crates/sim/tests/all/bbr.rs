//! BBR at work over a whole path, and beside CUBIC.

use exos_sim::prelude::*;

use exos_inet::tcp::congestion::Algorithm;

fn with(congestion: Algorithm) -> Options {
    Options {
        congestion,
        ..Options::default()
    }
}

/// 20 Mbit/s and 40 ms with a queue of one product, 100 kB, and the given loss.
fn bottleneck(loss: f64) -> Conditions {
    Conditions {
        latency: ms(20),
        rate: Some(20_000_000),
        queue_bytes_max: 100_000,
        loss,
        ..Conditions::PERFECT
    }
}

/// Flows of these algorithms through the bottleneck for so long, from the same moment; the bytes that arrived of each.
fn flows(seed: u64, conditions: Conditions, algorithms: &[Algorithm], secs_: u64) -> Vec<usize> {
    let mut sim = Sim::new(Seed(seed)).conditions(conditions);
    sim.server.listen(80, Plan::LISTEN);
    let to = sim.server.addr();
    let mut begun = Vec::new();
    for &algorithm in algorithms {
        begun.push(sim.client.connect_with(to, Plan::MANUAL, &with(algorithm)));
    }
    sim.run_for(secs(2));
    for &conn in &begun {
        // More than the path carries in that time.
        sim.client.send_pattern(conn, secs_ as usize * 2_500_000);
    }
    sim.run_for(secs(secs_));
    begun
        .iter()
        .map(|&conn| sim.client.info(conn).expect("it stands").bytes_acked as usize)
        .collect()
}

/// Alone it fills the path, and keeps the queue short: nearly nothing is lost.
#[test]
fn bbr_fills_a_path() {
    let bytes = flows(1, bottleneck(0.0), &[Algorithm::Bbr], 20)[0];
    let share = bytes as f64 / (20.0 * 2_500_000.0);
    assert!(share > 0.85, "{share} of the rate");
}

/// Losses that no congestion causes cost CUBIC most of the rate, and BBR little.
#[test]
fn bbr_does_not_take_random_losses_for_congestion() {
    let run = |a| flows(2, bottleneck(0.01), &[a], 20)[0] as f64 / (20.0 * 2_500_000.0);
    let (bbr, cubic) = (run(Algorithm::Bbr), run(Algorithm::Cubic));
    assert!(bbr > 0.75, "{bbr} of the rate");
    assert!(bbr > 1.5 * cubic, "{bbr} beside {cubic}");
}

/// Through one bottleneck neither starves the other where the queue is as long as routers' are: two to four products of
/// rate and round trip. (In shorter ones version 1 takes most, in longer ones CUBIC does: Hock, Bless and
/// Zitterbart, *Experimental Evaluation of BBR Congestion Control*, ICNP 2017.)
#[test]
fn bbr_and_cubic_share_a_bottleneck() {
    for (queue_bytes_max, shares) in [(200_000, 0.35..0.65), (400_000, 0.2..0.5)] {
        let path = Conditions {
            queue_bytes_max,
            ..bottleneck(0.0)
        };
        let bytes = flows(1, path, &[Algorithm::Bbr, Algorithm::Cubic], 30);
        let all = bytes[0] + bytes[1];
        let first = bytes[0] as f64 / all as f64;
        assert!(all > 30 * 2_500_000 * 8 / 10, "the path is used: {all}");
        assert!(
            shares.contains(&first),
            "BBR has {first} with {queue_bytes_max}"
        );
    }
}
