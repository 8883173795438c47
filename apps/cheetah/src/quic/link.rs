//! A connection of QUIC: its streams as they come, and what leaves on them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use exos_http2::allowance::Allowance;
use exos_http2::limits::RESETS;
use exos_http2::priority::Priority;
use exos_http3::control::{self, Kind, Opened};
use exos_http3::{ErrorCode, Fault, frame};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet, Reason};
use quinn_proto::{
    Connection, ConnectionHandle, Dir, Event, ReadError, StreamEvent, StreamId, VarInt, WriteError,
};

use super::counters::Counters;
use super::request::Request;
use super::requests::Requests;
use crate::limits::{
    HANDSHAKE_TIME, QUIC_EARLY_PRIORITIES, QUIC_SEND_WINDOW, QUIC_SEND_WINDOW_MIN,
    RECEIVE_BUFFER_LEN, REQUEST_TIME,
};

/// What a connection is handled with.
pub(super) struct Around<'a> {
    pub(super) now: Instant,
    /// This moment by QUIC's clock.
    pub(super) time: std::time::Instant,
    pub(super) requests: &'a mut Requests,
    /// What the server is to hear.
    pub(super) news: &'a mut News,
    pub(super) counters: &'a mut Counters,
}

/// What the server is to hear of requests.
#[derive(Default)]
pub(super) struct News(std::collections::VecDeque<exos_inet::tcp::Event>);

impl News {
    pub(super) fn tell(&mut self, connection: ConnectionId, set: EventSet, reason: Reason) {
        self.0.push_back(exos_inet::tcp::Event {
            connection,
            token: 0,
            set,
            reason,
        });
    }

