//! A shared mapping of a file, or of what the kernel shows as one, seen as 64-bit words.
//!
//! Words are atomic because another process, or the kernel, may change them at any time; what they mean together is for
//! the user to secure (sequence numbers, say). Storing to words that were mapped for reading ends the process (SIGSEGV).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A mapping that is unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping is as good on one thread as on another, and all accesses are atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` words of what `fd` is of, with this access (`PROT_*`).
    ///
    /// # Safety
    ///
    /// What is mapped has this many words, rounded up to pages, as long as the mapping is there: beyond the end of a file
    /// there is nothing (SIGBUS).
    pub(crate) unsafe fn new(fd: BorrowedFd<'_>, len: usize, access: i32) -> io::Result<Self> {
        let start = map(fd, len, access)?;
        Ok(Self { start, len })
    }

    /// The words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length as long as `self` lives, by the contract of `new`; a mapping is aligned to
        // pages; any bits are a valid word, and nobody in this process accesses them otherwise.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and `words` borrowed from `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len * 8) };
    }
}

/// A new mapping that nobody unmaps.
pub(crate) fn map(fd: BorrowedFd<'_>, len: usize, access: i32) -> io::Result<NonNull<AtomicU64>> {
    let (nowhere, raw) = (std::ptr::null_mut(), fd.as_raw_fd());
    // SAFETY: without MAP_FIXED a new mapping touches no existing memory.
    let start = unsafe { libc::mmap(nowhere, len * 8, access, libc::MAP_SHARED, raw, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unasked"))
}
