//! `--find-peak`: the highest rate that meets a bound on latency, found by steps, with the curve of what they saw.
//!
//! A step is a load of its own at one rate. It holds when the bound does, when no request went without its response, and
//! when as many requests were begun as the rate says: a generator that falls behind finds no peaks.

mod bound;
mod search;

use std::fmt::Write as _;
use std::time::Duration;

use exos::signals::Signals;
use exos_host::Result;
use serde_json::{Value, json};

use crate::options::LoadArgs;
use crate::report::{POINTS, Results, micros};
use crate::run::load;

pub use bound::Bound;
pub use search::Search;

/// The first rate: what any server does.
const FIRST_RATE: f64 = 100.0;

/// The measured time of a step, and before it, when nothing else is said.
const STEP_TIME: Duration = Duration::from_secs(3);
const STEP_WARM_UP: Duration = Duration::from_secs(1);

/// How far the requests of a step may be from the rate: a thousandth.
const OFFERED_ERROR_MAX: f64 = 1e-3;

/// What became of a step.
#[derive(Clone, Debug)]
pub struct Step {
    rate: f64,
    holds: bool,
    /// As many requests were begun as the rate says.
    is_reached: bool,
    /// What the bound is of.
    value_us: Option<u64>,
    requests: u64,
    errors: u64,
    busy_share: f64,
    points_us: [Option<u64>; POINTS.len()],
}

impl Step {
    /// Judges a load of a rate that was measured for so long.
    fn judge(rate: f64, measured: Duration, bound: &Bound, results: &Results) -> Self {
        let expected = rate * measured.as_secs_f64();
        let value_us = bound.value_us(results);
        let (requests, errors) = (results.requests(), results.errors_all());
        let is_reached = is_offered(requests, expected);
        Self {
            rate,
            holds: bound.holds(value_us) && errors == 0 && is_reached,
            is_reached,
            value_us,
            requests,
            errors,
            busy_share: results.busy_share(),
            points_us: POINTS.map(|(_, quantile)| results.times_us.total.at(quantile)),
        }
    }

    fn line(&self) -> String {
        let mut text = format!("{:>12.1}", self.rate);
        for us in self.points_us {
            let _ = write!(text, "{:>10}", us.map_or("-".to_owned(), micros));
        }
        let busy = 100.0 * self.busy_share;
        let judgement = match (self.holds, self.is_reached) {
            (true, _) => "holds",
            (false, true) => "does not hold",
            (false, false) => "does not reach its rate",
        };
        let _ = writeln!(text, "{:>8}{busy:>6.0} %  {judgement}", self.errors);
        text
    }

    fn json(&self) -> Value {
        let points = POINTS.iter().zip(self.points_us);
        let points = points.map(|((name, _), us)| ((*name).to_owned(), json!(us)));
        json!({
            "rate": self.rate,
            "holds": self.holds,
            "is_reached": self.is_reached,
            "bound_value_us": self.value_us,
            "requests": self.requests,
            "errors": self.errors,
            "busy_share": self.busy_share,
            "total_us": Value::Object(points.collect()),
        })
    }
}

/// Requests begin at whole numbers of the rate's area, so that one more or less is none too few.
fn is_offered(requests: u64, expected: f64) -> bool {
    (requests as f64 - expected).abs() <= (expected * OFFERED_ERROR_MAX).max(1.0)
}

/// A peak, and the steps that found it.
#[derive(Clone, Debug)]
pub struct Peak {
    bound: Bound,
    rate: Option<f64>,
    steps: Vec<Step>,
    /// A signal ended the search before it was over.
    is_unfinished: bool,
}

impl Peak {
    /// A table.
    pub fn text(&self) -> String {
        let mut text = format!("{:>12}", "requests/s");
        for (name, _) in POINTS {
            let _ = write!(text, "{name:>10}");
        }
        let _ = writeln!(text, "{:>8}{:>8}", "errors", "we busy");
        let mut steps: Vec<&Step> = self.steps.iter().collect();
        steps.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        steps.iter().for_each(|step| text.push_str(&step.line()));
        let _ = match self.rate {
            Some(rate) => writeln!(text, "\n{} up to {rate:.1} requests/s", self.bound),
            None => writeln!(text, "\n{} at no rate", self.bound),
        };
        if self.is_unfinished {
            text.push_str("the search was ended before it was over\n");
        }
        text
    }

    /// An object.
    pub fn json(&self) -> String {
        let steps: Vec<Value> = self.steps.iter().map(Step::json).collect();
        let object = json!({
            "schema": "exos.load.peak/1",
            "bound": self.bound.to_string(),
            "peak_rate": self.rate,
            "is_unfinished": self.is_unfinished,
            "steps": steps,
        });
        format!("{object}\n")
    }
}

/// Searches the peak; each step's line is told.
///
/// # Errors
///
/// A load could not be begun, or its link was taken away.
pub fn find(
    args: &LoadArgs,
    bound: &Bound,
    signals: &Signals,
    mut told: impl FnMut(&str),
) -> Result<Peak> {
    let mut args = args.clone();
    // A step is told when it is over.
    (args.show.quiet, args.show.progress) = (true, false);
    if args.warm_up.is_zero() {
        args.warm_up = STEP_WARM_UP;
    }
    let duration = args.duration.unwrap_or(STEP_TIME + args.warm_up);
    args.duration = Some(duration);
    let mut search = Search::new(FIRST_RATE);
    let mut steps = Vec::new();
    while let Some(rate) = search.rate()
        && !signals.stop_requested()
    {
        args.set_rate(rate);
        let results = load(&args, signals)?.results();
        if signals.stop_requested() {
            break;
        }
        let measured = duration.saturating_sub(args.warm_up);
        let step = Step::judge(rate, measured, bound, &results);
        told(&step.line());
        search.tell(step.holds);
        steps.push(step);
    }
    Ok(Peak {
        bound: bound.clone(),
        rate: search.peak(),
        steps,
        is_unfinished: search.rate().is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offered() {
        for (requests, expected, is_enough) in [
            (100, 100.4, true),
            (99, 100.4, false),
            (10_000, 10_009.0, true),
            (10_000, 10_011.0, false),
            (10_011, 10_000.0, false),
            (0, 0.5, true),
        ] {
            assert_eq!(
                is_offered(requests, expected),
                is_enough,
                "{requests} {expected}"
            );
        }
    }

    #[test]
    fn what_is_said() {
        let step = |rate, holds| Step {
            rate,
            holds,
            is_reached: true,
            value_us: Some(4000),
            requests: 300,
            errors: 0,
            busy_share: 0.25,
            points_us: [
                Some(100),
                Some(200),
                None,
                Some(4000),
                Some(5000),
                Some(6000),
            ],
        };
        let peak = Peak {
            bound: "p99<5ms".parse().unwrap(),
            rate: Some(100.0),
            steps: vec![step(200.0, false), step(100.0, true)],
            is_unfinished: false,
        };
        let text = peak.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].trim_start().starts_with("100.0"), "{text}");
        assert!(
            lines[1].ends_with("25 %  holds") && lines[2].ends_with("does not hold"),
            "{text}"
        );
        assert!(
            text.ends_with("\np99<5ms up to 100.0 requests/s\n"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&peak.json()).unwrap();
        assert_eq!(json["steps"][0]["total_us"]["p99"], 4000);
        assert_eq!(
            (&json["peak_rate"], &json["bound"]),
            (&json!(100.0), &json!("p99<5ms"))
        );
    }
}
