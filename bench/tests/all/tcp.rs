//! Short sessions beside Linux's TCP on the real kernel. Without root they say SKIPPED and pass.

use crate::common::{
    Missing, Session, assert_refused, assert_unwritable_files_are_told, first_for_or_then_for,
};
use exos_bench::tcp::{TcpArgs, measure, run};

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    let cases = [(["--runs", "0"], "--runs")];
    assert_refused(measure, &cases);
    assert_unwritable_files_are_told(run);
}

#[test]
fn the_helpers_measure_linux_and_plain_frames() {
    first_for_or_then_for(["1", "10"], linux_and_plain_frames);
}

fn linux_and_plain_frames(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("btcp-t", &[]) else {
        return missing;
    };
    let args: TcpArgs = session.args(&[
        "--only",
        "wire/frames",
        "--only",
        "wire/linux-to-linux",
        "--only",
        "fair/linux+linux",
        "--only",
        "send/20ms/0.1%-burst/reorder",
        "--runs",
        "1",
        "--duration",
        duration,
        "--quick",
    ]);
    let report = measure(&args).expect("all is there");
    assert_eq!(report.wire.len(), 2);
    for case in &report.wire {
        missing.unless(case.packets_per_sec > 1000.0, case);
    }
    assert_eq!(report.wire[0].of_limit, 1.0);
    let [fair] = report.fair.as_slice() else {
        panic!("{:?}", report.fair)
    };
    let together = fair.runs[0][0] + fair.runs[0][1];
    missing.unless(together > 20.0, fair);
    assert!(together < 100.0, "{fair:?}");
    missing.unless((0.5..=1.0).contains(&fair.jain_index), fair);
    let [cell] = report.bulk.as_slice() else {
        panic!("{:?}", report.bulk)
    };
    assert_eq!(cell.name, "bulk/send/20ms/0.1%-burst/reorder");
    for outcome in &cell.results {
        missing.unless(outcome.goodput_mbit_per_sec > 0.1, outcome);
        assert!(outcome.goodput_mbit_per_sec < 200.0, "{outcome:?}");
    }
    assert!(report.flood.is_empty());
    session.assert_nothing_is_left();
    missing
}
