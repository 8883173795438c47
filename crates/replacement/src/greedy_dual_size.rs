//! GreedyDual-Size: what is small and was used lately stays.
//!
//! Cao, Irani, *Cost-aware WWW proxy caching algorithms*, USITS 1997, with a cost of 1 for everything, which is best for hits by object; the
//! policy that *IO-Lite* (section 3.2) has its web server install. A thing is worth 1/size above the level at which it was last used; the one
//! that is worth least goes, and the level rises to what it was worth.

use crate::policy::{Newcomer, Policy};
use crate::queue::Key;
use std::collections::BTreeSet;

/// What something of one byte is worth above the level: things of a gigabyte still differ by their sizes.
const SCALE: u128 = 1 << 40;

/// What a thing is worth, how late it was used among those worth as much, and its size.
#[derive(Clone, Copy, Debug, Default)]
struct Worth {
    worth: u128,
    turn: u64,
    bytes: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct GreedyDualSize {
    by_worth: BTreeSet<(u128, u64, Key)>,
    things: Vec<Worth>,
    level: u128,
    turn: u64,
}

impl GreedyDualSize {
    fn put(&mut self, key: Key, bytes: u64) {
        self.turn += 1;
        let (worth, turn) = (self.level + SCALE / u128::from(bytes.max(1)), self.turn);
        if key.index() >= self.things.len() {
            self.things.resize(key.index() + 1, Worth::default());
        }
        self.things[key.index()] = Worth { worth, turn, bytes };
        self.by_worth.insert((worth, turn, key));
    }
}

impl Policy for GreedyDualSize {
    fn admitted(&mut self, newcomer: Newcomer) {
        self.put(newcomer.key, newcomer.bytes);
    }

    fn used(&mut self, key: Key) {
        self.removed(key);
        self.put(key, self.things[key.index()].bytes);
    }

    fn victim(&mut self, _: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        let (worth, _, key) = self.by_worth.pop_first()?;
        self.level = worth;
        Some(key)
    }

    fn removed(&mut self, key: Key) {
        let Worth { worth, turn, .. } = self.things[key.index()];
        self.by_worth.remove(&(worth, turn, key));
    }
}
