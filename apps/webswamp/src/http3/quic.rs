//! All connections of QUIC of a loop, as the engine's transport.

use std::net::SocketAddr;

use exos_buf::Slice;
use exos_http3::ErrorCode;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet, OpenError, Reason};
use exos_quic::quinn_proto::{ConnectionHandle, EndpointConfig, Event};
use exos_quic::{Arrived, Connections, Leaving, Received};
use exos_tls::TlsError;
use exos_tls::client::{Client, reason};

use super::arriving::code;
use super::connection::{Connection, Early};
use super::opening::{End, Opening, end};
use crate::engine::Engine;
use crate::limits::{QUIC_DATAGRAM_LEN_MAX, QUIC_SEGMENTS_MAX};
use crate::secured::Shares;
use crate::statistics::Handshake;
use crate::transport::{NOBODY, Transport};

/// What is said to have been agreed upon: QUIC has TLS 1.3 alone, and tells nobody of suite and group. They are known where there was no choice.
fn agreed(client: &Client) -> String {
    match client.offered_alone() {
        Some(both) => format!("TLSv1.3 {both}"),
        None => "TLSv1.3 (QUIC)".to_owned(),
    }
}

/// Connections to a server.
pub struct Quic {
    connections: Connections<Connection>,
    client: Client,
    name: String,
    opening: Opening,
    to: SocketAddr,
    /// The number of sockets that connections are spread over.
    sockets: usize,
    /// How many there have been.
    count: u32,
    /// Those that may have news.
    listed: Vec<ConnectionHandle>,
    /// Where datagrams are made.
    buffer: Vec<u8>,
    counters: Counters,
}

/// Datagrams that came, those of them that nobody wanted, and those that left or could not.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    received: u64,
    unclaimed: u64,
    sent: u64,
    unsent: u64,
}

/// What has become of a connection.
pub enum Outcome {
    /// It stands.
    Stands,
    /// TLS was not agreed upon.
    Unsecured(TlsError),
    /// It is over.
    Over(Reason),
}

impl Quic {
    /// Without connections yet, of a core's own, to this server, over this number of sockets, by which datagrams are not
    /// fragmented where it is said how long they may be found to be at most. These parts of all handshakes are to resume earlier
    /// sessions, as chance decides by a seed.
    ///
    /// # Errors
    ///
    /// There is no TLS 1.3.
    pub fn new(
        client: &Client,
        (to, sockets, datagram_max): (SocketAddr, usize, Option<u16>),
        (shares, seed): (Shares, u64),
        now: Instant,
    ) -> Result<Self, exos::Error> {
        let client = client.with_own_tickets();
        let mut config = EndpointConfig::default();
        config.supported_versions(vec![1]);
        // What comes is as long as the path takes; the buffers hold all that there can be.
        let taken = config.max_udp_payload_size(QUIC_DATAGRAM_LEN_MAX);
        debug_assert!(taken.is_ok(), "a length that datagrams have");
        Ok(Self {
            connections: Connections::new(config, None, datagram_max.is_some(), now),
            opening: Opening::new(&client, datagram_max, (shares, seed))?,
            name: client.name(),
            client,
            to,
            sockets: sockets.max(1),
            count: 0,
            listed: Vec::new(),
            buffer: Vec::new(),
            counters: Counters::default(),
        })
    }

    // A turn.

    /// It is this time: what is due is done.
    pub fn begin_turn(&mut self, now: Instant) {
        self.connections.set_now(now);
        while let Some(handle) = self.connections.poll_due() {
            self.list(handle);
        }
    }

    /// A datagram has come.
    pub fn receive(&mut self, arrived: Arrived) {
        self.counters.received += 1;
        let checks = self.client.checks();
        let received = self.connections.receive(arrived, &mut self.buffer);
        match received {
            Received::Link(handle) => {
                if self.client.checks() != checks
                    && let Some(link) = self.connections.get_mut(handle)
                {
                    link.is_full = true;
                    link.refusal = self.client.take_refusal();
                }
                self.list(handle);
            }
            // A client answers nothing that is of no connection; nobody opens one to it.
            Received::Unclaimed | Received::Answered(_) | Received::New(_) => {
                self.counters.unclaimed += 1;
            }
        }
    }

