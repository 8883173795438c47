//! The local time zone.

use jiff::tz::TimeZone;

/// When clocks change where `TZ` names a summer time and no rule, as in `CET-1CEST`. POSIX leaves that to the implementation;
/// glibc, by which other programs go, has the rule of the United States.
const DEFAULT_RULE: &str = ",M3.2.0,M11.1.0";

/// The time zone that `TZ` says, or the machine; UTC where that is none.
pub fn local() -> TimeZone {
    TimeZone::try_system().unwrap_or_else(|_| {
        let text = std::env::var("TZ").unwrap_or_default();
        by_default_rule(&text).unwrap_or_else(TimeZone::unknown)
    })
}

fn by_default_rule(text: &str) -> Option<TimeZone> {
    TimeZone::posix(&format!("{text}{DEFAULT_RULE}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn in_words(text: &str, secs: i64) -> String {
        let zone = by_default_rule(text).expect(text);
        let time = jiff::Timestamp::from_second(secs).unwrap();
        let time = time.to_zoned(zone);
        time.strftime("%Y-%m-%d %H:%M:%S %z").to_string()
    }

    /// `date` goes by glibc.
    #[test]
    fn a_summer_time_without_a_rule_is_that_of_glibc() {
        for text in ["AAA5BBB", "CET-1CEST", "<+03>-3<+04>", "XXX3:30YYY"] {
            // January and July of 2026.
            for secs in [1_768_000_000, 1_784_000_000] {
                let mut date = Command::new("date");
                date.env("TZ", text);
                date.args(["+%Y-%m-%d %H:%M:%S %z", "-d", &format!("@{secs}")]);
                let expected = String::from_utf8(date.output().expect("date runs").stdout);
                assert_eq!(in_words(text, secs), expected.unwrap().trim_end(), "{text}");
            }
        }
    }

    #[test]
    fn clocks_change_in_march_and_november() {
        for (secs, expected) in [
            (1_772_953_199, "2026-03-08 01:59:59 -0500"),
            (1_772_953_200, "2026-03-08 03:00:00 -0400"),
            (1_793_512_799, "2026-11-01 01:59:59 -0400"),
            (1_793_512_800, "2026-11-01 01:00:00 -0500"),
        ] {
            assert_eq!(in_words("AAA5BBB", secs), expected);
        }
    }

    #[test]
    fn what_is_no_zone_has_none() {
        for text in ["", "nowhere", "Europe/Nowhere", "AAA5", "AAA5BBB,nonsense"] {
            assert!(by_default_rule(text).is_none(), "{text}");
        }
    }
}
