//! A short session on the real kernel. Without root it says SKIPPED and passes.

use crate::common::{Session, assert_refused, assert_unwritable_files_are_told};
use exos_bench::ash::{AshArgs, measure, run};
use std::path::Path;

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    let cases = [
        (["--runs", "0"], "--runs"),
        (["--only", "no-such"], "no cell"),
    ];
    assert_refused(measure, &cases);
    assert_unwritable_files_are_told(run);
}

/// No speed is looked at.
#[test]
fn handlers_are_measured_beside_programs_and_nothing_is_left() {
    let Some(session) = Session::begin("bash-t", &[]) else {
        return;
    };
    let only = ["roundtrip", "sandbox", "places", "layers", "download"];
    let has_memcached = Path::new("/usr/bin/memcached").exists();
    let only = only.into_iter().chain(has_memcached.then_some("get/udp"));
    let only: Vec<&str> = only.flat_map(|name| ["--only", name]).collect();
    let args: AshArgs = session.args(&[&only[..], &["--quick"]].concat());
    let report = measure(&args).expect("all is there");
    session.assert_nothing_is_left();
    let named = |name: &str| {
        let figure = report.figures.iter().find(|figure| figure.name == name);
        figure.unwrap_or_else(|| panic!("no {name} in {:?}", report.figures))
    };
    let got = has_memcached.then_some(("get/udp/rate", true));
    for (name, has_goal) in [
        ("roundtrip/handler", false),
        ("roundtrip/polling/p99", false),
        ("roundtrip/sleeping", false),
        ("roundtrip/kernel-polling", false),
        ("roundtrip/handler/kernel-sleeping", true),
        ("sandbox/ratio", true),
        ("places/compiled", false),
        ("places/stack", false),
        ("layers/three", false),
        ("download/in-force", true),
    ]
    .into_iter()
    .chain(got)
    {
        let figure = named(name);
        assert!(figure.value > 0.0, "{figure:?}");
        assert_eq!(figure.goal.is_some(), has_goal, "{figure:?}");
    }
    // Without a gap, however slow the machine: what waits for the program for long is asked again, and counts as lost.
    assert!(named("download/lost").goal.is_some());
}
