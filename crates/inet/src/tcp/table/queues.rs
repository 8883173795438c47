//! The queues of connections: with something to send, with something to tell the program, with a deadline.
//!
//! `settle` puts a connection that has changed where it belongs; each stands in each queue at most once,
//! as its slot's flags say. What is taken out is asked again whether it still has something: a connection may
//! stand in a queue for nothing, it never misses one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::counters::Counters;
use crate::limits::SEGMENTS_PER_TURN;
use crate::tcp::Tcp;
use crate::tcp::connection::Path;
use crate::tcp::event::{Event, EventSet, Reason};
use crate::tcp::id::ConnectionId;
use crate::tcp::output::{Burst, Outgoing};
use crate::tcp::reply::Reply;
use crate::tcp::segment::{Context, Outcome};
use crate::tcp::slab::Entry;
use crate::tcp::state::Event as StateEvent;
use crate::tcp::wheel::Wheel;
use crate::time::Instant;

/// The queues.
pub(in crate::tcp) struct Queues {
    wheel: Wheel<ConnectionId>,
    /// Connections whose pace holds them back, each at most once, with when they go on. Apart from the
    /// wheel, because its ticks are too coarse.
    paced: BinaryHeap<Reverse<(Instant, ConnectionId)>>,
    /// Connections that may have a segment to send, each at most once.
    sending: VecDeque<ConnectionId>,
    /// Segments that the first of `sending` has sent in its turn.
    turn: usize,
    /// Connections with news for the program, each at most once.
    telling: VecDeque<ConnectionId>,
    /// What the wheel gave last; the memory is kept.
    due: Vec<ConnectionId>,
}

impl Queues {
    pub fn new(now: Instant) -> Self {
        Self {
            wheel: Wheel::new(now),
            paced: BinaryHeap::new(),
            sending: VecDeque::new(),
            turn: 0,
            telling: VecDeque::new(),
            due: Vec::new(),
        }
    }

    /// Entries of the wheel, those that came too early or for nothing included.
    pub fn timer_entries(&self) -> usize {
        self.wheel.len()
    }

    /// The connection changed: put it into the queues where it belongs.
    #[inline]
    pub fn settle(&mut self, id: ConnectionId, entry: &mut Entry) {
        if !entry.telling && !entry.connection.events.is_empty() {
            entry.telling = true;
            self.telling.push_back(id);
        }
        if !entry.closed {
            self.settle_sending(id, entry);
            self.settle_timer(id, entry);
        }
    }

    /// The connection may have something to send now.
    #[inline]
    pub fn settle_sending(&mut self, id: ConnectionId, entry: &mut Entry) {
        if !entry.sending && entry.connection.wants_to_send() {
            entry.sending = true;
            self.sending.push_back(id);
        }
    }

    /// Arm the wheel if the connection's deadline is earlier than what is armed.
    #[inline]
    fn settle_timer(&mut self, id: ConnectionId, entry: &mut Entry) {
        self.arm(entry.connection.timer_deadline(), id, entry);
    }

    /// Nothing leaves now: its pace may allow it later.
    #[inline]
    fn settle_waiting(&mut self, id: ConnectionId, entry: &mut Entry) {
        let held = entry.connection.sender.held_until();
        if !entry.paced && held != Instant::NEVER {
            entry.paced = true;
            self.paced.push(Reverse((held, id)));
        }
        self.settle_timer(id, entry);
    }

    #[inline]
    fn arm(&mut self, at: Instant, id: ConnectionId, entry: &mut Entry) {
        if at < entry.armed {
            entry.armed = at;
            self.wheel.arm(at, id);
        }
    }

    /// A connection that holds more memory than it needs to wait has its turn when it rests.
    #[inline]
    pub fn see_to_rest(&mut self, now: Instant, id: ConnectionId, entry: &mut Entry) {
        if entry.armed == Instant::NEVER
            && !entry.closed
            && (entry.connection.holds() || !entry.connection.readable().is_empty())
        {
            let at = entry.connection.rests_at().max(now);
            self.arm(at, id, entry);
        }
    }

