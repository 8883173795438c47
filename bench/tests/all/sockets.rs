//! A short session on the real kernel. Without root it says SKIPPED and passes.

use crate::common::{
    Missing, OF_CELLS_REFUSED, Session, assert_refused, assert_unwritable_files_are_told,
    first_for_or_then_for, is_installed,
};
use exos_bench::sockets::{SocketsArgs, measure, run};

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    assert_refused(measure, &OF_CELLS_REFUSED);
    assert_unwritable_files_are_told(run);
}

/// No speed is looked at.
#[test]
fn programs_that_are_installed_are_measured_both_ways_and_nothing_is_left() {
    first_for_or_then_for(["1s", "10s"], installed_programs);
}

fn installed_programs(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("bsck-t", &["redis-server", "memcached"]) else {
        return missing;
    };
    // A value of each protocol, a server of another user, what a client says, and the time that it takes.
    let jobs = [
        "redis/get",
        "memcached/set",
        "postgresql/select",
        "iperf3/sends",
        "haproxy/http",
        "curl/large",
    ];
    let only: Vec<&str> = jobs.iter().flat_map(|job| ["--only", job]).collect();
    let args: SocketsArgs =
        session.args(&[&only[..], &["--quick", "--duration", duration]].concat());
    let report = measure(&args).expect("all is there");
    session.assert_nothing_is_left();
    let left_out = |job: &str| report.left_out.iter().find(|line| line.starts_with(job));
    for line in &report.left_out {
        assert!(line.contains("is not installed"), "{line}");
    }
    assert_eq!(left_out("iperf3").is_none(), is_installed("iperf3"));
    let names = jobs.iter().filter(|job| left_out(job).is_none());
    for name in names {
        for part in ["kernel", "exos-run", "exos-run/busy", "rate"] {
            let name = format!("{name}/{part}");
            let figure = report.figures.iter().find(|figure| figure.name == name);
            let figure = figure.unwrap_or_else(|| panic!("no {name} in {:?}", report.figures));
            missing.unless(figure.value > 0.0, figure);
            assert_eq!(figure.goal.is_some(), part == "rate", "{figure:?}");
        }
    }
    missing
}
