//! The connections of a loop in their places: which of them have something to send, what time they wait for, and what the server
//! says of their requests.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use exos_buf::Slice;
use exos_http3::ErrorCode;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event};
use exos_tls::About;
use quinn_proto::{Connection, ConnectionEvent, ConnectionHandle, Endpoint};

use super::datagram::Datagram;
use super::link::Link;
use super::request::Request;
use super::shared::Shared;
use crate::connections::peers::Peers;
use crate::limits::{IDLE_TIME, QUIC_SEGMENTS_MAX};

/// All connections, and their requests.
pub(super) struct Links {
    /// By the numbers that QUIC's endpoint knows them by.
    places: Vec<Option<Box<Link>>>,
    open: usize,
    /// Our port.
    port: u16,
    /// Connections of a peer at once, counted here.
    peers: Option<(Peers, u32)>,
    pub(super) shared: Shared,
    /// Links that are to be written, and those that may have something to send.
    listed: Vec<ConnectionHandle>,
    sending: VecDeque<ConnectionHandle>,
    /// When which link wants to be called.
    times: BTreeSet<(std::time::Instant, usize)>,
}

impl Links {
    /// None, at this port.
    pub(super) fn new(port: u16, now: Instant) -> Links {
        Links {
            places: Vec::new(),
            open: 0,
            port,
            peers: None,
            shared: Shared::new(now),
            listed: Vec::new(),
            sending: VecDeque::new(),
            times: BTreeSet::new(),
        }
    }

    /// Limits the connections of each peer from now on.
    pub(super) fn set_peers(&mut self, peers: Option<(Peers, u32)>) {
        self.peers = peers;
    }

    /// Whether a peer has as many connections as it may.
    pub(super) fn has_all(&self, peer: std::net::IpAddr) -> bool {
        let peers = self.peers.as_ref();
        peers.is_some_and(|(peers, most)| peers.has_all(peer, *most))
    }

    /// How many there are.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    // A turn.

    /// Does what is due.
    pub(super) fn handle_timeouts(&mut self, endpoint: &mut Endpoint) {
        let time = self.shared.clock.time();
        while let Some(&(at, place)) = self.times.first()
            && at <= time
        {
            self.times.pop_first();
            if let Some(link) = self.places[place].as_deref_mut() {
                link.deadline = None;
                link.quic.handle_timeout(time);
                self.hear(ConnectionHandle(place), endpoint);
            }
        }
    }

    /// Ends what has waited for too long.
    pub(super) fn look(&mut self) {
        self.with_all(|link, shared| link.look(IDLE_TIME, shared));
    }

    /// A connection has begun.
    pub(super) fn add(
        &mut self,
        handle: ConnectionHandle,
        quic: Connection,
        endpoint: &mut Endpoint,
    ) {
        let link = Box::new(Link::new(handle, quic, self.shared.clock.now()));
        if handle.0 >= self.places.len() {
            self.places.resize_with(handle.0 + 1, || None);
        }
        self.places[handle.0] = Some(link);
        self.open += 1;
        self.hear(handle, endpoint);
    }

