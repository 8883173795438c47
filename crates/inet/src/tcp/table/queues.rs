//! The queues of connections: with something to send, with something to tell the program, with a deadline.
//!
//! `settle` puts a connection that has changed where it belongs; each stands in each queue at most once,
//! as its slot's flags say. What is taken out is asked again whether it still has something: a connection may
//! stand in a queue for nothing, it never misses one.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::counters::Counters;
use crate::limits::SEGMENTS_PER_TURN;
use crate::tcp::Tcp;
use crate::tcp::connection::{self, Path};
use crate::tcp::event::{Event, EventSet, Reason};
use crate::tcp::input::{Context, Outcome};
use crate::tcp::output::Outgoing;
use crate::tcp::reply::Reply;
use crate::tcp::slab::{ConnectionId, Entry};
use crate::tcp::state::Event as StateEvent;
use crate::tcp::wheel::Wheel;
use crate::time::Instant;

impl Entry {
    /// The connection may have something to send now: put it into the queue of those.
    #[inline]
    pub(in crate::tcp) fn settle_sending(
        &mut self,
        id: ConnectionId,
        sending: &mut VecDeque<ConnectionId>,
    ) {
        if !self.sending && self.connection.wants_to_send() {
            self.sending = true;
            sending.push_back(id);
        }
    }
}

impl Entry {
    /// As `Tcp::settle`, with what the short way in can have changed; and what memory is now held is given back in time.
    #[inline(always)]
    pub(in crate::tcp) fn settle_taken(
        &mut self,
        id: ConnectionId,
        telling: &mut VecDeque<ConnectionId>,
        sending: &mut VecDeque<ConnectionId>,
        wheel: &mut Wheel<ConnectionId>,
    ) {
        let c = &self.connection;
        if !self.telling && !c.events.is_empty() {
            self.telling = true;
            telling.push_back(id);
        }
        let at = c.timer_deadline();
        if at < self.armed {
            self.armed = at;
            wheel.arm(at, id);
        } else if self.armed == connection::NEVER {
            self.armed = c.rests_at();
            wheel.arm(self.armed, id);
        }
        self.settle_sending(id, sending);
    }
}

impl Tcp {
    // Time.

