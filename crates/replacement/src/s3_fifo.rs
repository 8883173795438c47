//! Which documents stay in memory when there is not room for all: S3-FIFO, by bytes.
//!
//! Yang, Zhang, Qiu, Yue, Vinayak, *FIFO queues are all you need for cache eviction*, SOSP 2023. Three queues, and two bits
//! for each document:
//!
//! ```text
//!   comes ──> small, a tenth of the bytes ──used again──> main ──used──> main again
//!     │              └──not used again──> gone, its name remembered        └──not used──> gone
//!     └──its name is remembered────────────────────────────^
//! ```
//!
//! What is asked for once, as all is by who walks through a whole site, stays in the small queue and leaves the rest alone.
//! A hit moves nothing: it counts, and is looked at when something has to go.
//!
//! Differences to the paper, because files have sizes and the count is of what was sent: the queues are measured in bytes,
//! so a large document takes the room of many and is looked at as often as they are; a document that was fetched counts
//! one use for the request that fetched it, so *again* means two; and names are remembered of as many bytes as there
//! are in memory.

use std::collections::{HashMap, VecDeque};

use crate::policy::{Newcomer, Policy};
use crate::queue::{Key, Links, Queue};

/// What the small queue has of all bytes: a tenth, as the paper found best over most of its traces.
const SMALL_PART: u64 = 10;

/// What is known of a document in memory.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    name: u64,
    is_main: bool,
    /// Rounds that it has left in the main queue.
    rounds: u8,
    /// Uses that say that it was used again.
    enough: u8,
}

/// Names of documents that have gone from the small queue.
#[derive(Debug, Default)]
struct Ghosts {
    /// In the order in which they went, with the bytes that they had and their turn.
    queue: VecDeque<(u64, u64, u64)>,
    /// Their latest turn.
    turns: HashMap<u64, u64>,
    bytes: u64,
    turn: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct S3Fifo {
    links: Links,
    small: Queue,
    main: Queue,
    known: Vec<Known>,
    ghosts: Ghosts,
}

impl Policy for S3Fifo {
    fn admitted(&mut self, document: Newcomer) {
        let Newcomer {
            key, name, bytes, ..
        } = document;
        if key.index() >= self.known.len() {
            self.known.resize(key.index() + 1, Known::default());
        }
        let is_main = self.ghosts.take(name);
        self.known[key.index()] = Known {
            name,
            is_main,
            rounds: 0,
            enough: if document.is_asked_for { 2 } else { 1 },
        };
        let queue = if is_main {
            &mut self.main
        } else {
            &mut self.small
        };
        queue.push(&mut self.links, key, bytes);
    }

    fn victim(&mut self, uses: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        loop {
            let all = self.small.bytes() + self.main.bytes();
            let is_small_due = self.small.bytes() >= all / SMALL_PART;
            let (small, main) = (self.small.oldest(), self.main.oldest());
            let gone = match (small, main) {
                (Some(key), _) if is_small_due || main.is_none() => self.leave_small(key, uses),
                (_, Some(key)) => self.leave_main(key, uses),
                (Some(key), None) => self.leave_small(key, uses),
                (None, None) => return None,
            };
            if gone.is_some() {
                return gone;
            }
        }
    }

    fn removed(&mut self, document: Key) {
        let queue = match self.known[document.index()].is_main {
            true => &mut self.main,
            false => &mut self.small,
        };
        queue.remove(&mut self.links, document);
    }
}

impl S3Fifo {
    /// The oldest of the small queue goes, or into the main one if it was used again.
    fn leave_small(&mut self, key: Key, uses: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        let bytes = self.small.remove(&mut self.links, key);
        let known = &mut self.known[key.index()];
        if uses(key) >= known.enough {
            known.is_main = true;
            self.main.push(&mut self.links, key, bytes);
            return None;
        }
        let all = self.small.bytes() + self.main.bytes();
        self.ghosts.put(known.name, bytes, all);
        Some(key)
    }

    /// The oldest of the main queue goes, or to its other end if it was used.
    fn leave_main(&mut self, key: Key, uses: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        let bytes = self.main.remove(&mut self.links, key);
        let known = &mut self.known[key.index()];
        known.rounds = known.rounds.max(uses(key));
        if known.rounds == 0 {
            return Some(key);
        }
        known.rounds -= 1;
        self.main.push(&mut self.links, key, bytes);
        None
    }
}

impl Ghosts {
    /// Remembers a name, of as many as have had a bounded number of bytes together.
    fn put(&mut self, name: u64, bytes: u64, most: u64) {
        self.turn += 1;
        self.turns.insert(name, self.turn);
        self.queue.push_back((name, bytes, self.turn));
        self.bytes += bytes;
        while self.bytes > most {
            let Some((name, bytes, turn)) = self.queue.pop_front() else {
                return;
            };
            self.bytes -= bytes;
            // It may have come back and gone again since.
            if self.turns.get(&name) == Some(&turn) {
                self.turns.remove(&name);
            }
        }
    }

    /// Whether a name was remembered; it is not any more.
    fn take(&mut self, name: u64) -> bool {
        self.turns.remove(&name).is_some()
    }
}
