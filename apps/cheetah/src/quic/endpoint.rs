//! All connections of QUIC of a loop: datagrams in and out, handshakes, times, and what the server says of their requests.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use exos::Error;
use exos_buf::Slice;
use exos_http3::ErrorCode;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event};
use quinn_proto::{
    ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, Incoming, Transmit,
};

use super::config::Current;
use super::counters::Counters;
use super::link::{Around, Link, News};
use super::requests::Requests;
use crate::connections::peers::Peers;
use crate::limits::{
    HANDSHAKES_AT_ONCE, IDLE_TIME, QUIC_ANSWERS_MAX, QUIC_CONNECTIONS_MAX, QUIC_HANDSHAKES_FREE,
    QUIC_INCOMING_MAX, QUIC_LOOK_TIME, QUIC_SEGMENTS_MAX,
};
use crate::secure::Acceptor;

/// A datagram that is to leave, or several of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it goes.
    pub remote: SocketAddr,
    /// From which of our addresses, where that is known.
    pub local: Option<IpAddr>,
    /// The two bits of ECN (RFC 3168).
    pub ecn: u8,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// Of several, the length of each but the last.
    pub segment: usize,
}

/// Connections of QUIC, and their requests.
pub struct Quic {
    endpoint: Endpoint,
    acceptor: Arc<Acceptor>,
    current: Current,
    migrates: bool,
    /// Our port.
    port: u16,
    links: Vec<Option<Box<Link>>>,
    open: usize,
    connections_max: usize,
    /// Connections of a peer at once, counted here.
    peers: Option<(Peers, u32)>,
    /// Connections that may begin, in the order of their first packets.
    incoming: VecDeque<Incoming>,
    handshakes_left: usize,
    requests: Requests,
    news: News,
    counters: Counters,
    /// Links that are to be written, and those that may have something to send.
    listed: Vec<ConnectionHandle>,
    sending: VecDeque<ConnectionHandle>,
    answers: VecDeque<Datagram>,
    /// When which link wants to be called.
    times: BTreeSet<(std::time::Instant, usize)>,
    /// A moment by both clocks.
    epoch: (std::time::Instant, Instant),
    now: Instant,
    looks_at: Instant,
    is_stopping: bool,
    buffer: Vec<u8>,
}

impl Quic {
    /// Without connections, at the port of HTTPS; `migrates` where clients may come from another address, because all datagrams
    /// come here.
    ///
    /// # Errors
    ///
    /// HTTPS has no TLS 1.3.
    pub fn new(acceptor: Arc<Acceptor>, migrates: bool, now: Instant) -> Result<Quic, Error> {
        let current = Current::new(acceptor.config(), migrates)?;
        let mut config = EndpointConfig::default();
        config.supported_versions(vec![1]);
        // Datagrams may be fragmented on their way, so their length is that which all paths take (RFC 9000 §14).
        let config = Arc::new(config);
        Ok(Quic {
            endpoint: Endpoint::new(config, Some(current.config()), false, None),
            current,
            migrates,
            port: acceptor.port(),
            acceptor,
            links: Vec::new(),
            open: 0,
            connections_max: QUIC_CONNECTIONS_MAX,
            peers: None,
            incoming: VecDeque::new(),
            handshakes_left: HANDSHAKES_AT_ONCE,
            requests: Requests::default(),
            news: News::default(),
            counters: Counters::default(),
            listed: Vec::new(),
            sending: VecDeque::new(),
            answers: VecDeque::new(),
            times: BTreeSet::new(),
            epoch: (std::time::Instant::now(), now),
            now,
            looks_at: now + QUIC_LOOK_TIME,
            is_stopping: false,
            buffer: Vec::new(),
        })
    }

    /// Limits connections from now on: all together, and those of each peer, which this counts with others.
    pub(crate) fn set_bounds(&mut self, connections_max: Option<u32>, peers: Option<(Peers, u32)>) {
        if let Some(most) = connections_max {
            self.connections_max = most as usize;
        }
        self.peers = peers;
    }

    // A turn, in this order.