    pub(super) fn pop(&mut self) -> Option<exos_inet::tcp::Event> {
        self.0.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A connection.
pub(super) struct Link {
    handle: ConnectionHandle,
    pub(super) quic: Connection,
    /// Its requests, by their streams.
    requests: BTreeMap<StreamId, ConnectionId>,
    /// The client's streams in one direction.
    others: BTreeMap<StreamId, control::Reader>,
    opened: Opened,
    /// Our control stream, and what is to be sent on it.
    control: Option<StreamId>,
    to_tell: Vec<u8>,
    /// Priorities of requests that have not begun.
    early: Vec<(u64, Priority)>,
    pub(super) peer: IpAddr,
    /// The limit of its peer's connections counts it; and it was looked whether it may.
    pub(super) is_admitted: bool,
    pub(super) was_counted: bool,
    has_stood: bool,
    /// What the handshake has come to.
    tls: Option<Arc<About>>,
    begun: Instant,
    /// When a request began or ended last.
    active: Instant,
    /// The first stream of which nothing is handled.
    next_stream: u64,
    /// Acknowledgements that had come when it was looked last.
    acks: u64,
    /// How often requests may still come to nothing.
    resets: Allowance,
    /// No more requests are wanted.
    is_going: bool,
    /// It has ended, and its requests too.
    is_over: bool,
    /// When QUIC wants to be called, as it stands among the times of all.
    pub(super) deadline: Option<std::time::Instant>,
    /// It is listed to be seen to, and to send.
    pub(super) is_listed: bool,
    pub(super) is_sending: bool,
}

impl Link {
    pub(super) fn new(handle: ConnectionHandle, quic: Connection, now: Instant) -> Link {
        Link {
            peer: quic.remote_address().ip().to_canonical(),
            handle,
            quic,
            requests: BTreeMap::new(),
            others: BTreeMap::new(),
            opened: Opened::default(),
            control: None,
            to_tell: Vec::new(),
            early: Vec::new(),
            is_admitted: false,
            was_counted: false,
            acks: 0,
            resets: Allowance::new(RESETS),
            has_stood: false,
            tls: None,
            begun: now,
            active: now,
            next_stream: 0,
            is_going: false,
            is_over: false,
            deadline: None,
            is_listed: false,
            is_sending: false,
        }
    }

    /// The client, as it is now.
    pub(super) fn remote(&self) -> SocketAddr {
        self.quic.remote_address()
    }

    /// What its handshake has come to, as soon as it is over.
    pub(super) fn tls(&self) -> Option<&Arc<About>> {
        self.tls.as_ref()
    }

    /// Its handshake came to a connection.
    pub(super) fn has_stood(&self) -> bool {
        self.has_stood
    }

    /// What QUIC has to tell.
    pub(super) fn hear(&mut self, around: &mut Around<'_>) {
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.begin(around),
                Event::ConnectionLost { reason } => {
                    around.counters.lost += u64::from(matches!(
                        reason,
                        quinn_proto::ConnectionError::TimedOut
                            | quinn_proto::ConnectionError::Reset
                            | quinn_proto::ConnectionError::TransportError(_)
                    ));
                    let reason = match reason {
                        quinn_proto::ConnectionError::TimedOut => Reason::TimedOut,
                        _ => Reason::Reset,
                    };
                    self.drop_requests(reason, around);
                }
                Event::Stream(event) if !self.is_over => {
                    if let Err(fault) = self.hear_stream(event, around) {
                        self.fail(fault, around);
                    }
                }
                Event::Stream(_)
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
    }

    /// The connection stands: the client hears our settings.
    fn begin(&mut self, around: &mut Around<'_>) {
        self.has_stood = true;
        self.active = around.now;
        around.counters.connections += 1;
        self.control = self.quic.streams().open(Dir::Uni);
        if let Some(control) = self.control {
            // Before all responses; a stream that is there can be given any priority.
            let _ = self.quic.send_stream(control).set_priority(i32::MAX);
        }
        self.to_tell.extend(frame::settings());
        if self.is_going {
            self.to_tell.extend(frame::go_away(self.next_stream));
        }
        self.tell();
    }

    fn hear_stream(&mut self, event: StreamEvent, around: &mut Around<'_>) -> Result<(), Fault> {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(stream) = self.quic.streams().accept(Dir::Bi) {
                    self.begin_request(stream, around)?;
                }
                Ok(())
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(stream) = self.quic.streams().accept(Dir::Uni) {
                    self.others.insert(stream, control::Reader::default());
                    self.receive_other(stream, around)?;
                }
                Ok(())
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.receive_other(id, around),
            StreamEvent::Readable { id } => self.receive(id, around),
            StreamEvent::Writable { id } => {
                self.write(id, around);
                Ok(())
            }
            StreamEvent::Finished { id } => {
                self.end(id, EventSet::CLOSED, Reason::Done, around);
                Ok(())
            }
            StreamEvent::Stopped { id, .. } if Some(id) == self.control => {
                Err(Fault::CriticalStream)
            }
            StreamEvent::Stopped { id, .. } => self.cancel(id, around),
            StreamEvent::Available { .. } => Ok(()),
        }
    }

    // Requests.

    fn begin_request(&mut self, stream: StreamId, around: &mut Around<'_>) -> Result<(), Fault> {
        let number = u64::from(VarInt::from(stream));
        if self.is_going && number >= self.next_stream {
            // RFC 9114 §5.2: it may be asked again elsewhere.
            self.refuse(stream, ErrorCode::REQUEST_REJECTED);
            return Ok(());
        }
        self.next_stream = self.next_stream.max(number + 4);
        let (handle, now) = (self.handle, around.now);
        let id = around
            .requests
            .add(|id| Request::new(id, handle, stream, now));
        self.requests.insert(stream, id);
        self.receive(stream, around)
    }

