//! What tests of all experiments need: their options, a session on the real kernel, and what is refused.

use clap::Parser as _;
use clap::error::ErrorKind;
use exos_host::Result;
use exos_host::caps::{self, CapabilitySet};
use std::fmt::Debug;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(clap::Parser)]
struct Cli<A: clap::Args> {
    #[command(flatten)]
    args: A,
}

/// The options of an experiment, of a command line.
pub(crate) fn args<A: clap::Args>(arguments: &[&str]) -> A {
    Cli::<A>::try_parse_from(["bench"].iter().chain(arguments))
        .expect("a valid command line")
        .args
}

pub(crate) fn is_installed(name: &str) -> bool {
    exos_bench::find_program(name, name).is_ok()
}

/// A session that measures alone: files and cores are the process's, so tests measure one after the other.
pub(crate) struct Session {
    pub(crate) lab: String,
    /// The program that is measured, which this test is not.
    exos: String,
    _turn: MutexGuard<'static, ()>,
}

impl Session {
    /// In a lab of a name that begins so. Without root, `exos` built before, or one of these other programs, it is said that
    /// the test is skipped.
    pub(crate) fn begin(lab: &str, others: &[&str]) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let exos = std::env::current_exe()
            .expect("there is one")
            .with_file_name("../exos");
        let may = caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN);
        if !may || !exos.exists() || !others.iter().all(|name| is_installed(name)) {
            let needed = [&["root", "exos built before"], others].concat().join(", ");
            // Past the test harness, which keeps to itself what passing tests print.
            let line = format!("SKIPPED: a measurement needs {needed}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            return None;
        }
        Some(Self {
            lab: format!("{lab}{}", std::process::id()),
            exos: exos.to_string_lossy().into_owned(),
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// These options, and those that say where and with which programs it measures.
    pub(crate) fn args<A: clap::Args>(&self, arguments: &[&str]) -> A {
        let exos = &self.exos;
        let own = ["--lab", &self.lab, "--exos", exos, "--helpers", exos];
        args(&[arguments, &own].concat())
    }

    /// The lab is there no more.
    pub(crate) fn assert_nothing_is_left(&self) {
        let left = exos_lab::status(&self.lab).expect("readable").state;
        assert_eq!(left, exos_lab::State::Down);
    }
}

/// What a session was to measure, and of which nothing came.
#[derive(Default)]
pub(crate) struct Missing(Vec<String>);

impl Missing {
    /// Whether something of this came. Where not, it is missing.
    pub(crate) fn unless(&mut self, came: bool, what: &dyn Debug) -> bool {
        if !came {
            self.0.push(format!("{what:?}"));
        }
        came
    }

    /// What was measured. Nothing where a cell had so little of a moment that it was refused: that is missing.
    pub(crate) fn measured<T>(&mut self, report: Result<T>) -> Option<T> {
        const OF_A_MOMENT: [&str; 2] = ["not a single message", "handshakes were full, and"];
        match report {
            Err(error) if OF_A_MOMENT.iter().any(|it| error.to_string().contains(it)) => {
                self.0.push(error.to_string());
                None
            }
            report => Some(report.expect("all is there")),
        }
    }
}

/// A test of a session whose cells are measured for this long: for a moment; and where something is missing, for ten times as long, for of a
/// moment a busy machine may have nothing at all for what is measured. Whatever else is wrong fails in either.
pub(crate) fn briefly_or_long(test: impl Fn(&str) -> Missing) {
    first_for_or_then_for(["150ms", "1500ms"], test);
}

/// Likewise for the first of these, and for the other.
pub(crate) fn first_for_or_then_for(durations: [&str; 2], test: impl Fn(&str) -> Missing) {
    let [moment, long] = durations;
    if !test(moment).0.is_empty() {
        let missing = test(long).0;
        assert!(missing.is_empty(), "nothing came of {missing:?}");
    }
}

/// What cannot be measured is said before anything is made, of a value by itself already by the command line's parser: options, and
/// what is said of them.
pub(crate) fn assert_refused<A: clap::Args, R: Debug>(
    measure: fn(&A) -> Result<R>,
    cases: &[([&str; 2], &str)],
) {
    for (arguments, said) in cases {
        let text = match Cli::<A>::try_parse_from(["bench"].iter().chain(arguments)) {
            Ok(cli) => measure(&cli.args).expect_err(said).what,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ValueValidation, "{error}");
                error.to_string()
            }
        };
        assert!(text.contains(said), "{text}");
    }
}

/// What no experiment measures: options, and what is said of them.
pub(crate) const OF_CELLS_REFUSED: [([&str; 2], &str); 2] = [
    (["--runs", "0"], "--runs"),
    (["--only", "no-such"], "no cell"),
];

/// What no experiment with web servers measures: options, and what is said of them.
pub(crate) const OF_SERVERS_REFUSED: [([&str; 2], &str); 4] = [
    (["--runs", "0"], "--runs"),
    (["--connections", "5000"], "--connections"),
    (["--sizes", "1000M"], "1000 MB"),
    (["--only", "no-such-cell"], "no cell"),
];

/// Files that cannot be written are told of before measuring.
pub(crate) fn assert_unwritable_files_are_told<A: clap::Args>(run: fn(&A) -> Result<ExitCode>) {
    for option in ["--json", "--html"] {
        let error = run(&args(&[option, "/no/such/directory/file"])).expect_err("not there");
        let text = error.to_string();
        assert!(text.contains("/no/such/directory/file"), "{text}");
    }
}
