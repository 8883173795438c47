//! The time of day as log lines write it: local time with its difference from UTC, made once a second.

use exos_host::localtime;

use super::Format;

const SECS_PER_DAY: i64 = 86_400;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The texts of the current second.
#[derive(Debug)]
pub(super) struct Stamp {
    unix_secs: u64,
    /// `22/Nov/2026:14:32:23 +0100`
    common: String,
    /// `2026-11-22T14:32:23+01:00`
    iso: String,
}

impl Stamp {
    pub(super) fn new(unix_secs: u64) -> Stamp {
        let utc = i64::try_from(unix_secs).unwrap_or(0);
        at(unix_secs, localtime::offset_secs(utc))
    }

    /// Costs a comparison within the same second.
    pub(super) fn set_time(&mut self, unix_secs: u64) {
        if unix_secs != self.unix_secs {
            *self = Stamp::new(unix_secs);
        }
    }

    pub(super) fn text(&self, format: Format) -> &str {
        match format {
            Format::Common | Format::Combined => &self.common,
            Format::Json => &self.iso,
        }
    }
}

fn at(unix_secs: u64, offset_secs: i64) -> Stamp {
    let local = i64::try_from(unix_secs).unwrap_or(0) + offset_secs;
    let (year, month, day) = localtime::date(local.div_euclid(SECS_PER_DAY));
    let name = MONTHS[(month - 1) as usize];
    let secs = local.rem_euclid(SECS_PER_DAY);
    let (h, m, s) = (secs / 3600, secs / 60 % 60, secs % 60);
    let sign = if offset_secs < 0 { '-' } else { '+' };
    let minutes = offset_secs.abs() / 60;
    let (oh, om) = (minutes / 60, minutes % 60);
    Stamp {
        unix_secs,
        common: format!("{day:02}/{name}/{year:04}:{h:02}:{m:02}:{s:02} {sign}{oh:02}{om:02}"),
        iso: format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}{sign}{oh:02}:{om:02}"),
    }
}

#[cfg(test)]
mod tests {
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
            let stamp = at(784_111_777, offset_secs);
            assert_eq!(stamp.text(Format::Combined), common);
            assert_eq!(stamp.text(Format::Json), iso);
        }
    }
}
