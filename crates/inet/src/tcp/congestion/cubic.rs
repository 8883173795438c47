//! CUBIC's window (RFC 9438): after a loss it returns fast to where the loss was, lingers there, and
//! then looks for more; never slower than Reno would be.
//!
//! Windows are bytes; the cubic function is computed in segments and seconds, in floating point, once
//! an acknowledgement. Time in which nothing was sent does not count (§5.8).

use crate::tcp::congestion::control::{Ack, Cause, Congested, CongestionControl};
use crate::tcp::congestion::hystart::HyStart;
use crate::tcp::congestion::slow_start::{rest, slow_start};
use crate::tcp::congestion::window::{initial_window, saved_threshold, saved_window};
use crate::time::{Duration, Instant};

/// §5: how fast it grows, in segments a cubic second.
const C: f32 = 0.4;

/// §4.6: what is left of the window after a loss.
const BETA: f32 = 0.7;

/// §4.3: Reno's growth that gives the same share with this `BETA`: 3 (1 - β) / (1 + β).
const ALPHA: f32 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Growth a round trip while no loss has shown a plateau: a twentieth.
const UNKNOWN_PLATEAU_DIVISOR: f32 = 20.0;

/// What an epoch of congestion avoidance is reckoned from.
#[derive(Clone, Debug)]
struct Epoch {
    /// When it began; moves on with time in which nothing was sent.
    start: Instant,
    /// Seconds until the cubic function reaches `w_max`.
    k: f32,
    /// In segments: the plateau, and what Reno's window would be.
    w_max: f32,
    w_est: f32,
}

/// Where the window stands.
#[derive(Clone, Debug)]
enum Stage {
    /// The first slow start.
    First(HyStart),
    /// After a loss, before congestion avoidance.
    Repaired,
    /// Congestion avoidance.
    Avoidance(Epoch),
}

/// A CUBIC congestion window.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: u32,
    threshold: u32,
    /// The window before the last reduction, perhaps made smaller to leave room (§4.7), in bytes.
    w_max: u32,
    /// The window just before the last reduction: `cwnd_prior` of §4.3.
    prior: u32,
    /// The last reduction was a timeout's.
    timed_out: bool,
    /// What growth by parts of bytes has not yet given.
    fraction: f32,
    stage: Stage,
    last_ack: Instant,
    /// Window, threshold and `w_max` before the last congestion event.
    before: (u32, u32, u32),
}

impl Cubic {
    /// A fresh window for segments of `mss` bytes.
    pub fn new(mss: u32) -> Self {
        let window = initial_window(mss);
        Self {
            window,
            threshold: u32::MAX,
            w_max: 0,
            prior: 0,
            timed_out: false,
            fraction: 0.0,
            stage: Stage::First(HyStart::new()),
            last_ack: Instant::START,
            before: (window, u32::MAX, 0),
        }
    }

    fn slow_start(&mut self, ack: &Ack) {
        let hystart = match &mut self.stage {
            Stage::First(hystart) => Some(hystart),
            Stage::Repaired | Stage::Avoidance(_) => None,
        };
        slow_start(&mut self.window, &mut self.threshold, hystart, ack);
    }