    /// Takes what has come of a request, as far as there is room for it.
    fn receive(&mut self, stream: StreamId, around: &mut Around<'_>) -> Result<(), Fault> {
        let Some(request) = self.requests.get(&stream) else {
            return Ok(());
        };
        let Some(request) = around.requests.find_mut(*request) else {
            return Ok(());
        };
        loop {
            let room = (RECEIVE_BUFFER_LEN as usize).saturating_sub(request.received_len());
            request.is_held = room == 0;
            if room == 0 {
                return Ok(());
            }
            let read = self.quic.recv_stream(stream).read(true).map(|mut chunks| {
                let read = chunks.next(room);
                // What it asks for leaves with the next datagram, as all that waits.
                let _ = chunks.finalize();
                read
            });
            let was_known = request.is_known;
            let came = match read {
                Ok(Ok(Some(chunk))) => request.receive(&chunk.bytes, false),
                Ok(Ok(None)) => request.receive(&[], true),
                Ok(Err(ReadError::Blocked)) | Err(_) => return Ok(()),
                Ok(Err(ReadError::Reset(_))) => {
                    return self.cancel(stream, around);
                }
            };
            let came = match came {
                Ok(came) => came,
                Err(fault) if fault.is_of_stream() => {
                    around.counters.count_fault(fault);
                    self.give_up(stream, fault.code(), around);
                    return self.spend(around);
                }
                Err(fault) => return Err(fault),
            };
            if let Some(urgency) = came.urgency {
                let number = u64::from(VarInt::from(stream));
                let early = self.early.iter().position(|(of, _)| *of == number);
                let early = early.map(|at| self.early.swap_remove(at).1.urgency);
                set_urgency(&mut self.quic, stream, early.unwrap_or(urgency));
            }
            if came.has_news && request.is_known {
                let mut set = EventSet::READABLE;
                if !was_known {
                    set = set.with(EventSet::ACCEPTED);
                    around.counters.requests += 1;
                    self.active = around.now;
                }
                if request.has_ended {
                    set = set.with(EventSet::FINISHED);
                }
                around.news.tell(request.id, set, Reason::Done);
            }
            if request.has_ended {
                return Ok(());
            }
        }
    }

    /// There is room again for what comes of a request.
    pub(super) fn receive_again(&mut self, stream: StreamId, around: &mut Around<'_>) {
        if let Err(fault) = self.receive(stream, around) {
            self.fail(fault, around);
        }
    }

    /// Gives QUIC what is queued of all requests, and of our control stream.
    pub(super) fn write_all(&mut self, around: &mut Around<'_>) {
        self.tell();
        let mut next = self.requests.range(..).next().map(|(stream, _)| *stream);
        while let Some(stream) = next {
            self.write(stream, around);
            let from = (
                std::ops::Bound::Excluded(stream),
                std::ops::Bound::Unbounded,
            );
            next = self.requests.range(from).next().map(|(stream, _)| *stream);
        }
    }

