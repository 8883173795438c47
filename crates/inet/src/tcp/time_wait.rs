//! Connections in TIME-WAIT, in a table of their own: 64 bytes each instead of a control block.
//!
//! All entries wait equally long, so they end in the order in which they came: a queue, with a
//! hash table that finds a flow's place in it. An entry that is taken out early leaves a hole that
//! passes out with its turn. The queue is bounded; the oldest entry makes room for a new one.

use std::collections::VecDeque;

use exos_wire::SeqNumber;
use hashbrown::HashTable;

use super::flow::Flow;
use crate::limits::{TIME_WAIT, TIME_WAIT_ENTRIES_MAX};
use crate::siphash::SipKey;
use crate::time::{Duration, Instant};

/// Holes that may stand in the queue beside as many as there are entries: restarts and reuse
/// leave them faster than time takes them, so they are closed when they are more.
const HOLES_MAX: usize = 1024;

/// What is left of a connection whose both sides are finished.
#[derive(Copy, Clone)]
pub struct Waiting {
    /// Which connection it was.
    pub flow: Flow,
    /// The next sequence number of ours.
    pub snd_nxt: SeqNumber,
    /// The next sequence number expected.
    pub rcv_nxt: SeqNumber,
    /// The peer's latest timestamp, if timestamps were agreed on.
    pub ts_recent: Option<u32>,
    /// What our timestamps are ahead of the clock by.
    pub ts_offset: u32,
    /// When it ends, in milliseconds of the clock, truncated.
    expires_ms: u32,
}

/// The table of connections in TIME-WAIT.
pub struct TimeWaitTable {
    /// `None` is a hole.
    entries: VecDeque<Option<Waiting>>,
    /// The number of the entry at the front; an entry's number never changes.
    first: u64,
    index: HashTable<u64>,
    key: SipKey,
}

impl TimeWaitTable {
    /// An empty table.
    pub fn new(key: SipKey) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            index: HashTable::new(),
            key,
        }
    }

    /// How many connections wait.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Add a connection; true when the oldest had to make room.
    pub fn insert(
        &mut self,
        now: Instant,
        flow: Flow,
        (snd_nxt, rcv_nxt): (SeqNumber, SeqNumber),
        (ts_recent, ts_offset): (Option<u32>, u32),
    ) -> bool {
        self.remove(&flow);
        let evict = self.index.len() >= TIME_WAIT_ENTRIES_MAX;
        if evict {
            while !self.drop_front() {}
        }
        if self.entries.len() > 2 * self.index.len() + HOLES_MAX {
            self.close_holes();
        }
        let expires_ms = (now + TIME_WAIT).millis() as u32;
        let number = self.first + self.entries.len() as u64;
        self.entries.push_back(Some(Waiting {
            flow,
            snd_nxt,
            rcv_nxt,
            ts_recent,
            ts_offset,
            expires_ms,
        }));
        let (entries, first, key) = (&self.entries, self.first, &self.key);
        let hash = |n: &u64| {
            entries[(n - first) as usize]
                .as_ref()
                .map_or(0, |e| e.flow.hash(key, 0))
        };
        self.index.insert_unique(flow.hash(key, 0), number, hash);
        evict
    }

    /// The entry of a flow.
    pub fn get(&self, flow: &Flow) -> Option<&Waiting> {
        if self.index.is_empty() {
            return None;
        }
        let number = *self
            .index
            .find(flow.hash(&self.key, 0), |n| self.holds(*n, flow))?;
        self.entries[(number - self.first) as usize].as_ref()
    }

    /// Take an entry out.
    pub fn remove(&mut self, flow: &Flow) -> Option<Waiting> {
        if self.index.is_empty() {
            return None;
        }
        let (entries, first) = (&self.entries, self.first);
        let holds = |n: &u64| {
            entries[(n - first) as usize]
                .as_ref()
                .is_some_and(|e| e.flow == *flow)
        };
        let found = self.index.find_entry(flow.hash(&self.key, 0), holds).ok()?;
        let (number, _) = found.remove();
        self.entries[(number - self.first) as usize].take()
    }

    /// Start a connection's wait again (RFC 9293 §3.10.7.4, eighth: a retransmitted FIN).
    pub fn restart(&mut self, now: Instant, flow: &Flow) {
        if let Some(e) = self.remove(flow) {
            self.insert(
                now,
                e.flow,
                (e.snd_nxt, e.rcv_nxt),
                (e.ts_recent, e.ts_offset),
            );
        }
    }

    /// When the oldest entry ends.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.entries
            .front()
            .map(|e| e.as_ref().map_or(now, |e| now + remaining(e, now)))
    }

    /// Drop the entries whose time is over.
    pub fn expire(&mut self, now: Instant) {
        while self
            .entries
            .front()
            .is_some_and(|e| e.as_ref().is_none_or(|e| remaining(e, now).is_zero()))
        {
            self.drop_front();
        }
        if self.entries.is_empty() && self.entries.capacity() > 1024 {
            self.entries.shrink_to(1024);
        }
    }

    fn holds(&self, number: u64, flow: &Flow) -> bool {
        self.entries[(number - self.first) as usize]
            .as_ref()
            .is_some_and(|e| e.flow == *flow)
    }

    /// Move the entries together. Linear, and paid for by the holes that made it necessary.
    fn close_holes(&mut self) {
        self.entries.retain(Option::is_some);
        self.first = 0;
        self.index.clear();
        let (entries, key) = (&self.entries, &self.key);
        let hash = |n: &u64| {
            entries[*n as usize]
                .as_ref()
                .map_or(0, |e| e.flow.hash(key, 0))
        };
        for number in 0..entries.len() as u64 {
            self.index.insert_unique(hash(&number), number, hash);
        }
    }

    /// Take what is at the front out of the queue; true when it was an entry, not a hole.
    fn drop_front(&mut self) -> bool {
        let flow = self
            .entries
            .front()
            .and_then(|e| e.as_ref())
            .map(|e| e.flow);
        if let Some(flow) = flow {
            self.remove(&flow);
        }
        self.entries.pop_front();
        self.first += 1;
        flow.is_some()
    }
}

