//! Machine code in memory that can be run and no longer written: the one place where code that was made at run time is mapped.
//!
//! Who has made code knows what it reads and writes, and so calls it: [`Executable::at`] is the address of its first byte.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Mapped code.
#[derive(Debug)]
pub struct Executable {
    at: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping is this value's own, and after `new` nobody writes to it.
unsafe impl Send for Executable {}
// SAFETY: as for `Send`; the code has no state of its own.
unsafe impl Sync for Executable {}

impl Executable {
    /// Maps a copy of code for this machine, an x86-64: others want what was written to be told to what fetches instructions.
    ///
    /// # Errors
    ///
    /// There is no memory for it, or the host allows none that is executable.
    pub fn new(code: &[u8]) -> Result<Self, Errno> {
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

    /// Its first byte, for as long as the value is there.
    pub fn at(&self) -> *const c_void {
        self.at.as_ptr()
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and calls into it borrow what has it. That it cannot be taken back harms nothing.
        let _ = unsafe { munmap(self.at.as_ptr(), self.bytes) };
    }
}
