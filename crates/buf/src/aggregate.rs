//! An ordered list of slices, read as one run of bytes.
//!
//! This is what a connection keeps of the stream that it sends: the program pushes slices at the
//! back, acknowledgements [`advance`](Aggregate::advance) the front, and a segment, sent for the
//! first time or again, is a range. Positions are relative to the front, so that position 0 is
//! the first byte not yet acknowledged.
//!
//! # Layout
//!
//! Every entry carries where its slice ends in the stream since the aggregate was made, so a
//! position is found by bisection however many slices are queued, and advancing changes only the
//! front. Invariants: entries end in strictly rising order; the last ends at `back`; no entry is
//! empty; the front entry ends after `front`.

use std::collections::VecDeque;
use std::ops::Range;

use exos_wire::checksum::Sum;

use crate::buffer::Buffer;
use crate::slice::Slice;

/// An ordered list of slices of immutable buffers. An empty one owns no memory until first used.
#[derive(Clone, Debug, Default)]
pub struct Aggregate {
    entries: VecDeque<Entry>,
    /// Stream position of the first byte still held.
    front: u64,
    /// Stream position after the last byte.
    back: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Stream position after the slice's last byte.
    end: u64,
    slice: Slice,
}

impl Entry {
    /// Stream position of the slice's first byte.
    #[inline]
    fn start(&self) -> u64 {
        self.end - self.slice.len() as u64
    }

    /// `len` bytes, which begin `before_end` bytes before the slice's end.
    #[inline]
    fn piece(&self, before_end: usize, len: usize) -> Piece<'_> {
        let start = self.slice.range().end - before_end;
        Piece {
            buffer: self.slice.buffer(),
            range: start..start + len,
        }
    }
}

impl Aggregate {
    /// An empty aggregate.
    pub fn new() -> Aggregate {
        Aggregate::default()
    }

    /// Bytes held.
    #[inline]
    pub fn len(&self) -> usize {
        (self.back - self.front) as usize
    }

    /// True when no bytes are held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.back == self.front
    }

    /// How many slices the bytes are in.
    pub fn slice_count(&self) -> usize {
        self.entries.len()
    }

    /// Adds a slice at the back. Empty slices leave no trace.
    #[inline]
    pub fn push(&mut self, slice: Slice) {
        if slice.is_empty() {
            return;
        }
        self.back += slice.len() as u64;
        self.entries.push_back(Entry {
            end: self.back,
            slice,
        });
    }

    /// Drops `count` bytes from the front and lets go of the buffers that they emptied.
    ///
    /// # Panics
    ///
    /// When fewer bytes are held.
    pub fn advance(&mut self, count: usize) {
        assert!(
            count <= self.len(),
            "advance {count} of {} bytes",
            self.len()
        );
        self.front += count as u64;
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.end <= self.front)
        {
            self.entries.pop_front();
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.advance(self.len());
    }

    /// How many slices fit without asking for memory.
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Gives back memory kept for queueing more, for a connection that goes idle.
    pub fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// The bytes of a range, piece by piece, without copying.
    ///
    /// # Panics
    ///
    /// When the range does not lie within what is held.
    #[inline]
    pub fn pieces(&self, range: Range<usize>) -> Pieces<'_> {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "{range:?} of {}",
            self.len()
        );
        let position = self.front + range.start as u64;
        let end = self.front + range.end as u64;
        Pieces {
            aggregate: self,
            index: self.index_of(position),
            position,
            end,
        }
    }

    /// The bytes of a range that is not empty, if they lie in one slice. That with the index `near` is looked at
    /// first; `near` becomes the index of the slice in which they begin. Ranges are asked for one behind the other, as a
    /// rule, so nearly all are found without a search; with any `near` the answer is the same.
    ///
    /// # Panics
    ///
    /// When the range does not lie within what is held.
    #[inline]
    pub fn piece(&self, range: Range<usize>, near: &mut usize) -> Option<Piece<'_>> {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "{range:?} of {}",
            self.len()
        );
        let position = self.front + range.start as u64;
        let holds = |e: &&Entry| e.start() <= position && position < e.end;
        let entry = match self.entries.get(*near).filter(holds) {
            Some(entry) => entry,
            None => self.find(position, near)?,
        };
        let before_end = (entry.end - position) as usize;
        (range.len() <= before_end).then(|| entry.piece(before_end, range.len()))
    }

    /// A range as an aggregate of its own, sharing the bytes.
    ///
    /// # Panics
    ///
    /// When the range does not lie within what is held.
    pub fn range(&self, range: Range<usize>) -> Aggregate {
        let mut part = Aggregate::new();
        self.pieces(range)
            .for_each(|piece| part.push(piece.to_slice()));
        part
    }

    /// The ones' complement sum of a range, as if it began at an even offset of a packet.
    ///
    /// # Panics
    ///
    /// When the range does not lie within what is held.
    pub fn sum(&self, range: Range<usize>) -> Sum {
        let (mut sum, mut len) = (Sum::ZERO, 0);
        for piece in self.pieces(range) {
            sum = sum.followed_by(len, piece.sum());
            len += piece.len();
        }
        sum
    }

    /// Copies a range into `out`, which has exactly its length.
    ///
    /// # Panics
    ///
    /// When the range does not lie within what is held or `out` has another length.
    pub fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        assert_eq!(
            range.len(),
            out.len(),
            "the output has the length of the range"
        );
        let mut at = 0;
        for piece in self.pieces(range) {
            piece.copy_to(&mut out[at..at + piece.len()]);
            at += piece.len();
        }
    }

    /// A range copied into one vector, for tests and for what must be contiguous.
    ///
    /// # Panics
    ///
    /// When the range does not lie within what is held.
    pub fn to_vec(&self, range: Range<usize>) -> Vec<u8> {
        let mut out = vec![0; range.len()];
        self.copy_to(range, &mut out);
        out
    }

    /// The index of the entry that holds a stream position, or the number of entries at the very end.
    fn index_of(&self, position: u64) -> usize {
        self.entries.partition_point(|entry| entry.end <= position)
    }

    /// The entry that holds a stream position, and its index; `None` at the very end.
    #[inline(never)]
    fn find(&self, position: u64, index: &mut usize) -> Option<&Entry> {
        *index = self.index_of(position);
        self.entries.get(*index)
    }
}

