//! One connection of the server: requests to HTTP, its responses to the transport, what it waits for, and its end.

use std::net::IpAddr;

use exos::requests::Requests;
use exos_buf::Slice;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet};

use super::answering::Answering;
use super::bounds::{Bounds, Pace};
use super::in_kernel::InKernel;
use super::sent::{Sent, SentByKernel};
use super::stream::Stream;
use super::transport::Transport;
use super::wait::{Ends, Wait};
use crate::applications::Applications;
use crate::http::{Attempt, Missing, Next, Server, ServerConnection};
use crate::limits::{QUEUE_LEN_MAX, REQUEST_TIME};
use crate::message::Status;
use crate::site::Wanted;
use crate::stream::Streams;

/// Who was sent away, by name.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) fetch_failures: u64,
    pub(super) peer_refusals: u64,
    pub(super) slow_readers: u64,
    pub(super) slow_heads: u64,
    pub(super) broken_off: u64,
    pub(super) application_failures: u64,
    pub(super) upstream_failures: u64,
    /// Requests that went to another upstream, or once more to one.
    pub(super) upstream_retries: u64,
    /// Changes of protocol.
    pub(super) tunnels: u64,
}

/// What all connections of a loop share.
pub(super) struct Shared {
    pub(super) server: Server,
    pub(super) streams: Streams,
    pub(super) applications: Applications,
    pub(super) bounds: Bounds,
    pub(super) ends: Ends,
    pub(super) counters: Counters,
    /// No further requests are wanted.
    pub(super) stopping: bool,
    pub(super) out: Vec<Slice>,
    /// Where the kernel answers, too.
    pub(super) in_kernel: Option<InKernel>,
    pub(super) sent_by_kernel: SentByKernel,
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
    /// Requests wait to be read for room in the send queue.
    held: bool,
    /// The client has finished.
    client_finished: bool,
    /// We have finished.
    finished: bool,
    /// What it has of a long file, where it has anything.
    pub(super) stream: Option<Box<Stream>>,
    /// The request that an application answers, where one does.
    pub(super) answering: Option<Box<Answering>>,
}

impl exos_program::Timed for Connection {
    #[inline]
    fn id(&self) -> ConnectionId {
        self.id
    }

