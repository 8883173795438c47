//! Pieces that an application keeps, as buffers of ours: one that comes again is neither copied nor summed.
//!
//! A piece is known by pool, buffer, generation and place. One that is made of a buffer that was used again is of another generation, so
//! nothing that is remembered is taken for other bytes.

use crate::limits::{KEPT_COST, KEPT_NEAR, KEPT_TOTAL_MAX};
use exos_iolite::{Identity, Slice};
use std::collections::HashMap;

/// Pieces that are remembered. One is forgotten when others of [`KEPT_TOTAL_MAX`] were asked for since it was, at the latest, and of half as
/// much at the earliest.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The last that was asked for of each place: where one of these comes again no table is looked through.
    near: [Option<(Identity, exos_buf::Slice)>; KEPT_NEAR],
    /// Those that were asked for lately, and those before.
    young: HashMap<Identity, exos_buf::Slice>,
    old: HashMap<Identity, exos_buf::Slice>,
    young_len: usize,
    hits: u64,
}

impl Kept {
    /// The bytes of a piece, in memory of ours.
    pub fn local(&mut self, slice: &Slice) -> exos_buf::Slice {
        let Some(identity) = slice.identity() else {
            return slice.to_local();
        };
        let place = identity.place() % KEPT_NEAR;
        if let Some((_, known)) = self.near[place].as_ref().filter(|(it, _)| *it == identity) {
            self.hits += 1;
            return known.clone();
        }
        let local = self.find(identity, slice);
        self.near[place] = Some((identity, local.clone()));
        local
    }

    fn find(&mut self, identity: Identity, slice: &Slice) -> exos_buf::Slice {
        if let Some(known) = self.young.get(&identity) {
            self.hits += 1;
            return known.clone();
        }
        let local = match self.old.remove(&identity) {
            Some(known) => {
                self.hits += 1;
                known
            }
            None => slice.to_local(),
        };
        self.young_len += local.len() + KEPT_COST;
        self.young.insert(identity, local.clone());
        if self.young_len >= KEPT_TOTAL_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_len = 0;
            // Or they might be remembered beyond the limit.
            self.near = Default::default();
        }
        local
    }

    /// How often a piece was known.
    pub fn hits(&self) -> u64 {
        self.hits
    }
}
