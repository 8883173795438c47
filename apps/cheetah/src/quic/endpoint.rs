//! QUIC of a loop: datagrams in and out, which connections begin, and the order of a turn.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use exos::Error;
use exos_inet::Instant;
use quinn_proto::{DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, Incoming, Transmit};

use super::config::Current;
use super::datagram::Datagram;
use super::links::Links;
use crate::connections::peers::Peers;
use crate::limits::{
    HANDSHAKES_AT_ONCE, QUIC_ANSWERS_MAX, QUIC_CONNECTIONS_MAX, QUIC_HANDSHAKES_FREE,
    QUIC_INCOMING_MAX, QUIC_LOOK_TIME,
};
use crate::secure::Acceptor;

/// Connections of QUIC, and their requests.
pub struct Quic {
    endpoint: Endpoint,
    acceptor: Arc<Acceptor>,
    current: Current,
    migrates: bool,
    pub(super) links: Links,
    connections_max: usize,
    /// Connections that may begin, in the order of their first packets.
    incoming: VecDeque<Incoming>,
    handshakes_left: usize,
    /// Datagrams that are of no connection.
    answers: VecDeque<Datagram>,
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
            links: Links::new(acceptor.port(), now),
            acceptor,
            connections_max: QUIC_CONNECTIONS_MAX,
            incoming: VecDeque::new(),
            handshakes_left: HANDSHAKES_AT_ONCE,
            answers: VecDeque::new(),
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
        self.links.set_peers(peers);
    }

    // A turn, in this order.

    /// It is this time: what is due is done, and handshakes go on.
    pub fn begin_turn(&mut self, now: Instant) {
        self.links.shared.clock.set(now);
        self.handshakes_left = HANDSHAKES_AT_ONCE;
        self.links.handle_timeouts(&mut self.endpoint);
        if now >= self.looks_at {
            self.looks_at = now + QUIC_LOOK_TIME;
            self.links.look();
        }
        while self.handshakes_left > 0
            && let Some(incoming) = self.incoming.pop_front()
        {
            self.accept(incoming);
        }
    }

    /// A datagram has come from `remote`, to our address `local` where that is known, with these two bits of ECN (RFC 3168).
    pub fn receive(&mut self, remote: SocketAddr, local: Option<IpAddr>, ecn: u8, bytes: &[u8]) {
        self.links.shared.counters.received += 1;
        let ecn = EcnCodepoint::from_bits(ecn);
        let bytes = BytesMut::from(bytes);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let time = self.links.shared.clock.time();
        let handled = self
            .endpoint
            .handle(time, remote, local, ecn, bytes, &mut buffer);
        match handled {
            None => self.links.shared.counters.unclaimed += 1,
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.links.receive(handle, event, &mut self.endpoint);
            }
            Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, &buffer),
            Some(DatagramEvent::NewConnection(incoming)) => self.greet(incoming, &mut buffer),
        }
        self.buffer = buffer;
    }

    /// The next datagrams that are to leave.
    pub fn transmit(&mut self) -> Option<Datagram> {
        if let Some(answer) = self.answers.pop_front() {
            self.links.shared.counters.sent += 1;
            return Some(answer);
        }
        self.links.transmit(&mut self.endpoint, &mut self.buffer)
    }

    /// Datagrams that were to leave could not.
    pub fn count_unsent(&mut self, datagrams: u64) {
        self.links.shared.counters.unsent += datagrams;
    }

    /// When to begin a turn at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let is_waiting = self.links.is_waiting();
        if is_waiting || !self.incoming.is_empty() || !self.answers.is_empty() {
            return Some(Instant::START);
        }
        let first = self.links.poll_timeout();
        let look = (self.links.open() > 0).then_some(self.looks_at);
        [first, look].into_iter().flatten().min()
    }

    // The end.

    /// No connections and no requests are taken any more: those that are under way are answered.
    pub fn stop(&mut self, now: Instant) {
        self.links.shared.clock.set(now);
        self.is_stopping = true;
        while let Some(incoming) = self.incoming.pop_front() {
            self.refuse(incoming);
        }
        self.links.go_away();
    }

    /// Ends all that is left.
    pub fn close_all(&mut self) {
        self.links.close();
    }

    // Getters.

    /// Connections.
    pub fn open(&self) -> usize {
        self.links.open()
    }

    /// What happened, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.links.shared.counters.list()
    }

    // Connections that begin.

    /// A client wants a connection: it gets one, now or in another turn, or hears that it does not.
    fn greet(&mut self, incoming: Incoming, buffer: &mut Vec<u8>) {
        let is_full = self.links.open() + self.incoming.len() >= self.connections_max;
        if self.is_stopping || is_full || self.incoming.len() >= QUIC_INCOMING_MAX {
            self.links.shared.counters.refused += 1;
            return self.refuse(incoming);
        }
        // RFC 9000 §8.1.2: what costs a signature costs the client a round trip first.
        let are_many =
            self.incoming.len() + self.links.shared.counters.under_way() >= QUIC_HANDSHAKES_FREE;
        let is_validated = incoming.remote_address_validated();
        let peer = incoming.remote_address().ip().to_canonical();
        let has_all = self.links.has_all(peer);
        if has_all && (is_validated || !incoming.may_retry()) {
            self.links.shared.counters.peer_refused += 1;
            return self.refuse(incoming);
        }
        if (are_many || has_all) && !is_validated && incoming.may_retry() {
            self.links.shared.counters.retries += 1;
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
        self.links.shared.counters.handshakes += 1;
        self.current.follow(self.acceptor.config(), self.migrates);
        let mut buffer = Vec::new();
        let (time, config) = (self.links.shared.clock.time(), Some(self.current.config()));
        match self.endpoint.accept(incoming, time, &mut buffer, config) {
            Err(error) => {
                self.links.shared.counters.unacceptable += 1;
                if let Some(transmit) = error.response {
                    self.answer(&transmit, &buffer);
                }
            }
            Ok((handle, quic)) => {
                self.links.add(handle, quic, &mut self.endpoint);
            }
        }
    }

    /// Answers what is of no connection. While nothing can leave, answers are lost, as on a wire: clients ask again.
    fn answer(&mut self, transmit: &Transmit, buffer: &[u8]) {
        match self.answers.len() < QUIC_ANSWERS_MAX {
            true => self.answers.push_back(Datagram::new(transmit, buffer)),
            false => self.links.shared.counters.unsent += 1,
        }
    }
}
