//! The connections of the server: bytes from TCP to HTTP, slices of documents back.
//!
//! A connection's unread bytes stay in TCP's receive buffer, and what is sent refers to the
//! documents; so a connection costs a control block and the few words here. Every wait of a
//! connection has an end: see [`wait`](super::wait).

use std::net::IpAddr;

use exos_buf::Slice;
use exos_inet::tcp::wheel::Wheel;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Reason};
use exos_inet::{Instant, Stack};

use super::bounds::{Bounds, Pace, Peers};
use super::fetching::Fetching;
use super::wait::{Ends, Wait};
use super::without::{Specialisation, Unmerged, copy};
use crate::http::{Next, Server, ServerConnection, Status};
use crate::limits::{ABORTS_AT_ONCE, QUEUE_LEN_MAX, REQUEST_TIME};
use crate::log::{Log, Unfinished};
use crate::site::{Change, SitePath};

struct Connection {
    id: ConnectionId,
    http: ServerConnection,
    wait: Wait,
    deadline: Instant,
    /// The earliest entry of the connection among the timers.
    armed: Instant,
    /// When the first bytes of the present request came.
    begun: Instant,
    /// Bytes queued so far, and how fast the client takes them.
    given: u64,
    pace: Pace,
    /// Who the client is.
    peer: IpAddr,
    /// Lines of the log that wait for responses to be taken.
    unfinished: Unfinished,
    /// Requests wait in the receive buffer for room in the send queue.
    held: bool,
    /// The client has finished.
    client_finished: bool,
    /// We have finished.
    finished: bool,
}

/// Who was sent away, by name.
#[derive(Default)]
struct Counters {
    fetch_failures: u64,
    peer_refusals: u64,
    slow_readers: u64,
    slow_heads: u64,
}

/// The server and its connections.
pub struct Cheetah {
    server: Server,
    /// By slot of the connection's identity.
    connections: Vec<Option<Connection>>,
    open: usize,
    timers: Wheel<ConnectionId>,
    due: Vec<ConnectionId>,
    out: Vec<Slice>,
    ends: Ends,
    fetching: Fetching,
    counters: Counters,
    stopping: bool,
    started: Instant,
    bounds: Bounds,
    peers: Peers,
    /// Set without packet merging.
    unmerged: Option<Unmerged>,
    /// Connections get copies of what they are sent.
    copies: bool,
}

impl Cheetah {
    /// A server without connections.
    pub fn new(server: Server, now: Instant) -> Self {
        Self {
            server,
            connections: Vec::new(),
            open: 0,
            timers: Wheel::new(now),
            due: Vec::new(),
            out: Vec::new(),
            ends: Ends::default(),
            fetching: Fetching::default(),
            counters: Counters::default(),
            stopping: false,
            started: now,
            bounds: Bounds::default(),
            peers: Peers::default(),
            unmerged: None,
            copies: false,
        }
    }

    /// Do without a specialisation from now on, before there are connections. Super-packets are the link's.
    pub fn do_without(&mut self, specialisation: Specialisation, stack: &mut Stack) {
        match specialisation {
            Specialisation::PrecomputedChecksums => stack.sum_data_afresh(),
            Specialisation::PrecomputedHeaders => self.server.make_heads_afresh(),
            Specialisation::PacketMerging => self.unmerged = Some(Unmerged::default()),
            Specialisation::MergedCache => self.copies = true,
            Specialisation::SuperPackets => {}
        }
    }

