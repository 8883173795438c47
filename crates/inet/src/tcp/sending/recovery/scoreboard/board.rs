//! The records of what is in flight, and the ranges that the peer has (see the folder).

use std::collections::VecDeque;

use exos_wire::SeqNumber;

use crate::limits::{RECYCLED_PLACES_MAX, SACKED_PIECE_BYTES, SACKED_RANGES_MAX, SLIM_PLACES};
use crate::tcp::sending::recovery::scoreboard::record::{
    Again, Delivered, Departure, LOST, RETRANSMITTED, SACKED, Sent,
};
use crate::time::Instant;

/// The records of one connection.
#[derive(Debug)]
pub struct Scoreboard {
    pub(super) records: VecDeque<Sent>,
    pub(super) una: SeqNumber,
    /// The end of the last record; `una` where there is none.
    pub(super) end: SeqNumber,
    pub(super) sacked: VecDeque<(SeqNumber, SeqNumber)>,
    pub(super) sacked_bytes: u32,
    pub(super) lost_bytes: u32,
    /// No lost record ends before this.
    pub(super) lost_from: SeqNumber,
    /// What was sent once and ends before this is judged: lost, acknowledged selectively, or sent again.
    /// Never before `una`.
    pub(super) once_from: SeqNumber,
    /// What was sent again, in the order in which it left. Entries of what was acknowledged or marked lost
    /// since then are thrown away when they come to the front.
    pub(super) again: VecDeque<Again>,
    /// The end of the highest record delivered.
    pub(super) highest: SeqNumber,
}

impl Scoreboard {
    /// Nothing sent; the first sequence number will be `una`.
    pub const fn new(una: SeqNumber) -> Self {
        Self {
            records: VecDeque::new(),
            una,
            end: una,
            sacked: VecDeque::new(),
            sacked_bytes: 0,
            lost_bytes: 0,
            lost_from: una,
            once_from: una,
            again: VecDeque::new(),
            highest: una,
        }
    }

    /// Nothing sent, as with [`Self::new`]; the memory is kept. False when it is more than is worth keeping.
    pub fn renew(&mut self, una: SeqNumber) -> bool {
        let (mut records, mut sacked) = (
            std::mem::take(&mut self.records),
            std::mem::take(&mut self.sacked),
        );
        records.clear();
        sacked.clear();
        let small =
            records.capacity() <= RECYCLED_PLACES_MAX && sacked.capacity() <= RECYCLED_PLACES_MAX;
        *self = Self {
            records,
            sacked,
            ..Self::new(una)
        };
        small
    }

    /// Little will be in flight for long: gives back what more took.
    pub fn slim(&mut self) {
        self.records.shrink_to(SLIM_PLACES);
        self.sacked.shrink_to(SLIM_PLACES);
        self.again.shrink_to(SLIM_PLACES);
    }

    /// What the next acknowledgement delivers is entered here.
    #[inline]
    pub const fn delivery(&self) -> Delivered {
        Delivered {
            highest: self.highest,
            bytes: 0,
            newest_once: None,
            oldest_once_at: None,
            newest_again: None,
            reordered: false,
        }
    }

    // Getters.

