//! Pipes, through which the kernel moves bytes from one socket to another without us seeing them (splice(2)), and one
//! direction of a connection.
//!
//! A direction has a pipe only while something is in it, so idle connections have none, and pipes go round in a pool. What is
//! in a pipe is all that is buffered beside the sockets: while the receiver does not take it, no more is read, the sender's
//! window closes, and so the sender waits.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use crate::limits::{PIPES_SPARE_MAX, SPLICE_AT_ONCE};

/// A pipe, empty but for what its direction knows of.
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Pipes that nobody uses now.
#[derive(Default)]
pub(super) struct Pool {
    spare: Vec<Pipe>,
    /// Made so far.
    pub made: u64,
}

impl Pool {
    fn take(&mut self) -> rustix::io::Result<Pipe> {
        if let Some(pipe) = self.spare.pop() {
            return Ok(pipe);
        }
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        self.made += 1;
        Ok(Pipe { read, write })
    }

    fn give(&mut self, pipe: Pipe) {
        if self.spare.len() < PIPES_SPARE_MAX {
            self.spare.push(pipe);
        }
    }
}

/// What epoll has told of a socket, and no system call has denied since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ready {
    pub readable: bool,
    pub writable: bool,
}

/// One direction of a connection: what one socket receives is sent by the other.
#[derive(Default)]
pub(super) struct Direction {
    pipe: Option<Pipe>,
    /// Bytes in the pipe.
    held: usize,
    /// The sender has ended.
    ended: bool,
    /// The receiver has been told so: nothing is left to do.
    pub done: bool,
    /// Bytes that went through.
    pub bytes: u64,
    /// There may be more that can be moved now.
    pub unfinished: bool,
}

impl Direction {
    /// Moves what can be moved now, so much at most that others have their turn too, and tells the receiver when the sender
    /// has ended.
    ///
    /// # Errors
    ///
    /// One of the sockets is broken, or there are no descriptors for a pipe.
    pub fn pump(
        &mut self,
        (from, from_ready): (&OwnedFd, &mut Ready),
        (to, to_ready): (&OwnedFd, &mut Ready),
        pool: &mut Pool,
    ) -> rustix::io::Result<()> {
        let enough = self.bytes + SPLICE_AT_ONCE as u64;
        self.unfinished = true;
        while self.unfinished && self.bytes < enough {
            self.unfinished = self.drain(to, to_ready)? | self.fill(from, from_ready, pool)?;
        }
        self.give_back(pool);
        if self.ended && self.held == 0 && !self.done {
            self.done = true;
            match rustix::net::shutdown(to, Shutdown::Write) {
                // The receiver has ended everything already.
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The pipe is others' again if it is empty.
    pub fn give_back(&mut self, pool: &mut Pool) {
        if self.held == 0
            && let Some(pipe) = self.pipe.take()
        {
            pool.give(pipe);
        }
    }

    /// From the pipe to the receiver. True when something moved.
    fn drain(&mut self, to: &OwnedFd, ready: &mut Ready) -> rustix::io::Result<bool> {
        let Some(pipe) = self
            .pipe
            .as_ref()
            .filter(|_| self.held > 0 && ready.writable)
        else {
            return Ok(false);
        };
        match moved(&pipe.read, to, self.held)? {
            Some(count) => {
                self.held -= count;
                self.bytes += count as u64;
                Ok(count > 0)
            }
            None => {
                ready.writable = false;
                Ok(false)
            }
        }
    }

    /// From the sender to the pipe. True when something moved.
    fn fill(
        &mut self,
        from: &OwnedFd,
        ready: &mut Ready,
        pool: &mut Pool,
    ) -> rustix::io::Result<bool> {
        if self.ended || !ready.readable {
            return Ok(false);
        }
        if self.pipe.is_none() {
            self.pipe = Some(pool.take()?);
        }
        let pipe = self.pipe.as_ref().expect("it has one now");
        match moved(from, &pipe.write, SPLICE_AT_ONCE)? {
            Some(0) => {
                self.ended = true;
                Ok(false)
            }
            Some(count) => {
                self.held += count;
                Ok(true)
            }
            // Nothing is there; or the pipe is full, which the kernel says in the same way: then it is asked again when the
            // pipe is empty.
            None => {
                ready.readable = self.held > 0;
                Ok(false)
            }
        }
    }
}

/// Bytes that went from one to the other; `None` where that would have to wait.
fn moved(from: impl AsFd, to: impl AsFd, len: usize) -> rustix::io::Result<Option<usize>> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        match splice(&from, None, &to, None, len, flags) {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
