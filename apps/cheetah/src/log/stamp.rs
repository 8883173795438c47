//! The time of day as log lines write it: local time with its difference from UTC, made once a second.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::line::Format;

/// The texts of the current second.
#[derive(Debug)]
pub(super) struct Stamp {
    /// The local one, as `TZ` or the machine says.
    zone: TimeZone,
    unix_secs: u64,
    /// `22/Nov/2026:14:32:23 +0100`
    common: String,
    /// `2026-11-22T14:32:23+01:00`
    iso: String,
}

impl Stamp {
    pub(super) fn new(unix_secs: u64) -> Stamp {
        Stamp::at(unix_secs, exos_program::zone::local())
    }

    fn at(unix_secs: u64, zone: TimeZone) -> Stamp {
        let secs = i64::try_from(unix_secs).unwrap_or(i64::MAX);
        let time = Timestamp::from_second(secs).unwrap_or(Timestamp::MAX);
        let local = time.to_zoned(zone.clone());
        Stamp {
            zone,
            unix_secs,
            common: local.strftime("%d/%b/%Y:%H:%M:%S %z").to_string(),
            iso: local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        }
    }

    /// Costs a comparison within the same second.
    pub(super) fn set_time(&mut self, unix_secs: u64) {
        if unix_secs != self.unix_secs {
            *self = Stamp::at(unix_secs, self.zone.clone());
        }
    }

    pub(super) fn text(&self, format: Format) -> &str {
        match format {
            Format::Common | Format::Combined => &self.common,
            Format::Json => &self.iso,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    #[test]
    fn times_have_their_difference_from_utc() {
        for (offset_secs, common, iso) in [
            (0, "06/Nov/1994:08:49:37 +0000", "1994-11-06T08:49:37+00:00"),
            (
                19_800,
                "06/Nov/1994:14:19:37 +0530",
                "1994-11-06T14:19:37+05:30",
            ),
            (
                -34_200,
                "05/Nov/1994:23:19:37 -0930",
                "1994-11-05T23:19:37-09:30",
            ),
            (
                -1_800,
                "06/Nov/1994:08:19:37 -0030",
                "1994-11-06T08:19:37-00:30",
            ),
        ] {
            let offset = Offset::from_seconds(offset_secs).unwrap();
            let stamp = Stamp::at(784_111_777, offset.to_time_zone());
            assert_eq!(stamp.text(Format::Combined), common);
            assert_eq!(stamp.text(Format::Json), iso);
        }
    }
}
