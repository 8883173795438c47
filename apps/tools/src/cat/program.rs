//! What `exos cat` does with its connection.
//!
//! [`Cat::handle`] is called each turn; it moves bytes between the standard streams and the
//! connection as far as both have room, and [`Cat::verdict`] says when it is over and how.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use exos::clock;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Info, ListenerId, Reason};
use exos_inet::{Instant, Stack};
use exos_program::names::HostPort;
use exos_tls::{Session, TlsError};
use schemars::JsonSchema;
use serde::Serialize;

use super::carrier::Carrier;
use super::streams::{Input, Streams};
use crate::limits::CAT_QUEUE_MAX;
use crate::statistics;

/// Who opens the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// We, to this host.
    Connect(HostPort),
    /// The peer, to this port of ours.
    Listen(u16),
}

/// How it went.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Everything was delivered, and both sides finished.
    Done,
    /// The connection failed.
    Failed(SocketAddr, Reason),
    /// TLS did.
    Unsecured(SocketAddr, TlsError),
    /// It ended before its TLS did, so that anybody may have cut it off (RFC 8446 §6.1).
    Cut(SocketAddr),
    /// Standard input did.
    Input(ErrorKind),
}

/// A connection joined to the standard streams.
pub struct Cat {
    id: Option<ConnectionId>,
    carrier: Carrier,
    listener: Option<ListenerId>,
    /// The other end, once it is known.
    peer: Option<SocketAddr>,
    began: Instant,
    /// The peer opened it.
    taken: bool,
    stands: bool,
    input_ended: bool,
    peer_finished: bool,
    output_finished: bool,
    queued: u64,
    sent: u64,
    received: u64,
    /// Standard input cannot be read.
    broken: Option<ErrorKind>,
    verdict: Option<Verdict>,
    info: Option<Info>,
}

impl Cat {
    /// For a connection that is being opened.
    pub fn connecting(id: ConnectionId, to: SocketAddr, now: Instant) -> Self {
        Self::new(Some(id), None, Some(to), now)
    }

    /// For a connection that stands since this event.
    pub fn connected(
        event: &Event,
        to: SocketAddr,
        now: Instant,
        stack: &mut Stack,
        streams: &mut Streams,
    ) -> Self {
        let mut cat = Self::connecting(event.connection, to, now);
        cat.handle_event(now, event, stack, streams);
        cat
    }

    /// For the first connection that a listener makes; the listener is closed then.
    pub fn listening(listener: ListenerId, now: Instant) -> Self {
        Self::new(None, Some(listener), None, now)
    }

    fn new(
        id: Option<ConnectionId>,
        listener: Option<ListenerId>,
        peer: Option<SocketAddr>,
        now: Instant,
    ) -> Self {
        Self {
            id,
            carrier: Carrier::default(),
            taken: listener.is_some(),
            listener,
            peer,
            began: now,
            stands: false,
            input_ended: false,
            peer_finished: false,
            output_finished: false,
            queued: 0,
            sent: 0,
            received: 0,
            broken: None,
            verdict: None,
            info: None,
        }
    }

    /// With TLS on the connection.
    #[must_use]
    pub fn secured(mut self, session: Session) -> Self {
        self.carrier = Carrier::secured(session);
        self
    }

    /// Move what can be moved.
    pub fn handle(&mut self, now: Instant, stack: &mut Stack, streams: &mut Streams) {
        streams.listen();
        while let Some(event) = stack.poll_event() {
            self.handle_event(now, &event, stack, streams);
        }
        self.turn_carrier(stack, streams);
        if self.verdict.is_none() && self.stands {
            self.take_input(stack, streams);
            self.give_output(stack, streams);
            self.observe(stack);
        }
    }

