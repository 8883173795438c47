//! Who owns what: slots, grants, tickets, ports. Pure: no I/O, no clock.
//!
//! The rule that everything here serves: **granting never takes a packet from another owner.** A packet belongs to
//! the narrowest claim that matches it (`exos_xok::claim`). A new claim is refused when some packet that another
//! slot has now would become the asker's; it may lie *around* narrower claims of others, because those go on
//! winning. A packet changes hands only when its owner says so: by a ticket, or by giving back.
//!
//! - *Narrow*: a connection out of a claim that one holds. Same owner, so nothing changes hands yet.
//! - *General*: all packets that a filter matches and no exact claim (`generals`).
//! - *Share* and *import*: a ticket makes the slot of the one that presents it a holder. Packets go on to the first
//!   holder; when it gives back or dies, to the next. So a grant is handed over by sharing it and giving it back.
//! - *Await*: what a program promised to its successor is nobody's for a while when it goes (`successors`).
//!
//! Commands return what the packet path has to be told ([`Change`]), in order. Which claims exist is kept once, by
//! number; `index` finds what could overlap, `tickets` are what passes grants on, `ports` which are free and rested.

mod denied;
mod generals;
mod grant;
mod index;
mod ports;
mod room;
mod successors;
mod tickets;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use exos_xok::message::{GrantId, Secret};
use exos_xok::{Claim, Endpoint};

use crate::limits::PORTS_BESIDE_FILTERS;
use crate::policy::{Standing, Who};
pub use denied::Denied;
pub use generals::General;
use generals::Generals;
pub use grant::{Change, Grant, Owner};
use index::Index;
use ports::Ports;
pub use successors::Awaited;
use successors::Successors;
pub use tickets::Ticket;
use tickets::Tickets;

/// The number of a program's place.
pub type SlotId = u32;

/// Time since some fixed moment.
pub type Now = Duration;

/// The books.
pub struct Ledger {
    slots: BTreeMap<SlotId, Owner>,
    grants: BTreeMap<GrantId, Grant>,
    /// What each slot holds.
    held: BTreeMap<SlotId, BTreeSet<GrantId>>,
    index: Index,
    generals: Generals,
    tickets: Tickets,
    successors: Successors,
    ports: Ports,
    last_id: GrantId,
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
    fn claim_by(&mut self, slot: SlotId, claim: Claim, origin: Rc<Who>) -> Result<Change, Denied> {
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

    /// The part of a grant that is one connection, and by whose right the grant is held. `port` is for grants that name
    /// none.
    pub fn part_of(
        &self,
        slot: SlotId,
        grant: GrantId,
        remote: Endpoint,
        port: u16,
    ) -> Result<(Claim, Rc<Who>), Denied> {
        let held = self.of(slot, grant)?;
        let whole = held.claim;
        let part = Claim {
            port: if whole.port == 0 { port } else { whole.port },
            remote: Some(remote),
            ..whole
        };
        if !part.is_subset_of(&whole) || (port != 0 && port != part.port) {
            return Err(Denied::NotPart(whole));
        }
        Ok((part, Rc::clone(&held.origin)))
    }

    /// Grants the part of a grant that is one connection, as [`Self::part_of`] has it.
    pub fn narrow(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        remote: Endpoint,
        port: u16,
    ) -> Result<Change, Denied> {
        let (part, origin) = self.part_of(slot, grant, remote, port)?;
        self.claim_by(slot, part, origin)
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

    /// Writes a ticket for a grant.
    pub fn write_ticket(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        secret: Secret,
        now: Now,
    ) -> Result<(), Denied> {
        self.of(slot, grant)?;
        self.tickets.write(slot, grant, secret, now)
    }

    /// What a ticket is for, while it is good.
    pub fn grant_of_ticket(&self, secret: &Secret, now: Now) -> Option<&Grant> {
        self.grant(self.tickets.find(secret, now)?.grant)
    }

    /// Presents a ticket, which is then used up.
    pub fn present(&mut self, slot: SlotId, secret: &Secret, now: Now) -> Result<Change, Denied> {
        const NONE: Denied = Denied::NotFound("ticket, or it is older than a minute:");
        let ticket = self.tickets.find(secret, now).ok_or(NONE)?;
        let (id, from) = (ticket.grant, ticket.from);
        let interface = |slot| self.slots.get(&slot).map(|owner: &Owner| owner.interface);
        if interface(slot) != interface(from) {
            return Err(Denied::NotFound(
                "ticket on the interface of yours; it is another's:",
            ));
        }
        self.check_room(slot, &self.grants.get(&id).ok_or(NONE)?.claim)?;
        self.tickets.use_up(secret);
        let grant = self.grants.get_mut(&id).ok_or(NONE)?;
        if !grant.holders.contains(&slot) {
            grant.holders.push(slot);
        }
        self.held.entry(slot).or_default().insert(id);
        Ok(self.change(id))
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

    fn who(&self, slot: SlotId) -> Result<Rc<Who>, Denied> {
        let owner = self.owner(slot).ok_or(Denied::NotFound("slot"))?;
        Ok(Rc::clone(&owner.who))
    }

    /// The tickets that nobody has presented yet.
    pub fn tickets(&self) -> &[Ticket] {
        &self.tickets.0
    }

    /// Takes over a ticket likewise, when its giver has the grant.
    pub fn adopt_ticket(&mut self, ticket: Ticket) {
        if self.of(ticket.from, ticket.grant).is_ok() {
            self.tickets.0.push(ticket);
        }
    }

    /// Whether others hold a grant, too, or may come to.
    pub fn is_passed_on(&self, id: GrantId) -> bool {
        let shared = self.grant(id).is_some_and(|g| g.holders.len() > 1);
        shared || self.tickets.0.iter().any(|ticket| ticket.grant == id)
    }

    /// The grant, when the slot holds it.
    fn of(&self, slot: SlotId, grant: GrantId) -> Result<&Grant, Denied> {
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
    fn next_id(&mut self) -> GrantId {
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
            origin,
        };
        self.index.insert(&claim, id);
        self.ports.take(&claim);
        self.held.entry(slot).or_default().insert(id);
        self.grants.insert(id, grant);
        self.change(id)
    }

    fn change(&self, id: GrantId) -> Change {
        let grant = &self.grants[&id];
        Change {
            grant: id,
            claim: grant.claim,
            slot: Some(grant.slot()),
        }
    }

    /// One holder less; the grant goes with the last. `None` when its packets go where they went.
    fn let_go(&mut self, slot: SlotId, id: GrantId, now: Now) -> Option<Change> {
        let grant = self.grants.get_mut(&id)?;
        let before = grant.slot();
        grant.holders.retain(|holder| *holder != slot);
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
        (next != Some(before)).then_some(Change {
            grant: id,
            claim,
            slot: next,
        })
    }
}

#[cfg(test)]
mod tests;
