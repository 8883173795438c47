//! A connection of QUIC: its requests as they come, what leaves of their responses, and its end.

mod ends;

use std::net::IpAddr;
use std::sync::Arc;

use exos_http2::allowance::Allowance;
use exos_http2::limits::RESETS;
use exos_http3::{ErrorCode, Fault, frame};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet, Reason};
use exos_tls::About;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, Dir, Event, ReadError, StreamEvent, StreamId,
    VarInt, WriteError,
};

use super::control::Control;
use super::handshake;
use super::request::Came;
use super::shared::Shared;
use super::streams::Streams;
use super::waiting::Waiting;
use crate::limits::{HANDSHAKE_TIME, QUIC_SEND_WINDOW, QUIC_SEND_WINDOW_MIN};

/// What was read of a request.
enum Read {
    /// All that has come, or for which there is room.
    Some,
    /// The client gives it up.
    Reset,
}

/// A connection.
pub(super) struct Link {
    handle: ConnectionHandle,
    pub(super) quic: Connection,
    /// Its requests, by their streams.
    requests: Streams,
    /// Its streams in one direction.
    control: Control,
    pub(super) peer: IpAddr,
    /// The limit of its peer's connections counts it; and it was looked whether it may.
    pub(super) is_admitted: bool,
    pub(super) was_counted: bool,
    /// Its peer was known to receive at its address before it began.
    pub(super) is_validated: bool,
    /// It counts among its peer's that bring early data from an address that need not be its own.
    pub(super) is_among_early: bool,
    /// A request came before its handshake was over.
    pub(super) is_early: bool,
    /// Its handshake came to a connection.
    pub(super) has_stood: bool,
    /// What its handshake has come to, as soon as there can be requests.
    pub(super) tls: Option<Arc<About>>,
    begun: Instant,
    /// When a request began or ended last.
    active: Instant,
    /// The first stream of which nothing is handled.
    next_stream: u64,
    /// Acknowledgements that had come when it was looked last.
    acks: u64,
    /// What of its requests waits for the server.
    waiting: Waiting,
    /// Streams of requests whose responses have something queued.
    queued: Vec<StreamId>,
    /// How often requests may still come to nothing.
    resets: Allowance,
    /// No more requests are wanted.
    is_going: bool,
    /// It has ended, and its requests too.
    is_over: bool,
    /// It is listed to be seen to.
    pub(super) is_listed: bool,
}

impl exos_quic::Link for Link {
    fn quic(&mut self) -> &mut Connection {
        &mut self.quic
    }

    /// QUIC copies no more than some of what is under way, so that what it takes is nearly what the client takes.
    fn has_sent(&mut self) {
        let window = 2 * self.quic.congestion_state().window();
        let window = window.clamp(QUIC_SEND_WINDOW_MIN, QUIC_SEND_WINDOW);
        self.quic.set_send_window(window);
    }
}

impl Link {
    pub(super) fn new(
        handle: ConnectionHandle,
        quic: Connection,
        is_validated: bool,
        now: Instant,
    ) -> Link {
        Link {
            peer: quic.remote_address().ip().to_canonical(),
            handle,
            quic,
            requests: Streams::default(),
            control: Control::default(),
            is_admitted: false,
            was_counted: false,
            is_validated,
            is_among_early: false,
            acks: 0,
            waiting: Waiting::default(),
            queued: Vec::new(),
            resets: Allowance::new(RESETS),
            is_early: false,
            has_stood: false,
            tls: None,
            begun: now,
            active: now,
            next_stream: 0,
            is_going: false,
            is_over: false,
            is_listed: false,
        }
    }

    /// Requests may come.
    pub(super) fn may_ask(&self) -> bool {
        self.has_stood || self.quic.has_0rtt()
    }

    /// What QUIC has to tell.
    pub(super) fn hear(&mut self, shared: &mut Shared) {
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.begin(shared),
                Event::ConnectionLost { reason } => {
                    use ConnectionError::{Reset, TimedOut, TransportError};
                    let is_lost = matches!(reason, TimedOut | Reset | TransportError(_));
                    shared.counters.lost += u64::from(is_lost);
                    let reason = match reason {
                        TimedOut => Reason::TimedOut,
                        _ => Reason::Reset,
                    };
                    self.drop_requests(reason, shared);
                }
                Event::Stream(event) if !self.is_over => {
                    self.say_settings();
                    if let Err(fault) = self.hear_stream(event, shared) {
                        self.fail(fault, shared);
                    }
                }
                Event::Stream(_)
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
    }

