//! Connections that proxies pass on: those whose header has not come, and for whom the others are.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use exos::wire::Prefix;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, EventSet};

use super::header::{self, HeaderError};
use crate::connections::{Abort, Transport};
use crate::limits::{PROXY_HEADER_TIME, WARNINGS_MAX};

/// The connections of a loop that proxies pass on.
#[derive(Debug)]
pub struct Introductions {
    /// Networks of the proxies.
    trusted: Arc<[Prefix]>,
    /// Connections that are not told of yet.
    waiting: HashMap<ConnectionId, Newcomer>,
    /// Who has connected on others, as their proxies say.
    known: HashMap<ConnectionId, SocketAddr>,
    now: Instant,
    counters: Counters,
    /// Failures that were told in this second, and when it began.
    told: (usize, Instant),
}

/// A connection whose header has not come.
#[derive(Clone, Copy, Debug)]
struct Newcomer {
    deadline: Instant,
    /// What has happened of it.
    set: EventSet,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    introduced: u64,
    refused: u64,
    late: u64,
}

impl Introductions {
    /// Of the proxies in these networks; nothing where there are none.
    pub fn by(trusted: &[Prefix], now: Instant) -> Option<Introductions> {
        (!trusted.is_empty()).then(|| Introductions {
            trusted: trusted.into(),
            waiting: HashMap::new(),
            known: HashMap::new(),
            now,
            counters: Counters::default(),
            told: (0, now),
        })
    }

    /// Another turn begins: gives up those whose header is late.
    pub fn begin_turn(&mut self, now: Instant, transport: &mut impl Transport) {
        self.now = now;
        let late = self.waiting.iter().filter(|(_, it)| it.deadline <= now);
        let late: Vec<ConnectionId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.waiting.remove(&id);
            self.counters.late += 1;
            transport.abort(id, Abort::Cancelled);
        }
    }

    /// When to begin a turn, whatever happens.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.values().map(|it| it.deadline).min()
    }

    /// How many connections were introduced, and were not, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Counters {
            introduced,
            refused,
            late,
        } = self.counters;
        let all = [
            ("proxy_protocol_connections", introduced),
            ("proxy_protocol_refusals", refused),
            ("proxy_protocol_timeouts", late),
        ];
        all.into_iter()
    }

    /// Who has connected, where a proxy says so.
    pub(super) fn client_of(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.known.get(&id).copied()
    }

    /// A connection is over.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.known.remove(&id);
        self.waiting.remove(&id);
    }

    fn is_trusted(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.trusted.iter().any(|network| network.contains(ip))
    }

    /// What of an event is told: nothing of a connection before its header has come.
    pub(super) fn translate(
        &mut self,
        event: Event,
        transport: &mut impl Transport,
    ) -> Option<Event> {
        let (id, set) = (event.connection, event.set);
        if set.contains(EventSet::ACCEPTED)
            && !transport.is_from_kernel(id)
            && transport.peer(id).is_some_and(|ip| self.is_trusted(ip))
        {
            let newcomer = Newcomer {
                deadline: self.now + PROXY_HEADER_TIME,
                set: EventSet::NONE,
            };
            self.waiting.insert(id, newcomer);
        }
        if set.contains(EventSet::CLOSED) {
            let was_told = !self.waiting.contains_key(&id);
            self.forget(id);
            return was_told.then_some(event);
        }
        let Some(newcomer) = self.waiting.get_mut(&id) else {
            return Some(event);
        };
        newcomer.set = newcomer.set.with(set);
        let set = newcomer.set;
        match header::parse(transport.readable(id)) {
            Ok(Some(header)) => {
                self.waiting.remove(&id);
                self.counters.introduced += 1;
                let client = header.ends.map(|(client, _)| (id, client));
                self.known.extend(client);
                transport.consume(id, header.len);
                let set = match transport.readable(id).is_empty() {
                    true => set.without(EventSet::READABLE),
                    false => set,
                };
                Some(Event { set, ..event })
            }
            Ok(None) if !set.contains(EventSet::FINISHED) => None,
            unread => {
                let error = unread.err().unwrap_or(HeaderError::Syntax);
                self.refuse(id, error, transport);
                None
            }
        }
    }

    fn refuse(&mut self, id: ConnectionId, error: HeaderError, transport: &mut impl Transport) {
        self.waiting.remove(&id);
        self.counters.refused += 1;
        if self.now >= self.told.1 + std::time::Duration::from_secs(1) {
            self.told = (0, self.now);
        }
        self.told.0 += 1;
        if self.told.0 <= WARNINGS_MAX
            && let Some(peer) = transport
                .ends(id)
                .map(|(_, theirs): (_, SocketAddr)| theirs)
        {
            exos_program::warn!("exos serve: a connection from {peer} is refused: {error}");
        }
        transport.abort(id, Abort::Cancelled);
    }
}
