//! The connections to applications themselves, over the kernel's sockets: each with the client that it is for, and its end.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::os::fd::BorrowedFd;

use exos_buf::Buffer;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet, Reason};
use exos_program::sockets::{Shortage, Sockets};
use rustix::io::Errno;

use super::carriers::Upstream as Carried;
use super::group::{Left, Waiting};
use super::groups::GroupId;
use super::session::Secured;
use crate::applications::application::{Address, Place};
use crate::limits::APPLICATION_READ_LEN;
use crate::site::hash::PathHasher;
use crate::site::rules::access::peer::Peer;

/// A connection.
#[derive(Debug)]
struct Upstream {
    address: Address,
    /// The address's group, of those that are for clients.
    group: Option<GroupId>,
    /// For whom; nobody where it is kept open.
    client: Option<ConnectionId>,
    /// Whom that is counted as, if it is.
    peer: Option<Peer>,
    /// It speaks another protocol, and makes room for requests.
    is_tunnel: bool,
    /// It asks whether the upstream is well, or something else for no client.
    is_check: bool,
    /// It came to stand.
    stood: bool,
    /// Its client has sent a part of a body, and hears when the kernel has taken of that.
    is_uploading: bool,
    end: Option<Reason>,
    /// What encrypts it, where something does.
    session: Option<Box<Secured>>,
}

impl Upstream {
    /// Why nothing more comes than what is there, if so. Inside a session the upstream says that itself; a connection that ends without that was cut.
    fn has_ended(&self) -> Option<Reason> {
        let Some(session) = &self.session else {
            return self.end;
        };
        if session.has_failed() {
            return Some(Reason::Reset);
        }
        if session.is_peer_closed() {
            return Some(Reason::Done);
        }
        let end = self.end.filter(|_| session.readable().is_empty())?;
        Some(if end == Reason::Done {
            Reason::Reset
        } else {
            end
        })
    }
}

/// Whom news of a connection are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Its client.
    Of(ConnectionId),
    /// Those who ask whether upstreams are well, or something else for no client, by this one.
    Check(ConnectionId),
    /// Nobody: this one was kept open, and has ended or said something.
    Useless(Carried),
}

/// All connections of a loop.
#[derive(Default)]
pub(super) struct Upstreams {
    sockets: Option<Sockets>,
    all: HashMap<ConnectionId, Upstream, BuildHasherDefault<PathHasher>>,
    /// Something was asked of the sockets since there was no news.
    is_touched: bool,
    /// The last look did not take in all.
    has_more: bool,
}

impl Upstreams {
    /// Opens a connection of a group for a client.
    pub(super) fn connect(
        &mut self,
        address: &Address,
        group: GroupId,
        asks: &Waiting,
    ) -> Result<ConnectionId, Errno> {
        let id = self.open(address, Some(asks.client))?;
        if let Some(upstream) = self.all.get_mut(&id) {
            upstream.group = Some(group);
            upstream.peer = asks.peer;
        }
        Ok(id)
    }

    /// Opens a connection for those who ask whether upstreams are well, or something else for no client.
    pub(super) fn connect_check(&mut self, address: &Address) -> Result<ConnectionId, Errno> {
        self.open(address, None)
    }

    fn open(
        &mut self,
        address: &Address,
        client: Option<ConnectionId>,
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
        let (place, encryption) = match address {
            Address::Fastcgi(place) | Address::Http(place) => (place, None),
            Address::Https(place, with) => (place, Some(with)),
            Address::Shared(_) => return Err(Errno::PROTOTYPE),
        };
        // A configuration that was read makes sessions.
        let begun = encryption.map(Secured::begin).transpose();
        let begun = begun.map_err(|_| Errno::PROTO)?;
        let id = match place {
            Place::Unix(path) => sockets.connect_unix(path, 0)?,
            Place::Tcp(to) => sockets.connect(to, 0).map_err(|shortage| match shortage {
                Shortage::Room(errno) | Shortage::Ports(errno) => errno,
            })?,
        };
        let made = Upstream {
            address: address.clone(),
            group: None,
            client,
            peer: None,
            is_tunnel: false,
            is_check: client.is_none(),
            // A Unix socket stands at once.
            stood: matches!(place, Place::Unix(_)),
            is_uploading: false,
            end: None,
            session: None,
        };
        let made = match begun {
            Some((session, hello)) => {
                sockets.send(id, Buffer::sent_once(hello).into());
                Upstream {
                    session: Some(Box::new(session)),
                    stood: false,
                    ..made
                }
            }
            None => made,
        };
        self.all.insert(id, made);
        Ok(id)
    }

