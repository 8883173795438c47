//! How late frames leave: a histogram, and what is read from it.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is later counts as this: 18 minutes.
const LATEST_NS: u64 = 1 << 40;
/// Digits of a percentile that are right.
const DIGITS: u8 = 2;

/// How late frames left.
#[derive(Clone, Debug)]
pub(super) struct LatenessHistogram {
    times_ns: Histogram<u64>,
    sum_ns: u64,
    max_ns: u64,
}

/// What a histogram says, in microseconds: the time by which frames left later than they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Half of the frames were no later than this.
    pub p50_us: f64,
    /// 99 % were no later.
    pub p99_us: f64,
    /// 99.9 % were no later.
    pub p999_us: f64,
    /// The latest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
}

impl Default for LatenessHistogram {
    fn default() -> Self {
        let times_ns = Histogram::new_with_bounds(1, LATEST_NS, DIGITS);
        Self {
            times_ns: times_ns.expect("bounds that a histogram may have"),
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl LatenessHistogram {
    /// Counts one frame.
    pub(super) fn add(&mut self, late_ns: u64) {
        self.times_ns.saturating_record(late_ns);
        self.sum_ns += late_ns;
        self.max_ns = self.max_ns.max(late_ns);
    }

    /// What it says so far; zeros when there was nothing.
    pub(super) fn read(&self) -> Lateness {
        if self.times_ns.is_empty() {
            return Lateness::default();
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        let quantile = |share| us(self.times_ns.value_at_quantile(share).min(self.max_ns));
        Lateness {
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: us(self.max_ns),
            mean_us: us(self.sum_ns) / self.times_ns.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_counted() {
        let mut histogram = LatenessHistogram::default();
        assert_eq!(histogram.read(), Lateness::default());
        for ns in 1..=10_000 {
            histogram.add(ns * 100);
        }
        let late = histogram.read();
        let near = |value: f64, of: f64| value >= of && value <= of * 1.01;
        assert!(near(late.p50_us, 500.0), "{late:?}");
        assert!(near(late.p99_us, 990.0), "{late:?}");
        assert!(near(late.p999_us, 999.0), "{late:?}");
        assert_eq!((late.max_us, late.mean_us), (1000.0, 500.05));
    }
}
