//! Where flows are by the hash of their keys: open addressing with linear probing, 8 bytes an entry.
//!
//! An entry has the hash beside the place, so that a probe reads no flow but the one that is sought (or one of four
//! thousand million whose hash is the same), and so that a removal closes the hole it leaves without reading any: there are no
//! tombstones, and a table in use for a year is as fast as a new one.
//!
//! Invariant: between the entry at which a hash belongs and the entry in which it is, all are taken.

use exos_host::memory;

/// A place with a hash; zero is no entry.
type Entry = u64;

/// The entries, twice as many as flows at least and a power of two.
pub(super) struct Index {
    entries: Vec<Entry>,
    mask: usize,
}

const fn entry(hash: u32, place: u32) -> Entry {
    (hash as u64) << 32 | (place as u64 + 1)
}

const fn hash_of(entry: Entry) -> u32 {
    (entry >> 32) as u32
}

impl Index {
    pub(super) fn new(capacity: u32) -> Self {
        let len = (2 * capacity as usize).next_power_of_two();
        let entries = vec![0; len];
        memory::prefer_large_pages(&entries);
        Self {
            entries,
            mask: len - 1,
        }
    }

    /// The place of the flow with this hash of which `is_it` is true.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = hash as usize & self.mask;
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            let place = entry as u32 - 1;
            if hash_of(entry) == hash && is_it(place) {
                return Some(place);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Has the entry fetched at which a search for this hash begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: u32) {
        memory::prefetch(&self.entries[hash as usize & self.mask]);
    }

    /// Adds a flow. There is always a free entry, since there are more than flows.
    pub(super) fn insert(&mut self, hash: u32, place: u32) {
        let mut at = hash as usize & self.mask;
        while self.entries[at] != 0 {
            at = (at + 1) & self.mask;
        }
        self.entries[at] = entry(hash, place);
    }

    /// Removes a flow that is there.
    pub(super) fn remove(&mut self, hash: u32, place: u32) {
        let sought = entry(hash, place);
        let mut hole = hash as usize & self.mask;
        while self.entries[hole] != sought {
            assert!(self.entries[hole] != 0, "a flow that is not in the index");
            hole = (hole + 1) & self.mask;
        }
        // What follows without a gap moves up, unless it would then be before where it belongs.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let entry = self.entries[at];
            if entry == 0 {
                break;
            }
            let belongs = hash_of(entry) as usize & self.mask;
            if at.wrapping_sub(belongs) & self.mask >= at.wrapping_sub(hole) & self.mask {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = 0;
    }
}

#[cfg(test)]
impl Index {
    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }
}
