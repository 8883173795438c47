//! How late frames leave: a histogram, and what is read from it.
//!
//! Buckets are an eighth of a power of two wide, so a percentile is right within 12.5 %, in constant memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Buckets for each power of two.
const PARTS: u64 = 8;
/// Up to 2^40 ns, 18 minutes; what is later counts as that.
const BUCKETS: usize = 38 * PARTS as usize;

/// A histogram of nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    frames: u64,
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

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            frames: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl Histogram {
    /// Counts one frame.
    pub(super) fn add(&mut self, late_ns: u64) {
        self.counts[bucket(late_ns)] += 1;
        self.frames += 1;
        self.sum_ns += late_ns;
        self.max_ns = self.max_ns.max(late_ns);
    }

    /// What it says so far; zeros when there was nothing.
    pub(super) fn read(&self) -> Lateness {
        if self.frames == 0 {
            return Lateness::default();
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        Lateness {
            p50_us: us(self.percentile_ns(0.5)),
            p99_us: us(self.percentile_ns(0.99)),
            p999_us: us(self.percentile_ns(0.999)),
            max_us: us(self.max_ns),
            mean_us: us(self.sum_ns) / self.frames as f64,
        }
    }

    /// The upper end of the bucket in which this share of the frames is reached.
    fn percentile_ns(&self, share: f64) -> u64 {
        let wanted = (self.frames as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_end(i).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// Below 16 ns each nanosecond has its own; above, the highest bit and the three below it decide.
fn bucket(ns: u64) -> usize {
    if ns < 2 * PARTS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2());
    let part = ns >> (power - 3);
    (((power - 3) * PARTS + part) as usize).min(BUCKETS - 1)
}

/// The largest number of a bucket.
fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    ((PARTS + bucket % PARTS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut last = 0;
        for ns in (0..100_000).chain((1..40).flat_map(|p| [(1 << p) - 1, 1 << p, (1 << p) + 1])) {
            let at = bucket(ns);
            assert!(ns <= upper_end(at), "{ns}");
            assert!(at == 0 || ns > upper_end(at - 1), "{ns}");
            assert!(upper_end(at) as f64 <= ns as f64 * 1.125 + 1.0, "{ns}");
            last = last.max(at);
        }
        assert!(last < BUCKETS);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_what_was_counted() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.read(), Lateness::default());
        for ns in 1..=10_000 {
            histogram.add(ns * 100);
        }
        let late = histogram.read();
        let near = |value: f64, of: f64| value >= of && value <= of * 1.125;
        assert!(near(late.p50_us, 500.0), "{late:?}");
        assert!(near(late.p99_us, 990.0), "{late:?}");
        assert!(near(late.p999_us, 999.0), "{late:?}");
        assert_eq!((late.max_us, late.mean_us), (1000.0, 500.05));
    }
}
