//! The end of slow start by delay: HyStart++ (RFC 9406).
//!
//! When the least round trip of a round is noticeably longer than that of the round before, a queue is
//! building up: the window then grows more slowly for a few rounds (conservative slow start), and
//! if the delay stays, slow start is over before it overflows the queue. If the delay goes away, it
//! was a hiccup, and slow start goes on.

use crate::limits::{
    CSS_GROWTH_DIVISOR, CSS_ROUNDS, HYSTART_RTT_DIVISOR, HYSTART_RTT_MAX_US, HYSTART_RTT_MIN_US,
    HYSTART_SAMPLES,
};

const NONE: u32 = u32::MAX;

/// The state of one connection's slow start. Round trips are microseconds.
#[derive(Clone, Debug)]
pub struct HyStart {
    /// The least round trip of the last round and of this one.
    last_us: u32,
    current_us: u32,
    /// The least round trip when conservative slow start began.
    baseline_us: u32,
    samples: u8,
    /// Rounds of conservative slow start left; zero in plain slow start.
    conservative: u8,
}

impl HyStart {
    /// The beginning of slow start.
    pub const fn new() -> Self {
        Self {
            last_us: NONE,
            current_us: NONE,
            baseline_us: NONE,
            samples: 0,
            conservative: 0,
        }
    }

    /// By how much the window grows when `bytes` are acknowledged (§4.2; L is infinite, because bursts
    /// are paced).
    pub const fn growth(&self, bytes: u32) -> u32 {
        if self.conservative > 0 {
            bytes / CSS_GROWTH_DIVISOR
        } else {
            bytes
        }
    }

    /// Take in an acknowledgement; true when slow start is over.
    pub fn on_ack(&mut self, rtt_us: Option<u32>, round_ended: bool) -> bool {
        let mut over = false;
        if round_ended {
            if self.conservative > 0 {
                self.conservative -= 1;
                over = self.conservative == 0;
            }
            self.last_us = self.current_us;
            self.current_us = NONE;
            self.samples = 0;
        }
        if let Some(rtt_us) = rtt_us {
            self.current_us = self.current_us.min(rtt_us);
            self.samples = self.samples.saturating_add(1);
        }
        if over || self.samples < HYSTART_SAMPLES || self.current_us == NONE {
            return over;
        }
        if self.conservative > 0 {
            if self.current_us < self.baseline_us {
                // §4.2: the rise was spurious.
                (self.baseline_us, self.conservative) = (NONE, 0);
            }
        } else if self.last_us != NONE {
            let noticeable =
                (self.last_us / HYSTART_RTT_DIVISOR).clamp(HYSTART_RTT_MIN_US, HYSTART_RTT_MAX_US);
            if self.current_us >= self.last_us.saturating_add(noticeable) {
                self.baseline_us = self.current_us;
                self.conservative = CSS_ROUNDS;
            }
        }
        false
    }
}

impl Default for HyStart {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round of ten samples; true when slow start ended in it.
    fn round(h: &mut HyStart, rtt_us: u32) -> bool {
        let over: Vec<bool> = (0..10).map(|n| h.on_ack(Some(rtt_us), n == 0)).collect();
        over.contains(&true)
    }

    #[test]
    fn slow_start_ends_five_rounds_after_the_delay_has_risen_and_stayed() {
        let mut h = HyStart::new();
        assert!(!round(&mut h, 1_000));
        assert!(!round(&mut h, 4_000), "4 ms more are needed to be noticed");
        assert_eq!(h.growth(1_000), 1_000);
        assert!(!round(&mut h, 8_000));
        assert_eq!(h.growth(1_000), 250);
        for _ in 1..CSS_ROUNDS {
            assert!(!round(&mut h, 9_000));
        }
        assert!(round(&mut h, 9_000));
    }

    #[test]
    fn slow_start_goes_on_when_the_delay_was_a_hiccup() {
        let mut h = HyStart::new();
        for rtt in [1_000, 6_000, 5_000] {
            assert!(!round(&mut h, rtt));
        }
        assert_eq!(h.growth(1_000), 1_000);
    }

    #[test]
    fn a_few_samples_prove_nothing() {
        let mut h = HyStart::new();
        round(&mut h, 1_000);
        for n in 0..7 {
            h.on_ack(Some(50_000), n == 0);
        }
        assert_eq!(h.growth(1_000), 1_000);
    }
}
