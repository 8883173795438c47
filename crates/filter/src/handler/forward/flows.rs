//! The flows in memory that user space shares with the program: put there, found, and taken back, by writing words.
//!
//! User space alone writes the index and the records, but for the time of when a flow was last seen. The program reads
//! them at any moment, on any processor. What keeps it from forwarding a packet by halves of two flows:
//!
//! - A record has a number, odd while a flow is there. It is made even before anything of the record is changed, and odd,
//!   and higher, when all is written. The program reads it before all it needs of the record and after, and forwards
//!   nothing unless both are the same and odd.
//! - An entry of the index is one word, written at once, after the record that it leads to and taken away when the record
//!   has no flow any more. Where it leads to another flow nevertheless, the ends in the record say so.
//!
//! A flow has two entries, one each way that its packets come, each in one of two buckets that its hash names: the first one
//! while there is much room in it, else the one with more. So in a full table of [`buckets_for`] as many flows as there are records one packet
//! of fourteen has to be looked for in both, and hardly a flow of a million finds no room. One that does not is not put
//! there, and its packets go to user space. Nothing ever moves.
//!
//! The hash is keyed, by a factor and what is multiplied: without them nobody can choose ends that meet in a bucket. Each word of addresses is
//! mixed twice: by one multiplication its upper bit changes the same two bits for every key, which the next word can change back.
//! It need be no stronger, since all they would reach is that flows like theirs go to user space.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::layout::{BUCKET_ENTRIES, BUCKET_LEN, Body, Flow, Key, NUMBER, SEEN, WHAT};

/// Entries for two flows, which take four.
const ENTRIES_FOR_TWO: u64 = 7;

/// While fewer entries of a flow's first bucket than this are taken, the flow goes there, however empty its second one is. With
/// more, flows would not find room in a full table; with fewer, more would have to be looked for in two buckets.
const FIRST_COME: usize = 6;

/// The buckets of an index for this many flows.
pub fn buckets_for(flows: u32) -> u32 {
    let entries = (ENTRIES_FOR_TWO * u64::from(flows)).div_ceil(2);
    // A few flows may all meet in few buckets.
    entries.div_ceil(BUCKET_ENTRIES as u64).max(16) as u32
}

/// What hashes are made with. It must be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey {
    /// What the first word is combined with.
    pub(super) seed: u64,
    /// An odd factor.
    pub(super) factor: u64,
}

/// What a hash is stirred with in the end, so that ends that hardly differ are far apart: 2^64 by the golden ratio.
pub(super) const STIR: u64 = 0x9e37_79b9_7f4a_7c15;

impl HashKey {
    /// Of random numbers.
    pub const fn new([seed, factor]: [u64; 2]) -> Self {
        Self {
            seed,
            factor: factor | 1,
        }
    }

    /// What the hash of all packets of a protocol and family begins with.
    pub(super) const fn begin(&self, what: u32) -> u64 {
        self.seed ^ (what as u64).wrapping_mul(STIR)
    }

    fn hash(&self, key: &Key) -> u64 {
        let mix = |hash: u64, factor: u64| {
            let hash = hash.wrapping_mul(factor);
            hash ^ hash >> 32
        };
        let pairs = key.addresses[..key.len].as_chunks::<2>().0;
        let addresses = pairs
            .iter()
            .map(|[a, b]| u64::from(*a) | u64::from(*b) << 32);
        let hash = addresses.fold(self.begin(key.what), |hash, word| {
            mix(mix(hash ^ word, self.factor), self.factor)
        });
        let hash = mix(hash ^ u64::from(key.ports), self.factor);
        mix(hash, STIR)
    }
}

/// The part of an entry that is the hash's: never zero.
pub(super) const fn tag(hash: u64) -> u64 {
    hash >> 32 | 1
}

const fn entry(hash: u64, place: u32, way: usize) -> u64 {
    tag(hash) << 32 | (place as u64) << 1 | way as u64
}

/// Why a flow is not there: there is no room for it, or what is at its place is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The memory: words that are atomic. (Tests have words that tell of each access.)
#[derive(Clone, Copy, Debug)]
pub struct Flows<'a, W = AtomicU64> {
    index: &'a [W],
    records: &'a [W],
    /// Words from one record to the next.
    stride: usize,
    key: HashKey,
}

impl<'a, W: Borrow<AtomicU64>> Flows<'a, W> {
    /// Buckets and records, of this many bytes each ([`super::layout::record_len`]).
    ///
    /// # Panics
    ///
    /// If these are no whole buckets or records.
    pub fn new(index: &'a [W], records: &'a [W], record_len: usize, key: HashKey) -> Self {
        let stride = record_len / 8;
        assert!(!index.is_empty() && index.len().is_multiple_of(BUCKET_ENTRIES));
        assert!(record_len.is_multiple_of(BUCKET_LEN) && records.len().is_multiple_of(stride));
        Self {
            index,
            records,
            stride,
            key,
        }
    }

