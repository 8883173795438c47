//! General grants: all packets that a filter matches and no exact grant covers.
//!
//! The rule is that of exact ones, **granting never takes a packet from another owner**, in both directions: the
//! packet path looks at exact grants first, so a filter may lie around those of others; and an exact claim that meets
//! a filter of another's is refused, unless the asker has its packets already. Two owners' filters must be disjoint,
//! and proven to be: a comparison that takes too long counts as meeting.
//!
//! An ICMP error belongs to the flow that it is about, and fragments to that of their first: who holds those exactly has
//! them, whatever filter lies around.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use exos_filter::Filter;
use exos_xok::message::GrantId;
use exos_xok::{Claim, Protocol};

use super::grant::SlotId;
use crate::limits::COMPARISON_STEPS_MAX;
use crate::policy::Who;

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

    pub(super) fn insert(&mut self, id: GrantId, general: General) {
        self.0.insert(id, general);
    }

    /// Takes the one of this number and slot out.
    pub(super) fn remove(&mut self, slot: SlotId, id: GrantId) -> Option<General> {
        let held = self.0.get(&id);
        held.filter(|general| general.slot == slot)?;
        self.0.remove(&id)
    }

    /// Those of a slot.
    pub(super) fn of(&self, slot: SlotId) -> impl Iterator<Item = (GrantId, &General)> {
        let all = self.0.iter().map(|(id, general)| (*id, general));
        all.filter(move |(_, general)| general.slot == slot)
    }

    /// The slots that have any on an interface.
    pub(super) fn slots_on(&self, interface: u32) -> BTreeSet<SlotId> {
        let here = self.0.values().filter(|g| g.interface == interface);
        here.map(|general| general.slot).collect()
    }

    pub(super) fn contains(&self, id: GrantId) -> bool {
        self.0.contains_key(&id)
    }

    pub(super) fn remove_slot(&mut self, slot: SlotId) {
        self.0.retain(|_, general| general.slot != slot);
    }

    /// Those of other slots that may meet these packets.
    pub(super) fn meeting(&self, slot: SlotId, interface: u32, packets: &Filter) -> Vec<&General> {
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
