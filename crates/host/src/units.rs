//! Durations, shares, rates and sizes as a person writes them in options and configuration files, and back.
//!
//! A number and a unit, in upper or lower case: `1.5s`, `1%`, `100mbit`, `64KiB`. Each `parse_*` takes what its `show_*`
//! prints. Errors say what would have been right, for clap to show.

use std::time::Duration;

/// The longest duration that can be written: a week.
const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The most bytes that can be written.
const SIZE_MAX: f64 = 1e18;

/// A number and the unit behind it, lower case.
fn split(text: &str, example: &str) -> Result<(f64, String), String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number = text[..end]
        .parse()
        .map_err(|_| format!("{text:?} does not begin with a number, as {example} does"))?;
    Ok((number, text[end..].trim().to_ascii_lowercase()))
}

/// The number times what its unit stands for.
fn scaled(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let (number, unit) = split(text, example)?;
    let factor = units.iter().find(|(name, _)| *name == unit);
    let names = units.iter().map(|(name, _)| *name);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let (_, factor) = factor.ok_or_else(|| {
        format!(
            "{text:?} needs one of the units {}, for example {example}",
            names.join(", ")
        )
    })?;
    Ok(number * factor)
}

/// `20ms`, `1.5s`, `300us`, `800ns`, `1.5m`, `1h`, a week at most; `0` needs no unit.
///
/// # Errors
///
/// What to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    let units = [
        ("ns", 1.0),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
        ("h", 3600e9),
    ];
    let nanos = scaled(text, &units, "20ms")?;
    if nanos > DURATION_MAX.as_nanos() as f64 {
        return Err(format!("{text:?} is longer than a week"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// As [`parse_duration`]; a number without a unit is seconds, as where other programs' options of this name take seconds.
///
/// # Errors
///
/// What to write instead.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    match is_number {
        true => parse_duration(&format!("{text}s")),
        false => parse_duration(text),
    }
}

/// `1%`, `0.01%`: a share from 0 to 1.
///
/// # Errors
///
/// What to write instead.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let percent = scaled(text, &[("%", 1.0)], "1%")?;
    if percent > 100.0 {
        return Err(format!("{text:?} is more than all"));
    }
    Ok(percent / 100.0)
}

/// `100mbit`, `1gbit`, `500kbit`: bits per second, in powers of 1000.
///
/// # Errors
///
/// What to write instead.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let units = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    Ok(scaled(text, &units, "100mbit")?.round() as u64)
}

/// `100mbit`, `1gbit`, or `125MB` (powers of 1000): bytes per second.
///
/// # Errors
///
/// What to write instead.
pub fn parse_byte_rate(text: &str) -> Result<u64, String> {
    let units = [
        ("bit", 1.0 / 8.0),
        ("kbit", 1e3 / 8.0),
        ("mbit", 1e6 / 8.0),
        ("gbit", 1e9 / 8.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
    ];
    Ok(scaled(text, &units, "100mbit")? as u64)
}

/// `64kb`, `1mb`, `1gb` (powers of 1000), `64kib`, `1mib`, `1gib` or `64k`, `1m`, `1g` (powers of 1024), `1500b` or `1500`:
/// bytes.
///
/// # Errors
///
/// What to write instead.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let units = [
        ("", 1.0),
        ("b", 1.0),
        ("k", 1024.0),
        ("m", 1024.0 * 1024.0),
        ("g", 1024.0 * 1024.0 * 1024.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("kib", 1024.0),
        ("mib", 1024.0 * 1024.0),
        ("gib", 1024.0 * 1024.0 * 1024.0),
    ];
    let bytes = scaled(text, &units, "64kb")?;
    if bytes > SIZE_MAX {
        return Err(format!("{text:?} is more than 1 EB"));
    }
    Ok(bytes.round() as u64)
}

/// The shortest text with the largest unit of which there is at least one.
fn show(value: f64, units: &[(f64, &str)]) -> String {
    let (factor, unit) = units
        .iter()
        .find(|(factor, _)| value >= *factor)
        .unwrap_or(units.last().expect("there are units"));
    format!("{}{unit}", value / factor)
}

