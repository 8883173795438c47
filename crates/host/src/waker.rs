//! A descriptor by which threads wake a loop that sleeps in poll(2): a counter of the kernel's (eventfd(2)).

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Readable from [`wake`](Self::wake) until [`clear`](Self::clear). Waking one that is awake is no system call, nor is
/// clearing one that nobody has woken.
///
/// The one that wakes does so behind what it has to say; the one that sleeps clears before it looks, and then sees all that
/// was said before.
#[derive(Debug)]
pub struct Waker {
    is_woken: AtomicBool,
    fd: OwnedFd,
}

impl Waker {
    /// Nobody has woken it.
    ///
    /// # Errors
    ///
    /// There is no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            is_woken: AtomicBool::new(false),
            fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Makes it readable.
    pub fn wake(&self) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // It cannot fail but by being full, and then it is readable.
            let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        }
    }

    /// It is not readable any more. True if it was.
    #[inline]
    pub fn clear(&self) -> bool {
        // Not before it is readable, or it would stay readable with nothing said: a thread may be between its two steps.
        let was = self.is_woken.load(Ordering::Acquire)
            && rustix::io::read(&self.fd, &mut [0; 8]).is_ok();
        was && self.is_woken.swap(false, Ordering::AcqRel)
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(waker: &Waker) -> bool {
        let mut fds = [PollFd::new(waker, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).expect("it can be polled") > 0
    }

    #[test]
    fn it_is_readable_until_it_is_cleared() {
        let waker = Waker::new().expect("a descriptor");
        assert!(!is_readable(&waker) && !waker.clear());
        for _ in 0..2 {
            waker.wake();
            waker.wake();
            assert!(is_readable(&waker) && waker.clear());
            assert!(!is_readable(&waker) && !waker.clear());
        }
    }

    #[test]
    fn it_is_not_cleared_before_it_is_readable() {
        let waker = Waker::new().expect("a descriptor");
        // Another thread is between its two steps.
        waker.is_woken.store(true, Ordering::Release);
        assert!(!waker.clear());
        rustix::io::write(&waker.fd, &1_u64.to_ne_bytes()).expect("it has room");
        assert!(waker.clear() && !is_readable(&waker));
    }
}
