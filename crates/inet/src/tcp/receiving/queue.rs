//! What was received and not yet taken by the program: bytes in order, and those beyond a gap.
//!
//! The in-order bytes are contiguous, so that the program can read a whole request in place. They lie
//! in a buffer of the stack's (`memory`), which goes back there once all of it was taken: a connection
//! at rest holds no memory. While more is likely to come soon it may be kept empty, for the next segment
//! (`consume_keeping`); anyone who keeps it sees to it that it goes back. The next one begins
//! with a buffer of the size that was of use before. What waits beyond a gap is `reassembly`'s.
//!
//! A program that does not want the next bytes has them skipped ([`ReceiveQueue::skip`]): they move everything on as
//! others do, and lie nowhere, those beyond a gap included.
//!
//! The caller trims to the receive window first; so the window bounds the memory: the bytes in order
//! to two and a half times the window (a buffer is at most twice what was asked for, and a quarter
//! more is asked for than is kept), the others to the window.

use exos_wire::SeqNumber;
use exos_wire::tcp::SackBlocks;

use crate::limits::{RECEIVE_BUFFER_BYTES_MIN, UNREAD_UNDER_PRESSURE_BYTES, WINDOW_BYTES_MAX};
use crate::tcp::receiving::reassembly::Reassembly;
use crate::tcp::receiving::reports::Range;
use crate::tcp::shared::memory::{Memory, Pressure};
use crate::tcp::values::codec::{HandoverError, Wire};

/// The receiving side's data of one connection.
#[derive(Default)]
pub struct ReceiveQueue {
    ready: Vec<u8>,
    /// Where the program reads on, counted from the first of `ready`: behind what it has taken. While `ready` is empty,
    /// as many bytes are still to come that it has skipped.
    taken: u32,
    /// Where to begin: the size of the first buffer, as a power of two.
    begin: u8,
    /// There only while something waits beyond a gap, or came again and was not reported.
    beyond: Option<Box<Reassembly>>,
}

/// What became of a segment's data.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Placed {
    /// In order: this many bytes are new and readable, those that waited behind them included.
    InOrder {
        /// By how much the next expected sequence number moves on.
        advanced: u32,
        /// A gap was filled, in whole or in part.
        filled_gap: bool,
        /// What of it was there already.
        repeated: Option<(SeqNumber, SeqNumber)>,
    },
    /// Kept beyond a gap.
    OutOfOrder {
        /// What of it was there already.
        repeated: Option<(SeqNumber, SeqNumber)>,
    },
    /// Nothing new.
    Duplicate {
        /// What was there already.
        repeated: (SeqNumber, SeqNumber),
    },
    /// Beyond a gap, and too many ranges are kept already.
    Refused,
    /// The stack's memory is used up.
    NoMemory,
}

impl ReceiveQueue {
    /// The bytes in order that the program has not taken.
    #[inline]
    pub fn readable(&self) -> &[u8] {
        self.ready.get(self.taken as usize..).unwrap_or(&[])
    }

    /// The program does not want this many more bytes that are to come. All that came must have been taken.
    pub fn skip(&mut self, count: u32) {
        assert!(self.ready.is_empty(), "skipped what was readable");
        self.taken = self.taken.saturating_add(count);
    }

    /// Bytes still to come that are skipped.
    #[inline]
    pub fn skipping(&self) -> u32 {
        match self.ready.is_empty() {
            true => self.taken,
            false => 0,
        }
    }

    /// This many bytes have come: gives how many of them are skipped.
    fn pass_over(&mut self, count: u32) -> u32 {
        let skipped = self.skipping().min(count);
        self.taken -= skipped;
        skipped
    }

    /// The first sequence number that is not skipped, as far as a window can reach.
    fn wanted_from(&self, next: SeqNumber) -> SeqNumber {
        next + self.skipping().min(WINDOW_BYTES_MAX)
    }

    /// The program has taken `count` bytes. Panics when there are fewer.
    #[inline]
    pub fn consume(&mut self, count: usize, memory: &mut Memory) {
        let left = self.readable().len();
        assert!(count <= left, "consumed more than was readable");
        self.taken += count as u32;
        if count == left && count > 0 {
            self.give_back(memory);
        }
    }