    /// It is this time: what is due is done, and handshakes go on.
    pub fn begin_turn(&mut self, now: Instant) {
        self.now = now;
        self.handshakes_left = HANDSHAKES_AT_ONCE;
        let time = self.time();
        while let Some(&(at, place)) = self.times.first()
            && at <= time
        {
            self.times.pop_first();
            if let Some(link) = self.links[place].as_deref_mut() {
                link.deadline = None;
                link.quic.handle_timeout(time);
                self.hear(ConnectionHandle(place));
            }
        }
        if now >= self.looks_at {
            self.looks_at = now + QUIC_LOOK_TIME;
            for place in 0..self.links.len() {
                self.with(ConnectionHandle(place), |link, around| {
                    link.look(IDLE_TIME, around);
                });
            }
        }
        while self.handshakes_left > 0
            && let Some(incoming) = self.incoming.pop_front()
        {
            self.accept(incoming);
        }
    }

    /// A datagram has come from `remote`, to our address `local` where that is known, with these two bits of ECN (RFC 3168).
    pub fn receive(&mut self, remote: SocketAddr, local: Option<IpAddr>, ecn: u8, bytes: &[u8]) {
        self.counters.received += 1;
        let ecn = EcnCodepoint::from_bits(ecn);
        let bytes = BytesMut::from(bytes);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let time = self.time();
        let handled = self
            .endpoint
            .handle(time, remote, local, ecn, bytes, &mut buffer);
        match handled {
            None => self.counters.unclaimed += 1,
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(link) = self.link(handle) {
                    link.quic.handle_event(event);
                    self.hear(handle);
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, &buffer),
            Some(DatagramEvent::NewConnection(incoming)) => self.greet(incoming, &mut buffer),
        }
        self.buffer = buffer;
    }

