//! A peak and the steps that found it, as a table for people and as JSON for programs.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::step::Step;
use crate::output::Found;
use crate::report::{Bound, POINTS, Results, Threshold};

/// A peak, and the steps that found it.
#[derive(Clone, Debug)]
pub struct Peak {
    /// What was loaded.
    pub(super) url: String,
    pub(super) bound: Bound,
    pub(super) rate: Option<f64>,
    pub(super) steps: Vec<Step>,
    /// Of the step at the peak.
    pub(super) results: Option<Results>,
    /// A signal ended the search before it was over.
    pub(super) is_unfinished: bool,
}

impl Peak {
    /// Steps in order of their rates.
    pub(super) fn by_rate(&self) -> Vec<&Step> {
        let mut steps: Vec<&Step> = self.steps.iter().collect();
        steps.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        steps
    }

    /// Steps in order of their rates; of a rate that was tried again only the last try, which decided.
    pub(super) fn deciding(&self) -> Vec<&Step> {
        let mut steps = self.by_rate();
        steps.reverse();
        steps.dedup_by_key(|step| step.rate);
        steps.reverse();
        steps
    }

    pub(super) fn found(&self) -> String {
        match self.rate {
            Some(rate) => format!("{} up to {rate:.1} requests/s", self.bound),
            None => format!("{} at no rate", self.bound),
        }
    }

    /// The highest rate that holds, and the load that did.
    pub fn best(&self) -> Option<(f64, &Results)> {
        self.rate.zip(self.results.as_ref())
    }
}

/// What a search for the peak found.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// `"exos.load.peak/1"`.
    schema: &'static str,
    /// The bound on latency, as it was written.
    bound: String,
    /// The highest rate that holds, in requests a second; `null` when none does.
    peak_rate: Option<f64>,
    /// A signal ended the search.
    is_unfinished: bool,
    /// The steps, in the order in which they were made.
    steps: Vec<Step>,
}

impl Found for Peak {
    fn text(&self) -> String {
        let mut text = format!("{:>12}", "requests/s");
        for (name, _) in POINTS {
            let _ = write!(text, "{name:>10}");
        }
        let _ = writeln!(text, "{:>8}{:>8}", "errors", "we busy");
        let steps = self.by_rate();
        steps.iter().for_each(|step| text.push_str(&step.line()));
        let _ = writeln!(text, "\n{}", self.found());
        if self.is_unfinished {
            text.push_str("the search was ended before it was over\n");
        }
        text
    }

    fn json(&self) -> String {
        let report = Report {
            schema: "exos.load.peak/1",
            bound: self.bound.to_string(),
            peak_rate: self.rate,
            is_unfinished: self.is_unfinished,
            steps: self.steps.clone(),
        };
        let value = serde_json::to_value(report).expect("names are text");
        format!("{value}\n")
    }

    fn html(&self) -> String {
        self.page()
    }

    fn meets(&self, condition: &Threshold) -> Option<String> {
        condition.met_by_peak(self.best())
    }
}
