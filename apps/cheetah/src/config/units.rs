//! Values with a unit, as people write them.

/// A size: a number of bytes, or one with KiB, MiB or GiB behind it.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim() {
        "" => Some(0),
        "KiB" => Some(10),
        "MiB" => Some(20),
        "GiB" => Some(30),
        _ => None,
    };
    shift
        .zip(digits.parse::<u64>().ok())
        .and_then(|(shift, number)| number.checked_mul(1 << shift))
        .ok_or_else(|| {
            format!("{text:?} is no size; write for example \"512MiB\" (bytes, KiB, MiB or GiB)")
        })
}

/// A size within bounds, which are whole units.
pub(super) fn size_within(text: &str, from: u64, to: u64) -> Result<u64, String> {
    let bytes = size(text)?;
    if (from..=to).contains(&bytes) {
        return Ok(bytes);
    }
    let (from, to) = (in_units(from), in_units(to));
    Err(format!(
        "{text:?} is out of bounds; write a size from {from} to {to}"
    ))
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
    fn sizes_have_binary_units() {
        for (text, want) in [
            ("0", 0),
            ("1500", 1500),
            ("1KiB", 1 << 10),
            ("512 MiB", 512 << 20),
            ("3GiB", 3 << 30),
        ] {
            assert_eq!(size(text), Ok(want), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1MB",
            "1.5GiB",
            "99999999999GiB",
            "1 2",
            "1KiBx",
            "x1",
            "é",
        ] {
            assert!(size(text).unwrap_err().contains("512MiB"), "{text}");
        }
        assert!(
            size_within("3GiB", 1 << 10, 2 << 30)
                .unwrap_err()
                .ends_with("from 1KiB to 2GiB")
        );
        assert_eq!(in_units(1500), "1500");
    }
}
