//! One connection of a service.
//!
//! The bytes sent are counted when the peer acknowledges them: what is merely queued has not gone
//! anywhere.

use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, Flow};
use exos_inet::{Instant, Stack};

use super::kind::{Kind, Limits};
use super::totals::{Moved, Summary};
use crate::limits::{
    CHARGEN_AHEAD_MIN, CHARGEN_SLICE_MAX, ECHO_SLICES_MAX, IDLE_TIME, LINGER_TIME,
};

/// What the connections of a service have in common.
pub(super) struct Shared<'a> {
    pub kind: Kind,
    pub limits: Limits,
    pub pattern: &'a Buffer,
    /// Bytes that an echo connection may have queued.
    pub echo_queue: usize,
}

pub(super) struct Connection {
    pub id: ConnectionId,
    flow: Flow,
    began: Instant,
    /// When anything last arrived or was acknowledged.
    moved: Instant,
    /// When the limit of time is reached.
    ends: Option<Instant>,
    queued: u64,
    sent: u64,
    received: u64,
    pub peer_finished: bool,
    finished: bool,
}

impl exos_program::Timed for Connection {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn deadline(&self) -> Instant {
        let patience = if self.finished {
            LINGER_TIME
        } else {
            IDLE_TIME
        };
        let idle = self.moved + patience;
        let ends = self.ends.filter(|_| !self.finished);
        ends.map_or(idle, |at| at.min(idle))
    }
}

impl Connection {
    pub fn new(id: ConnectionId, flow: Flow, now: Instant, time: Option<Duration>) -> Self {
        Self {
            id,
            flow,
            began: now,
            moved: now,
            ends: time.map(|time| now + time),
            queued: 0,
            sent: 0,
            received: 0,
            peer_finished: false,
            finished: false,
        }
    }

    /// Take what arrived, count what was acknowledged, send what there is to send.
    pub fn step(&mut self, now: Instant, shared: &Shared<'_>, stack: &mut Stack) -> Moved {
        let before = (self.received, self.sent);
        match shared.kind {
            _ if self.finished => {}
            Kind::Echo => self.echo(now, shared.echo_queue, stack),
            Kind::Discard => self.discard(now, shared.limits.bytes, stack),
            Kind::Chargen => self.generate(now, shared, stack),
        }
        let unacknowledged = stack
            .tcp
            .connection(self.id)
            .map_or(0, |c| c.unacknowledged());
        self.sent = self.queued - unacknowledged as u64;
        let moved = Moved {
            received: self.received - before.0,
            sent: self.sent - before.1,
        };
        if moved.received + moved.sent > 0 {
            self.moved = now;
        }
        moved
    }

    fn echo(&mut self, now: Instant, queue_max: usize, stack: &mut Stack) {
        let Some(tcp) = stack.tcp.connection(self.id) else {
            return;
        };
        let room = queue_max.saturating_sub(tcp.unacknowledged());
        let slices = tcp.queue().slice_count();
        let ready = tcp.readable();
        let count = if slices < ECHO_SLICES_MAX {
            ready.len().min(room)
        } else {
            0
        };
        let all = count == ready.len();
        if count > 0 {
            let copy = Buffer::from(ready[..count].to_vec());
            if stack.tcp.send(self.id, copy.whole()) {
                self.queued += count as u64;
            }
            stack.tcp.consume(self.id, count);
            self.received += count as u64;
        }
        if self.peer_finished && all {
            self.finish(now, stack);
        }
    }

    fn discard(&mut self, now: Instant, limit: Option<u64>, stack: &mut Stack) {
        let count = stack.tcp.readable(self.id).len();
        stack.tcp.consume(self.id, count);
        self.received += count as u64;
        if self.peer_finished {
            self.finish(now, stack);
        } else if limit.is_some_and(|limit| self.received >= limit) {
            self.enough(now, stack);
        }
    }

    /// No more of what the peer sends is wanted: only a reset says so.
    fn enough(&mut self, now: Instant, stack: &mut Stack) {
        self.end(now);
        stack.tcp.abort(self.id);
    }

    fn generate(&mut self, now: Instant, shared: &Shared<'_>, stack: &mut Stack) {
        let unread = stack.tcp.readable(self.id).len();
        stack.tcp.consume(self.id, unread);
        self.received += unread as u64;
        let Some(tcp) = stack.tcp.connection(self.id) else {
            return;
        };
        let window = tcp.info().congestion_window as usize;
        let ahead = window.max(CHARGEN_AHEAD_MIN);
        let mut unsent = tcp.unsent();
        let limit = shared.limits.bytes.unwrap_or(u64::MAX);
        while unsent < ahead && self.queued < limit {
            let from = (self.queued % shared.pattern.len() as u64) as usize;
            let room = (shared.pattern.len() - from).min(CHARGEN_SLICE_MAX);
            let count = (limit - self.queued).min(room as u64) as usize;
            let slice = shared.pattern.slice(from..from + count);
            if !stack.tcp.send(self.id, slice) {
                break;
            }
            unsent += count;
            self.queued += count as u64;
        }
        if self.queued >= limit {
            self.finish(now, stack);
        }
    }

    /// Nothing more will be sent, and nothing that comes is looked at.
    pub fn finish(&mut self, now: Instant, stack: &mut Stack) {
        if !self.finished {
            self.end(now);
            stack.tcp.finish(self.id);
            stack.tcp.discard_received(self.id);
        }
    }

    fn end(&mut self, now: Instant) {
        self.finished = true;
        // The wait for the peer begins.
        self.moved = now;
    }

    /// The deadline is over. True when that was because nothing moved.
    pub fn handle_deadline(&mut self, now: Instant, kind: Kind, stack: &mut Stack) -> bool {
        let reached = !self.finished && self.ends.is_some_and(|at| at <= now);
        match kind {
            _ if !reached => stack.tcp.abort(self.id),
            Kind::Discard => self.enough(now, stack),
            Kind::Echo | Kind::Chargen => self.finish(now, stack),
        }
        !reached
    }

    /// How it goes.
    pub fn summary(&self, now: Instant) -> Summary {
        Summary {
            local: self.flow.local(),
            peer: self.flow.remote(),
            time: if self.finished || self.moved > self.began {
                self.moved - self.began
            } else {
                now - self.began
            },
            bytes_sent: self.sent,
            bytes_received: self.received,
            ended_by_us: self.finished,
        }
    }
}
