//! Echo, discard and chargen: what each does with the connections of a stack.
//!
//! One [`Service`] holds all connections of a program, whether a listener made them or the program
//! opened them; its kind decides what is sent and what becomes of what arrives. Every wait of a
//! connection has an end (the times in `limits`), and what a peer can make us hold is bounded:
//!
//! - echo takes from the receive buffer only what the send queue has room for, so a peer that does not
//!   take its answers finds the window closed;
//! - discard takes everything at once and keeps nothing;
//! - chargen sends slices of one buffer that all connections share, and keeps nothing either.
//!
//! Call [`Service::handle`] each turn between `receive` and `send`, and by [`Service::poll_timeout`].

mod connection;
mod datagrams;
mod kind;
mod pattern;
mod totals;

use std::net::SocketAddr;
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, Event, EventSet, OpenError, Options, Reason};
use exos_inet::udp::UdpError;
use exos_inet::{Instant, Stack};
use exos_program::{ConnectionTable, Timed};

use crate::limits::{
    ABORTS_AT_ONCE, CONNECTIONS_MAX, ECHO_BYTES_MAX, ECHO_QUEUE_MAX, ECHO_QUEUE_MIN,
};
use connection::{Connection, Shared};
use datagrams::Datagrams;

pub use kind::{Kind, Limits};
pub use pattern::pattern;
pub use totals::{Ended, Summary, Totals};

/// A service and its connections.
pub struct Service {
    kind: Kind,
    limits: Limits,
    connections: ConnectionTable<Connection>,
    /// Connections that the program asked for and that do not stand yet.
    opening: usize,
    due: Vec<ConnectionId>,
    pattern: Buffer,
    datagrams: Option<Datagrams>,
    totals: Totals,
}

impl Service {
    /// A service without connections.
    pub fn new(kind: Kind, limits: Limits, now: Instant) -> Self {
        Self {
            kind,
            limits,
            connections: ConnectionTable::new(now),
            opening: 0,
            due: Vec::new(),
            pattern: pattern(),
            datagrams: None,
            totals: Totals::new(now),
        }
    }

    /// Serve datagrams to this port too. chargen has none: see the crate's description.
    pub fn bind_datagrams(&mut self, port: u16, stack: &mut Stack) -> Result<(), UdpError> {
        self.datagrams = Datagrams::bind(self.kind, port, stack)?;
        Ok(())
    }

    /// Open a connection of our own, from an address and port of our choice or any.
    pub fn connect(
        &mut self,
        now: Instant,
        source: Option<SocketAddr>,
        to: SocketAddr,
        options: &Options,
        stack: &mut Stack,
    ) -> Result<(), OpenError> {
        stack.tcp.connect(now, source, to, options)?;
        self.opening += 1;
        Ok(())
    }

    /// Answer all that has happened.
    pub fn handle(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(event) = stack.poll_event() {
            self.handle_event(now, &event, stack);
        }
        let mut due = std::mem::take(&mut self.due);
        self.connections.expire(now, &mut due);
        for id in due.drain(..) {
            self.handle_alarm(now, id, stack);
        }
        self.due = due;
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.handle(now, stack, &mut self.totals);
        }
    }

    /// When to call `handle` at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.connections.next_deadline()
    }

    fn handle_event(&mut self, now: Instant, event: &Event, stack: &mut Stack) {
        let id = event.connection;
        if event.set.contains(EventSet::CONNECTED) {
            self.opening -= 1;
            self.stands(now, id, stack);
        }
        if event.set.contains(EventSet::ACCEPTED) {
            self.accept(now, id, stack);
        }
        if let Some(connection) = self.connections.find(id) {
            connection.peer_finished |= event.set.contains(EventSet::FINISHED);
            self.step(now, id, stack);
        }
        if event.set.contains(EventSet::CLOSED) {
            self.close(now, event);
        }
    }

    fn accept(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        if self.connections() >= CONNECTIONS_MAX {
            self.totals.refused += 1;
            stack.tcp.abort(id);
        } else {
            self.stands(now, id, stack);
        }
    }

    fn stands(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let flow = stack.tcp.connection(id).map(|c| *c.flow());
        let Some(flow) = flow else { return };
        let connection = Connection::new(id, flow, now, self.limits.time);
        self.connections.insert(connection);
        self.totals.opened(now);
    }

    /// Take and send what can be.
    fn step(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let shared = Shared {
            kind: self.kind,
            limits: self.limits,
            pattern: &self.pattern,
            echo_queue: (ECHO_BYTES_MAX / self.connections().max(1))
                .clamp(ECHO_QUEUE_MIN, ECHO_QUEUE_MAX),
        };
        let Some(connection) = self.connections.find(id) else {
            return;
        };
        let moved = connection.step(now, &shared, stack);
        self.totals.moved(now, moved);
        self.connections.arm(id);
    }

    fn close(&mut self, now: Instant, event: &Event) {
        if let Some(connection) = self.connections.remove(event.connection) {
            self.totals.ended(&connection.summary(now), event.reason);
        } else if event.reason != Reason::Aborted {
            // One of ours that never stood; one that was refused above is aborted.
            self.opening = self.opening.saturating_sub(1);
            self.totals.never_stood(event.reason);
        }
    }

    /// A connection's time has come.
    fn handle_alarm(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        if let Some(connection) = self.connections.find(id) {
            let idle = connection.handle_deadline(now, self.kind, stack);
            self.totals.idle_timeouts += u64::from(idle);
        }
        // An aborted connection's deadline may be over; its end is told in this turn.
        let at_least = now + Duration::from_millis(1);
        self.connections.arm_again(id, at_least);
    }

    /// Finish every connection: what is queued still goes, what still comes is thrown away.
    pub fn stop(&mut self, now: Instant, stack: &mut Stack) {
        let ids: Vec<ConnectionId> = self.connections.iter().map(Timed::id).collect();
        for id in ids {
            if let Some(connection) = self.connections.find(id) {
                connection.finish(now, stack);
            }
            self.connections.arm(id);
        }
    }

    /// Give up some of what is left, as many as resets can be queued at once; false when none is left.
    pub fn abort_some(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let left = self.connections.iter().take(ABORTS_AT_ONCE);
        let ids: Vec<ConnectionId> = left.map(Timed::id).collect();
        for &id in &ids {
            stack.tcp.abort(id);
        }
        while let Some(event) = stack.poll_event() {
            if event.set.contains(EventSet::CLOSED) {
                self.close(now, &event);
            }
        }
        !ids.is_empty()
    }

    /// Which service this is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Connections that stand.
    pub fn connections(&self) -> usize {
        self.connections.open()
    }

    /// True when none stands and none is being opened.
    pub fn is_done(&self) -> bool {
        self.connections() == 0 && self.opening == 0
    }

    /// The connections that stand, each with its identity.
    pub fn summaries(&self, now: Instant) -> impl Iterator<Item = (ConnectionId, Summary)> {
        let all = self.connections.iter();
        all.map(move |c| (c.id, c.summary(now)))
    }

    /// What all of it came to.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}
