//! What a slot does with filters: claim them, and give them back. The rules are those of [`super::generals`].

use std::rc::Rc;

use exos_filter::Filter;
use exos_xok::message::GrantId;

use super::books::Ledger;
use super::denied::Denied;
use super::generals::General;
use super::grant::SlotId;
use crate::limits::{FILTERING, FILTERING_PER_USER_MAX, FILTERS_PER_SLOT_MAX};
use crate::pool::Standing;

impl Ledger {
    /// Grants a filter.
    pub fn claim_general(
        &mut self,
        slot: SlotId,
        text: String,
        filter: Filter,
    ) -> Result<GrantId, Denied> {
        let owner = self.owner(slot).ok_or(Denied::NotFound("slot"))?;
        let (interface, origin) = (owner.interface, Rc::clone(&owner.who));
        self.check_general_room(slot, interface)?;
        if let Some(other) = self.generals.meeting(slot, interface, &filter).first() {
            return Err(self.held_general(other));
        }
        let id = self.next_id();
        let general = General {
            interface,
            slot,
            text,
            filter,
            origin,
        };
        self.generals.insert(id, general);
        Ok(id)
    }

    /// The filters of a slot.
    pub fn generals_of(&self, slot: SlotId) -> impl Iterator<Item = (GrantId, &General)> {
        self.generals.of(slot)
    }

    /// Gives a filter back; `None` when there is none of this number and slot.
    pub fn release_general(&mut self, slot: SlotId, grant: GrantId) -> Option<General> {
        self.generals.remove(slot, grant)
    }

    /// Takes over a filter from the books of an earlier daemon, or one that could not be given back.
    pub fn adopt_general(&mut self, id: GrantId, general: General) {
        self.last_id = self.last_id.max(id);
        self.generals.insert(id, general);
    }

    fn check_general_room(&self, slot: SlotId, interface: u32) -> Result<(), Denied> {
        let mine = self.generals_of(slot).count();
        if mine >= FILTERS_PER_SLOT_MAX {
            let text = format!("the program has {mine} filters already; release some");
            return Err(Denied::Limit(text));
        }
        let slots = self.generals.slots_on(interface);
        if slots.contains(&slot) {
            return Ok(());
        }
        let asker = self.owner(slot).ok_or(Denied::NotFound("slot"))?;
        let owners = || slots.iter().filter_map(|slot| self.owner(*slot));
        let things = "programs with filters on an interface";
        let mine = owners().filter(|owner| owner.who.uid == asker.who.uid);
        if asker.standing < Standing::Own && mine.count() >= FILTERING_PER_USER_MAX {
            let text = format!("this user has {FILTERING_PER_USER_MAX} {things}; end some");
            return Err(Denied::Limit(text));
        }
        let taken = owners().map(|owner| (owner.standing, 1));
        let room = FILTERING.check(asker.standing, things, taken);
        room.map_err(Denied::Limit)
    }
}
