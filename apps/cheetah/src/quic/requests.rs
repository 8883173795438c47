//! All requests of a loop's connections, by the identities that the server knows them by, which no connection of TCP has.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::request::Request;
use crate::limits::REQUEST_TIME;

/// Set in the slot of each: transports have fewer connections.
const MARK: u32 = 1 << 30;

/// Whether it is one of these.
#[inline]
pub(crate) fn is_request(id: ConnectionId) -> bool {
    id.slot() & (MARK | 1 << 31) == MARK
}

/// All of them.
#[derive(Default)]
pub(super) struct Requests {
    slots: Vec<Option<Box<Request>>>,
    free: Vec<u32>,
    /// How many there have been.
    count: u32,
}

impl Requests {
    /// Adds one, which is made for the identity that it gets.
    pub(super) fn add(&mut self, make: impl FnOnce(ConnectionId) -> Request) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.count = self.count.wrapping_add(1);
        let id = ConnectionId::from_bits(u64::from(self.count) << 32 | u64::from(slot | MARK));
        self.slots[slot as usize] = Some(Box::new(make(id)));
        id
    }

    pub(super) fn find(&self, id: ConnectionId) -> Option<&Request> {
        let request = self.slots.get(place(id))?.as_deref();
        request.filter(|request| request.id == id)
    }

    pub(super) fn find_mut(&mut self, id: ConnectionId) -> Option<&mut Request> {
        let request = self.slots.get_mut(place(id))?.as_deref_mut();
        request.filter(|request| request.id == id)
    }

    /// Whether its head ought to have come.
    pub(super) fn is_late(&self, id: ConnectionId, now: Instant) -> bool {
        let request = self.find(id);
        request.is_some_and(|it| !it.is_known && now >= it.begun + REQUEST_TIME)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Box<Request>> {
        self.find(id)?;
        self.free.push(place(id) as u32);
        self.slots[place(id)].take()
    }
}

fn place(id: ConnectionId) -> usize {
    (id.slot() & !MARK) as usize
}
