//! Congestion control: how many bytes of a connection may be in flight, and how fast they leave.
//!
//! When a loss is believed, and which segment is sent again, is decided in `loss`, the same
//! way for every algorithm. An algorithm is told of acknowledgements, of congestion, and of rest, and
//! asked for its window and its pacing rate: [`CongestionControl`] is the whole interface, and a
//! program can bring its own ([`Algorithm::Custom`]). The algorithms here are held in line
//! ([`Congestion`]); a program's own one is boxed. All figures but times are bytes.

pub mod bbr;
pub mod cubic;
pub mod fixed;
pub mod hystart;
pub mod newreno;
mod slow_start;

use core::fmt;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use fixed::FixedRate;
pub use newreno::NewReno;

use crate::limits::{INITIAL_WINDOW_BYTES_LEAST, INITIAL_WINDOW_SEGMENTS};
use crate::time::{Duration, Instant};

/// What an acknowledgement tells an algorithm.
#[derive(Copy, Clone, Debug)]
pub struct Ack {
    /// The time.
    pub now: Instant,
    /// Bytes that it newly says have arrived, cumulatively or selectively.
    pub bytes: u32,
    /// Bytes in flight after it: sent, not acknowledged, not believed lost.
    pub in_flight: u32,
    /// Bytes that were in flight before it.
    pub in_flight_before: u32,
    /// The maximum segment size.
    pub mss: u32,
    /// What it acknowledges was sent while the window was full: only then may the window grow
    /// (RFC 7661's concern).
    pub limited: bool,
    /// All that was in flight when the round began is acknowledged: a round trip is over.
    pub round_ended: bool,
    /// A round trip measured with it, in microseconds.
    pub rtt_us: Option<u32>,
    /// The smoothed round trip in microseconds, zero before the first.
    pub srtt_us: u32,
    /// The least round trip in microseconds, zero before the first.
    pub least_rtt_us: u32,
    /// How fast data arrived over the flight that it ends.
    pub rate: Option<DeliveryRate>,
    /// A loss is being repaired. Only those that own recovery hear of such acknowledgements.
    pub in_recovery: bool,
}

/// A sample of the delivery rate.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct DeliveryRate {
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// The program had too little to send: the path may be faster.
    pub app_limited: bool,
}

/// Why an algorithm must slow down.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Cause {
    /// A segment is believed lost (RFC 8985, RFC 5681 §3.2).
    Loss,
    /// A router marked a packet (RFC 3168 §6.1.2).
    Mark,
    /// The retransmission timer ran out; `again` for what has been sent again already.
    Timeout {
        /// It is not the first time for this data: the threshold stays (RFC 5681 §3.1).
        again: bool,
    },
}

/// A congestion event.
#[derive(Copy, Clone, Debug)]
pub struct Congested {
    /// The time.
    pub now: Instant,
    /// Why.
    pub cause: Cause,
    /// Bytes in flight just before, those believed lost included.
    pub in_flight: u32,
    /// The maximum segment size.
    pub mss: u32,
}

/// The interface of an algorithm.
pub trait CongestionControl: Send + Sync + fmt::Debug {
    /// Its name, as programs and people write it.
    fn name(&self) -> &'static str;

    /// How many bytes may be in flight.
    fn window(&self) -> u32;

    /// The slow-start threshold, where it has one.
    fn threshold(&self) -> u32 {
        u32::MAX
    }

    /// Bytes a second at which data leaves; `None` leaves it to the window (`pacing`).
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// True when the window holds while losses are repaired too. Others are led through recovery by
    /// proportional rate reduction (RFC 6937) towards their threshold.
    fn owns_recovery(&self) -> bool {
        false
    }

    /// New data was acknowledged.
    fn on_ack(&mut self, ack: &Ack);

    /// Congestion: take note, reduce the window.
    fn on_congestion(&mut self, event: &Congested);

    /// The last congestion event was none: everything had arrived (RFC 4015).
    fn undo(&mut self);

