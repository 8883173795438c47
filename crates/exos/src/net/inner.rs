//! What the sockets of a stack have together: what is known of each, one turn of the stack, and its news for each of them.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::BorrowedFd;
use std::task::Waker;
use std::time::Duration;

use exos_inet::Instant;
use exos_inet::limits::EPHEMERAL_FIRST;
use exos_inet::tcp::{Event, EventSet, ListenerId, State};
use exos_inet::udp::UdpHandle;
use slab::Slab;

use super::claims::Claims;
use super::errors;
use super::handover::gone::Gone;
use super::table::{Connection, Datagrams, Listener, Made, Place, Readiness, Waiters};
use super::watches::Watches;
use crate::clock;
use crate::limits::LINGER;
use crate::node::Exos;
use crate::via::{Lost, News};
use crate::wait::Waited;

/// Whether a turn waits.
#[derive(Copy, Clone)]
pub(super) enum Wait<'a> {
    No,
    /// Until something comes, one of the descriptors is readable, or that time.
    Until(Option<Instant>, &'a [BorrowedFd<'a>]),
}

pub(super) struct Inner {
    pub exos: Exos,
    pub connections: Slab<Connection>,
    pub listeners: Slab<Listener>,
    pub places: Slab<Place>,
    pub datagrams: Slab<Datagrams>,
    /// The place that a listener of the stack's is of.
    pub by_listener: HashMap<ListenerId, usize>,
    pub by_handle: HashMap<UdpHandle, usize>,
    pub watches: Watches,
    pub claims: Claims,
    pub gone: Gone,
    /// Tasks to be woken when the stack is not borrowed any more.
    pub woken: Vec<Waker>,
    /// The task that runs the stack, where one does and sleeps.
    pub driver: Option<Waker>,
    /// How long the end of the stack waits for what was written to be delivered.
    pub linger: Duration,
    /// Connections that a full queue of a listener has cost.
    pub overflows: u64,
    /// From which ports are drawn, and the key by which connections are spread over listeners.
    random: RandomState,
    ports_drawn: u64,
}

impl Inner {
    pub fn new(exos: Exos) -> Self {
        Self {
            exos,
            connections: Slab::new(),
            listeners: Slab::new(),
            places: Slab::new(),
            datagrams: Slab::new(),
            by_listener: HashMap::new(),
            by_handle: HashMap::new(),
            watches: Watches::default(),
            claims: Claims::default(),
            gone: Gone::default(),
            woken: Vec::new(),
            driver: None,
            linger: LINGER,
            overflows: 0,
            random: RandomState::new(),
            ports_drawn: 0,
        }
    }

    /// Sends, waits if asked to, takes in, and gives each socket its news; says how the wait has ended.
    pub fn turn(&mut self, wait: Wait<'_>) -> io::Result<Waited> {
        self.exos.send().map_err(errors::of)?;
        self.claims.give_back_ended(&mut self.exos);
        let exos = std::slice::from_mut(&mut self.exos);
        let waited = match wait {
            Wait::No => Waited::Awake,
            Wait::Until(until, others) => {
                Exos::wait_and_tell(exos, until, others).map_err(errors::of)?
            }
        };
        self.gone.forget(&mut self.exos, self.claims.owes());
        self.exos.receive();
        while let Some(news) = self.exos.poll_news() {
            if let News::Revoked {
                what: Lost::Link,
                reason,
                ..
            } = news
            {
                let why = format!("the daemon has taken the link back: {reason}");
                return Err(io::Error::new(io::ErrorKind::NetworkDown, why));
            }
        }
        while let Some(event) = self.exos.stack.poll_event() {
            self.handle_event(&event);
        }
        while let Some(handle) = self.exos.stack.udp.poll_readable() {
            let Some(&key) = self.by_handle.get(&handle) else {
                continue;
            };
            let waiters = &mut self.datagrams[key].waiters;
            tell(waiters, READING, &mut self.woken, &mut self.watches);
        }
        Ok(waited)
    }

    fn handle_event(&mut self, event: &Event) {
        let key = match event.token {
            0 if event.set.contains(EventSet::ACCEPTED) => match self.made(event) {
                Some(key) => key,
                None => return,
            },
            0 => return,
            token => token as usize - 1,
        };
        let tcp = &mut self.exos.stack.tcp;
        let connection = &mut self.connections[key];
        let has = |bit| event.set.contains(bit);
        if connection.is_orphan() && has(EventSet::READABLE) {
            // Nobody will read it, and the peer is told so (RFC 9293 §3.10.4, RFC 1122 §4.2.2.13).
            tcp.abort(connection.id);
        }
        if has(EventSet::CONNECTED) {
            connection.connected();
        }
        if has(EventSet::FINISHED) {
            connection.peer_finished();
        }
        if has(EventSet::CLOSED) {
            let rest = match connection.is_orphan() {
                true => &[],
                false => tcp.readable(connection.id),
            };
            connection.closed(event.reason, rest);
        }
        let closed = has(EventSet::CLOSED);
        let news = Readiness {
            reading: closed || has(EventSet::READABLE) || has(EventSet::FINISHED),
            writing: closed || has(EventSet::CONNECTED) || has(EventSet::ACKNOWLEDGED),
        };
        tell(
            &mut connection.waiters,
            news,
            &mut self.woken,
            &mut self.watches,
        );
        if closed && connection.is_orphan() {
            self.forget(key);
        }
    }

