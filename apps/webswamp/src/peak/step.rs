//! A step of the search: a load of its own at one rate, and whether it holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Bound, Limit, POINTS, Results, Verdict, micros};

/// How far the requests of a step may be from the rate: a thousandth.
const OFFERED_ERROR_MAX: f64 = 1e-3;

/// A step of the search.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Step {
    /// Requests a second.
    pub(super) rate: f64,
    /// The bound was met, without errors, and the rate reached.
    pub(super) holds: bool,
    /// As many requests were begun as the rate says.
    pub(super) is_reached: bool,
    /// What the bound is of; `null` when nothing was answered.
    pub(super) bound_value_us: Option<u64>,
    /// Requests of the measured time.
    pub(super) requests: u64,
    /// Those of them without a whole response.
    pub(super) errors: u64,
    /// The part of the time in which the generator's loop had something to do.
    pub(super) busy_share: f64,
    /// Who was the limit in this step.
    pub(super) limited_by: Limit,
    /// `p50`, `p75`, `p90`, `p99`, `p99.9` and `max` from when requests were meant to begin; each `null` when nothing was
    /// answered.
    pub(super) total_us: BTreeMap<&'static str, Option<u64>>,
}

impl Step {
    /// Judges a load of a rate that was measured for so long.
    pub(super) fn judge(rate: f64, measured: Duration, bound: &Bound, results: &Results) -> Self {
        let expected = rate * measured.as_secs_f64();
        let bound_value_us = bound.value_us(results);
        let (requests, errors) = (results.requests(), results.errors_all());
        let is_reached = is_offered(requests, expected);
        let total = &results.times_us.total;
        Self {
            rate,
            holds: bound.holds(bound_value_us) && errors == 0 && is_reached,
            is_reached,
            bound_value_us,
            requests,
            errors,
            busy_share: results.busy_share(),
            limited_by: Verdict::of(results).limited_by,
            total_us: POINTS
                .map(|(name, quantile)| (name, total.at(quantile)))
                .into(),
        }
    }

    /// Whether it holds, or why not, as far as that is one thing.
    pub(super) fn judgement(&self) -> &'static str {
        match (self.holds, self.is_reached) {
            (true, _) => "holds",
            (false, true) => "does not hold",
            (false, false) => "does not reach its rate",
        }
    }

    pub(super) fn line(&self) -> String {
        let mut text = format!("{:>12.1}", self.rate);
        for (name, _) in POINTS {
            let _ = write!(text, "{:>10}", self.total(name));
        }
        let busy = 100.0 * self.busy_share;
        let judgement = self.judgement();
        let _ = writeln!(text, "{:>8}{busy:>6.0} %  {judgement}", self.errors);
        text
    }

    /// How long this part of all took at most, in total, as a person reads it.
    pub(super) fn total(&self, point: &str) -> String {
        self.total_us[point].map_or("-".to_owned(), micros)
    }
}

/// Requests begin at whole numbers of the rate's area, so that one more or less is none too few.
fn is_offered(requests: u64, expected: f64) -> bool {
    (requests as f64 - expected).abs() <= (expected * OFFERED_ERROR_MAX).max(1.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::tests::results;

    /// A step at a rate.
    pub(crate) fn step(rate: f64, holds: bool) -> Step {
        Step {
            rate,
            holds,
            is_reached: true,
            bound_value_us: Some(4000),
            requests: 300,
            errors: 0,
            busy_share: 0.25,
            limited_by: Limit::Nobody,
            total_us: [
                ("p50", Some(100)),
                ("p75", Some(200)),
                ("p90", None),
                ("p99", Some(4000)),
                ("p99.9", Some(5000)),
                ("max", Some(6000)),
            ]
            .into(),
        }
    }

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

    /// 900 responses of some 503 us in 9 s, and a request that was reset.
    #[test]
    fn what_holds() {
        let nine = Duration::from_secs(9);
        let with_error = results(1e9, 500);
        let mut good = with_error.clone();
        good.errors.clear();
        for (rate, bound, results, wanted) in [
            (100.0, "p99<1ms", &good, "holds"),
            (100.0, "p99<500us", &good, "does not hold"),
            (100.0, "p99<1ms", &with_error, "does not hold"),
            (101.0, "p99<1ms", &good, "does not reach its rate"),
        ] {
            let bound: Bound = bound.parse().unwrap();
            let step = Step::judge(rate, nine, &bound, results);
            assert_eq!(step.judgement(), wanted, "{rate} {bound}");
            assert_eq!(step.bound_value_us, step.total_us["p99"]);
            assert_eq!(step.holds, wanted == "holds");
        }
    }
}
