//! The connections to applications themselves, over the kernel's sockets: each with the client that it is for, and its end.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use exos_buf::Buffer;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet, Reason};
use exos_program::sockets::{Shortage, Sockets};
use rustix::io::Errno;

use super::carriers::Upstream as Carried;
use crate::applications::application::{Address, Place};
use crate::limits::APPLICATION_READ_LEN;

/// A connection.
#[derive(Debug)]
struct Upstream {
    address: Address,
    /// For whom; nobody where it is kept open.
    client: Option<ConnectionId>,
    /// It came to stand.
    stood: bool,
    end: Option<Reason>,
}

/// Whom news of a connection are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Its client.
    Of(ConnectionId),
    /// Nobody: this one was kept open, and has ended or said something.
    Useless(Carried),
}

/// All connections of a loop.
#[derive(Default)]
pub(super) struct Upstreams {
    sockets: Option<Sockets>,
    all: HashMap<ConnectionId, Upstream>,
    /// Something was asked of the sockets since there was no news.
    is_touched: bool,
    /// The last look did not take in all.
    has_more: bool,
}

impl Upstreams {
    /// Opens a connection for a client.
    pub(super) fn connect(
        &mut self,
        address: &Address,
        client: ConnectionId,
    ) -> Result<ConnectionId, Errno> {
        self.is_touched = true;
        let sockets = match &mut self.sockets {
            Some(sockets) => sockets,
            none => {
                let mut sockets = Sockets::new(APPLICATION_READ_LEN)?;
                sockets.tell_of_taken();
                sockets.read_to_the_end();
                none.insert(sockets)
            }
        };
        let (Address::Fastcgi(place) | Address::Http(place)) = address else {
            return Err(Errno::PROTOTYPE);
        };
        let id = match place {
            Place::Unix(path) => sockets.connect_unix(path, 0)?,
            Place::Tcp(to) => sockets.connect(to, 0).map_err(|shortage| match shortage {
                Shortage::Room(errno) | Shortage::Ports(errno) => errno,
            })?,
        };
        let made = Upstream {
            address: address.clone(),
            client: Some(client),
            // A Unix socket stands at once.
            stood: matches!(place, Place::Unix(_)),
            end: None,
        };
        self.all.insert(id, made);
        Ok(id)
    }

    /// It is this client's from now on; of none it is kept open.
    pub(super) fn give(&mut self, id: ConnectionId, client: Option<ConnectionId>) {
        if let Some(upstream) = self.all.get_mut(&id) {
            upstream.client = client;
        }
    }

    /// Closes one, and gives its application's address. What was sent on it still goes, as far as the kernel takes it at once.
    pub(super) fn leave(&mut self, id: ConnectionId) -> Option<Address> {
        self.is_touched = true;
        if let Some(sockets) = &mut self.sockets {
            sockets.leave(id);
        }
        Some(self.all.remove(&id)?.address)
    }

    /// Sends this.
    pub(super) fn send(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        self.is_touched = true;
        if let Some(sockets) = &mut self.sockets {
            sockets.send(id, Buffer::from(bytes).into());
        }
    }

    /// Ends our side behind what was sent.
    pub(super) fn finish(&mut self, id: ConnectionId) {
        self.is_touched = true;
        if let Some(sockets) = &mut self.sockets {
            sockets.finish(id);
        }
    }

    /// Takes this many bytes of what has come.
    pub(super) fn consume(&mut self, id: ConnectionId, count: usize) {
        self.is_touched = true;
        if let Some(sockets) = &mut self.sockets {
            sockets.consume(id, count);
        }
    }

    // Getters.

    /// It came to stand.
    pub(super) fn has_stood(&self, id: ConnectionId) -> bool {
        self.all.get(&id).is_some_and(|upstream| upstream.stood)
    }

    /// To where it is.
    pub(super) fn address_of(&self, id: ConnectionId) -> Option<&Address> {
        self.all.get(&id).map(|upstream| &upstream.address)
    }

    /// Bytes that the kernel has not taken.
    pub(super) fn unsent(&self, id: ConnectionId) -> usize {
        let sockets = self.sockets.as_ref();
        sockets.map_or(0, |sockets| sockets.unsent(id))
    }

    /// What has come and was not taken.
    pub(super) fn readable(&self, id: ConnectionId) -> &[u8] {
        let sockets = self.sockets.as_ref();
        sockets.map_or(&[], |sockets| sockets.readable(id))
    }

    /// Why nothing more comes than what is there, if so.
    pub(super) fn end_of(&self, id: ConnectionId) -> Option<Reason> {
        match self.all.get(&id) {
            Some(upstream) => upstream.end,
            None => Some(Reason::Reset),
        }
    }

    /// It is open, and nothing is under way on it, as far as is known here.
    pub(super) fn is_clean(&self, id: ConnectionId) -> bool {
        self.readable(id).is_empty() && self.unsent(id) == 0 && self.end_of(id).is_none()
    }

    /// Nothing was said on one that nobody asked for, and it is open.
    pub(super) fn is_silent(&self, id: ConnectionId) -> bool {
        let is_open = self.end_of(id).is_none() && self.readable(id).is_empty();
        let sockets = self.sockets.as_ref();
        is_open && sockets.is_some_and(|sockets| sockets.is_silent(id))
    }

    /// Readable when there is news; nothing before the first connection.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.sockets.as_ref().map(Sockets::fd)
    }

    // The loop.

    /// There is something to do, whether there is news or not.
    pub(super) fn touch(&mut self) {
        self.is_touched = true;
    }

    /// Whether there is something to do at once.
    pub(super) fn is_pressing(&self) -> bool {
        self.is_touched || self.has_more
    }

    /// Hears what has happened, which [`Upstreams::poll`] tells then.
    pub(super) fn look(&mut self) {
        self.has_more = false;
        if let Some(sockets) = &mut self.sockets
            && !self.all.is_empty()
        {
            // For no time: a kernel that refuses that has nothing to tell.
            let _ = sockets.wait(Some(Instant::START));
            self.has_more = sockets.may_have_more();
        }
    }

    /// The next news. When there is none, everything was sent that was to be.
    pub(super) fn poll(&mut self) -> Option<News> {
        while let Some(event) = self.sockets.as_mut().and_then(Sockets::poll_event) {
            let (id, set) = (event.connection, event.set);
            let Some(upstream) = self.all.get_mut(&id) else {
                continue;
            };
            upstream.stood |= set.contains(EventSet::CONNECTED);
            if set.contains(EventSet::FINISHED) {
                upstream.end.get_or_insert(Reason::Done);
            }
            if set.contains(EventSet::CLOSED) {
                upstream.end = Some(event.reason);
            }
            match upstream.client {
                Some(client) => return Some(News::Of(client)),
                // Nothing is to come on one that is kept but its end.
                None if upstream.end.is_some() || set.contains(EventSet::READABLE) => {
                    return Some(News::Useless(Carried::of(&upstream.address, id)));
                }
                None => {}
            }
        }
        self.is_touched = false;
        None
    }
}
