//! A program's connections, by the slots of the identities that their stack has given them, with an alarm for each.
//!
//! A connection's deadline may move at any time. When it may be earlier than it was, the connection is armed; one that has
//! moved to later is noticed when the earlier one has come.
//!
//! The upper two bits of a slot are not looked at: an owner of several tables may tell by them whose a connection is.

use exos_inet::Instant;
use exos_inet::tcp::{Alarms, ConnectionId};

/// What the table has to know of a connection.
pub trait Timed {
    /// Which it is.
    fn id(&self) -> ConnectionId;

    /// When something must be done for it if nothing happens.
    fn deadline(&self) -> Instant;
}

/// Connections.
pub struct ConnectionTable<C> {
    slots: Vec<Option<C>>,
    open: usize,
    alarms: Alarms,
    due: Vec<u32>,
}

impl<C: Timed> ConnectionTable<C> {
    /// No connections, from `now` on.
    pub fn new(now: Instant) -> Self {
        Self {
            slots: Vec::new(),
            open: 0,
            alarms: Alarms::new(now),
            due: Vec::new(),
        }
    }

    /// How many there are.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Takes a connection in, and arms it.
    #[inline]
    pub fn insert(&mut self, connection: C) {
        let id = connection.id();
        let slot = place(id) as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(connection);
        self.open += 1;
        self.arm(id);
    }

    /// The connection of an identity, if it is still there. [`arm`](Self::arm) it when its deadline may have changed.
    #[inline]
    pub fn find(&mut self, id: ConnectionId) -> Option<&mut C> {
        let connection = self.slots.get_mut(place(id) as usize)?.as_mut();
        connection.filter(|connection| connection.id() == id)
    }

    /// Takes a connection out, if it is still there.
    pub fn remove(&mut self, id: ConnectionId) -> Option<C> {
        self.find(id)?;
        self.open -= 1;
        self.slots[place(id) as usize].take()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.slots.iter().flatten()
    }

    /// A connection's deadline may be earlier than it was.
    #[inline]
    pub fn arm(&mut self, id: ConnectionId) {
        if let Some(Some(connection)) = self.slots.get(place(id) as usize) {
            self.alarms.arm(connection.deadline(), place(id));
        }
    }

    /// Has a connection whose time has come, come up once more: not before this, as its deadline may be over.
    pub fn arm_again(&mut self, id: ConnectionId, at_least: Instant) {
        if let Some(connection) = self.find(id) {
            let at = connection.deadline().max(at_least);
            self.alarms.arm(at, place(id));
        }
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.alarms.next_deadline()
    }

    /// Appends the connections whose time has come. None of them is armed any more.
    pub fn expire(&mut self, now: Instant, expired: &mut Vec<ConnectionId>) {
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

/// Where a connection is in its table.
#[inline]
fn place(id: ConnectionId) -> u32 {
    id.slot() & !(3 << 30)
}
