//! A short session on the real kernel. Without root it says SKIPPED and passes.

use crate::common::{
    Missing, OF_CELLS_REFUSED, Session, assert_refused, assert_unwritable_files_are_told,
    first_for_or_then_for,
};
use exos_bench::iolite::{IoliteArgs, measure, run};

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    assert_refused(measure, &OF_CELLS_REFUSED);
    assert_unwritable_files_are_told(run);
}

/// No speed is looked at.
#[test]
fn pipes_are_measured_beside_the_kernels() {
    first_for_or_then_for(["100ms", "1s"], pipes_beside_the_kernels);
}

fn pipes_beside_the_kernels(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("biol-t", &[]) else {
        return missing;
    };
    let args: IoliteArgs = session.args(&["--quick", "--duration", duration]);
    let report = measure(&args).expect("all is there");
    let figure = |name: &str| report.figures.iter().find(|figure| figure.name == name);
    let streams = ["sum", "take"].into_iter().flat_map(|job| {
        let ways = [
            "ours",
            "ours-sleeping",
            "ours-untrusted",
            "pipe",
            "large-pipe",
            "vmsplice",
            "socket",
        ];
        ways.map(|way| (format!("pipes/65536/{job}/{way}"), false))
    });
    let trips = ["polling", "sleeping"].into_iter().flat_map(|how| {
        let ways = ["ours", "pipe", "socket"];
        ways.map(|way| (format!("pipes/1/{how}/{way}"), false))
    });
    let goals = [
        "pipes/65536/sum/by-pipe",
        "pipes/65536/sum/by-vmsplice",
        "pipes/1/polling/by-pipe",
        "pipes/1/sleeping/by-pipe",
    ];
    let goals = goals.map(|name| (name.to_owned(), true));
    let tools = ["tools/wc/1750000/by-gnu", "tools/cat-grep/1750000/by-gnu"];
    let tools = tools.map(|name| (name.to_owned(), false));
    let wakes = [
        "by-predicate",
        "by-predicate/cpu",
        "by-message",
        "by-message/cpu",
        "pipe",
        "pipe/cpu",
        "ratio-of-message",
        "ratio-of-pipe",
    ];
    let wakes = wakes.map(|name| (format!("wakes/1000/{name}"), false));
    let rest = goals.into_iter().chain(tools).chain(wakes);
    for (name, has_goal) in streams.chain(trips).chain(rest) {
        let figure = figure(&name).unwrap_or_else(|| panic!("{name} was not measured"));
        missing.unless(figure.value > 0.0, figure);
        assert_eq!(figure.goal.is_some(), has_goal, "{name}");
    }
    for way in ["by-predicate", "by-message"] {
        let name = format!("wakes/1000/{way}/false");
        let figure = figure(&name).unwrap_or_else(|| panic!("{name} was not measured"));
        assert!(figure.value >= 0.0, "{name}");
    }
    // The producer decides: whatever the machine does, of 66 messages one wakes at most; and the kernel counts what else stops the process.
    let slept = figure("wakes/1000/by-predicate").expect("measured").value;
    let in_vain = figure("wakes/1000/by-predicate/false").expect("measured");
    assert!(slept - in_vain.value < 0.2, "{slept} sleeps a message");
    missing
}
