//! The retransmission timeout (RFC 6298): smoothed round trip, its variation, and backing off.
//!
//! All figures are microseconds. A connection has one; it is asked for `timeout()` and told of
//! round trips, and of timeouts that ran out.

use crate::limits::{RTO_HANDSHAKE_LOST, RTO_INITIAL, RTO_MAX, RTO_VARIATION_MIN};
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::time::Duration;

/// Smoothed round-trip time and the timeout that follows from it.
#[derive(Clone, Debug)]
pub struct Rtt {
    /// SRTT, zero before the first measurement.
    smoothed_us: u32,
    /// RTTVAR: the greatest mean deviation of a round, falling slowly.
    variation_us: u32,
    /// The mean deviation, and the greatest that it was in this round. With one measurement for each
    /// acknowledgement RFC 6298's variation would forget a round trip ago (RFC 7323 §4.2).
    deviation_us: u32,
    deviation_most_us: u32,
    /// The least round trip seen, zero before the first.
    least_us: u32,
    /// How often the timer ran out since the last measurement.
    backoff: u8,
    /// Our SYN was sent more than once.
    handshake_lost: bool,
    /// How often it ran out in a row for what is waited for.
    retries: u8,
}

impl Rtt {
    /// Nothing measured yet.
    pub const fn new() -> Self {
        Self {
            smoothed_us: 0,
            variation_us: 0,
            deviation_us: 0,
            deviation_most_us: 0,
            least_us: 0,
            backoff: 0,
            handshake_lost: false,
            retries: 0,
        }
    }

    /// All of it, to or from another stack.
    pub(in crate::tcp) fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Rtt {
            smoothed_us: u32,
            variation_us: u32,
            deviation_us: u32,
            deviation_most_us: u32,
            least_us: u32,
            backoff: u8,
            handshake_lost: flag,
            retries: u8,
        } by_hand {} stay {});
        let most = [
            *smoothed_us,
            *variation_us,
            *deviation_us,
            *deviation_most_us,
        ];
        if most.iter().any(|&us| us > u32::MAX / 8) {
            return Err(HandoverError::Impossible("rtt"));
        }
        Ok(())
    }

    /// Take in one measured round trip (never of a segment sent twice, Karn's rule). Only this ends
    /// the backing off for the path (RFC 6298 §5): an acknowledgement of what was sent twice may be
    /// of the first time, and the timeout too short.
    pub fn measured(&mut self, rtt: Duration) {
        let micros = rtt.as_secs().saturating_mul(1_000_000);
        self.measured_us(micros.saturating_add(u64::from(rtt.subsec_micros())));
    }

    /// Take in one measured round trip, in microseconds.
    #[inline]
    pub fn measured_us(&mut self, micros: u64) {
        self.backoff = 0;
        let r = micros.clamp(1, u64::from(u32::MAX / 8)) as u32;
        if self.smoothed_us == 0 {
            // RFC 6298 (2.2)
            self.smoothed_us = r;
            self.variation_us = r / 2;
            self.deviation_us = r / 2;
            self.deviation_most_us = r / 2;
        } else {
            // RFC 6298 (2.3): alpha = 1/8, beta = 1/4, the variation first.
            let error = self.smoothed_us.abs_diff(r);
            self.deviation_us = self.deviation_us - self.deviation_us / 4 + error / 4;
            self.deviation_most_us = self.deviation_most_us.max(self.deviation_us);
            self.variation_us = self.variation_us.max(self.deviation_us);
            self.smoothed_us = (self.smoothed_us - self.smoothed_us / 8 + r / 8).max(1);
        }
    }

    /// A round trip measured by the last segment that an acknowledgement covers: the path's own, without
    /// the peer's delay.
    #[inline]
    pub fn least_of(&mut self, rtt_us: u32) {
        let r = rtt_us.max(1);
        if self.least_us == 0 || r < self.least_us {
            self.least_us = r;
        }
    }

    /// A round trip's worth of measurements is over.
    pub fn round_ended(&mut self) {
        if self.deviation_most_us < self.variation_us {
            self.variation_us -= (self.variation_us - self.deviation_most_us) / 4;
        }
        self.deviation_most_us = self.deviation_us;
    }

    /// What was waited for has come (our SYN's acknowledgement, a window): later timeouts start from
    /// the estimate again.
    pub fn progressed(&mut self) {
        self.backoff = 0;
    }

    /// The SYN or SYN-ACK was sent again before it was acknowledged: until something is measured, data is
    /// given more time (5.7).
    pub fn handshake_lost(&mut self) {
        self.handshake_lost = true;
    }

    /// The timer ran out: the next timeout is twice as long (5.5).
    pub fn timed_out(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
        self.retries = self.retries.saturating_add(1);
    }

    /// The peer has answered what was waited for, whatever that says of the path.
    #[inline]
    pub fn answered(&mut self) {
        self.retries = 0;
    }

    /// Count as if the timer had run out this many times in a row.
    pub fn set_retries(&mut self, retries: u8) {
        self.retries = retries;
    }

    /// How often the timer ran out in a row for what is waited for.
    #[inline]
    pub const fn retries(&self) -> u8 {
        self.retries
    }

    /// How often the timer ran out without progress.
    pub const fn backoffs(&self) -> u8 {
        self.backoff
    }

    /// The retransmission timeout now, backed off.
    pub fn timeout(&self) -> Duration {
        Duration::from_micros(self.timeout_us())
    }

    /// The retransmission timeout now, backed off, in microseconds.
    #[inline]
    pub fn timeout_us(&self) -> u64 {
        const fn micros(d: Duration) -> u64 {
            d.as_micros() as u64
        }
        let base = if self.smoothed_us > 0 {
            // RFC 6298 (2.3), (2.4); our clock's granularity is far below the floor.
            let variation = 4 * u64::from(self.variation_us);
            u64::from(self.smoothed_us) + variation.max(const { micros(RTO_VARIATION_MIN) })
        } else if self.handshake_lost {
            const { micros(RTO_HANDSHAKE_LOST) }
        } else {
            const { micros(RTO_INITIAL) }
        };
        // At most 2^36, doubled at most 16 times.
        (base << self.backoff.min(16)).min(const { micros(RTO_MAX) })
    }

    /// The smoothed round trip in microseconds, zero before the first.
    pub const fn smoothed_us(&self) -> u32 {
        self.smoothed_us
    }

    /// The least round trip in microseconds, zero before the first.
    pub const fn least_us(&self) -> u32 {
        self.least_us
    }

    /// The smoothed round-trip time, if one was measured.
    pub const fn smoothed(&self) -> Option<Duration> {
        if self.smoothed_us == 0 {
            None
        } else {
            Some(Duration::from_micros(self.smoothed_us as u64))
        }
    }

    /// The variation of the round-trip time.
    pub const fn variation(&self) -> Duration {
        Duration::from_micros(self.variation_us as u64)
    }

    /// The least round-trip time measured, if any.
    pub const fn least(&self) -> Option<Duration> {
        if self.least_us == 0 {
            None
        } else {
            Some(Duration::from_micros(self.least_us as u64))
        }
    }
}

