//! Requests that are sent before those before them have been answered (RFC 9112 §9.3.2). Responses come in order, so a slot
//! is at the first of them, and knows of the others only that they are behind it.

use exos_inet::Instant;

use super::behaviour::Shape;
use super::behind::Waiting;
use super::clients::Engine;
use super::slot::Stage;
use crate::statistics::ErrorKind;
use crate::transport::Transport;

impl Engine {
    /// Sends what may be under way on a slot's connection besides its request.
    pub(super) fn fill(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        // In an open loop the schedule says when requests begin, and nothing else.
        let asks_again = matches!(self.shape, Shape::Closed);
        while asks_again
            && self.may_begin()
            && self.has_room(slot)
            && let Some(task) = self.driver.next(slot)
        {
            self.left -= 1;
            self.busy_count += 1;
            self.statistics.seconds.began(now);
            let is_last = self.send(slot, task.request, transport);
            self.slots[slot as usize].behind.push(Waiting {
                request: task.request,
                begun: now,
                is_last,
            });
        }
    }

    /// Another request may follow those on a slot's connection.
    fn has_room(&self, slot: u32) -> bool {
        let it = &self.slots[slot as usize];
        let ends = it
            .behind
            .newest()
            .map_or(it.is_last, |newest| newest.is_last);
        let under_way = 1 + it.behind.len();
        !ends && !it.is_finished && under_way < self.behaviour.pipeline as usize
    }

    /// The first has been answered: the slot is at the one behind it. False when there is none.
    pub(super) fn next_in_line(
        &mut self,
        slot: u32,
        now: Instant,
        transport: &mut impl Transport,
    ) -> bool {
        let Some(next) = self.slots[slot as usize].behind.pop() else {
            return false;
        };
        self.busy.remove(&mut self.slots, slot);
        self.busy.push(&mut self.slots, slot);
        self.busy_count -= 1;
        let it = &mut self.slots[slot as usize];
        it.request = next.request;
        it.is_last = next.is_last;
        (it.intended, it.begun, it.since) = (next.begun, next.begun, now);
        (it.framing, it.content) = (0, 0);
        it.stage = Stage::Head;
        self.fill(slot, now, transport);
        true
    }

    /// A connection is over: what is behind the first on it will not be answered.
    pub(super) fn lose_behind(&mut self, slot: u32, kind: ErrorKind, now: Instant) {
        while let Some(lost) = self.slots[slot as usize].behind.pop() {
            self.busy_count -= 1;
            self.statistics.failed(kind, lost.begun, now);
        }
    }
}