    /// Bytes sent and neither delivered nor believed lost (RFC 6675's pipe).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.outstanding() - self.sacked_bytes - self.lost_bytes
    }

    /// Sequence numbers sent and not cumulatively acknowledged.
    #[inline]
    pub const fn outstanding(&self) -> u32 {
        self.end.0.wrapping_sub(self.una.0)
    }

    /// Bytes selectively acknowledged.
    pub const fn sacked_bytes(&self) -> u32 {
        self.sacked_bytes
    }

    /// Bytes believed lost and not yet sent again.
    #[inline]
    pub const fn lost_bytes(&self) -> u32 {
        self.lost_bytes
    }

    /// The first lost record: its first sequence number, and the one behind it.
    pub fn next_lost(&self) -> Option<(SeqNumber, SeqNumber)> {
        if self.lost_bytes == 0 {
            return None;
        }
        let mut index = self.index_of(self.lost_from.max(self.una));
        loop {
            let record = self.records.get(index)?;
            let start = self.start_of(index);
            if record.is(LOST) {
                return Some((start, record.end));
            }
            index = match record.is(SACKED) {
                true => self.index_of(self.sacked_until(start)),
                false => index + 1,
            };
        }
    }

    /// True when the peer has taken back what it had acknowledged selectively: the first segment that it
    /// misses is one it said to have (RFC 2018 §8).
    pub fn was_reneged(&self) -> bool {
        self.records.front().is_some_and(|r| r.is(SACKED))
    }

    // What leaves.

    /// New sequence numbers up to `end` have left.
    #[inline]
    pub fn sent(&mut self, end: SeqNumber, departure: Departure) {
        self.records.push_back(Sent::new(end, departure));
        self.end = end;
    }

    /// `start` to `end`, all of it within one record, has left again.
    pub fn sent_again(&mut self, start: SeqNumber, end: SeqNumber, departure: Departure) {
        let index = self.cut(start);
        self.cut(end);
        let Some(&record) = self.records.get(index) else {
            return;
        };
        if record.is(LOST) {
            self.lost_bytes -= (record.end - start) as u32;
            self.lost_from = record.end;
        }
        let mut again = Sent::new(record.end, departure);
        again.flags |= RETRANSMITTED | (record.flags & SACKED);
        self.records[index] = again;
        self.queue_again(start, record.end, departure.at);
    }

    // What is acknowledged.

    /// Everything before `ack` has arrived.
    #[inline]
    pub fn acknowledge(&mut self, ack: SeqNumber, delivered: &mut Delivered) {
        while let Some(first) = self.records.front() {
            let end = first.end.min(ack);
            let len = (end - self.una) as u32;
            if len == 0 {
                break;
            }
            let record = *first;
            self.una = end;
            if record.is(SACKED) {
                self.sacked_bytes -= len;
            } else {
                if record.is(LOST) {
                    self.lost_bytes -= len;
                }
                delivered.add(&record, len);
            }
            if record.end.gt(ack) {
                break;
            }
            self.records.pop_front();
        }
        self.una = ack;
        self.end = self.end.max(ack);
        self.highest = self.highest.max(ack);
        self.once_from = self.once_from.max(ack);
        if self.records.is_empty() {
            // Nobody looks for losses now: 2 GiB later these would seem to lie ahead.
            self.again.clear();
        }
        while let Some(first) = self.sacked.front_mut() {
            if first.1.gt(ack) {
                first.0 = first.0.max(ack);
                break;
            }
            self.sacked.pop_front();
        }
    }

    /// Everything before `ack` has arrived where nothing is in doubt: whole records, all of them sent once, of which none was lost or arrived
    /// early; and nothing that stays left before `newest` (what has arrived and left last). Gives the last of the
    /// records, and when the first had left. `None`, and nothing is changed, where it is not so plain.
    #[inline]
    pub fn acknowledge_in_order(
        &mut self,
        ack: SeqNumber,
        newest: Option<&Sent>,
    ) -> Option<(Sent, Instant)> {
        let holes = self.sacked_bytes | self.lost_bytes != 0 || !self.again.is_empty();
        let first = self.records.front()?;
        if holes || !self.sacked.is_empty() || first.end.lt(self.highest) {
            return None;
        }
        let (mut last, mut count) = (first, 1);
        while last.is_plain() && last.end.lt(ack) {
            last = self.records.get(count)?;
            count += 1;
        }
        if !last.is_plain() || last.end != ack {
            return None;
        }
        if let Some(next) = self.records.get(count)
            && (!next.is_plain() || newest.is_some_and(|n| n.left_after(next)))
        {
            return None;
        }
        let (oldest_at, last) = (first.at, *last);
        for _ in 0..count {
            self.records.pop_front();
        }
        self.una = ack;
        self.highest = self.highest.max(ack);
        self.once_from = self.once_from.max(ack);
        Some((last, oldest_at))
    }

    /// `left` to `right` has arrived, the peer says. What was not sent, or is known, is left out.
    pub fn sack(&mut self, left: SeqNumber, right: SeqNumber, delivered: &mut Delivered) {
        if left.ge(right) || right.gt(self.end) || right.le(self.una) {
            return;
        }
        let left = left.max(self.una);
        // Of the blocks of an acknowledgement all but the first are known, as a rule.
        let first = self.sacked.partition_point(|&(_, end)| end.lt(left));
        let known = |r: &(SeqNumber, SeqNumber)| r.0.le(left) && r.1.ge(right);
        if self.sacked.get(first).is_some_and(known) {
            return;
        }
        let (left, right) = self.whole_records(left, right);
        if left.ge(right) {
            return;
        }
        // The ranges that this one touches become one with it.
        let first = self.sacked.partition_point(|&(_, end)| end.lt(left));
        let behind = self.sacked.partition_point(|&(start, _)| start.le(right));
        if first == behind && self.sacked.len() >= SACKED_RANGES_MAX {
            return;
        }
        let mut whole = (left, right);
        let mut cursor = left;
        for index in first..behind {
            let (start, end) = self.sacked[index];
            if cursor.lt(start) {
                self.mark_sacked(cursor, start, delivered);
            }
            cursor = cursor.max(end);
            whole = (whole.0.min(start), whole.1.max(end));
        }
        if cursor.lt(right) {
            self.mark_sacked(cursor, right, delivered);
        }
        if first == behind {
            self.sacked.insert(first, whole);
        } else {
            self.sacked[first] = whole;
            self.sacked.drain(first + 1..behind);
        }
        self.highest = self.highest.max(right);
    }

    /// A range as it is; without what lies in parts of records, when there are more records than an honest peer
    /// makes: it could have us keep one for each byte, and look through all of them.
    fn whole_records(&self, left: SeqNumber, right: SeqNumber) -> (SeqNumber, SeqNumber) {
        let most = SACKED_RANGES_MAX + (self.outstanding() / SACKED_PIECE_BYTES) as usize;
        if self.records.len() <= most {
            return (left, right);
        }
        let first = self.index_of(left);
        let begins = match self.start_of(first) == left {
            true => left,
            false => self.records[first].end,
        };
        (begins, self.start_of(self.index_of(right)))
    }

    fn mark_sacked(&mut self, left: SeqNumber, right: SeqNumber, delivered: &mut Delivered) {
        let mut index = self.cut(left);
        let mut start = left;
        while start.lt(right) {
            if self.records[index].end.gt(right) {
                self.cut_at(index, right);
            }
            let record = &mut self.records[index];
            let len = (record.end - start) as u32;
            if record.is(LOST) {
                self.lost_bytes -= len;
            }
            record.flags = record.flags & !LOST | SACKED;
            self.sacked_bytes += len;
            delivered.add(record, len);
            start = record.end;
            index += 1;
        }
    }

    // Places.

    /// The first record that ends after `seq`.
    pub(super) fn index_of(&self, seq: SeqNumber) -> usize {
        self.records.partition_point(|r| r.end.le(seq))
    }

    fn start_of(&self, index: usize) -> SeqNumber {
        if index == 0 {
            self.una
        } else {
            self.records[index - 1].end
        }
    }

    /// The end of the range that `seq`, which was selectively acknowledged, lies in.
    pub(super) fn sacked_until(&self, seq: SeqNumber) -> SeqNumber {
        let range = self.sacked.partition_point(|&(_, end)| end.le(seq));
        self.sacked[range].1
    }

    /// Let a record begin at `at`; its index.
    pub(super) fn cut(&mut self, at: SeqNumber) -> usize {
        let index = self.index_of(at);
        if index == self.records.len() || self.start_of(index) == at {
            return index;
        }
        self.cut_at(index, at);
        index + 1
    }

    /// Let the record of this index end at `at`, which lies within it.
    fn cut_at(&mut self, index: usize, at: SeqNumber) {
        let front = Sent {
            end: at,
            ..self.records[index]
        };
        self.records.insert(index, front);
    }
}

#[cfg(test)]
mod tests;
