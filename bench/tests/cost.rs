//! `exos bench cost` as a whole, small: it starts itself again, under callgrind too. Without valgrind the counting
//! is SKIPPED.
//!
//! This is a program of its own (`harness = false`), because what is measured is the program that runs.

use clap::Parser as _;
use exos_bench::Results as _;
use exos_bench::cost::{CostArgs, Report, measure};
use exos_bench::{BenchArgs, run};
use std::process::ExitCode;

#[derive(clap::Parser)]
enum Cli {
    /// What the test starts itself with.
    Bench(Box<BenchArgs>),
    /// The test.
    Test(CostArgs),
}

fn measured(arguments: &[&str]) -> Report {
    let words = ["cost", "test"].iter().chain(arguments);
    let Cli::Test(args) = Cli::try_parse_from(words).expect("a valid command line") else {
        panic!("a test's arguments");
    };
    measure(&args).expect("it can be measured")
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "bench") {
        let Cli::Bench(args) = Cli::parse() else {
            panic!("the bench's arguments");
        };
        return run(*args).expect("a part that can be measured");
    }
    memory_and_time();
    few_connections_are_measured_once_and_with_huge_pages();
    instructions_are_the_same_every_time();
    println!("bench cost: ok");
    ExitCode::SUCCESS
}

fn memory_and_time() {
    let report = measured(&["--no-instructions", "--connections", "20000"]);
    assert!(report.instructions.is_empty() && report.skipped.is_empty());
    let [few, many] = report.idle[..] else {
        panic!("few connections and many: {report:?}");
    };
    assert_eq!((few.connections, many.connections), (1000, 20_000));
    assert!((100.0..4096.0).contains(&many.bytes_used), "{many:?}");
    let waiting = report.time_wait.expect("connections in TIME-WAIT");
    assert!((40.0..1024.0).contains(&waiting.bytes), "{waiting:?}");
    assert_eq!(report.timers.expect("timers").timers, 20_000);
    // A report without instructions has no heading for them.
    let table = report.table();
    assert!(table.contains("Idle connections") && !table.contains("Instructions"));
}

/// Whether there are huge pages or none.
fn few_connections_are_measured_once_and_with_huge_pages() {
    let report = measured(&["--no-instructions", "--huge-pages", "--connections", "500"]);
    let connections: Vec<u32> = report.idle.iter().map(|idle| idle.connections).collect();
    assert_eq!(connections, [500, 500], "{report:?}");
}

fn instructions_are_the_same_every_time() {
    let arguments = [
        "--connections=0",
        "--operations=100",
        "--scenarios=receive,request",
        "--families=ipv6",
        "--links=verified",
    ];
    let report = measured(&arguments);
    if let Some(skipped) = report.skipped.first() {
        println!("{skipped}");
        assert!(skipped.starts_with("SKIPPED") && skipped.contains("apt install valgrind"));
        return;
    }
    assert_eq!(report.instructions.len(), 4);
    for counted in &report.instructions {
        assert!(counted.instructions > 300.0, "{counted:?}");
        assert!((1.0..counted.instructions).contains(&counted.transmitting));
    }
    let again = measured(&arguments);
    for (first, second) in report.instructions.iter().zip(&again.instructions) {
        assert_eq!(first.instructions, second.instructions, "{first:?}");
    }
}