    /// When to call `handle_timeout` next. May be early, is never late.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let paced = self.paced.peek().map(|Reverse((at, _))| *at);
        let deadlines = [
            self.wheel.next_deadline(),
            self.time_wait.poll_timeout(now),
            paced,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// True when `handle_timeout` may have something to do.
    #[inline]
    pub(crate) fn wants_time(&self, now: Instant) -> bool {
        self.wheel.wants(now) || self.time_wait.wants(now) || !self.paced.is_empty()
    }

    /// See to all deadlines that are over.
    pub fn handle_timeout(&mut self, now: Instant, counters: &mut Counters) {
        let ports = &mut self.ports;
        self.time_wait.expire(now, |flow| {
            if ports.wants_notes() {
                ports.has_become_free(flow.local());
            }
        });
        if self.wheel.wants(now) {
            let mut due = std::mem::take(&mut self.due);
            self.wheel.expire(now, &mut due);
            for id in due.drain(..) {
                self.expire(now, id, counters);
            }
            self.due = due;
        }
        while let Some(&Reverse((at, id))) = self.paced.peek()
            && at <= now
        {
            self.paced.pop();
            if let Some(entry) = self.slab.entry_mut(id) {
                entry.paced = false;
                self.settle(id);
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
        entry.armed = connection::NEVER;
        if entry.closed || entry.connection.timer_deadline() > now {
            // It came up for a deadline that has moved: `settle` arms the wheel for the new one. Where
            // nothing is waited for, it comes up once more when nothing has happened for a while.
            if let Some(at) = entry.connection.rest(now, &mut self.memory) {
                entry.armed = at;
                self.wheel.arm(at, id);
            }
            self.settle(id);
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
        self.see_to_rest(now, id);
    }

    /// A connection that holds more memory than it needs to wait has its turn when it rests.
    #[inline]
    pub(in crate::tcp) fn see_to_rest(&mut self, now: Instant, id: ConnectionId) {
        if let Some(entry) = self.slab.entry_mut(id)
            && entry.armed == connection::NEVER
            && !entry.closed
            && (entry.connection.holds() || !entry.connection.readable().is_empty())
        {
            entry.armed = entry.connection.rests_at().max(now);
            self.wheel.arm(entry.armed, id);
        }
    }

    // What leaves.

    /// News for the program, oldest first.
    ///
    /// The received bytes of a connection that is over can be read until the next call.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.telling.is_empty() && self.ending.is_none() {
            return None;
        }
        self.next_event()
    }

    fn next_event(&mut self) -> Option<Event> {
        if let Some(id) = self.ending.take() {
            self.forget(id);
        }
        loop {
            let id = self.telling.pop_front()?;
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
        self.sending.is_empty()
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

    /// The same; it stays.
    #[inline]
    pub(crate) fn next_reply(&self) -> Option<&Reply> {
        self.replies.front()
    }

    /// It has been written.
    #[inline]
    pub(crate) fn reply_is_sent(&mut self) {
        self.replies.drop_front();
    }

    /// The next segment of a connection, and whose it is.
    ///
    /// `data_max` is as for `Connection::poll_segment`.
    pub fn poll_output(&mut self, now: Instant, data_max: u32) -> Option<(ConnectionId, Outgoing)> {
        loop {
            let &id = self.sending.front()?;
            let Some(entry) = self.slab.entry_mut(id) else {
                self.next_turn(None);
                continue;
            };
            let outgoing = if entry.closed {
                None
            } else {
                entry.connection.pressure = self.memory.pressure();
                entry.connection.poll_segment(now, data_max)
            };
            let Some(outgoing) = outgoing else {
                entry.sending = false;
                let held = entry.connection.loss.held_until;
                if !entry.closed && !entry.paced && held != connection::NEVER {
                    entry.paced = true;
                    self.paced.push(Reverse((held, id)));
                }
                self.next_turn(None);
                self.settle_timer(id);
                continue;
            };
            entry.connection.receive.tidy(&mut self.memory);
            // A super-packet counts for as many as the wire will see.
            self.turn += outgoing
                .data
                .len()
                .div_ceil(usize::from(outgoing.mss))
                .max(1);
            if self.turn >= SEGMENTS_PER_TURN {
                self.next_turn(Some(id));
            }
            return Some((id, outgoing));
        }
    }

    /// The first connection has had its turn; `again` goes to the end of the queue.
    pub(in crate::tcp) fn next_turn(&mut self, again: Option<ConnectionId>) {
        self.sending.pop_front();
        self.sending.extend(again);
        self.turn = 0;
    }

    /// Remember where segments of a connection go.
    pub fn set_path(&mut self, id: ConnectionId, path: Path) {
        if let Some(c) = self.slab.get_mut(id) {
            c.path = Some(path);
        }
    }

    // Keeping the queues.

    /// The connection changed: put it into the queues where it belongs.
    #[inline]
    pub(in crate::tcp) fn settle(&mut self, id: ConnectionId) {
        let Some(entry) = self.slab.entry_mut(id) else {
            return;
        };
        if !entry.telling && !entry.connection.events.is_empty() {
            entry.telling = true;
            self.telling.push_back(id);
        }
        if entry.closed {
            return;
        }
        if !entry.sending && entry.connection.wants_to_send() {
            entry.sending = true;
            self.sending.push_back(id);
        }
        let at = entry.connection.timer_deadline();
        if at < entry.armed {
            entry.armed = at;
            self.wheel.arm(at, id);
        }
    }

    /// Arm the wheel if the connection's deadline is earlier than what is armed.
    fn settle_timer(&mut self, id: ConnectionId) {
        let Some(entry) = self.slab.entry_mut(id) else {
            return;
        };
        if entry.closed {
            return;
        }
        let at = entry.connection.timer_deadline();
        if at < entry.armed {
            entry.armed = at;
            self.wheel.arm(at, id);
        }
    }
}
