//! The congestion window: slow start with an end by delay (RFC 9406), congestion avoidance, fast
//! recovery (RFC 5681, RFC 6582).
//!
//! Only the arithmetic of the window is here. When a loss is believed, and which segment is sent
//! again, is decided in `input`, which tells this object of five things: new data acknowledged, a
//! round trip measured, recovery entered, a duplicate or partial acknowledgement within it, and a
//! timeout. All figures but times are bytes.

use crate::limits::{
    CSS_GROWTH_DIVISOR, CSS_ROUNDS, HYSTART_RTT_DIVISOR, HYSTART_RTT_MAX_US, HYSTART_RTT_MIN_US,
    INITIAL_WINDOW_SEGMENTS,
};

/// A NewReno congestion window.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: u32,
    threshold: u32,
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    acknowledged: u32,
    /// The round trip of the last round of slow start in microseconds, zero before the first.
    last_round_us: u32,
    /// In conservative slow start: how many rounds of it are left, and the round trip below which
    /// leaving slow start was a mistake.
    conservative: Option<(u8, u32)>,
}

impl NewReno {
    /// A fresh window for segments of `mss` bytes (RFC 6928 §2).
    pub fn new(mss: u32) -> Self {
        let window = (INITIAL_WINDOW_SEGMENTS * mss).min((2 * mss).max(14_600));
        Self {
            window,
            threshold: u32::MAX,
            acknowledged: 0,
            last_round_us: 0,
            conservative: None,
        }
    }

    /// How many bytes may be in flight.
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// The slow-start threshold.
    pub const fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The first SYN or SYN-ACK was lost: begin with one segment (RFC 6298 §5.7, RFC 5681 §3.1).
    pub fn handshake_lost(&mut self, mss: u32) {
        self.window = mss;
    }

    /// `bytes` of new data were acknowledged outside of recovery.
    ///
    /// `limited` says that the window was full: only then does it grow (RFC 7661's concern).
    pub fn acknowledged(&mut self, bytes: u32, mss: u32, limited: bool) {
        if !limited {
            return;
        }
        if self.window < self.threshold {
            // RFC 5681 (2) with appropriate byte counting, L = 2 (RFC 3465 §2.2).
            let growth = bytes.min(2 * mss);
            let divisor = if self.conservative.is_some() {
                CSS_GROWTH_DIVISOR
            } else {
                1
            };
            self.window = self.window.saturating_add(growth / divisor);
            return;
        }
        // RFC 3465 §2.1: one segment for each window's worth of acknowledged bytes.
        self.acknowledged = self.acknowledged.saturating_add(bytes);
        if self.acknowledged >= self.window {
            self.acknowledged -= self.window;
            self.window = self.window.saturating_add(mss);
        }
    }

    /// A round trip was measured; with one measurement at a time, each is a round's.
    ///
    /// HyStart++ (RFC 9406 §4.2): when a round takes noticeably longer than the one before, a queue
    /// is building up, and the window grows more slowly for a few rounds; if the delay stays, slow
    /// start is over before it overflows the queue.
    pub fn round_measured(&mut self, rtt_us: u32) {
        if self.window >= self.threshold {
            return;
        }
        let last = std::mem::replace(&mut self.last_round_us, rtt_us);
        let noticeable = (last / HYSTART_RTT_DIVISOR).clamp(HYSTART_RTT_MIN_US, HYSTART_RTT_MAX_US);
        match self.conservative {
            None if last != 0 && rtt_us >= last.saturating_add(noticeable) => {
                self.conservative = Some((CSS_ROUNDS, rtt_us));
            }
            None => {}
            Some((_, baseline)) if rtt_us < baseline => self.conservative = None,
            Some((1, _)) => {
                self.conservative = None;
                self.threshold = self.window;
            }
            Some((left, baseline)) => self.conservative = Some((left - 1, baseline)),
        }
    }

    /// Fast retransmit: halve, and count the three segments that have left (RFC 5681 §3.2, steps 2 and 3).
    pub fn recovery_entered(&mut self, flight: u32, mss: u32) {
        self.threshold = (flight / 2).max(2 * mss);
        self.window = self.threshold + 3 * mss;
        self.acknowledged = 0;
    }

