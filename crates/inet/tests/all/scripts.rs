//! The packet scripts of `tests/scripts`, over IPv4 and IPv6: one test for each file.
//!
//! `docs/internals/scripts.md` describes their format, and how to read a failure.
//! `EXOS_SCRIPT=name cargo test -p exos-inet --test all scripts` runs only those whose name contains it.

use crate::runner;

macro_rules! areas {
    ($($test:ident: $file:literal,)*) => {
        $( #[test] fn $test() { runner::run_file($file); } )*
        const AREAS: &[&str] = &[$($file),*];
    };
}

areas! {
    blocks: "blocks",
    closing: "closing",
    data: "data",
    ecn: "ecn",
    handshake: "handshake",
    icmp: "icmp",
    life: "life",
    memory: "memory",
    options: "options",
    recovery: "recovery",
    reset: "reset",
    retransmission: "retransmission",
    sack: "sack",
    window: "window",
}

/// A file that no test runs would be believed to pass.
#[test]
fn every_file_is_run() {
    let files = std::fs::read_dir(runner::folder()).expect("the folder of the scripts");
    for file in files {
        let name = file
            .expect("a file")
            .file_name()
            .into_string()
            .expect("a name");
        let area = name
            .strip_suffix(".script")
            .unwrap_or_else(|| panic!("{name}: not a script"));
        assert!(
            AREAS.contains(&area),
            "{name} is run by no test: add it to `areas!`"
        );
    }
}

/// The runner notices what it is there to notice: each of these scripts is wrong, in the way that the
/// failure says.
#[test]
fn failures_say_what_is_wrong() {
    const HEAD: &str = "script s\n0.000 listen\n< S seq 0 win 9000 mss 1000\n";
    let cases = [
        ("> S seq 0", "flags are S., not S"),
        ("> S. seq 0 ack 2 ...", "ack is 1, not 2"),
        ("> S. seq 0 ack 1", "there is an option mss"),
        ("> S. seq 0 ack 1 ts * * ...", "there is no option ts"),
        (
            "1.000 < . seq 1 ack 1",
            "unexpected at 0.0000: > S. seq 0 ack 1",
        ),
        ("0.500 > S. seq 0 ack 1 ...", "it left 0.5000 s early"),
        (
            "> S. seq 0 ack 1 ...\n0.500 > . seq 1 ack 1",
            "nothing left until 0.5050",
        ),
        ("> nothing", "unexpected at 0.0000"),
        (
            "> S. seq 0 ack 1 ...\n= accepted",
            "the program has not heard `accepted`",
        ),
        (
            "> S. seq 0 ack 1 ...\n= state established",
            "the state is syn-received",
        ),
        (
            "> S. seq 0 ack 1 ...\n= counter tcp_accepted 1",
            "tcp_accepted is 0, not 1",
        ),
        ("frobnicate", "is not open"),
        ("> Q seq 0", "`Q` are no flags"),
        ("< . seq 1", "`ack N` goes with"),
        ("< S seq 0 mss", "something must follow `mss`"),
        (
            "> S. seq 0 ack 1 ...\n< . seq 1 ack 1\n< R seq 1",
            "connection #1 is over (Some(Reset))",
        ),
    ];
    for (lines, want) in cases {
        let failures = runner::run_text("test", &format!("{HEAD}{lines}\n"), false, "");
        let [failure] = &failures[..] else {
            panic!("{lines}: {} failures", failures.len());
        };
        assert!(
            failure.contains(want),
            "{lines}: no `{want}` in:\n{failure}"
        );
        assert!(
            failure.starts_with("test.script:"),
            "no place in:\n{failure}"
        );
    }
}