    /// Nothing was in flight for `idle`, several of the retransmission timeouts `rto`.
    fn on_idle(&mut self, idle: Duration, rto: Duration, mss: u32) {
        let _ = (idle, rto, mss);
    }

    /// The connection goes on in another stack, whose clock shows `now`: earlier times mean nothing.
    fn taken_over(&mut self, now: Instant) {
        let _ = now;
    }

    /// What is worth remembering when the connection goes on in another process: four numbers that mean
    /// something to the same algorithm there ([`Self::restore`]).
    fn save(&self) -> [u64; 4] {
        [self.window().into(), 0, 0, 0]
    }

    /// Go on from what [`Self::save`] gave, where another program's word is all that is known of the numbers:
    /// any must do no harm. Does nothing: the connection begins with the initial window again.
    fn restore(&mut self, saved: [u64; 4], mss: u32) {
        let _ = (saved, mss);
    }

    /// The handshake has shown the maximum segment size; nothing was sent yet.
    fn set_mss(&mut self, mss: u32) {
        let _ = mss;
    }

    /// The first SYN or SYN-ACK was lost: begin with one segment (RFC 6298 §5.7, RFC 5681 §3.1).
    fn handshake_lost(&mut self, mss: u32) {
        let _ = mss;
    }
}

/// Which algorithm a connection begins with.
#[derive(Copy, Clone, Default)]
pub enum Algorithm {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582) with HyStart++.
    NewReno,
    /// A model of the path after BBR: [`bbr`].
    Bbr,
    /// This many bytes a second, whatever happens: for load generators on links of their own.
    FixedRate(u64),
    /// The program's own, made for a maximum segment size. The name is for people.
    Custom(&'static str, fn(mss: u32) -> Box<dyn CongestionControl>),
}

impl Algorithm {
    /// The algorithm of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "cubic" => Self::Cubic,
            "newreno" | "reno" => Self::NewReno,
            "bbr" => Self::Bbr,
            _ => return None,
        })
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => "bbr",
            Self::FixedRate(_) => "fixed-rate",
            Self::Custom(name, _) => name,
        }
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An algorithm at work for one connection.
#[derive(Debug)]
pub enum Congestion {
    /// CUBIC.
    Cubic(Cubic),
    /// NewReno.
    NewReno(NewReno),
    /// Any other, in a box.
    Boxed(Box<dyn CongestionControl>),
}

impl Congestion {
    /// A fresh one for segments of `mss` bytes.
    pub fn new(algorithm: Algorithm, mss: u32) -> Self {
        match algorithm {
            Algorithm::Cubic => Self::Cubic(Cubic::new(mss)),
            Algorithm::NewReno => Self::NewReno(NewReno::new(mss)),
            Algorithm::Bbr => Self::Boxed(Box::new(Bbr::new(mss))),
            Algorithm::FixedRate(rate) => Self::Boxed(Box::new(FixedRate::new(rate, mss))),
            Algorithm::Custom(_, make) => Self::Boxed(make(mss)),
        }
    }

    /// The algorithm, to ask.
    #[inline]
    pub fn get(&self) -> &dyn CongestionControl {
        match self {
            Self::Cubic(c) => c,
            Self::NewReno(c) => c,
            Self::Boxed(c) => c.as_ref(),
        }
    }

    /// The algorithm, to tell.
    #[inline]
    pub fn get_mut(&mut self) -> &mut dyn CongestionControl {
        match self {
            Self::Cubic(c) => c,
            Self::NewReno(c) => c,
            Self::Boxed(c) => c.as_mut(),
        }
    }

    /// How many bytes may be in flight.
    #[inline]
    pub fn window(&self) -> u32 {
        match self {
            Self::Cubic(c) => c.window(),
            Self::NewReno(c) => c.window(),
            Self::Boxed(c) => c.window(),
        }
    }

