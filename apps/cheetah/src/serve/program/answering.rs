//! Requests to HTTP, its responses to TCP; and requests that wait for a document.

use exos_buf::Slice;
use exos_inet::tcp::ConnectionId;
use exos_inet::{Instant, Stack};

use super::super::bounds::Pace;
use super::super::wait::Wait;
use super::super::without::copy;
use super::Cheetah;
use super::connection::{Connection, find};
use crate::http::{Attempt, Missing, Next, Server, Wanted};
use crate::limits::QUEUE_LEN_MAX;
use crate::site::Change;

impl Cheetah {
    /// The next document that a request waits for, by the number of its site and its path. What
    /// becomes of it is told by [`Cheetah::change`].
    pub fn poll_wanted(&mut self) -> Option<Wanted> {
        self.fetching.poll_wanted()
    }

    /// Requests that wait for a document.
    pub fn waiting(&self) -> usize {
        self.fetching.waiting()
    }

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    pub fn change(&mut self, now: Instant, site: usize, change: Change, stack: &mut Stack) {
        let document = (site, change.path().clone());
        let has_failed = matches!(change, Change::Failed(_));
        self.server.change_site(site, change);
        if has_failed {
            self.fail(now, document, stack);
        } else {
            for id in self.fetching.take(&document) {
                self.resume(now, id, None, stack);
            }
        }
    }

    /// Refuses requests that waited for a document: it could not be read.
    pub(super) fn fail(&mut self, now: Instant, document: Wanted, stack: &mut Stack) {
        for id in self.fetching.take(&document) {
            self.resume(now, id, Some(&document), stack);
        }
    }

    /// Looks again for all that requests wait for, because everything is served again.
    pub fn retry_all(&mut self, now: Instant, stack: &mut Stack) {
        for id in self.fetching.take_all() {
            self.resume(now, id, None, stack);
        }
    }

    /// Answer a request that waited, and those behind it; `failed` is what could not be read.
    pub(super) fn resume(
        &mut self,
        now: Instant,
        id: ConnectionId,
        failed: Option<&Wanted>,
        stack: &mut Stack,
    ) {
        let Some(connection) = find(&mut self.connections, id) else {
            return; // Its client has gone.
        };
        if connection.wait != Wait::Fetching {
            return; // It was given up.
        }
        self.counters.fetch_failures += u64::from(failed.is_some());
        connection.wait(now, Wait::Sending, &mut self.alarms);
        let mut attempt = Attempt::after_waiting(failed);
        while self.serve_some(now, id, attempt, stack) {
            attempt.has_waited = false;
        }
        let Some(connection) = find(&mut self.connections, id) else {
            return;
        };
        if connection.client_finished && !connection.waits_to_serve() {
            connection.finish(now, stack, &mut self.alarms, &mut self.unmerged);
        }
    }

    /// Hand the readable bytes to HTTP, and its responses to TCP.
    pub(super) fn serve(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        while self.serve_some(now, id, Attempt::default(), stack) {}
    }

    /// Hand the readable bytes to HTTP, up to a response whose content is to be read; true when that is all queued already.
    fn serve_some(
        &mut self,
        now: Instant,
        id: ConnectionId,
        attempt: Attempt,
        stack: &mut Stack,
    ) -> bool {
        let Some(connection) = find(&mut self.connections, id) else {
            return false;
        };
        let queued = stack.tcp.connection(id).map_or(0, |c| c.unacknowledged());
        let room = QUEUE_LEN_MAX.saturating_sub(queued);
        let bytes = stack.tcp.readable(id);
        if connection.http.is_between_requests() {
            connection.begun = now;
        }
        begin(&mut self.server, connection, stack);
        let bytes_len = bytes.len();
        let handled =
            connection
                .http
                .handle_again(&mut self.server, bytes, room, attempt, &mut self.out);
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
        let has_tail = matches!(handled.next, Next::Tail(_));
        let is_last = matches!(handled.next, Next::Close);
        if is_last || (self.stopping && handled.responses > 0 && !has_tail) {
            // The FIN rides on the last data, and this request's acknowledgement on the first.
            connection.finish(now, stack, &mut self.alarms, &mut self.unmerged);
        }
        connection.held = matches!(handled.next, Next::Send);
        let missing = match handled.next {
            Next::Tail(tail) => return self.begin_stream(now, id, *tail, stack),
            Next::Wait(missing) if !connection.finished => Some(*missing),
            _ => None,
        };
        if let Some(missing) = missing {
            connection.wait(now, Wait::Fetching, &mut self.alarms);
            self.fetch(id, missing);
        } else if handled.responses > 0 && !connection.finished {
            connection.wait(now, Wait::Sending, &mut self.alarms);
        } else if handled.consumed > 0 || !connection.http.is_between_requests() {
            // Part of a request: its time runs on from where it was, unless it is the first of it.
            if connection.wait == Wait::Idle {
                connection.wait(now, Wait::Request, &mut self.alarms);
            }
            if self.bounds.head_rate.is_some() && connection.wait == Wait::Request && left > 0 {
                let until = connection.begun + self.bounds.head_time(left);
                connection.wait_until(until, &mut self.alarms);
            }
        }
        false
    }

    /// Has what a connection waits for read or opened, once however many wait for it.
    fn fetch(&mut self, id: ConnectionId, missing: Missing) {
        let Missing { document, unopened } = missing;
        let connections = &mut self.connections;
        let is_waiting =
            |id: &ConnectionId| find(connections, *id).is_some_and(|c| c.wait == Wait::Fetching);
        let is_new = self.fetching.add(document.clone(), id, is_waiting);
        match unopened {
            Some(long) => self.streams.open(document, long),
            None if is_new => self.fetching.want(document),
            None => {}
        }
    }
}

/// Tell the server, if it wants to know, whose requests come next.
#[inline]
pub(super) fn begin(server: &mut Server, connection: &Connection, stack: &Stack) {
    if server.wants_peer()
        && let Some(tcp) = stack.tcp.connection(connection.id)
    {
        server.begin(tcp.flow().remote().ip(), connection.begun);
    }
}

/// Queue slices on a connection, or copies of them; gives how many bytes.
#[inline]
pub(super) fn hand_over(
    out: &mut Vec<Slice>,
    copies: bool,
    id: ConnectionId,
    stack: &mut Stack,
) -> u64 {
    let mut bytes = 0;
    for slice in out.drain(..) {
        bytes += slice.len() as u64;
        let slice = if copies { copy(&slice) } else { slice };
        stack.tcp.send(id, slice);
    }
    bytes
}
