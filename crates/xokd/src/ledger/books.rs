//! The books: which slots there are, what each holds, and what it does with grants of its own.
//!
//! Which claims exist is kept once, by number. Every change of hands goes through [`Ledger::claim_by`],
//! [`Ledger::let_go`] and what is next to them here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::rc::Rc;

use exos_xok::Claim;
use exos_xok::message::GrantId;

use super::denied::Denied;
use super::generals::{General, Generals};
use super::grant::{Change, Grant, Owner, SlotId};
use super::index::Index;
use super::ports::Ports;
use super::room;
use super::successors::{Awaited, Successors};
use super::tickets::Tickets;
use crate::clock::Now;
use crate::limits::{NOBODY, PORTS_BESIDE_FILTERS};
use crate::policy::Who;
use crate::pool::Standing;

/// The books.
pub struct Ledger {
    pub(super) slots: BTreeMap<SlotId, Owner>,
    pub(super) grants: BTreeMap<GrantId, Grant>,
    /// What each slot holds.
    pub(super) held: BTreeMap<SlotId, BTreeSet<GrantId>>,
    index: Index,
    pub(super) generals: Generals,
    pub(super) tickets: Tickets,
    pub(super) successors: Successors,
    ports: Ports,
    pub(super) last_id: GrantId,
}

impl Ledger {
    /// Empty books. The seed makes the chosen ports unforeseeable.
    pub fn new(seed: u64) -> Self {
        Self {
            slots: BTreeMap::new(),
            grants: BTreeMap::new(),
            held: BTreeMap::new(),
            index: Index::default(),
            generals: Generals::default(),
            tickets: Tickets::default(),
            successors: Successors::default(),
            ports: Ports::new(seed),
            last_id: 0,
        }
    }

    /// Whose a slot is.
    pub fn owner(&self, slot: SlotId) -> Option<&Owner> {
        self.slots.get(&slot)
    }

    /// All slots.
    pub fn slots(&self) -> impl Iterator<Item = (SlotId, &Owner)> {
        self.slots.iter().map(|(id, owner)| (*id, owner))
    }

    /// A grant.
    pub fn grant(&self, id: GrantId) -> Option<&Grant> {
        self.grants.get(&id)
    }

    /// The grant of this very claim.
    pub(super) fn number_of(&self, claim: &Claim) -> Option<GrantId> {
        self.index.get(claim)
    }

    /// Whether this very claim is somebody's.
    pub fn has(&self, claim: &Claim) -> bool {
        self.index.get(claim).is_some()
    }

    /// All grants.
    pub fn grants(&self) -> impl Iterator<Item = (GrantId, &Grant)> {
        self.grants.iter().map(|(id, grant)| (*id, grant))
    }

    /// What a slot holds.
    pub fn held_by(&self, slot: SlotId) -> impl Iterator<Item = (GrantId, &Grant)> {
        let ids = self.held.get(&slot).into_iter().flatten();
        ids.map(|id| (*id, &self.grants[id]))
    }

    /// What is awaited: number, claim, whose it was.
    pub fn awaited(&self) -> impl Iterator<Item = (GrantId, &Claim, &Awaited)> {
        let all = self.successors.awaited.iter();
        all.map(|(id, awaited)| (*id, &self.grants[id].claim, awaited))
    }

    /// How many grants a slot holds.
    pub fn count_held_by(&self, slot: SlotId) -> usize {
        self.held.get(&slot).map_or(0, BTreeSet::len)
    }

    /// A new slot.
    ///
    /// # Panics
    ///
    /// When the number is taken: the caller chose one that is free.
    pub fn add_slot(&mut self, slot: SlotId, owner: Owner) {
        let before = self.slots.insert(slot, owner);
        assert!(before.is_none(), "slot {slot} is taken");
    }

    /// The policy knows users otherwise than before.
    pub fn set_standings(&mut self, standing: impl Fn(&Who) -> Standing) {
        for owner in self.slots.values_mut().chain(self.successors.owners()) {
            owner.standing = standing(&owner.who);
        }
    }

    /// Another process of the owner's has a slot now.
    pub fn set_process(&mut self, slot: SlotId, pid: u32) {
        if let Some(owner) = self.slots.get_mut(&slot) {
            owner.pid = pid;
        }
    }

    /// A slot goes, with all that it holds but what it has promised to a successor.
    pub fn remove_slot(&mut self, slot: SlotId, now: Now) -> Vec<Change> {
        self.tickets.forget_slot(slot);
        self.generals.remove_slot(slot);
        let held: Vec<GrantId> = self.held_by(slot).map(|(id, _)| id).collect();
        let changes = held.into_iter().filter_map(|id| self.leave(slot, id, now));
        let changes = changes.collect();
        self.slots.remove(&slot);
        self.held.remove(&slot);
        changes
    }