    /// Of what was sent by this socket, nobody takes anything: what is being opened there will not come to stand.
    pub fn refused(&mut self, engine: &mut Engine, now: Instant, socket: usize) {
        for handle in self.connections.handles() {
            let link = self.connections.get(handle);
            let is_opening =
                link.is_some_and(|it| it.socket == socket && !it.has_stood && !it.is_over);
            if is_opening && let Some(link) = self.connections.get_mut(handle) {
                let token = std::mem::replace(&mut link.token, NOBODY);
                link.close(ErrorCode::NO_ERROR);
                engine.handle_event(now, token, EventSet::CLOSED, Reason::Refused, self);
            }
        }
    }

    /// Has the engine hear what there is to tell.
    pub fn tell(&mut self, engine: &mut Engine, now: Instant) {
        while let Some(handle) = self.listed.pop() {
            self.tell_of(engine, now, handle);
        }
        while self.connections.poll_over().is_some() {}
    }

    /// The next datagrams that are to leave, and by which socket.
    pub fn transmit(&mut self, segments: usize) -> Option<(usize, Leaving, &[u8])> {
        let (socket, leaving) = self.make_next(segments)?;
        Some((socket, leaving, &self.buffer[..leaving.len]))
    }

    /// As [`transmit`](Self::transmit), in a buffer of their own.
    pub fn transmit_owned(&mut self, segments: usize) -> Option<(usize, Leaving, Vec<u8>)> {
        let (socket, leaving) = self.make_next(segments)?;
        let payload = leaving.take_from(&mut self.buffer);
        Some((socket, leaving, payload))
    }

    /// Makes the next, which lie in the buffer.
    fn make_next(&mut self, segments: usize) -> Option<(usize, Leaving)> {
        let segments = segments.clamp(1, QUIC_SEGMENTS_MAX);
        let leaving = self.connections.poll_transmit(segments, &mut self.buffer)?;
        self.counters.sent += leaving.count();
        let link = leaving.link.and_then(|handle| self.connections.get(handle));
        let socket = link.map_or(0, |link| link.socket);
        Some((socket, leaving))
    }

    /// Datagrams that were to leave could not.
    pub fn count_unsent(&mut self, datagrams: u64) {
        self.counters.unsent += datagrams;
    }

    /// When to begin a turn at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.listed.is_empty() {
            true => self.connections.poll_timeout(),
            false => Some(Instant::START),
        }
    }

    /// Closes all that there is.
    pub fn close_all(&mut self) {
        let time = self.connections.time();
        for handle in self.connections.handles() {
            if let Some(link) = self.connections.get_mut(handle) {
                link.time = time;
                link.close(ErrorCode::NO_ERROR);
            }
        }
    }

    // Getters.

    /// What happened, by name.
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("quic_datagrams_received", self.counters.received),
            ("quic_drop_unclaimed", self.counters.unclaimed),
            ("quic_datagrams_sent", self.counters.sent),
            ("quic_drop_unsent", self.counters.unsent),
        ]
    }

    // Connections.

    fn list(&mut self, handle: ConnectionHandle) {
        if let Some(link) = self.connections.get_mut(handle)
            && !std::mem::replace(&mut link.is_listed, true)
        {
            self.listed.push(handle);
        }
    }

    fn tell_of(&mut self, engine: &mut Engine, now: Instant, handle: ConnectionHandle) {
        let time = self.connections.time();
        let Some(link) = self.connections.get_mut(handle) else {
            return;
        };
        link.is_listed = false;
        link.time = time;
        let token = link.token;
        if token != NOBODY && link.early == Early::Offered {
            link.early = Early::Begun;
            link.begin();
            engine.handle_event(now, token, EventSet::CONNECTED, Reason::Done, self);
            engine.handle_early(now, token, self);
        }
        let Some(link) = self.connections.get_mut(handle) else {
            return;
        };
        let outcome = hear(link);
        if link.token == NOBODY {
            return;
        }
        let early = link.early;
        let (begun, is_resumed) = (link.begun, !link.is_full);
        match outcome {
            None => engine.handle_event(now, token, EventSet::READABLE, Reason::Done, self),
            Some(Outcome::Stands) => {
                if early == Early::None {
                    engine.handle_event(now, token, EventSet::CONNECTED, Reason::Done, self);
                }
                let handshake = Handshake {
                    took: now.saturating_duration_since(begun),
                    is_resumed,
                    early: match early {
                        Early::Answered(is_taken) => Some(is_taken),
                        Early::None | Early::Offered | Early::Begun => None,
                    },
                    agreed: agreed(&self.client),
                };
                engine.handle_handshake(now, token, Ok(&handshake), self);
            }
            Some(Outcome::Unsecured(error)) => {
                engine.handle_handshake(now, token, Err(reason(&error)), self);
            }
            Some(Outcome::Over(reason)) => {
                let set = EventSet::READABLE.with(EventSet::CLOSED);
                engine.handle_event(now, token, set, reason, self);
            }
        }
    }

    /// What has become of a connection since it was asked last; for who opens one without an engine.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        let handle = self.listed.pop()?;
        let link = self.connections.get_mut(handle)?;
        link.is_listed = false;
        hear(link)
    }

    fn end(&mut self, id: ConnectionId) {
        let time = self.connections.time();
        if let Some(link) = self.find(id) {
            link.token = NOBODY;
            link.time = time;
            link.close(ErrorCode::NO_ERROR);
        }
    }

    fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let handle = ConnectionHandle(id.slot() as usize);
        let link = self.connections.get(handle)?;
        match id_of(handle, link.number) == id {
            true => self.connections.get_mut(handle),
            false => None,
        }
    }
}

