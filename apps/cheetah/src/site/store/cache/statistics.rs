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
    pub(super) lent: AtomicU64,
    pub(super) lent_files: AtomicU64,
    pub(super) copied_files: AtomicU64,
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
    /// Bytes that those keep which are to be had of a file cache that processes share.
    pub lent: u64,
    /// Files that came from there by reference.
    pub lent_files: u64,
    /// Files that could not, though they are long enough.
    pub copied_files: u64,
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
            lent: get(&self.lent),
            lent_files: get(&self.lent_files),
            copied_files: get(&self.copied_files),
        }
    }

    /// A file came from the file cache, or did not.
    pub fn note_lent(&self, is_lent: bool) {
        let number = match is_lent {
            true => &self.lent_files,
            false => &self.copied_files,
        };
        add(number, 1);
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
            lent_files: self.lent_files + ended.lent_files,
            copied_files: self.copied_files + ended.copied_files,
            ..self
        }
    }

    /// What only grows, by name.
    pub fn counters(&self) -> [(&'static str, u64); 5] {
        [
            ("cache_evictions", self.evictions),
            ("cache_fetched", self.fetched),
            ("cache_fetched_bytes", self.fetched_len),
            ("cache_lent", self.lent_files),
            ("cache_copied", self.copied_files),
        ]
    }
}

/// Adds to a number that one thread writes.
pub(super) fn add(number: &AtomicU64, more: u64) {
    number.fetch_add(more, Ordering::Relaxed);
}
