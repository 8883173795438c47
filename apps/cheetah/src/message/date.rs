//! Dates as fields write them.

use std::time::{Duration, UNIX_EPOCH};

/// A time as IMF-fixdate (RFC 9110 §5.6.7), which ends with the year 9999.
pub fn date_text(unix_secs: u64) -> String {
    const LAST: u64 = 253_402_300_799; // 9999-12-31 23:59:59.
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_secs.min(LAST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_end_with_the_calendar() {
        assert_eq!(date_text(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
