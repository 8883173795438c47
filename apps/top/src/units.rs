//! Numbers that are read at a glance: at most four digits and a unit.

/// `999`, `1.00k`, `12.3k`, `456k`, `7.89M`, …
pub(crate) fn short(value: f64) -> String {
    let mut rest = value;
    for unit in ["", "k", "M", "G", "T"] {
        if unit.is_empty() && rest < 999.5 {
            return format!("{rest:.0}");
        }
        if rest < 999.5 {
            let digits = if rest < 9.995 {
                2
            } else {
                usize::from(rest < 99.95)
            };
            return format!("{rest:.digits$}{unit}");
        }
        rest /= 1000.0;
    }
    format!("{rest:.0}P")
}

/// A rate that may not be known.
pub(crate) fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), short)
}

/// A rate of bits that may not be known.
pub(crate) fn bits(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{}bit/s", short(value)))
}

/// A number that may not be known.
pub(crate) fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Bytes of memory: `64 MiB`.
pub(crate) fn memory(bytes: Option<u64>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some(bytes) if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        Some(bytes) => format!("{} KiB", bytes >> 10),
    }
}

/// `3 d 4 h`, `2 h 5 min`, `7 min 1 s`, `12 s`.
pub(crate) fn duration(ms: u64) -> String {
    let secs = ms / 1000;
    let (days, hours, mins) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    match (days, hours, mins) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, _) => format!("{mins} min {} s", secs % 60),
        (0, ..) => format!("{hours} h {mins} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let shown: Vec<String> = [
            0.0, 0.4, 7.0, 999.4, 999.6, 1234.0, 9996.0, 12_345.0, 99_960.0, 1e6, 45.6e9, 1e15,
        ]
        .map(short)
        .into();
        let expected = [
            "0", "0", "7", "999", "1.00k", "1.23k", "10.0k", "12.3k", "100k", "1.00M", "45.6G",
            "1P",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn times_have_two_units() {
        let shown = [0, 59_999, 60_000, 3_600_000, 90_061_000].map(duration);
        assert_eq!(shown, ["0 s", "59 s", "1 min 0 s", "1 h 0 min", "1 d 1 h"]);
    }
}
