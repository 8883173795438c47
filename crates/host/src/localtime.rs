//! How local time differs from UTC: the C library knows, from `TZ` or `/etc/localtime`.

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
