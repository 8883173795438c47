//! Numbers that nobody can guess who does not know the secret: a keyed hash of a counter.

use exos_inet::siphash::SipKey;
use std::ops::RangeInclusive;

/// A sequence of numbers; as hard to guess as the secret is.
pub(crate) struct Random {
    key: SipKey,
    drawn: u64,
}

impl Random {
    pub(crate) fn new(secret: u64) -> Self {
        let key = SipKey::from_seed(secret);
        Self { key, drawn: 0 }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.drawn += 1;
        self.key.hash(&[self.drawn])
    }

    /// One of the range, which is not empty; an empty one is its start.
    pub(crate) fn within(&mut self, range: &RangeInclusive<u16>) -> u16 {
        let count = u64::from(range.end().saturating_sub(*range.start())) + 1;
        // The remainder's bias is 2^-48.
        range.start() + (self.next() % count) as u16
    }
}
