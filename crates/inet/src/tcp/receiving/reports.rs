//! What the peer has to be told of data beyond a gap, and of data that came again (RFC 2018 §4, RFC 2883 §4).
//!
//! The first block holds the segment that arrived last, the others repeat what was reported last, and
//! where there is room still, ranges from the left: the peer has to repair these first. A segment that
//! was there already is reported once, before all others (D-SACK), with the range that it lies in
//! behind it. Many segments may arrive before one can leave: then an acknowledgement follows for each range
//! that grew, so that each is said in several (RFC 2018 §4: three at least), some of which may get lost.

use std::collections::VecDeque;

use exos_wire::SeqNumber;
use exos_wire::tcp::SackBlocks;

use crate::limits::{SACK_RANGES_REMEMBERED, SACK_REPEATS_REMEMBERED};

/// From the first sequence number up to but not including the second.
pub(in crate::tcp) type Range = (SeqNumber, SeqNumber);

/// A short list, the newest first.
#[derive(Copy, Clone)]
struct Recent<const N: usize> {
    ranges: [Range; N],
    len: usize,
}

impl<const N: usize> Default for Recent<N> {
    fn default() -> Self {
        Self {
            ranges: [(SeqNumber(0), SeqNumber(0)); N],
            len: 0,
        }
    }
}

impl<const N: usize> Recent<N> {
    fn as_slice(&self) -> &[Range] {
        &self.ranges[..self.len]
    }

    /// Put one before all others; the last one goes when there are too many.
    fn push(&mut self, range: Range) {
        let kept = self.len.min(N - 1);
        self.ranges.copy_within(..kept, 1);
        self.ranges[0] = range;
        self.len = kept + 1;
    }

    /// Keep those of which `keep` says so; returns how many of the first `count` went.
    fn retain(&mut self, count: usize, mut keep: impl FnMut(&mut Range) -> bool) -> usize {
        let (mut kept, mut gone) = (0, 0);
        for n in 0..self.len {
            if keep(&mut self.ranges[n]) {
                self.ranges[kept] = self.ranges[n];
                kept += 1;
            } else if n < count {
                gone += 1;
            }
        }
        self.len = kept;
        gone
    }
}

/// What the peer has to be told of the data beyond a gap, and of data that came again.
#[derive(Default)]
pub(in crate::tcp) struct Reports {
    /// Ranges as they are held now, that which grew last first.
    recent: Recent<SACK_RANGES_REMEMBERED>,
    /// This many of the first of `recent` have grown since they were reported.
    unreported: usize,
    /// What came again and was not reported, the latest first.
    repeats: Recent<SACK_REPEATS_REMEMBERED>,
}

impl Reports {
    /// A segment made `range` what it is now.
    pub fn arrived(&mut self, range: Range) {
        // Those that it has swallowed.
        let inside = |r: &mut Range| r.0.ge(range.0) && r.1.le(range.1);
        self.unreported -= self.recent.retain(self.unreported, |r| !inside(r));
        self.recent.push(range);
        self.unreported = (self.unreported + 1).min(self.recent.len);
    }

    /// A segment brought `range`, which was there already.
    pub fn repeated(&mut self, range: Range) {
        if let Some(last) = self.repeats.ranges[..self.repeats.len].first_mut()
            && range.0.le(last.1)
            && last.0.le(range.1)
        {
            // One after the other: as if it had been one segment.
            *last = (last.0.min(range.0), last.1.max(range.1));
        } else {
            self.repeats.push(range);
        }
    }

    /// All before `next` is acknowledged.
    pub fn passed(&mut self, next: SeqNumber) {
        self.unreported -= self.recent.retain(self.unreported, |r| r.0.gt(next));
    }

    /// What lies from `end` on is held no more.
    pub fn cut(&mut self, end: SeqNumber) {
        self.unreported -= self.recent.retain(self.unreported, |r| {
            r.1 = r.1.min(end);
            r.0.lt(end)
        });
        self.repeats.retain(0, |r| r.1.le(end));
    }

    /// Something has to be said that was not said yet.
    pub fn are_due(&self) -> bool {
        self.unreported > 0 || self.repeats.len > 0
    }

    /// The most blocks, up to `most`, that `take` gives for this many ranges.
    pub fn count(&self, ranges: usize, most: usize) -> usize {
        (ranges + usize::from(self.repeats.len > 0)).min(most)
    }

