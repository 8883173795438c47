//! Connections in TIME-WAIT, in a table of their own: 64 bytes each instead of a control block.
//!
//! All entries wait equally long, so they end in the order in which they came: a queue, with a
//! hash table that finds a flow's place in it. An entry that is taken out early leaves a hole that
//! passes out with its turn, or is closed before the queue grows for want of its place: a client that
//! uses its ports again and again leaves holes faster than time takes them. So the queue's memory follows
//! from how many wait at most, and is bounded; the oldest entry makes room for a new one.
//! Entries that move to another stack are in [`records`](super::records).

use std::collections::VecDeque;

use exos_wire::SeqNumber;

use crate::limits::{TIME_WAIT, TIME_WAIT_ENTRIES_MAX};
use crate::tcp::table::index::Index;
use crate::tcp::values::flow::Flow;
use crate::time::{Duration, Instant};

/// Places of the smallest queue; the others have a power of two.
const PLACES_MIN: usize = 64;

/// A full queue with fewer holes than one place in this many grows, or lets its oldest entry go; with more, they are
/// closed. For each hole that was made, three entries at most are moved.
const PLACES_PER_HOLE: usize = 4;

/// What is left of a connection whose both sides are finished.
#[derive(Copy, Clone, Debug)]
pub struct Waiting {
    /// Which connection it was.
    pub flow: Flow,
    /// The flow's hash.
    pub(in crate::tcp) hash: u32,
    /// The next sequence number of ours.
    pub snd_nxt: SeqNumber,
    /// The next sequence number expected.
    pub rcv_nxt: SeqNumber,
    /// The peer's latest timestamp, if timestamps were agreed on.
    pub ts_recent: Option<u32>,
    /// What our timestamps are ahead of the clock by.
    pub ts_offset: u32,
    /// When it ends, in milliseconds of the clock, truncated. The table sets it.
    pub(in crate::tcp) expires_ms: u32,
}

/// The table of connections in TIME-WAIT.
#[derive(Default)]
pub struct TimeWaitTable {
    /// `None` is a hole.
    entries: VecDeque<Option<Waiting>>,
    /// The number of the entry at the front, modulo 2^32; an entry's number never changes.
    first: u32,
    /// The numbers by hash.
    index: Index,
}

impl TimeWaitTable {
    /// Those that wait, the oldest first, from a place in the queue on, each with its place.
    pub fn from(&self, place: usize) -> impl Iterator<Item = (usize, &Flow)> {
        let entries = self.entries.iter().enumerate().skip(place);
        entries.filter_map(|(place, entry)| Some((place, &entry.as_ref()?.flow)))
    }

    /// How many connections wait.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True when `expire` has something to drop.
    #[inline]
    pub fn wants(&self, now: Instant) -> bool {
        let is_over = |e: &Option<Waiting>| e.as_ref().is_none_or(|e| remaining(e, now).is_zero());
        self.entries.front().is_some_and(is_over)
    }

    /// Add a connection, which must not be there; true when the oldest had to make room.
    pub fn insert(&mut self, now: Instant, waiting: Waiting) -> bool {
        debug_assert!(self.get(waiting.hash, &waiting.flow).is_none());
        let is_full = self.entries.len() == self.entries.capacity();
        let evict = is_full && self.make_room();
        let number = self.first.wrapping_add(self.entries.len() as u32);
        self.entries.push_back(Some(Waiting {
            expires_ms: (now + TIME_WAIT).millis() as u32,
            ..waiting
        }));
        let (entries, first) = (&self.entries, self.first);
        self.index
            .insert(waiting.hash, number, |n| hash_of(entries, first, n));
        evict
    }

    /// The entry of a flow with that hash.
    #[inline]
    pub fn get(&self, hash: u32, flow: &Flow) -> Option<&Waiting> {
        self.entries[self.place_of(hash, flow)?].as_ref()
    }

