//! For how long looking pays before one sleeps.
//!
//! Waking a sleeping CPU costs tens of microseconds, more than serving a small request; spinning costs a CPU. So one looks on for a while
//! before it sleeps, for as long as such looking has lately been worth it: when what it waits for came meanwhile the budget doubles, when
//! the spin was in vain it halves. An idle program sleeps at once and all the time.

use crate::limits::{SPIN_MAX, SPIN_MIN};
use std::time::Duration;

/// For how long to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    spin: Duration,
    max: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            spin: SPIN_MAX,
            max: SPIN_MAX,
        }
    }
}

impl Budget {
    /// Never looks: others run on this core, and would wait until it ends.
    pub const NOTHING: Self = Self {
        spin: Duration::ZERO,
        max: Duration::ZERO,
    };

    /// For how long to look now.
    #[inline]
    pub fn time(self) -> Duration {
        self.spin
    }

    /// It came while one looked.
    #[inline]
    pub fn paid(&mut self) {
        self.spin = (self.spin * 2).min(self.max);
    }

    /// It did not.
    pub fn was_in_vain(&mut self) {
        self.spin = (self.spin / 2).max(SPIN_MIN.min(self.max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shrinks_in_vain_and_grows_when_worth_it() {
        let mut budget = Budget::default();
        let mut times = vec![budget.time()];
        for _ in 0..10 {
            budget.was_in_vain();
            times.push(budget.time());
        }
        assert!(times.is_sorted_by(|a, b| a >= b) && times[1] == SPIN_MAX / 2);
        assert_eq!(budget.time(), SPIN_MIN);
        (0..10).for_each(|_| budget.paid());
        assert_eq!(budget.time(), SPIN_MAX);
    }

    #[test]
    fn nothing_stays_nothing() {
        let mut budget = Budget::NOTHING;
        budget.paid();
        budget.was_in_vain();
        assert_eq!(budget.time(), Duration::ZERO);
    }
}
