//! Short sessions with a daemon and programs of an ordinary user, on the real kernel. Without root they say SKIPPED and
//! pass.

use crate::common::{
    Missing, Session, assert_refused, assert_unwritable_files_are_told, first_for_or_then_for,
};
use exos_bench::Results as _;
use exos_bench::sharing::{Goal, SharingArgs, measure, run};

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    let cases = [
        (["--runs", "0"], "--runs"),
        (["--rate", "0"], "--rate"),
        (["--uid", "0"], "--uid"),
    ];
    assert_refused(measure, &cases);
    assert_unwritable_files_are_told(run);
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

/// No speed is looked at: that programs did what was to be measured is.
#[test]
fn every_group_measures_something_and_leaves_nothing() {
    first_for_or_then_for(["500ms", "5s"], every_group);
}

fn every_group(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("bshr-t", &[]) else {
        return missing;
    };
    let only = [
        "send/ring",
        "fairness/receive",
        "latency/send",
        "packet",
        "grant",
        "persistent/exos/64",
    ];
    let only: Vec<&str> = only.iter().flat_map(|name| ["--only", name]).collect();
    let how = ["--quick", "--duration", duration];
    let args: SharingArgs = session.args(&[&only[..], &how].concat());
    let report = measure(&args).expect("all is there");
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
        "protection/persistent/exos/64/device",
        "protection/persistent/exos/64/queue/of-device",
        "protection/persistent/exos/64/batches/of-queue",
        "protection/persistent/exos/64/batches/client",
    ] {
        let figure = figure(name);
        if missing.unless(figure.value > 0.0, figure) {
            assert_eq!(figure.runs, [figure.value]);
        }
    }
    // Each way of the daemon's to send was used, or its absence is told.
    let batches = "protection/persistent/exos/64/batches";
    let [checked, given_back] =
        ["checked", "given-back"].map(|part| figure(&format!("{batches}/{part}")).value);
    missing.unless(given_back <= checked / 2.0, &(given_back, checked));
    let is_lent = |line: &String| !line.starts_with("live frames, trusted, are left out");
    if report.environment.notes.iter().all(is_lent) {
        missing.unless(checked > 0.0, &report.figures);
    }
    for way in ["trusted", "guarded"] {
        let name = format!("protection/persistent/exos/64/{way}/live");
        let found = report.figures.iter().find(|figure| figure.name == name);
        let told = format!("live frames, {way}, are left out: ");
        let is_told = report
            .environment
            .notes
            .iter()
            .any(|note| note.starts_with(&told));
        assert_eq!(
            found.is_none(),
            is_told,
            "{way}: {:?}",
            report.environment.notes
        );
        missing.unless(found.is_none_or(|live| live.value > 0.0), &found);
    }
    let share = figure("fairness/send/ring/share");
    assert_eq!(share.goal, Some(Goal::AtLeast(0.45)));
    assert_eq!(share.met, Some(share.value >= 0.45));
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("valid");
    let goal = &json["figures"][0]["goal"];
    assert!(goal.is_null() || goal.is_object(), "{goal}");
    assert!(report.table().contains("fairness/send/ring/share"));
    let ours = left_behind();
    let of_lab = |name: &&String| name.contains(&session.lab);
    assert_eq!(ours.iter().filter(of_lab).count(), 0, "{ours:?}");
    session.assert_nothing_is_left();
    missing
}
