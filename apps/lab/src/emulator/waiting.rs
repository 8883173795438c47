//! When the forwarding thread sleeps, for how long, and what may wake it. No I/O, no clock.
//!
//! Frames carry the time at which the kernel saw them, so looking at one late does no harm as long as it is looked
//! at before it is due. Hence three ways to wait:
//!
//! - **Look again at once** while a frame is due within the time that waking is expected to take too long. That
//!   is learned: on a virtual machine whose core fell idle it is some 50 us, on a busy one a few.
//! - **Sleep by the clock alone** while frames keep coming and the way is long: half the shortest way, or until
//!   shortly before the next frame is due. What comes meanwhile is found then, all at once, and costs its sender
//!   no wake-up.
//! - **Sleep until a frame comes** otherwise.

use crate::limits::{BLIND_MAX, BLIND_MIN, IDLE_SPIN, LEAD_MAX, LEAD_MIN, LONG_SLEEP};
use std::time::Duration;

/// What to do when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Look again at once.
    Spin,
    /// Sleep for so long; a frame wakes.
    UntilFrame {
        /// At most so long; `None`: without end.
        timeout_ns: Option<u64>,
    },
    /// Sleep for so long; frames do not wake.
    Blind {
        /// So long.
        timeout_ns: u64,
    },
}

/// Decides, and learns.
#[derive(Debug)]
pub(super) struct Waiting {
    /// For how long frames need not be looked at; zero when the way is too short for that.
    blind_ns: u64,
    /// When the last frame came or left.
    active_ns: u64,
    /// By how much later than asked this thread wakes: from short sleeps, from long ones.
    late: [Learned; 2],
}

/// A time as it has lately been: mean and mean deviation.
#[derive(Clone, Copy, Debug)]
struct Learned {
    mean_ns: f64,
    deviation_ns: f64,
}

/// Which of the two kinds of sleep.
fn kind(sleep_ns: u64) -> usize {
    usize::from(sleep_ns > LONG_SLEEP.as_nanos() as u64)
}

impl Waiting {
    /// For a wire on which no frame takes less than `shortest_way`.
    pub(super) fn new(shortest_way: Duration) -> Self {
        let blind = (shortest_way / 2).min(BLIND_MAX);
        let blind = Some(blind).filter(|blind| *blind >= BLIND_MIN);
        Self {
            blind_ns: blind.unwrap_or_default().as_nanos() as u64,
            active_ns: 0,
            late: [Learned {
                mean_ns: LEAD_MAX.as_nanos() as f64 / 2.0,
                deviation_ns: 0.0,
            }; 2],
        }
    }

    /// A frame came or left.
    pub(super) fn active(&mut self, now_ns: u64) {
        self.active_ns = now_ns;
    }

    /// What to do at `now_ns` when the next frame is due at `due_ns`.
    pub(super) fn decide(&self, now_ns: u64, due_ns: Option<u64>) -> Wait {
        let idle_ns = now_ns.saturating_sub(self.active_ns);
        let left_ns = due_ns.map(|due| due.saturating_sub(now_ns));
        let lead_ns = self.lead_ns(left_ns.unwrap_or_default());
        let is_soon = left_ns.is_some_and(|left| left <= lead_ns);
        if is_soon || (self.blind_ns == 0 && idle_ns < IDLE_SPIN.as_nanos() as u64) {
            return Wait::Spin;
        }
        let timeout_ns = left_ns.map(|left| left - lead_ns);
        if idle_ns < 2 * self.blind_ns {
            let timeout_ns = timeout_ns.map_or(self.blind_ns, |left| left.min(self.blind_ns));
            return Wait::Blind { timeout_ns };
        }
        Wait::UntilFrame { timeout_ns }
    }

