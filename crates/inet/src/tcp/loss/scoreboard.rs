//! What was sent and is not acknowledged: one record a segment, with when it last left and what
//! became of it (RFC 6675's scoreboard, with the times that RFC 8985 asks for).
//!
//! # Layout
//!
//! Records lie in the order of sequence numbers without gaps: each begins where the one before ends, the
//! first at `una`. Beside them, `sacked` holds the ranges that the peer has selectively acknowledged,
//! sorted, apart from one another; a range begins and ends where records do, and the records in it carry
//! [`SACKED`]. So one walks from hole to hole, however much has arrived in between.
//!
//! Invariants, checked by `check` in tests: `sacked_bytes` and `lost_bytes` are the lengths of the
//! records so marked; none is marked both; every lost record ends after `lost_from`.

use std::collections::VecDeque;

use exos_wire::SeqNumber;

use crate::limits::{SACKED_PIECE_BYTES, SACKED_RANGES_MAX};
use crate::time::{Duration, Instant};

/// The peer has it, beyond a gap.
const SACKED: u8 = 1;
/// Believed lost, and not yet sent again.
const LOST: u8 = 2;
/// Sent more than once.
const RETRANSMITTED: u8 = 4;
/// The program had no more to send when it left.
const APP_LIMITED: u8 = 8;

/// What is noted of the moment in which a segment leaves, for the delivery rate
/// (draft-cheng-iccrg-delivery-rate-estimation §3.2).
#[derive(Copy, Clone, Debug)]
pub struct Departure {
    /// When.
    pub at: Instant,
    /// Bytes delivered until then, modulo 2^32.
    pub delivered: u32,
    /// Microseconds since the last delivery.
    pub since_delivery_us: u32,
    /// Microseconds since the beginning of the flight that the last delivery ended.
    pub since_first_us: u32,
    /// The program had no more to send.
    pub app_limited: bool,
}

/// A segment in flight. 32 bytes.
#[derive(Copy, Clone, Debug)]
pub struct Sent {
    /// When it last left.
    pub at: Instant,
    /// The sequence number behind it.
    pub end: SeqNumber,
    /// See [`Departure`].
    pub delivered: u32,
    /// See [`Departure`].
    pub since_delivery_us: u32,
    /// See [`Departure`].
    pub since_first_us: u32,
    flags: u8,
}

impl Sent {
    fn new(end: SeqNumber, d: Departure) -> Self {
        Self {
            at: d.at,
            end,
            delivered: d.delivered,
            since_delivery_us: d.since_delivery_us,
            since_first_us: d.since_first_us,
            flags: if d.app_limited { APP_LIMITED } else { 0 },
        }
    }

    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// True when it was sent more than once.
    pub fn was_retransmitted(&self) -> bool {
        self.is(RETRANSMITTED)
    }

    /// True when the program had no more to send when it left.
    pub fn was_app_limited(&self) -> bool {
        self.is(APP_LIMITED)
    }

    /// True when this one left after `other` (RFC 8985 §6.2: ties go by sequence number).
    pub fn left_after(&self, other: &Self) -> bool {
        self.at > other.at || (self.at == other.at && self.end.gt(other.end))
    }
}

/// What one acknowledgement delivered.
#[derive(Copy, Clone, Debug)]
pub struct Delivered {
    /// The end of the highest segment that had been delivered before it.
    highest: SeqNumber,
    /// Bytes.
    pub bytes: u32,
    /// Of what was sent once: the one that left last, and when the first had left.
    pub newest_once: Option<Sent>,
    /// When the first of those sent once had left.
    pub oldest_once_at: Option<Instant>,
    /// Of what was sent again: the one that left last.
    pub newest_again: Option<Sent>,
    /// Something sent once arrived after what was sent later.
    pub reordered: bool,
}