    /// Limits clients from now on.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Answer all that has happened. `unix_secs` is the time of day for the Date field.
    pub fn handle(&mut self, now: Instant, unix_secs: u64, stack: &mut Stack) {
        self.server.set_time(unix_secs);
        if let Some(log) = self.server.log_mut() {
            log.set_time(now, unix_secs);
        }
        match &mut self.unmerged {
            None => {
                while let Some(event) = stack.poll_event() {
                    self.handle_event(now, &event, stack);
                }
            }
            Some(unmerged) => {
                for event in unmerged.turn(stack) {
                    self.handle_event(now, &event, stack);
                }
            }
        }
        let mut due = std::mem::take(&mut self.due);
        self.timers.expire(now, &mut due);
        for id in due.drain(..) {
            self.handle_timer(now, id, stack);
        }
        self.due = due;
        if let Some(log) = self.server.log_mut() {
            log.tick();
        }
    }

    /// When to call `handle` at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.unmerged.as_ref().is_some_and(Unmerged::is_waiting) {
            return Some(Instant::START);
        }
        let log = self.server.log().and_then(Log::poll_timeout);
        [self.timers.next_deadline(), log]
            .into_iter()
            .flatten()
            .min()
    }

    fn handle_event(&mut self, now: Instant, event: &Event, stack: &mut Stack) {
        let id = event.connection;
        if event.set.contains(EventSet::ACCEPTED) {
            self.open(now, id, stack);
        }
        if event.set.contains(EventSet::CLOSED) {
            self.close(id, event.reason == Reason::Done);
            return;
        }
        let Some(connection) = find(&mut self.connections, id) else {
            return;
        };
        connection.client_finished |= event.set.contains(EventSet::FINISHED);
        // Behind a request that waits for its document, all others wait.
        let may_serve = !connection.finished && connection.wait != Wait::Fetching;
        let arrived = event.set.contains(EventSet::READABLE) && may_serve;
        let room_again = event.set.contains(EventSet::ACKNOWLEDGED) && connection.held;
        if arrived || room_again {
            self.serve(now, id, stack);
        }
        self.after_event(now, event, stack);
    }

    /// The next document that a request waits for, by the number of its site and its path. What
    /// becomes of it is told by [`Cheetah::change`].
    pub fn poll_wanted(&mut self) -> Option<(usize, SitePath)> {
        self.fetching.poll_wanted()
    }

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    pub fn change(&mut self, now: Instant, site: usize, change: Change, stack: &mut Stack) {
        let document = (site, change.path().clone());
        let has_failed = matches!(change, Change::Failed(_));
        self.server.change_site(site, change);
        let ids = self.fetching.take(&document);
        if ids.is_empty() {
            return;
        }
        self.server.set_failed(has_failed.then_some(document));
        for id in ids {
            self.resume(now, id, has_failed, stack);
        }
        self.server.set_failed(None);
    }

    /// Looks again for all that requests wait for, because everything is served anew.
    pub fn retry_all(&mut self, now: Instant, stack: &mut Stack) {
        for id in self.fetching.take_all() {
            self.resume(now, id, false, stack);
        }
    }

    /// Answer a request that waited, and those behind it.
    fn resume(&mut self, now: Instant, id: ConnectionId, has_failed: bool, stack: &mut Stack) {
        let Some(connection) = find(&mut self.connections, id) else {
            return; // Its client has gone.
        };
        if connection.wait != Wait::Fetching {
            return; // It was given up.
        }
        self.counters.fetch_failures += u64::from(has_failed);
        connection.wait(now, Wait::Sending, &mut self.timers);
        self.serve(now, id, stack);
        let Some(connection) = find(&mut self.connections, id) else {
            return;
        };
        if connection.client_finished && !connection.waits_to_serve() {
            connection.finish(now, stack, &mut self.timers, &mut self.unmerged);
        }
    }

    fn open(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let Some(peer) = stack.tcp.connection(id).map(|c| c.flow().remote().ip()) else {
            return;
        };
        let most = self.bounds.peer_connections;
        if most.is_some_and(|most| !self.peers.admit(peer, most)) {
            self.counters.peer_refusals += 1;
            stack.tcp_abort(id);
            return;
        }
        let slot = id.slot() as usize;
        if slot >= self.connections.len() {
            self.connections.resize_with(slot + 1, || None);
        }
        let deadline = now + Wait::Request.time();
        self.connections[slot] = Some(Connection {
            id,
            http: ServerConnection::new(),
            wait: Wait::Request,
            deadline,
            armed: deadline,
            begun: now,
            given: 0,
            pace: Pace::new(now, 0),
            peer,
            unfinished: Unfinished::default(),
            held: false,
            client_finished: false,
            finished: false,
        });
        self.timers.arm(deadline, id);
        self.open += 1;
    }

    /// A connection is over; `done` when its client has taken everything.
    fn close(&mut self, id: ConnectionId, done: bool) {
        let Some(connection) = find(&mut self.connections, id) else {
            return;
        };
        if let Some(log) = self.server.log_mut() {
            if done {
                log.acknowledged(&mut connection.unfinished, 0);
            }
            log.ended(&mut connection.unfinished);
        }
        if self.bounds.peer_connections.is_some() {
            self.peers.leave(connection.peer);
        }
        self.connections[id.slot() as usize] = None;
        self.open -= 1;
    }

    /// Hand the readable bytes to HTTP, and its responses to TCP.
    fn serve(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let Some(connection) = find(&mut self.connections, id) else {
            return;
        };
        let queued = stack.tcp.connection(id).map_or(0, |c| c.unacknowledged());
        let room = QUEUE_LEN_MAX.saturating_sub(queued);
        let bytes = stack.tcp.readable(id);
        if connection.http.is_between_requests() {
            connection.begun = now;
        }
        begin(&mut self.server, connection, stack);
        let bytes_len = bytes.len();
        let handled = connection
            .http
            .handle_bytes(&mut self.server, bytes, room, &mut self.out);
        if queued == 0 {
            // Nothing was asked of the client until now.
            connection.pace = Pace::new(now, connection.given);
        }
        connection.given += hand_over(&mut self.out, self.copies, id, stack);
        let left = bytes_len - handled.consumed;
        stack.tcp.consume(id, handled.consumed);
        if handled.responses > 0 {
            // What there is of another request came with the last one.
            connection.begun = now;
            if let Some(log) = self.server.log_mut() {
                log.given(&mut connection.unfinished);
            }
        }
        if handled.next == Next::Close || (self.stopping && handled.responses > 0) {
            // The FIN rides on the last data, and this request's acknowledgement on the first.
            connection.finish(now, stack, &mut self.timers, &mut self.unmerged);
        }
        connection.held = handled.next == Next::Send;
        if handled.next == Next::Wait && !connection.finished {
            connection.wait(now, Wait::Fetching, &mut self.timers);
            if let Some(document) = self.server.take_wanted() {
                let connections = &mut self.connections;
                let is_waiting = |id: &ConnectionId| {
                    find(connections, *id).is_some_and(|c| c.wait == Wait::Fetching)
                };
                self.fetching.add(document, id, is_waiting);
            }
        } else if handled.responses > 0 && !connection.finished {
            connection.wait(now, Wait::Sending, &mut self.timers);
        } else if handled.consumed > 0 || !connection.http.is_between_requests() {
            // Part of a request: its time runs on from where it was, unless it is the first of it.
            if connection.wait == Wait::Idle {
                connection.wait(now, Wait::Request, &mut self.timers);
            }
            if self.bounds.head_rate.is_some() && connection.wait == Wait::Request && left > 0 {
                let until = connection.begun + self.bounds.head_time(left);
                connection.wait_until(now, until, &mut self.timers);
            }
        }
    }

    /// What follows from acknowledgements and from the client's end.
    fn after_event(&mut self, now: Instant, event: &Event, stack: &mut Stack) {
        let stopping = self.stopping;
        let Some(connection) = find(&mut self.connections, event.connection) else {
            return;
        };
        let acknowledged = event.set.contains(EventSet::ACKNOWLEDGED);
        let tcp = stack.tcp.connection(connection.id);
        let pending = tcp.map_or(0, |c| c.unacknowledged());
        if acknowledged && let Some(log) = self.server.log_mut() {
            log.acknowledged(&mut connection.unfinished, pending);
        }
        let taken = connection.given - pending as u64;
        if acknowledged && pending > 0 && connection.pace.is_too_slow(&self.bounds, now, taken) {
            self.counters.slow_readers += 1;
            stack.tcp_abort(event.connection);
            return;
        }
        if connection.finished {
            // The last response is under way, and its client may take it as slowly as any other.
            if acknowledged {
                connection.wait_for_the_end(now, stack, &mut self.timers);
            }
            return;
        }
        if connection.client_finished && !connection.waits_to_serve() {
            // Whatever is queued still goes; nothing more will be asked for.
            connection.finish(now, stack, &mut self.timers, &mut self.unmerged);
        } else if connection.wait == Wait::Sending && acknowledged {
            let wait = if pending > 0 {
                Wait::Sending
            } else if connection.http.is_between_requests() {
                Wait::Idle
            } else {
                // The next request has begun already, behind the one that was answered.
                Wait::Request
            };
            connection.wait(now, wait, &mut self.timers);
            if pending == 0 && stopping {
                connection.finish(now, stack, &mut self.timers, &mut self.unmerged);
            }
        }
    }

    fn handle_timer(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let Some(connection) = find(&mut self.connections, id) else {
            return;
        };
        if connection.deadline > now {
            if connection.armed <= now {
                connection.armed = connection.deadline;
                self.timers.arm(connection.deadline, id);
            }
            return;
        }
        let is_idle = connection.http.is_between_requests();
        // A head that was given less time came too slowly.
        let is_slow_head = connection.wait == Wait::Request
            && !is_idle
            && self.bounds.head_rate.is_some()
            && now < connection.begun + REQUEST_TIME;
        if is_slow_head {
            self.counters.slow_heads += 1;
        } else {
            self.ends.count(connection.wait, is_idle);
        }
        match connection.wait {
            Wait::Request if !is_idle => {
                self.give_up_request(now, id, Status::RequestTimeout, stack);
            }
            Wait::Fetching => self.give_up_request(now, id, Status::ServiceUnavailable, stack),
            Wait::Request | Wait::Idle => {
                connection.finish(now, stack, &mut self.timers, &mut self.unmerged)
            }
            Wait::Sending | Wait::Lingering => {
                stack.tcp_abort(id);
            }
        }
    }

    /// Answer a request that is not whole, or whose document does not come, and end the connection.
    fn give_up_request(
        &mut self,
        now: Instant,
        id: ConnectionId,
        status: Status,
        stack: &mut Stack,
    ) {
        let Some(connection) = find(&mut self.connections, id) else {
            return;
        };
        begin(&mut self.server, connection, stack);
        let bytes = stack.tcp.readable(id);
        self.server.refuse(status, bytes, &mut self.out);
        connection.given += hand_over(&mut self.out, self.copies, id, stack);
        if let Some(log) = self.server.log_mut() {
            log.given(&mut connection.unfinished);
        }
        connection.finish(now, stack, &mut self.timers, &mut self.unmerged);
    }

    /// Take no new requests: idle connections end now, the others after their responses.
    pub fn stop(&mut self, now: Instant, stack: &mut Stack) {
        self.stopping = true;
        for connection in self.connections.iter_mut().flatten() {
            let pending = stack
                .tcp
                .connection(connection.id)
                .map_or(0, |c| c.unacknowledged());
            if pending == 0 && connection.wait != Wait::Fetching {
                connection.finish(now, stack, &mut self.timers, &mut self.unmerged);
            }
        }
    }

    /// True while responses are under way.
    pub fn is_busy(&self) -> bool {
        self.connections
            .iter()
            .flatten()
            .any(|c| matches!(c.wait, Wait::Sending | Wait::Fetching))
    }

    /// Give up some of what is left, as many as resets can be queued at once; false when none is left.
    pub fn abort_some(&mut self, stack: &mut Stack) -> bool {
        let left = self.connections.iter().flatten();
        let ids: Vec<ConnectionId> = left.map(|c| c.id).take(ABORTS_AT_ONCE).collect();
        for &id in &ids {
            stack.tcp_abort(id);
            self.close(id, false);
        }
        !ids.is_empty()
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.open
    }

    /// The HTTP server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The HTTP server, to be told what it asks for.
    pub fn server_mut(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Ends of waits, by name.
    pub fn counters(&self) -> [(&'static str, u64); 9] {
        let [request, idle, fetch, send, linger] = self.ends.list();
        let Counters {
            fetch_failures,
            peer_refusals,
            slow_readers,
            slow_heads,
        } = self.counters;
        [
            request,
            idle,
            fetch,
            send,
            linger,
            ("http_fetch_failures", fetch_failures),
            ("http_peer_refusals", peer_refusals),
            ("http_slow_readers", slow_readers),
            ("http_slow_heads", slow_heads),
        ]
    }
}

impl Connection {
    /// Requests wait in the receive buffer for room or for a document.
    fn waits_to_serve(&self) -> bool {
        self.held || self.wait == Wait::Fetching
    }

    fn wait(&mut self, now: Instant, wait: Wait, timers: &mut Wheel<ConnectionId>) {
        self.wait = wait;
        self.wait_until(now, now + wait.time(), timers);
    }

    /// Wait on, but until then.
    fn wait_until(&mut self, now: Instant, until: Instant, timers: &mut Wheel<ConnectionId>) {
        self.deadline = until;
        if self.deadline < self.armed || self.armed <= now {
            self.armed = self.deadline;
            timers.arm(self.deadline, self.id);
        }
    }

    /// Nothing more will be sent, and nothing that comes is looked at.
    fn finish(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        timers: &mut Wheel<ConnectionId>,
        unmerged: &mut Option<Unmerged>,
    ) {
        if self.finished {
            return;
        }
        self.finished = true;
        self.held = false;
        match unmerged {
            None => stack.tcp.finish(self.id),
            Some(unmerged) => unmerged.finish(self.id),
        }
        stack.tcp.discard_received(self.id);
        self.wait_for_the_end(now, stack, timers);
    }

    /// Finished: first the client takes what is sent, then it finishes too.
    fn wait_for_the_end(&mut self, now: Instant, stack: &Stack, timers: &mut Wheel<ConnectionId>) {
        let tcp = stack.tcp.connection(self.id);
        let wait = if tcp.is_some_and(|c| c.unacknowledged() > 0) {
            Wait::Sending
        } else {
            Wait::Lingering
        };
        self.wait(now, wait, timers);
    }
}

/// Tell the server, if it wants to know, whose requests come next.
#[inline]
fn begin(server: &mut Server, connection: &Connection, stack: &Stack) {
    if server.wants_peer()
        && let Some(tcp) = stack.tcp.connection(connection.id)
    {
        server.begin(tcp.flow().remote().ip(), connection.begun);
    }
}

/// Queue slices on a connection, or copies of them; gives how many bytes.
#[inline]
fn hand_over(out: &mut Vec<Slice>, copies: bool, id: ConnectionId, stack: &mut Stack) -> u64 {
    let mut bytes = 0;
    for slice in out.drain(..) {
        bytes += slice.len() as u64;
        let slice = if copies { copy(&slice) } else { slice };
        stack.tcp.send(id, slice);
    }
    bytes
}

fn find(connections: &mut [Option<Connection>], id: ConnectionId) -> Option<&mut Connection> {
    connections
        .get_mut(id.slot() as usize)?
        .as_mut()
        .filter(|c| c.id == id)
}