/// How long an entry still waits. Milliseconds are compared modulo 2^32, some 49 days.
fn remaining(entry: &Waiting, now: Instant) -> Duration {
    let left = entry.expires_ms.wrapping_sub(now.millis() as u32) as i32;
    Duration::from_millis(u64::from(left.max(0) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> Flow {
        Flow::new(
            "10.0.0.1:80".parse().unwrap(),
            std::net::SocketAddr::new("10.0.0.2".parse().unwrap(), port),
        )
    }

    fn insert(table: &mut TimeWaitTable, now: Instant, port: u16) -> bool {
        table.insert(now, flow(port), (SeqNumber(1), SeqNumber(2)), (Some(3), 4))
    }

    #[test]
    fn an_entry_takes_at_most_64_bytes() {
        assert!(
            size_of::<Option<Waiting>>() <= 64,
            "{}",
            size_of::<Option<Waiting>>()
        );
    }

    #[test]
    fn ends_after_its_time_and_a_restart_lengthens_it() {
        let mut table = TimeWaitTable::new(SipKey::from_seed(1));
        let start = Instant::from_millis(5);
        insert(&mut table, start, 1);
        insert(&mut table, start, 2);
        let later = start + Duration::from_secs(30);
        table.restart(later, &flow(1));
        table.expire(start + (TIME_WAIT - Duration::from_millis(1)));
        assert_eq!(table.len(), 2);
        table.expire(start + TIME_WAIT);
        assert!(table.get(&flow(1)).is_some() && table.get(&flow(2)).is_none());
        assert_eq!(table.poll_timeout(later), Some(later + TIME_WAIT));
        table.expire(later + TIME_WAIT);
        assert!(table.is_empty() && table.poll_timeout(later).is_none());
    }

    /// A peer that repeats its FIN for ever costs no memory.
    #[test]
    fn restarts_leave_no_holes_behind_for_long() {
        let mut table = TimeWaitTable::new(SipKey::from_seed(1));
        for port in 0..50 {
            insert(&mut table, Instant::START, port);
        }
        (0..100_000u32).for_each(|n| table.restart(Instant::START, &flow((n % 50) as u16)));
        assert!(table.entries.len() <= 2 * 50 + HOLES_MAX + 1);
        assert!((0..50).all(|port| table.get(&flow(port)).is_some()));
        table.expire(Instant::START + TIME_WAIT);
        assert!(table.is_empty());
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut table = TimeWaitTable::new(SipKey::from_seed(1));
        let mut evicted = 0;
        for n in 0..TIME_WAIT_ENTRIES_MAX + 10 {
            let remote = std::net::SocketAddr::new(std::net::Ipv4Addr::from(n as u32).into(), 9);
            let flow = Flow::new("10.0.0.1:80".parse().unwrap(), remote);
            let seqs = (SeqNumber(n as u32), SeqNumber(0));
            evicted += usize::from(table.insert(Instant::START, flow, seqs, (None, 0)));
        }
        assert_eq!((table.len(), evicted), (TIME_WAIT_ENTRIES_MAX, 10));
        let survivor = Flow::new(
            "10.0.0.1:80".parse().unwrap(),
            "0.0.0.10:9".parse().unwrap(),
        );
        assert_eq!(table.get(&survivor).map(|e| e.snd_nxt), Some(SeqNumber(10)));
    }
}
