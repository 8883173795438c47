//! QUIC of a loop: datagrams in and out, which connections begin, and the order of a turn.

use std::collections::VecDeque;
use std::sync::Arc;

use exos::Error;
use exos_inet::Instant;
use exos_quic::{Arrived, Connections, Identifiers, Leaving, Received};
use quinn_proto::{EndpointConfig, Incoming};

use super::config::Current;
use super::link::Link;
use super::links::Links;
use crate::connections::peers::Peers;
use crate::limits::{
    HANDSHAKES_AT_ONCE, QUIC_ANSWERS_MAX, QUIC_CONNECTIONS_MAX, QUIC_HANDSHAKES_FREE,
    QUIC_INCOMING_MAX, QUIC_LOOK_TIME, QUIC_SEGMENTS_MAX,
};
use crate::secure::Acceptor;

/// Connections of QUIC, and their requests.
pub struct Quic {
    acceptor: Arc<Acceptor>,
    current: Current,
    datagram_max: Option<u16>,
    pub(super) links: Links,
    connections_max: usize,
    /// Connections that may begin, in the order of their first packets.
    incoming: VecDeque<Box<Incoming>>,
    handshakes_left: usize,
    /// Datagrams that are of no connection.
    answers: VecDeque<(Leaving, Vec<u8>)>,
    looks_at: Instant,
    is_stopping: bool,
    buffer: Vec<u8>,
}

impl Quic {
    /// Without connections, at the port of HTTPS, with the identifiers of one of several loops that share it. Where datagrams are not
    /// fragmented on their way, it is found out how long they may be, up to `datagram_max`.
    ///
    /// # Errors
    ///
    /// HTTPS has no TLS 1.3.
    pub fn new(
        acceptor: Arc<Acceptor>,
        identifiers: Option<Identifiers>,
        datagram_max: Option<u16>,
        now: Instant,
    ) -> Result<Quic, Error> {
        let current = Current::new(acceptor.config(), datagram_max)?;
        let mut config = EndpointConfig::default();
        config.supported_versions(vec![1]);
        if let Some(identifiers) = identifiers {
            config.cid_generator(move || Box::new(identifiers.clone()));
        }
        let may_find_out = datagram_max.is_some();
        let connections = Connections::new(config, Some(current.config()), may_find_out, now);
        Ok(Quic {
            current,
            datagram_max,
            links: Links::new(acceptor.port(), connections),
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
        self.links.set_now(now);
        self.handshakes_left = HANDSHAKES_AT_ONCE;
        self.links.handle_timeouts();
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

    /// A datagram has come.
    pub fn receive(&mut self, arrived: Arrived) {
        self.links.shared.counters.received += 1;
        match self.links.receive(arrived, &mut self.buffer) {
            Received::Unclaimed => self.links.shared.counters.unclaimed += 1,
            Received::Link(_) => {}
            Received::Answered(leaving) => self.answer(leaving),
            Received::New(incoming) => self.greet(incoming),
        }
    }

    /// The next datagrams that are to leave, at most `segments` of one length.
    pub fn transmit(&mut self, segments: usize) -> Option<(Leaving, &[u8])> {
        let leaving = self.make_next(segments)?;
        Some((leaving, &self.buffer[..leaving.len]))
    }

    /// As [`transmit`](Self::transmit), in a buffer of their own, for which there is a `spare` one.
    pub fn transmit_owned(
        &mut self,
        segments: usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Option<(Leaving, Vec<u8>)> {
        if self.buffer.capacity() == 0 {
            self.buffer = spare();
        }
        let leaving = self.make_next(segments)?;
        let payload = leaving.take_from(&mut self.buffer);
        Some((leaving, payload))
    }

    /// Makes the next, which lie in the buffer.
    fn make_next(&mut self, segments: usize) -> Option<Leaving> {
        let segments = segments.clamp(1, QUIC_SEGMENTS_MAX);
        let leaving = match self.answers.pop_front() {
            Some((leaving, payload)) => {
                self.buffer = payload;
                leaving
            }
            None => self.links.transmit(segments, &mut self.buffer)?,
        };
        self.links.shared.counters.sent += leaving.count();
        Some(leaving)
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
        let first = self.links.connections.poll_timeout();
        let look = (self.links.open() > 0).then_some(self.looks_at);
        [first, look].into_iter().flatten().min()
    }

    // The end.

    /// No connections and no requests are taken any more: those that are under way are answered.
    pub fn stop(&mut self, now: Instant) {
        self.links.set_now(now);
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
    fn greet(&mut self, incoming: Box<Incoming>) {
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
        let has_to_show = are_many || has_all || self.links.has_all_early(peer);
        if has_to_show && !is_validated && incoming.may_retry() {
            self.links.shared.counters.retries += 1;
            if let Ok(leaving) = self.links.connections.retry(*incoming, &mut self.buffer) {
                self.answer(leaving);
            }
            return;
        }
        match self.handshakes_left {
            0 => self.incoming.push_back(incoming),
            _ => self.accept(incoming),
        }
    }

    fn refuse(&mut self, incoming: Box<Incoming>) {
        let leaving = self.links.connections.refuse(*incoming, &mut self.buffer);
        self.answer(leaving);
    }

    fn accept(&mut self, incoming: Box<Incoming>) {
        self.handshakes_left = self.handshakes_left.saturating_sub(1);
        self.links.shared.counters.handshakes += 1;
        self.current
            .follow(self.acceptor.config(), self.datagram_max);
        let (now, config) = (self.links.shared.now, self.current.config());
        let connections = &mut self.links.connections;
        let is_validated = incoming.remote_address_validated();
        let make = |handle, quic| Link::new(handle, quic, is_validated, now);
        match connections.accept(*incoming, config, &mut self.buffer, make) {
            Ok(handle) => self.links.hear(handle),
            Err(answer) => {
                self.links.shared.counters.unacceptable += 1;
                if let Some(leaving) = answer {
                    self.answer(leaving);
                }
            }
        }
    }

    /// Answers what is of no connection. While nothing can leave, answers are lost, as on a wire: clients ask again.
    fn answer(&mut self, leaving: Leaving) {
        match self.answers.len() < QUIC_ANSWERS_MAX {
            true => {
                let payload = self.buffer[..leaving.len].to_vec();
                self.answers.push_back((leaving, payload));
            }
            false => self.links.shared.counters.unsent += 1,
        }
    }
}
