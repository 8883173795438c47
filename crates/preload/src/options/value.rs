//! The bytes of an option's value: read, and written.

use crate::system::{EFAULT, EINVAL};

/// The number in an option's value that begins at this byte.
pub fn number_at(value: &[u8], at: usize) -> Result<i32, i32> {
    let bytes = value.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(Err(EINVAL), |bytes| Ok(i32::from_ne_bytes(*bytes)))
}

/// Writes an option's value, cut to the room that there is, and how much that is.
///
/// # Safety
///
/// `len`, if it is given, says how much can be written at `value`.
pub unsafe fn put(bytes: &[u8], value: *mut u8, len: *mut u32) -> Result<(), i32> {
    if value.is_null() || len.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let count = bytes.len().min(*len as usize);
        value.copy_from_nonoverlapping(bytes.as_ptr(), count);
        *len = count as u32;
    }
    Ok(())
}
