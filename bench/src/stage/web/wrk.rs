//! wrk: how it is told to load a server, and what it reports.

use super::load::WebLoad;
use crate::stage::process::find_program;
use crate::stage::request::{Connection, Errors};
use crate::stage::session::Stage;
use exos_host::{Error, Result};
use serde::Deserialize;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes wrk print its results on one line.
const SCRIPT: &str = include_str!("report.lua");

/// What it measured.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub(crate) struct Measured {
    /// Answers received.
    pub requests: u64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// Bytes received, heads of answers included.
    pub bytes: u64,
    /// From a request to its whole answer, the median; with a new connection for each request, without its making.
    pub p50_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// What went wrong.
    pub errors: Errors,
}

/// The program.
pub(crate) fn find() -> Result<PathBuf> {
    find_program("wrk", "wrk")
}

impl WebLoad {
    /// A command by which wrk makes it; `start` gives one that starts a program. wrk counts in whole seconds, and says what it has measured
    /// also when it is interrupted before.
    pub fn by_wrk(
        &self,
        stage: &Stage,
        start: impl FnOnce(&Path) -> Result<Command>,
    ) -> Result<Command> {
        let wrk = find()?;
        let mut command = if self.seconds.fract() == 0.0 {
            start(&wrk)?
        } else {
            let mut command = start(&find_program("timeout", "coreutils")?)?;
            command.args(["--preserve-status", "--signal=INT"]);
            command.arg(format!("{}s", self.seconds)).arg(wrk);
            command
        };
        command.arg("-t1").arg(format!("-c{}", self.connections));
        command.arg(format!("-d{}s", self.whole_seconds()));
        command
            .arg("-s")
            .arg(stage.scratch.write("report.lua", SCRIPT)?);
        if self.connection == Connection::New {
            command.args(["-H", "Connection: close"]);
        }
        command.arg(self.url());
        Ok(command)
    }
}

impl Measured {
    /// What it says that it measured.
    pub fn read(output: &str) -> Result<Self> {
        let strange = || Error::new(format!("wrk did not report what it measured: {output}"));
        parse(output).ok_or_else(strange)
    }

    /// An error where nothing was answered.
    pub fn of_answers(output: &str, server: impl Display) -> Result<Self> {
        let measured = Self::read(output)?;
        let errors = measured.errors;
        match measured.requests {
            0 => Err(Error::new(format!(
                "{server} did not answer a single request under load ({errors:?})"
            ))),
            _ => Ok(measured),
        }
    }

    /// How long it took.
    pub fn seconds(&self) -> f64 {
        self.duration_us as f64 / 1e6
    }

    /// Answers a second.
    pub fn per_sec(&self) -> f64 {
        self.requests as f64 / self.seconds()
    }
}

/// Reads the line that the script prints.
fn parse(output: &str) -> Option<Measured> {
    let mut lines = output.lines();
    let line = lines.find_map(|line| line.strip_prefix("exos-bench "))?;
    let measured: Measured = serde_json::from_str(line).ok()?;
    (measured.duration_us > 0).then_some(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"exos-bench {"requests":10,"duration_us":2000000,"bytes":12345,"p50_us":50,"p99_us":99,"errors":{"connect":1,"read":2,"write":3,"timeout":4,"status":5}}"#;

    #[test]
    fn the_line_of_the_script_is_found_and_read() {
        let output = format!("Running 2s test @ http://10.10.0.1/\n  1 threads\n{LINE}\n");
        let measured = Measured::read(&output).expect("there");
        assert_eq!((measured.requests, measured.bytes), (10, 12_345));
        assert_eq!((measured.seconds(), measured.per_sec()), (2.0, 5.0));
        assert_eq!((measured.p50_us, measured.p99_us), (50, 99));
        let errors = measured.errors;
        let errors = [
            errors.connect,
            errors.read,
            errors.write,
            errors.timeout,
            errors.status,
        ];
        assert_eq!(errors, [1, 2, 3, 4, 5]);
        assert_eq!(measured.errors.total(), 15);
    }

    #[test]
    fn other_output_is_not_mistaken_for_a_result() {
        for output in [
            "",
            "exos-bench",
            "exos-bench {}",
            "exos-bench 1 2 3",
            &LINE.replace("2000000", "0"),
            &LINE.replace("12345", "x"),
        ] {
            assert_eq!(parse(output), None, "{output:?}");
        }
        let silent = LINE.replace(":10,", ":0,");
        let error = Measured::of_answers(&silent, "nginx").expect_err("nothing was answered");
        assert!(error.what.contains("nginx did not answer"), "{error}");
    }
}
