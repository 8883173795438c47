//! The general filters of all slots: what each slot's were made of, and which of the gate's places its program has.

use std::collections::BTreeMap;

use exos_filter::Filter;
use exos_filter::gate::limits::GENERALS_MAX;
use exos_host::error::{Error, Result};

use crate::ledger::SlotId;

/// What a slot has beside its exact grants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GeneralFilters {
    /// What comes in to it.
    pub receive: Filter,
    /// What it may send.
    pub send: Filter,
}

/// The general filters of all slots, as the kernel has them.
#[derive(Debug, Default)]
pub(super) struct GeneralTable {
    /// The slot of each program, or of one that is being made; 0 for none.
    places: [SlotId; GENERALS_MAX as usize],
    /// What they were made of, as far as this daemon made them.
    in_force: BTreeMap<SlotId, GeneralFilters>,
}

impl GeneralTable {
    /// What a slot's programs were made of.
    pub(super) fn in_force(&self, id: SlotId) -> Option<&GeneralFilters> {
        self.in_force.get(&id)
    }

    /// Notes what a slot's programs are made of now.
    pub(super) fn put_in_force(&mut self, id: SlotId, filters: GeneralFilters) {
        self.in_force.insert(id, filters);
    }

    /// The place of a slot's program from now on.
    pub(super) fn take_place(&mut self, id: SlotId) -> Result<u32> {
        let free = || self.places.iter().position(|slot| *slot == 0);
        let place = self.place(id).or_else(free);
        let place = place.ok_or_else(|| Error::new("all places of general filters are taken"))?;
        self.places[place] = id;
        Ok(place as u32)
    }

    /// A slot has no filters any more. Returns the place that its program is to be cleared from.
    pub(super) fn end(&mut self, id: SlotId) -> Option<u32> {
        self.in_force.remove(&id);
        Some(self.place(id)? as u32)
    }

    /// The program in a place is cleared.
    pub(super) fn free(&mut self, place: u32) {
        self.places[place as usize] = 0;
    }

    /// The places that no slot has.
    pub(super) fn free_places(&self) -> impl Iterator<Item = u32> {
        let places = (0..).zip(&self.places);
        places.filter(|(_, slot)| **slot == 0).map(|(at, _)| at)
    }

    /// How many places slots have.
    pub(super) fn taken(&self) -> u32 {
        GENERALS_MAX - self.free_places().count() as u32
    }

    fn place(&self, id: SlotId) -> Option<usize> {
        self.places.iter().position(|slot| *slot == id)
    }
}