    /// A sleep of `sleep_ns` took this much longer than that.
    pub(super) fn woke_late(&mut self, sleep_ns: u64, late_ns: u64) {
        // What is later than this was kept from the processor: no lead would help.
        let late_ns = late_ns.min(LEAD_MAX.as_nanos() as u64) as f64;
        let learned = &mut self.late[kind(sleep_ns)];
        let deviation = late_ns - learned.mean_ns;
        learned.mean_ns += deviation / 8.0;
        learned.deviation_ns += (deviation.abs() - learned.deviation_ns) / 4.0;
    }

    /// How long before a frame is due to wake from a sleep of `sleep_ns`.
    fn lead_ns(&self, sleep_ns: u64) -> u64 {
        let learned = self.late[kind(sleep_ns)];
        let lead = (learned.mean_ns + 2.0 * learned.deviation_ns) as u64;
        lead.clamp(LEAD_MIN.as_nanos() as u64, LEAD_MAX.as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn waiting(way: Duration) -> Waiting {
        let mut waiting = Waiting::new(way);
        learn(&mut waiting, 0, 10_000);
        learn(&mut waiting, 20 * MS, 10_000);
        waiting
    }

    fn learn(waiting: &mut Waiting, sleep_ns: u64, late_ns: u64) {
        (0..100).for_each(|_| waiting.woke_late(sleep_ns, late_ns));
    }

    #[test]
    fn the_lead_is_what_waking_takes() {
        let mut waiting = waiting(Duration::ZERO);
        assert!((10_000..12_000).contains(&waiting.lead_ns(0)));
        learn(&mut waiting, 20 * MS, 50_000);
        assert!((50_000..52_000).contains(&waiting.lead_ns(20 * MS)));
        assert!(
            (10_000..12_000).contains(&waiting.lead_ns(MS)),
            "short sleeps differ"
        );
        learn(&mut waiting, 20 * MS, 1_000 * MS);
        assert_eq!(waiting.lead_ns(20 * MS), LEAD_MAX.as_nanos() as u64);
        learn(&mut waiting, 20 * MS, 0);
        assert_eq!(waiting.lead_ns(20 * MS), LEAD_MIN.as_nanos() as u64);
    }

    #[test]
    fn an_idle_wire_sleeps_until_a_frame_comes() {
        for way in [Duration::ZERO, Duration::from_millis(20)] {
            let idle = waiting(way).decide(1_000 * MS, None);
            assert_eq!(idle, Wait::UntilFrame { timeout_ns: None });
        }
    }

    #[test]
    fn a_short_way_is_watched() {
        let mut waiting = waiting(Duration::from_micros(100));
        waiting.active(50 * MS);
        assert_eq!(waiting.decide(50 * MS + 1, None), Wait::Spin);
        let later = 50 * MS + IDLE_SPIN.as_nanos() as u64;
        assert_eq!(
            waiting.decide(later, None),
            Wait::UntilFrame { timeout_ns: None }
        );
    }

    #[test]
    fn a_long_way_is_not_watched_while_frames_keep_coming() {
        let mut waiting = waiting(Duration::from_millis(20));
        let blind_ns = BLIND_MAX.as_nanos() as u64;
        waiting.active(50 * MS);
        assert_eq!(
            waiting.decide(50 * MS, Some(70 * MS)),
            Wait::Blind {
                timeout_ns: blind_ns
            }
        );
        let soon = waiting.decide(50 * MS, Some(50 * MS + 100_000));
        assert!(
            matches!(soon, Wait::Blind { timeout_ns } if (88_000..=90_000).contains(&timeout_ns)),
            "{soon:?}"
        );
        assert_eq!(waiting.decide(50 * MS, Some(50 * MS + 10_000)), Wait::Spin);
        assert_eq!(
            waiting.decide(50 * MS, Some(49 * MS)),
            Wait::Spin,
            "overdue"
        );
        let quiet = waiting.decide(50 * MS + 2 * blind_ns, Some(70 * MS));
        assert!(
            matches!(quiet, Wait::UntilFrame { timeout_ns: Some(left) } if left < 20 * MS),
            "{quiet:?}"
        );
    }
}
