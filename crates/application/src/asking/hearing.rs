//! The pipe of answers, at a server: how it comes about, and the records that come out of it.

use crate::limits::LOOK_LEN_MAX;
use crate::record::{Decoder, Piece};
use exos_iolite::{Aggregate, Error, Read, Receiver, Result, Trust};
use rustix::event::epoll;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// How the pipe is.
#[derive(Debug)]
enum Pipe {
    /// The application has not made it.
    Awaited(OwnedFd),
    Here(Box<Receiver>),
    Gone,
}

/// What is heard of an application.
#[derive(Debug)]
pub(super) struct Hearing {
    pipe: Pipe,
    /// What was read and not looked at.
    rest: Aggregate,
    decoder: Decoder,
}

impl Hearing {
    /// Over this socket the application makes its pipe.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            pipe: Pipe::Awaited(socket),
            rest: Aggregate::new(),
            decoder: Decoder::default(),
        }
    }

    /// Reads, unless something is there that was not looked at: what one look has before it is bounded.
    ///
    /// # Errors
    ///
    /// The application has ended, or is deaf and has said all; or it breaks the rules.
    pub fn read(&mut self, is_deaf: bool) -> Result<()> {
        if !self.rest.is_empty() {
            return Ok(());
        }
        let read = match &mut self.pipe {
            Pipe::Here(receiver) => receiver.read(LOOK_LEN_MAX)?,
            Pipe::Awaited(_) | Pipe::Gone => Read::Nothing,
        };
        match read {
            Read::Data(data) => self.rest = data,
            Read::Nothing if !is_deaf => {}
            Read::Nothing | Read::End => return Err(Error::PeerGone),
        }
        Ok(())
    }

    /// The next part of a record of what was read.
    pub fn next(&mut self) -> Result<Option<Piece>> {
        self.decoder.next(&mut self.rest)
    }

    /// Its descriptor was readable.
    pub fn woken(&mut self, epoll: &OwnedFd, number: u64) -> Result<()> {
        match std::mem::replace(&mut self.pipe, Pipe::Gone) {
            Pipe::Awaited(socket) => {
                let _ = epoll::delete(epoll, &socket);
                // What it sends is copied before anybody looks at it, by us.
                let receiver = Receiver::accept(socket, Trust::Trusted)?.of_one_pool();
                watch(epoll, receiver.as_fd(), number)?;
                self.pipe = Pipe::Here(Box::new(receiver));
            }
            Pipe::Here(mut receiver) => {
                receiver.woken();
                self.pipe = Pipe::Here(receiver);
            }
            Pipe::Gone => {}
        }
        Ok(())
    }

    /// Has its descriptor be readable when something comes; true when something is there.
    pub fn arm(&mut self) -> Result<bool> {
        match &mut self.pipe {
            Pipe::Here(receiver) => Ok(receiver.arm()? || !self.rest.is_empty()),
            Pipe::Awaited(_) | Pipe::Gone => Ok(false),
        }
    }
}

/// Waits for a descriptor too.
pub(super) fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>, number: u64) -> Result<()> {
    let data = epoll::EventData::new_u64(number);
    epoll::add(epoll, fd, data, epoll::EventFlags::IN)
        .map_err(|errno| Error::System("no memory is left", errno.into()))
}