    /// Gives QUIC what is queued of a response, as much as it takes.
    fn write(&mut self, stream: StreamId, around: &mut Around<'_>) {
        let Some(id) = self.requests.get(&stream).copied() else {
            return;
        };
        let Some(request) = around.requests.find_mut(id) else {
            return;
        };
        let before = request.unsent();
        while let Some(bytes) = request.next() {
            match self.quic.send_stream(stream).write(bytes) {
                Ok(len) => request.advance(len),
                Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return self.give_up(stream, ErrorCode::REQUEST_CANCELLED, around);
                }
            }
        }
        if request.unsent() < before {
            around.news.tell(id, EventSet::ACKNOWLEDGED, Reason::Done);
        }
        if request.is_whole() && !request.is_finished {
            request.is_finished = true;
            if self.quic.send_stream(stream).finish().is_err() {
                self.give_up(stream, ErrorCode::REQUEST_CANCELLED, around);
            }
        }
    }

    /// Nothing of what comes of a request is looked at any more.
    pub(super) fn discard(&mut self, stream: StreamId) {
        // RFC 9114 §4.1: it is said with an error that is none. One that has come whole cannot be stopped, and need not.
        let code = VarInt::from_u32(ErrorCode::NO_ERROR.0);
        let _ = self.quic.recv_stream(stream).stop(code);
    }

    /// Ends a stream in both directions, if they have not ended.
    fn refuse(&mut self, stream: StreamId, code: ErrorCode) {
        let code = VarInt::from_u32(code.0);
        let _ = self.quic.recv_stream(stream).stop(code);
        let _ = self.quic.send_stream(stream).reset(code);
    }

    /// The client has given up a request.
    fn cancel(&mut self, stream: StreamId, around: &mut Around<'_>) -> Result<(), Fault> {
        if !self.requests.contains_key(&stream) {
            return Ok(());
        }
        around.counters.given_up += 1;
        self.give_up(stream, ErrorCode::REQUEST_CANCELLED, around);
        self.spend(around)
    }

    /// A request came to nothing, which may not be too often: each costs as much as one that is answered (CVE-2023-44487).
    fn spend(&mut self, around: &Around<'_>) -> Result<(), Fault> {
        match self
            .resets
            .take(RESETS, (around.now.micros() / 1_000_000) as u32)
        {
            true => Ok(()),
            false => Err(Fault::WasteFlood),
        }
    }

    /// Gives up a request: the server hears that it is over.
    fn give_up(&mut self, stream: StreamId, code: ErrorCode, around: &mut Around<'_>) {
        self.refuse(stream, code);
        self.end(stream, EventSet::CLOSED, Reason::Reset, around);
    }

    /// The server has ended a request without a response: the client hears that it is at fault.
    pub(super) fn give_up_unanswered(&mut self, stream: StreamId, around: &mut Around<'_>) {
        self.give_up(stream, ErrorCode::INTERNAL_ERROR, around);
    }

    /// The server gives a request up.
    pub(super) fn abort(&mut self, stream: StreamId, around: &mut Around<'_>) {
        self.refuse(stream, ErrorCode::INTERNAL_ERROR);
        self.end(stream, EventSet::NONE, Reason::Aborted, around);
    }

    fn end(&mut self, stream: StreamId, set: EventSet, reason: Reason, around: &mut Around<'_>) {
        let Some(id) = self.requests.remove(&stream) else {
            return;
        };
        self.active = around.now;
        let request = around.requests.remove(id);
        let is_known = request.is_some_and(|request| {
            if !request.has_ended {
                self.discard(stream);
            }
            request.is_known
        });
        if is_known && !set.is_empty() {
            around.news.tell(id, set, reason);
        }
        if self.is_going && self.requests.is_empty() {
            self.close(ErrorCode::NO_ERROR, around);
        }
    }

    fn drop_requests(&mut self, reason: Reason, around: &mut Around<'_>) {
        self.is_over = true;
        for (_, id) in std::mem::take(&mut self.requests) {
            let request = around.requests.remove(id);
            if request.is_some_and(|request| request.is_known) {
                around.news.tell(id, EventSet::CLOSED, reason);
            }
        }
    }

    /// It is no more.
    pub(super) fn abandon(&mut self, around: &mut Around<'_>) {
        self.drop_requests(Reason::Reset, around);
    }

    // The client's other streams.

    fn receive_other(&mut self, stream: StreamId, around: &mut Around<'_>) -> Result<(), Fault> {
        loop {
            let Some(reader) = self.others.get_mut(&stream) else {
                return Ok(());
            };
            let read = self.quic.recv_stream(stream).read(true).map(|mut chunks| {
                let read = chunks.next(RECEIVE_BUFFER_LEN as usize);
                let _ = chunks.finalize();
                read
            });
            let chunk = match read {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Err(ReadError::Blocked)) => return Ok(()),
                Ok(Ok(None) | Err(ReadError::Reset(_))) | Err(_) => {
                    let ended = reader.end();
                    self.others.remove(&stream);
                    return ended;
                }
            };
            let mut rest = &chunk.bytes[..];
            while let Some(event) = reader.receive(&mut rest)? {
                match event {
                    control::Event::Opened(kind) => {
                        self.opened.open(kind)?;
                        if kind == Kind::Unknown {
                            // RFC 9114 §6.2.3: nobody reads it.
                            let code = VarInt::from_u32(ErrorCode::STREAM_CREATION_ERROR.0);
                            let _ = self.quic.recv_stream(stream).stop(code);
                            self.others.remove(&stream);
                            return Ok(());
                        }
                    }
                    control::Event::Priority(of, priority) => {
                        let Ok(number) = VarInt::from_u64(of) else {
                            continue;
                        };
                        let stream = StreamId::from(number);
                        if self.requests.contains_key(&stream) {
                            set_urgency(&mut self.quic, stream, priority.urgency);
                        } else if of >= self.next_stream {
                            self.early.retain(|(other, _)| *other != of);
                            if self.early.len() < QUIC_EARLY_PRIORITIES {
                                self.early.push((of, priority));
                            }
                        }
                    }
                }
            }
            let _ = around;
        }
    }

    /// Sends what is to be said on our control stream.
    fn tell(&mut self) {
        let Some(control) = self.control.filter(|_| !self.to_tell.is_empty()) else {
            return;
        };
        // A client that leaves no room for this hears it when it does.
        if let Ok(len) = self.quic.send_stream(control).write(&self.to_tell) {
            self.to_tell.drain(..len);
        }
    }

    // Its end.

    fn fail(&mut self, fault: Fault, around: &mut Around<'_>) {
        around.counters.count_fault(fault);
        self.close(fault.code(), around);
    }

    /// Ends it, with all its requests.
    pub(super) fn close(&mut self, code: ErrorCode, around: &mut Around<'_>) {
        if self.is_over {
            return;
        }
        self.drop_requests(Reason::Reset, around);
        let code = VarInt::from_u32(code.0);
        self.quic.close(around.time, code, Bytes::new());
    }

    /// No more requests are wanted: those that are under way are answered.
    pub(super) fn go_away(&mut self, around: &mut Around<'_>) {
        if self.is_going || self.is_over {
            return;
        }
        self.is_going = true;
        if self.requests.is_empty() {
            return self.close(ErrorCode::NO_ERROR, around);
        }
        self.to_tell.extend(frame::go_away(self.next_stream));
        self.tell();
    }

    /// QUIC copies no more than some of what is under way, so that what it takes is nearly what the client takes.
    pub(super) fn bound_copies(&mut self) {
        let window = 2 * self.quic.congestion_state().window();
        let window = window.clamp(QUIC_SEND_WINDOW_MIN, QUIC_SEND_WINDOW);
        self.quic.set_send_window(window);
    }

    /// Responses go on for as long as their client acknowledges what comes, also when QUIC has all of them.
    fn tell_progress(&mut self, around: &mut Around<'_>) {
        let acks = self.quic.stats().frame_rx.acks;
        if std::mem::replace(&mut self.acks, acks) == acks {
            return;
        }
        for id in self.requests.values() {
            let request = around.requests.find(*id);
            if request.is_some_and(|it| it.is_known && it.unacknowledged() > 0) {
                around.news.tell(*id, EventSet::ACKNOWLEDGED, Reason::Done);
            }
        }
    }

    /// Ends what has waited for too long; looked at every second or so.
    pub(super) fn look(&mut self, idle: std::time::Duration, around: &mut Around<'_>) {
        let now = around.now;
        if self.is_over {
            return;
        }
        if !self.has_stood {
            if now >= self.begun + HANDSHAKE_TIME {
                around.counters.handshake_timeouts += 1;
                self.close(ErrorCode::NO_ERROR, around);
            }
            return;
        }
        self.tell_progress(around);
        let is_late = |id: &ConnectionId| {
            let request = around.requests.find(*id);
            request.is_some_and(|it| !it.is_known && now >= it.begun + REQUEST_TIME)
        };
        let late = self.requests.iter().filter(|(_, id)| is_late(id));
        let late: Vec<StreamId> = late.map(|(stream, _)| *stream).collect();
        for stream in late {
            around.counters.request_timeouts += 1;
            self.give_up(stream, ErrorCode::REQUEST_INCOMPLETE, around);
        }
        if self.requests.is_empty() && now >= self.active + idle {
            around.counters.idle_timeouts += 1;
            self.close(ErrorCode::NO_ERROR, around);
        }
    }
}

/// QUIC sends streams of a higher number first.
fn set_urgency(quic: &mut Connection, stream: StreamId, urgency: u8) {
    // A stream that has ended needs none.
    let _ = quic.send_stream(stream).set_priority(-i32::from(urgency));
}
