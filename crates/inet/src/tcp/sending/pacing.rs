//! Pacing: data leaves spread over the round trip instead of in bursts.
//!
//! The rate is the algorithm's own, or follows from its window: twice a window a round trip in slow
//! start, 1.2 afterwards, as in Linux. Paths shorter than [`PACING_RTT_MIN`] are not paced: there the
//! acknowledgements come faster than any timer. After a rest an initial window may leave at once, no
//! more: this is the cure for the bursts that RFC 7661 §4.3 is about.
//!
//! A program is woken late when others use its core: what did not leave meanwhile, while data was in
//! flight, leaves when it runs again, up to a part of the round trip. Else a pace kept by a late timer
//! would be slower than the rate by as much as the timer is late each time.

use crate::limits::{
    INITIAL_WINDOW_SEGMENTS, PACING_LATE_MAX, PACING_LATE_MIN, PACING_LATE_RTT_DIVISOR,
    PACING_REST_MIN, PACING_RTT_MAX, PACING_RTT_MIN, PACING_SUPER_PACKET_PER_SECOND,
};
use crate::time::Instant;

/// When the next data of one connection may leave.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Bytes a second; zero: as fast as the window allows.
    rate: u64,
    /// In nanoseconds, because a segment may take less than a microsecond.
    next_ns: u64,
    /// How far behind the time `next_ns` may lag, in microseconds: after a rest, an initial window's worth;
    rest_us: u32,
    /// with data in flight, how late a timer or an acknowledgement may be.
    late_us: u32,
    /// The pace alone held data back when segments were last asked for; it may leave then.
    held_until: Instant,
}

impl Pacer {
    /// As fast as the window allows.
    pub const fn new() -> Self {
        Self {
            rate: 0,
            next_ns: 0,
            rest_us: 0,
            late_us: 0,
            held_until: Instant::NEVER,
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
            let rest_us = (burst * 1_000_000).checked_div(rate).unwrap_or(0);
            self.rest_us = u32::try_from(rest_us).unwrap_or(u32::MAX).max(REST_MIN_US);
            let late_us = (srtt_us / PACING_LATE_RTT_DIVISOR).clamp(LATE_MIN_US, LATE_MAX_US);
            self.late_us = late_us.max(self.rest_us);
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

    /// True when the pace does not allow anything to leave yet; [`Self::held_until`] says when it does.
    #[inline]
    pub fn holds_back(&mut self, now: Instant) -> bool {
        let wait = self.wait(now);
        if let Some(at) = wait {
            self.held_until = at;
        }
        wait.is_some()
    }

    /// Segments are asked for again: nothing is held back yet.
    #[inline]
    pub fn release(&mut self) {
        self.held_until = Instant::NEVER;
    }

    /// When data may leave that its pace holds back.
    #[inline]
    pub fn held_until(&self) -> Instant {
        self.held_until
    }

    /// `bytes` have left, after a rest when nothing else was in flight. Lateness is caught up with, a rest
    /// is not.
    #[inline]
    pub fn left(&mut self, now: Instant, bytes: u32, rested: bool) {
        if self.rate == 0 {
            return;
        }
        let lag_us = if rested { self.rest_us } else { self.late_us };
        let earliest = now.micros().saturating_sub(lag_us.into()) * 1000;
        let cost = u64::from(bytes) * 1_000_000_000 / self.rate;
        self.next_ns = self.next_ns.max(earliest) + cost;
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

const REST_MIN_US: u32 = PACING_REST_MIN.as_micros() as u32;
const LATE_MIN_US: u32 = PACING_LATE_MIN.as_micros() as u32;
const LATE_MAX_US: u32 = PACING_LATE_MAX.as_micros() as u32;

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
                pacer.left(now, MSS, sent == 0);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn the_rate_is_kept_after_an_initial_window() {
        let mut pacer = Pacer::new();
        pacer.set(Some(100_000_000), 0, false, 20_000, MSS);
        // 100 segments a millisecond.
        let first = run(&mut pacer, 1_000_000, 10_000);
        assert!((1_000..=1_101).contains(&first), "{first}");
        assert!((999..=1_001).contains(&run(&mut pacer, 1_010_000, 10_000)));
    }

    /// A minute of lost acknowledgements is no round trip to spread a segment over.
    #[test]
    fn an_absurd_round_trip_holds_nothing_back() {
        let mut pacer = Pacer::new();
        pacer.set(None, MSS, false, 136_000_000, MSS);
        pacer.left(Instant::from_micros(1), 10 * MSS, true);
        let now = Instant::from_micros(20_000_000);
        pacer.left(now, MSS, false);
        assert!(pacer.wait(now).is_none_or(|at| at - now <= PACING_RTT_MAX));
    }

    #[test]
    fn the_rate_follows_from_the_window() {
        let mut pacer = Pacer::new();
        pacer.set(None, 100_000, true, 20_000, MSS);
        assert_eq!(pacer.rate(), 10_000_000);
        pacer.set(None, 100_000, false, 20_000, MSS);
        assert_eq!(pacer.rate(), 6_000_000);
        pacer.set(None, 100_000, false, 100, MSS);
        assert_eq!(pacer.rate(), 0, "too short a path to pace");
        assert_eq!(run(&mut pacer.clone(), 0, 0), 0);
        assert!(pacer.wait(Instant::START).is_none());
    }

    /// Woken each 4 ms instead of when it asked: with data in flight the rate is kept all the same, up to a quarter
    /// of the round trip of 20 ms.
    #[test]
    fn a_late_timer_does_not_slow_the_pace() {
        let mut pacer = Pacer::new();
        pacer.set(Some(10_000_000), 0, false, 20_000, MSS);
        let sent = |pacer: &mut Pacer, late_us: u64| {
            let mut sent = 0;
            for wake in 0..100 {
                let now = Instant::from_micros(1_000_000 + late_us * wake);
                while pacer.wait(now).is_none() {
                    pacer.left(now, MSS, false);
                    sent += 1;
                }
            }
            sent
        };
        let on_time = 10 * 4 * 100;
        let kept = sent(&mut pacer.clone(), 4_000);
        assert!((on_time - 40..=on_time + 60).contains(&kept), "{kept}");
        // No more than a quarter of the round trip at once, however late.
        let at_once = sent(&mut pacer, 100_000) / 100;
        assert!((50..=51).contains(&at_once), "{at_once}");
    }

    #[test]
    fn a_rest_saves_up_no_more_than_an_initial_window() {
        let mut pacer = Pacer::new();
        pacer.set(Some(1_000_000), 0, false, 20_000, MSS);
        assert!((11..=12).contains(&run(&mut pacer, 1_000_000, 1)));
        assert!((11..=12).contains(&run(&mut pacer, 60_000_000, 1)));
    }
}
