//! Requests to HTTP, its responses to TCP; and requests that wait for a document.

use exos_buf::Slice;
use exos_inet::tcp::ConnectionId;
use exos_inet::{Instant, Stack};

use super::super::bounds::Pace;
use super::super::wait::Wait;
use super::super::without::copy;
use super::Cheetah;
use super::connection::{Connection, find};
use crate::http::{Next, Server};
use crate::limits::QUEUE_LEN_MAX;
use crate::site::{Change, SitePath};

impl Cheetah {
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

    /// Hand the readable bytes to HTTP, and its responses to TCP.
    pub(super) fn serve(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
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