    /// The program has read this many bytes; an emptied buffer is kept for what comes next, unless it was much too large.
    #[inline]
    pub(in crate::tcp) fn consume_keeping(&mut self, count: usize, memory: &mut Memory) {
        let left = self.readable().len();
        assert!(count <= left, "consumed more than was readable");
        self.taken += count as u32;
        if count == left && count > 0 {
            let capacity = self.ready.capacity();
            let fits = self.ready.len() >= capacity / 4 || capacity <= RECEIVE_BUFFER_BYTES_MIN;
            if fits && memory.park(capacity) {
                self.ready.clear();
                self.taken = 0;
            } else {
                self.give_back(memory);
            }
        }
    }

    /// A buffer is kept for nothing but what may come.
    #[inline]
    pub(in crate::tcp) fn is_warm(&self) -> bool {
        self.ready.is_empty() && self.ready.capacity() > 0
    }

    /// Nothing came any more: such a buffer goes back.
    pub(in crate::tcp) fn cool(&mut self, memory: &mut Memory) {
        if self.is_warm() {
            self.begin = self.ready.capacity().ilog2() as u8;
            memory.give_parked(std::mem::take(&mut self.ready));
        }
    }

    /// All is taken: the buffer goes back, and its size is remembered if it was of use.
    fn give_back(&mut self, memory: &mut Memory) {
        let buffer = std::mem::take(&mut self.ready);
        let size = buffer.capacity().ilog2() as u8;
        self.begin = size - u8::from(buffer.len() < buffer.capacity() / 4);
        self.taken = 0;
        memory.give_buffer(buffer);
    }

    /// The connection ends: all memory goes back.
    pub(in crate::tcp) fn release(&mut self, memory: &mut Memory) {
        self.cool(memory);
        memory.give_buffer(std::mem::take(&mut self.ready));
        self.taken = 0;
        if let Some(mut beyond) = self.beyond.take() {
            let before = beyond.overhead();
            beyond.release(memory);
            memory.adjust(before, 0);
        }
    }

    /// Of these, for what waits beyond a gap.
    pub(in crate::tcp) fn held_beyond(&self) -> usize {
        self.beyond.as_ref().map_or(0, |b| b.footprint())
    }

    /// True while bytes wait beyond a gap.
    #[inline]
    pub fn has_gap(&self) -> bool {
        self.beyond.as_ref().is_some_and(|b| !b.ranges().is_empty())
    }

    /// How many bytes wait beyond gaps, and in how many ranges.
    pub fn beyond_gaps(&self) -> (usize, usize) {
        self.beyond.as_ref().map_or((0, 0), |b| {
            let bytes = b.ranges().iter().map(|r| (r.1 - r.0) as usize).sum();
            (bytes, b.ranges().len())
        })
    }

    /// Place `bytes`, which begin at `seq`, where `next` is the sequence number expected next.
    #[inline]
    pub fn place(
        &mut self,
        next: SeqNumber,
        seq: SeqNumber,
        bytes: &[u8],
        memory: &mut Memory,
    ) -> Placed {
        if seq == next && self.beyond.is_none() && memory.pressure() != Pressure::Full {
            self.append(bytes, memory);
            return Placed::InOrder {
                advanced: bytes.len() as u32,
                filled_gap: false,
                repeated: None,
            };
        }
        self.place_any(next, seq, bytes, memory)
    }

    fn place_any(
        &mut self,
        next: SeqNumber,
        seq: SeqNumber,
        bytes: &[u8],
        memory: &mut Memory,
    ) -> Placed {
        let end = seq + bytes.len() as u32;
        if end.le(next) {
            return Placed::Duplicate {
                repeated: (seq, end),
            };
        }
        let full = memory.pressure() == Pressure::Full;
        if seq.gt(next) {
            return if full {
                Placed::NoMemory
            } else {
                self.keep(next, seq, bytes, memory)
            };
        }
        if full && self.readable().len() >= UNREAD_UNDER_PRESSURE_BYTES {
            // Anyone who waits for its data gets it; the others' programs do not read.
            return Placed::NoMemory;
        }
        self.place_in_order(next, seq, bytes, memory)
    }

