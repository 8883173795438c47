//! The search for the highest rate that holds, one step after the other; what a step finds is told by who makes it.
//!
//! The rate is doubled until it does not hold, or halved until it does; then the interval between the two is halved until
//! its ends are as near as is wanted. A rate that does not hold is tried again: a machine may be disturbed, but is not
//! disturbed into being faster than it is.

/// How near the lowest rate that does not hold is to the highest that does.
const PRECISION: f64 = 0.02;

/// Times that a rate is tried before it does not hold.
const TRIES: u32 = 2;

/// Below one request in ten seconds there is no peak.
const RATE_MIN: f64 = 0.1;

/// Above what schedules take there is no looking.
const RATE_MAX: f64 = 1e9;

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    /// The highest rate that held, and the lowest that did not.
    held: Option<f64>,
    failed: Option<f64>,
    rate: f64,
    tries: u32,
}

impl Search {
    /// From a first rate on.
    pub fn new(rate: f64) -> Self {
        Self {
            held: None,
            failed: None,
            rate,
            tries: 0,
        }
    }

    /// The rate of the next step; `None` when the search is over.
    pub fn rate(&self) -> Option<f64> {
        let is_narrow = match (self.held, self.failed) {
            (Some(held), Some(failed)) => failed <= held * (1.0 + PRECISION),
            _ => false,
        };
        let is_possible = (RATE_MIN..=RATE_MAX).contains(&self.rate);
        (is_possible && !is_narrow).then_some(self.rate)
    }

    /// What the step found.
    pub fn tell(&mut self, holds: bool) {
        if holds {
            self.held = Some(self.rate);
        } else {
            self.tries += 1;
            if self.tries < TRIES {
                return;
            }
            self.failed = Some(self.rate);
        }
        self.tries = 0;
        self.rate = match (self.held, self.failed) {
            (Some(held), None) => held * 2.0,
            (None, Some(failed)) => failed / 2.0,
            (Some(held), Some(failed)) => (held + failed) / 2.0,
            (None, None) => unreachable!("one of them was just said"),
        };
    }

    /// The highest rate that held.
    pub fn peak(&self) -> Option<f64> {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_distr::{Distribution as _, Exp1};
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::SeedableRng as _;

    fn search(start: f64, mut holds: impl FnMut(f64) -> bool) -> (Option<f64>, u32) {
        let mut search = Search::new(start);
        let mut steps = 0;
        while let Some(rate) = search.rate() {
            search.tell(holds(rate));
            steps += 1;
            assert!(steps < 100, "it ends");
        }
        (search.peak(), steps)
    }

    /// What 99 of 100 customers of a queue with one server stay at most, who come and are served by chance (M/M/1), for
    /// this many customers (Lindley's recursion).
    fn queue(rate: f64, served: f64, customers: u32, random: &mut Pcg64Mcg) -> f64 {
        let mut exponential = |rate: f64| {
            let unit: f64 = Exp1.sample(random);
            unit / rate
        };
        let mut wait: f64 = 0.0;
        let mut stays: Vec<f64> = (0..customers)
            .map(|_| {
                let stay = wait + exponential(served);
                wait = (stay - exponential(rate)).max(0.0);
                stay
            })
            .collect();
        stays.sort_by(f64::total_cmp);
        stays[stays.len() * 99 / 100]
    }

    /// The time in such a queue is exponential with the difference of the rates, so the peak is known.
    #[test]
    fn finds_the_peak_of_a_queue() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for (served, bound) in [(1000.0, 0.02), (20_000.0, 0.001), (500.0, 0.1)] {
            let peak = served - 100f64.ln() / bound;
            let (found, _) = search(100.0, |rate| {
                queue(rate, served, 200_000, &mut random) < bound
            });
            let found = found.expect("there is a rate that holds");
            assert!(
                (found / peak - 1.0).abs() < 0.05,
                "{found} instead of {peak}"
            );
        }
    }

    #[test]
    fn nothing_holds_and_everything_does() {
        assert_eq!(search(100.0, |_| false).0, None);
        assert!(search(100.0, |_| true).0.unwrap() > RATE_MAX / 2.0);
        let slow = search(100.0, |rate| rate < 0.3).0.unwrap();
        assert!((0.294..0.3).contains(&slow), "{slow}");
    }

    /// One disturbance is forgiven, wherever it is.
    #[test]
    fn a_disturbance_hides_no_peak() {
        for disturbed in 0..14 {
            let mut step = 0;
            let (peak, _) = search(100.0, |rate| {
                step += 1;
                rate <= 5000.0 && step - 1 != disturbed
            });
            assert!(
                (4900.0..=5000.0).contains(&peak.unwrap()),
                "{disturbed}: {peak:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn is_as_near_as_said(peak in 0.2f64..1e8, start in 1f64..10_000.0) {
            let (found, steps) = search(start, |rate| rate <= peak);
            let found = found.unwrap();
            prop_assert!(found <= peak && peak <= found * (1.0 + PRECISION), "{found}");
            prop_assert!(steps < 60);
        }
    }
}
