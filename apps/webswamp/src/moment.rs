//! Moments by the time of day: when a load is to begin (`--start-at`), and when it began.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exos_inet::Instant;

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
    let secs = match text.parse::<f64>() {
        Ok(secs) => Some(secs),
        Err(_) => rfc_3339(text),
    };
    // Until the year 5138, which is enough.
    secs.filter(|secs| (0.0..1e11).contains(secs)).ok_or_else(|| {
        format!("{text:?} is no time; write seconds since 1970, or like 2026-01-31T10:00:00Z (RFC 3339)")
    })
}

/// RFC 3339 §5.6: date, T, time, parts of a second, and Z or the distance from UTC.
fn rfc_3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone);
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, part) = match time.split_once('.') {
        Some((time, digits)) => (time, fraction(digits)?),
        None => (time, 0.0),
    };
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_good = (1..=12).contains(&month)
        && (1..=days_of_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign, distance) => {
            let [hours, minutes] =
                numbers(distance, ':', [2, 2]).filter(|[h, m]| *h < 24 && *m < 60)?;
            (hours * 60 + minutes) * if sign == "+" { 60 } else { -60 }
        }
    };
    let secs = days_until(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    is_good.then_some(secs as f64 + part)
}

/// Numbers of this many digits each.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut all = [0; N];
    for (number, digits) in all.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_number)?;
    }
    parts.next().is_none().then_some(all)
}

fn fraction(digits: &str) -> Option<f64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| format!("0.{digits}").parse().ok())?
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 until a date.
fn days_until(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let of_years = before * 365 + leap_days - 719_162;
    let of_months: i64 = (1..month).map(|month| days_of_month(year, month)).sum();
    of_years + of_months + day - 1
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
            "2023-11-14T22:13Z",
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
