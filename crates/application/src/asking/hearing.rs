//! The pipe of answers, at a server: how it comes about, and what its records say of requests.

use super::heads::Heads;
use super::kept::Kept;
use super::requests::Requests;
use crate::limits::{HEAD_LEN_MAX, LOOK_LEN_MAX, SAID_LEN_MAX};
use crate::record::{Decoder, Kind};
use exos_iolite::{Aggregate, Error, Read, Receiver, Result, Trust};
use rustix::event::epoll;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// An application says nothing to a server that it does not take.
const NO_LINK: &str = "it begins no link: it has ended, has as many as it may, or is of another version than this server";

/// How the pipe is.
#[derive(Debug)]
enum Pipe {
    /// The application has not made it.
    Awaited(OwnedFd),
    Here(Box<Receiver>),
    Gone,
}

/// What a record, or a part of one, was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// Something of an answer, perhaps of one that nobody wants.
    Something,
    /// The end of an answer.
    Answer,
    /// The application is to be asked nothing more.
    Stop,
}

/// What is heard of an application.
#[derive(Debug)]
pub(super) struct Hearing {
    pipe: Pipe,
    /// What was read and not looked at.
    rest: Aggregate,
    decoder: Decoder,
    /// What has come of a head or of what is said.
    begun: Vec<u8>,
    heads: Heads,
    kept: Kept,
}

impl Hearing {
    /// Over this socket the application makes its pipe.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            pipe: Pipe::Awaited(socket),
            rest: Aggregate::new(),
            decoder: Decoder::default(),
            begun: Vec::new(),
            heads: Heads::default(),
            kept: Kept::default(),
        }
    }

    /// All that was read was looked at.
    fn is_at_end(&self) -> bool {
        self.rest.is_empty() && self.decoder.is_at_end()
    }

    /// Reads, unless something is there that was not looked at: what one look has before it is bounded.
    ///
    /// # Errors
    ///
    /// The application has ended, or is deaf and has said all; or it breaks the rules.
    pub fn read(&mut self, is_deaf: bool) -> Result<()> {
        if !self.is_at_end() {
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

    /// Hears the next part of a record of what was read; nothing when there is none.
    ///
    /// # Errors
    ///
    /// The application breaks the rules.
    pub fn hear<T: Copy>(&mut self, requests: &mut Requests<T>) -> Result<Option<Heard>> {
        let Some(piece) = self.decoder.next(&mut self.rest)? else {
            return Ok(None);
        };
        let (header, is_end) = (piece.header, piece.is_end);
        let number = header.request;
        let asked = requests.heard_of(number)?;
        let mut heard = Heard::Something;
        match (header.kind, asked) {
            (Kind::Head | Kind::Said, asked) => {
                // A head that is cut off is none, which is its own request's matter; of what is said there is enough.
                let len_max = match header.kind {
                    Kind::Head => HEAD_LEN_MAX + 1,
                    _ => SAID_LEN_MAX,
                };
                let room = len_max - self.begun.len();
                piece.bytes.append_to(&mut self.begun, room);
                if !is_end {
                    return Ok(Some(heard));
                }
                // Also where nobody wants the answer: the head's number may stand for it in others.
                let head = match header.kind {
                    Kind::Head => Some(self.heads.of(&header, &self.begun)?),
                    _ => None,
                };
                match (asked, head) {
                    (Some(asked), Some(head)) => asked.head(head)?,
                    (Some(asked), None) => asked.say(&self.begun),
                    (None, _) => {}
                }
                self.begun.clear();
            }
            (Kind::Stop, _) => return Ok(Some(Heard::Stop)),
            (Kind::Request | Kind::Body, _) => {
                return Err(Error::PeerFault("it sends what servers send"));
            }
            (Kind::Content, asked) => {
                // Also where nobody wants the answer, as a head.
                let known = match header.number {
                    0 => None,
                    _ => {
                        let is_wanted = asked.is_some();
                        match self.kept.numbered(&piece, &mut self.begun, is_wanted)? {
                            None => return Ok(Some(heard)),
                            known => known,
                        }
                    }
                };
                let ends = is_end && header.is_last;
                match (asked, known) {
                    (Some(asked), Some(known)) => asked.piece(known, ends)?,
                    (Some(asked), None) => {
                        asked.content(&header, piece.bytes, ends, &mut self.kept)?;
                    }
                    (None, _) => return Ok(Some(heard)),
                }
                heard = if ends { Heard::Answer } else { heard };
            }
            // Nobody wants its answer.
            (Kind::Room | Kind::Leave, None) => {}
            (Kind::Room, Some(asked)) => asked.more_body(header.value as usize)?,
            (Kind::Leave, Some(asked)) => asked.break_off()?,
        }
        requests.tell(number);
        Ok(Some(heard))
    }

    /// Its descriptor was readable.
    pub fn woken(&mut self, epoll: &OwnedFd, number: u64) -> Result<()> {
        match std::mem::replace(&mut self.pipe, Pipe::Gone) {
            Pipe::Awaited(socket) => {
                let _ = epoll::delete(epoll, &socket);
                // What it sends is copied before anybody looks at it, by us.
                let receiver =
                    Receiver::accept(socket, Trust::Trusted).map_err(|error| match error {
                        Error::PeerGone => Error::PeerFault(NO_LINK),
                        error => error,
                    });
                let receiver = receiver?.of_one_pool();
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
        let is_at_end = self.is_at_end();
        match &mut self.pipe {
            Pipe::Here(receiver) => Ok(receiver.arm()? || !is_at_end),
            Pipe::Awaited(_) | Pipe::Gone => Ok(false),
        }
    }

    /// Pieces of content that were known, and not copied.
    pub fn kept_hits(&self) -> u64 {
        self.kept.hits()
    }
}

/// Waits for a descriptor too.
pub(super) fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>, number: u64) -> Result<()> {
    let data = epoll::EventData::new_u64(number);
    epoll::add(epoll, fd, data, epoll::EventFlags::IN)
        .map_err(|errno| Error::System("no memory is left", errno.into()))
}
