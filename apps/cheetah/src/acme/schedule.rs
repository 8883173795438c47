//! When a certificate is renewed, and when it is tried again after that has failed; the time, and times for people.

use std::time::Duration;

use exos::clock;
use exos_tls::certificate::{UnixSecs, Validity};

use super::challenges::Kind;
use crate::limits::{
    ACME_ADVICE_TIME_MAX, ACME_ADVICE_TIME_MIN, ACME_RETRIES_REFUSED, ACME_RETRY_UNREACHED,
    ACME_RETRY_UNREACHED_MAX, ACME_WAIT_MAX,
};

/// Why a certificate did not come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// The authority was not reached, or has answered nothing that is understood: nothing is counted there.
    Unreached,
    /// It has refused, which it counts (RFC 8555 §6.6).
    Refused,
    /// It did not find this server when it asked in this way, which it counts, too.
    NotFound(Kind),
    /// It was asked too often.
    RateLimited,
    /// None is wanted any more, and it was asked for nothing that it counts: this is no failure.
    Unwanted,
}

/// When a certificate is renewed: when two thirds of its time are over, or up to a twentieth of it earlier, so that those who got
/// theirs together do not come back together. `spread` is any number, the same one for the same certificate.
pub fn renew_at(validity: Validity, spread: u64) -> UnixSecs {
    let time = validity.until.saturating_sub(validity.from).max(0);
    validity.from + time / 3 * 2 - part(time / 20, spread)
}

/// When a certificate is renewed where its authority advises a time from `from` until `until` (RFC 9773 §4.2): at any moment of that time, but
/// before a tenth of the certificate's own is left, for its authority may be away then. `spread` is as of [`renew_at`].
pub fn renew_in((from, until): (UnixSecs, UnixSecs), validity: Validity, spread: u64) -> UnixSecs {
    let advised = from.saturating_add(part(until.saturating_sub(from).max(0), spread));
    let time = validity.until.saturating_sub(validity.from).max(0);
    advised.min(validity.until - time / 10)
}

/// When the authority is asked for its advice again, as it says (RFC 9773 §4.3.2).
pub fn ask_again(said: Duration) -> Duration {
    said.clamp(ACME_ADVICE_TIME_MIN, ACME_ADVICE_TIME_MAX)
}

/// How long to wait after as many failures in a row, of which the last was such a one; up to a quarter more by `spread`. The
/// authority may have said to wait longer, up to a day.
pub fn wait_after(failures: u32, last: Failure, said: Option<Duration>, spread: u64) -> Duration {
    let before = failures.saturating_sub(1);
    let wait = match last {
        Failure::Unreached | Failure::Unwanted => {
            let wait = ACME_RETRY_UNREACHED.saturating_mul(1 << before.min(20));
            wait.min(ACME_RETRY_UNREACHED_MAX)
        }
        Failure::Refused | Failure::NotFound(_) | Failure::RateLimited => {
            let most = ACME_RETRIES_REFUSED.len() - 1;
            let least = match last {
                Failure::RateLimited => 3, // An hour.
                _ => 0,
            };
            ACME_RETRIES_REFUSED[(before as usize).clamp(least, most)]
        }
    };
    let said = said.unwrap_or_default().min(ACME_WAIT_MAX);
    let secs = wait.max(said).as_secs() as i64;
    Duration::from_secs((secs + part(secs / 4, spread)) as u64)
}

/// When it is tried again by what was written down: at once where that is longer away than anything is put off, for then the clock was
/// wrong, or is.
pub fn next_try(written: UnixSecs, now: UnixSecs) -> UnixSecs {
    let most = ACME_WAIT_MAX.as_secs() as UnixSecs;
    match written > now + most + most / 4 {
        true => 0,
        false => written,
    }
}

/// Some part of a time.
fn part(secs: i64, spread: u64) -> i64 {
    (i128::from(secs) * i128::from(spread) / i128::from(u64::MAX)) as i64
}

pub(super) fn now() -> UnixSecs {
    clock::unix_secs() as UnixSecs
}

