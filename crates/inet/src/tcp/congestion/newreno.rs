//! NewReno's window (RFC 5681, RFC 6582): slow start with an end by delay, then one segment a round
//! trip; half at a loss.

use crate::tcp::congestion::control::{Ack, Cause, Congested, CongestionControl};
use crate::tcp::congestion::hystart::HyStart;
use crate::tcp::congestion::slow_start::{rest, slow_start};
use crate::tcp::congestion::window::{initial_window, saved_threshold, saved_window};
use crate::time::Duration;

/// A NewReno congestion window.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: u32,
    threshold: u32,
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    acknowledged: u32,
    /// Of the first slow start.
    hystart: Option<HyStart>,
    /// Window and threshold before the last congestion event.
    before: (u32, u32),
}

impl NewReno {
    /// A fresh window for segments of `mss` bytes.
    pub fn new(mss: u32) -> Self {
        let window = initial_window(mss);
        Self {
            window,
            threshold: u32::MAX,
            acknowledged: 0,
            hystart: Some(HyStart::new()),
            before: (window, u32::MAX),
        }
    }
}

impl CongestionControl for NewReno {
    fn name(&self) -> &'static str {
        "newreno"
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.window < self.threshold {
            let hystart = self.hystart.as_mut();
            return slow_start(&mut self.window, &mut self.threshold, hystart, ack);
        }
        if !ack.limited {
            return;
        }
        // RFC 3465 §2.1: one segment for each window's worth of acknowledged bytes.
        self.acknowledged = self.acknowledged.saturating_add(ack.bytes);
        if self.acknowledged >= self.window {
            self.acknowledged -= self.window;
            self.window = self.window.saturating_add(ack.mss);
        }
    }

    fn on_congestion(&mut self, event: &Congested) {
        let again = event.cause == (Cause::Timeout { again: true });
        if !again {
            self.before = (self.window, self.threshold);
            // RFC 5681 (4)
            self.threshold = (event.in_flight / 2).max(2 * event.mss);
        }
        self.window = match event.cause {
            Cause::Timeout { .. } => event.mss,
            Cause::Loss | Cause::Mark => self.threshold,
        };
        self.acknowledged = 0;
        self.hystart = None;
    }

    fn undo(&mut self) {
        let (window, threshold) = self.before;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration, mss: u32) {
        rest(&mut self.window, &mut self.threshold, idle, rto, mss);
    }

    fn save(&self) -> [u64; 4] {
        [self.window.into(), self.threshold.into(), 0, 0]
    }

    fn restore(&mut self, saved: [u64; 4], mss: u32) {
        self.window = saved_window(saved[0], mss);
        self.threshold = saved_threshold(saved[1], mss);
        self.before = (self.window, self.threshold);
    }

    fn set_mss(&mut self, mss: u32) {
        *self = Self::new(mss);
    }

    fn handshake_lost(&mut self, mss: u32) {
        self.window = mss;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::time::Instant;

    pub const MSS: u32 = 1000;

    /// An acknowledgement of one segment in a full window, with a steady round trip.
    pub fn ack_at(micros: u64) -> Ack {
        Ack {
            now: Instant::from_micros(micros),
            bytes: MSS,
            in_flight: 20 * MSS,
            in_flight_before: 21 * MSS,
            mss: MSS,
            limited: true,
            round_ended: false,
            rtt_us: Some(100_000),
            srtt_us: 100_000,
            least_rtt_us: 100_000,
            rate: None,
            in_recovery: false,
        }
    }

    pub fn congested(cause: Cause, in_flight: u32) -> Congested {
        Congested {
            now: Instant::START,
            cause,
            in_flight,
            mss: MSS,
        }
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one_segment_a_window() {
        let mut cc = NewReno::new(MSS);
        (0..10).for_each(|_| cc.on_ack(&ack_at(0)));
        assert_eq!(cc.window(), 20 * MSS);
        cc.on_congestion(&congested(Cause::Loss, 20 * MSS));
        assert_eq!(cc.window(), 10 * MSS);
        (0..10).for_each(|_| cc.on_ack(&ack_at(0)));
        assert_eq!(cc.window(), 11 * MSS);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut cc = NewReno::new(MSS);
        cc.on_ack(&Ack {
            limited: false,
            ..ack_at(0)
        });
        assert_eq!(cc.window(), 10 * MSS);
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_remembers_half_the_flight_once() {
        let mut cc = NewReno::new(MSS);
        cc.on_congestion(&congested(Cause::Timeout { again: false }, 8 * MSS));
        assert_eq!((cc.window(), cc.threshold()), (MSS, 4 * MSS));
        cc.on_congestion(&congested(Cause::Timeout { again: true }, MSS));
        assert_eq!(cc.threshold(), 4 * MSS);
        cc.undo();
        assert_eq!((cc.window(), cc.threshold()), (10 * MSS, u32::MAX));
    }

    #[test]
    fn rest_halves_the_window_and_remembers_it() {
        let mut cc = NewReno::new(MSS);
        (0..70).for_each(|_| cc.on_ack(&ack_at(0)));
        cc.on_congestion(&congested(Cause::Loss, 80 * MSS));
        cc.on_idle(Duration::from_secs(1), Duration::from_secs(1), MSS);
        assert_eq!((cc.window(), cc.threshold()), (20 * MSS, 40 * MSS));
    }
}
