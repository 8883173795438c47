//! Where connections are kept: by a number that is used again, and a generation that tells apart who used it.

use rustix::event::epoll::EventData;

use super::connection::Connection;

/// A connection's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketId {
    place: u32,
    /// Counts the connections of a place, so that what epoll told of an older one concerns nobody.
    generation: u32,
}

impl SocketId {
    /// As epoll keeps it. No connection's is all ones: there are not so many places.
    pub(super) fn data(self) -> EventData {
        EventData::new_u64(u64::from(self.generation) << 32 | u64::from(self.place))
    }

    pub(super) fn of(data: u64) -> Self {
        let (place, generation) = (data as u32, (data >> 32) as u32);
        Self { place, generation }
    }
}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    connection: Option<Connection>,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    /// Places without a connection; the one used last is used first.
    free: Vec<u32>,
}

impl Places {
    pub(super) fn get(&mut self, id: SocketId) -> Option<&mut Connection> {
        let place = self.places.get_mut(id.place as usize)?;
        let is_it = place.generation == id.generation;
        place.connection.as_mut().filter(|_| is_it)
    }

    pub(super) fn take(&mut self, id: SocketId) -> Option<Connection> {
        self.get(id)?;
        let place = &mut self.places[id.place as usize];
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.place);
        place.connection.take()
    }

    pub(super) fn insert(&mut self, connection: Connection) -> SocketId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let it = &mut self.places[place as usize];
        it.connection = Some(connection);
        let generation = it.generation;
        SocketId { place, generation }
    }
}