    /// Grants a claim.
    pub fn claim(&mut self, slot: SlotId, claim: Claim) -> Result<Change, Denied> {
        let origin = self.who(slot)?;
        self.claim_by(slot, claim, origin)
    }

    /// Grants a claim by somebody's right.
    pub(super) fn claim_by(
        &mut self,
        slot: SlotId,
        claim: Claim,
        origin: Rc<Who>,
    ) -> Result<Change, Denied> {
        claim.check().map_err(Denied::Bad)?;
        self.check_room(slot, &claim)?;
        self.check_free(slot, &claim)?;
        if let Some(general) = self.generals.having(slot, &claim)
            && !self.has_packets_of(slot, &claim)
        {
            return Err(self.held_general(general));
        }
        if let Some(id) = self.index.get(&claim) {
            if self.successors.awaited(id).is_some() {
                self.succeed(slot, id, origin);
            }
            return Ok(self.change(id)); // Held already, by this very slot.
        }
        Ok(self.enter(slot, claim, origin))
    }

    /// Grants a claim on a port of our choosing, of those that policy allows.
    pub fn claim_ephemeral(
        &mut self,
        slot: SlotId,
        wanted: Claim,
        now: Now,
        allowed: &[RangeInclusive<u16>],
    ) -> Result<Change, Denied> {
        let origin = self.who(slot)?;
        let mut refused = None;
        for _ in 0..PORTS_BESIDE_FILTERS {
            let Some(port) = self.ports.choose(&wanted, allowed, now) else {
                let text = format!(
                    "all ports that could be chosen are in use at {}",
                    wanted.local
                );
                return Err(Denied::Limit(text));
            };
            // Nobody has the port; all ports of the protocol or the address somebody may.
            let claim = Claim { port, ..wanted };
            match self.claim_by(slot, claim, Rc::clone(&origin)) {
                Err(Denied::HeldByFilter(text, owner)) => refused = Some((text, owner)),
                claimed => return claimed,
            }
        }
        let (text, owner) = refused.expect("there was an attempt");
        Err(Denied::HeldByFilter(text, owner))
    }

    /// Gives a grant back.
    pub fn release(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        now: Now,
    ) -> Result<Option<Change>, Denied> {
        self.of(slot, grant)?;
        self.tickets.forget(slot, grant);
        self.successors.forget(slot, grant);
        Ok(self.let_go(slot, grant, now))
    }

    /// Takes over a grant from the books of an earlier daemon.
    pub fn adopt(&mut self, id: GrantId, grant: Grant) -> Change {
        self.last_id = self.last_id.max(id);
        self.index.insert(&grant.claim, id);
        self.ports.take(&grant.claim);
        for holder in &grant.holders {
            self.held.entry(*holder).or_default().insert(id);
        }
        self.grants.insert(id, grant);
        self.change(id)
    }

    /// Refuses one grant more, of this claim, when the slot's user has too many or leaves too few to others.
    pub(super) fn check_room(&self, slot: SlotId, claim: &Claim) -> Result<(), Denied> {
        let asker = self.owner(slot).ok_or(Denied::NotFound("slot"))?;
        let held = self.slots();
        let held = held.map(|(slot, owner)| (owner, self.count_held_by(slot)));
        let kept = self.awaited().map(|(.., awaited)| (&awaited.owner, 1));
        room::check_grants(asker, &held.chain(kept).collect::<Vec<_>>())?;
        if !claim.is_echo() {
            return Ok(());
        }
        let echoes = self.grants.values().filter(|g| g.claim.is_echo());
        let holders = echoes.flat_map(|g| &g.holders);
        let held = holders.filter_map(|slot| Some((self.owner(*slot)?, 1)));
        let kept = self.awaited().filter(|(_, claim, _)| claim.is_echo());
        let kept = kept.map(|(.., awaited)| (&awaited.owner, 1));
        room::check_echoes(asker, &held.chain(kept).collect::<Vec<_>>())
    }

    fn who(&self, slot: SlotId) -> Result<Rc<Who>, Denied> {
        let owner = self.owner(slot).ok_or(Denied::NotFound("slot"))?;
        Ok(Rc::clone(&owner.who))
    }

    /// The grant, when the slot holds it.
    pub(super) fn of(&self, slot: SlotId, grant: GrantId) -> Result<&Grant, Denied> {
        let found = self.grants.get(&grant);
        let held = found.filter(|grant| grant.holders.contains(&slot));
        held.ok_or(Denied::NotFound("grant"))
    }

