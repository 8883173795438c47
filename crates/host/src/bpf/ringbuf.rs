//! Reading a BPF ring buffer.
//!
//! ```text
//! page 0: u64 consumer position (ours to write) | page 1: u64 producer position | data, mapped twice in a row
//! record: u32 length, with busy (bit 31) and discarded (bit 30) | u32 unused | bytes, to the next multiple of 8
//! ```
//!
//! The kernel writes the producer's page and the data, no matter who holds the descriptor the consumer's. Records are
//! copied out; no reference into the mapping is ever made. Nothing in it is trusted to be in bounds: a length or a
//! position that cannot be is an end of the buffer's use ([`RingbufReader::read`] gives an error), not of the process.
//!
//! Opening needs no privilege, only the descriptor. Wait with poll(2) for readability.
//!
//! Source: Linux kernel/bpf/ringbuf.c, Documentation/bpf/ringbuf.rst.

use crate::error::{Context as _, Error, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER_LEN: usize = 8;

/// A mapping of our own. Dropped: unmapped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

/// A ring buffer that we read. One reader at a time: the position is shared by all who have the descriptor.
#[derive(Debug)]
pub struct RingbufReader {
    fd: OwnedFd,
    consumer: Mapping,
    /// The producer's page and the data, twice.
    producer: Mapping,
    page: usize,
    size: usize,
}

// SAFETY: the mappings belong to the reader alone and are not tied to a thread.
unsafe impl Send for RingbufReader {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, len: usize, writable: bool, offset: usize) -> Result<Self> {
        let protection = if writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                fd,
                offset as u64,
            )
        }
        .context(|| "cannot map a BPF ring buffer")?;
        let start = NonNull::new(start.cast()).expect("mmap gives no null");
        Ok(Self { start, len })
    }

    /// The 8-byte word at `at`, which must be aligned.
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len);
        // SAFETY: in bounds and aligned by the assertion; an atomic may be written by others.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and nothing borrowed from it outlives `self`. Failure could only leak it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl RingbufReader {
    /// The ring buffer behind `fd`, whose data is `size` bytes, as it was created with.
    pub fn new(fd: OwnedFd, size: usize) -> Result<Self> {
        // SAFETY: sysconf takes no pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        if !size.is_power_of_two() || !size.is_multiple_of(page) {
            return Err(Error::new(format!(
                "a BPF ring buffer has no {size} bytes: powers of two of at least a page"
            )));
        }
        let consumer = Mapping::new(fd.as_fd(), page, true, 0)?;
        let producer = Mapping::new(fd.as_fd(), page + 2 * size, false, page)?;
        Ok(Self {
            fd,
            consumer,
            producer,
            page,
            size,
        })
    }

    /// The next record, in place of what was in `record`; false when there is none now.
    pub fn read(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        loop {
            let consumed = self.consumer.word(0).load(Ordering::Relaxed);
            let produced = self.producer.word(0).load(Ordering::Acquire);
            let ready = produced.wrapping_sub(consumed);
            if ready == 0 {
                return Ok(false);
            }
            let at = self.page + (consumed as usize & (self.size - 1));
            if ready > self.size as u64 || !consumed.is_multiple_of(8) {
                return Err(broken());
            }
            let header = self.header(at);
            if header & BUSY != 0 {
                return Ok(false);
            }
            let len = (header & !DISCARDED) as usize;
            let step = (HEADER_LEN + len).next_multiple_of(8);
            if step as u64 > ready {
                return Err(broken());
            }
            record.clear();
            if header & DISCARDED == 0 {
                self.copy(at + HEADER_LEN, len, record);
            }
            let next = consumed.wrapping_add(step as u64);
            self.consumer.word(0).store(next, Ordering::Release);
            if header & DISCARDED == 0 {
                return Ok(true);
            }
        }
    }

    /// The first word of the record at `at`.
    fn header(&self, at: usize) -> u32 {
        assert!(at.is_multiple_of(8) && at + 4 <= self.producer.len);
        // SAFETY: in bounds and aligned by the assertion; an atomic may be written by others.
        unsafe { AtomicU32::from_ptr(self.producer.start.as_ptr().add(at).cast()) }
            .load(Ordering::Acquire)
    }

    fn copy(&self, at: usize, len: usize, to: &mut Vec<u8>) {
        assert!(at + len <= self.producer.len);
        to.reserve(len);
        // SAFETY: the source is in bounds by the assertion and is not written before the position moves on (and if
        // it were, bytes have no invalid values); the destination has the room; they do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.producer.start.as_ptr().add(at),
                to.as_mut_ptr(),
                len,
            );
            to.set_len(len);
        }
    }
}

fn broken() -> Error {
    Error::new("the positions in a BPF ring buffer contradict each other")
        .mend("let only one process read it, and open it again")
}

impl AsFd for RingbufReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