    /// A datagram of a connection has come.
    pub(super) fn receive(
        &mut self,
        handle: ConnectionHandle,
        event: ConnectionEvent,
        endpoint: &mut Endpoint,
    ) {
        if let Some(link) = self.link(handle) {
            link.quic.handle_event(event);
            self.hear(handle, endpoint);
        }
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

    /// The next datagrams that are to leave.
    pub(super) fn transmit(
        &mut self,
        endpoint: &mut Endpoint,
        buffer: &mut Vec<u8>,
    ) -> Option<Datagram> {
        while self.write_next().is_some() {}
        while let Some(&handle) = self.sending.front() {
            let time = self.shared.clock.time();
            buffer.clear();
            let link = self.link(handle);
            let transmit =
                link.and_then(|link| link.quic.poll_transmit(time, QUIC_SEGMENTS_MAX, buffer));
            if let Some(transmit) = transmit {
                let datagram = Datagram::new(&transmit, buffer);
                self.shared.counters.sent +=
                    datagram.payload.len().div_ceil(datagram.segment) as u64;
                return Some(datagram);
            }
            self.sending.pop_front();
            self.settle(handle, endpoint);
        }
        None
    }

    /// Whether there is something to do at once.
    pub(super) fn is_waiting(&self) -> bool {
        !self.shared.news.is_empty() || !self.listed.is_empty() || !self.sending.is_empty()
    }

    /// What time QUIC waits for first.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.times.first().map(|(at, _)| self.shared.clock.at(*at))
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

    fn link(&mut self, handle: ConnectionHandle) -> Option<&mut Link> {
        self.places.get_mut(handle.0)?.as_deref_mut()
    }

    /// Does something with a link, which may have something to send then.
    fn with(&mut self, handle: ConnectionHandle, act: impl FnOnce(&mut Link, &mut Shared)) {
        let Some(link) = self.places.get_mut(handle.0).and_then(Option::as_deref_mut) else {
            return;
        };
        act(link, &mut self.shared);
        if !std::mem::replace(&mut link.is_sending, true) {
            self.sending.push_back(handle);
        }
    }

    fn with_all(&mut self, mut act: impl FnMut(&mut Link, &mut Shared)) {
        for place in 0..self.places.len() {
            self.with(ConnectionHandle(place), &mut act);
        }
    }

    /// Hears what QUIC tells of a link.
    fn hear(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        self.pass_events(handle, endpoint);
        self.with(handle, |link, shared| link.hear(shared));
        self.admit(handle);
    }

    /// A link that has just come to stand is counted for its peer, whose address is its own as is known now.
    fn admit(&mut self, handle: ConnectionHandle) {
        let peers = self.peers.clone();
        let Some(link) = self.link(handle).filter(|link| link.has_stood()) else {
            return;
        };
        let is_new = !std::mem::replace(&mut link.was_counted, true);
        let Some((peers, most)) = peers.filter(|_| is_new) else {
            return;
        };
        link.is_admitted = peers.admit(link.peer, most);
        if !link.is_admitted {
            self.shared.counters.peer_refused += 1;
            self.with(handle, |link, shared| {
                link.close(ErrorCode::EXCESSIVE_LOAD, shared);
            });
        }
    }

    /// Passes on what a link and the endpoint have to say to each other.
    fn pass_events(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        while let Some(link) = self.places.get_mut(handle.0).and_then(Option::as_deref_mut)
            && let Some(event) = link.quic.poll_endpoint_events()
        {
            if event.is_drained() {
                // Its number may be another's from here on.
                self.free(handle);
                endpoint.handle_event(handle, event);
                return;
            }
            if let Some(answer) = endpoint.handle_event(handle, event) {
                link.quic.handle_event(answer);
            }
        }
    }

    /// A link is no more.
    fn free(&mut self, handle: ConnectionHandle) {
        let Some(mut link) = self.places[handle.0].take() else {
            return;
        };
        link.hear(&mut self.shared);
        // It has no requests any more, unless QUIC ended it without a word.
        link.abandon(&mut self.shared);
        self.shared.counters.left += u64::from(!link.has_stood());
        if let Some(at) = link.deadline {
            self.times.remove(&(at, handle.0));
        }
        if link.is_admitted
            && let Some((peers, _)) = &self.peers
        {
            peers.leave(link.peer);
        }
        self.open -= 1;
    }

    /// A link has sent all that it may: what it waits for, and whether it is over.
    fn settle(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        self.pass_events(handle, endpoint);
        let Some(link) = self.places.get_mut(handle.0).and_then(Option::as_deref_mut) else {
            return;
        };
        link.is_sending = false;
        let deadline = link.quic.poll_timeout();
        if link.deadline != deadline {
            if let Some(before) = link.deadline {
                self.times.remove(&(before, handle.0));
            }
            link.deadline = deadline;
            self.times.extend(deadline.map(|at| (at, handle.0)));
        }
        link.bound_copies();
    }

    /// Its link is written before the next event.
    fn list(&mut self, handle: ConnectionHandle) {
        if let Some(link) = self.link(handle)
            && !std::mem::replace(&mut link.is_listed, true)
        {
            self.listed.push(handle);
        }
    }

    // What the server says of requests.

    pub(super) fn tls(&self, id: ConnectionId) -> Option<&Arc<About>> {
        let request = self.shared.requests.find(id)?;
        let link = self.places.get(request.link.0)?.as_deref()?;
        link.tls()
    }

    pub(super) fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        let request = self.shared.requests.find(id)?;
        let link = self.places.get(request.link.0)?.as_deref()?;
        let remote = link.remote();
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
        request.consume(count);
        if request.is_held && count > 0 {
            let (handle, stream) = (request.link, request.stream);
            self.with(handle, |link, shared| link.receive_again(stream, shared));
        }
    }

    pub(super) fn send_head(&mut self, id: ConnectionId, block: &[Slice]) {
        self.queue(id, |request| request.send_head(block));
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
            let handle = request.link;
            self.list(handle);
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
            true => self.list(handle),
            false => self.with(handle, |link, shared| {
                link.give_up_unanswered(stream, shared)
            }),
        }
    }

    pub(super) fn discard_received(&mut self, id: ConnectionId) {
        let Some(request) = self.shared.requests.find_mut(id) else {
            return;
        };
        request.discard();
        if !request.has_ended {
            let (handle, stream) = (request.link, request.stream);
            self.with(handle, |link, _| link.discard(stream));
        }
    }

    pub(super) fn abort(&mut self, id: ConnectionId) {
        if let Some(request) = self.shared.requests.find(id) {
            let (handle, stream) = (request.link, request.stream);
            self.with(handle, |link, shared| link.abort(stream, shared));
        }
    }
}
