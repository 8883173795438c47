//! Short sessions beside Linux's TCP on the real kernel. Without root they say SKIPPED and pass.

use clap::Parser as _;
use exos_bench::tcp::{TcpArgs, measure, run};
use exos_host::caps::{self, CapabilitySet};
use std::io::Write as _;

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    tcp: TcpArgs,
}

fn args(arguments: &[&str]) -> TcpArgs {
    Cli::try_parse_from(["bench"].iter().chain(arguments))
        .expect("a valid command line")
        .tcp
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    for (arguments, said) in [
        (["--runs", "0"], "--runs"),
        (["--seconds", "0"], "--seconds"),
        (["--seconds", "1e6"], "--seconds"),
    ] {
        let error = measure(&args(&arguments)).expect_err(said);
        assert!(error.what.contains(said), "{error}");
    }
    let error = run(&args(&["--json", "/no/such/directory/file"])).expect_err("not there");
    assert!(
        error.to_string().contains("/no/such/directory/file"),
        "{error}"
    );
}

/// The program that is measured is `exos`, which this test is not: the cell of plain frames, with helpers that
/// are, needs it too, so it runs where that has been built.
#[test]
fn the_helpers_measure_linux_and_plain_frames() {
    let exos = std::env::current_exe()
        .expect("there is one")
        .with_file_name("../exos");
    if !caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN) || !exos.exists() {
        // Past the test harness, which keeps to itself what passing tests print.
        let _ = std::io::stderr()
            .write_all(b"SKIPPED: a measurement of TCP needs root, and exos built before\n");
        return;
    }
    let _turn = crate::turn();
    let lab = format!("btcp-t{}", std::process::id());
    let exos = exos.to_string_lossy().into_owned();
    let report = measure(&args(&[
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
        "--seconds",
        "1",
        "--lab",
        &lab,
        "--exos",
        &exos,
        "--helpers",
        &exos,
    ]))
    .expect("all is there");
    assert_eq!(report.wire.len(), 2);
    for case in &report.wire {
        assert!(case.packets_per_sec > 1000.0, "{case:?}");
    }
    assert_eq!(report.wire[0].of_limit, 1.0);
    let [fair] = report.fair.as_slice() else {
        panic!("{:?}", report.fair)
    };
    let together = fair.runs[0][0] + fair.runs[0][1];
    assert!((20.0..100.0).contains(&together), "{fair:?}");
    assert!((0.5..=1.0).contains(&fair.jain_index), "{fair:?}");
    let [cell] = report.bulk.as_slice() else {
        panic!("{:?}", report.bulk)
    };
    assert_eq!(cell.name, "bulk/send/20ms/0.1%-burst/reorder");
    for outcome in &cell.results {
        assert!(
            (0.1..200.0).contains(&outcome.goodput_mbit_per_sec),
            "{outcome:?}"
        );
    }
    assert!(report.flood.is_empty());
    assert_eq!(
        exos_lab::status(&lab).expect("readable").state,
        exos_lab::State::Down
    );
}