    /// §4.2 to §4.5.
    fn avoidance(&mut self, ack: &Ack) {
        let mss = ack.mss as f32;
        let cwnd = self.window as f32 / mss;
        let (w_max, prior) = (self.w_max as f32 / mss, self.prior as f32 / mss);
        if !matches!(self.stage, Stage::Avoidance(_)) {
            // §4.2: where there was no loss, slow start ended by delay: K is 0. §4.8: so it is after a
            // timeout.
            let w_max = if self.timed_out {
                cwnd
            } else {
                w_max.max(cwnd)
            };
            self.stage = Stage::Avoidance(Epoch {
                start: ack.now,
                k: ((w_max - cwnd) / C).cbrt(),
                w_max,
                w_est: cwnd,
            });
        }
        let Stage::Avoidance(epoch) = &mut self.stage else {
            return;
        };
        let t = (ack.now - epoch.start).as_micros() as f32 / 1e6;
        let acked = ack.bytes as f32 / mss;
        // §4.3: from the prior window on, Reno's own pace.
        let alpha = if epoch.w_est < prior { ALPHA } else { 1.0 };
        epoch.w_est += alpha * acked / cwnd;
        let cubic = |t: f32| C * (t - epoch.k).powi(3) + epoch.w_max;
        let gain = if cubic(t) < epoch.w_est {
            (epoch.w_est - cwnd).max(0.0)
        } else {
            // §4.2: towards where the function will be a round trip from now, by at most half.
            let ahead = cubic(t + ack.srtt_us as f32 / 1e6);
            let target = ahead.clamp(cwnd, 1.5 * cwnd);
            (target - cwnd) / cwnd * acked
        };
        // Before the first loss nothing is known of a plateau: slow start ended by delay, perhaps too
        // early. Go on by a twentieth a round trip at least, as Linux does.
        let gain = if self.w_max == 0 {
            gain.max(acked / UNKNOWN_PLATEAU_DIVISOR)
        } else {
            gain
        };
        let grown = self.fraction + gain * mss;
        let whole = grown as u32;
        self.fraction = grown - whole as f32;
        self.window = self.window.saturating_add(whole);
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.window < self.threshold {
            self.slow_start(ack);
        } else if ack.limited {
            self.avoidance(ack);
        } else if let Stage::Avoidance(epoch) = &mut self.stage {
            // §5.8: time stands still while the program does not use the window.
            epoch.start += ack.now - self.last_ack;
        }
        self.last_ack = ack.now;
    }

    fn on_congestion(&mut self, event: &Congested) {
        let again = event.cause == (Cause::Timeout { again: true });
        if !again {
            self.before = (self.window, self.threshold, self.w_max);
            // §4.6: what was really in flight, where the program used less than the window.
            let used = self.window.min(event.in_flight.max(2 * event.mss));
            self.prior = used;
            // §4.7: fast convergence leaves room for newcomers.
            self.w_max = if used < self.w_max {
                (used as f32 * (1.0 + BETA) / 2.0) as u32
            } else {
                used
            };
            self.threshold = ((used as f32 * BETA) as u32).max(2 * event.mss);
        }
        self.window = match event.cause {
            Cause::Timeout { .. } => event.mss,
            Cause::Loss | Cause::Mark => self.threshold,
        };
        self.timed_out = matches!(event.cause, Cause::Timeout { .. });
        self.fraction = 0.0;
        self.stage = Stage::Repaired;
    }

    fn undo(&mut self) {
        let (window, threshold, w_max) = self.before;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
        self.w_max = self.w_max.max(w_max);
        self.stage = Stage::Repaired;
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration, mss: u32) {
        if let Stage::Avoidance(epoch) = &mut self.stage {
            epoch.start += idle;
        }
        rest(&mut self.window, &mut self.threshold, idle, rto, mss);
    }

