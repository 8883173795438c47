//! Tables: what a program keeps under keys, and its handler looks up, without a lock.
//!
//! ```text
//! heads     one word a slot, 8 slots a bucket of one cache line: the key's hash and length, or 0
//! entries   for each slot: version 8 | word 8 | key, followed by zeros
//! ```
//!
//! A key is in one of two buckets, by two parts of its hash. Only the program writes. It makes an entry's version odd while the entry
//! changes from one key to another; a handler that finds a version odd, or another one after it has compared the key and read the
//! word, gives the message up. The word of a key changes as a whole.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Slots of a bucket.
pub(crate) const BUCKET: u32 = 8;
/// Bytes of a slot besides its key: head, version, word.
pub(crate) const SLOT: u32 = 24;
/// Where an entry's word and key lie.
pub(crate) const WORD: i16 = 8;
pub(crate) const KEY: i16 = 16;
/// What a word of the key is multiplied with: odd, and as the kernel has it from 32 bits (2^32 / the golden ratio).
pub(crate) const FACTOR: i32 = 0x9e37_79b1_u32 as i32;
/// How far the bits of a hash lie that say the two buckets.
pub(crate) const BUCKETS: [i32; 2] = [16, 40];

/// A table of a handler, as its program sees it. Writes to it come from one thread at a time.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    words: &'a [AtomicU64],
    count: u32,
    key_max: u32,
}

/// Why a key is not taken in; the table is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// It has no bytes, or more than the table's keys may have.
    KeyLength,
    /// There is no room where it would have to be. A table takes in most keys until it is nine tenths full.
    Full,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::KeyLength => "the key has no bytes, or more than the table's keys have",
            Self::Full => "the table has no room for this key; declare a larger one",
        })
    }
}

impl std::error::Error for TableError {}

impl<'a> Table<'a> {
    /// Over the words that a region has.
    pub(crate) fn new(words: &'a [AtomicU64], count: u32, key_max: u32) -> Self {
        Self {
            words,
            count,
            key_max,
        }
    }

    /// The word under a key; `None` also while that entry is changing.
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let slot = self.find(key)?;
        let entry = self.entry(slot);
        let version = entry[0].load(Ordering::Acquire);
        let is_it =
            version.is_multiple_of(2) && self.find(key) == Some(slot) && self.has_key(entry, key);
        let word = entry[1].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        (is_it && entry[0].load(Ordering::Relaxed) == version).then_some(word)
    }

    /// Puts a word under a key. Gives the one that was there before.
    ///
    /// # Errors
    ///
    /// The key is too long, or there is no room where it would have to be.
    pub fn insert(&self, key: &[u8], word: u64) -> Result<Option<u64>, TableError> {
        if key.is_empty() || key.len() > self.key_max as usize {
            return Err(TableError::KeyLength);
        }
        if let Some(slot) = self.find(key) {
            let entry = self.entry(slot);
            return match self.has_key(entry, key) {
                true => Ok(Some(entry[1].swap(word, Ordering::Release))),
                // Another key with as long a part of the hash: the handler looks at one only.
                false => Err(TableError::Full),
            };
        }
        let free = self.slot_with(key, |_| 0).ok_or(TableError::Full)?;
        self.change(free, |entry| {
            for (number, to) in entry[2..].iter().enumerate() {
                let from = key.get(8 * number..).unwrap_or_default();
                to.store(padded(from), Ordering::Relaxed);
            }
            entry[1].store(word, Ordering::Relaxed);
            self.words[free].store(head(hash(key), key.len()), Ordering::Relaxed);
        });
        Ok(None)
    }

    /// Takes a key out. Gives the word that was there.
    pub fn remove(&self, key: &[u8]) -> Option<u64> {
        let slot = self.find(key)?;
        let entry = self.entry(slot);
        if !self.has_key(entry, key) {
            return None;
        }
        self.change(slot, |_| self.words[slot].store(0, Ordering::Relaxed));
        Some(entry[1].load(Ordering::Relaxed))
    }

    fn change(&self, slot: usize, write: impl FnOnce(&[AtomicU64])) {
        let entry = self.entry(slot);
        let version = entry[0].load(Ordering::Relaxed);
        entry[0].store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        write(entry);
        entry[0].store(version.wrapping_add(2), Ordering::Release);
    }

    /// The slot that may have a key.
    fn find(&self, key: &[u8]) -> Option<usize> {
        match key.is_empty() {
            true => None,
            false => self.slot_with(key, |hash| head(hash, key.len())),
        }
    }

    /// The first slot of a key's buckets whose head is what is said of its hash. Emptier buckets come first where a free slot is
    /// looked for.
    fn slot_with(&self, key: &[u8], wanted: impl Fn(u64) -> u64) -> Option<usize> {
        let hash = hash(key);
        let wanted = wanted(hash);
        let mask = u64::from(self.count / BUCKET - 1);
        let mut buckets = BUCKETS.map(|bits| ((hash >> bits & mask) as u32 * BUCKET) as usize);
        let is = |slot: &usize| self.words[*slot].load(Ordering::Relaxed) == wanted;
        let slots = |first: usize| first..first + BUCKET as usize;
        if wanted == 0 {
            buckets.sort_by_key(|&first| slots(first).filter(|slot| !is(slot)).count());
        }
        buckets.into_iter().flat_map(slots).find(is)
    }

    fn entry(&self, slot: usize) -> &'a [AtomicU64] {
        let len = (KEY as usize + self.key_max as usize) / 8;
        let first = self.count as usize + slot * len;
        &self.words[first..first + len]
    }

    fn has_key(&self, entry: &[AtomicU64], key: &[u8]) -> bool {
        let words = key.chunks(8).zip(&entry[2..]);
        key.len() <= self.key_max as usize
            && words
                .into_iter()
                .all(|(ours, theirs)| padded(ours) == theirs.load(Ordering::Relaxed))
    }
}

/// What a key's slot has as its head; never 0, for a key has a length.
fn head(hash: u64, len: usize) -> u64 {
    hash & !0xffff | len as u64
}

/// The hash of a key: of its words in this machine's order, the last one followed by zeros.
fn hash(key: &[u8]) -> u64 {
    let all = key
        .chunks(8)
        .fold(key.len() as u64, |hash, word| mix(hash ^ padded(word)));
    // The bits of the last word have not come everywhere yet.
    mix(all)
}

fn mix(hash: u64) -> u64 {
    let product = hash.wrapping_mul(i64::from(FACTOR) as u64);
    product ^ product >> 32
}

/// The first 8 bytes as a word, followed by zeros.
fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_ne_bytes(word)
}
