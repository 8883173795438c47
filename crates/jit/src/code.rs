//! Machine code in memory that can be run and no longer written: the mapping, and the call into it.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// From, to, length, words.
type Entry = unsafe extern "C" fn(*const u8, *mut u8, usize, *mut u64) -> u64;

/// A function's code.
#[derive(Debug)]
pub struct Function {
    at: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping is this value's own, and after `new` nobody writes to it.
unsafe impl Send for Function {}
// SAFETY: as for `Send`; the code has no state of its own.
unsafe impl Sync for Function {}

impl Function {
    /// Maps code that Cranelift has made of a function of this form.
    pub(crate) fn new(code: &[u8]) -> Result<Self, Errno> {
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

    /// Runs it. Returns its word.
    ///
    /// # Safety
    ///
    /// What the function reads and writes, as it was described, is there for the call, and for it alone where it is not read and written
    /// atomically.
    pub unsafe fn call(&self, from: *const u8, to: *mut u8, length: usize, words: *mut u64) -> u64 {
        // SAFETY: `compile` gives all functions these parameters and this result, and they begin with their first byte.
        let entry = unsafe { std::mem::transmute::<*mut c_void, Entry>(self.at.as_ptr()) };
        // SAFETY: the caller's promise.
        unsafe { entry(from, to, length, words) }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and calls into it borrow this value. That it cannot be taken back harms nothing.
        let _ = unsafe { munmap(self.at.as_ptr(), self.bytes) };
    }
}