/// Hears what QUIC tells of a connection.
fn hear(link: &mut Connection) -> Option<Outcome> {
    let mut outcome = None;
    while let Some(event) = link.quic.poll() {
        match event {
            Event::Connected => {
                link.stand();
                outcome = Some(Outcome::Stands);
            }
            Event::ConnectionLost { reason } => {
                if let exos_quic::quinn_proto::ConnectionError::ApplicationClosed(close) = &reason {
                    link.closed_by = Some(code(close.error_code)).filter(|code| code.is_error);
                }
                link.is_over = true;
                let refusal = link.refusal.take();
                outcome = Some(match end(&reason, link.has_stood, refusal) {
                    End::Unsecured(error) => Outcome::Unsecured(error),
                    End::Over(reason) => Outcome::Over(reason),
                });
            }
            Event::Stream(event) => link.hear_stream(event),
            Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
        }
    }
    outcome
}

fn id_of(handle: ConnectionHandle, number: u32) -> ConnectionId {
    ConnectionId::from_bits(u64::from(number) << 32 | handle.0 as u64)
}

/// It carries no bytes: those of its connections are QUIC's to send, and its streams the engine's to take.
impl Transport for Quic {
    fn open(&mut self, token: u64) -> Result<ConnectionId, OpenError> {
        self.count = self.count.wrapping_add(1);
        let number = self.count;
        let socket = number as usize % self.sockets;
        let times = (self.connections.now(), self.connections.time());
        let config = self.opening.next();
        let opened = self
            .connections
            .connect(config, self.to, &self.name, |_, quic| {
                Connection::new(quic, (token, number, socket), times)
            });
        let handle = opened.map_err(|_| OpenError::Full)?;
        if let Some(link) = self.connections.get_mut(handle)
            && link.quic.has_0rtt()
        {
            link.early = Early::Offered;
            self.list(handle);
        }
        Ok(id_of(handle, number))
    }

    fn send(&mut self, _id: ConnectionId, _bytes: &Slice) {}

    fn readable(&self, _id: ConnectionId) -> &[u8] {
        &[]
    }

    fn consume(&mut self, _id: ConnectionId, _count: usize) {}

    fn is_secured(&self) -> bool {
        true
    }

    fn speaks_http3(&self) -> bool {
        true
    }

    fn http3(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let time = self.connections.time();
        let link = self.find(id)?;
        link.time = time;
        Some(link)
    }

    fn acknowledge(&mut self, _id: ConnectionId) {}

    fn finish(&mut self, _id: ConnectionId) {}

    fn leave(&mut self, id: ConnectionId) {
        self.end(id);
    }

    fn abort(&mut self, id: ConnectionId) {
        self.end(id);
    }
}
