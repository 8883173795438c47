//! All connections of a loop: they come and go, and are told what arrives. What their requests wait for comes in [`waiting`].

mod streams;
mod tables;
mod waiting;

use exos::requests::Requests;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Reason};
use exos_program::Timed;

use self::tables::Tables;
use super::bounds::Bounds;
use super::connection::{Connection, Outcome, Task, Turn};
use super::fetching::Fetching;
use super::in_kernel::InKernel;
use super::peers::Peers;
use super::shared::Shared;
use super::transport::{Abort, Transport};
use crate::applications::{AllPermits, Applications};
use crate::http::Server;
use crate::limits::ABORTS_AT_ONCE;
use crate::log::Log;
use crate::stream::Streams;

/// The server and its connections.
pub struct Cheetah {
    shared: Shared,
    tables: Tables,
    fetching: Fetching,
    peers: Peers,
    started: Instant,
    expired: Vec<ConnectionId>,
}

impl Cheetah {
    /// A server without connections.
    pub fn new(server: Server, now: Instant) -> Self {
        Self {
            shared: Shared::new(server, now),
            tables: Tables::new(now),
            fetching: Fetching::default(),
            peers: Peers::default(),
            started: now,
            expired: Vec::new(),
        }
    }

    // Before there are connections.

    /// Limits clients from now on.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.shared.bounds = bounds;
    }

    /// Other loops ask the same applications, which have as many requests at once as these permits say.
    pub fn share_applications(&mut self, permits: AllPermits) {
        self.shared.applications.share(permits);
    }

    /// Says which requests the kernel is to answer, from now on.
    pub(crate) fn answer_in_kernel(&mut self, in_kernel: InKernel) {
        self.shared.in_kernel = Some(in_kernel);
    }

    /// Has the kernel's answers be this server's. True when a second has gone by since.
    pub(crate) fn turn_in_kernel(
        &mut self,
        now: Instant,
        unix_secs: u64,
        requests: &mut Requests,
    ) -> bool {
        let Shared {
            server, in_kernel, ..
        } = &mut self.shared;
        in_kernel
            .as_mut()
            .is_some_and(|in_kernel| in_kernel.turn(now, unix_secs, server, requests))
    }

    /// Hears what the kernel sent on connections that are about to be told of.
    pub(crate) fn hear_of_sent(&mut self, requests: &mut Requests) {
        let Shared {
            server,
            in_kernel,
            sent_by_kernel,
            ..
        } = &mut self.shared;
        if let Some(in_kernel) = in_kernel {
            in_kernel.hear_of_sent(server.log(), requests, sent_by_kernel);
        }
    }

    /// The kernel answers no more.
    pub(crate) fn end_in_kernel(&mut self, now: Instant, unix_secs: u64, requests: &mut Requests) {
        self.hear_of_sent(requests);
        if let Some(mut in_kernel) = self.shared.in_kernel.take() {
            in_kernel.end(now, unix_secs, &mut self.shared.server, requests);
        }
    }

    /// Counts the connections of peers in this table, which others may share.
    pub(crate) fn share_peers(&mut self, peers: Peers) {
        self.peers = peers;
    }

    /// Counts the streams of peers that wait in this table, which others may share.
    pub(crate) fn share_peer_streams(&mut self, peers: Peers) {
        self.tables.exchanges.share_peers(peers);
    }

    /// Where the connections of peers are counted, and how many each may have.
    pub(crate) fn peers(&self) -> Option<(Peers, u32)> {
        let most = self.shared.bounds.peer_connections?;
        Some((self.peers.clone(), most))
    }

    /// Whether HTTP/2 is spoken to clients that want it, from now on.
    pub fn speak_http2(&mut self, speaks: bool) {
        self.shared.speaks_http2 = speaks;
    }

    /// Reads long files in this way from now on.
    pub fn set_streams(&mut self, streams: Streams) {
        self.shared.streams = streams;
    }

    // What arrives.

    /// Answers all that has happened. `unix_secs` is the time of day, here and below, for the Date field and the log.
    pub fn handle(&mut self, now: Instant, unix_secs: u64, transport: &mut impl Transport) {
        self.set_time(now, unix_secs);
        let unread = std::mem::take(&mut self.shared.unread);
        self.hear_applications(now, transport);
        self.handle_events(now, transport);
        for id in unread {
            // One that has had its turn by an event waits for the next.
            if !self.shared.unread.contains(&id) {
                self.run(now, id, &Task::ReadOn, transport);
            }
        }
        self.handle_expired(now, transport);
        self.turn_streams(now, transport);
        self.ask_applications(now, transport);
        if let Some(log) = self.shared.server.log_mut() {
            log.tick();
        }
    }

    /// Tells the server and its log what time it is.
    fn set_time(&mut self, now: Instant, unix_secs: u64) {
        self.shared.server.set_time(unix_secs);
        if let Some(log) = self.shared.server.log_mut() {
            log.set_time(now, unix_secs);
        }
    }

    /// When to call `handle` at the latest.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let in_kernel = self.shared.in_kernel.as_ref();
        let has_unread = !self.shared.unread.is_empty();
        if has_unread
            || self.shared.streams.is_waiting()
            || self.shared.server.has_refreshes()
            || in_kernel.is_some_and(InKernel::is_behind)
        {
            return Some(Instant::START);
        }
        let log = self.server().log().and_then(Log::poll_timeout);
        let applications = self.shared.applications.poll_timeout();
        let connections = self.tables.next_deadline();
        [connections, log, applications].into_iter().flatten().min()
    }

    /// Answers what connections have to tell.
    pub(crate) fn handle_events(&mut self, now: Instant, transport: &mut impl Transport) {
        while let Some(event) = transport.poll_event() {
            self.handle_event(now, &event, transport);
        }
    }

    fn handle_event<T: Transport>(&mut self, now: Instant, event: &Event, transport: &mut T) {
        let (id, set) = (event.connection, event.set);
        if set.contains(EventSet::ACCEPTED) {
            self.open(now, id, transport);
        }
        if set.contains(EventSet::CLOSED) {
            let was_open = self.close(id, event.reason == Reason::Done);
            // What we give up is closed here at once: it is the transport that has, for a file that changed.
            let is_broken_off = was_open && event.reason == Reason::Aborted;
            self.shared.counters.broken_off += u64::from(is_broken_off);
            return;
        }
        self.with(now, id, transport, |connection, turn| {
            connection.handle_event(set, turn)
        });
    }

    /// Handles a connection, if it is still there, and sees to what becomes of it.
    #[inline]
    fn with<T: Transport>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        transport: &mut T,
        handle: impl FnOnce(&mut Connection, &mut Turn<'_, T>) -> Outcome,
    ) {
        let table = self.tables.of(id);
        let Some(connection) = table.find(id) else {
            return;
        };
        let shared = &mut self.shared;
        let mut turn = Turn {
            now,
            shared,
            transport,
        };
        match handle(connection, &mut turn) {
            Outcome::GoesOn => table.arm(id),
            Outcome::Waits(missing) => {
                table.arm(id);
                self.fetch(id, *missing);
            }
            Outcome::Broken => {
                let why = connection.broken_by();
                transport.abort(id, why);
                self.close(id, false);
            }
            Outcome::Http2(told) => self.tell_http2(now, id, told, transport),
        }
    }

    fn handle_expired<T: Transport>(&mut self, now: Instant, transport: &mut T) {
        self.tables.expire(now, &mut self.expired);
        while let Some(id) = self.expired.pop() {
            self.run(now, id, &Task::EndWait, transport);
        }
    }

    fn open(&mut self, now: Instant, id: ConnectionId, transport: &mut impl Transport) {
        let Some(peer) = transport.peer(id) else {
            return;
        };
        if transport.speaks_http3(id) {
            // The limit of its peer's connections counts the one that carries it.
            let request = Connection::request(id, peer, now);
            return self.tables.of(id).insert(request);
        }
        let most = self.shared.bounds.peer_connections;
        // What the kernel had was within the limit, and is counted there for as long as it stands.
        let most = most.filter(|_| !transport.is_from_kernel(id));
        if most.is_some_and(|most| !self.peers.admit(peer, most)) {
            self.shared.counters.peer_refusals += 1;
            transport.abort(id, Abort::Untouched);
            return;
        }
        let is_admitted = most.is_some();
        let connection = Connection::new(id, peer, is_admitted, now);
        let is_encrypted = transport.is_encrypted(id);
        let connection = connection.encrypted(is_encrypted);
        self.tables.of(id).insert(connection);
        // An empty table makes a hash of what it has not, too.
        let sent_by_kernel = &mut self.shared.sent_by_kernel;
        if !sent_by_kernel.is_empty()
            && let Some(sent) = sent_by_kernel.remove(&id)
        {
            self.with(now, id, transport, |connection, turn| {
                connection.goes_on_behind(sent, turn);
                Outcome::GoesOn
            });
        }
    }

    /// A connection is over; `done` when its client has taken everything. False when it was over before.
    fn close(&mut self, id: ConnectionId, done: bool) -> bool {
        let table = self.tables.of(id);
        let Some(mut connection) = table.remove(id) else {
            return false;
        };
        if let Some(http2) = connection.http2.take() {
            self.tables.exchanges.close(http2, &mut self.shared);
        }
        if connection.is_admitted() {
            self.peers.leave(connection.peer());
        }
        connection.close(done, &mut self.shared);
        true
    }

    // The end.

    /// Takes no new requests: idle connections end now, the others after their responses.
    pub fn stop(&mut self, now: Instant, unix_secs: u64, transport: &mut impl Transport) {
        self.set_time(now, unix_secs);
        self.shared.stopping = true;
        let ids: Vec<ConnectionId> = self.tables.iter().map(Timed::id).collect();
        for id in ids {
            self.with(now, id, transport, Connection::stop);
        }
    }

    /// True while responses are under way.
    pub fn is_busy(&self) -> bool {
        self.tables.iter().any(Connection::is_busy)
    }

    /// Gives up some of what is left, as many as resets can be queued at once; false when none is left.
    pub fn abort_some(&mut self, transport: &mut impl Transport) -> bool {
        let left = self.tables.iter().map(|it| (it.id(), it.given_up_by()));
        let left: Vec<(ConnectionId, Abort)> = left.take(ABORTS_AT_ONCE).collect();
        for &(id, why) in &left {
            transport.abort(id, why);
            self.close(id, false);
        }
        !left.is_empty()
    }

    // Getters.

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Nobody is served, or may be: neither on connections nor by requests of HTTP/3.
    pub fn is_alone(&self) -> bool {
        self.tables.is_empty()
    }

    /// Open connections of TCP.
    pub fn connections(&self) -> usize {
        self.tables.connections()
    }

    /// The HTTP server.
    pub fn server(&self) -> &Server {
        &self.shared.server
    }

    /// The HTTP server, to be told what it asks for.
    pub fn server_mut(&mut self) -> &mut Server {
        &mut self.shared.server
    }

    /// The long files.
    pub fn streams(&self) -> &Streams {
        &self.shared.streams
    }

    /// The connections to applications.
    pub fn applications(&self) -> &Applications {
        &self.shared.applications
    }

    /// Connections that were reset because their peer had as many as it may.
    pub(crate) fn peer_refusals(&self) -> u64 {
        self.shared.counters.peer_refusals
    }

    /// Ends of waits and of connections, and what long files took, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let ends = self.shared.ends.list();
        let streams = self.shared.streams.counters();
        let applications = self.shared.applications.counters();
        let http2 = self.shared.counters.http2.list();
        let answers = self.shared.server.answers().counters.list();
        let own = self.shared.counters.list().chain(answers);
        let all = ends.chain(own).chain(streams).chain(applications);
        all.chain(http2).collect()
    }
}
