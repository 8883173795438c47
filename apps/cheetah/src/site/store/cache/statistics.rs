//! What the cache says of itself, for threads that do not wait for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that the store's thread writes and others read, each by itself.
#[derive(Debug, Default)]
pub struct Statistics {
    pub(super) limit: AtomicU64,
    pub(super) held: AtomicU64,
    pub(super) leaving: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) fetched: AtomicU64,
    pub(super) fetched_len: AtomicU64,
}

/// The cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that documents may take.
    pub limit: u64,
    /// Bytes that those take which are to be had.
    pub held: u64,
    /// Bytes of documents that have been taken out and that responses under way still need.
    pub leaving: u64,
    /// Documents that had to go for others.
    pub evictions: u64,
    /// Documents that were read because they were asked for.
    pub fetched: u64,
    /// Bytes of these.
    pub fetched_len: u64,
}

impl Statistics {
    /// As it is now.
    pub fn figures(&self) -> Figures {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Figures {
            limit: get(&self.limit),
            held: get(&self.held),
            leaving: get(&self.leaving),
            evictions: get(&self.evictions),
            fetched: get(&self.fetched),
            fetched_len: get(&self.fetched_len),
        }
    }
}

impl Figures {
    /// These, of which what only grows goes on from where another cache ended.
    #[must_use]
    pub fn after(self, ended: Figures) -> Figures {
        Figures {
            evictions: self.evictions + ended.evictions,
            fetched: self.fetched + ended.fetched,
            fetched_len: self.fetched_len + ended.fetched_len,
            ..self
        }
    }

    /// What only grows, by name.
    pub fn counters(&self) -> [(&'static str, u64); 3] {
        [
            ("cache_evictions", self.evictions),
            ("cache_fetched", self.fetched),
            ("cache_fetched_bytes", self.fetched_len),
        ]
    }
}

/// Adds to a number that one thread writes.
pub(super) fn add(number: &AtomicU64, more: u64) {
    number.fetch_add(more, Ordering::Relaxed);
}