    /// The words of a record; `None` beyond the last.
    fn record(&self, place: u32) -> Option<&'a [W]> {
        let at = place as usize * self.stride;
        self.records.get(at..at + self.stride)
    }

    /// The flow at a place, if there is one.
    pub fn get(&self, place: u32) -> Option<Flow> {
        let record = self.record(place)?;
        // Nobody else writes it: neither order nor the number a second time.
        let is_there = record[NUMBER / 8].borrow().load(Ordering::Relaxed) & 1 == 1;
        let words = record[WHAT / 8..]
            .iter()
            .map(|w| w.borrow().load(Ordering::Relaxed));
        is_there.then(|| Body::of_words(words).flow())
    }

    /// When a packet of the flow at a place was last seen: what the program says, or anyone who put it there. `None` where
    /// there is none.
    pub fn seen(&self, place: u32) -> Option<u64> {
        let record = self.record(place)?;
        let is_there = record[NUMBER / 8].borrow().load(Ordering::Relaxed) & 1 == 1;
        is_there.then(|| record[SEEN / 8].borrow().load(Ordering::Relaxed))
    }

    /// Puts a flow to a place, seen at this time. Packets that come from now on are forwarded.
    ///
    /// # Errors
    ///
    /// There is no room in the index, or the place is taken; the flow is not there.
    ///
    /// # Panics
    ///
    /// If there is no such place, or a record is too small for its family.
    pub fn insert(&self, place: u32, flow: &Flow, seen_ns: u64) -> Result<(), Full> {
        let record = self.record(place).expect("a place of the table");
        let number = record[NUMBER / 8].borrow().load(Ordering::Relaxed);
        // Somebody else has written there, who may.
        if number & 1 != 0 {
            return Err(Full);
        }
        // Anyone who reads something of what follows reads the even number after it.
        fence(Ordering::Release);
        record[SEEN / 8].borrow().store(seen_ns, Ordering::Relaxed);
        let body = flow.body();
        assert!(body.words().count() <= record.len() - WHAT / 8);
        for (word, value) in record[WHAT / 8..].iter().zip(body.words()) {
            word.borrow().store(value, Ordering::Relaxed);
        }
        let next = number.wrapping_add(1);
        record[NUMBER / 8].borrow().store(next, Ordering::Release);
        for way in flow.ways() {
            let hash = self.key.hash(&flow.key(way));
            let Some(free) = self.free_entry(hash) else {
                self.remove(place);
                return Err(Full);
            };
            free.borrow()
                .store(entry(hash, place, way), Ordering::Release);
        }
        Ok(())
    }

    /// Takes a flow away, and says what it was. No packet of it is forwarded but those that the program is at.
    pub fn remove(&self, place: u32) -> Option<Flow> {
        let flow = self.get(place)?;
        let number = &self.record(place)?[NUMBER / 8];
        let next = number.borrow().load(Ordering::Relaxed).wrapping_add(1);
        number.borrow().store(next, Ordering::Release);
        for way in flow.ways() {
            let hash = self.key.hash(&flow.key(way));
            let sought = entry(hash, place, way);
            let mut both = self.buckets(hash).into_iter().flatten();
            let is_sought = |entry: &&W| (**entry).borrow().load(Ordering::Relaxed) == sought;
            if let Some(entry) = both.find(is_sought) {
                entry.borrow().store(0, Ordering::Release);
            }
        }
        Some(flow)
    }

    /// An entry for a hash.
    fn free_entry(&self, hash: u64) -> Option<&'a W> {
        let is_free = |entry: &&W| (**entry).borrow().load(Ordering::Relaxed) == 0;
        let [first, second] = self.buckets(hash);
        let room = |bucket: &'a [W]| bucket.iter().filter(is_free).count();
        let free = room(first);
        let bucket = match free > BUCKET_ENTRIES - FIRST_COME || free >= room(second) {
            true => first,
            false => second,
        };
        bucket.iter().find(is_free)
    }

    /// Where a hash may be; the program computes the same.
    fn buckets(&self, hash: u64) -> [&'a [W]; 2] {
        let (all, _) = self.index.as_chunks::<BUCKET_ENTRIES>();
        let second = hash.wrapping_mul(self.key.factor) >> 32;
        [hash & 0xffff_ffff, second]
            .map(|part| all[((part * all.len() as u64) >> 32) as usize].as_slice())
    }
}

#[cfg(test)]
mod tests;
