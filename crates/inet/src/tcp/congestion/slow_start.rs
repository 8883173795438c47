//! Slow start (RFC 5681 §3.1) and what a rest does to a window, as CUBIC and NewReno have both in common.

use crate::tcp::congestion::control::Ack;
use crate::tcp::congestion::hystart::HyStart;
use crate::tcp::congestion::window::window_after_idle;
use crate::time::Duration;

/// Below the threshold the window grows by what is acknowledged (RFC 3465 §2.2 with no limit: pacing spreads what
/// that lets out). `hystart` ends the first slow start by delay; later ones have a threshold
/// (RFC 9406 §4.3), and none of it.
#[inline]
pub(super) fn slow_start(
    window: &mut u32,
    threshold: &mut u32,
    hystart: Option<&mut HyStart>,
    ack: &Ack,
) {
    let mut growth = ack.bytes;
    if let Some(hystart) = hystart {
        if hystart.on_ack(ack.rtt_us, ack.round_ended) {
            *threshold = *window;
            return;
        }
        growth = hystart.growth(growth);
    }
    if ack.limited {
        *window = window.saturating_add(growth).min(*threshold);
    }
}

/// Nothing was in flight for `idle`: the window shrinks, and what was safe is remembered (RFC 2861 §3.2).
pub(super) fn rest(window: &mut u32, threshold: &mut u32, idle: Duration, rto: Duration, mss: u32) {
    let rested = window_after_idle(*window, idle, rto, mss);
    if rested < *window {
        *threshold = (*threshold).max(*window - *window / 4);
        *window = rested;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::newreno::tests::{MSS, ack_at};

    #[test]
    fn a_threshold_is_reached_and_not_passed() {
        let (mut window, mut threshold) = (10 * MSS, 10 * MSS + 500);
        slow_start(&mut window, &mut threshold, None, &ack_at(0));
        assert_eq!((window, threshold), (10 * MSS + 500, 10 * MSS + 500));
    }

    /// Rounds whose delay rises: with HyStart++ the window stops where it was noticed, without it does not.
    #[test]
    fn only_the_first_slow_start_ends_by_delay() {
        for first in [true, false] {
            let (mut window, mut threshold) = (10 * MSS, u32::MAX);
            let mut hystart = first.then(HyStart::new);
            for round in 0..12u32 {
                for n in 0..10 {
                    let mut ack = ack_at(0);
                    (ack.round_ended, ack.rtt_us) = (n == 0, Some(20_000 + round * 10_000));
                    slow_start(&mut window, &mut threshold, hystart.as_mut(), &ack);
                }
            }
            assert_eq!(threshold != u32::MAX, first, "{window} {threshold}");
        }
    }
}
