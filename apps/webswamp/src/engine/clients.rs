//! The engine: web clients, and what each event and each moment has them do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use exos_inet::Instant;
use exos_inet::tcp::{EventSet, Reason};

use super::behaviour::{Behaviour, Shape};
use super::order::Order;
use super::shared::{Outcome, SharedConnections};
use super::slot::{Slot, Stage, of_token};
use crate::driver::Driver;
use crate::limits::CLOSING_TIME;
use crate::response::Heads;
use crate::statistics::{EARLY_LEFT, ErrorKind, Multiplexing, Statistics};
use crate::transport::Transport;

/// Web clients.
pub struct Engine {
    pub(super) behaviour: Behaviour,
    pub(super) shape: Shape,
    pub(super) driver: Box<dyn Driver>,
    pub(super) slots: Vec<Slot>,
    /// Slots of an open loop without a request, the one used last at the end: it is used first, but where slots share connections.
    pub(super) idle: VecDeque<u32>,
    /// Requests of an open loop that found no slot: when they were meant to begin, and which they are.
    pub(super) waiting: VecDeque<(Instant, u32)>,
    /// Clients that think, until when.
    pub(super) thinking: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Clients that have yet to begin, and when they may.
    pub(super) newcomers: VecDeque<u32>,
    pub(super) start: Instant,
    /// Clients whose first connection is being opened; of those that share one, the client that opens it.
    pub(super) opening: u32,
    /// What is put off to the next turn, so that acknowledgements leave by themselves.
    pub(super) deferred: Vec<u64>,
    /// What was put off in the turn before: the acknowledgements have left.
    pub(super) acknowledged: Vec<u64>,
    /// Slots with a request, by when they began it.
    pub(super) busy: Order,
    pub(super) busy_count: u32,
    /// Connections that slots have.
    pub(super) connections: usize,
    /// Slots whose connection the server is to close.
    pub(super) closing: Order,
    /// Slots before this have no connection any more, since the load was given up.
    swept: u32,
    /// Connections of HTTP/2 or HTTP/3, where that is spoken: slots have none of their own then.
    pub(super) shared: Option<SharedConnections>,
    /// What is to be done about what has come on one of those; empty between turns.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) heads: Heads,
    /// Requests that may still begin, or be meant to.
    pub(super) left: u64,
    /// Nothing begins any more.
    pub(super) ending: bool,
    /// When something last came of a response, or a request was begun while none was under way.
    pub(super) heard: Instant,
    /// What was seen.
    pub statistics: Statistics,
}

impl Engine {
    /// Clients that begin now; what they see is measured from a moment on.
    pub fn new(
        behaviour: Behaviour,
        shape: Shape,
        mut driver: Box<dyn Driver>,
        start: Instant,
        measured_from: Instant,
    ) -> Self {
        let mut slots = Vec::new();
        let mut thinking = BinaryHeap::new();
        let mut newcomers = VecDeque::new();
        if matches!(shape, Shape::Closed) {
            slots.resize_with(behaviour.places() as usize, Slot::default);
            for (slot, client) in slots.iter_mut().zip(0..) {
                let Some(task) = driver.first(client) else {
                    continue;
                };
                slot.request = task.request;
                if task.think.is_zero() {
                    newcomers.push_back(client);
                } else {
                    thinking.push(Reverse((start + task.think, client)));
                }
            }
        }
        let mut statistics = Statistics::new(start, measured_from);
        let multiplexing = behaviour.streams.map(|streams| Multiplexing {
            streams_per_connection: streams,
            ..Multiplexing::default()
        });
        match behaviour.is_http3 {
            true => statistics.http3 = multiplexing,
            false => statistics.http2 = multiplexing,
        }
        let is_open = matches!(shape, Shape::Open(_));
        let dealt_to = is_open.then_some(behaviour.slots);
        Self {
            left: behaviour.requests,
            shared: behaviour
                .streams
                .map(|streams| SharedConnections::new(streams, dealt_to)),
            outcomes: Vec::new(),
            behaviour,
            shape,
            driver,
            slots,
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            thinking,
            newcomers,
            start,
            opening: 0,
            swept: 0,
            deferred: Vec::new(),
            acknowledged: Vec::new(),
            busy: Order::default(),
            busy_count: 0,
            connections: 0,
            closing: Order::default(),
            heads: Heads::default(),
            ending: false,
            heard: start,
            statistics,
        }
    }

    // Getters.

    /// Requests under way.
    pub fn requests_under_way(&self) -> u32 {
        self.busy_count
    }

