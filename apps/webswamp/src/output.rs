//! How results are told, of a load that has just ended and of merged ones alike.

use std::io::Write as _;
use std::process::ExitCode;

use exos_host::{Error, Result};

use crate::report::{Results, Threshold};

/// The exit status of a load that ran and met a condition of `--fail-if`.
const FAILED: u8 = 2;

/// How results are told.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Print the results as JSON (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// End with status 2 if this is so, as 'p99>5ms', 'service:p99.9>1s', 'rate<1000', 'error-share>0.1%' (repeatable)
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Threshold>,
}

impl OutputArgs {
    /// Prints the results, and a line on standard error for each condition that they meet.
    pub(crate) fn tell(&self, results: &Results) -> Result<ExitCode> {
        print(&if self.json {
            results.json()
        } else {
            results.text()
        })?;
        let failed: Vec<String> = self
            .fail_if
            .iter()
            .filter_map(|one| one.met_by(results))
            .collect();
        for line in &failed {
            eprintln!("exos load: {line}");
        }
        Ok(if failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            FAILED.into()
        })
    }
}

/// Writes it. A reader that went away has seen enough.
pub(crate) fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write to standard output", e))
        }
        _ => Ok(()),
    }
}
