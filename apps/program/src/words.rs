//! Values of options as a person writes them.

use std::time::Duration;

/// A time of a week at most: 30s, 1.5m, 200ms, 50us, 1h.
///
/// # Errors
///
/// What to write instead.
pub fn time(text: &str) -> Result<Duration, String> {
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
    (0.0..=604_800.0)
        .contains(&secs)
        .then(|| Duration::from_secs_f64(secs))
        .ok_or_else(help)
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