    /// A further duplicate: one more segment has left (step 4).
    pub fn duplicate_in_recovery(&mut self, mss: u32) {
        self.window = self.window.saturating_add(mss);
    }

    /// A partial acknowledgement of `bytes`: deflate by what left, add one (RFC 6582 §3.2, step 3).
    pub fn partial_in_recovery(&mut self, bytes: u32, mss: u32) {
        self.window = self.window.saturating_sub(bytes).max(mss);
        if bytes >= mss {
            self.window = self.window.saturating_add(mss);
        }
    }

    /// All that was out when recovery began is acknowledged (RFC 6582 §3.2, step 3, first option).
    pub fn recovery_left(&mut self, flight: u32, mss: u32) {
        self.window = self.threshold.min(flight.max(mss) + mss);
    }

    /// The retransmission timer ran out with `flight` bytes out (RFC 5681 (4)).
    ///
    /// `first` is false for a further timeout of the same data, which leaves the threshold alone.
    pub fn timed_out(&mut self, flight: u32, mss: u32, first: bool) {
        if first {
            self.threshold = (flight / 2).max(2 * mss);
        }
        self.window = mss;
        self.acknowledged = 0;
    }

    /// Nothing was sent for longer than a timeout: start again from the initial window (RFC 5681 §4.1).
    pub fn restarted_after_idle(&mut self, mss: u32) {
        self.window = self.window.min(Self::new(mss).window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one_segment_a_window() {
        let mut cc = NewReno::new(MSS);
        assert_eq!(cc.window(), 10 * MSS);
        (0..10).for_each(|_| cc.acknowledged(MSS, MSS, true));
        assert_eq!(cc.window(), 20 * MSS);
        cc.recovery_entered(20 * MSS, MSS);
        cc.recovery_left(20 * MSS, MSS);
        assert_eq!(cc.window(), 10 * MSS);
        (0..10).for_each(|_| cc.acknowledged(MSS, MSS, true));
        assert_eq!(cc.window(), 11 * MSS);
    }

    /// RFC 9406 §4.2: five rounds of a quarter's growth after the delay has risen, then avoidance.
    #[test]
    fn slow_start_ends_when_the_delay_rises_and_stays() {
        let mut cc = NewReno::new(MSS);
        cc.round_measured(1_000);
        cc.round_measured(4_000);
        cc.acknowledged(MSS, MSS, true);
        assert_eq!(cc.window(), 11 * MSS, "4 ms more are needed to be noticed");
        cc.round_measured(8_000);
        cc.acknowledged(MSS, MSS, true);
        assert_eq!(cc.window(), 11 * MSS + MSS / 4);
        (0..5).for_each(|_| cc.round_measured(9_000));
        assert_eq!(cc.threshold(), cc.window());
    }

    #[test]
    fn slow_start_goes_on_when_the_delay_was_a_hiccup() {
        let mut cc = NewReno::new(MSS);
        [1_000, 6_000, 5_000]
            .iter()
            .for_each(|&us| cc.round_measured(us));
        cc.acknowledged(MSS, MSS, true);
        assert_eq!((cc.window(), cc.threshold()), (11 * MSS, u32::MAX));
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut cc = NewReno::new(MSS);
        cc.acknowledged(MSS, MSS, false);
        assert_eq!(cc.window(), 10 * MSS);
    }

    #[test]
    fn the_initial_window_is_bounded_for_large_segments() {
        assert_eq!(NewReno::new(1460).window(), 14_600);
        assert_eq!(NewReno::new(8960).window(), 17_920);
        assert_eq!(NewReno::new(536).window(), 5_360);
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_remembers_half_the_flight_once() {
        let mut cc = NewReno::new(MSS);
        cc.timed_out(8 * MSS, MSS, true);
        assert_eq!((cc.window(), cc.threshold()), (MSS, 4 * MSS));
        cc.timed_out(MSS, MSS, false);
        assert_eq!(cc.threshold(), 4 * MSS);
    }
}
