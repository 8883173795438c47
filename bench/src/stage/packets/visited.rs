//! What a visit saw.

use crate::stage::calls::Calls;
use crate::stage::request::Errors;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shares of requests for which the time is told, in percent.
const SHARES: [f64; 12] = [
    5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.99, 100.0,
];

/// What a visit saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Visited {
    /// How long it measured.
    pub seconds: f64,
    /// Whole and right answers in that time.
    pub requests: u64,
    /// Their bytes, heads included.
    pub bytes: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Segments of ours that were sent again.
    pub resent: u64,
    /// Segments that came with a wrong checksum.
    pub checksum_faults: u64,
    /// Segments of ours that the link had no room for.
    pub no_room: u64,
    /// The part of the time in which there was something to do: near 1 this client limits.
    pub working: f64,
    /// Calls that handed frames over: what the kernel does there and then for the other end is in their time.
    pub calls: Calls,
    /// `[percent, microseconds]`: this share of the requests took at most this time, from when they were meant to begin.
    pub latency_us: Vec<(f64, f64)>,
    /// Requests that were due and not answered in time; they are among the latencies with the time that had passed.
    pub unanswered: u64,
    /// Bytes of the request.
    pub request_len: usize,
    /// Bytes of the head of an answer.
    pub head_len: usize,
    /// Slow readers that were there at the end.
    pub readers: u32,
}

impl Visited {
    /// Answers a second.
    pub fn per_sec(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// The time that this many percent of the requests took at most, of the shares that are told.
    pub fn latency(&self, percent: f64) -> f64 {
        let found = self.latency_us.iter().find(|(share, _)| *share == percent);
        found.map_or(f64::NAN, |(_, us)| *us)
    }
}

/// The time that each share of these took at most.
pub(super) fn shares(sorted_ns: &[u32]) -> Vec<(f64, f64)> {
    let Some(last) = sorted_ns.len().checked_sub(1) else {
        return Vec::new();
    };
    let at = |share: f64| (sorted_ns.len() as f64 * share / 100.0).ceil() as usize;
    let of = |share: f64| f64::from(sorted_ns[at(share).saturating_sub(1).min(last)]) / 1000.0;
    SHARES.iter().map(|&share| (share, of(share))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_hundred_times() {
        let times: Vec<u32> = (1..=100).map(|n| n * 1000).collect();
        let shares = shares(&times);
        let of = |share: f64| shares.iter().find(|(s, _)| *s == share).expect("told").1;
        assert_eq!(
            (of(50.0), of(99.0), of(99.9), of(100.0)),
            (50.0, 99.0, 100.0, 100.0)
        );
        assert!(super::shares(&[]).is_empty());
    }
}