    /// The first connection has had its turn; `again` goes to the end of the queue.
    #[inline]
    fn next_turn(&mut self, again: Option<ConnectionId>) {
        self.sending.pop_front();
        if let Some(id) = again {
            self.sending.push_back(id);
        }
        self.turn = 0;
    }
}

impl Tcp {
    // Time.

    /// When to call `handle_timeout` next. May be early, is never late.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let paced = self.queues.paced.peek().map(|Reverse((at, _))| *at);
        let deadlines = [
            self.queues.wheel.next_deadline(),
            self.time_wait.poll_timeout(now),
            paced,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// True when `handle_timeout` may have something to do.
    #[inline]
    pub(crate) fn wants_time(&self, now: Instant) -> bool {
        self.queues.wheel.wants(now) || self.time_wait.wants(now) || !self.queues.paced.is_empty()
    }

    /// See to all deadlines that are over.
    pub fn handle_timeout(&mut self, now: Instant, counters: &mut Counters) {
        let ports = &mut self.ports;
        self.time_wait.expire(now, |flow| {
            if ports.wants_notes() {
                ports.has_become_free(flow.local());
            }
        });
        if self.queues.wheel.wants(now) {
            let mut due = std::mem::take(&mut self.queues.due);
            self.queues.wheel.expire(now, &mut due);
            for id in due.drain(..) {
                self.expire(now, id, counters);
            }
            self.queues.due = due;
        }
        while let Some(&Reverse((at, id))) = self.queues.paced.peek()
            && at <= now
        {
            self.queues.paced.pop();
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
        let in_the_way = half_open && self.half_open_is_in_the_way(now, c);
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
            self.half_open_ended(listener);
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
        if self.queues.telling.is_empty() && self.ending.is_none() {
            return None;
        }
        self.next_event()
    }

    fn next_event(&mut self) -> Option<Event> {
        if let Some(id) = self.ending.take() {
            self.forget(id);
        }
        loop {
            let id = self.queues.telling.pop_front()?;
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
        self.queues.sending.is_empty()
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
            let &id = queues.sending.front()?;
            let Some(entry) = self.slab.entry_mut(id) else {
                queues.next_turn(None);
                continue;
            };
            let burst = match data_max {
                0 if self.fast_paths => Burst::Frames(room.min(SEGMENTS_PER_TURN - queues.turn)),
                data_max => Burst::Bytes(data_max),
            };
            let out = &mut self.outgoing;
            let pressure = self.memory.pressure();
            entry.connection.receiver.set_pressure(pressure);
            if entry.closed || !entry.connection.poll_segment(now, burst, out) {
                entry.sending = false;
                queues.next_turn(None);
                if !entry.closed {
                    queues.settle_waiting(id, entry);
                }
                continue;
            }
            let received = entry.connection.receiver.queue_mut();
            received.tidy(&mut self.memory);
            queues.turn += out.segments();
            if !entry.connection.wants_to_send() {
                entry.sending = false;
                queues.next_turn(None);
                queues.settle_timer(id, entry);
            } else if queues.turn >= SEGMENTS_PER_TURN {
                queues.next_turn(Some(id));
            }
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
        match connection.and_then(|c| c.sender.find_queued(out.seq, out.data.len())) {
            Some(data) => out.data = data,
            None => return false,
        }
        true
    }

    /// Let all segments take all steps, and take one after the other from connections, to be compared with the fast paths.
    pub(crate) fn without_fast_paths(&mut self) {
        self.fast_paths = false;
    }

    /// Remember where segments of a connection go.
    pub fn set_path(&mut self, id: ConnectionId, path: Path) {
        if let Some(c) = self.slab.get_mut(id) {
            c.path = Some(path);
        }
    }

    /// The connection changed: put it into the queues where it belongs.
    pub(in crate::tcp) fn settle(&mut self, id: ConnectionId) {
        if let Some(entry) = self.slab.entry_mut(id) {
            self.queues.settle(id, entry);
        }
    }
}