    /// Bytes of which some are expected next, and what they make readable beyond.
    fn place_in_order(
        &mut self,
        next: SeqNumber,
        seq: SeqNumber,
        bytes: &[u8],
        memory: &mut Memory,
    ) -> Placed {
        let end = seq + bytes.len() as u32;
        let mut repeated = seq.lt(next).then_some((seq, next));
        let Some(mut beyond) = self.beyond.take() else {
            self.append(&bytes[(next - seq) as usize..], memory);
            return Placed::InOrder {
                advanced: (end - next) as u32,
                filled_gap: false,
                repeated,
            };
        };
        let before = beyond.overhead();
        let filled_gap = !beyond.ranges().is_empty();
        let mut reached = next;
        loop {
            let first = beyond.ranges().front().copied();
            match first {
                Some((left, right)) if left.le(reached) => {
                    if left.lt(end) {
                        repeated = repeated.or(Some((left, right.min(end))));
                    }
                    reached += self.pass_over((right - reached).max(0) as u32);
                    reached = beyond.take_first(reached, |part| self.append(part, memory));
                }
                _ if reached.ge(end) => break,
                _ => {
                    let until = first.map_or(end, |r| r.0.min(end));
                    self.append(
                        &bytes[(reached - seq) as usize..(until - seq) as usize],
                        memory,
                    );
                    reached = until;
                }
            }
        }
        beyond.passed(reached, memory);
        self.put_back(beyond, before, memory);
        Placed::InOrder {
            advanced: (reached - next) as u32,
            filled_gap,
            repeated,
        }
    }

    /// Keep bytes that lie beyond a gap.
    fn keep(
        &mut self,
        next: SeqNumber,
        seq: SeqNumber,
        bytes: &[u8],
        memory: &mut Memory,
    ) -> Placed {
        let wanted = self.wanted_from(next);
        let (mut beyond, before) = self.take_beyond();
        let kept = beyond.keep(next, wanted, (seq, bytes), memory);
        self.put_back(beyond, before, memory);
        match kept {
            None => Placed::Refused,
            Some(kept) => match kept.repeated {
                Some(repeated) if !kept.new => Placed::Duplicate { repeated },
                repeated => Placed::OutOfOrder { repeated },
            },
        }
    }

    /// What waits beyond a gap, and what is accounted for it beside its blocks.
    fn take_beyond(&mut self) -> (Box<Reassembly>, usize) {
        match self.beyond.take() {
            Some(beyond) => {
                let before = beyond.overhead();
                (beyond, before)
            }
            None => (Box::default(), 0),
        }
    }

    /// Put it back, unless it says nothing any more.
    fn put_back(&mut self, beyond: Box<Reassembly>, before: usize, memory: &mut Memory) {
        if beyond.ranges().is_empty() && !beyond.reports.are_due() {
            memory.adjust(before, 0);
        } else {
            memory.adjust(before, beyond.overhead());
            self.beyond = Some(beyond);
        }
    }

    /// Add to the readable bytes what is not skipped.
    pub(in crate::tcp) fn append(&mut self, bytes: &[u8], memory: &mut Memory) {
        let skipped = self.pass_over(bytes.len() as u32) as usize;
        self.append_wanted(&bytes[skipped..], memory);
    }

    /// Add to the readable bytes while none are skipped.
    #[inline]
    pub(in crate::tcp) fn append_wanted(&mut self, bytes: &[u8], memory: &mut Memory) {
        if bytes.is_empty() {
            return;
        }
        if self.is_warm() {
            memory.unpark(self.ready.capacity());
        }
        if self.ready.capacity() - self.ready.len() < bytes.len() {
            self.make_room(bytes.len(), memory);
        }
        self.ready.extend_from_slice(bytes);
    }

    /// Room for `count` more bytes: that of bytes already taken, or a larger buffer.
    #[cold]
    fn make_room(&mut self, count: usize, memory: &mut Memory) {
        let unread = self.readable().len();
        let taken = self.taken as usize;
        if taken >= unread / 4 && unread + count <= self.ready.capacity() {
            self.ready.copy_within(taken.., 0);
            self.ready.truncate(unread);
            self.taken = 0;
            return;
        }
        // A quarter beside what is kept: so much at least will be added before this is done again.
        let mut wanted = unread + unread / 4 + count;
        if unread == 0 && memory.pressure() == Pressure::None {
            wanted = wanted.max(1 << self.begin);
        }
        let mut buffer = memory.take_buffer(wanted);
        buffer.extend_from_slice(self.readable());
        memory.give_buffer(std::mem::replace(&mut self.ready, buffer));
        self.taken = 0;
    }

