//! Connections, by a slot that is used again and a generation that tells apart who used it.

use exos_inet::tcp::ConnectionId;

#[derive(Debug)]
struct Slot<T> {
    /// How many connections it had before, so that what epoll told of an older one concerns nobody.
    generation: u32,
    connection: Option<T>,
}

/// Connections.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    /// Slots without a connection; the one used last is used first.
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    /// How many there are.
    pub fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A connection, if it is still there.
    pub fn get(&self, id: ConnectionId) -> Option<&T> {
        let slot = self.slots.get(id.slot() as usize)?;
        let is_it = identity(id.slot(), slot.generation) == id;
        slot.connection.as_ref().filter(|_| is_it)
    }

    /// A connection, to be changed, if it is still there.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot() as usize)?;
        let is_it = identity(id.slot(), slot.generation) == id;
        slot.connection.as_mut().filter(|_| is_it)
    }

    /// Takes a connection out, if it is still there. What epoll tells of it from now on concerns nobody.
    pub fn take(&mut self, id: ConnectionId) -> Option<T> {
        self.get(id)?;
        let slot = &mut self.slots[id.slot() as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot());
        slot.connection.take()
    }

    /// Takes a connection in.
    pub fn insert(&mut self, connection: T) -> ConnectionId {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                connection: None,
            });
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