    /// The blocks of the next segment, at most `most`: what they say is said.
    pub fn take(&mut self, ranges: &VecDeque<Range>, next: SeqNumber, most: usize) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        self.take_repeat(ranges, next, &mut blocks);
        // The oldest of what was not reported, as if it had been reported on arrival. The next segment has
        // the next one first and repeats this one, so that each is said three times: where one said
        // many for the first time, its loss had the peer send again what has come.
        let from = self.unreported.saturating_sub(1);
        self.unreported = from;
        let recent = self.recent.as_slice();
        let remembered = recent.iter().skip(from);
        for &(left, right) in remembered.chain(ranges) {
            if blocks.len() == most {
                break;
            }
            if !blocks.as_slice().contains(&(left, right)) {
                blocks.push(left, right);
            }
        }
        blocks
    }

    /// RFC 2883 §4: what came again, then the range that it is a part of.
    fn take_repeat(&mut self, ranges: &VecDeque<Range>, next: SeqNumber, blocks: &mut SackBlocks) {
        while self.repeats.len > 0 {
            self.repeats.len -= 1;
            let (left, right) = self.repeats.ranges[self.repeats.len];
            if right.le(next) {
                blocks.push(left, right);
                return;
            }
            let far = |at: SeqNumber| (at - next) as u32;
            let at = ranges.partition_point(|r| far(r.1) < far(right));
            if let Some(&whole) = ranges.get(at)
                && whole.0.le(left)
            {
                blocks.push(left, right);
                blocks.push(whole.0, whole.1);
                return;
            }
            // Given up since: without its range it would be taken for news.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: SeqNumber = SeqNumber(u32::MAX - 100);

    fn range(from: u32, to: u32) -> Range {
        (NEXT + from, NEXT + to)
    }

    fn taken(reports: &mut Reports, ranges: &[Range], most: usize) -> Vec<(u32, u32)> {
        let ranges = ranges.iter().copied().collect();
        let blocks = reports.take(&ranges, NEXT, most);
        let from = |at: SeqNumber| (at - NEXT) as u32;
        blocks.iter().map(|(l, r)| (from(l), from(r))).collect()
    }

    #[test]
    fn the_newest_comes_first_and_the_others_are_repeated() {
        let mut reports = Reports::default();
        let held = [range(10, 20), range(30, 40), range(50, 60), range(70, 80)];
        for n in [1, 3, 0, 2] {
            reports.arrived(held[n]);
            let first = taken(&mut reports, &held, 3)[0];
            assert_eq!(first.0, 10 + 20 * n as u32);
        }
        assert_eq!(
            taken(&mut reports, &held, 3),
            [(50, 60), (10, 20), (70, 80)]
        );
        assert!(!reports.are_due());
    }

    /// Seven ranges grow before anything can leave: as many acknowledgements report each three times, but for
    /// the last, which later ones will repeat.
    #[test]
    fn every_range_that_grew_is_reported_three_times() {
        let mut reports = Reports::default();
        let held: Vec<Range> = (0..7).map(|n| range(10 * n + 5, 10 * n + 10)).collect();
        held.iter().for_each(|&r| reports.arrived(r));
        let mut starts = Vec::new();
        while reports.are_due() {
            starts.push(
                taken(&mut reports, &held, 3)
                    .iter()
                    .map(|b| b.0)
                    .collect::<Vec<_>>(),
            );
        }
        let newest: Vec<u32> = starts.iter().map(|s| s[0]).collect();
        assert_eq!(newest, [5, 15, 25, 35, 45, 55, 65]);
        for range in &newest[..5] {
            let times = starts.iter().filter(|s| s.contains(range)).count();
            assert!(times >= 3, "{range}: {starts:?}");
        }
        assert_eq!(starts[6], [65, 55, 45]);
    }

    /// RFC 2883 §4: a duplicate comes first, once, with its range behind it.
    #[test]
    fn a_repeat_is_reported_once_and_with_its_range() {
        let mut reports = Reports::default();
        let held = [range(10, 40), range(50, 60)];
        reports.arrived(held[1]);
        reports.repeated(range(20, 30));
        assert_eq!(
            taken(&mut reports, &held, 3),
            [(20, 30), (10, 40), (50, 60)]
        );
        assert_eq!(taken(&mut reports, &held, 3), [(50, 60), (10, 40)]);
    }

    /// What was given up is not reported as if it had come twice.
    #[test]
    fn a_repeat_of_what_was_given_up_is_not_reported() {
        let mut reports = Reports::default();
        reports.arrived(range(10, 20));
        reports.arrived(range(30, 60));
        reports.repeated(range(40, 50));
        reports.cut(NEXT + 35);
        assert_eq!(
            taken(&mut reports, &[range(10, 20), range(30, 35)], 3),
            [(10, 20), (30, 35)]
        );
    }
}