    /// Connections of clients, those that are being opened among them.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// A connection is being opened.
    pub fn is_opening(&self) -> bool {
        if let Some(shared) = &self.shared {
            return shared.is_opening();
        }
        let mut slots = self.slots.iter();
        slots.any(|slot| slot.stage == Stage::Connecting && slot.connection.is_some())
    }

    /// Nothing is under way, nothing will begin, and no server is about to close a connection.
    pub fn is_over(&self) -> bool {
        let begins = match &self.shape {
            Shape::Closed => {
                !self.thinking.is_empty() || !self.newcomers.is_empty() || self.has_deferred()
            }
            Shape::Open(schedule) => schedule.next().is_some(),
        };
        let is_idle = self.busy_count == 0 && self.waiting.is_empty();
        let closes = self.closing.first().is_some();
        is_idle && !closes && (self.ending || self.left == 0 || !begins)
    }

    /// Requests of an open loop whose time has come have not begun: the loop was held up.
    pub fn is_behind(&self, now: Instant) -> bool {
        let Shape::Open(schedule) = &self.shape else {
            return false;
        };
        self.may_begin() && schedule.next().is_some_and(|intended| intended <= now)
    }

    /// When [`handle_due`](Self::handle_due) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let since = |first: Option<u32>, time: Duration| {
            first.map(|slot| self.slots[slot as usize].since + time)
        };
        let begins = (!self.ending && self.left > 0).then(|| match &self.shape {
            Shape::Closed => {
                let newcomer = self.may_open().then_some(self.start);
                let thinker = self.thinking.peek().map(|Reverse((at, _))| *at);
                newcomer.into_iter().chain(thinker).min()
            }
            Shape::Open(schedule) => schedule.next(),
        });
        let deferred = self.has_deferred().then_some(Instant::START);
        [
            begins.flatten(),
            deferred,
            since(self.busy.first(), self.behaviour.timeout),
            since(self.closing.first(), CLOSING_TIME),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Something was put off to a later turn.
    fn has_deferred(&self) -> bool {
        !(self.deferred.is_empty() && self.acknowledged.is_empty())
    }

    // Commands.

    /// Nothing begins any more, and what was meant to after this moment does not count; what is under way goes on. What should
    /// have begun is an error.
    pub fn end(&mut self, now: Instant) {
        if self.ending {
            return;
        }
        // What has begun in this very turn counts: servers count it too.
        let after = now + Duration::from_micros(1);
        self.statistics.until = self.statistics.until.min(after);
        for (intended, _) in std::mem::take(&mut self.waiting) {
            self.statistics.failed(ErrorKind::NotBegun, intended, now);
        }
        while self.may_begin()
            && let Shape::Open(schedule) = &mut self.shape
            && let Some(intended) = schedule.take(now)
        {
            self.left -= 1;
            self.statistics.failed(ErrorKind::NotBegun, intended, now);
        }
        self.ending = true;
    }

    /// Gives up what is under way, and connections, this many at a time. True when none is left.
    pub fn abort(&mut self, now: Instant, most: usize, transport: &mut impl Transport) -> bool {
        self.end(now);
        let enough = self.connections.saturating_sub(most);
        while let Some(slot) = self.busy.first()
            && self.connections > enough
        {
            self.fail(slot, ErrorKind::Unfinished, now, transport);
        }
        if self.shared.is_some() {
            self.abort_shared(enough, transport);
        }
        while self.swept < self.slots.len() as u32 && self.connections > enough {
            self.drop_connection(self.swept, transport);
            self.swept += 1;
        }
        self.connections == 0
    }

    // What arrives.

    /// News of a connection.
    pub fn handle_event(
        &mut self,
        now: Instant,
        token: u64,
        set: EventSet,
        reason: Reason,
        transport: &mut impl Transport,
    ) {
        if self.shared.is_some() {
            return self.handle_shared(now, token, set, reason, transport);
        }
        let (slot, generation) = of_token(token);
        let is_news = self
            .slots
            .get(slot as usize)
            .is_some_and(|s| s.generation == generation);
        if !is_news {
            return;
        }
        if set.contains(EventSet::CONNECTED) {
            self.connected(slot, now, transport);
        }
        // That a connection stands the server's kernel says while the server itself is silent.
        let of_server = [EventSet::READABLE, EventSet::FINISHED, EventSet::CLOSED];
        if of_server.into_iter().any(|one| set.contains(one)) {
            self.heard = now;
        }
        if set.contains(EventSet::FINISHED) {
            self.slots[slot as usize].is_finished = true;
        }
        if set.contains(EventSet::READABLE) || set.contains(EventSet::FINISHED) {
            self.take_in(slot, generation, now, transport);
        }
        if set.contains(EventSet::CLOSED) && self.slots[slot as usize].generation == generation {
            self.closed(slot, reason, now, transport);
        }
    }

    /// Requests whose time has come, and deadlines that have passed.
    pub fn handle_due(&mut self, now: Instant, transport: &mut impl Transport) {
        self.go_on_with_deferred(now, transport);
        while let Some(slot) = self.first_since(self.busy, self.behaviour.timeout, now) {
            match self.slots[slot as usize].stage {
                _ if self.shared.is_some() => self.shared_timed_out(slot, now, transport),
                Stage::Connecting => self.fail(slot, ErrorKind::ConnectTimeout, now, transport),
                Stage::Securing => self.not_secured(slot, "timeout", now, transport),
                _ => self.fail(slot, ErrorKind::Timeout, now, transport),
            }
        }
        while let Some(slot) = self.first_since(self.closing, CLOSING_TIME, now) {
            self.finish(slot, now, transport);
        }
        self.begin_due(now, transport);
        self.settle_shared(now, transport);
        if self.busy_count > 0 {
            let requests = u64::from(self.busy_count) + self.waiting.len() as u64;
            self.statistics.silent(self.heard, now, requests);
        }
        self.statistics.seconds.advance(now);
    }

    fn first_since(&self, order: Order, time: Duration, now: Instant) -> Option<u32> {
        let first = order.first()?;
        (self.slots[first as usize].since + time <= now).then_some(first)
    }

    /// A connection is over that a slot has.
    fn closed(&mut self, slot: u32, reason: Reason, now: Instant, transport: &mut impl Transport) {
        let it = &mut self.slots[slot as usize];
        self.connections -= usize::from(it.connection.take().is_some());
        it.generation = it.generation.wrapping_add(1);
        match it.stage {
            Stage::Idle => (),
            Stage::Closing => self.rest(slot, now, transport),
            Stage::Securing => {
                let reason = match reason {
                    Reason::Done => "closed",
                    Reason::TimedOut => "timeout",
                    Reason::Reset | Reason::Aborted | Reason::Refused => "reset",
                    Reason::Unreachable => "unreachable",
                };
                self.not_secured(slot, reason, now, transport);
            }
            stage => {
                let kind = match (reason, stage) {
                    (Reason::Refused, _) => ErrorKind::Refused,
                    (Reason::Unreachable, _) => ErrorKind::Unreachable,
                    (Reason::TimedOut, Stage::Connecting) => ErrorKind::ConnectTimeout,
                    (Reason::TimedOut, _) => ErrorKind::Timeout,
                    (Reason::Reset | Reason::Aborted, _) => ErrorKind::Reset,
                    (Reason::Done, _) => ErrorKind::Closed,
                };
                self.fail(slot, kind, now, transport);
            }
        }
    }

    /// A request has failed; its connection is given up.
    pub(super) fn fail(
        &mut self,
        slot: u32,
        kind: ErrorKind,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        if self.shared.is_some() {
            self.drop_request(slot, transport);
        } else {
            self.drop_connection(slot, transport);
        }
        self.has_opened(slot);
        let it = &mut self.slots[slot as usize];
        if std::mem::take(&mut it.is_early) && kind != ErrorKind::Unfinished {
            self.statistics.not_secured(it.begun, EARLY_LEFT);
        }
        let intended = it.intended;
        self.statistics.failed(kind, intended, now);
        let of_others = match kind {
            ErrorKind::Unfinished => kind,
            _ => ErrorKind::Closed,
        };
        self.lose_behind(slot, of_others, now);
        self.is_no_longer_busy(slot);
        self.go_on(slot, now, transport);
    }

    /// A slot's connection stands, or will not: if it was the slot's first, another client may open its own.
    pub(super) fn has_opened(&mut self, slot: u32) {
        let was_new = std::mem::take(&mut self.slots[slot as usize].is_new);
        self.opening -= u32::from(was_new);
    }

    pub(super) fn drop_connection(&mut self, slot: u32, transport: &mut impl Transport) {
        let it = &mut self.slots[slot as usize];
        if let Some(id) = it.connection.take() {
            self.connections -= 1;
            it.generation = it.generation.wrapping_add(1);
            transport.abort(id);
        }
    }

    pub(super) fn is_no_longer_busy(&mut self, slot: u32) {
        self.busy.remove(&mut self.slots, slot);
        self.busy_count -= 1;
        self.slots[slot as usize].stage = Stage::Idle;
    }
}