    /// How it went, once the connection is over.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict.clone()
    }

    /// Goes on with TLS, where there is some.
    fn turn_carrier(&mut self, stack: &mut Stack, streams: &mut Streams) {
        let Some(id) = self.id.filter(|_| self.stands && self.verdict.is_none()) else {
            return;
        };
        if let Err(error) = self.carrier.turn(stack, id) {
            stack.tcp.finish(id);
            let rest = self.carrier.readable(stack, id).to_vec();
            self.received += rest.len() as u64;
            streams.finish(rest);
            let peer = self.peer.expect("it was known when the connection began");
            self.verdict = Some(Verdict::Unsecured(peer, error));
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        event: &Event,
        stack: &mut Stack,
        streams: &mut Streams,
    ) {
        let id = event.connection;
        if event.set.contains(EventSet::ACCEPTED) {
            match self.listener.take() {
                Some(listener) => {
                    stack.tcp.close_listener(listener);
                    self.id = Some(id);
                    self.peer = stack.tcp.connection(id).map(|c| c.flow().remote());
                    self.began = now;
                }
                // It came before the listener was closed.
                None => stack.tcp.abort(id),
            }
        }
        if self.id != Some(id) {
            return;
        }
        let set = event.set;
        self.stands |= set.contains(EventSet::ACCEPTED) || set.contains(EventSet::CONNECTED);
        self.peer_finished |= event.set.contains(EventSet::FINISHED);
        if event.set.contains(EventSet::CLOSED) {
            self.closed(event.reason, stack, streams);
        }
    }

    fn closed(&mut self, reason: Reason, stack: &mut Stack, streams: &mut Streams) {
        let id = self.id.expect("it is the connection's event");
        self.observe(stack);
        let unsecured = self.carrier.turn(stack, id).err();
        let rest = self.carrier.readable(stack, id).to_vec();
        self.received += rest.len() as u64;
        streams.finish(rest);
        let peer = self.peer.expect("it was known when the connection began");
        self.verdict = Some(match (self.broken, unsecured, reason) {
            (Some(kind), ..) => Verdict::Input(kind),
            (None, Some(error), _) => Verdict::Unsecured(peer, error),
            (None, None, Reason::Done) if self.carrier.is_finished() => Verdict::Done,
            (None, None, Reason::Done) => Verdict::Cut(peer),
            (None, None, reason) => Verdict::Failed(peer, reason),
        });
    }

    /// From standard input, as far as the send queue has room.
    fn take_input(&mut self, stack: &mut Stack, streams: &mut Streams) {
        let Some(id) = self.id else { return };
        while !self.input_ended && self.carrier.is_ready() {
            let queued = stack.tcp.connection(id).map_or(0, |c| c.unacknowledged());
            if queued >= CAT_QUEUE_MAX {
                return;
            }
            match streams.take_input() {
                Input::Nothing => return,
                Input::Bytes(bytes) => {
                    let count = bytes.len() as u64;
                    if self.carrier.send(stack, id, bytes) {
                        self.queued += count;
                    }
                }
                // With TLS the rest of the answer would be lost.
                Input::End if self.carrier.is_secured() => self.input_ended = true,
                Input::End => self.finish(stack),
                Input::Broken(kind) => {
                    self.input_ended = true;
                    self.broken = Some(kind);
                    stack.tcp.abort(id);
                }
            }
        }
    }

    fn finish(&mut self, stack: &mut Stack) {
        self.input_ended = true;
        if let Some(id) = self.id {
            self.carrier.finish(stack, id, self.peer_finished);
        }
    }

    /// To standard output, as far as it takes it: what it does not stays in the receive buffer.
    fn give_output(&mut self, stack: &mut Stack, streams: &mut Streams) {
        let Some(id) = self.id else { return };
        if self.output_finished {
            return;
        }
        let bytes = self.carrier.readable(stack, id);
        let available = bytes.len();
        let Some(taken) = streams.offer(bytes) else {
            // Nobody takes the output any more: the error is told at the end.
            stack.tcp.abort(id);
            return;
        };
        self.carrier.consume(stack, id, taken);
        self.received += taken as u64;
        let is_secured = self.carrier.is_secured();
        let is_over = match is_secured {
            true => self.peer_finished || self.carrier.is_finished(),
            false => self.peer_finished,
        };
        if is_over && taken == available {
            self.output_finished = true;
            streams.finish(Vec::new());
            if self.taken || is_secured {
                self.finish(stack);
            }
        }
    }

    /// Remember what statistics will tell.
    fn observe(&mut self, stack: &Stack) {
        let Some(tcp) = self.id.and_then(|id| stack.tcp.connection(id)) else {
            return;
        };
        // Records are longer than what is in them.
        self.sent = self.queued.saturating_sub(tcp.unacknowledged() as u64);
        self.info = Some(tcp.info());
    }

    /// Give the connection up, if it is not over.
    pub fn abort(&mut self, stack: &mut Stack) {
        if let (None, Some(id)) = (&self.verdict, self.id) {
            stack.tcp.abort(id);
        }
    }

    /// Bytes that the peer has acknowledged, and bytes taken from it.
    pub fn moved(&self) -> (u64, u64) {
        (self.sent, self.received)
    }
}

/// The statistics as they are now, as text or as a line of JSON.
pub(super) fn report(cat: &Cat, as_json: bool) -> String {
    let time = clock::now() - cat.began;
    if as_json {
        statistics::line(&Report::of(cat, time))
    } else {
        text(cat, time)
    }
}

fn text(cat: &Cat, time: Duration) -> String {
    let peer = cat.peer.map_or("nobody yet".to_owned(), |p| p.to_string());
    let rate = |bytes: u64| bytes as f64 * 8.0 / time.as_secs_f64().max(1e-6) / 1e6;
    let state = cat.info.as_ref().map_or(String::new(), |i| {
        let rtt = i.rtt.map_or("unknown".to_owned(), |rtt| {
            format!("{:.2} ms", rtt.as_secs_f64() * 1e3)
        });
        format!(
            "; {}, round trip {rtt}, congestion window {} KB",
            i.state,
            i.congestion_window / 1024
        )
    });
    format!(
        "exos cat: {peer}, {:.2} s: sent {} bytes ({:.1} Mbit/s), received {} bytes ({:.1} Mbit/s){state}\n",
        time.as_secs_f64(),
        cat.sent,
        rate(cat.sent),
        cat.received,
        rate(cat.received)
    )
}

/// What `exos cat` reports, on one line of standard error for each SIGUSR1 and at the end.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// `"exos.cat.statistics/1"`.
    schema: &'static str,
    /// Address and port; `null` while nobody has connected.
    peer: Option<String>,
    /// Since the connection began (was asked for, or taken).
    seconds: f64,
    /// Data acknowledged by the peer.
    bytes_sent: u64,
    /// Data taken from it.
    bytes_received: u64,
    /// Its state as last seen; `null` before there was any.
    tcp: Option<statistics::TcpState>,
}

impl Report {
    fn of(cat: &Cat, time: Duration) -> Self {
        Self {
            schema: "exos.cat.statistics/1",
            peer: cat.peer.map(|p| p.to_string()),
            seconds: time.as_secs_f64(),
            bytes_sent: cat.sent,
            bytes_received: cat.received,
            tcp: cat.info.as_ref().map(statistics::TcpState::of),
        }
    }
}
