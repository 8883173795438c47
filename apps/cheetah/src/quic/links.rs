//! All connections of a loop: what becomes of datagrams and times, and what the server says of their requests.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use exos_buf::{Buffer, Slice};
use exos_http3::ErrorCode;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, Reason};
use exos_quic::{Arrived, Connections, Leaving, Received};
use exos_tls::About;
use quinn_proto::{ConnectionHandle, StreamId};

use super::link::Link;
use super::request::Request;
use super::shared::Shared;
use crate::connections::peers::Peers;
use crate::limits::IDLE_TIME;

/// All connections, and their requests.
pub(super) struct Links {
    pub(super) connections: Connections<Link>,
    /// Our port.
    port: u16,
    /// Connections of a peer at once, counted here.
    peers: Option<(Peers, u32)>,
    /// Those of each that bring early data from an address that need not be its own.
    early: Peers,
    pub(super) shared: Shared,
    /// Links that are to be written.
    listed: Vec<ConnectionHandle>,
}

impl Links {
    /// At this port.
    pub(super) fn new(port: u16, connections: Connections<Link>) -> Links {
        Links {
            shared: Shared::new(connections.now(), connections.time()),
            connections,
            port,
            peers: None,
            early: Peers::default(),
            listed: Vec::new(),
        }
    }

    /// Limits the connections of each peer from now on.
    pub(super) fn set_peers(&mut self, peers: Option<(Peers, u32)>) {
        self.peers = peers;
    }

    /// Whether a peer has as many connections as it may.
    pub(super) fn has_all(&self, peer: IpAddr) -> bool {
        let peers = self.peers.as_ref();
        peers.is_some_and(|(peers, most)| peers.has_all(peer, *most))
    }

    /// Whether as many bring early data from a peer's address as may, without its being known to be theirs.
    pub(super) fn has_all_early(&self, peer: IpAddr) -> bool {
        let peers = self.peers.as_ref();
        peers.is_some_and(|(_, most)| self.early.has_all(peer, *most))
    }

    /// How many there are.
    pub(super) fn open(&self) -> usize {
        self.connections.open()
    }

    // A turn.

    /// It is this time from now on.
    pub(super) fn set_now(&mut self, now: Instant) {
        self.connections.set_now(now);
        (self.shared.now, self.shared.time) = (now, self.connections.time());
    }

    /// Does what is due.
    pub(super) fn handle_timeouts(&mut self) {
        while let Some(handle) = self.connections.poll_due() {
            self.hear(handle);
        }
    }

    /// Ends what has waited for too long.
    pub(super) fn look(&mut self) {
        self.with_all(|link, shared| link.look(IDLE_TIME, shared));
    }

    /// A datagram has come. What it comes to beside news of a connection is the caller's to see to.
    pub(super) fn receive(&mut self, arrived: Arrived, buffer: &mut Vec<u8>) -> Received {
        let received = self.connections.receive(arrived, buffer);
        if let Received::Link(handle) = received {
            self.hear(handle);
        }
        received
    }

