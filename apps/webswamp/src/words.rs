//! Values of options as a person writes them: times, and words of HTTP's.

use std::time::Duration;

use crate::driver::log_line::is_token;

/// A time as a person writes it: 30s, 1.5m, 200ms, 50us, 1h.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let help = || format!("{text:?} is no time; write a number with h, m, s, ms or us");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| help())?;
    let unit = match &text[digits.len()..] {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return Err(help()),
    };
    let secs = number * unit;
    // A week is longer than any load.
    (0.0..=604_800.0)
        .contains(&secs)
        .then(|| Duration::from_secs_f64(secs))
        .ok_or_else(help)
}

pub(crate) fn token(text: &str) -> Result<String, String> {
    is_token(text.as_bytes())
        .then(|| text.to_owned())
        .ok_or_else(|| format!("{text:?} is no word of HTTP's"))
}

pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
    let value = value.trim();
    if value.bytes().any(|b| b.is_ascii_control() && b != b'\t') {
        return Err("a field's value has no control characters".to_owned());
    }
    Ok((token(name)?, value.to_owned()))
}

/// A range as RFC 9110 §14.1.2 writes it.
pub(crate) fn range(text: &str) -> Result<String, String> {
    let help = || format!("{text:?} is no range; write FIRST-LAST, FIRST- or -COUNT, in bytes");
    let number = |digits: &str| match digits {
        "" => Ok(None),
        _ if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse::<u64>().map(Some).map_err(|_| help())
        }
        _ => Err(help()),
    };
    let (first, last) = text.split_once('-').ok_or_else(help)?;
    match (number(first)?, number(last)?) {
        (None, None) => Err(help()),
        (Some(first), Some(last)) if first > last => Err(help()),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, micros) in [
            ("30s", 30_000_000),
            ("1.5m", 90_000_000),
            ("200ms", 200_000),
            ("50us", 50),
            ("1h", 3_600_000_000),
        ] {
            assert_eq!(time(text), Ok(Duration::from_micros(micros)));
        }
        for text in ["", "s", "5", "-1s", "1d", "nans", "infs", "9999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
