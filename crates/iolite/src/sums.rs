//! Sums that are remembered (IO-Lite, section 3.9): of bytes that were summed once, known by pool, buffer, generation and place.
//!
//! A buffer that is used again is of another generation, so a sum that is remembered never belongs to other bytes, as far as the process
//! that made them keeps its promise.

use crate::aggregate::Aggregate;
use crate::limits::SUMS_MAX;
use crate::slice::{Identity, Slice};
use exos_wire::checksum::Sum;
use std::collections::HashMap;

/// Sums of slices. One is forgotten once [`SUMS_MAX`] others were asked for since it was, at the latest, and half as many at
/// the earliest.
#[derive(Debug, Default)]
pub struct SumCache {
    /// Those that were asked for lately, and those before.
    young: HashMap<Identity, Sum>,
    old: HashMap<Identity, Sum>,
    hits: u64,
    misses: u64,
}

impl SumCache {
    /// Nothing is remembered.
    pub fn new() -> Self {
        Self::default()
    }

    /// The sum of a slice.
    pub fn slice(&mut self, slice: &Slice) -> Sum {
        let Some(identity) = slice.identity() else {
            return slice.sum();
        };
        let known = self
            .young
            .get(&identity)
            .or_else(|| self.old.get(&identity));
        let sum = known.copied();
        match sum {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        let sum = sum.unwrap_or_else(|| slice.sum());
        self.young.insert(identity, sum);
        if self.young.len() >= SUMS_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        sum
    }

    /// The sum of an aggregate, as if it began at an even offset of a packet.
    pub fn aggregate(&mut self, aggregate: &Aggregate) -> Sum {
        aggregate.sum_by(|slice| self.slice(slice))
    }

    /// How often a sum was known, and how often not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }
}
