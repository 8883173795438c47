//! Bytes between a Unix socket, whose other end the program has, and a connection.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use exos::net::TcpStream;
use exos::{Buffer, Slice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::counters::Moved;
use crate::limits::PIECE;

/// A connection whose bytes flow. Both ends are non-blocking; what cannot go on goes on when one of them is ready.
pub(crate) struct Flow {
    pub stream: TcpStream,
    /// Read of the program, and not taken by the connection.
    rest: Option<Slice>,
    /// The program may have written what was not read yet: it is told of by an edge, once.
    is_written: bool,
    /// Taken of the connection, and not read by the program.
    unread: Vec<u8>,
    /// The program's socket has had no room for what came.
    pub is_full: bool,
    /// The program writes no more, and the peer has been told.
    program_finished: bool,
    /// The peer writes no more, and the program has been told.
    pub peer_finished: bool,
    /// The unhappy end of the connection, for the program to hear of.
    pub error: Option<io::Error>,
    pub moved: Moved,
}

/// Whether a flow goes on.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Goes {
    On,
    /// The program has closed all its descriptors, and has written nothing that was not taken: the connection is to be let go.
    Closed,
}

impl Flow {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            rest: None,
            is_written: true,
            unread: Vec::new(),
            is_full: false,
            program_finished: false,
            peer_finished: false,
            error: None,
            moved: Moved::default(),
        }
    }

    /// Goes on with a connection of which this was read of the program, or taken of the connection, before.
    pub fn with(stream: TcpStream, rest: Vec<u8>, unread: Vec<u8>, program_finished: bool) -> Self {
        Self {
            rest: (!rest.is_empty()).then(|| Buffer::from(rest).into()),
            unread,
            program_finished,
            ..Self::new(stream)
        }
    }

    /// Moves what can be moved, some of it by way of the buffer. What has come is read before the connection's end is told. The kernel is
    /// asked for what the program has written where it may have written since it had nothing, and where that was not all taken.
    ///
    /// # Errors
    ///
    /// The Unix socket does not work.
    pub fn turn(&mut self, end: &OwnedFd, buffer: &mut [u8], by_program: bool) -> io::Result<Goes> {
        self.is_written |= by_program;
        self.pass_to_program(end)?;
        if self.is_written || self.rest.is_some() {
            self.pass_to_peer(end, buffer)?;
        }
        let closed = self.program_finished && self.rest.is_none() && is_hung_up(end)?;
        Ok(if closed { Goes::Closed } else { Goes::On })
    }

    /// The connection has ended unhappily: what the program writes from now on is for nobody.
    fn has_failed(&mut self, error: io::Error) {
        self.error = Some(error);
        self.program_finished = true;
        self.rest = None;
    }

    fn pass_to_peer(&mut self, end: &OwnedFd, buffer: &mut [u8]) -> io::Result<()> {
        while !self.program_finished || self.rest.is_some() {
            if let Some(slice) = self.rest.take() {
                match self.stream.send(slice.clone()) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.rest = Some(slice);
                        return Ok(());
                    }
                    Err(error) => self.has_failed(error),
                }
                continue;
            }
            match recv(end, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    self.program_finished = true;
                    // What is over needs no end.
                    let _ = self.stream.shutdown(Shutdown::Write);
                }
                Ok((count, _)) => {
                    self.moved.from_program += count as u64;
                    self.rest = Some(Buffer::from(&buffer[..count]).into());
                }
                Err(Errno::AGAIN) => {
                    self.is_written = false;
                    return Ok(());
                }
                Err(Errno::CONNRESET) => {
                    // Closed, with something of the peer's unread: it is sent a reset (RFC 1122 §4.2.2.13).
                    self.program_finished = true;
                    let _ = self.stream.set_linger(Some(Duration::ZERO));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn pass_to_program(&mut self, end: &OwnedFd) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while !self.unread.is_empty() {
            match send(end, &self.unread, flags) {
                Ok(count) => drop(self.unread.drain(..count)),
                Err(Errno::PIPE | Errno::CONNRESET) => self.unread.clear(),
                Err(Errno::AGAIN) => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        while !self.peer_finished {
            let moved = self.stream.read_with(|bytes| match bytes {
                [] => (0, Ok(0)),
                bytes => match send(end, &bytes[..bytes.len().min(PIECE)], flags) {
                    Ok(count) => (count, Ok(count)),
                    // The program reads no more.
                    Err(Errno::PIPE | Errno::CONNRESET) => (bytes.len(), Ok(bytes.len())),
                    Err(error) => (0, Err(error)),
                },
            });
            match moved {
                Ok(Ok(0)) => {
                    self.peer_finished = true;
                    match self.error {
                        Some(_) => cut(end),
                        None => finish(end),
                    }
                }
                Ok(Ok(count)) => self.moved.to_program += count as u64,
                Ok(Err(Errno::AGAIN)) => {
                    self.is_full = true;
                    return Ok(());
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    self.peer_finished = true;
                    self.has_failed(error);
                    cut(end);
                }
            }
        }
        Ok(())
    }
}

/// The program reads the end behind what was sent.
fn finish(end: &OwnedFd) {
    // It may have closed its own.
    let _ = rustix::net::shutdown(end, rustix::net::Shutdown::Write);
}

/// Nothing more goes either way.
pub(crate) fn cut(end: &OwnedFd) {
    let _ = rustix::net::shutdown(end, rustix::net::Shutdown::Both);
}

/// The program sends nothing more.
pub(crate) fn has_finished(end: &OwnedFd) -> io::Result<bool> {
    Ok(ready(end, PollFlags::RDHUP)?.intersects(PollFlags::RDHUP | PollFlags::HUP))
}

/// The program has closed all its descriptors.
pub(crate) fn is_hung_up(end: &OwnedFd) -> io::Result<bool> {
    Ok(ready(end, PollFlags::empty())?.contains(PollFlags::HUP))
}

/// What of it holds now.
pub(crate) fn ready(fd: impl AsFd, asked: PollFlags) -> io::Result<PollFlags> {
    let mut fds = [PollFd::new(&fd, asked)];
    loop {
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(_) => return Ok(fds[0].revents()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
