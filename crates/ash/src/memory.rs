//! Where a handler's regions lie in its memory, and what its program sees of it.
//!
//! The regions follow one another, each from a cache line on. A word is in this machine's order, so that program and handler mean the same
//! number; a row's bytes lie as they came.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::{Handler, RegionKind};
use crate::table::Table;

/// Bytes of a cache line.
const LINE: u32 = 64;

/// Where each region lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    starts: Vec<u32>,
    bytes: u32,
}

impl Layout {
    /// That of a handler's regions, which [`check`](crate::check) has accepted.
    pub fn of(handler: &Handler) -> Self {
        let mut bytes = 0;
        let start = |region: &crate::code::Region| {
            let start = bytes;
            bytes += (region.count * region.stride()).next_multiple_of(LINE);
            start
        };
        let starts = handler.regions.iter().map(start).collect();
        Self {
            starts,
            bytes: bytes.max(LINE),
        }
    }

    /// Bytes of all regions; never none.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The first byte of a region.
    pub fn start(&self, region: usize) -> u32 {
        self.starts[region]
    }
}

/// A handler's memory, as its program sees it.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    words: &'a [AtomicU64],
    layout: &'a Layout,
    handler: &'a Handler,
}

impl<'a> Memory<'a> {
    /// Over words of which there are enough.
    ///
    /// # Panics
    ///
    /// If there are not.
    pub fn new(words: &'a [AtomicU64], layout: &'a Layout, handler: &'a Handler) -> Self {
        assert!(words.len() * 8 >= layout.bytes() as usize);
        Self {
            words,
            layout,
            handler,
        }
    }

    /// The words of a region of words, by its name.
    pub fn words(&self, region: &str) -> Option<&'a [AtomicU64]> {
        let (number, found) = self.region(region)?;
        let first = self.layout.start(number) as usize / 8;
        matches!(found.kind, RegionKind::Words)
            .then(|| &self.words[first..first + found.count as usize])
    }

    /// The words that a row's bytes are in, by its region's name. The bytes of each in memory order are the row's.
    pub fn row(&self, region: &str, row: u32) -> Option<&'a [AtomicU64]> {
        let (number, found) = self.region(region)?;
        let RegionKind::Rows(bytes) = found.kind else {
            return None;
        };
        if row >= found.count {
            return None;
        }
        let first = (self.layout.start(number) + row * bytes) as usize / 8;
        Some(&self.words[first..first + bytes as usize / 8])
    }

    /// A table, by its region's name.
    pub fn table(&self, region: &str) -> Option<Table<'a>> {
        let (number, _) = self.region(region)?;
        self.table_at(number)
    }

    /// The table that is the region with this number, if that is one.
    pub(crate) fn table_at(&self, number: usize) -> Option<Table<'a>> {
        let region = &self.handler.regions[number];
        let RegionKind::Table(key_max) = region.kind else {
            return None;
        };
        let first = self.layout.start(number) as usize / 8;
        let len = (region.count * region.stride()) as usize / 8;
        let words = &self.words[first..first + len];
        Some(Table::new(words, region.count, key_max))
    }

    fn region(&self, name: &str) -> Option<(usize, &'a crate::code::Region)> {
        let mut all = self.handler.regions.iter().enumerate();
        all.find(|(_, region)| region.name == name)
    }

    /// The word at a byte of the memory.
    pub(crate) fn word(&self, at: u32) -> &'a AtomicU64 {
        &self.words[at as usize / 8]
    }

    /// All words.
    #[cfg(feature = "native")]
    pub(crate) fn all(&self) -> &'a [AtomicU64] {
        self.words
    }

    pub(crate) fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Copies bytes to a row's beginning.
    pub(crate) fn fill(&self, at: u32, bytes: &[u8]) {
        for (number, chunk) in bytes.chunks(8).enumerate() {
            let word = self.word(at + 8 * number as u32);
            let mut new = word.load(Ordering::Relaxed).to_ne_bytes();
            new[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(new), Ordering::Relaxed);
        }
    }

    /// Copies a row's beginning out.
    pub(crate) fn read(&self, at: u32, to: &mut [u8]) {
        for (number, chunk) in to.chunks_mut(8).enumerate() {
            let word = self.word(at + 8 * number as u32).load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
        }
    }
}