    #[inline]
    fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Connection {
    /// A connection on which nothing has been received; `is_admitted` where the limit of its peer's connections counts it.
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
            begun: now,
            given: 0,
            counted: 0,
            pace: Pace::new(now, 0),
            peer,
            is_admitted,
            is_encrypted: false,
            has_failed: false,
            held: false,
            client_finished: false,
            finished: false,
            stream: None,
            answering: None,
        }
    }

    /// Whether nobody reads on the way what is sent.
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

    pub(super) fn http_mut(&mut self) -> &mut ServerConnection {
        &mut self.http
    }

    /// A response is under way, or being fetched.
    pub(super) fn is_busy(&self) -> bool {
        let is_waiting = matches!(self.wait, Wait::Sending | Wait::Fetching | Wait::Reading);
        is_waiting || self.answering.is_some()
    }

    /// A response is under way of which not all is queued.
    #[inline]
    pub(super) fn is_streaming(&self) -> bool {
        self.stream.as_ref().is_some_and(|s| s.is_under_way())
    }

    /// Requests wait for room, for a document, or behind one that is read while it is sent.
    fn waits_to_serve(&self) -> bool {
        self.held || self.wait == Wait::Fetching || self.is_streaming() || self.answering.is_some()
    }

    // Waiting.

    pub(super) fn wait(&mut self, now: Instant, wait: Wait) {
        self.wait = wait;
        self.deadline = now + wait.time();
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
        if self.is_encrypted && self.ends_failed(turn) {
            return Outcome::GoesOn;
        }
        if self.wait == Wait::Handshake && set.contains(EventSet::READABLE) {
            self.wait_until(Wait::Request, self.begun + REQUEST_TIME);
        }
        self.client_finished |= set.contains(EventSet::FINISHED);
        let acknowledged = set.contains(EventSet::ACKNOWLEDGED);
        let has_stream = self.stream.is_some();
        // Behind a request that waits for its document, all others wait.
        let may_serve = !self.finished && self.wait != Wait::Fetching && !self.is_streaming();
        let was_answering = self.answering.is_some();
        let arrived = set.contains(EventSet::READABLE) && may_serve && !was_answering;
        let mut missing = None;
        if was_answering {
            match self.go_on_answering(turn) {
                Outcome::GoesOn => {}
                Outcome::Waits(waits) => missing = Some(waits),
                Outcome::Broken => return Outcome::Broken,
            }
        }
        if arrived || (acknowledged && self.held) {
            missing = self.serve(Attempt::default(), turn);
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
        let new = self.taken(taken);
        shared.server.count_taken(new);
        if acknowledged && pending > 0 && self.pace.is_too_slow(&shared.bounds, now, taken) {
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
                Wait::Reading
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

    /// The client has taken this many bytes of all that it was given; gives how many are new.
    fn taken(&mut self, bytes: u64) -> u64 {
        let new = bytes.saturating_sub(self.counted);
        self.counted += new;
        new
    }

    /// Ends it, if its session has failed: its client hears why, and will not take what it has not taken.
    fn ends_failed<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> bool {
        if self.has_failed || !turn.transport.has_failed(self.id) {
            return self.has_failed;
        }
        self.has_failed = true;
        let pending = turn.transport.unacknowledged(self.id);
        let new = self.taken(self.given.saturating_sub(pending as u64));
        turn.shared.server.count_taken(new);
        self.abandon_answering(turn.shared);
        let left = self.stream.as_ref().map_or(0, |s| s.left()) as usize;
        let server = &mut turn.shared.server;
        self.http.acknowledged(server, pending + left);
        self.http.end(server);
        if let Some(stream) = self.stream.take() {
            stream.end(&mut turn.shared.streams);
        }
        self.finish(turn);
        if self.wait != Wait::Handshake {
            self.wait(turn.now, Wait::Lingering);
        }
        true
    }

    /// What it waits for has not come in time.
    pub(super) fn end_wait<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> Outcome {
        let is_idle = self.http.is_between_requests();
        if self.wait == Wait::Handshake && !turn.transport.is_handshaking(self.id) {
            self.wait_until(Wait::Request, self.begun + REQUEST_TIME);
            return Outcome::GoesOn;
        }
        // A head that was given less time came too slowly.
        let is_slow_head = self.wait == Wait::Request
            && !is_idle
            && turn.shared.bounds.head_rate.is_some()
            && turn.now < self.begun + REQUEST_TIME;
        if is_slow_head {
            turn.shared.counters.slow_heads += 1;
        } else {
            turn.shared.ends.count(self.wait, is_idle);
        }
        match self.wait {
            Wait::Request if !is_idle => self.give_up(Status::RequestTimeout, turn),
            Wait::Fetching => self.give_up(Status::ServiceUnavailable, turn),
            Wait::Request | Wait::Idle => self.finish(turn),
            Wait::Body | Wait::Application | Wait::Upstream | Wait::Tunnel => {
                return self.end_wait_answering(turn);
            }
            Wait::Sending | Wait::Reading | Wait::Lingering | Wait::Handshake => {
                return Outcome::Broken;
            }
        }
        Outcome::GoesOn
    }

    // Requests.

    /// Answers a request that has waited, and those behind it; `failed` is what could not be read.
    pub(super) fn resume<T: Transport>(
        &mut self,
        failed: Option<&Wanted>,
        turn: &mut Turn<'_, T>,
    ) -> Outcome {
        self.wait(turn.now, Wait::Sending);
        let missing = self.serve(Attempt::after_waiting(failed), turn);
        self.finish_if_the_client_has(turn);
        missing.into()
    }

    /// Hands the readable bytes to HTTP, and its responses to the transport. Gives what the first request left waits for.
    pub(super) fn serve<T: Transport>(
        &mut self,
        mut attempt: Attempt,
        turn: &mut Turn<'_, T>,
    ) -> Option<Box<Missing>> {
        loop {
            match self.serve_some(attempt, turn) {
                Served::TailQueued => attempt.has_waited = false,
                Served::AllThereIs => return None,
                Served::Waits(missing) => return Some(missing),
            }
        }
    }

    /// Hands the readable bytes to HTTP, up to a response whose content is to be read.
    fn serve_some<T: Transport>(&mut self, attempt: Attempt, turn: &mut Turn<'_, T>) -> Served {
        let (now, id) = (turn.now, self.id);
        let (shared, transport) = (&mut *turn.shared, &mut *turn.transport);
        let queued = transport.unacknowledged(id);
        let room = QUEUE_LEN_MAX.saturating_sub(queued);
        let bytes = transport.readable(id);
        let has_waited = attempt.has_waited || self.held;
        if self.http.is_between_requests() && !has_waited {
            self.begun = now;
        }
        let attempt = attempt.of(self.peer, self.begun, now);
        let attempt = attempt.by_https(self.is_encrypted);
        let bytes_len = bytes.len();
        let http = &mut self.http;
        let hits = shared.server.counters().cache_hits;
        let handled = http.handle_again(&mut shared.server, bytes, room, attempt, &mut shared.out);
        // No other is rendered for the kernel, so none need be tried.
        if let Some(in_kernel) = &mut shared.in_kernel
            && !self.is_encrypted
            && handled.responses == 1
            && handled.are_for_all
            && handled.consumed == bytes_len
            && shared.server.counters().cache_hits == hits + 1
            && shared.out.iter().map(Slice::len).sum::<usize>() <= Requests::RESPONSE_MAX
        {
            in_kernel.note(transport.readable(id));
        }
        if queued == 0 {
            // Nothing was asked of the client until now.
            self.pace = Pace::new(now, self.given);
        }
        self.send_out(&mut shared.out, transport);
        let left = bytes_len - handled.consumed;
        transport.consume(id, handled.consumed);
        if handled.responses > 0 {
            // What there is of another request came with the last one.
            self.begun = now;
        }
        let has_tail = matches!(handled.next, Next::Tail(_) | Next::Ask(_));
        let is_last = matches!(handled.next, Next::Close);
        if is_last || (shared.stopping && handled.responses > 0 && !has_tail) {
            // The FIN rides on the last data, and this request's acknowledgement on the first.
            self.finish(turn);
        }
        self.held = matches!(handled.next, Next::Send);
        match handled.next {
            Next::Ask(asking) => match self.begin_answering(asking, turn) {
                true => return Served::TailQueued,
                false => return Served::AllThereIs,
            },
            Next::Tail(tail) => match self.begin_stream(*tail, turn) {
                true => return Served::TailQueued,
                false => return Served::AllThereIs,
            },
            Next::Wait(missing) if !self.finished => {
                self.wait(now, Wait::Fetching);
                return Served::Waits(missing);
            }
            _ => {}
        }
        if handled.responses > 0 && !self.finished {
            self.wait(now, Wait::Sending);
        } else if handled.consumed > 0 || !self.http.is_between_requests() {
            // Part of a request: its time runs on from where it was, unless it is the first of it.
            if self.wait == Wait::Idle {
                self.wait(now, Wait::Request);
            }
            let bounds = &turn.shared.bounds;
            if bounds.head_rate.is_some() && self.wait == Wait::Request && left > 0 {
                self.deadline = self.begun + bounds.head_time(left);
            }
        }
        Served::AllThereIs
    }

    /// Queues what HTTP has given out.
    #[inline]
    pub(super) fn send_out(&mut self, out: &mut Vec<Slice>, transport: &mut impl Transport) {
        for slice in out.drain(..) {
            self.send(slice, transport);
        }
    }

    #[inline]
    pub(super) fn send(&mut self, slice: Slice, transport: &mut impl Transport) {
        self.given += slice.len() as u64;
        transport.send(self.id, slice);
    }

    /// Nothing was asked of the client until now.
    pub(super) fn begin_pace(&mut self, now: Instant) {
        self.pace = Pace::new(now, self.given);
    }

    /// An application's answer is queued whole: what there is of another request begins now.
    pub(super) fn begin_next<T: Transport>(&mut self, turn: &mut Turn<'_, T>) {
        self.begun = turn.now;
        if self.http.is_closing() || turn.shared.stopping {
            self.finish(turn);
        }
        let pending = turn.transport.unacknowledged(self.id);
        self.http.acknowledged(&mut turn.shared.server, pending);
    }

    // The end.

    /// Answers a request that is not whole, or whose document does not come, and ends the connection.
    fn give_up<T: Transport>(&mut self, status: Status, turn: &mut Turn<'_, T>) {
        let shared = &mut *turn.shared;
        let attempt = Attempt::default().of(self.peer, self.begun, turn.now);
        let bytes = turn.transport.readable(self.id);
        let (server, out) = (&mut shared.server, &mut shared.out);
        self.http.refuse(server, status, bytes, &attempt, out);
        self.send_out(&mut shared.out, turn.transport);
        self.finish(turn);
    }

    /// No further requests are wanted: it ends now, or after the response that is under way.
    pub(super) fn stop<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> Outcome {
        let pending = turn.transport.unacknowledged(self.id);
        if pending == 0 && !self.waits_to_serve() {
            self.finish(turn);
        }
        Outcome::GoesOn
    }

    pub(super) fn finish_if_the_client_has<T: Transport>(&mut self, turn: &mut Turn<'_, T>) {
        if self.client_finished && !self.waits_to_serve() {
            self.finish(turn);
        }
    }

    /// Nothing more will be sent, and nothing that comes is looked at.
    pub(super) fn finish<T: Transport>(&mut self, turn: &mut Turn<'_, T>) {
        if self.finished {
            return;
        }
        self.finished = true;
        self.held = false;
        turn.transport.finish(self.id);
        turn.transport.discard_received(self.id);
        self.wait_for_the_end(turn);
    }

    /// Finished: first the client takes what is sent, then it finishes too.
    fn wait_for_the_end<T: Transport>(&mut self, turn: &Turn<'_, T>) {
        if turn.transport.is_handshaking(self.id) {
            return; // Without a session there is nothing to take: its time stays what it was.
        }
        let is_taken = turn.transport.unacknowledged(self.id) == 0;
        let wait = if is_taken {
            Wait::Lingering
        } else {
            Wait::Sending
        };
        self.wait(turn.now, wait);
    }

    /// It is over; `done` when its client has taken everything.
    pub(super) fn close(mut self, done: bool, shared: &mut Shared) {
        let done = done && !self.has_failed;
        if done {
            let new = self.taken(self.given);
            shared.server.count_taken(new);
        }
        if done {
            self.http.acknowledged(&mut shared.server, 0);
        } else if self.answering.is_some() {
            self.abandon_answering(shared);
            let left = (self.given - self.counted) as usize;
            self.http.acknowledged(&mut shared.server, left);
        }
        self.http.end(&mut shared.server);
        if let Some(stream) = self.stream.take() {
            stream.end(&mut shared.streams);
        }
    }
}

/// What became of readable bytes.
enum Served {
    /// They are answered as far as they can be now.
    AllThereIs,
    /// A response whose content was to be read is queued whole: there may be more.
    TailQueued,
    /// The first request left waits for this.
    Waits(Box<Missing>),
}