    /// The next news of a request.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.shared.news.pop() {
                return Some(event);
            }
            self.write_next()?;
        }
    }

    /// Writes what is queued of the requests of a link that is listed.
    fn write_next(&mut self) -> Option<()> {
        let handle = self.listed.pop()?;
        self.with(handle, |link, shared| {
            link.is_listed = false;
            link.write_all(shared);
        });
        Some(())
    }

    /// The next datagrams that are to leave, at most `segments` of one length, which lie in the buffer.
    pub(super) fn transmit(&mut self, segments: usize, buffer: &mut Vec<u8>) -> Option<Leaving> {
        while self.write_next().is_some() {}
        let leaving = self.connections.poll_transmit(segments, buffer);
        self.bury();
        leaving
    }

    /// Whether there is something to do at once.
    pub(super) fn is_waiting(&self) -> bool {
        !self.shared.news.is_empty() || !self.listed.is_empty()
    }

    // The end.

    /// No more requests are taken.
    pub(super) fn go_away(&mut self) {
        self.with_all(Link::go_away);
    }

    /// Ends all of them.
    pub(super) fn close(&mut self) {
        self.with_all(|link, shared| link.close(ErrorCode::NO_ERROR, shared));
    }

    // Each of them.

    /// Does something with a link, which may have something to send then.
    fn with(&mut self, handle: ConnectionHandle, act: impl FnOnce(&mut Link, &mut Shared)) {
        if let Some(link) = self.connections.get_mut(handle) {
            act(link, &mut self.shared);
        }
    }

    fn with_all(&mut self, mut act: impl FnMut(&mut Link, &mut Shared)) {
        for handle in self.connections.handles() {
            self.with(handle, &mut act);
        }
    }

    /// Hears what QUIC tells of a link.
    pub(super) fn hear(&mut self, handle: ConnectionHandle) {
        self.bury();
        // Before its first request is heard of, where that has come as early data.
        self.admit(handle);
        self.with(handle, Link::hear);
        self.admit(handle);
    }

    /// A link whose peer's address is known to be its own, from before or since it stands, is counted for that. Another that brings early data
    /// may be from anywhere, for all that is known: it takes up nothing of what another at that address may have. There may be as many of
    /// those at once beside it, and none where the peer has as many as it may; when it stands, it is counted as others are.
    fn admit(&mut self, handle: ConnectionHandle) {
        let link = self.connections.get_mut(handle);
        let Some(link) = link.filter(|link| link.may_ask() && !link.was_counted) else {
            return;
        };
        let is_known = link.has_stood || link.is_validated;
        link.was_counted = is_known;
        let Some((peers, most)) = &self.peers else {
            return;
        };
        let was_among_early = std::mem::take(&mut link.is_among_early);
        let may_stay = match is_known {
            true => peers.admit(link.peer, *most),
            false if peers.has_all(link.peer, *most) => false,
            false => was_among_early || self.early.admit(link.peer, *most),
        };
        link.is_admitted = may_stay && is_known;
        link.is_among_early = may_stay && !is_known;
        if was_among_early && !link.is_among_early {
            self.early.leave(link.peer);
        }
        if !may_stay {
            link.was_counted = true;
            self.shared.counters.peer_refused += 1;
            link.close(ErrorCode::EXCESSIVE_LOAD, &mut self.shared);
        }
    }

    /// Sees to links that are no more. Their numbers may be others' from here on.
    fn bury(&mut self) {
        while let Some((_, mut link)) = self.connections.poll_over() {
            link.hear(&mut self.shared);
            // It has no requests any more, unless QUIC ended it without a word.
            link.drop_requests(Reason::Reset, &mut self.shared);
            self.shared.counters.left += u64::from(!link.has_stood);
            self.shared.counters.early_left += u64::from(link.is_early && !link.has_stood);
            if link.is_admitted
                && let Some((peers, _)) = &self.peers
            {
                peers.leave(link.peer);
            }
            if link.is_among_early {
                self.early.leave(link.peer);
            }
        }
    }

    /// What is queued of a request's response is written before the next event.
    fn list(&mut self, handle: ConnectionHandle, stream: StreamId) {
        let Some(link) = self.connections.get_mut(handle) else {
            return;
        };
        link.queue(stream);
        if !std::mem::replace(&mut link.is_listed, true) {
            self.listed.push(handle);
        }
    }

    // What the server says of requests.

    pub(super) fn tls(&self, id: ConnectionId) -> Option<&Arc<About>> {
        let request = self.shared.requests.find(id)?;
        let link = self.connections.get(request.link)?;
        link.tls.as_ref()
    }

    /// Whether a request's connection is still beginning, so that it has come as early data (RFC 9001 §4.6). Of one that is gone nobody
    /// knows.
    pub(super) fn is_early(&self, id: ConnectionId) -> bool {
        let request = self.shared.requests.find(id);
        let link = request.and_then(|request| self.connections.get(request.link));
        link.is_none_or(|link| !link.has_stood)
    }

    pub(super) fn peer(&self, id: ConnectionId) -> Option<IpAddr> {
        let request = self.shared.requests.find(id)?;
        let link = self.connections.get(request.link)?;
        Some(link.quic.remote_address().ip().to_canonical())
    }

    pub(super) fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        let request = self.shared.requests.find(id)?;
        let link = self.connections.get(request.link)?;
        let remote = link.quic.remote_address();
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
        let nowhere = match remote {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let local = link.quic.local_ip().unwrap_or(nowhere);
        Some((SocketAddr::new(local, self.port), remote))
    }

    pub(super) fn readable(&self, id: ConnectionId) -> &[u8] {
        self.shared
            .requests
            .find(id)
            .map_or(&[], |it| it.received())
    }

    pub(super) fn consume(&mut self, id: ConnectionId, count: usize) {
        let Some(request) = self.shared.requests.find_mut(id) else {
            return;
        };
        let before = request.waiting_len();
        request.consume(count);
        let (handle, taken) = (request.link, before - request.waiting_len());
        if taken > 0 {
            self.with(handle, |link, shared| link.consumed(taken, shared));
        }
    }

    pub(super) fn send_head(&mut self, id: ConnectionId, block: &[Slice]) {
        self.send_section(id, block, Request::send_head);
    }

    pub(super) fn send_trailers(&mut self, id: ConnectionId, block: &[u8]) {
        let block = Buffer::from(block).whole();
        let queue = |request: &mut Request, section: &[u8], _| request.send_trailers(section);
        self.send_section(id, &[block], queue);
    }

    fn send_section(
        &mut self,
        id: ConnectionId,
        block: &[Slice],
        queue: impl FnOnce(&mut Request, &[u8], usize),
    ) {
        let Some(request) = self.shared.requests.find_mut(id) else {
            return;
        };
        let (section, counted) = self.shared.sections.of(block);
        queue(request, section, counted);
        let (handle, stream) = (request.link, request.stream);
        self.list(handle, stream);
    }

    pub(super) fn send_leave(&mut self, id: ConnectionId) {
        self.queue(id, Request::send_leave);
    }

    pub(super) fn send(&mut self, id: ConnectionId, bytes: Slice) {
        self.queue(id, |request| request.send(bytes));
    }

    fn queue(&mut self, id: ConnectionId, queue: impl FnOnce(&mut Request)) {
        if let Some(request) = self.shared.requests.find_mut(id) {
            queue(request);
            let (handle, stream) = (request.link, request.stream);
            self.list(handle, stream);
        }
    }

    pub(super) fn unacknowledged(&self, id: ConnectionId) -> usize {
        self.shared
            .requests
            .find(id)
            .map_or(0, |it| it.unacknowledged())
    }

    pub(super) fn unsent(&self, id: ConnectionId) -> usize {
        self.shared.requests.find(id).map_or(0, |it| it.unsent())
    }

    pub(super) fn finish(&mut self, id: ConnectionId) {
        let Some(request) = self.shared.requests.find_mut(id) else {
            return;
        };
        let (handle, stream) = (request.link, request.stream);
        match request.finish() {
            true => self.list(handle, stream),
            false => self.with(handle, |link, shared| {
                // It has ended a request without a response, which is our fault.
                link.give_up(stream, ErrorCode::INTERNAL_ERROR, shared);
            }),
        }
    }

    pub(super) fn discard_received(&mut self, id: ConnectionId) {
        let Some(request) = self.shared.requests.find_mut(id) else {
            return;
        };
        let taken = request.waiting_len();
        request.discard();
        let (handle, stream, has_ended) = (request.link, request.stream, request.has_ended);
        self.with(handle, |link, shared| {
            if !has_ended {
                link.discard(stream);
            }
            link.consumed(taken, shared);
        });
    }

    pub(super) fn abort(&mut self, id: ConnectionId, code: ErrorCode) {
        if let Some(request) = self.shared.requests.find(id) {
            let (handle, stream) = (request.link, request.stream);
            self.with(handle, |link, shared| link.abort(stream, code, shared));
        }
    }
}
