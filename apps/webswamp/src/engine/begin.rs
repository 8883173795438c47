//! Requests that begin: when it is their time, on a connection that stands or on a new one.

use std::cmp::Reverse;

use exos_inet::Instant;

use super::behaviour::Shape;
use super::clients::Engine;
use super::slot::{Slot, Stage, of_token, token};
use crate::limits::{RETRY_TIME, WAITING_MAX};
use crate::request::Position;
use crate::statistics::ErrorKind;
use crate::transport::Transport;

impl Engine {
    /// All whose time has come.
    pub(super) fn begin_due(&mut self, now: Instant, transport: &mut impl Transport) {
        self.begin_newcomers(now, transport);
        self.begin_thoughtful(now, transport);
        self.begin_waiting(now, transport);
        self.begin_scheduled(now, transport);
    }

    /// In a closed loop, clients that have no connection yet.
    fn begin_newcomers(&mut self, now: Instant, transport: &mut impl Transport) {
        while now >= self.start
            && self.may_begin()
            && self.may_open()
            && let Some(slot) = self.newcomers.pop_front()
        {
            self.left -= 1;
            self.opening += 1;
            self.slots[slot as usize].is_new = true;
            self.begin(slot, now, now, transport);
        }
    }

    /// In a closed loop, clients that have thought for long enough.
    fn begin_thoughtful(&mut self, now: Instant, transport: &mut impl Transport) {
        while self.may_begin()
            && let Some(Reverse((at, slot))) = self.thinking.peek().copied()
            && at <= now
        {
            self.thinking.pop();
            // Nobody meant it to begin before it could.
            self.left -= 1;
            self.begin(slot, now, now, transport);
        }
    }

    /// In an open loop, requests for which there was no connection before.
    fn begin_waiting(&mut self, now: Instant, transport: &mut impl Transport) {
        while let Some((intended, request)) = self.waiting.front().copied()
            && let Some(slot) = self.free_slot()
        {
            self.waiting.pop_front();
            self.slots[slot as usize].request = request;
            self.begin(slot, intended, now, transport);
        }
    }

    /// In an open loop, requests of the schedule.
    fn begin_scheduled(&mut self, now: Instant, transport: &mut impl Transport) {
        while self.may_begin()
            && let Shape::Open(schedule) = &mut self.shape
            && let Some(intended) = schedule.take(now)
        {
            let Some(task) = self.driver.next(0) else {
                self.left = 0;
                return;
            };
            self.left -= 1;
            match self.free_slot() {
                Some(slot) => {
                    self.statistics.slipped(intended, now);
                    self.slots[slot as usize].request = task.request;
                    self.begin(slot, intended, now, transport);
                }
                None if self.waiting.len() < WAITING_MAX => {
                    self.waiting.push_back((intended, task.request));
                }
                None => self.statistics.failed(ErrorKind::NotBegun, intended, now),
            }
        }
    }

    pub(super) fn may_begin(&self) -> bool {
        !self.ending && self.left > 0
    }

    /// A client that has yet to begin may: not all at once.
    pub(super) fn may_open(&self) -> bool {
        !self.newcomers.is_empty() && self.opening < self.behaviour.opening
    }

    /// A slot of an open loop for a request.
    fn free_slot(&mut self) -> Option<u32> {
        let idle = match self.shared {
            // All streams of all connections in turn.
            Some(_) => self.idle.pop_front(),
            None => self.idle.pop_back(),
        };
        if idle.is_some() {
            return idle;
        }
        let count = self.slots.len() as u32;
        (count < self.behaviour.places()).then(|| {
            self.slots.push(Slot::default());
            count
        })
    }

