//! Bytes that arrived beyond a gap, and what is to be said of them.
//!
//! The bytes lie in blocks, each for a fixed stretch of sequence numbers, so that none is held twice,
//! placing one needs no search, and a small segment costs at most a block: all blocks together are never
//! more than the window and a block at each end. Which of the bytes are there say the ranges: sorted,
//! never touching one another, found by bisection. Filling a gap copies what waited behind it once,
//! into the bytes in order.
//!
//! Bytes that the program has skipped have their place among the ranges, and in no block.
//!
//! Where a segment repeats bytes with another content, the first content stays.
//!
//! Invariants: every range lies beyond the sequence number expected next; every byte of a range is in
//! a block, unless it is skipped, and has a place for one; `first` is the block of a number at or before the one expected next.

use std::collections::VecDeque;

use exos_wire::SeqNumber;
use exos_wire::tcp::SackBlocks;

use crate::limits::{OUT_OF_ORDER_BLOCK_BYTES as BLOCK, OUT_OF_ORDER_RANGES_MAX};
use crate::tcp::receiving::reports::{Range, Reports};
use crate::tcp::shared::memory::{Block, Memory};

/// A block's number is its first sequence number in blocks; they come round as those do.
const BLOCK_NUMBERS: u32 = (u32::MAX / BLOCK as u32) + 1;

/// What became of a segment beyond a gap.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::tcp) struct Kept {
    /// Some of it is new.
    pub new: bool,
    /// The first stretch of it that was there already.
    pub repeated: Option<Range>,
}

/// What a connection holds beyond a gap.
#[derive(Default)]
pub(in crate::tcp) struct Reassembly {
    ranges: VecDeque<Range>,
    blocks: VecDeque<Option<Box<Block>>>,
    /// The number of the first of `blocks`.
    first: u32,
    /// How many of `blocks` are there.
    present: usize,
    /// What the peer has to be told of it.
    pub reports: Reports,
    /// The stack knows that there is something to give up here.
    pub listed: bool,
}

impl Reassembly {
    /// The ranges that are there, in order.
    pub fn ranges(&self) -> &VecDeque<Range> {
        &self.ranges
    }

    /// Bytes of memory.
    pub fn footprint(&self) -> usize {
        self.overhead() + self.present * BLOCK
    }

    /// Bytes of memory beside the blocks.
    pub fn overhead(&self) -> usize {
        size_of::<Self>()
            + self.ranges.capacity() * size_of::<Range>()
            + self.blocks.capacity() * size_of::<Option<Box<Block>>>()
    }

    /// The most SACK blocks, up to `most`, that [`Self::take_blocks`] gives.
    pub fn count_blocks(&self, most: usize) -> usize {
        self.reports.count(self.ranges.len(), most)
    }

    /// The SACK blocks of the next segment.
    pub fn take_blocks(&mut self, next: SeqNumber, most: usize) -> SackBlocks {
        self.reports.take(&self.ranges, next, most)
    }

    /// Keep `bytes`, which begin at `seq`, beyond `next`; those before `wanted` are skipped. `None` when there are too
    /// many ranges.
    pub fn keep(
        &mut self,
        next: SeqNumber,
        wanted: SeqNumber,
        (seq, bytes): (SeqNumber, &[u8]),
        memory: &mut Memory,
    ) -> Option<Kept> {
        // Distances from `next` order what sequence numbers alone cannot.
        let far = |at: SeqNumber| (at - next) as u32;
        let end = seq + bytes.len() as u32;
        // The ranges that touch it, or have a part of it.
        let from = self.ranges.partition_point(|r| far(r.1) < far(seq));
        let mut to = from;
        while self.ranges.get(to).is_some_and(|r| far(r.0) <= far(end)) {
            to += 1;
        }
        if from == to && self.ranges.len() >= OUT_OF_ORDER_RANGES_MAX {
            return None;
        }
        let mut kept = Kept {
            new: false,
            repeated: None,
        };
        let mut whole = (seq, end);
        let mut at = seq;
        for n in from..to {
            let (left, right) = self.ranges[n];
            if at.lt(left) {
                kept.new = true;
                let new = &bytes[(at - seq) as usize..(left - seq) as usize];
                self.place(next, wanted, (at, new), memory);
            }
            let repeated = (left.max(seq), right.min(end));
            if kept.repeated.is_none() && repeated.0.lt(repeated.1) {
                kept.repeated = Some(repeated);
            }
            at = at.max(right);
            whole = (whole.0.min(left), whole.1.max(right));
        }
        if at.lt(end) {
            kept.new = true;
            let new = &bytes[(at - seq) as usize..];
            self.place(next, wanted, (at, new), memory);
        }
        if kept.new {
            self.merge(from, to, whole);
            self.reports.arrived(whole);
        }
        Some(kept)
    }

