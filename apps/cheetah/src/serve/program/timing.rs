//! What follows from acknowledgements and from time: waits that end, clients that are too slow.

use exos_inet::tcp::{ConnectionId, Event, EventSet};
use exos_inet::{Instant, Stack};

use super::super::wait::Wait;
use super::Cheetah;
use super::answering::{begin, hand_over};
use super::connection::find;
use crate::http::Status;
use crate::limits::REQUEST_TIME;

impl Cheetah {
    /// What follows from acknowledgements and from the client's end.
    pub(super) fn after_event(&mut self, now: Instant, event: &Event, stack: &mut Stack) {
        let stopping = self.stopping;
        let Some(connection) = find(&mut self.connections, event.connection) else {
            return;
        };
        let acknowledged = event.set.contains(EventSet::ACKNOWLEDGED);
        let tcp = stack.tcp.connection(connection.id);
        let pending = tcp.map_or(0, |c| c.unacknowledged());
        if acknowledged && let Some(log) = self.server.log_mut() {
            let left = connection.stream.as_ref().map_or(0, |s| s.left());
            log.acknowledged(&mut connection.unfinished, pending + left as usize);
        }
        let taken = connection.given - pending as u64;
        self.server.count_taken(connection.taken(taken));
        if acknowledged && pending > 0 && connection.pace.is_too_slow(&self.bounds, now, taken) {
            self.counters.slow_readers += 1;
            stack.tcp.abort(event.connection);
            return;
        }
        if connection.finished {
            // The last response is under way, and its client may take it as slowly as any other.
            if acknowledged {
                connection.wait_for_the_end(now, stack, &mut self.alarms);
            }
            return;
        }
        if connection.client_finished && !connection.waits_to_serve() {
            // Whatever is queued still goes; nothing more will be asked for.
            connection.finish(now, stack, &mut self.alarms, &mut self.unmerged);
        } else if connection.wait == Wait::Sending && acknowledged {
            let wait = if pending > 0 {
                Wait::Sending
            } else if connection.is_streaming() {
                Wait::Reading
            } else if connection.http.is_between_requests() {
                Wait::Idle
            } else {
                // The next request has begun already, behind the one that was answered.
                Wait::Request
            };
            connection.wait(now, wait, &mut self.alarms);
            if pending == 0 && stopping && !connection.is_streaming() {
                connection.finish(now, stack, &mut self.alarms, &mut self.unmerged);
            }
        }
    }

    /// A slot's alarm has come up, which may have been another connection's.
    pub(super) fn handle_alarm(&mut self, now: Instant, slot: u32, stack: &mut Stack) {
        let Some(connection) = &mut self.connections[slot as usize] else {
            return;
        };
        if connection.deadline > now {
            self.alarms.arm(connection.deadline, slot);
            return;
        }
        let id = connection.id;
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
                connection.finish(now, stack, &mut self.alarms, &mut self.unmerged)
            }
            Wait::Sending | Wait::Reading | Wait::Lingering => {
                stack.tcp.abort(id);
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
        connection.finish(now, stack, &mut self.alarms, &mut self.unmerged);
    }
}
