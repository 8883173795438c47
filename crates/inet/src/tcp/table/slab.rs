//! Where control blocks live: slots that never move, named by number and generation.

use crate::tcp::connection::Connection;
use crate::tcp::values::flow::{Flow, FlowKey};
use crate::tcp::values::id::ConnectionId;
use crate::time::Instant;

/// A control block with its places in the queues, which lie before it: they are looked at with every segment.
#[repr(C)]
pub(in crate::tcp) struct Entry {
    /// In the queue of connections with something to send.
    pub sending: bool,
    /// Held back by its pace.
    pub paced: bool,
    /// In the queue of connections with news.
    pub telling: bool,
    /// The program has been told that it exists.
    pub announced: bool,
    /// Over; only the program's last news are waited for.
    pub closed: bool,
    /// A segment of it has found its way by the link.
    pub leaves_by_link: bool,
    /// The earliest deadline in the wheel.
    pub armed: Instant,
    pub connection: Connection,
}

#[repr(C)]
struct Slot {
    generation: u32,
    /// The flow's, in the index.
    hash: u32,
    entry: Option<Entry>,
}

/// Slots to a chunk: a chunk is allocated whole and never moves. At most 120 KiB: less than the 128 KiB from which on
/// the C library's allocator begins by mapping pages for each block apart, so it comes from the contiguous heap and
/// pays for no page that it does not fill.
const CHUNK: usize = 256;

/// The control blocks.
#[derive(Default)]
pub(in crate::tcp) struct Slab {
    chunks: Vec<Vec<Slot>>,
    free: Vec<u32>,
}

impl Slab {
    #[inline(always)]
    pub fn insert(&mut self, connection: Connection, hash: u32) -> ConnectionId {
        let entry = Entry {
            sending: false,
            paced: false,
            telling: false,
            announced: connection.is_active(),
            closed: false,
            leaves_by_link: false,
            armed: Instant::NEVER,
            connection,
        };
        if let Some(number) = self.free.pop() {
            let slot = self.slot_mut(number);
            slot.hash = hash;
            slot.entry = Some(entry);
            return ConnectionId {
                slot: number,
                generation: slot.generation,
            };
        }
        if self.chunks.last().is_none_or(|c| c.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunks = self.chunks.len();
        let chunk = self.chunks.last_mut().expect("a chunk was just made");
        let number = (chunks - 1) * CHUNK + chunk.len();
        chunk.push(Slot {
            generation: 0,
            hash,
            entry: Some(entry),
        });
        ConnectionId {
            slot: number as u32,
            generation: 0,
        }
    }

    /// Drop a control block where it lies.
    pub fn remove(&mut self, id: ConnectionId) {
        let slot = self.slot_mut(id.slot);
        if slot.generation == id.generation && slot.entry.is_some() {
            slot.entry = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    /// Take a control block out.
    pub fn take(&mut self, id: ConnectionId) -> Option<Connection> {
        self.entry_mut(id)?;
        let slot = self.slot_mut(id.slot);
        let entry = slot.entry.take();
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        entry.map(|e| e.connection)
    }

    #[inline]
    pub fn entry_mut(&mut self, id: ConnectionId) -> Option<&mut Entry> {
        let slot = self
            .chunks
            .get_mut(id.slot as usize / CHUNK)?
            .get_mut(id.slot as usize % CHUNK)?;
        if slot.generation == id.generation {
            slot.entry.as_mut()
        } else {
            None
        }
    }

    #[inline]
    fn entry(&self, id: ConnectionId) -> Option<&Entry> {
        let slot = self.slot(id.slot)?;
        if slot.generation == id.generation {
            slot.entry.as_ref()
        } else {
            None
        }
    }

    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.entry(id).map(|e| &e.connection)
    }

    /// It is there, and not over.
    #[inline]
    pub fn stands(&self, id: ConnectionId) -> bool {
        self.entry(id).is_some_and(|e| !e.closed)
    }

    /// A segment of it has found its way by the link.
    #[inline]
    pub fn leaves_by_link(&self, id: ConnectionId) -> bool {
        self.entry(id).is_some_and(|e| e.leaves_by_link)
    }

    /// It is not over, and a segment with that key is its.
    #[inline]
    pub fn is_open(&self, id: ConnectionId, key: &FlowKey) -> bool {
        self.entry(id)
            .is_some_and(|e| !e.closed && e.connection.flow().is(key))
    }

    /// A connection that is not over.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.entry_mut(id)
            .filter(|e| !e.closed)
            .map(|e| &mut e.connection)
    }

    /// All that are not over.
    pub fn standing(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.standing_from(0)
    }

    /// Those of them in slots from this one on.
    pub fn standing_from(&self, first: u32) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        let numbers = first..(self.chunks.iter().map(Vec::len).sum::<usize>() as u32);
        let ids = numbers.filter_map(|number| self.id_at(number));
        ids.filter(|id| self.stands(*id))
            .filter_map(|id| Some((id, self.get(id)?)))
    }

    /// Begun by a peer that has not answered yet.
    pub fn is_half_open(&self, id: ConnectionId) -> bool {
        self.entry(id)
            .is_some_and(|e| !e.closed && e.connection.is_half_open())
    }

    /// The connection in a slot is that of `flow`.
    #[inline]
    pub fn holds(&self, number: u32, flow: &Flow) -> bool {
        self.entry_at(number)
            .is_some_and(|e| e.connection.flow() == flow)
    }

    /// The connection in a slot is that of segments with `key`.
    #[inline]
    pub fn holds_key(&self, number: u32, key: &FlowKey) -> bool {
        self.entry_at(number)
            .is_some_and(|e| e.connection.flow().is(key))
    }

    /// The hash of the connection in a slot, or of the last that was.
    #[inline]
    pub fn hash_at(&self, number: u32) -> u32 {
        self.slot(number).map_or(0, |s| s.hash)
    }

    #[inline]
    fn entry_at(&self, number: u32) -> Option<&Entry> {
        self.slot(number)?.entry.as_ref()
    }

    #[inline]
    pub fn id_at(&self, number: u32) -> Option<ConnectionId> {
        self.slot(number).map(|s| ConnectionId {
            slot: number,
            generation: s.generation,
        })
    }

    #[inline]
    fn slot(&self, number: u32) -> Option<&Slot> {
        self.chunks
            .get(number as usize / CHUNK)?
            .get(number as usize % CHUNK)
    }

    /// A slot that exists.
    fn slot_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::receiving::receiver::Receiver;
    use crate::tcp::sending::sender::Sender;
    use std::mem::offset_of;

    /// With its share of the index (8 to 13 bytes) an idle connection stays below 512 bytes, and a chunk in the
    /// allocator's heap.
    #[test]
    fn a_slot_has_its_size() {
        assert!(
            size_of::<Slot>() <= 480,
            "{} {}",
            size_of::<Slot>(),
            size_of::<Connection>()
        );
        assert!(CHUNK * size_of::<Slot>() < 128 << 10);
    }

    /// What every segment reads lies in two runs: to the first of the sender, in three cache lines, and the first of the
    /// receiver, in one line's bytes.
    #[test]
    fn what_every_segment_needs_lies_together() {
        let before = offset_of!(Slot, entry) + offset_of!(Entry, connection);
        let sender = offset_of!(Connection, sender) + Sender::EVERY_SEGMENT_BYTES;
        assert!(before + sender <= 192, "{}", before + sender);
        assert!(offset_of!(Connection, liveness) < offset_of!(Connection, sender));
        let receiver = Receiver::EVERY_SEGMENT_BYTES;
        assert!(receiver <= 64, "{receiver}");
    }
}