    /// The next news of a request.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.news.pop() {
                return Some(event);
            }
            let handle = self.listed.pop()?;
            self.with(handle, |link, around| {
                link.is_listed = false;
                link.write_all(around);
            });
        }
    }

    /// The next datagrams that are to leave.
    pub fn transmit(&mut self) -> Option<Datagram> {
        if let Some(answer) = self.answers.pop_front() {
            self.counters.sent += 1;
            return Some(answer);
        }
        while let Some(handle) = self.listed.pop() {
            self.with(handle, |link, around| {
                link.is_listed = false;
                link.write_all(around);
            });
        }
        while let Some(&handle) = self.sending.front() {
            let time = self.time();
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            let link = self.links[handle.0].as_deref_mut();
            let transmit = link.and_then(|link| {
                link.quic
                    .poll_transmit(time, QUIC_SEGMENTS_MAX, &mut buffer)
            });
            let datagram = transmit.map(|transmit| datagram(&transmit, &buffer));
            self.buffer = buffer;
            if let Some(datagram) = datagram {
                self.counters.sent += datagram.payload.len().div_ceil(datagram.segment) as u64;
                return Some(datagram);
            }
            self.sending.pop_front();
            self.settle(handle);
        }
        None
    }

    /// Datagrams that were to leave could not.
    pub fn count_unsent(&mut self, datagrams: u64) {
        self.counters.unsent += datagrams;
    }

    /// When to begin a turn at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let is_waiting =
            !self.news.is_empty() || !self.incoming.is_empty() || !self.listed.is_empty();
        if is_waiting || !self.sending.is_empty() || !self.answers.is_empty() {
            return Some(Instant::START);
        }
        let (time, now) = self.epoch;
        // Not before it: clocks of microseconds round down.
        let first = self.times.first().map(|(at, _)| {
            let after = at.saturating_duration_since(time) + Duration::from_micros(1);
            now + after
        });
        let look = (self.open > 0).then_some(self.looks_at);
        [first, look].into_iter().flatten().min()
    }

    // The end.

    /// No connections and no requests are taken any more: those that are under way are answered.
    pub fn stop(&mut self, now: Instant) {
        self.now = now;
        self.is_stopping = true;
        while let Some(incoming) = self.incoming.pop_front() {
            self.refuse(incoming);
        }
        for place in 0..self.links.len() {
            self.with(ConnectionHandle(place), Link::go_away);
        }
    }

    /// Ends all that is left.
    pub fn close_all(&mut self) {
        for place in 0..self.links.len() {
            self.with(ConnectionHandle(place), |link, around| {
                link.close(ErrorCode::NO_ERROR, around);
            });
        }
    }

    // Getters.

    /// Connections.
    pub fn open(&self) -> usize {
        self.open
    }

    /// What happened, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.counters.list()
    }

    // Connections that begin.

    /// A client wants a connection: it gets one, now or in another turn, or hears that it does not.
    fn greet(&mut self, incoming: Incoming, buffer: &mut Vec<u8>) {
        let is_full = self.open + self.incoming.len() >= self.connections_max;
        if self.is_stopping || is_full || self.incoming.len() >= QUIC_INCOMING_MAX {
            self.counters.refused += 1;
            return self.refuse(incoming);
        }
        // RFC 9000 §8.1.2: what costs a signature costs the client a round trip first.
        let are_many = self.incoming.len() + self.counters.under_way() >= QUIC_HANDSHAKES_FREE;
        let is_validated = incoming.remote_address_validated();
        let peer = incoming.remote_address().ip().to_canonical();
        let has_all = self.peers.as_ref();
        let has_all = has_all.is_some_and(|(all, most)| all.has_all(peer, *most));
        if has_all && (is_validated || !incoming.may_retry()) {
            self.counters.peer_refused += 1;
            return self.refuse(incoming);
        }
        if (are_many || has_all) && !is_validated && incoming.may_retry() {
            self.counters.retries += 1;
            buffer.clear();
            if let Ok(transmit) = self.endpoint.retry(incoming, buffer) {
                self.answer(&transmit, buffer);
            }
            return;
        }
        match self.handshakes_left {
            0 => self.incoming.push_back(incoming),
            _ => self.accept(incoming),
        }
    }

    fn refuse(&mut self, incoming: Incoming) {
        let mut buffer = Vec::new();
        let transmit = self.endpoint.refuse(incoming, &mut buffer);
        self.answer(&transmit, &buffer);
    }

    fn accept(&mut self, incoming: Incoming) {
        self.handshakes_left = self.handshakes_left.saturating_sub(1);
        self.counters.handshakes += 1;
        self.current.follow(self.acceptor.config(), self.migrates);
        let mut buffer = Vec::new();
        let (time, config) = (self.time(), Some(self.current.config()));
        match self.endpoint.accept(incoming, time, &mut buffer, config) {
            Err(error) => {
                self.counters.unacceptable += 1;
                if let Some(transmit) = error.response {
                    self.answer(&transmit, &buffer);
                }
            }
            Ok((handle, quic)) => {
                let link = Box::new(Link::new(handle, quic, self.now));
                if handle.0 >= self.links.len() {
                    self.links.resize_with(handle.0 + 1, || None);
                }
                self.links[handle.0] = Some(link);
                self.open += 1;
                self.hear(handle);
            }
        }
    }

    /// Answers what is of no connection. While nothing can leave, answers are lost, as on a wire: clients ask again.
    fn answer(&mut self, transmit: &Transmit, buffer: &[u8]) {
        match self.answers.len() < QUIC_ANSWERS_MAX {
            true => self.answers.push_back(datagram(transmit, buffer)),
            false => self.counters.unsent += 1,
        }
    }

    // Connections.

    fn time(&self) -> std::time::Instant {
        let (time, now) = self.epoch;
        time + self.now.saturating_duration_since(now)
    }

    fn link(&mut self, handle: ConnectionHandle) -> Option<&mut Link> {
        self.links.get_mut(handle.0)?.as_deref_mut()
    }

    /// Does something with a link, which may have something to send then.
    fn with(&mut self, handle: ConnectionHandle, act: impl FnOnce(&mut Link, &mut Around<'_>)) {
        let time = self.time();
        let Some(link) = self.links.get_mut(handle.0).and_then(Option::as_deref_mut) else {
            return;
        };
        let mut around = Around {
            now: self.now,
            time,
            requests: &mut self.requests,
            news: &mut self.news,
            counters: &mut self.counters,
        };
        act(link, &mut around);
        if !std::mem::replace(&mut link.is_sending, true) {
            self.sending.push_back(handle);
        }
    }

    /// Hears what QUIC tells of a link.
    fn hear(&mut self, handle: ConnectionHandle) {
        self.pass_events(handle);
        self.with(handle, |link, around| link.hear(around));
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
            self.counters.peer_refused += 1;
            self.with(handle, |link, around| {
                link.close(ErrorCode::EXCESSIVE_LOAD, around);
            });
        }
    }

    /// Passes on what a link and the endpoint have to say to each other.
    fn pass_events(&mut self, handle: ConnectionHandle) {
        while let Some(link) = self.links.get_mut(handle.0).and_then(Option::as_deref_mut)
            && let Some(event) = link.quic.poll_endpoint_events()
        {
            if event.is_drained() {
                // Its number may be another's from here on.
                self.free(handle);
                self.endpoint.handle_event(handle, event);
                return;
            }
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                link.quic.handle_event(answer);
            }
        }
    }

    /// A link is no more.
    fn free(&mut self, handle: ConnectionHandle) {
        let Some(mut link) = self.links[handle.0].take() else {
            return;
        };
        let mut around = Around {
            now: self.now,
            time: self.epoch.0 + self.now.saturating_duration_since(self.epoch.1),
            requests: &mut self.requests,
            news: &mut self.news,
            counters: &mut self.counters,
        };
        link.hear(&mut around);
        // It has no requests any more, unless QUIC ended it without a word.
        link.abandon(&mut around);
        self.counters.left += u64::from(!link.has_stood());
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
    fn settle(&mut self, handle: ConnectionHandle) {
        self.pass_events(handle);
        let Some(link) = self.links.get_mut(handle.0).and_then(Option::as_deref_mut) else {
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
        let request = self.requests.find(id)?;
        let link = self.links.get(request.link.0)?.as_deref()?;
        link.tls()
    }

    pub(super) fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        let request = self.requests.find(id)?;
        let link = self.links.get(request.link.0)?.as_deref()?;
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
        self.requests.find(id).map_or(&[], |it| it.received())
    }

    pub(super) fn consume(&mut self, id: ConnectionId, count: usize) {
        let Some(request) = self.requests.find_mut(id) else {
            return;
        };
        request.consume(count);
        if request.is_held && count > 0 {
            let (handle, stream) = (request.link, request.stream);
            self.with(handle, |link, around| link.receive_again(stream, around));
        }
    }

    pub(super) fn send_head(&mut self, id: ConnectionId, block: &[Slice]) {
        self.queue(id, |request| request.send_head(block));
    }

    pub(super) fn send_leave(&mut self, id: ConnectionId) {
        self.queue(id, super::request::Request::send_leave);
    }

    pub(super) fn send(&mut self, id: ConnectionId, bytes: Slice) {
        self.queue(id, |request| request.send(bytes));
    }

    fn queue(&mut self, id: ConnectionId, queue: impl FnOnce(&mut super::request::Request)) {
        if let Some(request) = self.requests.find_mut(id) {
            queue(request);
            let handle = request.link;
            self.list(handle);
        }
    }

    pub(super) fn unacknowledged(&self, id: ConnectionId) -> usize {
        self.requests.find(id).map_or(0, |it| it.unacknowledged())
    }

    pub(super) fn unsent(&self, id: ConnectionId) -> usize {
        self.requests.find(id).map_or(0, |it| it.unsent())
    }

    pub(super) fn finish(&mut self, id: ConnectionId) {
        let Some(request) = self.requests.find_mut(id) else {
            return;
        };
        let (handle, stream) = (request.link, request.stream);
        match request.finish() {
            true => self.list(handle),
            false => self.with(handle, |link, around| {
                link.give_up_unanswered(stream, around)
            }),
        }
    }

    pub(super) fn discard_received(&mut self, id: ConnectionId) {
        let Some(request) = self.requests.find_mut(id) else {
            return;
        };
        request.discard();
        if !request.has_ended {
            let (handle, stream) = (request.link, request.stream);
            self.with(handle, |link, _| link.discard(stream));
        }
    }

    pub(super) fn abort(&mut self, id: ConnectionId) {
        if let Some(request) = self.requests.find(id) {
            let (handle, stream) = (request.link, request.stream);
            self.with(handle, |link, around| link.abort(stream, around));
        }
    }
}

fn datagram(transmit: &Transmit, buffer: &[u8]) -> Datagram {
    Datagram {
        remote: transmit.destination,
        local: transmit.src_ip,
        ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
        payload: buffer[..transmit.size].to_vec(),
        segment: transmit.segment_size.unwrap_or(transmit.size).max(1),
    }
}
