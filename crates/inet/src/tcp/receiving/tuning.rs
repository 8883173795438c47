//! How fast data comes and is taken, and how wide a buffer that asks for. `autotune` gives it the times.

use exos_wire::SeqNumber;

use crate::limits::{INITIAL_WINDOW_SEGMENTS, RECEIVE_RESERVE_SEGMENTS};
use crate::time::{Duration, Instant};

/// What is known of how fast data comes and is taken. Times are microseconds and come round after an hour,
/// which at worst puts an adjustment off.
#[derive(Copy, Clone, Debug, Default)]
pub(in crate::tcp) struct Tuning {
    /// A round trip, zero before the first.
    rtt: u32,
    /// When the round trip that is being looked at began.
    began: u32,
    /// Bytes that the program has taken in it.
    taken: u32,
    /// The most that it ever took in one.
    space: u32,
    /// Without timestamps: the sequence number that ends a window's worth of data, and its beginning.
    window_end: SeqNumber,
    window_began: u32,
    /// The last timestamp that was measured by.
    echo: u32,
}

impl Tuning {
    /// Nothing is known yet; the first round trip begins.
    pub fn new(now: Instant) -> Self {
        Self {
            began: clock(now),
            ..Self::default()
        }
    }

    /// A full segment has come: the peer's data answers the acknowledgement that carried this timestamp, at the latest. The
    /// clock, which shows `shown` now, ticks in milliseconds: less than one cannot be told.
    #[inline]
    pub fn measure_by_echo(&mut self, echo: u32, shown: impl FnOnce() -> u32) {
        if echo == self.echo {
            return;
        }
        self.echo = echo;
        let elapsed = shown().wrapping_sub(echo);
        // Nonsense otherwise: a round trip of a quarter of an hour, or a number that we never sent.
        if echo != 0 && elapsed < 1 << 20 {
            self.measured(elapsed.max(1) * 1000);
        }
    }

    /// Without timestamps: data has come up to `next`, and the window ends at `edge`.
    pub fn measure_by_window(&mut self, next: SeqNumber, edge: SeqNumber, now: Instant) {
        if next.lt(self.window_end) && self.window_began != 0 {
            return;
        }
        let took = clock(now).wrapping_sub(self.window_began);
        if self.window_began != 0 && (self.rtt == 0 || took < self.rtt) {
            self.measured(took);
        }
        self.window_began = clock(now).max(1);
        self.window_end = next.max(edge);
    }

    /// The program has taken this many bytes.
    #[inline]
    pub fn taken(&mut self, count: u32) {
        self.taken = self.taken.saturating_add(count);
    }

    /// The most that it ever took in a round trip.
    pub fn space(&self) -> u32 {
        self.space
    }

    /// Begin again with a small buffer.
    pub fn forget_space(&mut self) {
        self.space = 0;
    }

    /// The round trip that is being looked at is over.
    #[inline]
    pub fn round_is_over(&self, now: Instant) -> bool {
        self.rtt > 0 && clock(now).wrapping_sub(self.began) >= self.rtt
    }

    /// Another round trip begins. Gives how many bytes the program has taken in the last.
    pub fn begin_round(&mut self, now: Instant) -> u32 {
        self.began = clock(now);
        std::mem::take(&mut self.taken)
    }

    /// The round trip as the receiver sees it.
    pub fn rtt(&self) -> Option<Duration> {
        (self.rtt > 0).then(|| Duration::from_micros(self.rtt.into()))
    }

    /// A round trip took so long. A shorter one is believed at once; longer ones may have waited for the
    /// peer's program.
    fn measured(&mut self, sample: u32) {
        self.rtt = if self.rtt == 0 || sample < self.rtt {
            sample.max(1)
        } else {
            self.rtt + (sample - self.rtt) / 8
        };
    }

    /// A round trip is over in which `taken` bytes were taken: the buffer that this asks for, if it is
    /// more than ever.
    pub fn wanted(&mut self, taken: u32, mss: u32) -> Option<u32> {
        let before = self.space.max(INITIAL_WINDOW_SEGMENTS * mss);
        if taken <= before {
            return None;
        }
        self.space = taken;
        let twice = 2 * u64::from(taken) + u64::from(RECEIVE_RESERVE_SEGMENTS * mss);
        // While it grows it will have grown once more before the next window can be told.
        let growth = twice * u64::from(taken - before) / u64::from(before);
        Some(u32::try_from(twice + 2 * growth).unwrap_or(u32::MAX))
    }
}

fn clock(now: Instant) -> u32 {
    now.micros() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_twice_what_was_taken_and_more_while_that_grows() {
        let mut tuning = Tuning::default();
        // Within the initial window there is nothing to do.
        assert_eq!(tuning.wanted(14_000, 1448), None);
        // Twice as much: three times twice as much, for it doubles again on the way.
        let reserve = 16 * 1448;
        assert_eq!(tuning.wanted(28_960, 1448), Some(3 * (57_920 + reserve)));
        // Steady.
        assert_eq!(tuning.wanted(28_960, 1448), None);
        let slightly = tuning.wanted(29_000, 1448).expect("more than ever");
        assert!(slightly < 58_000 + reserve + 400, "{slightly}");
    }

    #[test]
    fn shorter_round_trips_are_believed_at_once() {
        let mut tuning = Tuning::default();
        let mut after = |sample| {
            tuning.measured(sample);
            tuning.rtt
        };
        assert_eq!(after(8000), 8000);
        assert_eq!(after(16_000), 9000);
        assert_eq!(after(2000), 2000);
    }
}
