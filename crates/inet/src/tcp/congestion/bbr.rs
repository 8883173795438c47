//! A model of the path after BBR (Cardwell and others, *BBR: Congestion-Based Congestion Control*, ACM
//! Queue 2016, and its Internet-Drafts): what it lets through (the greatest delivery rate of the last
//! ten round trips) and how long it is (the least round trip of the last ten seconds). Data leaves at
//! that rate, and little more than rate times round trip is in flight, so no queue stands.
//!
//! It follows version 1 with two of version 2's corrections: looking for the rate ends also when losses show that the
//! path is full, and it cruises at a rate a little below the estimate. Losses alone are not taken as
//! congestion. So beside CUBIC it takes most of a bottleneck whose queue is shorter than two products of rate and round
//! trip, as version 1 does; with two they share alike (`crates/sim/tests/all/bbr.rs`).

use crate::tcp::congestion::control::{Ack, Cause, Congested, CongestionControl};
use crate::tcp::congestion::window::{initial_window, saved_rate, saved_window};
use crate::time::{Duration, Instant};

/// 2 / ln 2: the least gain that doubles the rate each round trip.
const STARTUP_GAIN: f32 = 2.885;

/// Startup is over when the rate has not grown by a quarter in three rounds.
const FULL_GROWTH: f32 = 1.25;
const FULL_ROUNDS: u8 = 3;

