//! All connections of a loop.
//!
//! Invariants: a link stands in `sending` exactly when its `is_sending` is set. Among `times` it has at most one entry, its `called_at`,
//! which is no later than quinn wants it called: a time that moves later moves nothing here, and what comes too early is looked at again
//! then.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use exos_inet::Instant;
use quinn_proto::{
    AcceptError, ClientConfig, ConnectError, Connection, ConnectionHandle, DatagramEvent,
    EcnCodepoint, Endpoint, EndpointConfig, Incoming, RetryError, ServerConfig, Transmit,
};

use crate::datagram::{Arrived, Leaving};

/// What a program keeps with a connection.
pub trait Link {
    /// The connection.
    fn quic(&mut self) -> &mut Connection;

    /// It has sent all that it may for now.
    fn has_sent(&mut self) {}
}

/// What has become of a datagram.
pub enum Received {
    /// It is of no connection, or cannot be read.
    Unclaimed,
    /// It is of this connection, which may have news.
    Link(ConnectionHandle),
    /// It is of none, and is to be answered: the answer lies in the buffer that was given.
    Answered(Leaving),
    /// A client wants a connection.
    New(Box<Incoming>),
}

struct Held<L> {
    link: L,
    called_at: Option<std::time::Instant>,
    is_sending: bool,
}

/// Connections, by quinn's handles.
pub struct Connections<L> {
    endpoint: Endpoint,
    held: Vec<Option<Box<Held<L>>>>,
    open: usize,
    /// Those that may have something to send.
    sending: VecDeque<ConnectionHandle>,
    /// When which wants to be called.
    times: BTreeSet<(std::time::Instant, usize)>,
    /// Those that were and are no more.
    over: Vec<(ConnectionHandle, L)>,
    /// A moment by both clocks.
    epoch: (std::time::Instant, Instant),
    now: Instant,
}

impl<L: Link> Connections<L> {
    /// Without connections yet; `server` says how those begin that clients open. Where datagrams stay `whole` on their way, it is found
    /// out how long they may be; else their length is that which all paths take (RFC 9000 §14).
    pub fn new(
        config: EndpointConfig,
        server: Option<Arc<ServerConfig>>,
        whole: bool,
        now: Instant,
    ) -> Self {
        Self {
            endpoint: Endpoint::new(Arc::new(config), server, whole, None),
            held: Vec::new(),
            open: 0,
            sending: VecDeque::new(),
            times: BTreeSet::new(),
            over: Vec::new(),
            epoch: (std::time::Instant::now(), now),
            now,
        }
    }

    // Getters.

    /// Connections, those that are ending among them.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The time of this turn.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// That time by quinn's clock.
    pub fn time(&self) -> std::time::Instant {
        let (time, now) = self.epoch;
        time + self.now.saturating_duration_since(now)
    }

    /// All that there are, and places of those that were.
    pub fn handles(&self) -> impl Iterator<Item = ConnectionHandle> + use<L> {
        (0..self.held.len()).map(ConnectionHandle)
    }

    /// A link.
    pub fn get(&self, handle: ConnectionHandle) -> Option<&L> {
        self.held.get(handle.0)?.as_deref().map(|held| &held.link)
    }

