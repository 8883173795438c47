//! Flows whose connections were handed over: for a while the old stack is silent about what still comes.
//!
//! Each is remembered for [`HANDED_OVER_HOLD`], and for as long again after each segment. There are at most
//! [`HANDED_OVER_ENTRIES_MAX`]; the oldest makes room.

use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::limits::{HANDED_OVER_ENTRIES_MAX, HANDED_OVER_HOLD};
use crate::siphash::SipKey;
use crate::tcp::values::flow::Flow;
use crate::time::Instant;

/// Flows that have been handed over lately: what still comes of them is nobody's here, and not denied.
pub(in crate::tcp) struct HandedOver {
    entries: HashTable<(Flow, Instant)>,
    /// In the order in which they may end; those renewed since come again at its end.
    ends: VecDeque<(Instant, Flow)>,
    key: SipKey,
}

/// Salt of the hash of this table.
const SALT_HANDED_OVER: u32 = 18;

impl HandedOver {
    pub fn new(key: SipKey) -> Self {
        Self {
            entries: HashTable::new(),
            ends: VecDeque::new(),
            key,
        }
    }

    fn hash(&self, flow: &Flow) -> u64 {
        flow.hash(&self.key, SALT_HANDED_OVER)
    }

    pub fn insert(&mut self, now: Instant, flow: Flow) {
        self.remove(&flow);
        self.expire(now);
        while self.ends.len() >= HANDED_OVER_ENTRIES_MAX {
            if let Some((_, oldest)) = self.ends.pop_front() {
                self.remove(&oldest);
            }
        }
        let (hash, key, end) = (self.hash(&flow), self.key, now + HANDED_OVER_HOLD);
        let rehash = |e: &(Flow, Instant)| e.0.hash(&key, SALT_HANDED_OVER);
        self.entries.insert_unique(hash, (flow, end), rehash);
        self.ends.push_back((end, flow));
    }

    pub fn remove(&mut self, flow: &Flow) {
        let hash = self.hash(flow);
        if let Ok(found) = self.entries.find_entry(hash, |e| e.0 == *flow) {
            found.remove();
        }
    }

    /// Let go of those that nothing has come of for long enough.
    fn expire(&mut self, now: Instant) {
        while let Some(&(end, flow)) = self.ends.front().filter(|e| e.0 <= now) {
            self.ends.pop_front();
            let hash = self.hash(&flow);
            let Ok(found) = self.entries.find_entry(hash, |e| e.0 == flow) else {
                continue;
            };
            let renewed = found.get().1;
            if renewed > end {
                self.ends.push_back((renewed, flow));
            } else {
                found.remove();
            }
        }
    }

    /// True when `flow` has been handed over; a segment of it (`renew`) prolongs the memory.
    pub fn has(&mut self, now: Instant, flow: &Flow, renew: bool) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let hash = self.hash(flow);
        let Some(entry) = self.entries.find_mut(hash, |e| e.0 == *flow) else {
            return false;
        };
        if entry.1 <= now {
            self.expire(now);
            return false;
        }
        if renew {
            entry.1 = now + HANDED_OVER_HOLD;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn flow(n: u32) -> Flow {
        let remote = std::net::SocketAddr::new(std::net::Ipv4Addr::from(n).into(), 9);
        Flow::new("10.0.0.1:80".parse().unwrap(), remote)
    }

    #[test]
    fn a_flow_is_remembered_as_long_as_something_comes() {
        let mut table = HandedOver::new(SipKey::from_seed(1));
        let at = |secs| Instant::START + Duration::from_secs(secs);
        let hold = HANDED_OVER_HOLD.as_secs();
        table.insert(at(0), flow(1));
        table.insert(at(0), flow(2));
        assert!(table.has(at(hold - 1), &flow(1), true));
        assert!(table.has(at(hold - 1), &flow(2), false));
        assert!(table.has(at(hold + 1), &flow(1), false));
        assert!(!table.has(at(hold + 1), &flow(2), true));
        table.insert(at(hold + 2), flow(3));
        assert_eq!((table.entries.len(), table.ends.len()), (2, 2));
        table.remove(&flow(1));
        assert!(!table.has(at(hold + 2), &flow(1), true));
        table.expire(at(10 * hold));
        assert!(table.entries.is_empty() && table.ends.is_empty());
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut table = HandedOver::new(SipKey::from_seed(1));
        for n in 0..HANDED_OVER_ENTRIES_MAX as u32 + 10 {
            table.insert(Instant::START, flow(n));
        }
        assert_eq!(table.entries.len(), HANDED_OVER_ENTRIES_MAX);
        assert!(!table.has(Instant::START, &flow(9), false));
        assert!(table.has(Instant::START, &flow(10), false));
    }
}