impl Default for Rtt {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn starts_at_a_second_and_doubles_up_to_the_maximum() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.timeout(), ms(1000));
        for n in 1..=5 {
            rtt.timed_out();
            assert_eq!(rtt.timeout(), ms(1000 << n));
        }
        (0..20).for_each(|_| rtt.timed_out());
        assert_eq!(rtt.timeout(), RTO_MAX);
    }

    #[test]
    fn the_first_measurement_sets_both_estimates() {
        let mut rtt = Rtt::new();
        rtt.measured(ms(100));
        assert_eq!(rtt.smoothed(), Some(ms(100)));
        assert_eq!(rtt.timeout(), ms(100 + 4 * 50));
    }

    #[test]
    fn a_steady_round_trip_converges_to_the_floor() {
        let mut rtt = Rtt::new();
        for _ in 0..100 {
            rtt.measured(ms(10));
            rtt.round_ended();
        }
        assert_eq!(rtt.timeout(), ms(10) + RTO_VARIATION_MIN);
        assert!(rtt.smoothed().unwrap().abs_diff(ms(10)) < ms(1));
    }

    #[test]
    fn progress_undoes_backing_off() {
        let mut rtt = Rtt::new();
        rtt.measured(ms(500));
        let calm = rtt.timeout();
        rtt.timed_out();
        assert_eq!(rtt.timeout(), calm * 2);
        rtt.progressed();
        assert_eq!(rtt.timeout(), calm);
    }

    #[test]
    fn absurd_measurements_do_not_overflow() {
        let mut rtt = Rtt::new();
        for d in [Duration::ZERO, Duration::MAX, Duration::ZERO, Duration::MAX] {
            rtt.measured(d);
            assert!(rtt.timeout() <= RTO_MAX);
        }
    }
}