    /// It is this client's from now on, who is counted as this; of none it is kept open. Whom it was counted for before.
    pub(super) fn give(
        &mut self,
        id: ConnectionId,
        client: Option<ConnectionId>,
        peer: Option<Peer>,
    ) -> Option<Peer> {
        let upstream = self.all.get_mut(&id)?;
        upstream.client = client;
        upstream.is_uploading = false;
        std::mem::replace(&mut upstream.peer, peer)
    }

    /// It speaks another protocol from now on, and is counted so.
    pub(super) fn begin_tunnel(&mut self, id: ConnectionId) {
        if let Some(upstream) = self.all.get_mut(&id) {
            upstream.is_tunnel = true;
        }
    }

    /// Closes one, and gives what it had of a group. What was sent on it still goes, as far as the kernel takes it at once.
    pub(super) fn leave(&mut self, id: ConnectionId) -> Option<Left> {
        self.is_touched = true;
        self.close_session(id);
        if let Some(sockets) = &mut self.sockets {
            sockets.leave(id);
        }
        let upstream = self.all.remove(&id)?;
        Some(Left {
            group: upstream.group?,
            peer: upstream.peer,
            is_tunnel: upstream.is_tunnel,
        })
    }

    /// Resets one, which is to be left then.
    pub(super) fn reset(&mut self, id: ConnectionId) {
        if let Some(sockets) = &mut self.sockets {
            sockets.abort(id);
        }
    }

    /// Sends this.
    pub(super) fn send(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        self.is_touched = true;
        let mut records = bytes;
        if let Some(session) = self.session(id) {
            let plain = std::mem::take(&mut records);
            session.send(&plain, &mut records);
        }
        if let Some(sockets) = &mut self.sockets
            && !records.is_empty()
        {
            sockets.send(id, Buffer::sent_once(records).into());
        }
    }

    /// Sends a part of a body.
    pub(super) fn send_body(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        if let Some(upstream) = self.all.get_mut(&id) {
            upstream.is_uploading = true;
        }
        self.send(id, bytes);
    }

    /// What was sent is all for now: it leaves before other connections have their turn.
    pub(super) fn write_now(&mut self, id: ConnectionId) {
        if let Some(sockets) = &mut self.sockets {
            sockets.write_now(id);
        }
    }

    fn session(&mut self, id: ConnectionId) -> Option<&mut Secured> {
        self.all.get_mut(&id)?.session.as_deref_mut()
    }

    /// Ends our side of a session, if there is one.
    fn close_session(&mut self, id: ConnectionId) {
        let mut out = Vec::new();
        if let Some(session) = self.session(id) {
            session.close(&mut out);
        }
        if let Some(sockets) = &mut self.sockets
            && !out.is_empty()
        {
            sockets.send(id, Buffer::sent_once(out).into());
        }
    }

    /// Takes in the records that have come on a connection, as far as there is room for what is in them.
    fn decrypt(&mut self, id: ConnectionId) {
        let (Some(upstream), Some(sockets)) = (self.all.get_mut(&id), &mut self.sockets) else {
            return;
        };
        let Some(session) = &mut upstream.session else {
            return;
        };
        loop {
            let mut out = Vec::new();
            let taken = session.receive(sockets.readable(id), &mut out);
            sockets.consume(id, taken);
            if !out.is_empty() {
                sockets.send(id, Buffer::sent_once(out).into());
            }
            if taken == 0 {
                break;
            }
        }
        upstream.stood |= session.stands();
    }

    /// Ends our side behind what was sent.
    pub(super) fn finish(&mut self, id: ConnectionId) {
        self.is_touched = true;
        if self.session(id).is_some() {
            // It ends when what is under way has come: TLS has no half that is closed alone.
            return self.close_session(id);
        }
        if let Some(sockets) = &mut self.sockets {
            sockets.finish(id);
        }
    }