    fn taken_over(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Avoidance(_)) {
            self.stage = Stage::Repaired;
        }
        self.last_ack = now;
    }

    fn save(&self) -> [u64; 4] {
        let figures = [self.window, self.threshold, self.w_max, self.prior];
        figures.map(u64::from)
    }

    fn restore(&mut self, saved: [u64; 4], mss: u32) {
        self.window = saved_window(saved[0], mss);
        self.threshold = saved_threshold(saved[1], mss);
        // None of both before the first loss.
        [self.w_max, self.prior] = [saved[2], saved[3]].map(|bytes| bytes.min(1 << 30) as u32);
        self.before = (self.window, self.threshold, self.w_max);
        if self.threshold != u32::MAX {
            self.stage = Stage::Repaired;
        }
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
    use crate::tcp::congestion::newreno::tests::{MSS, ack_at, congested};

    /// Round trips of 100 ms with the window full, until `seconds`; the window after each.
    fn run(cc: &mut Cubic, from: f64, seconds: f64) -> Vec<u32> {
        let mut windows = Vec::new();
        let mut at = from;
        while at < from + seconds {
            at += 0.1;
            for _ in 0..cc.window() / MSS {
                cc.on_ack(&ack_at((at * 1e6) as u64));
            }
            windows.push(cc.window());
        }
        windows
    }

    #[test]
    fn slow_start_doubles() {
        let mut cc = Cubic::new(MSS);
        assert_eq!(run(&mut cc, 0.0, 0.25), [20 * MSS, 40 * MSS, 80 * MSS]);
    }

    /// K = cbrt(W_max (1 - β) / C): 100 segments are reached again after some 4.2 s (§4.2).
    #[test]
    fn it_returns_to_the_plateau_when_the_function_says() {
        let mut cc = Cubic::new(MSS);
        cc.window = 100 * MSS;
        cc.on_congestion(&congested(Cause::Loss, 100 * MSS));
        assert_eq!(cc.window(), 70 * MSS);
        let windows = run(&mut cc, 0.0, 8.0);
        let at = |s: f64| windows[(s * 10.0) as usize] / MSS;
        assert!((98..=101).contains(&at(4.2)), "{}", at(4.2));
        assert!((90..=97).contains(&at(2.0)), "steep at first: {}", at(2.0));
        assert!(at(7.5) > 110, "and beyond: {}", at(7.5));
    }

    /// §4.3: with small windows Reno is faster, and CUBIC follows it.
    #[test]
    fn it_is_never_slower_than_reno() {
        let mut cc = Cubic::new(MSS);
        cc.on_congestion(&congested(Cause::Loss, 10 * MSS));
        assert_eq!(cc.window(), 7 * MSS);
        // ALPHA = 0.53 a round trip up to 10 segments, then one each.
        let windows = run(&mut cc, 0.0, 2.0);
        assert!(windows[19] >= 20 * MSS, "{}", windows[19]);
    }

    /// Slow start ended by delay: a twentieth a round trip until a loss tells more.
    #[test]
    fn without_a_plateau_it_grows_by_parts() {
        let mut cc = Cubic::new(MSS);
        (cc.window, cc.threshold) = (100 * MSS, 100 * MSS);
        let windows = run(&mut cc, 0.0, 0.5);
        assert!((124..=130).contains(&(windows[4] / MSS)), "{windows:?}");
    }

    #[test]
    fn fast_convergence_lowers_the_plateau() {
        let mut cc = Cubic::new(MSS);
        cc.window = 100 * MSS;
        cc.on_congestion(&congested(Cause::Loss, 100 * MSS));
        cc.on_congestion(&congested(Cause::Loss, 70 * MSS));
        assert_eq!(cc.w_max, 59_500);
    }

    #[test]
    fn time_at_rest_does_not_count() {
        let mut cc = Cubic::new(MSS);
        cc.window = 100 * MSS;
        cc.on_congestion(&congested(Cause::Loss, 100 * MSS));
        run(&mut cc, 0.0, 0.5);
        let before = cc.window();
        let hour = Duration::from_secs(3600);
        let Stage::Avoidance(epoch) = &mut cc.stage else {
            panic!("in congestion avoidance");
        };
        epoch.start += hour;
        run(&mut cc, 3600.5, 0.05);
        assert!(cc.window() - before < 4 * MSS, "{before} {}", cc.window());
    }

    #[test]
    fn an_undone_loss_leaves_no_trace() {
        let mut cc = Cubic::new(MSS);
        cc.window = 100 * MSS;
        cc.on_congestion(&congested(Cause::Timeout { again: false }, 100 * MSS));
        assert_eq!((cc.window(), cc.threshold()), (MSS, 70 * MSS));
        cc.undo();
        assert_eq!((cc.window(), cc.threshold()), (100 * MSS, u32::MAX));
    }
}
