//! All connections, by the slots of their identities, with an alarm for each.

use exos_inet::Instant;
use exos_inet::tcp::Alarms;
use exos_inet::tcp::ConnectionId;

use super::connection::Connection;

pub(super) struct Table {
    slots: Vec<Option<Connection>>,
    open: usize,
    alarms: Alarms,
    due: Vec<u32>,
}

impl Table {
    /// No connections, from `now` on.
    pub(super) fn new(now: Instant) -> Table {
        Table {
            slots: Vec::new(),
            open: 0,
            alarms: Alarms::new(now),
            due: Vec::new(),
        }
    }

    /// How many there are.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn insert(&mut self, connection: Connection) {
        let id = connection.id();
        let slot = id.slot() as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(connection);
        self.open += 1;
        self.arm(id);
    }

    /// The connection with an identity, if it is still there. [`Table::arm`] it when its deadline may have changed.
    #[inline]
    pub(super) fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.slots.get_mut(id.slot() as usize)?.as_mut();
        connection.filter(|connection| connection.id() == id)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.find(id)?;
        self.open -= 1;
        self.slots[id.slot() as usize].take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().flatten()
    }

    /// A connection's deadline may be earlier than it was.
    #[inline]
    pub(super) fn arm(&mut self, id: ConnectionId) {
        if let Some(Some(connection)) = self.slots.get(id.slot() as usize) {
            self.alarms.arm(connection.deadline(), id.slot());
        }
    }

    /// When [`Table::expire`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.alarms.next_deadline()
    }

    /// Appends the connections whose time has come.
    pub(super) fn expire(&mut self, now: Instant, expired: &mut Vec<ConnectionId>) {
        self.alarms.expire(now, &mut self.due);
        while let Some(slot) = self.due.pop() {
            // The alarm may have been another connection's.
            match &self.slots[slot as usize] {
                Some(connection) if connection.deadline() > now => {
                    self.alarms.arm(connection.deadline(), slot);
                }
                Some(connection) => expired.push(connection.id()),
                None => {}
            }
        }
    }
}
