//! Values of options as a person writes them: times, and words of HTTP's.

use std::time::Duration;

use exos_program::units::parse_duration;

use crate::driver::log_line::is_token;

/// A time of what does not end at once.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    let is_some = !time.is_zero();
    is_some
        .then_some(time)
        .ok_or_else(|| format!("{text:?} is over at once; write what takes some time, as in 10s"))
}

/// A part of one.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text:?} is no share; write a number from 0 to 1"))
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
