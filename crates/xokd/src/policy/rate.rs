//! Rates and sizes as people write them.

/// A rate in bytes per second, from the forms of tc(8): "1gbit", "100mbit", "64kbit", "8000bit", and "125MB".
pub fn parse_rate(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let (factor, divisor) = match unit {
        "bit" => (1, 8),
        "kbit" => (1_000, 8),
        "mbit" => (1_000_000, 8),
        "gbit" => (1_000_000_000, 8),
        "kb" => (1_000, 1),
        "mb" => (1_000_000, 1),
        "gb" => (1_000_000_000, 1),
        _ => return None,
    };
    let rate = number.checked_mul(factor)? / divisor;
    (rate > 0 && rate <= exos_filter::gate::limits::RATE_MAX).then_some(rate)
}

/// A size in bytes: "64MiB", "512KiB", "1GiB".
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|size| *size > 0)
}

/// The number and the unit in small letters.
fn split(text: &str) -> Option<(u64, &'static str)> {
    const UNITS: [&str; 10] = [
        "bit", "kbit", "mbit", "gbit", "kb", "mb", "gb", "kib", "mib", "gib",
    ];
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = UNITS.into_iter().find(|known| *known == unit)?;
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes() {
        assert_eq!(parse_rate("1gbit"), Some(125_000_000));
        assert_eq!(parse_rate("100 Mbit"), Some(12_500_000));
        assert_eq!(parse_rate("3MB"), Some(3_000_000));
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        for bad in [
            "",
            "gbit",
            "1",
            "1mib",
            "-1gbit",
            "7bit",
            "0gbit",
            "99999999gbit",
            "1.5gbit",
        ] {
            assert_eq!(parse_rate(bad), None, "{bad}");
        }
        assert_eq!(parse_size("1gbit"), None);
        assert_eq!(parse_size("99999999999999999999GiB"), None);
    }
}
