//! The connections of the server: bytes from TCP to HTTP, slices of documents back.
//!
//! A connection's unread bytes stay in TCP's receive buffer, and what is sent refers to the
//! documents; so a connection costs a control block and the few words here. Every wait of a
//! connection has an end: see [`wait`](super::wait).
//!
//! [`connection`] is one of them, [`answering`] what becomes of requests, [`timing`] what follows from
//! acknowledgements and from time, [`streaming`] content that is read while it is sent; here connections come and go.

mod answering;
mod connection;
mod streaming;
mod timing;

use exos_buf::Slice;
use exos_inet::tcp::alarms::Alarms;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Reason};
use exos_inet::{Instant, Stack};

use super::bounds::{Bounds, Peers};
use super::fetching::Fetching;
use super::wait::{Ends, Wait};
use super::without::{Specialisation, Unmerged};
use crate::http::Server;
use crate::limits::ABORTS_AT_ONCE;
use crate::log::Log;
use crate::stream::Streams;

use connection::{Connection, find};

/// Who was sent away, by name.
#[derive(Default)]
struct Counters {
    fetch_failures: u64,
    peer_refusals: u64,
    slow_readers: u64,
    slow_heads: u64,
    broken_off: u64,
}

/// The server and its connections.
pub struct Cheetah {
    server: Server,
    /// By slot of the connection's identity.
    connections: Vec<Option<Connection>>,
    open: usize,
    alarms: Alarms,
    due: Vec<u32>,
    out: Vec<Slice>,
    ends: Ends,
    fetching: Fetching<ConnectionId>,
    streams: Streams,
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
            alarms: Alarms::new(now),
            due: Vec::new(),
            out: Vec::new(),
            ends: Ends::default(),
            fetching: Fetching::default(),
            streams: Streams::default(),
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

    /// Counts the connections of peers in this table, which others may share, before there are any.
    pub(in crate::serve) fn share_peers(&mut self, peers: Peers) {
        self.peers = peers;
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
        self.alarms.expire(now, &mut due);
        for slot in due.drain(..) {
            self.handle_alarm(now, slot, stack);
        }
        self.due = due;
        self.turn_streams(now, stack);
        if let Some(log) = self.server.log_mut() {
            log.tick();
        }
    }

    /// When to call `handle` at the latest.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let is_unmerged = self.unmerged.as_ref().is_some_and(Unmerged::is_waiting);
        if is_unmerged || self.streams.is_waiting() {
            return Some(Instant::START);
        }
        let log = self.server.log().and_then(Log::poll_timeout);
        [self.alarms.next_deadline(), log]
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
        let is_streaming = connection.is_streaming();
        let may_serve = !connection.finished && connection.wait != Wait::Fetching && !is_streaming;
        let has_stream = connection.stream.is_some();
        let arrived = event.set.contains(EventSet::READABLE) && may_serve;
        let room_again = event.set.contains(EventSet::ACKNOWLEDGED) && connection.held;
        if arrived || room_again {
            self.serve(now, id, stack);
        }
        if has_stream && event.set.contains(EventSet::ACKNOWLEDGED) {
            self.release_acknowledged(id, stack);
            self.send_on(now, id, false, stack);
        }
        self.after_event(now, event, stack);
    }

    fn open(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let Some(peer) = stack.tcp.connection(id).map(|c| c.flow().remote().ip()) else {
            return;
        };
        let most = self.bounds.peer_connections;
        if most.is_some_and(|most| !self.peers.admit(peer, most)) {
            self.counters.peer_refusals += 1;
            stack.tcp.abort(id);
            return;
        }
        let slot = id.slot() as usize;
        if slot >= self.connections.len() {
            self.connections.resize_with(slot + 1, || None);
        }
        let connection = Connection::new(id, peer, now);
        self.alarms.arm(connection.deadline, id.slot());
        self.connections[slot] = Some(connection);
        self.open += 1;
    }

    /// A connection is over; `done` when its client has taken everything.
    fn close(&mut self, id: ConnectionId, done: bool) {
        let Some(connection) = find(&mut self.connections, id) else {
            return;
        };
        if done {
            let new = connection.taken(connection.given);
            self.server.count_taken(new);
        }
        if let Some(log) = self.server.log_mut() {
            if done {
                log.acknowledged(&mut connection.unfinished, 0);
            }
            log.ended(&mut connection.unfinished);
        }
        if self.bounds.peer_connections.is_some() {
            self.peers.leave(connection.peer);
        }
        if let Some(stream) = connection.stream.take() {
            stream.end(&mut self.streams);
        }
        self.connections[id.slot() as usize] = None;
        self.open -= 1;
    }

    /// Take no new requests: idle connections end now, the others after their responses.
    pub fn stop(&mut self, now: Instant, stack: &mut Stack) {
        self.stopping = true;
        for connection in self.connections.iter_mut().flatten() {
            let pending = stack
                .tcp
                .connection(connection.id)
                .map_or(0, |c| c.unacknowledged());
            if pending == 0 && connection.wait != Wait::Fetching && !connection.is_streaming() {
                connection.finish(now, stack, &mut self.alarms, &mut self.unmerged);
            }
        }
    }

    /// True while responses are under way.
    pub fn is_busy(&self) -> bool {
        self.connections
            .iter()
            .flatten()
            .any(|c| matches!(c.wait, Wait::Sending | Wait::Fetching | Wait::Reading))
    }

    /// Give up some of what is left, as many as resets can be queued at once; false when none is left.
    pub fn abort_some(&mut self, stack: &mut Stack) -> bool {
        let left = self.connections.iter().flatten();
        let ids: Vec<ConnectionId> = left.map(|c| c.id).take(ABORTS_AT_ONCE).collect();
        for &id in &ids {
            stack.tcp.abort(id);
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

    /// Ends of waits and of connections, and what long files took, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counters {
            fetch_failures,
            peer_refusals,
            slow_readers,
            slow_heads,
            broken_off,
        } = self.counters;
        let own = [
            ("http_fetch_failures", fetch_failures),
            ("http_peer_refusals", peer_refusals),
            ("http_slow_readers", slow_readers),
            ("http_slow_heads", slow_heads),
            ("http_broken_off", broken_off),
        ];
        let ends = self.ends.list().into_iter();
        ends.chain(own).chain(self.streams.counters()).collect()
    }
}