    /// Take an entry out.
    pub fn remove(&mut self, hash: u32, flow: &Flow) -> Option<Waiting> {
        let place = self.place_of(hash, flow)?;
        self.index
            .remove(hash, self.first.wrapping_add(place as u32));
        self.entries[place].take()
    }

    /// Start a connection's wait again (RFC 9293 §3.10.7.4, eighth: a retransmitted FIN).
    pub fn restart(&mut self, now: Instant, hash: u32, flow: &Flow) {
        if let Some(waiting) = self.remove(hash, flow) {
            self.insert(now, waiting);
        }
    }

    /// When the oldest entry ends.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.entries
            .front()
            .map(|e| e.as_ref().map_or(now, |e| now + remaining(e, now)))
    }

    /// Drop the entries whose time is over, and tell of each.
    #[inline]
    pub fn expire(&mut self, now: Instant, is_over: impl FnMut(&Flow)) {
        if self.wants(now) {
            self.drop_expired(now, is_over);
        }
    }

    #[inline(never)]
    fn drop_expired(&mut self, now: Instant, mut is_over: impl FnMut(&Flow)) {
        while self.wants(now) {
            if let Some(waiting) = self.drop_front() {
                is_over(&waiting.flow);
            }
        }
        if self.entries.is_empty() {
            self.entries.shrink_to(1024);
        }
    }

    /// All that wait: their hashes and flows.
    pub(in crate::tcp) fn flows(&self) -> impl Iterator<Item = (u32, Flow)> {
        self.entries.iter().flatten().map(|e| (e.hash, e.flow))
    }

    /// Where in the queue the entry of a flow stands.
    #[inline]
    fn place_of(&self, hash: u32, flow: &Flow) -> Option<usize> {
        let place = |number: u32| number.wrapping_sub(self.first) as usize;
        let is_it = |n: u32| {
            self.entries[place(n)]
                .as_ref()
                .is_some_and(|e| e.flow == *flow)
        };
        self.index.find(hash, is_it).map(place)
    }

    /// Make a place in a full queue; true when the oldest entry had to go for it.
    fn make_room(&mut self) -> bool {
        let places = self.entries.len();
        let holes = places - self.index.len();
        if holes > 0 && holes >= places / PLACES_PER_HOLE {
            self.close_holes();
        } else if places >= TIME_WAIT_ENTRIES_MAX {
            return self.drop_front().is_some();
        } else {
            let more = places.max(PLACES_MIN).min(TIME_WAIT_ENTRIES_MAX - places);
            self.entries.reserve_exact(more);
        }
        false
    }

    /// Move the entries together. Linear, and paid for by the holes that made it necessary.
    fn close_holes(&mut self) {
        self.entries.retain(Option::is_some);
        self.first = 0;
        self.index.clear();
        let entries = &self.entries;
        for number in 0..entries.len() as u32 {
            let hash_of = |n| hash_of(entries, 0, n);
            self.index.insert(hash_of(number), number, hash_of);
        }
    }

    /// Take what is at the front out of the queue, which may be a hole.
    #[inline]
    fn drop_front(&mut self) -> Option<Waiting> {
        let front = self.entries.pop_front().flatten();
        if let Some(waiting) = &front {
            self.index.remove(waiting.hash, self.first);
        }
        self.first = self.first.wrapping_add(1);
        front
    }
}

/// The hash of the entry with that number.
fn hash_of(entries: &VecDeque<Option<Waiting>>, first: u32, number: u32) -> u32 {
    let entry = &entries[number.wrapping_sub(first) as usize];
    entry.as_ref().map_or(0, |e| e.hash)
}

