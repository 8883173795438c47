//! The entries of the cache, each found by its address, and who goes when there is no room.
//!
//! Entries have slots. One that is removed leaves its slot to the last, so who removes while it goes through them all goes
//! backwards.
//!
//! Invariants: `index` holds exactly one slot for each entry; `evictable` holds every entry.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::{Index, IndexMut};

use exos_wire::Mac;
use hashbrown::HashTable;

use super::state::State;
use super::waiting::FrameQueue;
use crate::limits::NEIGHBORS_MAX;
use crate::siphash::SipKey;
use crate::time::Instant;

/// What is known of a neighbour.
#[derive(Debug)]
pub(super) struct Entry {
    ip: IpAddr,
    state: State,
    /// Since when it is in this state.
    changed: Instant,
    pub mac: Mac,
    pub deadline: Option<Instant>,
    /// Solicitations in this state.
    pub solicits: u8,
    /// One is to be sent.
    pub asking: bool,
    pub frames: FrameQueue,
}

impl Entry {
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Its place among those that may have to make room.
    fn eviction_place(&self) -> (u8, Instant, IpAddr) {
        (self.state.eviction_rank(), self.changed, self.ip)
    }
}

/// The entries.
pub(super) struct Table {
    entries: Vec<Entry>,
    index: HashTable<u32>,
    /// Who goes first when the table is full: unresolved before stale, the longest unchanged first.
    evictable: BTreeSet<(u8, Instant, IpAddr)>,
    key: SipKey,
}

impl Table {
    pub fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            index: HashTable::new(),
            evictable: BTreeSet::new(),
            key: SipKey::from_seed(seed),
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_full(&self) -> bool {
        self.entries.len() == NEIGHBORS_MAX
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    #[inline]
    pub fn find(&self, ip: IpAddr) -> Option<usize> {
        let is_its = |slot: &u32| self.entries[*slot as usize].ip == ip;
        let slot = self.index.find(hash(&self.key, ip), is_its);
        slot.map(|&slot| slot as usize)
    }

    /// A new entry, for which there must be room; in which slot it is.
    pub fn insert(&mut self, now: Instant, ip: IpAddr, state: State) -> usize {
        debug_assert!(self.find(ip).is_none() && !self.is_full());
        let slot = self.entries.len();
        let entry = Entry {
            ip,
            state,
            changed: now,
            mac: Mac::ZERO,
            deadline: None,
            solicits: 0,
            asking: false,
            frames: FrameQueue::default(),
        };
        self.evictable.insert(entry.eviction_place());
        self.entries.push(entry);
        let (key, entries) = (&self.key, &self.entries);
        let rehash = |&slot: &u32| hash(key, entries[slot as usize].ip);
        self.index.insert_unique(hash(key, ip), slot as u32, rehash);
        slot
    }

    pub fn set_state(&mut self, now: Instant, slot: usize, state: State) {
        let entry = &mut self.entries[slot];
        self.evictable.remove(&entry.eviction_place());
        (entry.state, entry.changed) = (state, now);
        self.evictable.insert(entry.eviction_place());
    }

    /// The slot of the one that goes first, when its rank is at most `rank_max`.
    pub fn evictable(&self, rank_max: u8) -> Option<usize> {
        let first = self.evictable.first();
        let &(_, _, ip) = first.filter(|(rank, ..)| *rank <= rank_max)?;
        Some(self.find(ip).expect("who can be evicted is in the table"))
    }

    pub fn remove(&mut self, slot: usize) -> Entry {
        let gone = self.hash_at(slot);
        self.index
            .find_entry(gone, |&s| s as usize == slot)
            .expect("indexed")
            .remove();
        let last = self.entries.len() - 1;
        if slot != last {
            let moved = self.hash_at(last);
            *self
                .index
                .find_mut(moved, |&s| s as usize == last)
                .expect("indexed") = slot as u32;
        }
        let entry = self.entries.swap_remove(slot);
        self.evictable.remove(&entry.eviction_place());
        entry
    }

    fn hash_at(&self, slot: usize) -> u64 {
        hash(&self.key, self.entries[slot].ip)
    }

    #[cfg(test)]
    pub fn check(&self) {
        assert_eq!(self.index.len(), self.entries.len());
        assert_eq!(self.evictable.len(), self.entries.len());
        for (slot, entry) in self.entries.iter().enumerate() {
            assert_eq!(self.find(entry.ip), Some(slot));
            assert!(self.evictable.contains(&entry.eviction_place()));
        }
    }
}

impl Index<usize> for Table {
    type Output = Entry;

    #[inline]
    fn index(&self, slot: usize) -> &Entry {
        &self.entries[slot]
    }
}

impl IndexMut<usize> for Table {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut Entry {
        &mut self.entries[slot]
    }
}

fn hash(key: &SipKey, ip: IpAddr) -> u64 {
    match ip {
        IpAddr::V4(v4) => key.hash(&[u64::from(v4.to_bits())]),
        IpAddr::V6(v6) => key.hash(&[(v6.to_bits() >> 64) as u64, v6.to_bits() as u64]),
    }
}
