//! A short session on the real kernel. Without root it says SKIPPED and passes.

use crate::common::{
    Missing, OF_CELLS_REFUSED, Session, assert_refused, assert_unwritable_files_are_told,
    first_for_or_then_for,
};
use exos_bench::Results as _;
use exos_bench::link::{LinkArgs, Way, measure, run};

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    assert_refused(measure, &OF_CELLS_REFUSED);
    assert_unwritable_files_are_told(run);
}

/// No speed is looked at.
#[test]
fn every_cell_of_a_quick_session_has_figures_and_nothing_is_left() {
    first_for_or_then_for(["200ms", "2s"], quick_session);
}

fn quick_session(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("blnk-t", &[]) else {
        return missing;
    };
    // DPDK's program says once a second what it did, of which a busy machine makes too little.
    let ways = "ring,live,cheaper,socket,iperf3";
    let args: LinkArgs = session.args(&["--quick", "--ways", ways, "--duration", duration]);
    let report = measure(&args).expect("all is there");
    let has = |way| !report.left_out.iter().any(|line| line.starts_with(way));
    let names: Vec<&str> = report.send.iter().map(|case| case.name.as_str()).collect();
    let sends = ["send/64/64", "send/1512/1"];
    let sends = &sends[..if has("iperf3") { 2 } else { 1 }];
    assert_eq!(names, sends);
    for outcome in report.send.iter().flat_map(|case| &case.results) {
        let figures = [
            outcome.frames_per_sec,
            outcome.sender_ns_per_frame,
            outcome.receiver_ns_per_frame,
        ];
        missing.unless(figures.iter().all(|figure| *figure > 0.0), outcome);
        let shares = [outcome.lost_share, outcome.live_share];
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        assert!(shares.iter().all(is_share), "{outcome:?}");
        if outcome.way == Way::Live {
            missing.unless(outcome.live_share > 0.9, outcome);
        }
        if outcome.way == Way::Ring {
            assert_eq!(outcome.live_share, 0.0);
        }
    }
    let [exchange] = report.exchange.as_slice() else {
        panic!("{:?}", report.exchange)
    };
    assert_eq!(exchange.name, "exchange/64/64");
    assert_eq!(exchange.results.len(), if has("live") { 3 } else { 2 });
    assert_eq!(exchange.ratios.len(), exchange.results.len() - 1);
    for outcome in &exchange.results {
        missing.unless(outcome.round_trips_per_sec > 0.0, outcome);
        if outcome.way == Way::Live {
            missing.unless(outcome.live_share > 0.0, outcome);
        }
    }
    let [lone] = report.lone.as_slice() else {
        panic!("{:?}", report.lone)
    };
    let ways: Vec<Way> = lone.results.iter().map(|outcome| outcome.way).collect();
    assert_eq!(ways, [Way::Ring, Way::Cheaper]);
    for outcome in &lone.results {
        missing.unless(outcome.p50_us > 0.0, outcome);
        assert!(outcome.p99_us >= outcome.p50_us, "{outcome:?}");
    }
    assert!(report.table().contains("lone/64"));
    session.assert_nothing_is_left();
    missing
}