    /// One range in the place of `from..to`.
    fn merge(&mut self, from: usize, to: usize, whole: Range) {
        if from == to {
            self.ranges.insert(from, whole);
        } else {
            self.ranges[from] = whole;
            if to - from > 1 {
                self.ranges.drain(from + 1..to);
            }
        }
    }

    /// The first range, for which there is no gap any more when `reached` lies in or at it: give its
    /// bytes from there on to `sink`, and forget it.
    pub fn take_first(&mut self, reached: SeqNumber, mut sink: impl FnMut(&[u8])) -> SeqNumber {
        let Some((left, right)) = self.ranges.pop_front() else {
            return reached;
        };
        self.bytes_of((left.max(reached), right), &mut sink);
        reached.max(right)
    }

    /// Give the bytes of a range, or of a part of one, to `sink`. None may be skipped.
    pub fn bytes_of(&self, (left, right): Range, mut sink: impl FnMut(&[u8])) {
        let mut at = left;
        while at.lt(right) {
            let offset = at.0 as usize % BLOCK;
            let count = (BLOCK - offset).min((right - at) as usize);
            let block = self.blocks[self.index(at)]
                .as_ref()
                .expect("every byte of a range that is wanted is in a block");
            sink(&block[offset..offset + count]);
            at += count as u32;
        }
    }

    /// `next` is now expected: what lies before it is over.
    pub fn passed(&mut self, next: SeqNumber, memory: &mut Memory) {
        self.reports.passed(next);
        if self.ranges.is_empty() {
            self.release(memory);
            return;
        }
        let count = self.index(next);
        for block in self.blocks.drain(..count).flatten() {
            self.present -= 1;
            memory.give_block(block);
        }
        self.first = number_of(next);
    }

    /// Give up the furthest bytes until no more than `bytes` of memory are held. Those that were
    /// reported to the peer may be given up too (RFC 2018 §8). Returns how many bytes of data went.
    pub fn prune(&mut self, bytes: usize, memory: &mut Memory) -> usize {
        let mut pruned = 0;
        while self.footprint() > bytes && !self.ranges.is_empty() {
            if let Some(Some(block)) = self.blocks.pop_back() {
                self.present -= 1;
                memory.give_block(block);
            }
            let end = self.first.wrapping_add(self.blocks.len() as u32) % BLOCK_NUMBERS;
            pruned += self.cut(SeqNumber(end.wrapping_mul(BLOCK as u32)));
        }
        self.ranges.shrink_to_fit();
        self.blocks.shrink_to_fit();
        if self.ranges.is_empty() {
            self.release(memory);
        }
        pruned
    }

    /// Forget what lies from `end` on.
    fn cut(&mut self, end: SeqNumber) -> usize {
        let mut cut = 0;
        while let Some((left, right)) = self.ranges.back_mut() {
            if right.le(end) {
                break;
            }
            let from = end.max(*left);
            cut += (*right - from) as usize;
            if left.lt(end) {
                *right = end;
                break;
            }
            self.ranges.pop_back();
        }
        self.reports.cut(end);
        cut
    }

    /// Give all blocks back.
    pub fn release(&mut self, memory: &mut Memory) {
        for block in self.blocks.drain(..).flatten() {
            memory.give_block(block);
        }
        self.present = 0;
        self.ranges.clear();
    }

    /// Write bytes where they belong, those that are wanted; all have their places.
    fn place(
        &mut self,
        next: SeqNumber,
        wanted: SeqNumber,
        (seq, bytes): (SeqNumber, &[u8]),
        memory: &mut Memory,
    ) {
        if self.blocks.is_empty() {
            self.first = number_of(next);
        }
        let last = self.index(seq + (bytes.len() - 1) as u32);
        if last >= self.blocks.len() {
            self.blocks.resize_with(last + 1, || None);
        }
        let unwanted = (wanted - seq).clamp(0, bytes.len() as i32);
        self.write(seq + unwanted as u32, &bytes[unwanted as usize..], memory);
    }

    fn write(&mut self, seq: SeqNumber, bytes: &[u8], memory: &mut Memory) {
        let (mut at, mut rest) = (seq, bytes);
        while !rest.is_empty() {
            let offset = at.0 as usize % BLOCK;
            let (now, later) = rest.split_at(rest.len().min(BLOCK - offset));
            self.block(at, memory)[offset..offset + now.len()].copy_from_slice(now);
            at += now.len() as u32;
            rest = later;
        }
    }

    /// The block of a sequence number, made if need be.
    fn block(&mut self, at: SeqNumber, memory: &mut Memory) -> &mut Block {
        let index = self.index(at);
        let block = &mut self.blocks[index];
        self.present += usize::from(block.is_none());
        block.get_or_insert_with(|| memory.take_block())
    }

    fn index(&self, at: SeqNumber) -> usize {
        (number_of(at).wrapping_sub(self.first) % BLOCK_NUMBERS) as usize
    }
}

const fn number_of(at: SeqNumber) -> u32 {
    at.0 / BLOCK as u32
}
