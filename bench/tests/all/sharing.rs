//! Short sessions with a daemon and programs of an ordinary user, on the real kernel. Without root they say SKIPPED and
//! pass.

use clap::Parser as _;
use exos_bench::Results as _;
use exos_bench::sharing::{Goal, SharingArgs, measure, run};
use exos_host::caps::{self, CapabilitySet};
use std::io::Write as _;

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    sharing: SharingArgs,
}

fn args(arguments: &[&str]) -> SharingArgs {
    Cli::try_parse_from(["bench"].iter().chain(arguments))
        .expect("a valid command line")
        .sharing
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    for (arguments, said) in [
        (["--runs", "0"], "--runs"),
        (["--seconds", "0"], "--seconds"),
        (["--rate", "0"], "--rate"),
        (["--uid", "0"], "--uid"),
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

/// Gates and namespaces of daemons that are there.
fn left_behind() -> Vec<String> {
    let gates = std::fs::read_dir("/sys/fs/bpf/exos").into_iter().flatten();
    let gates = gates.flatten().map(|e| e.path().display().to_string());
    let namespaces = exos_host::netns::NetNs::list().unwrap_or_default();
    let namespaces = namespaces
        .into_iter()
        .filter(|name| name.starts_with("exos-"));
    gates.chain(namespaces).collect()
}

/// The program that is measured is `exos`, which this test is not, so it runs where that has been built. No speed is
/// looked at: that programs did what was to be measured is.
#[test]
fn every_group_measures_something_and_leaves_nothing() {
    let exos = std::env::current_exe()
        .expect("there is one")
        .with_file_name("../exos");
    if !caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN) || !exos.exists() {
        // Past the test harness, which keeps to itself what passing tests print.
        let _ = std::io::stderr()
            .write_all(b"SKIPPED: a measurement of sharing needs root, and exos built before\n");
        return;
    }
    let _turn = crate::turn();
    let lab = format!("bshr-t{}", std::process::id());
    let exos = exos.to_string_lossy().into_owned();
    let only = [
        "send/ring",
        "fairness/receive",
        "latency/send",
        "packet",
        "grant",
    ];
    let only: Vec<&str> = only.iter().flat_map(|name| ["--only", name]).collect();
    let how = [
        "--quick",
        "--seconds",
        "0.5",
        "--lab",
        &lab,
        "--exos",
        &exos,
        "--helpers",
        &exos,
    ];
    let report = measure(&args(&[&only[..], &how].concat())).expect("all is there");
    let figure = |name: &str| {
        let found = report.figures.iter().find(|figure| figure.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", report.figures))
    };
    for name in [
        "fairness/send/ring/share",
        "fairness/send/ring/hostile",
        "fairness/send/packet/share",
        "fairness/receive/share",
        "fairness/receive/attacked",
        "fairness/latency/send/p99/ratio",
        "protection/packet/send/daemon",
        "protection/packet/receive/program",
        "demultiplexing/grant/effect/worst",
        "demultiplexing/grant/others/granting/p99",
    ] {
        let figure = figure(name);
        assert!(
            figure.value > 0.0 && figure.runs == [figure.value],
            "{figure:?}"
        );
    }
    let share = figure("fairness/send/ring/share");
    assert_eq!(share.goal, Some(Goal::AtLeast(0.45)));
    assert_eq!(share.met, Some(share.value >= 0.45));
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("valid");
    let goal = &json["figures"][0]["goal"];
    assert!(goal.is_null() || goal.is_object(), "{goal}");
    assert!(report.table().contains("fairness/send/ring/share"));
    let ours = left_behind();
    let of_lab = |name: &&String| name.contains(&lab);
    assert_eq!(ours.iter().filter(of_lab).count(), 0, "{ours:?}");
    assert_eq!(
        exos_lab::status(&lab).expect("readable").state,
        exos_lab::State::Down
    );
}
