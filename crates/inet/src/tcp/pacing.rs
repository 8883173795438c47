//! Pacing: data leaves spread over the round trip instead of in bursts.
//!
//! The rate is the algorithm's own, or follows from its window: twice a window a round trip in slow
//! start, 1.2 afterwards, as in Linux. Paths shorter than [`PACING_RTT_MIN`] are not paced: there the
//! acknowledgements come faster than any timer. After a rest an initial window may leave at once, no
//! more: this is the cure for the bursts that RFC 7661 §4.3 is about.

use crate::limits::{
    INITIAL_WINDOW_SEGMENTS, PACING_BURST, PACING_RTT_MAX, PACING_RTT_MIN,
    PACING_SUPER_PACKET_PER_SECOND,
};
use crate::time::Instant;

/// When the next data of one connection may leave.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    /// Bytes a second; zero: as fast as the window allows.
    rate: u64,
    /// In nanoseconds, because a segment may take less than a microsecond.
    next_ns: u64,
    /// How far behind the time `next_ns` may lag: an initial window's worth.
    credit_ns: u64,
}

impl Pacer {
    /// As fast as the window allows.
    pub const fn new() -> Self {
        Self {
            rate: 0,
            next_ns: 0,
            credit_ns: 0,
        }
    }

    /// Bytes a second, zero without pacing.
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// The path is too short to be paced, and was.
    #[inline]
    pub fn stays_unpaced(&self, srtt_us: u32) -> bool {
        self.rate == 0 && u128::from(srtt_us) < PACING_RTT_MIN.as_micros()
    }

    /// Take a new rate: `fixed` is the algorithm's own.
    #[inline]
    pub fn set(
        &mut self,
        fixed: Option<u64>,
        window: u32,
        slow_start: bool,
        srtt_us: u32,
        mss: u32,
    ) {
        let rate = match fixed {
            // A segment a second at least: an estimate that is less comes of waiting, not of the path, and
            // would be waited for in turn.
            Some(rate) => rate.max(u64::from(mss)),
            None if u128::from(srtt_us) < PACING_RTT_MIN.as_micros() => 0,
            None => {
                let percent = if slow_start { 200 } else { 120 };
                let srtt_us = u64::from(srtt_us).min(PACING_RTT_MAX.as_micros() as u64);
                u64::from(window) * percent * 10_000 / srtt_us
            }
        };
        if rate != self.rate {
            self.rate = rate;
            let burst = u64::from(INITIAL_WINDOW_SEGMENTS * mss);
            self.credit_ns = (burst * 1_000_000_000).checked_div(rate).unwrap_or(0);
        }
    }

    /// When data may leave, if not now.
    #[inline]
    pub fn wait(&self, now: Instant) -> Option<Instant> {
        if self.rate == 0 || self.next_ns <= now.micros() * 1000 {
            return None;
        }
        Some(Instant::from_micros(self.next_ns.div_ceil(1000)))
    }

    /// `bytes` have left.
    #[inline]
    pub fn left(&mut self, now: Instant, bytes: u32) {
        if self.rate == 0 {
            return;
        }
        // What leaves late, because the timer was, is caught up with, but not a rest.
        let rested = (now.micros() * 1000).saturating_sub(self.credit_ns.max(BURST_NS));
        let cost = u64::from(bytes) * 1_000_000_000 / self.rate;
        self.next_ns = self.next_ns.max(rested) + cost;
    }

    /// The most that should leave in one piece: a millisecond's worth, two segments at least.
    #[inline]
    pub fn piece(&self, mss: u32) -> u32 {
        if self.rate == 0 {
            return u32::MAX;
        }
        let piece = self.rate / PACING_SUPER_PACKET_PER_SECOND;
        u32::try_from(piece).unwrap_or(u32::MAX).max(2 * mss)
    }
}

const BURST_NS: u64 = PACING_BURST.as_nanos() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// Send segments as the pacer allows for `micros`; how many left.
    fn run(pacer: &mut Pacer, from: u64, micros: u64) -> u64 {
        let mut sent = 0;
        for at in from..from + micros {
            let now = Instant::from_micros(at);
            while pacer.wait(now).is_none() {
                pacer.left(now, MSS);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn the_rate_is_kept_after_an_initial_window() {
        let mut pacer = Pacer::default();
        pacer.set(Some(100_000_000), 0, false, 20_000, MSS);
        // 100 segments a millisecond.
        let first = run(&mut pacer, 1_000_000, 10_000);
        assert!((1_000..=1_101).contains(&first), "{first}");
        assert!((999..=1_001).contains(&run(&mut pacer, 1_010_000, 10_000)));
    }

    /// A minute of lost acknowledgements is no round trip to spread a segment over.
    #[test]
    fn an_absurd_round_trip_holds_nothing_back() {
        let mut pacer = Pacer::default();
        pacer.set(None, MSS, false, 136_000_000, MSS);
        pacer.left(Instant::from_micros(1), 10 * MSS);
        let now = Instant::from_micros(20_000_000);
        pacer.left(now, MSS);
        assert!(pacer.wait(now).is_none_or(|at| at - now <= PACING_RTT_MAX));
    }

    #[test]
    fn the_rate_follows_from_the_window() {
        let mut pacer = Pacer::default();
        pacer.set(None, 100_000, true, 20_000, MSS);
        assert_eq!(pacer.rate(), 10_000_000);
        pacer.set(None, 100_000, false, 20_000, MSS);
        assert_eq!(pacer.rate(), 6_000_000);
        pacer.set(None, 100_000, false, 100, MSS);
        assert_eq!(pacer.rate(), 0, "too short a path to pace");
        assert_eq!(run(&mut pacer.clone(), 0, 0), 0);
        assert!(pacer.wait(Instant::START).is_none());
    }

    #[test]
    fn a_rest_saves_up_no_more_than_an_initial_window() {
        let mut pacer = Pacer::default();
        pacer.set(Some(1_000_000), 0, false, 20_000, MSS);
        assert!((11..=12).contains(&run(&mut pacer, 1_000_000, 1)));
        assert!((11..=12).contains(&run(&mut pacer, 60_000_000, 1)));
    }
}
