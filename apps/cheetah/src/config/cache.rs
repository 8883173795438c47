//! How much memory documents may take: `[cache]` and `--cache`.

use std::fmt;
use std::str::FromStr;

use super::schema::CacheTable;
use super::units::in_units;
use crate::limits::{CACHE_LEN_MIN, CACHE_LEN_WITHOUT_MEMINFO};
use exos_program::config::Source;
use exos_program::units::parse_size;

/// How much memory documents may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheSize {
    /// Half of what is available when the server starts.
    #[default]
    HalfOfAvailable,
    /// A share of the machine's memory, or of the control group's if that is less.
    Percent(u8),
    /// This many bytes.
    Bytes(u64),
}

impl CacheSize {
    /// In bytes, on this machine and now.
    pub fn bytes(self) -> u64 {
        let of = |memory: Option<u64>, percent: u64| {
            memory.map_or(CACHE_LEN_WITHOUT_MEMINFO, |bytes| bytes / 100 * percent)
        };
        let bytes = match self {
            CacheSize::HalfOfAvailable => of(exos_host::memory::available(), 50),
            CacheSize::Percent(percent) => of(exos_host::memory::total(), percent.into()),
            CacheSize::Bytes(bytes) => bytes,
        };
        bytes.max(CACHE_LEN_MIN)
    }
}

impl FromStr for CacheSize {
    type Err = String;

    fn from_str(text: &str) -> Result<CacheSize, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim_end().parse().ok();
            let percent = percent.filter(|percent| (1..=90).contains(percent));
            return percent.map(CacheSize::Percent).ok_or_else(|| {
                format!("{text:?} is no share of the memory; write one from \"1%\" to \"90%\"")
            });
        }
        let bytes = parse_size(text).map_err(|_| {
            format!(
                "{text:?} is no size of a cache; write for example \"512MiB\" (bytes, KiB, MiB or GiB), or \"25%\" of \
                 the memory"
            )
        })?;
        if bytes < CACHE_LEN_MIN {
            let least = in_units(CACHE_LEN_MIN);
            return Err(format!(
                "{text:?} is too small for a cache; write at least {least:?}"
            ));
        }
        Ok(CacheSize::Bytes(bytes))
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.bytes() >> 20;
        match self {
            CacheSize::HalfOfAvailable => write!(f, "{mib} MiB, half of the memory available"),
            CacheSize::Percent(percent) => write!(f, "{mib} MiB, {percent} % of the memory"),
            CacheSize::Bytes(_) => write!(f, "{mib} MiB"),
        }
    }
}

/// `[cache]`.
pub(super) fn cache(source: &Source, table: &CacheTable) -> CacheSize {
    let size = table.size.as_ref();
    let size = size.and_then(|text| source.value(text, str::parse::<CacheSize>));
    size.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_a_share() {
        for (text, want) in [
            ("512MiB", CacheSize::Bytes(512 << 20)),
            ("1048576", CacheSize::Bytes(1 << 20)),
            ("25%", CacheSize::Percent(25)),
            ("1 %", CacheSize::Percent(1)),
            ("90%", CacheSize::Percent(90)),
        ] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
        for (text, remedy) in [
            ("0%", "\"1%\" to \"90%\""),
            ("91%", "\"1%\" to \"90%\""),
            ("-5%", "\"1%\" to \"90%\""),
            ("2.5%", "\"1%\" to \"90%\""),
            ("%", "\"1%\" to \"90%\""),
            ("half", "\"25%\" of the memory"),
            ("512 pages", "\"512MiB\""),
            ("1048575", "at least \"1MiB\""),
            ("0", "at least \"1MiB\""),
        ] {
            let error = text.parse::<CacheSize>().unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn shares_are_of_what_there_is() {
        let total = exos_host::memory::total().unwrap();
        assert_eq!(CacheSize::Percent(50).bytes(), total / 100 * 50);
        let half = CacheSize::HalfOfAvailable.bytes();
        assert!(
            (CACHE_LEN_MIN..=total / 2).contains(&half),
            "{half} of {total}"
        );
        assert_eq!(CacheSize::Bytes(1 << 30).to_string(), "1024 MiB");
    }
}