    /// What is there, to or from another stack, between the number expected next and the furthest that any window
    /// can reach. Gives where the bytes in order stand.
    pub(in crate::tcp) fn travel(
        &mut self,
        wire: &mut Wire<'_>,
        (next, furthest): Range,
        memory: &mut Memory,
    ) -> Result<core::ops::Range<usize>, HandoverError> {
        let readable = wire.block(self.readable())?;
        if wire.reads() && !readable.is_empty() {
            self.append(wire.read_at(readable.clone()), memory);
        }
        let ranges: Vec<_> = self
            .beyond()
            .iter()
            .flat_map(|b| b.ranges())
            .copied()
            .collect();
        let mut count = ranges.len() as u32;
        wire.u32(&mut count)?;
        let mut last = next;
        for n in 0..count as usize {
            let (mut left, right) = ranges.get(n).copied().unwrap_or((next, next));
            wire.seq(&mut left)?;
            let mut bytes = Vec::new();
            if let Some(beyond) = self.beyond().filter(|_| !wire.reads()) {
                // What is skipped lies nowhere: zeros stand for it.
                let from = self.wanted_from(next).max(left).min(right);
                bytes.resize((from - left) as usize, 0);
                beyond.bytes_of((from, right), |part| bytes.extend_from_slice(part));
            }
            let at = wire.block(&bytes)?;
            if wire.reads() {
                last =
                    self.resume_range((next, furthest), (last, left), wire.read_at(at), memory)?;
            }
        }
        self.travel_skipping(wire)?;
        Ok(readable)
    }

    /// How much is skipped, to or from another stack: nothing where something is readable.
    fn travel_skipping(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        let mut skipping = self.skipping();
        wire.u32(&mut skipping)?;
        if wire.reads() && skipping > 0 {
            if !self.ready.is_empty() {
                return Err(HandoverError::Impossible("skipping"));
            }
            self.skip(skipping);
        }
        Ok(())
    }

    /// Keep a range that another stack kept; `last` is where the one before it ended. Gives where it ends.
    fn resume_range(
        &mut self,
        (next, furthest): Range,
        (last, left): Range,
        bytes: &[u8],
        memory: &mut Memory,
    ) -> Result<SeqNumber, HandoverError> {
        let room = furthest - left;
        let fits = left.gt(last) && room >= 0 && bytes.len() <= room as usize;
        if !fits || bytes.is_empty() {
            return Err(HandoverError::Impossible("range"));
        }
        match self.keep(next, left, bytes, memory) {
            Placed::OutOfOrder { .. } => Ok(left + bytes.len() as u32),
            _ => Err(HandoverError::Impossible("range")),
        }
    }

    // Of what waits beyond a gap.

    /// What waits beyond a gap, or is to be reported.
    #[inline]
    pub(in crate::tcp) fn beyond(&self) -> Option<&Reassembly> {
        self.beyond.as_deref()
    }

    /// True once for each time that something begins to wait beyond a gap.
    #[inline]
    pub(in crate::tcp) fn begins_to_hold(&mut self) -> bool {
        match &mut self.beyond {
            None => false,
            Some(beyond) => !std::mem::replace(&mut beyond.listed, true),
        }
    }

    /// Give up bytes beyond gaps, the furthest first, until these hold no more than `bytes` of memory.
    /// Returns how many bytes of data went.
    pub(in crate::tcp) fn prune(&mut self, bytes: usize, memory: &mut Memory) -> usize {
        let Some(mut beyond) = self.beyond.take() else {
            return 0;
        };
        let before = beyond.overhead();
        let pruned = beyond.prune(bytes, memory);
        self.put_back(beyond, before, memory);
        pruned
    }

    /// Something came again.
    pub(in crate::tcp) fn report_repeated(&mut self, range: Range, memory: &mut Memory) {
        let (mut beyond, before) = self.take_beyond();
        beyond.reports.repeated(range);
        self.put_back(beyond, before, memory);
    }

    /// Something is to be reported that was not reported yet.
    #[inline]
    pub(in crate::tcp) fn has_report(&self) -> bool {
        self.beyond.as_ref().is_some_and(|b| b.reports.are_due())
    }

    /// Give back the memory of what has been said and needs to be known no more.
    #[inline]
    pub(in crate::tcp) fn tidy(&mut self, memory: &mut Memory) {
        if self.beyond.is_some() {
            let (beyond, before) = self.take_beyond();
            self.put_back(beyond, before, memory);
        }
    }

    /// The blocks of the next segment.
    pub(in crate::tcp) fn take_blocks(&mut self, next: SeqNumber, most: usize) -> SackBlocks {
        self.beyond
            .as_mut()
            .map_or(SackBlocks::NONE, |beyond| beyond.take_blocks(next, most))
    }
}

#[cfg(test)]
impl ReceiveQueue {
    /// Bytes of memory that this queue holds; a buffer that is kept empty belongs to the pool.
    pub fn held(&self) -> usize {
        let ready = if self.ready.is_empty() {
            0
        } else {
            self.ready.capacity()
        };
        ready + self.held_beyond()
    }
}

#[cfg(test)]
mod tests;
