//! How much data one segment holds, and a super-packet that the link cuts into segments.

use crate::limits::CUT_MSS_MIN;

/// The most data that one segment may hold: full segments only where the link cuts it up, and one where they are too
/// short for that.
pub(super) fn longest(data_max: u32, mss: u16) -> u32 {
    let several = data_max / u32::from(mss);
    let count = if mss < CUT_MSS_MIN { 1 } else { several.max(1) };
    count * u32::from(mss)
}

/// `len` without a segment less than full behind full ones, unless it ends the data.
pub(super) fn whole_segments(len: u32, available: u32, mss: u16) -> u32 {
    let mss = u32::from(mss);
    if len > mss && len < available {
        len - len % mss
    } else {
        len
    }
}
