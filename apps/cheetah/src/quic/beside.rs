//! A transport of which some connections are requests of HTTP/3.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, Event};
use exos_tls::About;

use super::endpoint::Quic;
use super::links::Links;
use super::requests::is_request;
use crate::connections::{Abort, Transport};
use crate::site::long::OpenFile;

/// What carries connections of TCP, and what carries requests of HTTP/3, for the time of a turn.
pub struct Beside<'a, T: Transport> {
    transport: T,
    quic: Option<&'a mut Quic>,
}

impl<'a, T: Transport> Beside<'a, T> {
    /// Both; without QUIC everything is TCP's.
    pub fn new(transport: T, quic: Option<&'a mut Quic>) -> Beside<'a, T> {
        Beside { transport, quic }
    }

    fn quic(&self, id: ConnectionId) -> Option<&Links> {
        match is_request(id) {
            true => self.quic.as_deref().map(|quic| &quic.links),
            false => None,
        }
    }

    fn quic_mut(&mut self, id: ConnectionId) -> Option<&mut Links> {
        match is_request(id) {
            true => self.quic.as_deref_mut().map(|quic| &mut quic.links),
            false => None,
        }
    }
}

impl<T: Transport> Transport for Beside<'_, T> {
    #[inline]
    fn sends_files(&self, id: ConnectionId) -> bool {
        !is_request(id) && self.transport.sends_files(id)
    }

    #[inline]
    fn is_encrypted(&self, id: ConnectionId) -> bool {
        is_request(id) || self.transport.is_encrypted(id)
    }

    fn tls(&self, id: ConnectionId) -> Option<&Arc<About>> {
        match self.quic(id) {
            Some(quic) => quic.tls(id),
            None => self.transport.tls(id),
        }
    }

    #[inline]
    fn is_handshaking(&self, id: ConnectionId) -> bool {
        !is_request(id) && self.transport.is_handshaking(id)
    }

    #[inline]
    fn is_early(&self, id: ConnectionId) -> bool {
        match self.quic(id) {
            Some(quic) => quic.is_early(id),
            None => self.transport.is_early(id),
        }
    }

    #[inline]
    fn has_failed(&self, id: ConnectionId) -> bool {
        !is_request(id) && self.transport.has_failed(id)
    }

    #[inline]
    fn speaks_http2(&self, id: ConnectionId) -> bool {
        !is_request(id) && self.transport.speaks_http2(id)
    }

    fn speaks_http3(&self, id: ConnectionId) -> bool {
        is_request(id)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let event = self.transport.poll_event();
        event.or_else(|| self.quic.as_mut()?.links.poll_event())
    }

    fn peer(&self, id: ConnectionId) -> Option<IpAddr> {
        match self.quic(id) {
            Some(quic) => quic.peer(id),
            None => self.transport.peer(id),
        }
    }

    fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        match self.quic(id) {
            Some(quic) => quic.ends(id),
            None => self.transport.ends(id),
        }
    }

    fn is_from_kernel(&self, id: ConnectionId) -> bool {
        !is_request(id) && self.transport.is_from_kernel(id)
    }

    #[inline]
    fn readable(&self, id: ConnectionId) -> &[u8] {
        match self.quic(id) {
            Some(quic) => quic.readable(id),
            None => self.transport.readable(id),
        }
    }

    #[inline]
    fn consume(&mut self, id: ConnectionId, count: usize) {
        match self.quic_mut(id) {
            Some(quic) => quic.consume(id, count),
            None => self.transport.consume(id, count),
        }
    }

    #[inline]
    fn send(&mut self, id: ConnectionId, bytes: Slice) {
        match self.quic_mut(id) {
            Some(quic) => quic.send(id, bytes),
            None => self.transport.send(id, bytes),
        }
    }

    fn send_head(&mut self, id: ConnectionId, block: &[Slice]) -> usize {
        match self.quic_mut(id) {
            Some(quic) => {
                quic.send_head(id, block);
                block.iter().map(Slice::len).sum()
            }
            None => self.transport.send_head(id, block),
        }
    }

    fn send_leave(&mut self, id: ConnectionId) {
        match self.quic_mut(id) {
            Some(quic) => quic.send_leave(id),
            None => self.transport.send_leave(id),
        }
    }

    fn send_trailers(&mut self, id: ConnectionId, block: &[u8]) {
        match self.quic_mut(id) {
            Some(quic) => quic.send_trailers(id, block),
            None => self.transport.send_trailers(id, block),
        }
    }

    fn send_file(&mut self, id: ConnectionId, file: &Rc<OpenFile>, range: Range<u64>) {
        self.transport.send_file(id, file, range);
    }

    #[inline]
    fn unacknowledged(&self, id: ConnectionId) -> usize {
        match self.quic(id) {
            Some(quic) => quic.unacknowledged(id),
            None => self.transport.unacknowledged(id),
        }
    }

    fn unsent(&self, id: ConnectionId) -> usize {
        match self.quic(id) {
            Some(quic) => quic.unsent(id),
            None => self.transport.unsent(id),
        }
    }

    fn finish(&mut self, id: ConnectionId) {
        match self.quic_mut(id) {
            Some(quic) => quic.finish(id),
            None => self.transport.finish(id),
        }
    }

    fn discard_received(&mut self, id: ConnectionId) {
        match self.quic_mut(id) {
            Some(quic) => quic.discard_received(id),
            None => self.transport.discard_received(id),
        }
    }

    fn abort(&mut self, id: ConnectionId, why: Abort) {
        match self.quic_mut(id) {
            Some(quic) => quic.abort(id, why.by_http3()),
            None => self.transport.abort(id, why),
        }
    }
}
