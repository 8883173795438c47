//! One connection of the server, or one stream of a connection of HTTP/2: requests to HTTP, its responses to the transport, what it
//! waits for, and its end.
//!
//! A stream is what a connection is that has one request, and is carried by the connection's frames: see [`super::http2`].

mod ending;
mod serving;

use std::net::IpAddr;

use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet};

use super::answering::Answering;
use super::bounds::Pace;
use super::http2::Http2;
use super::sent::Sent;
use super::shared::Shared;
use super::stream::Stream;
use super::transport::Transport;
use super::wait::Wait;
use crate::http::asking::ToldEnds;
use crate::http::{Attempt, Missing, Server, ServerConnection};
use crate::limits::REQUEST_TIME;
use crate::message::Version;
use crate::site::Wanted;

/// What is to be done with a connection, or a stream of one, that has waited.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task<'a> {
    /// What it waits for has not come in time.
    EndWait,
    /// Something has become of the document that it waits for; this is what could not be read.
    Resume(Option<&'a Wanted>),
    /// What it sends has been read, or there is memory for it, of which it has waited longest.
    SendOn { is_first: bool },
    /// What it sends is not there any more.
    BreakOff,
    /// The application that answers it has said something.
    GoOnAnswering,
    /// It has had its turn, and others theirs: more of its requests are there.
    ReadOn,
}

impl Task<'_> {
    pub(super) fn run<T: Transport>(
        self,
        connection: &mut Connection,
        turn: &mut Turn<'_, T>,
    ) -> Outcome {
        match self {
            Task::EndWait => connection.end_wait(turn),
            Task::Resume(failed) => connection.resume(failed, turn),
            Task::SendOn { is_first } => connection.send_on(is_first, turn).into(),
            Task::BreakOff => connection.break_off(turn),
            Task::GoOnAnswering => connection.go_on_answering(turn),
            Task::ReadOn => connection.handle_event(EventSet::NONE.with(EventSet::READABLE), turn),
        }
    }
}

/// What is told to one that speaks HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// Something has happened.
    Events(EventSet),
    /// What it waits for has not come in time.
    Late,
    /// No further requests are wanted.
    Stop,
}

/// What a connection is handled with.
pub(super) struct Turn<'a, T> {
    pub(super) now: Instant,
    pub(super) shared: &'a mut Shared,
    pub(super) transport: &'a mut T,
}

/// What became of a connection that was handled.
pub(super) enum Outcome {
    /// It goes on, or ends in order.
    GoesOn,
    /// Its first request waits for this.
    Waits(Box<Missing>),
    /// It is to be reset.
    Broken,
    /// It speaks HTTP/2, and this is about all of its streams.
    Http2(Told),
}

impl From<Option<Box<Missing>>> for Outcome {
    fn from(missing: Option<Box<Missing>>) -> Outcome {
        missing.map_or(Outcome::GoesOn, Outcome::Waits)
    }
}

pub(super) struct Connection {
    id: ConnectionId,
    http: ServerConnection,
    wait: Wait,
    deadline: Instant,
    /// Its session has to stand by then, whatever it waits for: its first requests have come before that did.
    secure_by: Option<Instant>,
    /// When the first bytes of the present request came.
    begun: Instant,
    /// Bytes queued so far, and how fast the client takes them.
    pub(super) given: u64,
    /// Bytes of these that were counted as taken.
    counted: u64,
    pace: Pace,
    /// Who the client is.
    peer: IpAddr,
    /// The limit of its peer's connections counts it.
    is_admitted: bool,
    /// Nobody reads on the way what is sent.
    is_encrypted: bool,
    /// Its session of TLS has failed: nothing more is told of it.
    has_failed: bool,
    /// It is a stream of another connection, of this version.
    on_stream: Option<Version>,
    /// Requests wait to be read for room in the send queue.
    held: bool,
    /// The client has finished.
    client_finished: bool,
    /// We have finished.
    finished: bool,
    /// Its client has not taken in time what it was sent.
    is_untaken: bool,
    /// What it has of a long file, where it has anything.
    pub(super) stream: Option<Box<Stream>>,
    /// The request that an application answers, where one does.
    pub(super) answering: Option<Box<Answering>>,
    /// Its ends, as applications were told of them.
    pub(super) told_ends: Option<Box<ToldEnds>>,
    /// What it has of its streams, where it speaks HTTP/2.
    pub(super) http2: Option<Box<Http2>>,
}

impl exos_program::Timed for Connection {
    #[inline]
    fn id(&self) -> ConnectionId {
        self.id
    }

    #[inline]
    fn deadline(&self) -> Instant {
        let secure_by = self.secure_by.unwrap_or(self.deadline);
        self.deadline.min(secure_by)
    }
}

