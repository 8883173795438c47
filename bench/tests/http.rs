//! A short session against nginx on the real kernel. Without root, nginx or wrk it says SKIPPED and passes.

use clap::Parser as _;
use exos_bench::http::{HttpArgs, measure, run};
use exos_host::caps::{self, CapabilitySet};
use std::io::Write as _;
use std::path::Path;

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    http: HttpArgs,
}

fn args(arguments: &[&str]) -> HttpArgs {
    Cli::try_parse_from(["bench"].iter().chain(arguments))
        .expect("a valid command line")
        .http
}

#[test]
fn nginx_is_measured_in_a_lab_that_goes_again() {
    let installed = |paths: [&str; 2]| paths.iter().any(|path| Path::new(path).exists());
    let tools = installed(["/usr/sbin/nginx", "/usr/bin/nginx"])
        && installed(["/usr/bin/wrk", "/usr/local/bin/wrk"]);
    if !tools || !caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN) {
        // Past the test harness, which keeps to itself what passing tests print.
        let _ = std::io::stderr().write_all(b"SKIPPED: a measurement needs root, nginx and wrk\n");
        return;
    }
    let lab = format!("bench-t{}", std::process::id());
    let args = args(&[
        "--servers",
        "nginx",
        "--sizes",
        "100,10K",
        "--runs",
        "1",
        "--duration",
        "1",
        "--lab",
        &lab,
    ]);
    let report = measure(&args).expect("all is there");
    assert_eq!(report.cases.len(), 4, "two sizes, new and persistent");
    for case in &report.cases {
        let [result] = case.results.as_slice() else {
            panic!("one server: {case:?}")
        };
        assert!(result.requests_per_sec > 100.0, "{result:?}");
        assert!(
            result.megabytes_per_sec * 1e6
                > result.requests_per_sec * case.size_bytes as f64 * 0.99
        );
        assert!(
            result.server_cpu_us_per_request > 0.0 && result.server_core_us_per_request > 0.0,
            "{result:?}"
        );
        assert_eq!(result.errors, 0, "{result:?}");
    }
    assert_eq!(
        exos_lab::status(&lab).expect("readable").state,
        exos_lab::State::Down
    );
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    for (arguments, said) in [
        (["--runs", "0"], "--runs"),
        (["--duration", "0"], "--duration"),
        (["--connections", "5000"], "--connections"),
        (["--sizes", "1000M"], "1000 MB"),
    ] {
        let error = measure(&args(&arguments)).expect_err(said);
        assert!(error.what.contains(said), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_measuring() {
    let error = run(&args(&["--json", "/no/such/directory/file"])).expect_err("not there");
    assert!(
        error.to_string().contains("/no/such/directory/file"),
        "{error}"
    );
}