/// A cycle of one round trip each: look for more, give back what that queued, cruise.
const CYCLE: [f32; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// In flight while cruising: twice the path's product, for delayed and stretched acknowledgements.
const WINDOW_GAIN: f32 = 2.0;

/// Just below the estimate, so that no queue stands (version 2).
const PACING_MARGIN: f32 = 0.99;

const RATE_ROUNDS: u64 = 10;
const LEAST_RTT_TIME: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const WINDOW_LEAST_SEGMENTS: u32 = 4;

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Mode {
    /// Find the rate.
    Startup,
    /// Let go of the queue that finding it made.
    Drain,
    /// Cruise, in cycles.
    Cruise { phase: usize, since: Instant },
    /// Empty the path for a moment to see its length.
    ProbeRtt { until: Instant },
}

/// The model and its windows.
#[derive(Clone, Debug)]
pub struct Bbr {
    mode: Mode,
    window: u32,
    /// Bytes a second, zero before the first sample.
    pacing: u64,
    /// The greatest delivery rate of recent rounds: the best three, each with its round.
    rates: [(u64, u64); 3],
    round: u64,
    least_rtt_us: u32,
    least_rtt_at: Instant,
    full_rate: u64,
    full_rounds: u8,
}

impl Bbr {
    /// Nothing is known of the path.
    pub const fn new(mss: u32) -> Self {
        Self {
            mode: Mode::Startup,
            window: initial_window(mss),
            pacing: 0,
            rates: [(0, 0); 3],
            round: 0,
            least_rtt_us: u32::MAX,
            least_rtt_at: Instant::START,
            full_rate: 0,
            full_rounds: 0,
        }
    }

    /// The estimate of what the path lets through, bytes a second.
    const fn rate(&self) -> u64 {
        self.rates[0].0
    }

    /// Rate times round trip, times `gain`.
    fn product(&self, gain: f32) -> u32 {
        let bytes = self.rate() as f64 * f64::from(self.least_rtt_us) / 1e6 * f64::from(gain);
        bytes.min(f64::from(1u32 << 30)) as u32
    }

    /// A windowed maximum of three samples, as Kathleen Nichols' in Linux: the best, the best since,
    /// and the best since that.
    fn note_rate(&mut self, rate: u64) {
        let new = (rate, self.round);
        let best = &mut self.rates;
        if rate >= best[0].0 || self.round - best[2].1 > RATE_ROUNDS {
            *best = [new; 3];
            return;
        }
        if rate >= best[1].0 {
            (best[1], best[2]) = (new, new);
        } else if rate >= best[2].0 {
            best[2] = new;
        }
        if self.round - best[0].1 > RATE_ROUNDS {
            *best = [best[1], best[2], new];
        } else if best[1].1 == best[0].1 && self.round - best[1].1 > RATE_ROUNDS / 4 {
            (best[1], best[2]) = (new, new);
        } else if best[2].1 == best[1].1 && self.round - best[2].1 > RATE_ROUNDS / 2 {
            best[2] = new;
        }
    }

    fn update_model(&mut self, ack: &Ack) {
        self.round += u64::from(ack.round_ended);
        if let Some(sample) = ack.rate
            && (!sample.app_limited || sample.bytes_per_second > self.rate())
        {
            self.note_rate(sample.bytes_per_second);
        }
        if let Some(rtt_us) = ack.rtt_us
            && rtt_us <= self.least_rtt_us
        {
            (self.least_rtt_us, self.least_rtt_at) = (rtt_us, ack.now);
        }
    }

    fn update_mode(&mut self, ack: &Ack) {
        match self.mode {
            Mode::Startup => {
                if ack.round_ended && !ack.rate.is_some_and(|r| r.app_limited) {
                    self.look_for_full_pipe();
                }
            }
            Mode::Drain => {
                if ack.in_flight <= self.product(1.0) {
                    self.cruise(ack.now);
                }
            }
            Mode::Cruise { phase, since } => {
                let round_trip = Duration::from_micros(u64::from(self.least_rtt_us));
                let drained = CYCLE[phase] < 1.0 && ack.in_flight <= self.product(1.0);
                if ack.now - since > round_trip || drained {
                    let phase = (phase + 1) % CYCLE.len();
                    self.mode = Mode::Cruise {
                        phase,
                        since: ack.now,
                    };
                }
            }
            Mode::ProbeRtt { until } => {
                if ack.now >= until {
                    (self.least_rtt_us, self.least_rtt_at) =
                        (ack.rtt_us.unwrap_or(self.least_rtt_us), ack.now);
                    self.resume(ack.now);
                }
            }
        }
        let stale = ack.now - self.least_rtt_at > LEAST_RTT_TIME;
        if stale && !matches!(self.mode, Mode::ProbeRtt { .. }) && ack.limited {
            let until = ack.now + PROBE_RTT_TIME;
            self.mode = Mode::ProbeRtt { until };
        } else if stale
            && !ack.limited
            && let Some(rtt_us) = ack.rtt_us
        {
            // The program's own pauses have emptied the path.
            (self.least_rtt_us, self.least_rtt_at) = (rtt_us, ack.now);
        }
    }

    fn look_for_full_pipe(&mut self) {
        if self.rate() as f32 >= self.full_rate as f32 * FULL_GROWTH {
            (self.full_rate, self.full_rounds) = (self.rate(), 0);
            return;
        }
        self.full_rounds += 1;
        if self.full_rounds >= FULL_ROUNDS {
            self.mode = Mode::Drain;
        }
    }

    fn cruise(&mut self, now: Instant) {
        self.mode = Mode::Cruise {
            phase: 2,
            since: now,
        };
    }

    fn resume(&mut self, now: Instant) {
        if self.full_rounds >= FULL_ROUNDS {
            self.cruise(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn gains(&self) -> (f32, f32) {
        match self.mode {
            Mode::Startup => (STARTUP_GAIN, STARTUP_GAIN),
            Mode::Drain => (1.0 / STARTUP_GAIN, STARTUP_GAIN),
            Mode::Cruise { phase, .. } => (CYCLE[phase], WINDOW_GAIN),
            Mode::ProbeRtt { .. } => (1.0, 0.5),
        }
    }

    fn update_control(&mut self, ack: &Ack) {
        if self.rate() == 0 || self.least_rtt_us == u32::MAX {
            self.window = self.window.saturating_add(ack.bytes);
            return;
        }
        let (pacing_gain, window_gain) = self.gains();
        let pacing = (self.rate() as f64 * f64::from(pacing_gain * PACING_MARGIN)) as u64;
        if !matches!(self.mode, Mode::Startup) || pacing > self.pacing {
            self.pacing = pacing.max(1);
        }
        let least = WINDOW_LEAST_SEGMENTS * ack.mss;
        // Three segments more, for a path so short that its product is a handful.
        let target = self
            .product(window_gain)
            .saturating_add(3 * ack.mss)
            .max(least);
        let grown = self.window.saturating_add(ack.bytes);
        self.window = match self.mode {
            Mode::ProbeRtt { .. } => target,
            Mode::Startup if ack.limited => grown.max(self.window),
            Mode::Startup => self.window,
            _ => grown.min(target),
        };
    }
}

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        (self.pacing > 0).then_some(self.pacing)
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.update_model(ack);
        self.update_mode(ack);
        self.update_control(ack);
    }

    fn on_congestion(&mut self, event: &Congested) {
        match event.cause {
            // What the model says still holds; the window grows back with what arrives.
            Cause::Timeout { .. } => self.window = event.mss,
            // Many losses while looking for the rate: the path is full (version 2).
            Cause::Loss if self.mode == Mode::Startup && self.rate() > 0 => {
                if event.in_flight > self.product(WINDOW_GAIN) {
                    self.full_rounds = FULL_ROUNDS;
                    self.mode = Mode::Drain;
                }
            }
            Cause::Loss | Cause::Mark => {}
        }
    }

    fn undo(&mut self) {
        self.window = self.window.max(self.product(WINDOW_GAIN));
    }

    fn taken_over(&mut self, now: Instant) {
        self.least_rtt_at = now;
        match &mut self.mode {
            Mode::Cruise { since, .. } => *since = now,
            Mode::ProbeRtt { until } => *until = now,
            _ => {}
        }
    }

    fn save(&self) -> [u64; 4] {
        let least = u64::from(self.least_rtt_us);
        [self.window.into(), self.pacing, self.rate(), least]
    }

    fn restore(&mut self, saved: [u64; 4], mss: u32) {
        self.window = saved_window(saved[0], mss);
        self.pacing = saved_rate(saved[1]);
        self.note_rate(saved_rate(saved[2]));
        self.least_rtt_us = saved[3].clamp(1, u32::MAX.into()) as u32;
    }

    fn set_mss(&mut self, mss: u32) {
        *self = Self::new(mss);
    }

    fn handshake_lost(&mut self, mss: u32) {
        self.window = mss;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::control::DeliveryRate;
    use crate::tcp::congestion::newreno::tests::{MSS, ack_at, congested};

    const RATE: u64 = 10_000_000;
    const RTT_US: u32 = 20_000;

    /// Rounds over a path of `RATE` and `RTT_US` where all of the window is sent and delivered.
    fn rounds(cc: &mut Bbr, first: u64, count: u64) {
        for round in first..first + count {
            let wanted = u64::from(cc.window()) * 1_000_000 / u64::from(RTT_US);
            for n in 0..10u64 {
                let now = (round * 10 + n) * u64::from(RTT_US) / 10;
                cc.on_ack(&Ack {
                    bytes: cc.window() / 10,
                    in_flight: cc.window().min(RTT_US * 10),
                    round_ended: n == 0,
                    rtt_us: Some(RTT_US),
                    rate: Some(DeliveryRate {
                        bytes_per_second: wanted.min(RATE),
                        app_limited: false,
                    }),
                    ..ack_at(now)
                });
            }
        }
    }

    #[test]
    fn it_finds_the_rate_and_stays_at_it_with_little_in_flight() {
        let mut cc = Bbr::new(MSS);
        rounds(&mut cc, 1, 40);
        assert!(matches!(cc.mode, Mode::Cruise { .. }), "{:?}", cc.mode);
        assert_eq!(cc.rate(), RATE);
        let product = (RATE / 1_000_000 * u64::from(RTT_US)) as u32;
        assert!(cc.window() <= 2 * product + 3 * MSS, "{}", cc.window());
        let pacing = cc.pacing_rate().unwrap() as f64 / RATE as f64;
        assert!((0.7..1.3).contains(&pacing), "{pacing}");
    }

    #[test]
    fn a_loss_changes_nothing_while_it_cruises() {
        let mut cc = Bbr::new(MSS);
        rounds(&mut cc, 1, 40);
        let before = (cc.window(), cc.pacing_rate());
        cc.on_congestion(&congested(Cause::Loss, 100 * MSS));
        assert_eq!((cc.window(), cc.pacing_rate()), before);
    }

    #[test]
    fn the_path_is_emptied_for_a_moment_every_ten_seconds() {
        let mut cc = Bbr::new(MSS);
        rounds(&mut cc, 1, 40);
        cc.least_rtt_at = Instant::START;
        let late = 11_000_000;
        cc.on_ack(&Ack {
            rtt_us: Some(RTT_US + 1),
            ..ack_at(late)
        });
        assert!(matches!(cc.mode, Mode::ProbeRtt { .. }));
        assert!(cc.window() <= (RATE / 1_000_000 * u64::from(RTT_US)) as u32);
        cc.on_ack(&ack_at(late + 201_000));
        assert!(matches!(cc.mode, Mode::Cruise { .. }));
    }

    #[test]
    fn an_old_maximum_is_forgotten() {
        let mut cc = Bbr::new(MSS);
        cc.note_rate(9_000);
        for round in 1..=11 {
            cc.round = round;
            cc.note_rate(5_000);
        }
        assert_eq!(cc.rate(), 5_000);
    }
}
