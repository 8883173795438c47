//! No control at all: this many bytes a second, whatever happens. For links that belong to the program
//! alone, such as a load generator's, and for tests.

use crate::tcp::congestion::control::{Ack, Congested, CongestionControl};
use crate::tcp::congestion::window::{initial_window, saved_rate, saved_window};

/// A fixed rate with a window of twice what that rate has in flight.
#[derive(Clone, Debug)]
pub struct FixedRate {
    bytes_per_second: u64,
    window: u32,
}

impl FixedRate {
    /// `bytes_per_second` for segments of `mss` bytes.
    pub const fn new(bytes_per_second: u64, mss: u32) -> Self {
        Self {
            bytes_per_second,
            window: initial_window(mss),
        }
    }
}

impl CongestionControl for FixedRate {
    fn name(&self) -> &'static str {
        "fixed-rate"
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.bytes_per_second)
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        // 128-bit, for the product of two figures that others choose.
        let flight = u128::from(self.bytes_per_second) * u128::from(ack.srtt_us) / 1_000_000;
        let window = u32::try_from(2 * flight).unwrap_or(u32::MAX);
        self.window = window.max(initial_window(ack.mss));
    }

    fn save(&self) -> [u64; 4] {
        [self.window.into(), self.bytes_per_second, 0, 0]
    }

    fn restore(&mut self, saved: [u64; 4], mss: u32) {
        self.window = saved_window(saved[0], mss);
        self.bytes_per_second = saved_rate(saved[1]);
    }

    fn set_mss(&mut self, mss: u32) {
        self.window = initial_window(mss);
    }

    fn on_congestion(&mut self, _: &Congested) {}

    fn undo(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::control::Cause;
    use crate::tcp::congestion::newreno::tests::{MSS, ack_at, congested};

    #[test]
    fn losses_change_nothing() {
        let mut cc = FixedRate::new(10_000_000, MSS);
        cc.on_ack(&ack_at(0));
        cc.on_congestion(&congested(Cause::Timeout { again: false }, MSS));
        assert_eq!(
            (cc.window(), cc.pacing_rate()),
            (2_000_000, Some(10_000_000))
        );
    }
}
