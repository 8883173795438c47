//! What is done in each turn of a program's loop beside taking segments in: time passes, news are told, segments leave.

use crate::counters::Counters;
use crate::limits::SEGMENTS_PER_TURN;
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::shared::context::{Context, Outcome};
use crate::tcp::shared::reply::Reply;
use crate::tcp::values::event::{Event, EventSet, Reason};
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::outgoing::{Burst, Outgoing};
use crate::tcp::values::state::Event as StateEvent;
use crate::time::Instant;

impl Tcp {
    // Time.

    /// When to call `handle_timeout` next. May be early, is never late.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let deadlines = [self.queues.poll_timeout(), self.time_wait.poll_timeout(now)];
        deadlines.into_iter().flatten().min()
    }

    /// True when `handle_timeout` may have something to do.
    #[inline]
    pub(crate) fn wants_time(&self, now: Instant) -> bool {
        self.queues.want_time(now) || self.time_wait.wants(now)
    }

    /// See to all deadlines that are over.
    pub fn handle_timeout(&mut self, now: Instant, counters: &mut Counters) {
        let ports = &mut self.ports;
        self.time_wait.expire(now, |flow| {
            if ports.wants_notes() {
                ports.has_become_free(flow.local());
            }
        });
        if let Some(mut due) = self.queues.take_due(now) {
            for id in due.drain(..) {
                self.expire(now, id, counters);
            }
            self.queues.give_back(due);
        }
        while let Some(id) = self.queues.take_paced(now) {
            if let Some(entry) = self.slab.entry_mut(id) {
                entry.paced = false;
                self.queues.settle(id, entry);
            }
        }
    }

    fn expire(&mut self, now: Instant, id: ConnectionId, counters: &mut Counters) {
        let Some(entry) = self.slab.entry_mut(id) else {
            return;
        };
        if entry.armed > now {
            // An entry of a deadline that has moved to an earlier time since, which has come up. To
            // arm another for it would have them grow in number for as long as the connection lives.
            return;
        }
        entry.armed = Instant::NEVER;
        if entry.closed || entry.connection.timer_deadline() > now {
            // It came up for a deadline that has moved: `settle` arms the wheel for the new one. Where
            // nothing is waited for, it comes up once more when nothing has happened for a while.
            if let Some(at) = entry.connection.rest(now, &mut self.memory) {
                self.queues.arm(at, id, entry);
            }
            self.queues.settle(id, entry);
            return;
        }
        let Some(c) = self.slab.get(id) else { return };
        let (half_open, listener) = (c.is_half_open(), c.listener());
        let in_the_way = half_open && self.listeners.hand_out_cookies(now, listener);
        let Some(c) = self.slab.get_mut(id) else {
            return;
        };
        let outcome = if in_the_way {
            counters.tcp_half_open_replaced += 1;
            c.follow(StateEvent::GiveUp);
            Outcome::Close(Reason::TimedOut)
        } else {
            c.handle_timeout(&mut Context {
                now,
                counters,
                replies: &mut self.replies,
                memory: &mut self.memory,
            })
        };
        if half_open && outcome != Outcome::Keep {
            self.listeners.half_open_ended(listener);
        }
        self.conclude(now, id, outcome, counters);
        if let Some(entry) = self.slab.entry_mut(id) {
            self.queues.see_to_rest(now, id, entry);
        }
    }

    // What leaves.

    /// News for the program, oldest first.
    ///
    /// The received bytes of a connection that is over can be read until the next call.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.queues.has_no_news() && self.ending.is_none() {
            return None;
        }
        self.next_event()
    }

    fn next_event(&mut self) -> Option<Event> {
        if let Some(id) = self.ending.take() {
            self.forget(id);
        }
        loop {
            let id = self.queues.take_news()?;
            let Some(entry) = self.slab.entry_mut(id) else {
                continue;
            };
            entry.telling = false;
            entry.announced = true;
            let set = entry.connection.take_events();
            let (token, reason) = (entry.connection.token, entry.connection.reason());
            if set.contains(EventSet::CLOSED) {
                self.ending = Some(id);
            }
            return Some(Event {
                connection: id,
                token,
                set,
                reason,
            });
        }
    }

    /// True when no connection stands in the queue of those with something to send.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.queues.is_silent()
    }

    /// True when `poll_reply` has something.
    #[inline]
    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The next answer that belongs to no connection.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop()
    }

    /// The next segment of a connection, or several in one: whose it is. `outgoing` has its values.
    ///
    /// `data_max` is the most data of one segment that the link cuts up by itself, zero where it does not. `room` is how
    /// many segments can be sent, one at least.
    #[inline(never)]
    pub fn poll_output(
        &mut self,
        now: Instant,
        data_max: u32,
        room: usize,
    ) -> Option<ConnectionId> {
        loop {
            let queues = &mut self.queues;
            let (id, turn) = queues.first_sending()?;
            let Some(entry) = self.slab.entry_mut(id) else {
                queues.is_gone();
                continue;
            };
            let burst = match data_max {
                0 if self.fast_paths => Burst::Frames(room.min(SEGMENTS_PER_TURN - turn)),
                data_max => Burst::Bytes(data_max),
            };
            let out = &mut self.outgoing;
            let pressure = self.memory.pressure();
            entry.connection.receiver.set_pressure(pressure);
            if entry.closed || !entry.connection.poll_segment(now, burst, out) {
                queues.has_nothing(id, entry);
                continue;
            }
            let received = entry.connection.receiver.queue_mut();
            received.tidy(&mut self.memory);
            queues.has_sent(id, entry, out.segments());
            return Some(id);
        }
    }

    /// What [`Self::poll_output`] gave last.
    #[inline]
    pub(crate) fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// The first of several segments in one has left: go on to the next, if there is one and its connection, which is
    /// `id`, still has it. It may have ended meanwhile, or its peer have acknowledged what it has not got.
    pub(crate) fn next_of_burst(&mut self, id: ConnectionId) -> bool {
        let out = &mut self.outgoing;
        if !out.advance() || !self.slab.stands(id) {
            return false;
        }
        let connection = self.slab.get(id);
        match connection.and_then(|c| c.sender.queue().find(out.seq, out.data.len())) {
            Some(data) => out.data = data,
            None => return false,
        }
        true
    }
}