    /// The slow-start threshold, where it has one.
    #[inline]
    pub fn threshold(&self) -> u32 {
        match self {
            Self::Cubic(c) => c.threshold(),
            Self::NewReno(c) => c.threshold(),
            Self::Boxed(c) => c.threshold(),
        }
    }

    /// See [`CongestionControl::pacing_rate`]. The algorithms held in line have none of their own.
    #[inline]
    pub fn pacing_rate(&self) -> Option<u64> {
        match self {
            Self::Cubic(_) | Self::NewReno(_) => None,
            Self::Boxed(c) => c.pacing_rate(),
        }
    }

    /// See [`CongestionControl::owns_recovery`]. Those held in line do not.
    #[inline]
    pub fn owns_recovery(&self) -> bool {
        match self {
            Self::Cubic(_) | Self::NewReno(_) => false,
            Self::Boxed(c) => c.owns_recovery(),
        }
    }

    /// See [`CongestionControl::on_ack`].
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack) {
        match self {
            Self::Cubic(c) => c.on_ack(ack),
            Self::NewReno(c) => c.on_ack(ack),
            Self::Boxed(c) => c.on_ack(ack),
        }
    }
}

/// The initial window (RFC 6928 §2).
pub const fn initial_window(mss: u32) -> u32 {
    let segments = INITIAL_WINDOW_SEGMENTS * mss;
    let least = if 2 * mss > INITIAL_WINDOW_BYTES_LEAST {
        2 * mss
    } else {
        INITIAL_WINDOW_BYTES_LEAST
    };
    if segments < least { segments } else { least }
}

/// A window from another process: a segment at least, and no more than can be told of one (RFC 7323 §2.3).
fn saved_window(saved: u64, mss: u32) -> u32 {
    saved.clamp(mss.into(), 1 << 30) as u32
}

/// A slow-start threshold from there.
fn saved_threshold(saved: u64, mss: u32) -> u32 {
    saved.clamp(2 * u64::from(mss), u32::MAX.into()) as u32
}

/// A rate from there, in bytes a second: no link carries a terabyte.
fn saved_rate(saved: u64) -> u64 {
    saved.min(1 << 40)
}

/// A window after `idle` without anything in flight: half for each retransmission timeout, down to the
/// initial window (RFC 5681 §4.1, RFC 2861 §3.2; pacing spreads what is left, RFC 7661 §4.3).
pub(in crate::tcp) fn window_after_idle(
    window: u32,
    idle: Duration,
    rto: Duration,
    mss: u32,
) -> u32 {
    let halvings = (idle.as_micros() / rto.as_micros().max(1)).min(31) as u32;
    let least = initial_window(mss);
    if window <= least {
        window
    } else {
        (window >> halvings).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_window_is_bounded_for_large_segments() {
        assert_eq!(initial_window(1460), 14_600);
        assert_eq!(initial_window(8960), 17_920);
        assert_eq!(initial_window(536), 5_360);
    }

    #[test]
    fn a_window_decays_with_idle_time_down_to_the_initial_one() {
        let rto = Duration::from_millis(200);
        let after = |ms| window_after_idle(160_000, Duration::from_millis(ms), rto, 1000);
        assert_eq!(after(199), 160_000);
        assert_eq!(after(200), 80_000);
        assert_eq!(after(400), 40_000);
        assert_eq!(after(100_000), 10_000);
        let small = window_after_idle(2_000, Duration::from_secs(9), rto, 1000);
        assert_eq!(small, 2_000, "it does not grow by resting");
    }

    #[test]
    fn every_algorithm_is_found_by_its_name() {
        for algorithm in [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr] {
            let found = Algorithm::by_name(algorithm.name()).unwrap();
            assert_eq!(found.name(), algorithm.name());
            let made = Congestion::new(algorithm, 1460);
            assert_eq!(made.get().name(), algorithm.name());
            assert_eq!(made.window(), 14_600);
        }
        assert!(Algorithm::by_name("vegas").is_none());
    }
}
