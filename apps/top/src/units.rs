//! Numbers that are read at a glance: at most four digits and a unit.

/// `999`, `1.00k`, `12.3k`, `456k`, `7.89M`, …
pub fn short(value: f64) -> String {
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
pub fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), short)
}

/// A rate of bits that may not be known.
pub fn bits(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{}bit/s", short(value)))
}

/// A number that may not be known.
pub fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Bytes of memory: `64 MiB`.
pub fn memory(bytes: Option<u64>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some(bytes) if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        Some(bytes) => format!("{} KiB", bytes >> 10),
    }
}

/// `3 d 4 h`, `2 h 5 min`, `7 min 1 s`, `12 s`.
pub fn duration(ms: u64) -> String {
    let secs = ms / 1000;
    let (days, hours, mins) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    match (days, hours, mins) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, _) => format!("{mins} min {} s", secs % 60),
        (0, ..) => format!("{hours} h {mins} min"),
        _ => format!("{days} d {hours} h"),
    }
}
