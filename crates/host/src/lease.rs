//! Leases of files (fcntl(2), `F_SETLEASE`): as long as one for reading is held, nobody has the file open for writing. One who opens it for
//! that, or cuts it, waits until the lease is given back; who asked not to wait is refused (`EWOULDBLOCK`).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Why there is no lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Somebody has the file open for writing.
    Writing,
    /// The file is another user's: leases are for its owner.
    NotOwner,
    /// This file system has none.
    Unsupported,
}

/// Nobody writes this file as long as this is there. A writer is kept waiting for 45 s at most (`/proc/sys/fs/lease-break-time`).
#[derive(Debug)]
pub struct ReadLease<'a>(BorrowedFd<'a>);

impl<'a> ReadLease<'a> {
    /// Takes one on a file that is open for reading only. The process has said before that it ignores what tells of writers who wait
    /// ([`ignore_breaks`]): it is to hold leases for moments.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn take(file: BorrowedFd<'a>) -> Result<Self, Refusal> {
        match set(file, libc::F_RDLCK) {
            Ok(()) => Ok(Self(file)),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::EAGAIN) => Refusal::Writing,
                Some(libc::EACCES | libc::EPERM) => Refusal::NotOwner,
                _ => Refusal::Unsupported,
            }),
        }
    }
}

impl Drop for ReadLease<'_> {
    fn drop(&mut self) {
        // It goes with the descriptor in any case.
        let _ = set(self.0, libc::F_UNLCK);
    }
}

fn set(file: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    // SAFETY: the kernel is given numbers.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// From now on the signal that tells of a writer who waits (SIGIO) does not end this process.
pub fn ignore_breaks() {
    // SAFETY: no handler is set.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_lease_keeps_writers_away_and_writers_keep_it_away() {
        ignore_breaks();
        let path = std::env::temp_dir().join(format!("exos-lease-{}", std::process::id()));
        std::fs::write(&path, "text").expect("room");
        let file = File::open(&path).expect("it is there");
        let writing = || {
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
            rustix::fs::open(&path, flags, rustix::fs::Mode::empty())
        };
        match ReadLease::take(file.as_fd()) {
            Ok(lease) => {
                assert_eq!(writing().err(), Some(rustix::io::Errno::AGAIN));
                drop(lease);
                let writer = writing().expect("the lease is over");
                let refused = ReadLease::take(file.as_fd()).expect_err("a writer");
                assert_eq!(refused, Refusal::Writing);
                drop(writer);
            }
            Err(refusal) => assert_eq!(refusal, Refusal::Unsupported),
        }
        std::fs::remove_file(&path).expect("it was there");
    }
}
