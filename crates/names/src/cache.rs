//! What is known of names, for as long as the answers said.
//!
//! An entry is one name and family. There are [`CACHE_ENTRIES_MAX`] at most; when it is full, what has expired goes, and else
//! what was not asked for the longest.

use crate::family::Family;
use crate::limits::CACHE_ENTRIES_MAX;
use crate::lookup::Outcome;
use crate::name::Name;
use exos_inet::{Duration, Instant};
use std::collections::BTreeMap;

/// What is asked: a name, and the family of its addresses.
pub(crate) type Key = (Name, Family);

#[derive(Default)]
pub(crate) struct Cache {
    entries: BTreeMap<Key, Entry>,
    /// Counts look-ups, to tell what was asked when.
    turn: u64,
}

struct Entry {
    outcome: Outcome,
    expires: Instant,
    asked: u64,
}

impl Cache {
    /// What is known, and until when.
    pub(crate) fn get(&mut self, now: Instant, key: &Key) -> Option<(Outcome, Instant)> {
        self.turn += 1;
        let entry = self.entries.get_mut(key)?;
        if entry.expires <= now {
            self.entries.remove(key);
            return None;
        }
        entry.asked = self.turn;
        Some((entry.outcome.clone(), entry.expires))
    }

    /// Keeps it for that many seconds, and returns how many entries made room that had not expired.
    pub(crate) fn insert(&mut self, now: Instant, key: Key, outcome: Outcome, ttl_s: u32) -> u64 {
        if ttl_s == 0 {
            return 0;
        }
        let mut evicted = 0;
        if self.entries.len() >= CACHE_ENTRIES_MAX && !self.entries.contains_key(&key) {
            self.entries.retain(|_, entry| entry.expires > now);
            if self.entries.len() >= CACHE_ENTRIES_MAX {
                self.evict();
                evicted = 1;
            }
        }
        let entry = Entry {
            outcome,
            expires: now + Duration::from_secs(ttl_s.into()),
            asked: self.turn,
        };
        self.entries.insert(key, entry);
        evicted
    }

    fn evict(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.asked);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.entries.remove(&key);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Found;

    fn key(number: usize) -> Key {
        (Name::new(&format!("host-{number}")).unwrap(), Family::Ipv4)
    }

    const NONE: Outcome = Outcome::Found(Found::NoSuchName);

    #[test]
    fn entries_expire() {
        let mut cache = Cache::default();
        let at = Instant::from_millis;
        cache.insert(at(0), key(1), NONE, 2);
        cache.insert(at(0), key(2), NONE, 0);
        assert_eq!(cache.len(), 1);
        assert!(cache.get(at(1999), &key(1)).is_some());
        assert!(cache.get(at(1999), &(key(1).0, Family::Ipv6)).is_none());
        assert!(cache.get(at(2000), &key(1)).is_none());
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_full_cache_gives_up_what_has_expired_and_then_what_was_not_asked_for_longest() {
        let mut cache = Cache::default();
        let now = Instant::START;
        for number in 0..CACHE_ENTRIES_MAX {
            let ttl_s = if number == 7 { 1 } else { 100 };
            assert_eq!(cache.insert(now, key(number), NONE, ttl_s), 0);
            cache.get(now, &key(number));
        }
        let now = Instant::from_millis(1000);
        assert_eq!(cache.insert(now, key(5000), NONE, 100), 0);
        assert!(cache.get(now, &key(0)).is_some());
        assert_eq!(cache.insert(now, key(5001), NONE, 100), 1);
        assert!(cache.get(now, &key(1)).is_none());
        assert!(cache.get(now, &key(0)).is_some());
        assert_eq!(cache.len(), CACHE_ENTRIES_MAX);
    }
}
