//! All that is as a connection, by identity: connections of TCP, requests of HTTP/3, and streams of HTTP/2 that wait.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use exos_program::ConnectionTable;

use crate::connections::connection::Connection;
use crate::connections::http2::Exchanges;
use crate::quic::is_request;

/// All of them.
pub(super) struct Tables {
    connections: ConnectionTable<Connection>,
    requests: ConnectionTable<Connection>,
    /// Streams whose requests wait, or are answered in parts.
    pub(super) exchanges: Exchanges,
}

impl Tables {
    /// None.
    pub(super) fn new(now: Instant) -> Tables {
        Tables {
            connections: ConnectionTable::new(now),
            requests: ConnectionTable::new(now),
            exchanges: Exchanges::new(now),
        }
    }

    /// The table that an identity is of, unless it is a stream's.
    #[inline]
    pub(super) fn of(&mut self, id: ConnectionId) -> &mut ConnectionTable<Connection> {
        match is_request(id) {
            true => &mut self.requests,
            false => &mut self.connections,
        }
    }

    /// A connection that streams may be of, and all streams.
    pub(super) fn with_streams(
        &mut self,
        id: ConnectionId,
    ) -> Option<(&mut Connection, &mut Exchanges)> {
        let connection = self.connections.find(id)?;
        Some((connection, &mut self.exchanges))
    }

    /// Whether one waits for a document.
    pub(super) fn is_fetching(&mut self, id: ConnectionId) -> bool {
        let connection = match Exchanges::has(id) {
            true => self.exchanges.find(id).map(|it| &mut it.connection),
            false => self.of(id).find(id),
        };
        connection.is_some_and(|connection| connection.waits_for().is_for_content())
    }

    /// Connections and requests, without streams.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().chain(self.requests.iter())
    }

    /// Open connections of TCP.
    pub(super) fn connections(&self) -> usize {
        self.connections.open()
    }

    /// There are neither connections nor requests.
    pub(super) fn is_empty(&self) -> bool {
        self.connections.open() + self.requests.open() == 0
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let all = [
            self.connections.next_deadline(),
            self.requests.next_deadline(),
            self.exchanges.next_deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// Appends those whose time has come.
    pub(super) fn expire(&mut self, now: Instant, expired: &mut Vec<ConnectionId>) {
        self.exchanges.expire(now, expired);
        self.connections.expire(now, expired);
        self.requests.expire(now, expired);
    }
}