    /// The connection stands.
    fn begin(&mut self, shared: &mut Shared) {
        self.has_stood = true;
        self.active = shared.now;
        shared.counters.connections += 1;
        shared.counters.early += u64::from(self.is_early);
        self.say_settings();
    }

    /// The client hears our settings, if it has not: with the first request where that is early data.
    fn say_settings(&mut self) {
        if self.tls.is_some() {
            return;
        }
        self.tls = Some(Arc::new(handshake::told(&self.quic)));
        self.control.open(&mut self.quic);
        self.control.push(frame::settings());
        if self.is_going {
            self.control.push(frame::go_away(self.next_stream));
        }
        self.control.send(&mut self.quic);
    }

    fn hear_stream(&mut self, event: StreamEvent, shared: &mut Shared) -> Result<(), Fault> {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(stream) = self.quic.streams().accept(Dir::Bi) {
                    self.begin_request(stream, shared)?;
                }
                Ok(())
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(stream) = self.quic.streams().accept(Dir::Uni) {
                    self.control.add(stream);
                    self.receive_control(stream)?;
                }
                Ok(())
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.receive_control(id),
            StreamEvent::Readable { id } => self.receive(id, shared),
            StreamEvent::Writable { id } => {
                self.write(id, shared);
                Ok(())
            }
            StreamEvent::Finished { id } => {
                self.end(id, EventSet::CLOSED, Reason::Done, shared);
                Ok(())
            }
            StreamEvent::Stopped { id, .. } if self.control.is_ours(id) => {
                Err(Fault::CriticalStream)
            }
            StreamEvent::Stopped { id, .. } => self.cancel(id, shared),
            StreamEvent::Available { .. } => Ok(()),
        }
    }

    /// Reads what has come on a stream of the client's in one direction.
    fn receive_control(&mut self, stream: StreamId) -> Result<(), Fault> {
        let requests = &self.requests;
        let has_begun = |stream| requests.get(stream).is_some();
        self.control
            .receive(&mut self.quic, stream, self.next_stream, has_begun)
    }

    // Requests.

    fn begin_request(&mut self, stream: StreamId, shared: &mut Shared) -> Result<(), Fault> {
        self.is_early |= !self.has_stood;
        let number = u64::from(VarInt::from(stream));
        if self.is_going && number >= self.next_stream {
            // RFC 9114 §5.2: it may be asked again elsewhere.
            self.refuse(stream, ErrorCode::REQUEST_REJECTED);
            return Ok(());
        }
        self.next_stream = self.next_stream.max(number + 4);
        let id = shared.requests.add(self.handle, stream, shared.now);
        self.requests.push(stream, id);
        self.receive(stream, shared)
    }

    /// Takes what has come of a request, as far as there is room for it.
    fn receive(&mut self, stream: StreamId, shared: &mut Shared) -> Result<(), Fault> {
        let request = self.requests.get(stream);
        let Some(request) = request.and_then(|id| shared.requests.find_mut(id)) else {
            return Ok(());
        };
        let mut incoming = self.quic.recv_stream(stream);
        let Ok(mut chunks) = incoming.read(true) else {
            return Ok(());
        };
        let was_known = request.is_known;
        let mut came = Came::default();
        let read = loop {
            let before = request.waiting_len();
            let room = self.waiting.room(before);
            request.is_held = room == 0;
            if room == 0 {
                break Ok(Read::Some);
            }
            let heads = &mut shared.heads;
            let received = match chunks.next(room) {
                Ok(Some(chunk)) => request.receive(&chunk.bytes, false, heads),
                Ok(None) => request.receive(&[], true, heads),
                Err(ReadError::Blocked) => break Ok(Read::Some),
                Err(ReadError::Reset(_)) => break Ok(Read::Reset),
            };
            self.waiting.came(request.waiting_len() - before);
            match received {
                Ok(more) => came.add(more),
                Err(fault) => break Err(fault),
            }
            if request.has_ended {
                break Ok(Read::Some);
            }
        };
        // What it asks for leaves with the next datagram, as all that waits.
        let _ = chunks.finalize();
        if let Some(urgency) = came.urgency {
            self.control.begin_request(&mut self.quic, stream, urgency);
        }
        if came.has_news && request.is_known {
            let mut set = EventSet::READABLE;
            if !was_known {
                set = set.with(EventSet::ACCEPTED);
                shared.counters.requests += 1;
                self.active = shared.now;
            }
            if request.has_ended {
                set = set.with(EventSet::FINISHED);
            }
            shared.news.tell(request.id, set, Reason::Done);
        }
        match read {
            Ok(Read::Some) => Ok(()),
            Ok(Read::Reset) => self.cancel(stream, shared),
            Err(fault) if fault.is_of_stream() => {
                shared.counters.count_fault(fault);
                self.give_up(stream, fault.code(), shared);
                self.spend(shared)
            }
            Err(fault) => Err(fault),
        }
    }

    /// The server has taken some of what waits: there is room again for what comes of requests.
    pub(super) fn consumed(&mut self, len: usize, shared: &mut Shared) {
        if !self.waiting.taken(len) {
            return;
        }
        let is_held = |id: ConnectionId| shared.requests.find(id).is_some_and(|it| it.is_held);
        let held = self.requests.iter().filter(|(_, id)| is_held(*id));
        let held: Vec<StreamId> = held.map(|(stream, _)| stream).collect();
        for stream in held {
            if let Err(fault) = self.receive(stream, shared) {
                return self.fail(fault, shared);
            }
        }
    }

    /// Something of this request's response is queued, to be written by [`write_all`](Self::write_all).
    pub(super) fn queue(&mut self, stream: StreamId) {
        if self.queued.last() != Some(&stream) {
            self.queued.push(stream);
        }
    }

    /// Gives QUIC what is queued of responses, and of our control stream. What it does not take it asks for later.
    pub(super) fn write_all(&mut self, shared: &mut Shared) {
        self.control.send(&mut self.quic);
        let mut queued = std::mem::take(&mut self.queued);
        queued
            .drain(..)
            .for_each(|stream| self.write(stream, shared));
        self.queued = queued;
    }

    /// Gives QUIC what is queued of a response, as much as it takes.
    fn write(&mut self, stream: StreamId, shared: &mut Shared) {
        let Some(id) = self.requests.get(stream) else {
            return;
        };
        let Some(request) = shared.requests.find_mut(id) else {
            return;
        };
        let before = request.unsent();
        let mut out = self.quic.send_stream(stream);
        loop {
            match request.write(&mut out) {
                Ok(true) => {}
                Ok(false) | Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return self.give_up(stream, ErrorCode::REQUEST_CANCELLED, shared);
                }
            }
        }
        if request.unsent() < before {
            shared.news.tell(id, EventSet::ACKNOWLEDGED, Reason::Done);
        }
        if request.is_whole() && !request.is_finished {
            request.is_finished = true;
            if self.quic.send_stream(stream).finish().is_err() {
                self.give_up(stream, ErrorCode::REQUEST_CANCELLED, shared);
            }
        }
    }

    /// Responses go on for as long as their client acknowledges what comes, also when QUIC has all of them.
    fn tell_progress(&mut self, shared: &mut Shared) {
        let acks = self.quic.stats().frame_rx.acks;
        if std::mem::replace(&mut self.acks, acks) == acks {
            return;
        }
        for (_, id) in self.requests.iter() {
            let request = shared.requests.find(id);
            if request.is_some_and(|it| it.is_known && it.unacknowledged() > 0) {
                shared.news.tell(id, EventSet::ACKNOWLEDGED, Reason::Done);
            }
        }
    }

    /// Ends what has waited for too long; looked at every second or so.
    pub(super) fn look(&mut self, idle: std::time::Duration, shared: &mut Shared) {
        let now = shared.now;
        if self.is_over {
            return;
        }
        if !self.has_stood {
            if now >= self.begun + HANDSHAKE_TIME {
                shared.counters.handshake_timeouts += 1;
                self.close(ErrorCode::NO_ERROR, shared);
            }
            return;
        }
        self.tell_progress(shared);
        let is_late = |id| shared.requests.is_late(id, now);
        let late = self.requests.iter().filter(|(_, id)| is_late(*id));
        let late: Vec<StreamId> = late.map(|(stream, _)| stream).collect();
        for stream in late {
            shared.counters.request_timeouts += 1;
            self.give_up(stream, ErrorCode::REQUEST_INCOMPLETE, shared);
        }
        let is_idle = now >= self.active + idle;
        if self.requests.is_empty() && (self.is_going || is_idle) {
            shared.counters.idle_timeouts += u64::from(!self.is_going);
            self.close(ErrorCode::NO_ERROR, shared);
        }
    }
}
