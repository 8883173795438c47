//! A stream as what carries a connection of one request: what comes of its body is readable, what is sent becomes frames.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use exos_buf::Slice;
use exos_http2::{ErrorCode, StreamId};
use exos_inet::tcp::{ConnectionId, Event};
use exos_tls::About;

use super::Http2;
use crate::connections::transport::{Abort, Transport};

/// A stream, for the time of a turn. Whatever connection is meant, it is this one.
pub(super) struct StreamTransport<'a> {
    pub(super) http2: &'a mut Http2,
    pub(super) stream: StreamId,
    /// What carries the stream's connection, and which of its connections that is.
    pub(super) below: &'a dyn Transport,
    pub(super) carrier: ConnectionId,
}

impl StreamTransport<'_> {
    fn credit(&mut self, len: usize, is_tunnel: bool) {
        let Http2 { core, frames, .. } = &mut *self.http2;
        match is_tunnel {
            true => core.consume_of_stream(self.stream, len, frames),
            false => core.consume(self.stream, len, frames),
        }
    }

    /// There is something to send.
    fn schedule(&mut self) {
        let Http2 { core, schedule, .. } = &mut *self.http2;
        schedule.insert(self.stream, core.priority(self.stream));
    }
}

impl Transport for StreamTransport<'_> {
    fn is_encrypted(&self, _id: ConnectionId) -> bool {
        self.below.is_encrypted(self.carrier)
    }

    fn tls(&self, _id: ConnectionId) -> Option<&Arc<About>> {
        self.below.tls(self.carrier)
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn peer(&self, _id: ConnectionId) -> Option<IpAddr> {
        self.below.peer(self.carrier)
    }

    fn ends(&self, _id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        self.below.ends(self.carrier)
    }

    fn readable(&self, _id: ConnectionId) -> &[u8] {
        let streams = &self.http2.streams;
        let at = streams.binary_search_by_key(&self.stream, super::Stream::id);
        at.map_or(&[], |at| streams[at].received())
    }

    fn consume(&mut self, _id: ConnectionId, count: usize) {
        if let Some(stream) = self.http2.find(self.stream) {
            let (credit, is_tunnel) = (stream.consume(count), stream.is_tunnel);
            self.credit(credit, is_tunnel);
        }
    }

    fn send_head(&mut self, _id: ConnectionId, block: &[Slice]) -> usize {
        let Some(stream) = self.http2.find(self.stream) else {
            return 0;
        };
        stream.has_head = true;
        self.http2.send_head(self.stream, block, false)
    }

    fn send_leave(&mut self, id: ConnectionId) {
        // `:status` 100, with the name of a fixed entry (RFC 7541 §6.2.2).
        self.send_interim(id, b"\x08\x03100");
    }

    fn send_interim(&mut self, _id: ConnectionId, block: &[u8]) {
        let Http2 { core, frames, .. } = &mut *self.http2;
        core.send_head(self.stream, &[block], false, frames);
    }

    fn send_trailers(&mut self, _id: ConnectionId, block: &[u8]) {
        if let Some(stream) = self.http2.find(self.stream) {
            stream.trailers = Some(block.to_vec());
        }
    }

    fn send(&mut self, _id: ConnectionId, bytes: Slice) {
        if let Some(stream) = self.http2.find(self.stream) {
            stream.push(bytes);
            self.schedule();
        }
    }

    fn unacknowledged(&self, id: ConnectionId) -> usize {
        let streams = &self.http2.streams;
        let at = streams.binary_search_by_key(&self.stream, super::Stream::id);
        self.unsent(id) + at.map_or(0, |at| streams[at].unacknowledged)
    }

    fn unsent(&self, _id: ConnectionId) -> usize {
        let streams = &self.http2.streams;
        let at = streams.binary_search_by_key(&self.stream, super::Stream::id);
        at.map_or(0, |at| streams[at].queue_len())
    }

    fn read_ahead(&mut self, _id: ConnectionId, wanted: usize, chunks: usize) -> usize {
        self.http2.read_ahead(self.stream, wanted, chunks)
    }

    /// The response is whole. One that has no head never will be.
    fn finish(&mut self, _id: ConnectionId) {
        let Some(stream) = self.http2.find(self.stream) else {
            return;
        };
        stream.is_last = true;
        if stream.has_head {
            self.schedule();
        } else {
            let Http2 { core, frames, .. } = &mut *self.http2;
            core.reset(self.stream, ErrorCode::INTERNAL_ERROR, frames);
        }
    }

    fn discard_received(&mut self, _id: ConnectionId) {
        if let Some(stream) = self.http2.find(self.stream) {
            let (credit, is_tunnel) = (stream.discard(), stream.is_tunnel);
            self.credit(credit, is_tunnel);
        }
    }

    fn abort(&mut self, _id: ConnectionId, why: Abort) {
        let Http2 { core, frames, .. } = &mut *self.http2;
        core.reset(self.stream, why.by_http2(), frames);
    }
}
