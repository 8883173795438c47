//! What marks records lost: RACK's judgement, the timer, duplicates; and what takes the marks back.
//!
//! RACK looks at records in the order in which they left, until the first that is not due: that of
//! `records` from `once_from` on for what was sent once, that of `again` for the rest.

use exos_wire::SeqNumber;

use crate::limits::SENT_AGAIN_SLACK;
use crate::tcp::sending::recovery::scoreboard::board::Scoreboard;
use crate::tcp::sending::recovery::scoreboard::record::{
    AMBIGUOUS, Again, LOST, RETRANSMITTED, SACKED, Sent,
};
use crate::time::{Duration, Instant};

/// What a look for losses has found.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Detected {
    /// Bytes newly lost.
    pub lost: u32,
    /// When the next will be, if nothing more arrives.
    pub next: Option<Instant>,
    /// How many records were looked at.
    pub looked_at: u32,
}

/// RFC 8985 §6.2, step 5: what left before `newest`, which has arrived, and has had `allowed` of time since
/// it left, is lost.
struct Judge<'a> {
    newest: &'a Sent,
    allowed: Duration,
    now: Instant,
}

impl Judge<'_> {
    /// True when it is lost. What has still time is noted; it ends the look, for what left later has more.
    fn finds_lost(&self, record: &Sent, found: &mut Detected) -> bool {
        if !self.newest.left_after(record) {
            return false;
        }
        let due = record.at + self.allowed;
        if due <= self.now {
            return true;
        }
        found.next = Some(found.next.map_or(due, |n| n.min(due)));
        false
    }
}

impl Scoreboard {
    /// RFC 8985 §6.2, step 5: mark lost what left before `newest`, which has arrived, and has had `allowed` of
    /// time since it left.
    pub fn detect_lost(&mut self, newest: &Sent, allowed: Duration, now: Instant) -> Detected {
        let judge = Judge {
            newest,
            allowed,
            now,
        };
        let mut found = Detected::default();
        self.judge_sent_once(&judge, &mut found);
        if !self.again.is_empty() {
            self.judge_sent_again(&judge, &mut found);
        }
        found
    }

    #[inline]
    fn judge_sent_once(&mut self, judge: &Judge<'_>, found: &mut Detected) {
        let mut start = self.once_from;
        let mut index = match start == self.una {
            true => 0,
            false => self.index_of(start),
        };
        while let Some(record) = self.records.get(index) {
            found.looked_at += 1;
            let end = record.end;
            if record.is(SACKED) {
                start = self.sacked_until(start);
                index = self.index_of(start);
                continue;
            }
            if !record.is(LOST | RETRANSMITTED) {
                if !judge.finds_lost(record, found) {
                    break;
                }
                found.lost += self.mark_lost(index, start);
            }
            (index, start) = (index + 1, end);
        }
        self.once_from = start;
    }

    fn judge_sent_again(&mut self, judge: &Judge<'_>, found: &mut Detected) {
        while let Some(&again) = self.again.front() {
            let start = again.start.max(self.una);
            if start.ge(again.end) {
                self.again.pop_front();
                continue;
            }
            found.looked_at += 1;
            let index = self.index_of(start);
            let record = self.records[index];
            if record.is(RETRANSMITTED) && !record.is(SACKED | LOST) && record.at == again.at {
                if !judge.finds_lost(&record, found) {
                    break;
                }
                found.lost += self.mark_lost(index, start);
            }
            // The entry may be of several records: its piece was cut since it left.
            let next = match record.is(SACKED) {
                true => self.sacked_until(start),
                false => record.end,
            };
            self.again[0].start = next;
        }
    }

    /// A record that was in flight is lost; its length.
    fn mark_lost(&mut self, index: usize, start: SeqNumber) -> u32 {
        let record = &mut self.records[index];
        record.flags |= LOST;
        let len = (record.end - start) as u32;
        if self.lost_bytes == 0 || start.lt(self.lost_from) {
            self.lost_from = start;
        }
        self.lost_bytes += len;
        len
    }

    /// `start` to `end` has left again.
    pub(super) fn queue_again(&mut self, start: SeqNumber, end: SeqNumber, at: Instant) {
        if self.again.len() >= 2 * self.records.len() + SENT_AGAIN_SLACK {
            // Most of them were acknowledged or lost since; at most one a record is not.
            self.reorder();
        } else {
            self.again.push_back(Again { start, end, at });
        }
    }

    /// Marks were taken back, of which nothing else knows when what bore them left: make the order of
    /// sending again.
    fn reorder(&mut self) {
        self.once_from = self.una;
        self.again.clear();
        let mut start = self.una;
        for record in &self.records {
            if record.is(RETRANSMITTED) && !record.is(SACKED | LOST) {
                let (end, at) = (record.end, record.at);
                self.again.push_back(Again { start, end, at });
            }
            start = record.end;
        }
        // Sequence numbers came in order; the sort is stable.
        self.again.make_contiguous().sort_by_key(|a| a.at);
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
        self.reorder();
    }

    /// Selective acknowledgements were only advice (RFC 2018 §8): count on none of them.
    pub fn forget_sacks(&mut self) {
        self.records.iter_mut().for_each(|r| r.flags &= !SACKED);
        self.sacked = Default::default();
        self.sacked_bytes = 0;
        self.reorder();
    }

    /// The first record may have been thrown away by a peer with a closed window: what acknowledges it
    /// measures nothing.
    pub fn first_is_ambiguous(&mut self) {
        if let Some(first) = self.records.front_mut() {
            first.flags |= AMBIGUOUS;
        }
    }
}