    /// The slot's request, which was meant to begin some time ago.
    fn begin(
        &mut self,
        slot: u32,
        intended: Instant,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        self.busy.push(&mut self.slots, slot);
        if self.busy_count == 0 {
            self.heard = now;
        }
        self.busy_count += 1;
        self.statistics.seconds.began(now);
        let it = &mut self.slots[slot as usize];
        it.intended = intended;
        (it.begun, it.since) = (now, now);
        (it.framing, it.content, it.skipping) = (0, 0, 0);
        if it.connection.is_some() {
            return self.send_first(slot, now, transport);
        }
        it.stage = Stage::Connecting;
        it.used = 0;
        if let Some(shared) = &mut self.shared {
            shared.is_fresh(slot);
            return self.enlist(slot, now, transport);
        }
        it.is_finished = false;
        match transport.open(token(slot, it.generation)) {
            Ok(id) => {
                it.connection = Some(id);
                self.connections += 1;
            }
            Err(_) => self.fail(slot, ErrorKind::NoConnection, now, transport),
        }
    }

    /// Sends the slot's request on its connection, and others behind it where several may be under way.
    pub(super) fn send_first(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        let it = &mut self.slots[slot as usize];
        it.stage = Stage::Head;
        let request = it.request;
        let is_last = self.send(slot, request, transport);
        self.slots[slot as usize].is_last = is_last;
        self.fill(slot, now, transport);
    }

    /// Sends a request on a slot's connection. True when it is the last there.
    pub(super) fn send(&mut self, slot: u32, request: u32, transport: &mut impl Transport) -> bool {
        let it = &mut self.slots[slot as usize];
        it.used += 1;
        let is_last = it.used >= self.behaviour.requests_per_connection;
        let place = if is_last {
            Position::Last
        } else {
            Position::Between
        };
        let request = &self.driver.requests()[request as usize];
        let id = it.connection.expect("who sends has one");
        transport.send(id, request.bytes(place));
        if is_last && self.behaviour.early_finish {
            transport.finish(id);
        }
        is_last
    }

    /// A connection stands, which is opened for a request.
    pub(super) fn connected(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        self.has_opened(slot);
        let it = &self.slots[slot as usize];
        self.statistics.connected(it.begun, now);
        if transport.is_secured() {
            self.slots[slot as usize].stage = Stage::Securing;
            return;
        }
        if self.behaviour.merging {
            return self.send_first(slot, now, transport);
        }
        transport.acknowledge(it.connection.expect("it has just come to stand"));
        self.deferred.push(token(slot, it.generation));
    }

    /// What was put off until acknowledgements had left: those of the turn before have, those of this turn leave at its end.
    pub(super) fn go_on_with_deferred(&mut self, now: Instant, transport: &mut impl Transport) {
        let put_off = std::mem::take(&mut self.deferred);
        for token in std::mem::replace(&mut self.acknowledged, put_off) {
            let (slot, generation) = of_token(token);
            let it = &self.slots[slot as usize];
            match it.stage {
                _ if it.generation != generation => (),
                Stage::Connecting => self.send_first(slot, now, transport),
                Stage::Closing => self.finish(slot, now, transport),
                Stage::Idle | Stage::Securing | Stage::Head | Stage::Body(_) => (),
            }
        }
    }

    /// The slot's request is over, well or not: what it does next.
    pub(super) fn go_on(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        let has_connection = match &self.shared {
            Some(shared) => shared.has(slot),
            None => self.slots[slot as usize].connection.is_some(),
        };
        match self.shape {
            Shape::Closed => {
                let Some(task) = self.driver.next(slot) else {
                    return;
                };
                self.slots[slot as usize].request = task.request;
                // Who cannot open a connection does not ask for one without rest.
                let wait = if has_connection {
                    task.think
                } else {
                    task.think.max(self.rest_time(slot))
                };
                if wait.is_zero() && self.may_begin() && has_connection {
                    self.left -= 1;
                    self.begin(slot, now, now, transport);
                } else {
                    self.thinking.push(Reverse((now + wait, slot)));
                }
            }
            Shape::Open(_) => self.idle.push_back(slot),
        }
    }

    /// How long a client rests that has no connection: not at all, unless its last request could not be sent.
    fn rest_time(&self, slot: u32) -> std::time::Duration {
        let was_sent = self.slots[slot as usize].used > 0;
        if was_sent {
            std::time::Duration::ZERO
        } else {
            RETRY_TIME
        }
    }
}
