//! Machine code in memory that can be run and no longer written.
//!
//! All that is unsafe here stands in this file: the mapping, and the call into it.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::passes::PIPES_MAX;

/// From, to, bytes (a multiple of 8), registers.
type Entry = unsafe extern "C" fn(*const u8, *mut u8, usize, *mut u64);

/// A function's code.
#[derive(Debug)]
pub(crate) struct Code {
    at: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping is this value's own, and after `new` nobody writes to it.
unsafe impl Send for Code {}
// SAFETY: as for `Send`; the code has no state of its own.
unsafe impl Sync for Code {}

impl Code {
    /// Maps a function's code.
    ///
    /// # Safety
    ///
    /// It is a function of the form of [`Entry`] which reads and writes only the bytes and registers that it is called with.
    pub(crate) unsafe fn new(code: &[u8]) -> Result<Self, Errno> {
        let (read, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a fresh mapping, at an address that the kernel chooses.
        let at = unsafe { mmap_anonymous(null_mut(), code.len(), read, flags)? };
        let at = NonNull::new(at).ok_or(Errno::NOMEM)?;
        let mapped = Self {
            at,
            bytes: code.len(),
        };
        // SAFETY: the mapping has room for the code, and nobody else knows of it.
        unsafe { code.as_ptr().copy_to(at.cast().as_ptr(), code.len()) };
        let run = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: the mapping is ours, and nobody refers to what is in it.
        unsafe { mprotect(at.as_ptr(), code.len(), run)? };
        Ok(mapped)
    }

    /// Runs it from some bytes to others.
    ///
    /// # Panics
    ///
    /// If there are not as many, or they are no multiple of 8.
    pub(crate) fn copy(&self, from: &[u8], to: &mut [u8], registers: &mut [u64; PIPES_MAX]) {
        assert!(from.len() == to.len() && from.len().is_multiple_of(8));
        // SAFETY: `new` was promised a function that keeps to these bytes, which are borrowed for the call.
        unsafe {
            self.entry()(
                from.as_ptr(),
                to.as_mut_ptr(),
                from.len(),
                registers.as_mut_ptr(),
            )
        };
    }

    /// Runs it in place.
    ///
    /// # Panics
    ///
    /// If the bytes are no multiple of 8.
    pub(crate) fn in_place(&self, bytes: &mut [u8], registers: &mut [u64; PIPES_MAX]) {
        assert!(bytes.len().is_multiple_of(8));
        let at = bytes.as_mut_ptr();
        // SAFETY: as in `copy`; each step loads a word before it stores it, so that source and destination may be one.
        unsafe { self.entry()(at, at, bytes.len(), registers.as_mut_ptr()) };
    }

    fn entry(&self) -> Entry {
        // SAFETY: `new` was promised a function of this form, which begins with its first byte.
        unsafe { std::mem::transmute::<*mut c_void, Entry>(self.at.as_ptr()) }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and calls into it borrow this value. That it cannot be taken back harms nothing.
        let _ = unsafe { munmap(self.at.as_ptr(), self.bytes) };
    }
}
