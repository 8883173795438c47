//! Where and how a session measured: what reports of experiments without web servers begin with.

use super::setting::notes;
use crate::stage::Stage;
use exos_host::{Result, kernel};
use schemars::JsonSchema;
use serde::Serialize;

/// The machine, the program and the options.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Environment {
    /// The kernel's release.
    pub kernel: String,
    /// What our program calls itself.
    pub exos: String,
    /// How often everything was measured.
    pub runs: u32,
    /// How long one measurement was meant to last.
    pub seconds: f64,
    /// What distorts the numbers, a sentence each; empty when all is well.
    pub notes: Vec<String>,
}

impl Environment {
    /// Of a session that has come to its end.
    pub(crate) fn of(stage: &Stage, seconds: f64) -> Result<Self> {
        Ok(Self {
            kernel: kernel::release(),
            exos: stage.version()?,
            runs: stage.runs,
            seconds,
            notes: stage.notes(),
        })
    }

    /// Where and how, in a line.
    pub(crate) fn line(&self) -> String {
        let (kernel, exos, runs, seconds) = (&self.kernel, &self.exos, self.runs, self.seconds);
        format!("kernel {kernel}, {exos}; medians of {runs} runs of {seconds} s")
    }

    /// What distorts the numbers.
    pub(crate) fn remarks(&self) -> Vec<String> {
        notes(&self.notes).collect()
    }
}

/// One for tests.
#[cfg(test)]
pub(crate) fn for_tests(seconds: f64) -> Environment {
    Environment {
        kernel: "6.1.0".into(),
        exos: "exos 0.1.0".into(),
        runs: 3,
        seconds,
        notes: vec!["core 0 was busy".into()],
    }
}
