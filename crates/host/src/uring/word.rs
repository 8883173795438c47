//! Waiting for a word of memory that others change, beside descriptors: a wait as by futex(2), whose end makes a descriptor readable.
//!
//! Who changes the word wakes those that wait (futex(2), `FUTEX_WAKE`, not `FUTEX_PRIVATE_FLAG`). Where it can as well write to a counter
//! (eventfd(2)), that is simpler; a word serves processes that share memory and no descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::sync::atomic::AtomicU32;

use io_uring::{IoUring, Probe, opcode};

/// A word of 32 bits, in memory that processes may share (`FUTEX2_SIZE_U32`).
const SIZE: u32 = 2;
/// Any that wakes (`FUTEX_BITSET_MATCH_ANY`).
const ANY: u64 = u32::MAX as u64;

/// A wait for a word. Readable once the word was woken, or was another when the wait began.
pub struct WordWait {
    ring: IoUring,
}

impl WordWait {
    /// Waits for the word as long as it is `is`.
    ///
    /// # Errors
    ///
    /// `Unsupported`: the kernel cannot wait so (before Linux 6.7), or has no io_uring for this process.
    pub fn new(word: &AtomicU32, is: u32) -> io::Result<Self> {
        let unsupported = |why: &dyn std::fmt::Display| {
            let why = format!(
                "cannot wait for a word of memory ({why}): that takes io_uring and Linux 6.7; wait for an eventfd(2) instead"
            );
            io::Error::new(io::ErrorKind::Unsupported, why)
        };
        let ring = IoUring::new(1).map_err(|error| unsupported(&error))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::FutexWait::CODE) {
            return Err(unsupported(&"this kernel does not know it"));
        }
        let mut wait = Self { ring };
        wait.begin(word, is)?;
        Ok(wait)
    }

    fn begin(&mut self, word: &AtomicU32, is: u32) -> io::Result<()> {
        let entry = opcode::FutexWait::new(word.as_ptr(), is.into(), ANY, SIZE).build();
        // SAFETY: the kernel looks at the word before `submit` returns, and writes nothing.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.ring.submit()?;
        Ok(())
    }

    /// Waits again, as long as the word is `is`. One that is not readable yet goes on as it was.
    ///
    /// # Errors
    ///
    /// The kernel has no memory.
    pub fn again(&mut self, word: &AtomicU32, is: u32) -> io::Result<()> {
        let is_over = self.ring.completion().next().is_some();
        match is_over {
            true => self.begin(word, is),
            false => Ok(()),
        }
    }
}

impl AsFd for WordWait {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring has it open as long as it lives.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}
