//! Streams whose requests wait or are answered in parts, of all connections of a loop: each is as a connection, with a deadline and an
//! identity of its own, which no connection of a transport has.

use exos_http2::StreamId;
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use exos_program::{ConnectionTable, Timed};

use super::Http2;
use super::stream::Stream;
use crate::connections::connection::Connection;
use crate::connections::shared::Shared;

/// One of them.
pub(in crate::connections) struct Exchange {
    pub(in crate::connections) connection: Connection,
    /// The connection that carries it, and which of its streams it is.
    pub(super) carrier: ConnectionId,
    pub(super) stream: StreamId,
}

impl Timed for Exchange {
    fn id(&self) -> ConnectionId {
        self.connection.id()
    }

    fn deadline(&self) -> Instant {
        self.connection.deadline()
    }
}

/// All of them.
pub(in crate::connections) struct Exchanges {
    table: ConnectionTable<Exchange>,
    /// Slots that can be used again, and how many there are.
    free: Vec<u32>,
    slots: u32,
    /// How many there have been.
    count: u32,
}

/// Set in the slot of each: transports have fewer connections.
const MARK: u32 = 1 << 31;

impl Exchanges {
    pub(in crate::connections) fn new(now: Instant) -> Exchanges {
        Exchanges {
            table: ConnectionTable::new(now),
            free: Vec::new(),
            slots: 0,
            count: 0,
        }
    }

    /// Whether it is one of these.
    #[inline]
    pub(in crate::connections) fn has(id: ConnectionId) -> bool {
        id.slot() & MARK != 0
    }

    /// An identity for another one.
    pub(super) fn next_id(&mut self) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        self.count = self.count.wrapping_add(1);
        ConnectionId::from_bits(u64::from(self.count) << 32 | u64::from(slot | MARK))
    }

    pub(super) fn insert(&mut self, exchange: Exchange) {
        self.table.insert(exchange);
    }

    pub(in crate::connections) fn find(&mut self, id: ConnectionId) -> Option<&mut Exchange> {
        self.table.find(id)
    }

    /// The connection that carries it.
    pub(in crate::connections) fn connection_of(
        &mut self,
        id: ConnectionId,
    ) -> Option<ConnectionId> {
        self.find(id).map(|exchange| exchange.carrier)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Exchange> {
        let exchange = self.table.remove(id)?;
        self.free.push(id.slot() & !MARK);
        Some(exchange)
    }

    /// A connection is over with all of its streams.
    pub(in crate::connections) fn close(&mut self, http2: Box<Http2>, shared: &mut Shared) {
        for stream in http2.into_streams() {
            self.close_stream(stream, shared);
        }
    }

    /// A stream is over before its end, and with it its exchange.
    pub(super) fn close_stream(&mut self, stream: Stream, shared: &mut Shared) {
        let exchange = stream.close(shared).and_then(|id| self.remove(id));
        if let Some(exchange) = exchange {
            exchange.connection.close(false, shared);
        }
    }

    pub(super) fn arm(&mut self, id: ConnectionId) {
        self.table.arm(id);
    }

    pub(in crate::connections) fn next_deadline(&self) -> Option<Instant> {
        self.table.next_deadline()
    }

    pub(in crate::connections) fn expire(&mut self, now: Instant, expired: &mut Vec<ConnectionId>) {
        self.table.expire(now, expired);
    }
}
