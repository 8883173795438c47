//! The queues of connections: with something to send, with something to tell the program, with a deadline.
//!
//! `settle` puts a connection that has changed where it belongs; each stands in each queue at most once,
//! as its slot's flags say. What is taken out is asked again whether it still has something: a connection may
//! stand in a queue for nothing, it never misses one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::limits::SEGMENTS_PER_TURN;
use crate::tcp::table::slab::Entry;
use crate::tcp::timers::wheel::Wheel;
use crate::tcp::values::id::ConnectionId;
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
        if !entry.telling && entry.connection.has_events() {
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
        let held = entry.connection.sender.pacer().held_until();
        if !entry.paced && held != Instant::NEVER {
            entry.paced = true;
            self.paced.push(Reverse((held, id)));
        }
        self.settle_timer(id, entry);
    }

    #[inline]
    pub fn arm(&mut self, at: Instant, id: ConnectionId, entry: &mut Entry) {
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

    /// The first of those that may have something to send, and how many segments it has sent in its turn.
    #[inline]
    pub fn first_sending(&self) -> Option<(ConnectionId, usize)> {
        Some((*self.sending.front()?, self.turn))
    }

    /// No connection has something to send.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.sending.is_empty()
    }

    /// The first connection has sent this many segments. It goes to the end of the queue when it has had its turn, out of
    /// it when it has no more.
    #[inline]
    pub fn has_sent(&mut self, id: ConnectionId, entry: &mut Entry, segments: usize) {
        self.turn += segments;
        if !entry.connection.wants_to_send() {
            entry.sending = false;
            self.next_turn(None);
            self.settle_timer(id, entry);
        } else if self.turn >= SEGMENTS_PER_TURN {
            self.next_turn(Some(id));
        }
    }

    /// The first connection has nothing to send now.
    #[inline]
    pub fn has_nothing(&mut self, id: ConnectionId, entry: &mut Entry) {
        entry.sending = false;
        self.next_turn(None);
        if !entry.closed {
            self.settle_waiting(id, entry);
        }
    }

    /// The first connection is gone.
    pub fn is_gone(&mut self) {
        self.next_turn(None);
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

    // Time.

    /// When the first of the deadlines is over. May be early, is never late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let paced = self.paced.peek().map(|Reverse((at, _))| *at);
        let deadlines = [self.wheel.next_deadline(), paced];
        deadlines.into_iter().flatten().min()
    }

    /// A deadline may be over.
    #[inline]
    pub fn want_time(&self, now: Instant) -> bool {
        self.wheel.wants(now) || !self.paced.is_empty()
    }

    /// Connections of which the wheel says that a deadline is over; [`Self::give_back`] takes the emptied list.
    pub fn take_due(&mut self, now: Instant) -> Option<Vec<ConnectionId>> {
        if !self.wheel.wants(now) {
            return None;
        }
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expire(now, &mut due);
        Some(due)
    }

    /// The memory of a list.
    pub fn give_back(&mut self, due: Vec<ConnectionId>) {
        self.due = due;
    }

    /// A connection whose pace lets it go on.
    pub fn take_paced(&mut self, now: Instant) -> Option<ConnectionId> {
        let &Reverse((at, id)) = self.paced.peek()?;
        if at > now {
            return None;
        }
        self.paced.pop();
        Some(id)
    }

    // News.

    /// No connection has news.
    #[inline]
    pub fn has_no_news(&self) -> bool {
        self.telling.is_empty()
    }

    /// The first connection with news.
    pub fn take_news(&mut self) -> Option<ConnectionId> {
        self.telling.pop_front()
    }
}