    /// Refuses a claim by which another slot, or anyone who one is kept for, would lose packets.
    fn check_free(&self, slot: SlotId, claim: &Claim) -> Result<(), Denied> {
        // What is narrower goes on winning. Connections only: around the port of somebody else nobody listens.
        let losing = self.index.overlapping_ports(claim);
        let mut losing = losing.chain(self.index.get(claim));
        let Some(id) = losing.find(|id| !self.is_for(slot, *id)) else {
            return Ok(());
        };
        let grant = &self.grants[&id];
        Err(match self.successors.awaited(id) {
            Some(awaited) => Denied::Awaited(grant.claim, awaited.owner.clone()),
            None => Denied::Held(grant.claim, self.slots[&grant.slot()].clone()),
        })
    }

    /// Whether all packets of a claim are the slot's already, or are kept for it, by an exact grant around it.
    fn has_packets_of(&self, slot: SlotId, claim: &Claim) -> bool {
        let near = self.index.overlapping_ports(claim);
        let mut near = near.chain(self.index.get(claim));
        near.any(|id| self.is_for(slot, id) && claim.is_subset_of(&self.grants[&id].claim))
    }

    /// A number that no grant has.
    pub(super) fn next_id(&mut self) -> GrantId {
        loop {
            self.last_id = self.last_id.wrapping_add(1).max(1);
            let taken = self.grants.contains_key(&self.last_id);
            if !taken && !self.generals.contains(self.last_id) {
                return self.last_id;
            }
        }
    }

    fn enter(&mut self, slot: SlotId, claim: Claim, origin: Rc<Who>) -> Change {
        let id = self.next_id();
        let grant = Grant {
            claim,
            holders: vec![slot],
            is_divided: false,
            retired: BTreeSet::new(),
            origin,
        };
        self.index.insert(&claim, id);
        self.ports.take(&claim);
        self.held.entry(slot).or_default().insert(id);
        self.grants.insert(id, grant);
        self.change(id)
    }

    pub(super) fn change(&self, id: GrantId) -> Change {
        let grant = &self.grants[&id];
        Change {
            grant: id,
            claim: grant.claim,
            slot: Some(grant.slot()),
        }
    }

    /// One holder less; the grant goes with the last. `None` when its packets go where they went.
    pub(super) fn let_go(&mut self, slot: SlotId, id: GrantId, now: Now) -> Option<Change> {
        let grant = self.grants.get_mut(&id)?;
        let before = grant.slot();
        grant.holders.retain(|holder| *holder != slot);
        grant.retired.remove(&slot);
        let is_divided = grant.is_divided;
        if let Some(held) = self.held.get_mut(&slot) {
            held.remove(&id);
        }
        let claim = grant.claim;
        let next = grant.holders.first().copied();
        if next.is_none() {
            self.grants.remove(&id);
            self.index.remove(&claim);
            self.tickets.forget_grant(id);
            self.successors.end(id);
            let port = Claim {
                remote: None,
                ..claim
            };
            if !self.index.has_at(&port) {
                self.ports.rest(&claim, now);
            }
        }
        (is_divided || next != Some(before)).then_some(Change {
            grant: id,
            claim,
            slot: next,
        })
    }

    pub(super) fn held_general(&self, general: &General) -> Denied {
        let owner = self
            .owner(general.slot)
            .expect("filters go with their slots");
        Denied::HeldByFilter(general.text.clone(), owner.clone())
    }

    /// The slot goes: one holder less, as [`Self::let_go`]; what it has promised awaits its successor.
    fn leave(&mut self, slot: SlotId, id: GrantId, now: Now) -> Option<Change> {
        let time = self.successors.promised.remove(&(slot, id));
        let grant = self.grants.get_mut(&id)?;
        let Some(time) = time.filter(|_| grant.holders == [slot]) else {
            return self.let_go(slot, id, now);
        };
        grant.holders = vec![NOBODY];
        self.tickets.forget_grant(id);
        let owner = self.slots[&slot].clone();
        let until = now + time;
        self.successors.awaited.insert(id, Awaited { owner, until });
        Some(self.change(id))
    }

    /// Gives what was awaited to the successor.
    fn succeed(&mut self, slot: SlotId, id: GrantId, origin: Rc<Who>) {
        let grant = self.grants.get_mut(&id).expect("it is in the books");
        (grant.holders, grant.origin) = (vec![slot], origin);
        self.held.entry(slot).or_default().insert(id);
        self.successors.end(id);
    }

    /// Whether the packets of a grant are the slot's, or are kept for a program of its user.
    fn is_for(&self, slot: SlotId, id: GrantId) -> bool {
        let uid = |owner: &Owner| owner.who.uid;
        match self.successors.awaited(id) {
            Some(awaited) => self.owner(slot).map(uid) == Some(uid(&awaited.owner)),
            // A second holder is not the owner: the packets are the first one's.
            None => self.grants[&id].is_whole_of(slot),
        }
    }
}