/// As [`parse_duration`] takes it.
pub fn show_duration(duration: Duration) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    show(duration.as_nanos() as f64, &units)
}

/// As [`parse_share`] takes it. Rounded to parts per billion, which hides that decimals are no binary fractions.
pub fn show_share(share: f64) -> String {
    format!("{}%", (share * 1e9).round() / 1e7)
}

/// As [`parse_rate`] takes it.
pub fn show_rate(bits_per_sec: u64) -> String {
    let units = [(1e9, "gbit"), (1e6, "mbit"), (1e3, "kbit"), (1.0, "bit")];
    show(bits_per_sec as f64, &units)
}

/// As [`parse_size`] takes it.
pub fn show_size(bytes: u64) -> String {
    show(bytes as f64, &[(1e6, "mb"), (1e3, "kb"), (1.0, "b")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_parsed_and_the_other_way_round() {
        for text in ["20ms", "1.5s", "300us", "800ns", "1ms", "12.5ms", "90s"] {
            assert_eq!(show_duration(parse_duration(text).unwrap()), text);
        }
        for (text, micros) in [
            ("30s", 30_000_000),
            ("1.5m", 90_000_000),
            ("200 ms", 200_000),
            ("50us", 50),
            ("1h", 3_600_000_000),
            ("168h", 604_800_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)));
            assert_eq!(parse_seconds(text), Ok(Duration::from_micros(micros)));
        }
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds("0"), Ok(Duration::ZERO));
        for text in ["1%", "0.01%", "0.1%", "100%", "33.3%", "0%", "2.5%"] {
            assert_eq!(show_share(parse_share(text).unwrap()), text);
        }
        for text in ["100mbit", "1gbit", "2.5gbit", "64kbit", "9bit"] {
            assert_eq!(show_rate(parse_rate(text).unwrap()), text);
        }
        for text in ["64kb", "1.5mb", "999b"] {
            assert_eq!(show_size(parse_size(text).unwrap()), text);
        }
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("64K", 65_536),
            ("10m", 10 << 20),
            ("1G", 1 << 30),
            ("1.5M", 3 << 19),
            ("1GB", 1_000_000_000),
            ("1", 1),
        ] {
            assert_eq!(parse_size(text), Ok(bytes));
        }
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_rate("10 Mbit"), Ok(10_000_000));
        assert_eq!(parse_byte_rate("100 Mbit"), Ok(12_500_000));
        assert_eq!(parse_byte_rate("3MB"), Ok(3_000_000));
    }

    #[test]
    fn what_is_wrong_is_answered_with_what_would_be_right() {
        for (error, words) in [
            (parse_duration("20").unwrap_err(), "20ms"),
            (parse_duration("ms").unwrap_err(), "number"),
            (parse_duration("-1ms").unwrap_err(), "number"),
            (parse_duration("1d").unwrap_err(), "ns, us, ms, s, m, h"),
            (parse_duration("").unwrap_err(), "number"),
            (parse_duration("s").unwrap_err(), "number"),
            (parse_duration("nans").unwrap_err(), "number"),
            (parse_duration("infs").unwrap_err(), "number"),
            (parse_duration("169h").unwrap_err(), "a week"),
            (parse_seconds("-1").unwrap_err(), "number"),
            (parse_seconds("nan").unwrap_err(), "number"),
            (parse_seconds("1e9").unwrap_err(), "20ms"),
            (parse_share("1").unwrap_err(), "1%"),
            (parse_share("101%").unwrap_err(), "more than all"),
            (parse_rate("100").unwrap_err(), "100mbit"),
            (parse_rate("100mb").unwrap_err(), "100mbit"),
            (parse_byte_rate("1mib").unwrap_err(), "100mbit"),
            (parse_size("99999999999g").unwrap_err(), "1 EB"),
            (parse_size("64t").unwrap_err(), "64kb"),
            (parse_size("").unwrap_err(), "number"),
            (parse_size("1.2.3kb").unwrap_err(), "number"),
        ] {
            assert!(error.contains(words), "{error}");
        }
    }
}
