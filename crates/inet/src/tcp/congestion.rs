//! The congestion window: slow start, congestion avoidance, fast recovery (RFC 5681, RFC 6582).
//!
//! Only the arithmetic of the window is here. When a loss is believed, and which segment is sent
//! again, is decided in `input`, which tells this object of four things: new data acknowledged,
//! recovery entered, a duplicate or partial acknowledgement within it, and a timeout. All figures
//! are bytes.

use crate::limits::INITIAL_WINDOW_SEGMENTS;

/// A NewReno congestion window.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: u32,
    threshold: u32,
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    acknowledged: u32,
}

impl NewReno {
    /// A fresh window for segments of `mss` bytes (RFC 6928 §2).
    pub fn new(mss: u32) -> Self {
        let window = (INITIAL_WINDOW_SEGMENTS * mss).min((2 * mss).max(14_600));
        Self {
            window,
            threshold: u32::MAX,
            acknowledged: 0,
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
            self.window = self.window.saturating_add(bytes.min(2 * mss));
            return;
        }
        // RFC 3465 §2.1: one segment for each window's worth of acknowledged bytes.
        self.acknowledged = self.acknowledged.saturating_add(bytes);
        if self.acknowledged >= self.window {
            self.acknowledged -= self.window;
            self.window = self.window.saturating_add(mss);
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
