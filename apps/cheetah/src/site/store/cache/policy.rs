//! Which documents stay in memory when there is not room for all: what a policy is asked and told.
//!
//! A policy orders documents; it neither reads nor frees anything, and counts no memory. It runs in the
//! store's thread. A program that serves with this library may bring its own
//! ([`Cache::with_policy`](super::Cache::with_policy)).

use std::fmt::Debug;

use super::queue::{Key, Links, Queue};

/// A document that has come into memory.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// By what it is known until it goes.
    pub key: Key,
    /// A hash of its name: the same whenever it comes again.
    pub name: u64,
    /// What it takes.
    pub bytes: u64,
    /// Somebody has asked for it; else it was read because there was room.
    pub is_asked_for: bool,
}

/// Which document goes first.
pub trait CachePolicy: Debug + Send {
    /// A document has come.
    fn admitted(&mut self, document: Newcomer);

    /// The document that has to go now, if there is one: it has gone when this returns. `uses` tells how often a document
    /// was sent since it was last asked about, up to [`USES_MAX`](exos_buf::shared::USES_MAX), and counts again from then on.
    fn victim(&mut self, uses: &mut dyn FnMut(Key) -> u8) -> Option<Key>;

    /// A document has gone for another reason: its file has changed or is no longer there.
    fn removed(&mut self, document: Key);
}

/// First in, first out: what has been there for longest goes, whether it is used or not. To be measured against.
#[derive(Debug, Default)]
pub struct Fifo {
    links: Links,
    queue: Queue,
}

impl CachePolicy for Fifo {
    fn admitted(&mut self, document: Newcomer) {
        self.queue
            .push(&mut self.links, document.key, document.bytes);
    }

    fn victim(&mut self, _: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        let oldest = self.queue.oldest()?;
        self.queue.remove(&mut self.links, oldest);
        Some(oldest)
    }

    fn removed(&mut self, document: Key) {
        self.queue.remove(&mut self.links, document);
    }
}
