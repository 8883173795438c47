//! Chunks of long files in memory: immutable buffers that connections share, as many as memory is given for.
//!
//! A chunk is [`CHUNK_LEN`] bytes of one version of a file, from a multiple of that. Anyone who wants one [takes](Chunks::take)
//! it, so that it stays, and [releases](Chunks::release) it when its bytes have been acknowledged. Who wants one that
//! another is reading or sending gets the same. One that nobody has taken is idle: it may still be taken, until its memory
//! is needed for another. Memory is written again rather than given back, so that no page of it has to be found again.

use std::collections::{HashMap, VecDeque};

use exos_buf::Buffer;
use exos_inet::tcp::ConnectionId;

use crate::limits::{CHUNK_LEN, CHUNKS_IDLE};
use crate::site::store::root::Version;

/// Which chunk: of a version of a file, the how manieth.
pub type Key = (Version, u64);

/// The place of a chunk in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// All chunks of a thread.
#[derive(Debug)]
pub struct Chunks {
    slots: Vec<Chunk>,
    by_key: HashMap<Key, Slot>,
    /// Those that nobody has taken, the longest idle first, with the stamp that they got then: of another, they were
    /// taken meanwhile.
    idle: VecDeque<(Slot, u32)>,
    idle_count: usize,
    slots_max: usize,
}

#[derive(Debug)]
struct Chunk {
    key: Option<Key>,
    content: Content,
    users: u32,
    stamp: u32,
}

#[derive(Debug)]
enum Content {
    /// Somebody reads it; these want to hear of it.
    Reading(Vec<ConnectionId>),
    Ready(Buffer),
    /// It could not be read; here is its memory.
    Lost(Box<[u8]>),
}

/// What became of a wish for a chunk.
#[derive(Debug)]
pub enum Taken {
    /// It is there.
    Ready(Slot),
    /// It is being read; the connection will be told.
    Reading(Slot),
    /// It is to be read into this memory; the connection will be told.
    New(Slot, Box<[u8]>),
}

impl Chunks {
    /// No chunks, of which there may be this many, at least one.
    pub fn new(slots_max: usize) -> Chunks {
        Chunks {
            slots: Vec::new(),
            by_key: HashMap::new(),
            idle: VecDeque::new(),
            idle_count: 0,
            slots_max: slots_max.max(1),
        }
    }

    /// How many chunks more can be made.
    pub fn free(&self) -> usize {
        self.slots_max - self.slots.len() + self.idle_count
    }

    /// Bytes of memory that chunks take.
    pub fn memory_len(&self) -> usize {
        self.slots.len() * CHUNK_LEN
    }

    /// Takes a chunk that is there or under way, for a connection, which is told when it has come.
    pub fn take(&mut self, key: &Key, who: ConnectionId) -> Option<Taken> {
        let slot = *self.by_key.get(key)?;
        let chunk = &mut self.slots[slot.0 as usize];
        let taken = match &mut chunk.content {
            Content::Ready(_) => Taken::Ready(slot),
            Content::Reading(waiting) => {
                waiting.push(who);
                Taken::Reading(slot)
            }
            Content::Lost(_) => unreachable!("a chunk that is lost has no key"),
        };
        if chunk.users == 0 && matches!(chunk.content, Content::Ready(_)) {
            self.idle_count -= 1;
            chunk.stamp = chunk.stamp.wrapping_add(1); // What says so in `idle` counts no more.
        }
        chunk.users += 1;
        Some(taken)
    }

    /// Takes a chunk that is not there, to be read; `None` when all memory is in use.
    pub fn make(&mut self, key: Key, who: ConnectionId) -> Option<Taken> {
        let may_grow = self.slots.len() < self.slots_max;
        let reused = match may_grow && self.idle_count < CHUNKS_IDLE {
            true => None,
            false => self.reuse(),
        };
        let (slot, memory) = match reused {
            Some(reused) => reused,
            None if may_grow => (self.grow(), vec![0; CHUNK_LEN].into()),
            None => return None,
        };
        let chunk = &mut self.slots[slot.0 as usize];
        chunk.key = Some(key);
        chunk.content = Content::Reading(vec![who]);
        chunk.users = 1;
        self.by_key.insert(key, slot);
        Some(Taken::New(slot, memory))
    }

