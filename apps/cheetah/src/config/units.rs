//! Sizes and times within bounds, and sizes with binary units.

use std::time::Duration;

use exos_program::units::{parse_duration, parse_size};

use crate::limits::APPLICATION_TIME_MAX;

/// A size within bounds, which are whole units.
pub(super) fn size_within(text: &str, from: u64, to: u64) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if (from..=to).contains(&bytes) {
        return Ok(bytes);
    }
    let (from, to) = (in_units(from), in_units(to));
    Err(format!(
        "{text:?} is out of bounds; write a size from {from} to {to}"
    ))
}

/// A time that an application or an upstream may take.
pub(super) fn application_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if time.is_zero() || time > APPLICATION_TIME_MAX => Err(format!(
            "{text:?} is out of bounds; write a time of more than 0 s and up to {} s",
            APPLICATION_TIME_MAX.as_secs()
        )),
        time => Ok(time),
    }
}

/// A size with the largest unit of which it is a whole number.
pub(crate) fn in_units(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .into_iter()
        .find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(
        || format!("{bytes}"),
        |(shift, unit)| format!("{}{unit}", bytes >> shift),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_bounds() {
        assert_eq!(size_within("3KiB", 1 << 10, 2 << 30), Ok(3 << 10));
        assert_eq!(size_within("1.5GiB", 1, u64::MAX), Ok(3 << 29));
        for (text, wanted) in [
            ("3GiB", "from 1KiB to 2GiB"),
            ("1000", "from 1KiB to 2GiB"),
            ("1 page", "64kb"),
            ("", "64kb"),
        ] {
            let error = size_within(text, 1 << 10, 2 << 30).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        assert_eq!(in_units(1500), "1500");
    }
}
