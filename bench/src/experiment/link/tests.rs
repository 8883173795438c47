//! What people and programs are told of made-up runs.

use super::*;
use crate::report::{Contender as _, environment_of_tests};

fn sent(frames_per_sec: f64) -> SendRun {
    SendRun {
        frames_per_sec,
        sender_ns_per_frame: 1e9 / frames_per_sec,
        receiver_ns_per_frame: 80.0,
        lost_share: 0.02,
        live_share: 0.0,
    }
}

fn exchanged(way: Way, rates: [f64; 3]) -> ExchangeOutcome {
    let run = |round_trips_per_sec| ExchangeRun {
        round_trips_per_sec,
        lost_share: 0.0,
        live_share: if way == Way::Live { 1.0 } else { 0.0 },
    };
    ExchangeOutcome::of(way, rates.map(run).to_vec())
}

fn report() -> Report {
    let exchange = Exchange::new(
        Cell::all(Group::Exchange, &[64], &[16])[0],
        vec![
            exchanged(Way::Ring, [400e3, 200e3, 300e3]),
            exchanged(Way::Live, [800e3, 300e3, 900e3]),
        ],
    );
    let runs = [(4.0, 9.0), (3.0, 7.0), (5.0, 8.0)].map(|(p50_us, p99_us)| LoneRun {
        p50_us,
        p99_us,
        round_trips: 1000,
        lost: 1,
    });
    Report {
        environment: environment_of_tests(1.0),
        left_out: vec!["iperf3: not installed".into()],
        send: vec![Send {
            name: "send/64/16".into(),
            frame_bytes: 64,
            batch: 16,
            results: vec![
                SendOutcome::of(Way::Ring, vec![sent(1e6), sent(2e6), sent(0.5e6)]),
                SendOutcome::of(Way::Socket, vec![sent(0.5e6)]),
            ],
        }],
        exchange: vec![exchange],
        lone: vec![Lone {
            name: "lone/64".into(),
            frame_bytes: 64,
            results: vec![LoneOutcome::of(Way::Cheaper, runs.to_vec())],
        }],
    }
}

#[test]
fn the_table_has_medians_and_ratios_of_runs() {
    let expected = "\
Ways of sending frames
kernel 6.1.0, exos 0.1.0; medians of 3 runs of 1 s, on a veth, one core each

One direction. ns: time of either core for a frame; the sender's includes the kernel's delivery. live: left in live frame mode.
send/bytes/batch  way     frames/s  send ns  recv ns  lost %  live %
send/64/16        ring     1000000     1000       80       2       0
                  socket    500000     2000       80       2       0

Both directions. trips: frames there and back; lost: by those that came back; x: trips/s by the ring's, median of the runs' ratios, the least and the most.
exchange/bytes/under way  way   trips/s  lost %  live %  x ring
exchange/64/16            ring   300000       0       0  -
                          live   800000       0     100  2.00 (1.50 to 3.00)

A lone frame. Microseconds there and back, both ends polling; lost: of all runs.
lone/bytes  way      p50 us  p99 us  lost
lone/64     cheaper    4.00    8.00     3

left out: iperf3: not installed
note: core 0 was busy
";
    assert_eq!(report().table(), expected);
}

#[test]
fn json_names_the_ways_and_the_page_shows_them() {
    let json: serde_json::Value = serde_json::from_str(&report().json()).expect("valid");
    assert_eq!(json["send"][0]["results"][1]["way"], "socket");
    assert_eq!(json["exchange"][0]["ratios"][0]["median"], 2.0);
    assert_eq!(json["lone"][0]["results"][0]["runs"][2]["p99_us"], 8.0);
    let html = report().html();
    for part in ["<svg", "16 at once", "16 under way", "frames of 64 bytes"] {
        assert!(html.contains(part), "{part}");
    }
}