    fn grow(&mut self) -> Slot {
        self.slots.push(Chunk {
            key: None,
            content: Content::Lost(Box::default()),
            users: 0,
            stamp: 0,
        });
        Slot(self.slots.len() as u32 - 1)
    }

    /// The chunk that has been idle for longest. One to which something still refers, such as a connection that is
    /// being given up, goes to the end of the row.
    fn reuse(&mut self) -> Option<(Slot, Box<[u8]>)> {
        for _ in 0..self.idle.len() {
            let (slot, stamp) = self.idle.pop_front()?;
            let chunk = &mut self.slots[slot.0 as usize];
            if chunk.stamp != stamp {
                continue;
            }
            match std::mem::replace(&mut chunk.content, Content::Lost(Box::default())) {
                Content::Ready(buffer) => match buffer.into_bytes() {
                    Ok(memory) => {
                        self.forget(slot);
                        return Some((slot, memory));
                    }
                    Err(buffer) => {
                        chunk.content = Content::Ready(buffer);
                        self.idle.push_back((slot, stamp));
                    }
                },
                Content::Lost(memory) => {
                    self.forget(slot);
                    return Some((slot, memory));
                }
                Content::Reading(_) => unreachable!("what is being read is not idle"),
            }
        }
        None
    }

    /// An idle chunk is no longer there.
    fn forget(&mut self, slot: Slot) {
        self.idle_count -= 1;
        let chunk = &mut self.slots[slot.0 as usize];
        chunk.stamp = chunk.stamp.wrapping_add(1);
        if let Some(key) = chunk.key.take() {
            self.by_key.remove(&key);
        }
    }

    /// A chunk has been read: gives who waits for it.
    pub fn filled(&mut self, slot: Slot, memory: Box<[u8]>) -> Vec<ConnectionId> {
        self.arrived(slot, Content::Ready(Buffer::from(memory)))
    }

    /// A chunk could not be read: gives who waits for it.
    pub fn lost(&mut self, slot: Slot, memory: Box<[u8]>) -> Vec<ConnectionId> {
        if let Some(key) = self.slots[slot.0 as usize].key.take() {
            self.by_key.remove(&key);
        }
        self.arrived(slot, Content::Lost(memory))
    }

    fn arrived(&mut self, slot: Slot, content: Content) -> Vec<ConnectionId> {
        let chunk = &mut self.slots[slot.0 as usize];
        let before = std::mem::replace(&mut chunk.content, content);
        if chunk.users == 0 {
            self.rest(slot);
        }
        match before {
            Content::Reading(waiting) => waiting,
            Content::Ready(_) | Content::Lost(_) => unreachable!("a chunk is read once"),
        }
    }

    /// The bytes of a chunk that was taken; behind the end of the file they mean nothing. `None` until it has been
    /// read.
    pub fn buffer(&self, slot: Slot) -> Option<&Buffer> {
        match &self.slots[slot.0 as usize].content {
            Content::Ready(buffer) => Some(buffer),
            Content::Reading(_) | Content::Lost(_) => None,
        }
    }

    /// Who took a chunk does not need it any more.
    pub fn release(&mut self, slot: Slot) {
        let chunk = &mut self.slots[slot.0 as usize];
        chunk.users -= 1;
        if chunk.users == 0 && !matches!(chunk.content, Content::Reading(_)) {
            self.rest(slot);
        }
    }

    fn rest(&mut self, slot: Slot) {
        self.idle_count += 1;
        self.idle
            .push_back((slot, self.slots[slot.0 as usize].stamp));
        if self.idle.len() > 2 * self.slots_max {
            let slots = &self.slots;
            self.idle
                .retain(|(slot, stamp)| slots[slot.0 as usize].stamp == *stamp);
        }
    }
}

#[cfg(test)]
mod tests;
