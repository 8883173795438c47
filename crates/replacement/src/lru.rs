//! Least recently used: what was not used for longest goes.

use crate::policy::{Newcomer, Policy};
use crate::queue::{Key, Links, Queue};

/// See the module.
#[derive(Debug, Default)]
pub struct Lru {
    links: Links,
    queue: Queue,
}

impl Policy for Lru {
    fn admitted(&mut self, newcomer: Newcomer) {
        self.queue
            .push(&mut self.links, newcomer.key, newcomer.bytes);
    }

    fn used(&mut self, key: Key) {
        let bytes = self.queue.remove(&mut self.links, key);
        self.queue.push(&mut self.links, key, bytes);
    }

    fn victim(&mut self, _: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        let oldest = self.queue.oldest()?;
        self.queue.remove(&mut self.links, oldest);
        Some(oldest)
    }

    fn removed(&mut self, key: Key) {
        self.queue.remove(&mut self.links, key);
    }
}