impl Connection {
    /// A connection on which nothing has been received; `is_admitted` where the limit of its peer's connections counts it.
    #[inline]
    pub(super) fn new(
        id: ConnectionId,
        peer: IpAddr,
        is_admitted: bool,
        now: Instant,
    ) -> Connection {
        let wait = Wait::Request;
        Connection {
            id,
            http: ServerConnection::new(),
            wait,
            deadline: now + wait.time(),
            secure_by: None,
            begun: now,
            given: 0,
            counted: 0,
            pace: Pace::new(now, 0),
            peer,
            is_admitted,
            is_encrypted: false,
            has_failed: false,
            on_stream: None,
            held: false,
            client_finished: false,
            finished: false,
            is_untaken: false,
            stream: None,
            answering: None,
            told_ends: None,
            http2: None,
        }
    }

    /// A stream of a connection, whose request has come.
    pub(super) fn stream_of(
        connection: &Connection,
        id: ConnectionId,
        http: ServerConnection,
        now: Instant,
    ) -> Connection {
        Connection {
            http,
            is_encrypted: connection.is_encrypted,
            on_stream: Some(Version::Http2),
            ..Connection::new(id, connection.peer, false, now)
        }
    }

    /// A request of HTTP/3, which has come.
    pub(super) fn request(id: ConnectionId, peer: IpAddr, now: Instant) -> Connection {
        Connection {
            is_encrypted: true,
            on_stream: Some(Version::Http3),
            ..Connection::new(id, peer, false, now)
        }
    }

    /// Whether nobody reads on the way what is sent.
    #[inline]
    #[must_use]
    pub(super) fn encrypted(mut self, is_encrypted: bool) -> Connection {
        self.is_encrypted = is_encrypted;
        if is_encrypted {
            self.wait(self.begun, Wait::Handshake);
        }
        self
    }

    // Getters.

    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    pub(super) fn waits_for(&self) -> Wait {
        self.wait
    }

