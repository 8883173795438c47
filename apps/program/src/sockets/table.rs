//! All connections, by a slot that is used again and a generation that tells apart who used it.

use exos_inet::tcp::ConnectionId;

use super::connection::Connection;

#[derive(Debug, Default)]
struct Slot {
    /// How many connections it had before, so that what epoll told of an older one concerns nobody.
    generation: u32,
    connection: Option<Connection>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    /// Slots without a connection; the one used last is used first.
    free: Vec<u32>,
}

impl Table {
    /// How many there are.
    pub(super) fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slots.get(id.slot() as usize)?;
        let is_it = identity(id.slot(), slot.generation) == id;
        slot.connection.as_ref().filter(|_| is_it)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(id.slot() as usize)?;
        let is_it = identity(id.slot(), slot.generation) == id;
        slot.connection.as_mut().filter(|_| is_it)
    }

    pub(super) fn take(&mut self, id: ConnectionId) -> Option<Connection> {
        self.get(id)?;
        let slot = &mut self.slots[id.slot() as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot());
        slot.connection.take()
    }

    pub(super) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        slot.connection = Some(connection);
        identity(number, slot.generation)
    }
}

fn identity(slot: u32, generation: u32) -> ConnectionId {
    ConnectionId::from_bits(u64::from(generation) << 32 | u64::from(slot))
}