    /// A connection that a peer has opened: it waits to be accepted.
    fn made(&mut self, event: &Event) -> Option<usize> {
        let (id, tcp) = (event.connection, &mut self.exos.stack.tcp);
        let connection = tcp.connection(id)?;
        let (flow, listener) = (*connection.flow(), connection.listener());
        let place = listener.and_then(|id| self.by_listener.get(&id).copied());
        let key = self.connections.insert(Connection::new(id, true));
        // One whose listener has been closed, or waits for too many, is reset.
        if !place.is_some_and(|place| self.offer(place, Made::new(key, flow))) {
            self.overflows += 1;
            self.connections.remove(key);
            self.exos.stack.tcp.abort(id);
            return None;
        }
        self.exos.stack.tcp.set_token(id, key as u64 + 1);
        Some(key)
    }

    /// Has a connection wait for the listener at a place that takes it; false where too many do.
    pub fn offer(&mut self, place: usize, made: Made) -> bool {
        let key = self.random.hash_one("listeners");
        let listener = self.places[place].taker(&made.flow, key);
        let listener = &mut self.listeners[listener];
        if listener.made.len() >= listener.backlog {
            return false;
        }
        listener.made.push_back(Made {
            hop_limit: listener.hop_limit,
            ..made
        });
        tell(
            &mut listener.waiters,
            READING,
            &mut self.woken,
            &mut self.watches,
        );
        true
    }

    /// The program lets a connection go: what was written is delivered, unless something is unread, or the connection is still
    /// being opened, or it shall not linger.
    pub fn release(&mut self, key: usize, abort: bool) {
        let connection = &mut self.connections[key];
        connection.held = false;
        // Not dropped here: their last owner may own sockets.
        self.woken.extend(connection.waiters.reader.take());
        self.woken.extend(connection.waiters.writer.take());
        if let Some(watch) = connection.waiters.watch.take() {
            self.watches.remove(watch);
        }
        if connection.is_over() {
            self.forget(key);
            return;
        }
        self.has_work();
        let connection = &mut self.connections[key];
        let (id, tcp) = (connection.id, &mut self.exos.stack.tcp);
        let unread = !tcp.readable(id).is_empty();
        let opening = tcp
            .connection(id)
            .is_some_and(|c| c.state() == State::SynSent);
        match abort || unread || opening {
            true => tcp.abort(id),
            false => tcp.finish(id),
        }
    }

    /// The stack has something to do that no turn under way sees to.
    pub fn has_work(&mut self) {
        self.woken.extend(self.driver.take());
    }

    /// One of the ports that are given out where none is asked for (RFC 6335 §6).
    pub fn random_port(&mut self) -> u16 {
        let hash = self.random.hash_one(self.ports_drawn);
        self.ports_drawn += 1;
        EPHEMERAL_FIRST + (hash % u64::from(u16::MAX - EPHEMERAL_FIRST + 1)) as u16
    }

    pub fn forget(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        if let Some(source) = connection.source {
            self.claims.is_free(source);
        }
    }

    /// Runs the stack until what closed sockets have written is acknowledged, or that time; gives how many connections have not
    /// come to that.
    pub fn deliver(&mut self, until: Instant) -> io::Result<usize> {
        loop {
            let tcp = &self.exos.stack.tcp;
            let delivers = |c: &&Connection| {
                c.is_orphan()
                    && tcp
                        .connection(c.id)
                        .is_some_and(|c| c.state() != State::FinWait2)
            };
            let open = self
                .connections
                .iter()
                .map(|(_, c)| c)
                .filter(delivers)
                .count();
            if open == 0 || clock::now() >= until {
                self.exos.send().map_err(errors::of)?;
                return Ok(open);
            }
            self.turn(Wait::Until(Some(until), &[]))?;
        }
    }
}

/// There is something to read.
pub(super) const READING: Readiness = Readiness {
    reading: true,
    writing: false,
};

/// Wakes those who wait for such news of a socket.
fn tell(waiters: &mut Waiters, news: Readiness, woken: &mut Vec<Waker>, watches: &mut Watches) {
    if news.reading {
        woken.extend(waiters.reader.take());
    }
    if news.writing {
        woken.extend(waiters.writer.take());
    }
    if let Some(watch) = waiters.watch {
        watches.tell(watch, news);
    }
}
