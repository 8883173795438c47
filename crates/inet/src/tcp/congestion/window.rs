//! Windows that several algorithms begin with, rest to, or go on with from another stack.

use crate::limits::{INITIAL_WINDOW_BYTES_LEAST, INITIAL_WINDOW_SEGMENTS};
use crate::time::Duration;

/// The initial window (RFC 6928 §2).
pub(super) const fn initial_window(mss: u32) -> u32 {
    let segments = INITIAL_WINDOW_SEGMENTS * mss;
    let least = if 2 * mss > INITIAL_WINDOW_BYTES_LEAST {
        2 * mss
    } else {
        INITIAL_WINDOW_BYTES_LEAST
    };
    if segments < least { segments } else { least }
}

/// A window from another process: a segment at least, and no more than can be told of one (RFC 7323 §2.3).
pub(super) fn saved_window(saved: u64, mss: u32) -> u32 {
    saved.clamp(mss.into(), 1 << 30) as u32
}

/// A slow-start threshold from there.
pub(super) fn saved_threshold(saved: u64, mss: u32) -> u32 {
    saved.clamp(2 * u64::from(mss), u32::MAX.into()) as u32
}

/// A rate from there, in bytes a second: no link carries a terabyte.
pub(super) fn saved_rate(saved: u64) -> u64 {
    saved.min(1 << 40)
}

/// A window after `idle` without anything in flight: half for each retransmission timeout, down to the
/// initial window (RFC 5681 §4.1, RFC 2861 §3.2; pacing spreads what is left, RFC 7661 §4.3).
pub(super) fn window_after_idle(window: u32, idle: Duration, rto: Duration, mss: u32) -> u32 {
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
}
