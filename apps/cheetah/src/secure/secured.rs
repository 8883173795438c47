//! A transport of which some connections are encrypted.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, Event};
use exos_tls::About;

use super::link::Link;
use super::sessions::Sessions;
use crate::connections::{Abort, Transport};
use crate::site::long::OpenFile;

/// What carries connections, and the sessions of those that are encrypted, for the time of a turn. What was given to them is
/// encrypted before the next event, and at the end of this.
pub struct Secured<'a, T: Transport> {
    transport: &'a mut T,
    sessions: Option<&'a mut Sessions>,
}

impl<'a, T: Transport> Secured<'a, T> {
    /// Both; without sessions everything passes through.
    pub fn new(transport: &'a mut T, sessions: Option<&'a mut Sessions>) -> Secured<'a, T> {
        Secured {
            transport,
            sessions,
        }
    }
}

impl<T: Transport> Drop for Secured<'_, T> {
    fn drop(&mut self) {
        if let Some(sessions) = &mut self.sessions {
            sessions.flush(self.transport);
        }
    }
}

impl<T: Transport> Transport for Secured<'_, T> {
    #[inline]
    fn sends_files(&self, id: ConnectionId) -> bool {
        self.transport.sends_files(id) && !self.is_encrypted(id)
    }

    #[inline]
    fn is_encrypted(&self, id: ConnectionId) -> bool {
        let sessions = self.sessions.as_ref();
        sessions.is_some_and(|sessions| sessions.find(id).is_some())
    }

    fn tls(&self, id: ConnectionId) -> Option<&Arc<About>> {
        let link = self.sessions.as_ref()?.find(id)?;
        Some(link.session().about())
    }

    #[inline]
    fn is_handshaking(&self, id: ConnectionId) -> bool {
        let sessions = self.sessions.as_ref();
        let link = sessions.and_then(|sessions| sessions.find(id));
        link.is_some_and(|link| !link.has_stood())
    }

    #[inline]
    fn is_early(&self, id: ConnectionId) -> bool {
        let sessions = self.sessions.as_ref();
        let link = sessions.and_then(|sessions| sessions.find(id));
        // There is no other plaintext of a session that has not stood, whatever has become of it since.
        link.is_some_and(|link| !link.has_stood())
    }

    #[inline]
    fn has_failed(&self, id: ConnectionId) -> bool {
        let sessions = self.sessions.as_ref();
        let link = sessions.and_then(|sessions| sessions.find(id));
        link.is_some_and(Link::has_failed)
    }

    #[inline]
    fn speaks_http2(&self, id: ConnectionId) -> bool {
        let sessions = self.sessions.as_ref();
        let link = sessions.and_then(|sessions| sessions.find(id));
        let protocol = link.and_then(|link| link.session().about().protocol.as_deref());
        protocol == Some(b"h2")
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let Some(sessions) = &mut self.sessions else {
            return self.transport.poll_event();
        };
        loop {
            sessions.flush(self.transport);
            if let Some(event) = sessions.poll_own(self.transport) {
                return Some(event);
            }
            let event = self.transport.poll_event()?;
            if let Some(event) = sessions.translate(event, self.transport) {
                return Some(event);
            }
        }
    }

    fn peer(&self, id: ConnectionId) -> Option<IpAddr> {
        self.transport.peer(id)
    }

    fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        self.transport.ends(id)
    }

    fn is_from_kernel(&self, id: ConnectionId) -> bool {
        self.transport.is_from_kernel(id)
    }

    #[inline]
    fn readable(&self, id: ConnectionId) -> &[u8] {
        let sessions = self.sessions.as_ref();
        match sessions.and_then(|sessions| sessions.find(id)) {
            Some(link) => link.session().readable(),
            None => self.transport.readable(id),
        }
    }

    #[inline]
    fn consume(&mut self, id: ConnectionId, count: usize) {
        if self.is_encrypted(id)
            && let Some(sessions) = &mut self.sessions
        {
            return sessions.consume(id, count, self.transport);
        }
        self.transport.consume(id, count);
    }

    #[inline]
    fn send(&mut self, id: ConnectionId, bytes: Slice) {
        let sessions = self.sessions.as_mut();
        match sessions.and_then(|sessions| sessions.find_to_give(id)) {
            Some(link) => link.send(bytes),
            None => self.transport.send(id, bytes),
        }
    }

    fn send_file(&mut self, id: ConnectionId, file: &Rc<OpenFile>, range: Range<u64>) {
        self.transport.send_file(id, file, range);
    }

    #[inline]
    fn unacknowledged(&self, id: ConnectionId) -> usize {
        let sessions = self.sessions.as_ref();
        match sessions.and_then(|sessions| sessions.find(id)) {
            Some(link) => link.unacknowledged(self.transport),
            None => self.transport.unacknowledged(id),
        }
    }

    fn unsent(&self, id: ConnectionId) -> usize {
        let sessions = self.sessions.as_ref();
        match sessions.and_then(|sessions| sessions.find(id)) {
            Some(link) => link.unsent(self.transport),
            None => self.transport.unsent(id),
        }
    }

    fn finish(&mut self, id: ConnectionId) {
        let sessions = self.sessions.as_mut();
        match sessions.and_then(|sessions| sessions.find_to_give(id)) {
            Some(link) => link.finish(),
            None => self.transport.finish(id),
        }
    }

    fn discard_received(&mut self, id: ConnectionId) {
        let sessions = self.sessions.as_mut();
        match sessions.and_then(|sessions| sessions.find_to_give(id)) {
            Some(link) => link.discard_received(self.transport),
            None => self.transport.discard_received(id),
        }
    }

    fn abort(&mut self, id: ConnectionId, why: Abort) {
        if let Some(sessions) = &mut self.sessions {
            sessions.remove(id);
        }
        self.transport.abort(id, why);
    }
}
