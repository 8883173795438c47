//! Ports that several slots hold together: each gets the flows that a hash gives it, all packets of one flow.
//!
//! A program that claims such a port says so, first as last, and all are of the user that claimed it first; a slot of another user
//! becomes a holder by a ticket of one of them. A holder that *retires* gets no new flows any more, as long as there are
//! others who do, and keeps those that it has.

use exos_xok::message::GrantId;
use exos_xok::{Claim, Protocol};

use super::books::Ledger;
use super::denied::Denied;
use super::grant::{Change, Grant, Owner, SlotId};
use super::room;
use crate::limits::MEMBERS_MAX;

impl Ledger {
    /// Grants a port to be held together with others of the same user.
    pub fn claim_divided(&mut self, slot: SlotId, claim: Claim) -> Result<Change, Denied> {
        claim.check().map_err(Denied::Bad)?;
        let is_port = matches!(claim.protocol, Protocol::Tcp | Protocol::Udp) && claim.port != 0;
        if !is_port || claim.remote.is_some() {
            return Err(Denied::NotDivisible(claim));
        }
        if let Some(id) = self.number_of(&claim) {
            return self.join(slot, id);
        }
        let asker = self.owner(slot).ok_or(Denied::NotFound("slot"))?;
        let others = self.grants.values().filter(|grant| grant.is_divided);
        let here = others.filter(|grant| grant.claim.interface == claim.interface);
        let taken = here.filter_map(|grant| Some((self.owner(grant.slot())?, 1)));
        room::check_divided(asker, &taken.collect::<Vec<_>>())?;
        let change = self.claim(slot, claim)?;
        let grant = self.grants.get_mut(&change.grant);
        grant.expect("it was granted just now").is_divided = true;
        Ok(change)
    }

    /// One holder more.
    fn join(&mut self, slot: SlotId, id: GrantId) -> Result<Change, Denied> {
        let asker = self.owner(slot).ok_or(Denied::NotFound("slot"))?;
        let grant = &self.grants[&id];
        if grant.holders.contains(&slot) && grant.is_divided {
            return Ok(self.change(id));
        }
        let holder = || -> Owner { self.slots[&grant.slot()].clone() };
        if !grant.is_divided {
            return Err(Denied::NotShared(grant.claim, holder()));
        }
        if grant.origin.uid != asker.who.uid {
            return Err(Denied::SharedByOthers(grant.claim, holder()));
        }
        self.check_room(slot, &grant.claim)?;
        self.add_holder(slot, id)?;
        Ok(self.change(id))
    }

    /// A slot is a holder, too.
    pub(super) fn add_holder(&mut self, slot: SlotId, id: GrantId) -> Result<(), Denied> {
        let grant = self.grants.get_mut(&id).ok_or(Denied::NotFound("grant"))?;
        if !grant.holders.contains(&slot) {
            if grant.is_divided && grant.holders.len() >= MEMBERS_MAX {
                let text = format!("{} has {MEMBERS_MAX} holders; end some", grant.claim);
                return Err(Denied::Limit(text));
            }
            grant.holders.push(slot);
        }
        self.held.entry(slot).or_default().insert(id);
        Ok(())
    }

    /// The slot gets no new flows of a grant any more.
    pub fn retire(&mut self, slot: SlotId, id: GrantId) -> Result<Change, Denied> {
        let grant = self.of(slot, id)?;
        if !grant.is_divided {
            return Err(Denied::NotDivisible(grant.claim));
        }
        let grant = self.grants.get_mut(&id).expect("it is in the books");
        grant.retired.insert(slot);
        Ok(self.change(id))
    }

    /// Among whom the flows of a grant are divided, and whether each of them gets new ones; nobody where it is not divided.
    pub fn members(&self, id: GrantId) -> Vec<(SlotId, bool)> {
        let grant = self.grant(id).filter(|grant| grant.is_divided);
        grant.map_or_else(Vec::new, Grant::members)
    }
}
