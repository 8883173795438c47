//! Queues of documents: in at one end, out at the other or from anywhere, each in constant time.
//!
//! All queues of a policy have their links in one table, by key; a document is in one queue or in none.

/// A document in memory, for as long as it is there. The numbers of those that have gone are given again, so they stay small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u32);

impl Key {
    /// The document with this number; for simulations.
    pub fn new(number: u32) -> Key {
        Key(number)
    }

    /// Its number, for tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The neighbours of a document in its queue, and what it weighs there.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    newer: Option<Key>,
    older: Option<Key>,
    bytes: u64,
}

/// The links of all documents.
#[derive(Debug, Default)]
pub struct Links(Vec<Link>);

/// The ends of a queue, and what all in it weigh together.
#[derive(Debug, Default)]
pub struct Queue {
    newest: Option<Key>,
    oldest: Option<Key>,
    bytes: u64,
}

impl Links {
    fn at(&mut self, key: Key) -> &mut Link {
        let at = key.index();
        if at >= self.0.len() {
            self.0.resize(at + 1, Link::default());
        }
        &mut self.0[at]
    }
}

impl Queue {
    /// The document that has been there for longest.
    pub fn oldest(&self) -> Option<Key> {
        self.oldest
    }

    /// What all in it weigh together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts in a document, which is in no queue.
    pub fn push(&mut self, links: &mut Links, key: Key, bytes: u64) {
        *links.at(key) = Link {
            newer: None,
            older: self.newest,
            bytes,
        };
        match self.newest.replace(key) {
            Some(before) => links.at(before).newer = Some(key),
            None => self.oldest = Some(key),
        }
        self.bytes += bytes;
    }

    /// Takes out a document, which is in this queue; gives what it weighs.
    pub fn remove(&mut self, links: &mut Links, key: Key) -> u64 {
        let Link {
            newer,
            older,
            bytes,
        } = std::mem::take(links.at(key));
        match newer {
            Some(newer) => links.at(newer).older = older,
            None => self.newest = older,
        }
        match older {
            Some(older) => links.at(older).newer = newer,
            None => self.oldest = newer,
        }
        self.bytes -= bytes;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use exos_sim::random::{Random, Seed};

    use super::*;

    /// Two queues of one table beside two lists.
    #[test]
    fn queues_are_like_lists() {
        let mut random = Random::new(Seed(5), 0);
        let (mut links, mut queues) = (Links::default(), [Queue::default(), Queue::default()]);
        let mut lists = [VecDeque::<(Key, u64)>::new(), VecDeque::new()];
        for _ in 0..20_000 {
            let key = Key::new(random.below(20) as u32);
            let place = lists
                .iter()
                .position(|list| list.iter().any(|(known, _)| *known == key));
            match place {
                Some(n) => {
                    let at = lists[n]
                        .iter()
                        .position(|(known, _)| *known == key)
                        .unwrap();
                    let (_, bytes) = lists[n].remove(at).unwrap();
                    assert_eq!(queues[n].remove(&mut links, key), bytes);
                }
                None => {
                    let (n, bytes) = (random.below(2) as usize, random.below(100));
                    lists[n].push_back((key, bytes));
                    queues[n].push(&mut links, key, bytes);
                }
            }
            for (queue, list) in queues.iter().zip(&lists) {
                assert_eq!(queue.oldest(), list.front().map(|(key, _)| *key));
                assert_eq!(
                    queue.bytes(),
                    list.iter().map(|(_, bytes)| bytes).sum::<u64>()
                );
            }
        }
    }
}
