//! Histograms of times in microseconds, and what they hold as pairs.

use hdrhistogram::Histogram;

use crate::limits::{HISTOGRAM_DIGITS, HISTOGRAM_MICROS_MAX};

/// An empty one.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HISTOGRAM_MICROS_MAX, HISTOGRAM_DIGITS)
        .expect("the bounds are in order")
}

/// Values and how often each was seen, in order; each value stands for the range that the histogram has as one.
pub(crate) fn pairs(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = histogram.iter_recorded();
    recorded
        .map(|at| (at.value_iterated_to(), at.count_at_value()))
        .collect()
}