/// How long an entry still waits. Milliseconds are compared modulo 2^32, some 49 days.
fn remaining(entry: &Waiting, now: Instant) -> Duration {
    let left = entry.expires_ms.wrapping_sub(now.millis() as u32) as i32;
    Duration::from_millis(u64::from(left.max(0) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::siphash::SipKey;

    fn flow(port: u16) -> Flow {
        Flow::new(
            "10.0.0.1:80".parse().unwrap(),
            std::net::SocketAddr::new("10.0.0.2".parse().unwrap(), port),
        )
    }

    fn waiting(flow: Flow, snd_nxt: u32) -> Waiting {
        Waiting {
            flow,
            hash: hash(&flow),
            snd_nxt: SeqNumber(snd_nxt),
            rcv_nxt: SeqNumber(2),
            ts_recent: Some(3),
            ts_offset: 4,
            expires_ms: 0,
        }
    }

    fn hash(flow: &Flow) -> u32 {
        flow.table_hash(&SipKey::from_seed(1))
    }

    fn insert(table: &mut TimeWaitTable, now: Instant, port: u16) -> bool {
        table.insert(now, waiting(flow(port), 1))
    }

    fn get(table: &TimeWaitTable, port: u16) -> Option<&Waiting> {
        table.get(hash(&flow(port)), &flow(port))
    }

    fn restart(table: &mut TimeWaitTable, now: Instant, port: u16) {
        table.restart(now, hash(&flow(port)), &flow(port));
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
        let mut table = TimeWaitTable::default();
        let start = Instant::from_millis(5);
        insert(&mut table, start, 1);
        insert(&mut table, start, 2);
        let later = start + Duration::from_secs(30);
        restart(&mut table, later, 1);
        table.expire(start + (TIME_WAIT - Duration::from_millis(1)), |_| ());
        assert_eq!(table.len(), 2);
        table.expire(start + TIME_WAIT, |_| ());
        assert!(get(&table, 1).is_some() && get(&table, 2).is_none());
        assert_eq!(table.poll_timeout(later), Some(later + TIME_WAIT));
        table.expire(later + TIME_WAIT, |_| ());
        assert!(table.len() == 0 && table.poll_timeout(later).is_none());
    }

    /// A peer that repeats its FIN for ever costs no memory.
    #[test]
    fn restarts_leave_no_holes_behind_for_long() {
        let mut table = TimeWaitTable::default();
        for port in 0..50 {
            insert(&mut table, Instant::START, port);
        }
        (0..100_000u32).for_each(|n| restart(&mut table, Instant::START, (n % 50) as u16));
        assert!(table.entries.capacity() <= 128);
        assert!((0..50).all(|port| get(&table, port).is_some()));
        table.expire(Instant::START + TIME_WAIT, |_| ());
        assert!(table.len() == 0);
    }

    /// A client that uses its ports again long before their time is over: the memory is that of as many as wait at once.
    #[test]
    fn ports_that_are_used_again_take_no_more_places() {
        const PORTS: u16 = 28_000;
        let mut table = TimeWaitTable::default();
        for n in 0..50 * u32::from(PORTS) {
            let port = (n % u32::from(PORTS)) as u16;
            table.remove(hash(&flow(port)), &flow(port));
            assert!(
                !insert(&mut table, Instant::START, port),
                "nobody has to go"
            );
        }
        assert_eq!(table.len(), usize::from(PORTS));
        assert_eq!(
            table.entries.capacity(),
            65_536,
            "the next power of two but one at most"
        );
        assert!((0..PORTS).all(|port| get(&table, port).is_some()));
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut table = TimeWaitTable::default();
        let mut evicted = 0;
        for n in 0..TIME_WAIT_ENTRIES_MAX + 10 {
            let remote = std::net::SocketAddr::new(std::net::Ipv4Addr::from(n as u32).into(), 9);
            let flow = Flow::new("10.0.0.1:80".parse().unwrap(), remote);
            evicted += usize::from(table.insert(Instant::START, waiting(flow, n as u32)));
        }
        assert_eq!((table.len(), evicted), (TIME_WAIT_ENTRIES_MAX, 10));
        assert_eq!(table.entries.capacity(), TIME_WAIT_ENTRIES_MAX);
        let survivor = Flow::new(
            "10.0.0.1:80".parse().unwrap(),
            "0.0.0.10:9".parse().unwrap(),
        );
        assert_eq!(
            table.get(hash(&survivor), &survivor).map(|e| e.snd_nxt),
            Some(SeqNumber(10))
        );
    }
}
