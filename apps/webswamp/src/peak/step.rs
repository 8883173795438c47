//! A step of the search: a load of its own at one rate, and whether it holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Bound, Limit, POINTS, Results, Verdict, micros};

/// How far the requests of a step may be from the rate: a thousandth.
const OFFERED_ERROR_MAX: f64 = 1e-3;

/// What became of a step.
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) rate: f64,
    pub(super) holds: bool,
    /// As many requests were begun as the rate says.
    pub(super) is_reached: bool,
    /// What the bound is of.
    pub(super) value_us: Option<u64>,
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) busy_share: f64,
    pub(super) limited_by: Limit,
    pub(super) points_us: [Option<u64>; POINTS.len()],
}

impl Step {
    /// Judges a load of a rate that was measured for so long.
    pub(super) fn judge(rate: f64, measured: Duration, bound: &Bound, results: &Results) -> Self {
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
            limited_by: Verdict::of(results).limited_by,
            points_us: POINTS.map(|(_, quantile)| results.times_us.total.at(quantile)),
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
        for us in self.points_us {
            let _ = write!(text, "{:>10}", us.map_or("-".to_owned(), micros));
        }
        let busy = 100.0 * self.busy_share;
        let judgement = self.judgement();
        let _ = writeln!(text, "{:>8}{busy:>6.0} %  {judgement}", self.errors);
        text
    }

    pub(super) fn report(&self) -> StepReport {
        let points = POINTS.iter().zip(self.points_us);
        StepReport {
            rate: self.rate,
            holds: self.holds,
            is_reached: self.is_reached,
            bound_value_us: self.value_us,
            requests: self.requests,
            errors: self.errors,
            busy_share: self.busy_share,
            limited_by: self.limited_by,
            total_us: points.map(|((name, _), us)| (*name, us)).collect(),
        }
    }
}

/// A step of the search.
#[derive(Serialize, JsonSchema)]
pub struct StepReport {
    /// Requests a second.
    rate: f64,
    /// The bound was met, without errors, and the rate reached.
    holds: bool,
    /// As many requests were begun as the rate says.
    is_reached: bool,
    /// What the bound is of; `null` when nothing was answered.
    bound_value_us: Option<u64>,
    /// Requests of the measured time.
    requests: u64,
    /// Those of them without a whole response.
    errors: u64,
    /// The part of the time in which the generator's loop had something to do.
    busy_share: f64,
    /// Who was the limit in this step.
    limited_by: Limit,
    /// `p50`, `p75`, `p90`, `p99`, `p99.9` and `max` from when requests were meant to begin; each `null` when nothing was
    /// answered.
    total_us: BTreeMap<&'static str, Option<u64>>,
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
            value_us: Some(4000),
            requests: 300,
            errors: 0,
            busy_share: 0.25,
            limited_by: Limit::Nobody,
            points_us: [
                Some(100),
                Some(200),
                None,
                Some(4000),
                Some(5000),
                Some(6000),
            ],
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
            assert_eq!(step.value_us, step.points_us[3]);
            assert_eq!(step.holds, wanted == "holds");
        }
    }
}