impl Delivered {
    fn add(&mut self, record: &Sent, len: u32) {
        self.bytes += len;
        let newest = if record.was_retransmitted() {
            &mut self.newest_again
        } else {
            self.reordered |= record.end.lt(self.highest);
            self.oldest_once_at = Some(match self.oldest_once_at {
                Some(at) => at.min(record.at),
                None => record.at,
            });
            &mut self.newest_once
        };
        if newest.is_none_or(|n| record.left_after(&n)) {
            *newest = Some(*record);
        }
    }
}

/// The records of one connection.
#[derive(Debug)]
pub struct Scoreboard {
    records: VecDeque<Sent>,
    una: SeqNumber,
    sacked: Vec<(SeqNumber, SeqNumber)>,
    sacked_bytes: u32,
    lost_bytes: u32,
    /// No lost record ends before this.
    lost_from: SeqNumber,
    /// The end of the highest record delivered.
    highest: SeqNumber,
}

impl Scoreboard {
    /// Nothing sent; the first sequence number will be `una`.
    pub const fn new(una: SeqNumber) -> Self {
        Self {
            records: VecDeque::new(),
            una,
            sacked: Vec::new(),
            sacked_bytes: 0,
            lost_bytes: 0,
            lost_from: una,
            highest: una,
        }
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
    pub fn outstanding(&self) -> u32 {
        self.records.back().map_or(0, |r| (r.end - self.una) as u32)
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
        let first = self.index_of(self.lost_from.max(self.una));
        let index = (first..self.records.len()).find(|&i| self.records[i].is(LOST))?;
        Some((self.start_of(index), self.records[index].end))
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
        self.highest = self.highest.max(ack);
        if !self.sacked.is_empty() {
            self.sacked.retain(|&(_, end)| end.gt(ack));
            if let Some(first) = self.sacked.first_mut() {
                first.0 = first.0.max(ack);
            }
        }
    }

    /// `left` to `right` has arrived, the peer says. What was not sent, or is known, is left out.
    pub fn sack(&mut self, left: SeqNumber, right: SeqNumber, delivered: &mut Delivered) {
        let Some(end) = self.records.back().map(|r| r.end) else {
            return;
        };
        if left.ge(right) || right.gt(end) || right.le(self.una) {
            return;
        }
        let left = left.max(self.una);
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

    /// The same range; without what lies in parts of records, when there are so many records that a peer must
    /// be making them: it could have us keep one for each byte, and look through all of them.
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
        self.cut(right);
        let mut start = left;
        while start.lt(right) {
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

    // What is lost.

    /// RFC 8985 §6.2, step 5: what left before `newest`, which has arrived, and has had `allowed` of time
    /// since it left, is lost. Gives the bytes newly lost, and when the next one will be.
    pub fn detect_lost(
        &mut self,
        newest: &Sent,
        allowed: Duration,
        now: Instant,
    ) -> (u32, Option<Instant>) {
        let (mut lost, mut next) = (0, None::<Instant>);
        let (mut index, mut start, mut range) = (0, self.una, 0);
        while index < self.records.len() {
            if let Some(&(left, right)) = self.sacked.get(range)
                && left == start
            {
                (index, start, range) = (self.index_of(right), right, range + 1);
                continue;
            }
            let record = &mut self.records[index];
            let end = record.end;
            if !newest.left_after(record) {
                if !record.was_retransmitted() {
                    // All that follows left later still.
                    break;
                }
            } else if !record.is(LOST) {
                let due = record.at + allowed;
                if due <= now {
                    record.flags |= LOST;
                    lost += (end - start) as u32;
                    if self.lost_bytes + lost == (end - start) as u32 || start.lt(self.lost_from) {
                        self.lost_from = start;
                    }
                } else {
                    next = Some(next.map_or(due, |n: Instant| n.min(due)));
                }
            }
            (index, start) = (index + 1, end);
        }
        self.lost_bytes += lost;
        (lost, next)
    }

    /// RFC 8985 §6.3: the retransmission timer ran out; the first segment is lost, and all that have had
    /// `allowed` of time since they left. Gives the bytes newly lost.
    pub fn mark_lost_at_timeout(&mut self, allowed: Duration, now: Instant) -> u32 {
        let (mut start, mut lost) = (self.una, 0);
        for record in &mut self.records {
            let first = start == self.una;
            if !record.is(SACKED | LOST) && (first || record.at + allowed <= now) {
                record.flags |= LOST;
                lost += (record.end - start) as u32;
            }
            start = record.end;
        }
        self.lost_bytes += lost;
        self.lost_from = self.una;
        lost
    }

    /// All that the peer does not have is lost (the window was shut and thrown open; the segments were
    /// too long for the path; a peer without SACK was silent, RFC 6298 §5.4).
    pub fn mark_all_lost(&mut self) {
        let mut start = self.una;
        self.lost_bytes = 0;
        self.lost_from = start;
        for record in &mut self.records {
            let len = (record.end - start) as u32;
            if !record.is(SACKED) {
                record.flags |= LOST;
                self.lost_bytes += len;
            }
            start = record.end;
        }
    }

    /// The first `len` bytes are lost: what three duplicate acknowledgements of a peer without SACK say.
    pub fn mark_first_lost(&mut self, len: u32) {
        let Some(end) = self.records.back().map(|r| r.end) else {
            return;
        };
        self.cut((self.una + len).min(end));
        let first = &mut self.records[0];
        if !first.is(LOST | SACKED) {
            first.flags |= LOST;
            self.lost_bytes += (first.end - self.una) as u32;
            self.lost_from = self.una;
        }
    }

    /// What was believed lost was not.
    pub fn forget_losses(&mut self) {
        self.records.iter_mut().for_each(|r| r.flags &= !LOST);
        self.lost_bytes = 0;
    }

    /// Selective acknowledgements were only advice (RFC 2018 §8): count on none of them.
    pub fn forget_sacks(&mut self) {
        self.records.iter_mut().for_each(|r| r.flags &= !SACKED);
        self.sacked = Vec::new();
        self.sacked_bytes = 0;
    }

    /// The first record may have been thrown away by a peer with a closed window: what acknowledges it
    /// measures nothing.
    pub fn first_is_ambiguous(&mut self) {
        if let Some(first) = self.records.front_mut() {
            first.flags |= RETRANSMITTED;
        }
    }

    // Places.

    /// The first record that ends after `seq`.
    fn index_of(&self, seq: SeqNumber) -> usize {
        self.records.partition_point(|r| r.end.le(seq))
    }

    fn start_of(&self, index: usize) -> SeqNumber {
        if index == 0 {
            self.una
        } else {
            self.records[index - 1].end
        }
    }

    /// Let a record begin at `at`; its index.
    fn cut(&mut self, at: SeqNumber) -> usize {
        let index = self.index_of(at);
        if index == self.records.len() || self.start_of(index) == at {
            return index;
        }
        let front = Sent {
            end: at,
            ..self.records[index]
        };
        self.records.insert(index, front);
        index + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn departure(at: u64) -> Departure {
        Departure {
            at: Instant::from_micros(at),
            delivered: 0,
            since_delivery_us: 0,
            since_first_us: 0,
            app_limited: false,
        }
    }

    /// `count` records of 10 bytes from `una`, one each microsecond.
    fn board(una: u32, count: u32) -> Scoreboard {
        let mut board = Scoreboard::new(SeqNumber(una));
        for n in 1..=count {
            board.sent(SeqNumber(una) + 10 * n, departure(u64::from(n)));
        }
        board
    }

    fn check(board: &Scoreboard) {
        let (mut start, mut sacked, mut lost) = (board.una, 0, 0);
        for r in &board.records {
            assert!(r.end.gt(start), "records are in order and not empty");
            let len = (r.end - start) as u32;
            assert!(!(r.is(SACKED) && r.is(LOST)));
            sacked += if r.is(SACKED) { len } else { 0 };
            if r.is(LOST) {
                lost += len;
                assert!(r.end.gt(board.lost_from), "the search begins before it");
            }
            let covered = board.sacked.iter().any(|s| s.0.le(start) && s.1.ge(r.end));
            assert_eq!(covered, r.is(SACKED));
            start = r.end;
        }
        assert_eq!((sacked, lost), (board.sacked_bytes, board.lost_bytes));
        for pair in board.sacked.windows(2) {
            assert!(pair[0].1.lt(pair[1].0), "ranges lie apart");
        }
    }

    #[test]
    fn cumulative_acknowledgement_delivers_what_was_not_delivered() {
        let mut b = board(u32::MAX - 25, 10);
        let mut d = b.delivery();
        b.sack(
            SeqNumber(u32::MAX - 25) + 20,
            SeqNumber(u32::MAX - 25) + 40,
            &mut d,
        );
        assert_eq!((d.bytes, d.reordered, b.in_flight()), (20, false, 80));
        let mut d = b.delivery();
        b.acknowledge(SeqNumber(u32::MAX - 25) + 55, &mut d);
        assert_eq!((d.bytes, d.reordered, b.in_flight()), (35, true, 45));
        assert_eq!(d.oldest_once_at, Some(Instant::from_micros(1)));
        assert_eq!(d.newest_once.unwrap().at, Instant::from_micros(6));
        check(&b);
    }

    /// RFC 8985 §6.2: what left before what arrived is lost once it has had its time.
    #[test]
    fn what_left_before_the_newest_delivered_is_lost_in_time() {
        let s = SeqNumber(0);
        let mut b = board(0, 6);
        let mut d = b.delivery();
        b.sack(s + 40, s + 50, &mut d);
        let newest = d.newest_once.unwrap();
        let allowed = Duration::from_micros(10);
        let (lost, next) = b.detect_lost(&newest, allowed, Instant::from_micros(12));
        assert_eq!((lost, next), (20, Some(Instant::from_micros(13))));
        assert_eq!(b.next_lost(), Some((s, s + 10)));
        b.sent_again(s, s + 10, departure(12));
        assert_eq!(b.next_lost(), Some((s + 10, s + 20)));
        b.sent_again(s + 10, s + 20, departure(12));
        assert_eq!((b.next_lost(), b.in_flight()), (None, 50));
        let (lost, _) = b.detect_lost(&newest, allowed, Instant::from_micros(100));
        assert_eq!(lost, 20, "not what was sent again, nor what left after it");
        check(&b);
    }

    #[test]
    fn a_lost_super_packet_is_sent_again_in_parts() {
        let s = SeqNumber(7);
        let mut b = Scoreboard::new(s);
        b.sent(s + 100, departure(1));
        b.mark_all_lost();
        b.sent_again(s, s + 30, departure(2));
        assert_eq!(
            (b.next_lost(), b.in_flight()),
            (Some((s + 30, s + 100)), 30)
        );
        check(&b);
    }

    #[test]
    fn nonsense_is_left_out() {
        let s = SeqNumber(1000);
        let mut b = board(1000, 3);
        let mut d = b.delivery();
        for (left, right) in [
            (s + 10, s + 10),
            (s + 20, s + 10),
            (s + 20, s + 31),
            (s - 20, s),
        ] {
            b.sack(left, right, &mut d);
        }
        assert_eq!((d.bytes, b.sacked_bytes()), (0, 0));
    }

    #[test]
    fn a_peer_cannot_make_us_keep_more_ranges_than_the_limit() {
        let mut b = Scoreboard::new(SeqNumber(0));
        b.sent(SeqNumber(1 << 20), departure(1));
        for n in 0..3 * SACKED_RANGES_MAX as u32 {
            b.sack(
                SeqNumber(2 * n + 1),
                SeqNumber(2 * n + 2),
                &mut b.delivery(),
            );
        }
        assert!(
            b.sacked.len() <= SACKED_RANGES_MAX && b.records.len() <= 2 * SACKED_RANGES_MAX + 1
        );
        check(&b);
    }

    /// A block that grows by a byte each time would have us keep a record for each byte.
    #[test]
    fn a_peer_cannot_shatter_what_was_sent() {
        let (bytes, s) = (1 << 18, SeqNumber(u32::MAX - 1000));
        let mut b = Scoreboard::new(s);
        for n in 1..=4 {
            b.sent(s + bytes / 4 * n, departure(u64::from(n)));
        }
        let mut delivered = 0;
        for n in 2..=bytes {
            let mut d = b.delivery();
            b.sack(s + 1, s + n, &mut d);
            delivered += d.bytes;
        }
        let most = SACKED_RANGES_MAX + (bytes / SACKED_PIECE_BYTES) as usize;
        assert!(b.records.len() <= most + 2, "{}", b.records.len());
        assert_eq!((delivered, b.sacked_bytes()), (bytes - 1, bytes - 1));
        check(&b);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(u32),
        Ack(u32),
        Sack(u32, u32),
        Detect(u64),
        Timeout,
        Resend(u32),
        Undo,
        Renege,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1u32..40).prop_map(Step::Send),
            2 => (0u32..60).prop_map(Step::Ack),
            4 => (0u32..200, 1u32..50).prop_map(|(a, b)| Step::Sack(a, b)),
            2 => (0u64..20).prop_map(Step::Detect),
            1 => Just(Step::Timeout),
            4 => (1u32..30).prop_map(Step::Resend),
            1 => Just(Step::Undo),
            1 => Just(Step::Renege),
        ]
    }

    proptest! {
        /// Any history keeps the invariants, and what is delivered is what a model of single bytes says.
        #[test]
        fn any_history(start in prop_oneof![Just(u32::MAX - 300), any::<u32>()], steps in prop::collection::vec(step(), 1..80)) {
            let first = SeqNumber(start);
            let mut b = Scoreboard::new(first);
            let (mut now, mut end) = (0, first);
            let mut have = vec![false; 8000];
            let mut newest: Option<Sent> = None;
            for step in steps {
                now += 1;
                let mut d = b.delivery();
                let mut model = 0;
                let mut arrive = |from: SeqNumber, to: SeqNumber| {
                    for byte in &mut have[(from - first) as usize..(to - first) as usize] {
                        model += u32::from(!std::mem::replace(byte, true));
                    }
                };
                match step {
                    Step::Send(n) => {
                        end += n;
                        b.sent(end, departure(now));
                    }
                    Step::Ack(n) => {
                        let ack = (b.una + n).min(end);
                        arrive(b.una, ack);
                        b.acknowledge(ack, &mut d);
                    }
                    Step::Sack(from, len) => {
                        let (left, right) = (b.una + from, b.una + from + len);
                        if right.le(end) {
                            arrive(left, right);
                        }
                        b.sack(left, right, &mut d);
                    }
                    Step::Detect(allowed) => {
                        if let Some(newest) = newest {
                            b.detect_lost(&newest, Duration::from_micros(allowed), Instant::from_micros(now));
                        }
                    }
                    Step::Timeout => b.mark_all_lost(),
                    Step::Resend(n) => {
                        if let Some((from, to)) = b.next_lost() {
                            b.sent_again(from, to.min(from + n), departure(now));
                        }
                    }
                    Step::Undo => b.forget_losses(),
                    Step::Renege => {
                        b.forget_sacks();
                        let una = (b.una - first) as usize;
                        have[una..].fill(false);
                    }
                }
                prop_assert_eq!(d.bytes, model);
                for sent in [d.newest_once, d.newest_again].into_iter().flatten() {
                    if newest.is_none_or(|n| sent.left_after(&n)) {
                        newest = Some(sent);
                    }
                }
                check(&b);
                let known = (b.una - first) as usize..(end - first) as usize;
                let held = have[known.clone()].iter().filter(|h| **h).count() as u32;
                prop_assert_eq!(held, b.sacked_bytes());
                prop_assert_eq!(b.outstanding() as usize, known.len());
            }
        }
    }
}
