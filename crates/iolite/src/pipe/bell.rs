//! Waking a peer that sleeps, and hearing of its end: a pipe of the kernel's, of which each side has one end. One that sleeps reads it, in
//! one call, which also ends when the peer does; and programs that wait for many things poll it.
//!
//! A process that has such an end ignores SIGPIPE, as programs in Rust do unless they ask for it.

use crate::error::{Error, Refused as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2, read};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Both ends of a new bell.
pub(crate) fn bell() -> Result<(Sleeper, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).refused("cannot make a pipe")?;
    Ok((Sleeper(ours), theirs))
}

/// Wakes the peer.
#[derive(Debug)]
pub(crate) struct Waker(pub OwnedFd);

impl Waker {
    /// Never waits: a peer that does not read what wakes it is awake already, or wants to sleep.
    pub fn wake(&self) {
        let byte = [IoSlice::new(b"x")];
        // At the end of the file, whichever that is, as write(2) does.
        let written = pwritev2(&self.0, &byte, u64::MAX, ReadWriteFlags::NOWAIT);
        // Kernels before 6.4, and pipes that have a name.
        if written == Err(Errno::OPNOTSUPP) && does_not_wait(&self.0) {
            let _ = rustix::io::write(&self.0, b"x");
        }
    }
}

/// Sleeps until the peer wakes it.
#[derive(Debug)]
pub(crate) struct Sleeper(pub OwnedFd);

impl Sleeper {
    /// Sleeps until it is woken, or this long; perhaps for nothing. False when nothing has woken it.
    ///
    /// # Errors
    ///
    /// The peer has ended.
    pub fn sleep(&self, at_most: Option<Duration>) -> Result<bool> {
        if at_most.is_some() {
            sleep_for_any([self], at_most);
            return self.clear();
        }
        match read(&self.0, &mut [0; 64]) {
            // It is one that does not wait.
            Err(Errno::AGAIN) => {
                sleep_for_any([self], None);
                self.clear()
            }
            other => heard(other),
        }
    }

    /// Takes what has woken it, and never waits: what was there may be taken by a peer that has kept our end. False when nothing was there.
    ///
    /// # Errors
    ///
    /// The peer has ended.
    pub fn clear(&self) -> Result<bool> {
        let mut bytes = [0; 64];
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let mut taken = preadv2(&self.0, parts, u64::MAX, ReadWriteFlags::NOWAIT);
        if taken == Err(Errno::OPNOTSUPP) {
            if !does_not_wait(&self.0) {
                return Err(Error::PeerFault("its bell waits"));
            }
            taken = read(&self.0, &mut [0; 64]);
        }
        heard(taken)
    }

    /// Whether something is there to be taken, or the peer has ended.
    pub fn has_rung(&self) -> bool {
        is_ready(self.0.as_fd(), PollFlags::IN)
    }

    /// Whether the peer has ended, or closed its end.
    pub fn is_alone(&self) -> bool {
        is_ready(self.0.as_fd(), PollFlags::empty())
    }
}

impl AsFd for Sleeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn heard(read: rustix::io::Result<usize>) -> Result<bool> {
    match read {
        Ok(0) => Err(Error::PeerGone),
        Ok(_) => Ok(true),
        Err(Errno::INTR | Errno::AGAIN) => Ok(false),
        Err(error) => Err(Error::System("cannot sleep", error.into())),
    }
}

/// An end of a bell that a peer has made: a pipe of the kernel's, as nothing else has calls that do not wait.
pub(super) fn passed(end: OwnedFd) -> Result<OwnedFd> {
    let status = rustix::fs::fstat(&end).refused("cannot look at a bell")?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Fifo => Ok(end),
        _ => Err(Error::PeerFault("its bell is no pipe")),
    }
}

/// Makes a pipe one that does not wait, where single calls cannot be.
fn does_not_wait(fd: &OwnedFd) -> bool {
    let set = |flags: OFlags| fcntl_setfl(fd, flags | OFlags::NONBLOCK);
    fcntl_getfl(fd).and_then(set).is_ok()
}

/// Sleeps until one of these is woken, or its peer has ended, or this long; false when that was not so.
pub(super) fn sleep_for_any<'a>(
    sleepers: impl IntoIterator<Item = &'a Sleeper>,
    at_most: Option<Duration>,
) -> bool {
    let fds = sleepers
        .into_iter()
        .map(|s| PollFd::new(&s.0, PollFlags::IN));
    let mut fds: Vec<PollFd<'_>> = fds.collect();
    // What is too long to be told is for good.
    let time = at_most.and_then(|time| Timespec::try_from(time).ok());
    poll(&mut fds, time.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Whether something is so now, or the other end is gone.
fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_sleeps_is_woken_and_hears_of_the_end() {
        let (sleeper, other) = bell().expect("descriptors");
        let waker = Waker(other);
        let short = Some(Duration::from_millis(1));
        assert!(sleeper.sleep(short).is_ok_and(|is_woken| !is_woken) && !sleeper.is_alone());
        waker.wake();
        assert!(sleeper.sleep(None).is_ok_and(|is_woken| is_woken));
        // Nobody reads.
        (0..100_000).for_each(|_| waker.wake());
        drop(waker);
        assert!(sleeper.is_alone());
        while sleeper.sleep(None).is_ok() {}
    }

    #[test]
    fn what_another_has_taken_is_not_waited_for() {
        let (sleeper, _other) = bell().expect("descriptors");
        for _ in 0..2 {
            assert!(sleeper.clear().is_ok_and(|was| !was), "nothing is there");
            // From here on as one of a kernel whose calls cannot be told not to wait.
            assert!(does_not_wait(&sleeper.0));
        }
        let short = Some(Duration::from_millis(1));
        assert!(sleeper.sleep(short).is_ok());
    }

    #[test]
    fn nobody_is_woken_and_that_is_no_harm() {
        let (sleeper, other) = bell().expect("descriptors");
        drop(sleeper);
        Waker(other).wake();
    }
}