    /// When to begin a turn at the latest; the first moment of all where there is something to send.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.sending.is_empty() || !self.over.is_empty() {
            return Some(Instant::START);
        }
        let (time, now) = self.epoch;
        self.times.first().map(|(at, _)| {
            // Not before it: clocks of microseconds round down.
            now + at.saturating_duration_since(time) + Duration::from_micros(1)
        })
    }

    // Commands.

    /// It is this time from now on.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// A link, which may have something to send after this.
    pub fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut L> {
        let held = self.held.get_mut(handle.0)?.as_deref_mut()?;
        if !std::mem::replace(&mut held.is_sending, true) {
            self.sending.push_back(handle);
        }
        Some(&mut held.link)
    }

    /// Begins a connection to a server of this name, with what `make` makes of it.
    ///
    /// # Errors
    ///
    /// It cannot begin.
    pub fn connect(
        &mut self,
        config: ClientConfig,
        to: SocketAddr,
        name: &str,
        make: impl FnOnce(ConnectionHandle, Connection) -> L,
    ) -> Result<ConnectionHandle, ConnectError> {
        let (handle, quic) = self.endpoint.connect(self.time(), config, to, name)?;
        self.hold(handle, make(handle, quic));
        Ok(handle)
    }

    /// Accepts one that a client has opened. Where it is none, the answer to it lies in the buffer, if there is any.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn accept(
        &mut self,
        incoming: Incoming,
        config: Arc<ServerConfig>,
        buffer: &mut Vec<u8>,
        make: impl FnOnce(ConnectionHandle, Connection) -> L,
    ) -> Result<ConnectionHandle, Option<Leaving>> {
        buffer.clear();
        let accepted = self
            .endpoint
            .accept(incoming, self.time(), buffer, Some(config));
        match accepted {
            Ok((handle, quic)) => {
                self.hold(handle, make(handle, quic));
                Ok(handle)
            }
            Err(AcceptError { response, .. }) => {
                Err(response.map(|transmit| Leaving::new(None, &transmit)))
            }
        }
    }

    /// Refuses one that a client has opened: the answer lies in the buffer.
    pub fn refuse(&mut self, incoming: Incoming, buffer: &mut Vec<u8>) -> Leaving {
        buffer.clear();
        Leaving::new(None, &self.endpoint.refuse(incoming, buffer))
    }

    /// Has a client show first that it receives at its address (RFC 9000 §8.1.2): the answer lies in the buffer.
    ///
    /// # Errors
    ///
    /// It has shown it.
    pub fn retry(
        &mut self,
        incoming: Incoming,
        buffer: &mut Vec<u8>,
    ) -> Result<Leaving, RetryError> {
        buffer.clear();
        let transmit: Transmit = self.endpoint.retry(incoming, buffer)?;
        Ok(Leaving::new(None, &transmit))
    }

    fn hold(&mut self, handle: ConnectionHandle, link: L) {
        if handle.0 >= self.held.len() {
            self.held.resize_with(handle.0 + 1, || None);
        }
        self.held[handle.0] = Some(Box::new(Held {
            link,
            called_at: None,
            is_sending: true,
        }));
        self.sending.push_back(handle);
        self.open += 1;
    }

    // What arrives.

    /// A datagram has come. The buffer is for an answer.
    pub fn receive(&mut self, arrived: Arrived, buffer: &mut Vec<u8>) -> Received {
        buffer.clear();
        let handled = self.endpoint.handle(
            self.time(),
            arrived.remote,
            arrived.local,
            EcnCodepoint::from_bits(arrived.ecn),
            arrived.payload,
            buffer,
        );
        match handled {
            None => Received::Unclaimed,
            Some(DatagramEvent::Response(transmit)) => {
                Received::Answered(Leaving::new(None, &transmit))
            }
            Some(DatagramEvent::NewConnection(incoming)) => Received::New(Box::new(incoming)),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(link) = self.get_mut(handle) else {
                    return Received::Unclaimed;
                };
                link.quic().handle_event(event);
                self.pass_events(handle);
                Received::Link(handle)
            }
        }
    }

    /// A link whose time has come, which may have news.
    pub fn poll_due(&mut self) -> Option<ConnectionHandle> {
        let time = self.time();
        let &(at, place) = self.times.first()?;
        if at > time {
            return None;
        }
        self.times.pop_first();
        let handle = ConnectionHandle(place);
        if let Some(held) = self.held[place].as_deref_mut() {
            held.called_at = None;
        }
        if let Some(link) = self.get_mut(handle) {
            link.quic().handle_timeout(time);
        }
        self.pass_events(handle);
        Some(handle)
    }

    // What leaves.

    /// The next datagrams that are to leave, at most `segments` of one length, which lie in the buffer.
    pub fn poll_transmit(&mut self, segments: usize, buffer: &mut Vec<u8>) -> Option<Leaving> {
        let time = self.time();
        while let Some(&handle) = self.sending.front() {
            buffer.clear();
            if let Some(held) = self.held[handle.0].as_deref_mut() {
                let quic = held.link.quic();
                if let Some(transmit) = quic.poll_transmit(time, segments, buffer) {
                    return Some(Leaving::new(Some(handle), &transmit));
                }
            }
            self.sending.pop_front();
            self.settle(handle);
        }
        None
    }

    /// A link that is no more. It may have news that nobody has heard.
    pub fn poll_over(&mut self) -> Option<(ConnectionHandle, L)> {
        self.over.pop()
    }

    /// A link has sent all that it may: what it waits for, and whether it is over.
    fn settle(&mut self, handle: ConnectionHandle) {
        self.pass_events(handle);
        let Some(held) = self.held[handle.0].as_deref_mut() else {
            return;
        };
        held.is_sending = false;
        let wanted = held.link.quic().poll_timeout();
        if let Some(at) = wanted
            && held.called_at.is_none_or(|before| at < before)
        {
            if let Some(before) = held.called_at.replace(at) {
                self.times.remove(&(before, handle.0));
            }
            self.times.insert((at, handle.0));
        }
        held.link.has_sent();
    }

    /// Passes on what a connection and the endpoint have to say to each other.
    fn pass_events(&mut self, handle: ConnectionHandle) {
        while let Some(held) = self.held.get_mut(handle.0).and_then(Option::as_deref_mut)
            && let Some(event) = held.link.quic().poll_endpoint_events()
        {
            if event.is_drained() {
                // Its number may be another's from here on.
                self.free(handle);
                self.endpoint.handle_event(handle, event);
                return;
            }
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                held.link.quic().handle_event(answer);
            }
        }
    }

    fn free(&mut self, handle: ConnectionHandle) {
        let Some(held) = self.held[handle.0].take() else {
            return;
        };
        if let Some(at) = held.called_at {
            self.times.remove(&(at, handle.0));
        }
        if held.is_sending {
            self.sending.retain(|other| *other != handle);
        }
        self.open -= 1;
        self.over.push((handle, held.link));
    }
}
