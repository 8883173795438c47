//! Streams that have ended: what is sent again of them is not told again.
//!
//! Streams of a kind begin in the order of their numbers, and end in nearly that: of each kind it is kept up to where all have ended or are
//! followed, and single ones beyond.

use std::collections::BTreeSet;

use crate::limits::FOLLOWED_STREAMS_MAX;

/// The streams that one side has ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Of each of the four kinds (RFC 9000 §2.1), by the number among these: all below have ended that are not followed.
    below: [u64; 4],
    /// Others, by their identifiers.
    beyond: BTreeSet<u64>,
}

impl Ended {
    /// This one has ended, if it is not followed.
    pub(super) fn has(&self, id: u64) -> bool {
        id >> 2 < self.below[kind_of(id)] || self.beyond.contains(&id)
    }

    /// This one has ended. Too many that are missing before others count as ended, too.
    pub(super) fn add(&mut self, id: u64, is_followed: impl Fn(u64) -> bool) {
        if !self.has(id) {
            self.beyond.insert(id);
        }
        let mut kind = kind_of(id);
        if self.beyond.len() > FOLLOWED_STREAMS_MAX
            && let Some(first) = self.beyond.pop_first()
        {
            kind = kind_of(first);
            self.below[kind] = (first >> 2) + 1;
        }
        let below = &mut self.below[kind];
        loop {
            let next = *below << 2 | kind as u64;
            if !self.beyond.remove(&next) && !is_followed(next) {
                break;
            }
            *below += 1;
        }
    }

    /// Bytes that it keeps beside itself.
    pub(super) fn held(&self) -> usize {
        // A tree's nodes are half full at least, but for the first.
        match self.beyond.len() {
            0 => 0,
            count => (2 * count + 11) * size_of::<u64>(),
        }
    }
}

/// Who begins a stream, and which ways it goes (RFC 9000 §2.1).
fn kind_of(id: u64) -> usize {
    (id & 3) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends in any order are known, beside those that go on; in order they take no memory.
    #[test]
    fn ends_are_known_in_any_order() {
        let mut random = exos_testing::Random(7);
        let goes_on = |id: u64| id == 8 || id == 3;
        for _ in 0..50 {
            let mut ids: Vec<u64> = (0..200).filter(|id| !goes_on(*id)).collect();
            for at in (1..ids.len()).rev() {
                ids.swap(at, random.below(at + 1));
            }
            let mut ended = Ended::default();
            for (nth, id) in ids.iter().enumerate() {
                ended.add(*id, goes_on);
                let known = ids.iter().position(|id| !ended.has(*id));
                assert_eq!(known, (nth + 1 < ids.len()).then_some(nth + 1));
            }
            assert!(ended.beyond.is_empty() && ended.held() == 0);
            ended.add(8, |_| false);
            assert!(ended.has(8) && ended.beyond.is_empty());
        }
    }

    /// Every second stream is not in the capture.
    #[test]
    fn streams_that_are_missing_are_bounded() {
        let mut ended = Ended::default();
        for nth in 0..4 * FOLLOWED_STREAMS_MAX as u64 {
            ended.add(8 * nth, |_| false);
            assert!(ended.beyond.len() <= FOLLOWED_STREAMS_MAX);
            assert!(ended.has(8 * nth) && ended.has(0) && !ended.has(8 * nth + 4));
        }
    }
}
