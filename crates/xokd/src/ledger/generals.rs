//! General grants: all packets that a filter matches and no exact grant covers.
//!
//! The rule is that of exact ones, **granting never takes a packet from another owner**, in both directions: the
//! packet path looks at exact grants first, so a filter may lie around those of others; and an exact claim that meets
//! a filter of another's is refused, unless the asker has its packets already. Two owners' filters must be disjoint,
//! and proven to be: a comparison that takes too long counts as meeting.
//!
//! An ICMP error belongs to the flow that it is about, and fragments to that of their first: who holds those exactly has
//! them, whatever filter lies around.

use std::collections::BTreeMap;
use std::rc::Rc;

use exos_filter::Filter;
use exos_xok::message::GrantId;
use exos_xok::{Claim, Protocol};

use super::{Denied, Ledger, SlotId};
use crate::limits::{
    COMPARISON_STEPS_MAX, FILTERING, FILTERING_PER_USER_MAX, FILTERS_PER_SLOT_MAX,
};
use crate::policy::{Standing, Who};

/// A filter that is somebody's.
#[derive(Clone, Debug)]
pub struct General {
    /// The interface, by index.
    pub interface: u32,
    /// Whose.
    pub slot: SlotId,
    /// As it was asked for.
    pub text: String,
    /// What it means, on packets as they come in.
    pub filter: Filter,
    /// By whose right.
    pub origin: Rc<Who>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Generals(BTreeMap<GrantId, General>);

impl Generals {
    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &General> {
        self.0.values()
    }

    pub(super) fn contains(&self, id: GrantId) -> bool {
        self.0.contains_key(&id)
    }

    pub(super) fn remove_slot(&mut self, slot: SlotId) {
        self.0.retain(|_, general| general.slot != slot);
    }

    /// Those of other slots that may meet these packets.
    fn meeting(&self, slot: SlotId, interface: u32, packets: &Filter) -> Vec<&General> {
        let others = self
            .0
            .values()
            .filter(|g| g.slot != slot && g.interface == interface);
        let meets = |g: &&General| !g.filter.is_disjoint_within(packets, COMPARISON_STEPS_MAX);
        others.filter(meets).collect()
    }

    /// One of another slot that has packets of this claim.
    pub(super) fn having(&self, slot: SlotId, claim: &Claim) -> Option<&General> {
        if self.0.is_empty() {
            return None;
        }
        let meeting = self.meeting(slot, claim.interface, &filter_of(claim));
        meeting.into_iter().next()
    }
}

/// The packets of a claim. All of a protocol's where the filter cannot say it as exactly: echo identifiers.
fn filter_of(claim: &Claim) -> Filter {
    let protocol = match claim.protocol {
        Protocol::Any if claim.local.is_ipv4() => "ip",
        Protocol::Any => "ip6",
        Protocol::Icmpv6 => "icmp6",
        protocol => protocol.name(),
    };
    let mut text = format!("{protocol} and dst host {}", claim.local);
    let ports = matches!(claim.protocol, Protocol::Tcp | Protocol::Udp);
    if claim.port != 0 && ports {
        text += &format!(" and dst port {}", claim.port);
    }
    if let Some(remote) = claim.remote {
        text += &format!(" and src host {}", remote.ip);
        if ports {
            text += &format!(" and src port {}", remote.port);
        }
    }
    Filter::parse(&text).expect("a claim is a filter")
}

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
        self.generals.0.insert(id, general);
        Ok(id)
    }

    /// The filters of a slot.
    pub fn generals_of(&self, slot: SlotId) -> impl Iterator<Item = (GrantId, &General)> {
        let all = self.generals.0.iter().map(|(id, general)| (*id, general));
        all.filter(move |(_, general)| general.slot == slot)
    }

    /// Gives a filter back; `None` when there is none of this number and slot.
    pub fn release_general(&mut self, slot: SlotId, grant: GrantId) -> Option<General> {
        let held = self.generals.0.get(&grant);
        held.filter(|general| general.slot == slot)?;
        self.generals.0.remove(&grant)
    }

    /// Takes over a filter from the books of an earlier daemon, or one that could not be given back.
    pub fn adopt_general(&mut self, id: GrantId, general: General) {
        self.last_id = self.last_id.max(id);
        self.generals.0.insert(id, general);
    }

    pub(super) fn held_general(&self, general: &General) -> Denied {
        let owner = self
            .owner(general.slot)
            .expect("filters go with their slots");
        Denied::HeldByFilter(general.text.clone(), owner.clone())
    }

    fn check_general_room(&self, slot: SlotId, interface: u32) -> Result<(), Denied> {
        let mine = self.generals_of(slot).count();
        if mine >= FILTERS_PER_SLOT_MAX {
            let text = format!("the program has {mine} filters already; release some");
            return Err(Denied::Limit(text));
        }
        let here = self
            .generals
            .0
            .values()
            .filter(|g| g.interface == interface);
        let mut slots: Vec<SlotId> = here.map(|general| general.slot).collect();
        slots.sort_unstable();
        slots.dedup();
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
