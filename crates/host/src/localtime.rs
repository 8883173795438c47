//! How local time differs from UTC: the C library knows, from `TZ` or `/etc/localtime`. And which date a day is.

/// Seconds to add to this UTC time (seconds since 1970) for the local one. Zero for times beyond what the C
/// library can say.
#[must_use]
pub fn offset_secs(utc_secs: i64) -> i64 {
    let time: libc::time_t = utc_secs;
    let mut local = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both point to values of the right types; `localtime_r` fills the second or returns null. It reads
    // the environment, as does Rust's library; nothing here writes it.
    let filled = unsafe { libc::localtime_r(&raw const time, local.as_mut_ptr()) };
    if filled.is_null() {
        return 0;
    }
    // SAFETY: filled, as it did not return null.
    unsafe { local.assume_init() }.tm_gmtoff
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar. Years begin in March
/// here, so that the leap day is a year's last and months follow a pattern of 153 days in five.
#[must_use]
pub fn date(day: i64) -> (i64, i64, i64) {
    // Days since 0000-03-01, in eras of 400 years.
    let day = day + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    // Leap days: one in four years, none in a hundred, one in 400.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calendar, day by day, by the rule of leap years alone.
    #[test]
    fn dates_agree_with_counting() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for number in 0..200_000 {
            assert_eq!(date(number), (year, month, day));
            let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
            let days = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > days {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
