//! A piece of address space that is given back when dropped.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;

/// A mapping, readable and writable, with its pages present from the start: a
/// page fault costs more than the packet that runs into it.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an address range is as good on one thread as on another, and this
// type gives no access by itself.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Zeroed memory of our own. It is shared with children rather than copied
    /// on write: the kernel keeps the pages that it has pinned for a UMEM, and
    /// after a fork a write must not move ours elsewhere.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// `len` bytes of what `fd` offers at `offset`, shared with the kernel.
    pub(crate) fn shared(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED, fd.as_raw_fd(), offset.cast_signed())
    }

    fn map(len: usize, flags: i32, fd: i32, offset: i64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: without MAP_FIXED a new mapping touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                access,
                flags | libc::MAP_POPULATE,
                fd,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).expect("the kernel maps nothing at 0 unasked");
        Ok(Self { start, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The address of a `T` at `offset`.
    ///
    /// # Panics
    ///
    /// If `count` of them do not fit there or would not be aligned.
    pub(crate) fn at<T>(&self, offset: usize, count: usize) -> NonNull<T> {
        let bytes = count
            .checked_mul(size_of::<T>())
            .and_then(|n| n.checked_add(offset));
        assert!(
            bytes.is_some_and(|end| end <= self.len),
            "{count} values at {offset} leave the mapping"
        );
        // SAFETY: just checked to be within the mapping.
        let at = unsafe { self.start.add(offset) }.cast::<T>();
        assert!(
            at.is_aligned(),
            "offset {offset} in a mapping is not aligned"
        );
        at
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and anyone who holds addresses in it keeps
        // this value alive.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert_eq!(result, 0, "munmap of our own mapping");
    }
}
