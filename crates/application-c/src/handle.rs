//! What C has of an application, and of a piece: something that belongs to a thread.

use crate::failure::{Code, Failure, Result};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::thread::{self, ThreadId};

/// Something that a thread has, as C points at it.
pub(crate) struct Owned<T> {
    thread: ThreadId,
    value: UnsafeCell<T>,
}

impl<T> Owned<T> {
    /// Hands something of this thread to C.
    pub fn hand_out(value: T) -> *mut Self {
        Box::into_raw(Box::new(Self {
            thread: thread::current().id(),
            value: UnsafeCell::new(value),
        }))
    }

    /// What a pointer of C is to, for the length of a call.
    ///
    /// # Safety
    ///
    /// It is NULL, or was handed out and not taken back; and nothing else that this function has returned for it is in use.
    pub unsafe fn of<'a>(pointer: *const Self, what: &str) -> Result<&'a mut T> {
        // SAFETY: the caller says that it is NULL or a box of ours. A shared reference: another thread may have one.
        let owned = unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(what))?;
        owned.check_thread(what)?;
        // SAFETY: it belongs to this thread, in which nothing else is in use, as the caller says.
        Ok(unsafe { &mut *owned.value.get() })
    }

    /// Takes back what was handed out.
    ///
    /// # Safety
    ///
    /// As for [`of`](Self::of); where this succeeds, the pointer is not used again.
    pub unsafe fn take_back(pointer: *mut Self, what: &str) -> Result<T> {
        // SAFETY: as above.
        let owned = unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(what))?;
        owned.check_thread(what)?;
        // SAFETY: a box of ours, which is not used again, as the caller says.
        let owned = unsafe { Box::from_raw(pointer) };
        Ok(owned.value.into_inner())
    }

    fn check_thread(&self, what: &str) -> Result<()> {
        match self.thread == thread::current().id() {
            true => Ok(()),
            false => Err(Failure::new(
                Code::Thread,
                format!("{what} belongs to another thread"),
            )),
        }
    }
}

/// Bytes of C, for the length of a call.
///
/// # Safety
///
/// There are as many behind the pointer, which nobody changes meanwhile; of none it may be NULL.
pub(crate) unsafe fn bytes<'a>(pointer: *const c_char, len: usize) -> Result<&'a [u8]> {
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::null("the bytes' pointer")),
        _ if len > isize::MAX as usize => Err(Failure::new(Code::Argument, "too many bytes")),
        // SAFETY: as the caller says.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), len) }),
    }
}

/// A text of C, for the length of a call.
///
/// # Safety
///
/// It is NULL, or ended by a zero, and nobody changes it meanwhile.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a [u8]> {
    if pointer.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Writes what a function gives out.
///
/// # Safety
///
/// It is NULL, or there is room for one behind it.
pub(crate) unsafe fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Failure::null("where to write"));
    }
    // SAFETY: as the caller says.
    unsafe { out.write(value) };
    Ok(())
}