    pub(super) fn has_client_finished(&self) -> bool {
        self.client_finished
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// It is a stream of another connection.
    pub(super) fn is_stream(&self) -> bool {
        self.on_stream.is_some()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    pub(super) fn note_client_finished(&mut self) {
        self.client_finished = true;
    }

    pub(super) fn http_mut(&mut self) -> &mut ServerConnection {
        &mut self.http
    }

    /// A response is under way, or being fetched.
    pub(super) fn is_busy(&self) -> bool {
        let is_waiting =
            self.wait.is_for_content() || matches!(self.wait, Wait::Sending | Wait::Reading);
        let is_answering = self.answering.is_some();
        is_waiting || is_answering || self.http2.as_ref().is_some_and(|it| it.is_busy())
    }

    /// A response is under way of which not all is queued.
    #[inline]
    pub(super) fn is_streaming(&self) -> bool {
        self.stream.as_ref().is_some_and(|s| s.is_under_way())
    }

    /// Requests wait for room, for a document, or behind one that is read while it is sent.
    fn waits_to_serve(&self) -> bool {
        self.held || self.wait.is_for_content() || self.is_streaming() || self.answering.is_some()
    }

    // Waiting.

    pub(super) fn wait(&mut self, now: Instant, wait: Wait) {
        self.wait = wait;
        self.deadline = now + wait.time();
    }

    /// A request waits for this. For an answer it does so from when it came, however often it is looked for.
    pub(super) fn wait_for_content(&mut self, missing: &Missing, now: Instant) {
        match Wait::for_missing(missing) {
            Wait::Answer => self.wait_until(Wait::Answer, self.begun + Wait::Answer.time()),
            wait => self.wait(now, wait),
        }
    }

    pub(super) fn wait_until(&mut self, wait: Wait, deadline: Instant) {
        (self.wait, self.deadline) = (wait, deadline);
    }

    /// A connection that stands as the kernel has left it: with this response under way.
    pub(super) fn goes_on_behind<T: Transport>(&mut self, sent: Sent, turn: &mut Turn<'_, T>) {
        // The kernel's answers are counted apart.
        (self.given, self.counted) = (sent.len, sent.len);
        self.begin_pace(turn.now);
        self.wait(turn.now, Wait::Sending);
        let server = &mut turn.shared.server;
        self.http
            .goes_on_behind(server, self.peer, sent.len, sent.logged);
        if sent.closes {
            self.finish(turn);
        }
    }

    // What arrives.

    /// News of it, but that it stands or is over.
    pub(super) fn handle_event<T: Transport>(
        &mut self,
        set: EventSet,
        turn: &mut Turn<'_, T>,
    ) -> Outcome {
        if self.http2.is_some() {
            return Outcome::Http2(Told::Events(set));
        }
        if self.is_encrypted && self.ends_failed(turn) {
            return Outcome::GoesOn;
        }
        if self.wait == Wait::Handshake && set.contains(EventSet::READABLE) {
            let is_early = turn.transport.is_handshaking(self.id);
            self.secure_by = is_early.then_some(self.deadline);
            self.wait_until(Wait::Request, self.begun + REQUEST_TIME);
        }
        let may_be_http2 = self.is_encrypted && self.given == 0 && self.on_stream.is_none();
        if may_be_http2 && turn.transport.speaks_http2(self.id) {
            self.http2 = Some(Box::new(Http2::new(turn.now)));
            return Outcome::Http2(Told::Events(set));
        }
        self.client_finished |= set.contains(EventSet::FINISHED);
        let acknowledged = set.contains(EventSet::ACKNOWLEDGED);
        let has_stream = self.stream.is_some();
        // Behind a request that waits for its document, all others wait.
        let may_serve = !self.finished && !self.wait.is_for_content() && !self.is_streaming();
        let was_answering = self.answering.is_some();
        let arrived = set.contains(EventSet::READABLE) && may_serve && !was_answering;
        let mut missing = None;
        if was_answering {
            match self.go_on_answering(turn) {
                Outcome::GoesOn => {}
                Outcome::Waits(waits) => missing = Some(waits),
                other @ (Outcome::Broken | Outcome::Http2(_)) => return other,
            }
        }
        if arrived || (acknowledged && self.held) {
            missing = self.serve(Attempt::default(), turn);
            if self.http2.is_some() {
                return Outcome::Http2(Told::Events(set));
            }
        }
        if has_stream && acknowledged {
            self.release_acknowledged(turn);
            missing = missing.or(self.send_on(false, turn));
        }
        match self.follow(acknowledged, turn) {
            true => missing.into(),
            false => Outcome::Broken,
        }
    }

    /// What follows from acknowledgements and from the client's end; false when the client takes its responses too slowly.
    fn follow<T: Transport>(&mut self, acknowledged: bool, turn: &mut Turn<'_, T>) -> bool {
        let (now, shared) = (turn.now, &mut *turn.shared);
        let pending = turn.transport.unacknowledged(self.id);
        if acknowledged {
            let left = self.stream.as_ref().map_or(0, |s| s.left());
            let left = pending + left as usize;
            self.http.acknowledged(&mut shared.server, left);
        }
        let taken = self.given - pending as u64;
        self.count_taken(taken, &mut shared.server);
        // Which of its streams a client takes first is not its choice alone: their connection has a pace.
        let has_pace = acknowledged && pending > 0 && self.on_stream != Some(Version::Http2);
        if has_pace && self.pace.is_too_slow(&shared.bounds, now, taken) {
            shared.counters.slow_readers += 1;
            return false;
        }
        if self.finished {
            // The last response is under way, and its client may take it as slowly as any other.
            if acknowledged {
                self.wait_for_the_end(turn);
            }
        } else if self.client_finished && !self.waits_to_serve() {
            // Whatever is queued still goes; nothing more will be asked for.
            self.finish(turn);
        } else if self.wait == Wait::Sending && acknowledged {
            let is_streaming = self.is_streaming();
            let wait = if pending > 0 {
                Wait::Sending
            } else if self.wait_for_more(now, &shared.applications) {
                return true;
            } else if is_streaming {
                self.wait_for_chunks()
            } else if self.http.is_between_requests() {
                Wait::Idle
            } else {
                // The next request has begun already, behind the one that was answered.
                Wait::Request
            };
            self.wait(now, wait);
            if pending == 0 && shared.stopping && !is_streaming {
                self.finish(turn);
            }
        }
        true
    }

    /// The client has taken this many bytes of all that it was given. Those of a stream of HTTP/2 are counted with its
    /// connection's.
    fn count_taken(&mut self, bytes: u64, server: &mut Server) {
        let new = bytes.saturating_sub(self.counted);
        self.counted += new;
        if self.on_stream != Some(Version::Http2) {
            server.count_taken(new);
        }
    }

    /// What was acknowledged of all that it was given, where its streams look to the rest: false when its client takes that too
    /// slowly.
    pub(super) fn follow_frames<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> bool {
        let (now, shared) = (turn.now, &mut *turn.shared);
        let pending = turn.transport.unacknowledged(self.id);
        let taken = self.given - pending as u64;
        self.http.acknowledged_until(&mut shared.server, taken);
        self.count_taken(taken, &mut shared.server);
        let is_too_slow = pending > 0 && self.pace.is_too_slow(&shared.bounds, now, taken);
        shared.counters.slow_readers += u64::from(is_too_slow);
        !is_too_slow
    }
}
