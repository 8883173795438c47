//! What a peer has in its table of header compression, as far as we have filled it (RFC 7541 §2.3.2).

use super::table::STATIC;
use crate::limits::SENT_TABLE_LEN;

/// Tells most fields apart; those that it does not are compared.
#[inline]
pub(super) fn hash(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = bytes.len() as u64;
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(FACTOR);
    }
    (hash >> 32) as u32
}

/// The peer's table: what it has of the fields that were sent.
#[derive(Debug)]
pub(super) struct SentTable {
    /// The oldest first; those before `first` have gone.
    hashes: Vec<u32>,
    entries: Vec<Entry>,
    first: usize,
    /// Their bytes, one behind the other.
    bytes: Vec<u8>,
    size: usize,
    /// What the peer allows it to come to.
    pub(super) len_max: usize,
    /// How many there have been.
    pub(super) added: u64,
}

/// Room for some fields more, whenever there is none.
const SPARE_LEN: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its bytes are.
    at: u32,
    len: u32,
    size: u32,
}

impl Default for SentTable {
    fn default() -> SentTable {
        SentTable {
            hashes: Vec::new(),
            entries: Vec::new(),
            first: 0,
            bytes: Vec::new(),
            size: 0,
            len_max: SENT_TABLE_LEN,
            added: 0,
        }
    }
}

impl SentTable {
    /// The number of the entry that is a field (§2.3.3).
    #[inline]
    pub(super) fn find(&self, hash: u32, field: &[u8]) -> Option<u32> {
        let mut from = self.first;
        loop {
            from += self.hashes[from..].iter().position(|its| *its == hash)?;
            let Entry { at, len, .. } = self.entries[from];
            if self.bytes[at as usize..][..len as usize] == *field {
                // The newest follows the fixed ones.
                return Some((STATIC.len() + self.hashes.len() - from) as u32);
            }
            from += 1;
        }
    }

    /// The peer adds a field, of this size; the oldest go for it (§4.4).
    pub(super) fn add(&mut self, hash: u32, field: &[u8], size: usize) {
        self.shrink(self.len_max - size);
        if self.bytes.len() + field.len() > self.bytes.capacity() {
            self.pack();
            self.bytes.reserve_exact(field.len() + SPARE_LEN);
        }
        self.added += 1;
        self.size += size;
        self.entries.push(Entry {
            at: self.bytes.len() as u32,
            len: field.len() as u32,
            size: size as u32,
        });
        self.hashes.push(hash);
        self.bytes.extend_from_slice(field);
    }

    /// The oldest go, until it comes to no more than this (§4.3).
    pub(super) fn shrink(&mut self, len_max: usize) {
        while self.size > len_max
            && let Some(entry) = self.entries.get(self.first)
        {
            self.size -= entry.size as usize;
            self.first += 1;
        }
        if self.first == self.entries.len() {
            (self.hashes, self.entries, self.bytes) = (Vec::new(), Vec::new(), Vec::new());
            self.first = 0;
        }
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let entry = size_of::<Entry>();
        self.bytes.capacity() + 4 * self.hashes.capacity() + entry * self.entries.capacity()
    }

    /// Throws away what has gone.
    fn pack(&mut self) {
        let begin = self.entries.get(self.first);
        let begin = begin.map_or(self.bytes.len(), |entry| entry.at as usize);
        self.hashes.drain(..self.first);
        self.entries.drain(..self.first);
        self.bytes.drain(..begin);
        self.entries
            .iter_mut()
            .for_each(|entry| entry.at -= begin as u32);
        self.first = 0;
    }
}