/// A length of time for people.
pub(super) fn length(secs: i64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    #[test]
    fn renewal_is_at_two_thirds_or_somewhat_earlier() {
        let validity = Validity {
            from: 1_000_000,
            until: 1_000_000 + 90 * DAY,
        };
        assert_eq!(renew_at(validity, 0), 1_000_000 + 60 * DAY);
        assert_eq!(
            renew_at(validity, u64::MAX),
            1_000_000 + 60 * DAY - 9 * DAY / 2
        );
        let middle = renew_at(validity, u64::MAX / 2);
        assert!(middle > renew_at(validity, u64::MAX) && middle < renew_at(validity, 0));
        // One that was never valid is renewed at once.
        let broken = Validity { from: 7, until: 3 };
        assert_eq!(renew_at(broken, u64::MAX), 7);
    }

    #[test]
    fn the_authority_s_advice_is_taken_within_reason() {
        let validity = Validity {
            from: 0,
            until: 100 * DAY,
        };
        let window = (50 * DAY, 60 * DAY);
        assert_eq!(renew_in(window, validity, 0), 50 * DAY);
        assert_eq!(renew_in(window, validity, u64::MAX), 60 * DAY);
        // A time that is over means at once: some key is known to others, perhaps.
        assert_eq!(renew_in((-9, -8), validity, u64::MAX), -8);
        for wrong in [(200 * DAY, 300 * DAY), (200 * DAY, 0), (i64::MAX, i64::MAX)] {
            assert_eq!(renew_in(wrong, validity, 77), 90 * DAY);
        }
        for (said, wanted) in [
            (0, 60),
            (60, 60),
            (6 * 3600, 6 * 3600),
            (u64::MAX, 24 * 3600),
        ] {
            assert_eq!(ask_again(Duration::from_secs(said)).as_secs(), wanted);
        }
    }

    /// An authority allows five failed validations of a name in an hour (Let's Encrypt's limit): ours are four.
    #[test]
    fn what_is_refused_is_tried_seldom() {
        let mut at = Duration::ZERO;
        let mut tries = 1;
        for failures in 1.. {
            at += wait_after(failures, Failure::Refused, None, 0);
            if at >= Duration::from_secs(3600) {
                break;
            }
            tries += 1;
        }
        assert_eq!(tries, 4);
        let late = |failures| wait_after(failures, Failure::Refused, None, 0);
        assert_eq!(late(u32::MAX), Duration::from_secs(6 * 3600));
        assert!(late(2) > late(1));
    }

    #[test]
    fn what_was_not_reached_is_tried_soon_and_then_less_often() {
        let wait = |failures| wait_after(failures, Failure::Unreached, None, 0).as_secs();
        assert_eq!([wait(1), wait(2), wait(3)], [10, 20, 40]);
        assert_eq!([wait(12), wait(u32::MAX)], [3600, 3600]);
    }

    #[test]
    fn the_authority_may_ask_for_more_and_nobody_comes_together() {
        let hour = Duration::from_secs(3600);
        assert_eq!(wait_after(1, Failure::RateLimited, None, 0), hour);
        let said = Some(Duration::from_secs(8 * 3600));
        assert_eq!(wait_after(1, Failure::RateLimited, said, 0), 8 * hour);
        let spread = wait_after(1, Failure::RateLimited, said, u64::MAX);
        assert_eq!(spread, 10 * hour);
        for absurd in [u64::MAX, 9_000_000_000_000_000_000, 99_999_999_999] {
            let wait = |spread| {
                let said = Some(Duration::from_secs(absurd));
                wait_after(1, Failure::RateLimited, said, spread)
            };
            assert_eq!(wait(0), 24 * hour, "{absurd}");
            assert_eq!(wait(u64::MAX), 30 * hour, "{absurd}");
        }
        assert_eq!(next_try(1_000 + 30 * 3600, 1_000), 1_000 + 30 * 3600);
        assert_eq!(next_try(1_001 + 30 * 3600, 1_000), 0);
        assert_eq!(next_try(i64::MAX, 1_000), 0);
        assert_eq!(next_try(-7, 1_000), -7);
    }

    #[test]
    fn times_are_for_people() {
        for (secs, text) in [
            (90, "90 s"),
            (300, "5 min"),
            (3 * 3600, "3 h"),
            (60 * DAY, "60 days"),
        ] {
            assert_eq!(length(secs), text);
        }
    }
}
