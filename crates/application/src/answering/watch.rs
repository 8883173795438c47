//! All descriptors of an application behind one that is readable when any of them is.

use exos_iolite::{Error, Result};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Descriptors that are heard of in one wait; of more the next wait tells.
const EVENTS_MAX: usize = 64;

/// Whose a descriptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Where servers connect.
    Listener,
    /// A server that has connected, and has not said all that makes a link.
    Beginning,
    /// Says that the application is to stop.
    Stop,
    /// A link's end of requests.
    Requests(u64),
    /// A link's end of answers.
    Answers(u64),
}

impl Source {
    fn to_bits(self) -> u64 {
        match self {
            Source::Listener => 0,
            Source::Beginning => 1,
            Source::Stop => 2,
            Source::Requests(link) => 4 + 2 * link,
            Source::Answers(link) => 5 + 2 * link,
        }
    }

    fn from_bits(bits: u64) -> Source {
        match bits {
            0 => Source::Listener,
            1 => Source::Beginning,
            2 | 3 => Source::Stop,
            _ if bits.is_multiple_of(2) => Source::Requests((bits - 4) / 2),
            _ => Source::Answers((bits - 5) / 2),
        }
    }
}

/// What an application waits for.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: OwnedFd,
    /// What was readable when it was looked last.
    ready: Vec<Source>,
}

impl Watch {
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| Error::System("cannot wait", error.into()))?;
        Ok(Self {
            epoll,
            ready: Vec::new(),
        })
    }

    /// Waits for a descriptor too, until it is removed: a peer may keep it open when it is closed here.
    pub fn add(&self, fd: BorrowedFd<'_>, source: Source) -> Result<()> {
        let data = epoll::EventData::new_u64(source.to_bits());
        epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)
            .map_err(|error| Error::System("cannot wait for a descriptor", error.into()))
    }

    /// Does not wait for it any more.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Sleeps until one of them is readable, or this long; perhaps for nothing. Which are.
    pub fn sleep(&mut self, at_most: Option<Duration>) -> Result<&[Source]> {
        // What is too long to be told is for good.
        let time = at_most.and_then(|time| Timespec::try_from(time).ok());
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let ready = match epoll::wait(&self.epoll, &mut events, time.as_ref()) {
            Ok((ready, _)) => &*ready,
            Err(Errno::INTR) => &[],
            Err(error) => return Err(Error::System("cannot wait", error.into())),
        };
        let sources = ready
            .iter()
            .map(|event| Source::from_bits(event.data.u64()));
        self.ready.clear();
        self.ready.extend(sources);
        Ok(&self.ready)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_what_it_was() {
        let links = [0, 1, 2, 1 << 40];
        let all = [Source::Listener, Source::Beginning, Source::Stop]
            .into_iter()
            .chain(links.map(Source::Requests))
            .chain(links.map(Source::Answers));
        for source in all {
            assert_eq!(Source::from_bits(source.to_bits()), source);
        }
    }
}