impl Extend<Slice> for Aggregate {
    fn extend<T: IntoIterator<Item = Slice>>(&mut self, slices: T) {
        slices.into_iter().for_each(|slice| self.push(slice));
    }
}

impl FromIterator<Slice> for Aggregate {
    fn from_iter<T: IntoIterator<Item = Slice>>(slices: T) -> Aggregate {
        let mut aggregate = Aggregate::new();
        aggregate.extend(slices);
        aggregate
    }
}

/// A part of a slice, borrowed from an aggregate: nothing is counted until it is kept.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    buffer: &'a Buffer,
    /// Where it lies in the buffer.
    range: Range<usize>,
}

impl<'a> Piece<'a> {
    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        &self.buffer.as_slice()[self.range.clone()]
    }

    /// The bytes, unless they are in memory that another process can write.
    #[inline]
    pub fn in_place(&self) -> Option<&'a [u8]> {
        Some(&self.buffer.in_place()?[self.range.clone()])
    }

    /// Copies the bytes into `out`, which has exactly their length, wherever they are.
    #[inline]
    fn copy_to(&self, out: &mut [u8]) {
        self.buffer.copy_to(self.range.start, out);
    }

    /// The ones' complement sum over the bytes, whatever is known of them.
    #[inline]
    pub fn sum_of_bytes(&self) -> Sum {
        self.buffer.sum_of_bytes(self.range.clone())
    }

    /// Length in bytes, never 0.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a piece is never empty")]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// The ones' complement sum, as if the piece began at an even offset of a packet.
    #[inline]
    pub fn sum(&self) -> Sum {
        self.buffer.sum(self.range.clone())
    }

    /// A slice that keeps the bytes alive.
    pub fn to_slice(&self) -> Slice {
        self.buffer.slice(self.range.clone())
    }
}

/// The pieces of a range of an aggregate, in order.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    aggregate: &'a Aggregate,
    index: usize,
    position: u64,
    end: u64,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        if self.position == self.end {
            return None;
        }
        let entry = &self.aggregate.entries[self.index];
        let until = entry.end.min(self.end);
        let (before_end, len) = (entry.end - self.position, until - self.position);
        self.index += 1;
        self.position = until;
        Some(entry.piece(before_end as usize, len as usize))
    }
}
