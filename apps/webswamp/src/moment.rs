//! Moments by the time of day: when a load is to begin (`--start-at`), and when it began.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exos_inet::Instant;
use jiff::Timestamp;

/// Seconds since 1970, now.
pub(crate) fn unix_now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

/// The moment of our clock that this time of day is, one that has passed being now.
pub(crate) fn of_unix(now: Instant, unix_now: f64, at: f64) -> Instant {
    now + Duration::from_secs_f64((at - unix_now).max(0.0))
}

/// Seconds since 1970 of a time as it is written: such seconds themselves, or RFC 3339 (2026-01-31T10:00:00Z).
pub(crate) fn parse(text: &str) -> Result<f64, String> {
    let secs = text.parse::<f64>().ok();
    let rfc_3339 = || Some(text.parse::<Timestamp>().ok()?.as_duration().as_secs_f64());
    // Until the year 5138, which is enough.
    let secs = secs
        .or_else(rfc_3339)
        .filter(|secs| (0.0..1e11).contains(secs));
    secs.ok_or_else(|| {
        format!(
            "{text:?} is no time; write seconds since 1970, or like 2026-01-31T10:00:00Z (RFC 3339)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day() {
        for (text, secs) in [
            ("0", 0.0),
            ("1700000000.5", 1_700_000_000.5),
            ("1970-01-01T00:00:00Z", 0.0),
            ("2000-02-29T12:00:00Z", 951_825_600.0),
            ("2023-11-14T22:13:20.25Z", 1_700_000_000.25),
            ("2023-11-14t23:13:20+01:00", 1_700_000_000.0),
            ("2023-11-14T22:13Z", 1_699_999_980.0),
            ("2023-11-14 16:43:20-05:30", 1_700_000_000.0),
            ("2100-03-01T00:00:00Z", 4_107_542_400.0),
        ] {
            assert_eq!(parse(text), Ok(secs), "{text}");
        }
        for text in [
            "",
            "soon",
            "-1",
            "inf",
            "nan",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20+1:00",
            "2023-11-14T22:13:20Zulu",
            "1960-01-01T00:00:00Z",
            "é023-11-14T22:13:20Z",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_has_passed_is_now() {
        let now = Instant::from_millis(5000);
        assert_eq!(of_unix(now, 1e9, 1e9 + 1.5), Instant::from_millis(6500));
        assert_eq!(of_unix(now, 1e9, 1e9 - 5.0), now);
    }
}
