//! The time of a turn, by our clock and by QUIC's.

use std::time::Duration;

use exos_inet::Instant;

/// The time of a turn.
pub(super) struct Clock {
    /// A moment by both clocks.
    epoch: (std::time::Instant, Instant),
    now: Instant,
}

impl Clock {
    pub(super) fn new(now: Instant) -> Clock {
        Clock {
            epoch: (std::time::Instant::now(), now),
            now,
        }
    }

    pub(super) fn set(&mut self, now: Instant) {
        self.now = now;
    }

    /// By our clock.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// By QUIC's.
    pub(super) fn time(&self) -> std::time::Instant {
        let (time, now) = self.epoch;
        time + self.now.saturating_duration_since(now)
    }

    /// When QUIC's clock has certainly come to `at`: ours counts microseconds, and rounds down.
    pub(super) fn at(&self, at: std::time::Instant) -> Instant {
        let (time, now) = self.epoch;
        now + at.saturating_duration_since(time) + Duration::from_micros(1)
    }
}