    /// Takes this many bytes of what has come.
    pub(super) fn consume(&mut self, id: ConnectionId, count: usize) {
        self.is_touched = true;
        if let Some(session) = self.session(id) {
            session.consume(count);
            return self.decrypt(id);
        }
        if let Some(sockets) = &mut self.sockets {
            sockets.consume(id, count);
        }
    }

    // Getters.

    /// It came to stand.
    pub(super) fn has_stood(&self, id: ConnectionId) -> bool {
        self.all.get(&id).is_some_and(|upstream| upstream.stood)
    }

    /// To where it is, and of which group.
    pub(super) fn address_of(&self, id: ConnectionId) -> Option<(&Address, GroupId)> {
        let upstream = self.all.get(&id)?;
        Some((&upstream.address, upstream.group?))
    }

    /// Bytes that the kernel has not taken.
    pub(super) fn unsent(&self, id: ConnectionId) -> usize {
        let sockets = self.sockets.as_ref();
        let session = self.all.get(&id).and_then(|it| it.session.as_ref());
        let waiting = session.map_or(0, |session| session.waiting());
        waiting + sockets.map_or(0, |sockets| sockets.unsent(id))
    }

    /// What has come and was not taken.
    pub(super) fn readable(&self, id: ConnectionId) -> &[u8] {
        if let Some(session) = self.all.get(&id).and_then(|it| it.session.as_ref()) {
            return session.readable();
        }
        let sockets = self.sockets.as_ref();
        sockets.map_or(&[], |sockets| sockets.readable(id))
    }

    /// Why nothing more comes than what is there, if so.
    pub(super) fn end_of(&self, id: ConnectionId) -> Option<Reason> {
        match self.all.get(&id) {
            Some(upstream) => upstream.has_ended(),
            None => Some(Reason::Reset),
        }
    }

    /// Why there is no session of TLS on it, where that is so.
    pub(super) fn session_failure(&self, id: ConnectionId) -> Option<String> {
        let session = self.all.get(&id)?.session.as_ref()?;
        session.failure().map(str::to_owned)
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

    /// Hears what has happened, which [`Upstreams::poll`] tells then; false when there may be more.
    pub(super) fn look(&mut self) -> bool {
        self.has_more = false;
        if let Some(sockets) = &mut self.sockets
            && !self.all.is_empty()
        {
            // For no time: a kernel that refuses that has nothing to tell.
            let _ = sockets.wait(Some(Instant::START));
            self.has_more = sockets.may_have_more();
        }
        !self.has_more
    }

    /// The next news. When there is none, everything was sent that was to be.
    pub(super) fn poll(&mut self) -> Option<News> {
        while let Some(event) = self.sockets.as_mut().and_then(Sockets::poll_event) {
            let (id, set) = (event.connection, event.set);
            self.decrypt(id);
            let Some(upstream) = self.all.get_mut(&id) else {
                continue;
            };
            if event.set == EventSet::ACKNOWLEDGED && !upstream.is_uploading {
                continue;
            }
            let session = upstream.session.as_ref();
            upstream.stood |= set.contains(EventSet::CONNECTED) && session.is_none();
            if set.contains(EventSet::FINISHED) {
                upstream.end.get_or_insert(Reason::Done);
            }
            if set.contains(EventSet::CLOSED) {
                upstream.end = Some(event.reason);
            }
            // What comes by itself inside a session is none of an answer: tickets do.
            let has_said = session.map_or(set.contains(EventSet::READABLE), |session| {
                !session.readable().is_empty()
            });
            let has_ended = upstream.has_ended().is_some();
            match upstream.client {
                _ if upstream.is_check => return Some(News::Check(id)),
                Some(client) => return Some(News::Of(client)),
                // Nothing is to come on one that is kept but its end.
                None if has_ended || has_said => {
                    return Some(News::Useless(Carried::of(&upstream.address, id)));
                }
                None => {}
            }
        }
        self.is_touched = false;
        None
    }
}
