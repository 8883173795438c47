//! When requests are meant to begin, at a given rate: after times that differ as those of independent visitors do
//! (exponentially), drawn from a fixed seed.
//!
//! A request that finds no connection free waits, and its time counts from the moment at which it was meant to begin. A
//! client that only began to count when it sent would leave out the very times at which the server was slow.

use std::collections::VecDeque;

/// The times at which requests are meant to begin.
#[derive(Debug)]
pub(super) struct Schedule {
    interval_ns: f64,
    next_ns: f64,
    state: u64,
    /// Due, and not begun.
    waiting: VecDeque<u64>,
}

impl Schedule {
    /// This many a second, from now on.
    pub fn new(per_sec: f64, now_ns: u64) -> Self {
        Self {
            interval_ns: 1e9 / per_sec,
            next_ns: now_ns as f64,
            state: 1,
            waiting: VecDeque::new(),
        }
    }

    /// Let the time come.
    pub fn pass(&mut self, now_ns: u64) {
        while self.next_ns <= now_ns as f64 {
            self.waiting.push_back(self.next_ns as u64);
            self.next_ns += self.interval_ns * -self.uniform().ln();
        }
    }

    /// The request that has been due for longest: when it was meant to begin.
    pub fn take(&mut self) -> Option<u64> {
        self.waiting.pop_front()
    }

    /// Requests that are due and have not begun.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// From 0 to 1, never 0 (splitmix64).
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::MIN_POSITIVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody took requests for a second: all of them are there, each with the time at which it was meant to begin.
    #[test]
    fn what_waits_keeps_its_time() {
        let mut schedule = Schedule::new(10_000.0, 5_000);
        schedule.pass(1_000_005_000);
        assert!((9_500..10_500).contains(&schedule.waiting()));
        let (mut last, mut gaps) = (0, Vec::new());
        while let Some(at) = schedule.take() {
            assert!((5_000..=1_000_005_000).contains(&at) && at >= last);
            gaps.push((at - last) as f64);
            last = at;
        }
        // Of exponential times one in e is longer than the mean.
        let longer = gaps.iter().filter(|gap| **gap > 100_000.0).count() as f64;
        assert!((longer / gaps.len() as f64 - 0.368).abs() < 0.03);
    }
}
