//! A transport of which some connections are passed on by proxies.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;

use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, Event};

use super::introductions::Introductions;
use crate::connections::{Abort, Transport};
use crate::site::long::OpenFile;

/// What carries connections, and for whom those are that proxies pass on, for the time of a turn.
pub struct Introduced<'a, T: Transport> {
    transport: &'a mut T,
    introductions: Option<&'a mut Introductions>,
}

impl<'a, T: Transport> Introduced<'a, T> {
    /// Both; without introductions everything passes through.
    pub fn new(
        transport: &'a mut T,
        introductions: Option<&'a mut Introductions>,
    ) -> Introduced<'a, T> {
        Introduced {
            transport,
            introductions,
        }
    }
}

impl<T: Transport> Transport for Introduced<'_, T> {
    #[inline]
    fn sends_files(&self, id: ConnectionId) -> bool {
        self.transport.sends_files(id)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let Some(introductions) = &mut self.introductions else {
            return self.transport.poll_event();
        };
        loop {
            let event = self.transport.poll_event()?;
            if let Some(event) = introductions.translate(event, self.transport) {
                return Some(event);
            }
        }
    }

    #[inline]
    fn peer(&self, id: ConnectionId) -> Option<IpAddr> {
        let introductions = self.introductions.as_ref();
        match introductions.and_then(|it| it.client_of(id)) {
            Some(client) => Some(client.ip()),
            None => self.transport.peer(id),
        }
    }

    /// Our end is the one that the proxy has connected to: its port says whether the connection is encrypted.
    fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        let introductions = self.introductions.as_ref();
        let client = introductions.and_then(|it| it.client_of(id));
        let (ours, theirs) = self.transport.ends(id)?;
        Some((ours, client.unwrap_or(theirs)))
    }

    fn is_from_kernel(&self, id: ConnectionId) -> bool {
        self.transport.is_from_kernel(id)
    }

    #[inline]
    fn readable(&self, id: ConnectionId) -> &[u8] {
        self.transport.readable(id)
    }

    #[inline]
    fn consume(&mut self, id: ConnectionId, count: usize) {
        self.transport.consume(id, count);
    }

    #[inline]
    fn send(&mut self, id: ConnectionId, bytes: Slice) {
        self.transport.send(id, bytes);
    }

    fn send_file(&mut self, id: ConnectionId, file: &Rc<OpenFile>, range: Range<u64>) {
        self.transport.send_file(id, file, range);
    }

    #[inline]
    fn unacknowledged(&self, id: ConnectionId) -> usize {
        self.transport.unacknowledged(id)
    }

    #[inline]
    fn unsent(&self, id: ConnectionId) -> usize {
        self.transport.unsent(id)
    }

    fn finish(&mut self, id: ConnectionId) {
        self.transport.finish(id);
    }

    fn discard_received(&mut self, id: ConnectionId) {
        self.transport.discard_received(id);
    }

    fn abort(&mut self, id: ConnectionId, why: Abort) {
        if let Some(introductions) = &mut self.introductions {
            introductions.forget(id);
        }
        self.transport.abort(id, why);
    }
}
