//! Who owns what: slots, grants, tickets, ports. Pure: no I/O, no clock.
//!
//! The rule that everything here serves: **granting never takes a packet from another owner.** A packet belongs to
//! the narrowest claim that matches it (`exos_xok::claim`). A new claim is refused when some packet that another
//! slot has now would become the asker's; it may lie *around* narrower claims of others, because those go on
//! winning. A packet changes hands only when its owner says so: by a ticket, or by giving back.
//!
//! - *Narrow*: a connection out of a claim that one holds. Same owner, so nothing changes hands yet.
//! - *Export* and *import*: a ticket moves a grant to the slot of whoever presents it.
//! - *Share*: a ticket adds a holder. Packets go on to the first; when it gives back or dies, to the next.
//!
//! Commands return what the packet path has to be told ([`Change`]), in order. Which claims exist is kept once, by
//! number; an ordered index by address, protocol, port and remote end finds what could overlap without looking at
//! the rest, so a claim costs the same with ten and with ten thousand.

mod ports;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use exos_xok::claim::ClaimError;
use exos_xok::message::{GrantId, Refusal, Secret};
use exos_xok::{Claim, Endpoint, Protocol};

use crate::limits::{GRANTS_MAX, GRANTS_PER_USER_MAX, TICKET_LIFE, TICKETS_PER_SLOT_MAX};
use ports::Ports;

/// The number of a program's place.
pub type SlotId = u32;

/// Time since some fixed moment.
pub type Now = Duration;

/// Whose a slot is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub program: String,
    /// The interface that it is on.
    pub interface: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            program, pid, uid, ..
        } = self;
        write!(f, "{program} (pid {pid}, uid {uid})")
    }
}

/// A claim that is somebody's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// What.
    pub claim: Claim,
    /// Whose, the one that gets the packets first. Never empty.
    pub holders: Vec<SlotId>,
}

impl Grant {
    /// The slot that gets the packets.
    pub fn slot(&self) -> SlotId {
        self.holders[0]
    }
}

/// What the packet path has to be told: this claim's packets go to that slot, or to none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which grant.
    pub grant: GrantId,
    /// What it covers.
    pub claim: Claim,
    /// Where its packets go now; `None` when the claim is nobody's any more.
    pub slot: Option<SlotId>,
}

/// Why something is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denied {
    /// Somebody else has it.
    Held(Claim, Owner),
    /// There is no such thing, or it is not the asker's.
    NotFound(&'static str),
    /// It is not a claim.
    Bad(ClaimError),
    /// It is not a part of the grant.
    NotPart(Claim),
    /// A bound is reached.
    Limit(String),
}

impl Denied {
    /// For a program.
    pub fn code(&self) -> Refusal {
        match self {
            Self::Held(..) => Refusal::Held,
            Self::NotFound(_) => Refusal::NotFound,
            Self::Bad(_) | Self::NotPart(_) => Refusal::BadRequest,
            Self::Limit(_) => Refusal::Limit,
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(claim, owner) => write!(f, "{claim} is held by {owner}"),
            Self::NotFound(what) => write!(f, "there is no such {what} of yours"),
            Self::Bad(error) => error.fmt(f),
            Self::NotPart(whole) => write!(f, "that is not a part of {whole}"),
            Self::Limit(text) => f.write_str(text),
        }
    }
}

/// What a ticket does for whoever presents it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TicketKind {
    /// The grant moves to him.
    Move,
    /// He holds it too.
    Share,
}

struct Ticket {
    secret: Secret,
    grant: GrantId,
    from: SlotId,
    kind: TicketKind,
    expires: Now,
}

/// Claims in the order in which what may overlap lies together.
type Key = (u32, IpAddr, Protocol, u16, Option<Endpoint>);

fn key(claim: &Claim) -> Key {
    (
        claim.interface,
        claim.local,
        claim.protocol,
        claim.port,
        claim.remote,
    )
}

/// The books.
pub struct Ledger {
    slots: BTreeMap<SlotId, Owner>,
    grants: BTreeMap<GrantId, Grant>,
    index: BTreeMap<Key, GrantId>,
    tickets: Vec<Ticket>,
    ports: Ports,
    last_id: GrantId,
}

impl Ledger {
    /// Empty books. The seed makes the chosen ports unforeseeable.
    pub fn new(seed: u64) -> Self {
        Self {
            slots: BTreeMap::new(),
            grants: BTreeMap::new(),
            index: BTreeMap::new(),
            tickets: Vec::new(),
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

    /// All grants.
    pub fn grants(&self) -> impl Iterator<Item = (GrantId, &Grant)> {
        self.grants.iter().map(|(id, grant)| (*id, grant))
    }

    /// What a slot holds.
    pub fn held_by(&self, slot: SlotId) -> impl Iterator<Item = (GrantId, &Grant)> {
        self.grants()
            .filter(move |(_, grant)| grant.holders.contains(&slot))
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

    /// A slot goes, with all that it holds.
    pub fn remove_slot(&mut self, slot: SlotId, now: Now) -> Vec<Change> {
        self.tickets.retain(|ticket| ticket.from != slot);
        let held: Vec<GrantId> = self.held_by(slot).map(|(id, _)| id).collect();
        let changes = held.into_iter().filter_map(|id| self.let_go(slot, id, now));
        let changes = changes.collect();
        self.slots.remove(&slot);
        changes
    }

    /// Grants a claim.
    pub fn claim(&mut self, slot: SlotId, claim: Claim) -> Result<Change, Denied> {
        claim.check().map_err(Denied::Bad)?;
        self.check_room(slot)?;
        if let Some((claim, owner)) = self.taken_by_other(slot, &claim) {
            return Err(Denied::Held(claim, owner.clone()));
        }
        if let Some(id) = self.index.get(&key(&claim)) {
            return Ok(self.change(*id)); // Held already, by this very slot.
        }
        Ok(self.enter(slot, claim))
    }

    /// Grants a claim on a port of our choosing, which policy allows.
    pub fn claim_ephemeral(
        &mut self,
        slot: SlotId,
        wanted: Claim,
        now: Now,
        allowed: impl Fn(&Claim) -> bool,
    ) -> Result<Change, Denied> {
        self.check_room(slot)?;
        let mut port = self.ports.first_candidate();
        for _ in 0..Ports::COUNT {
            let claim = Claim { port, ..wanted };
            claim.check().map_err(Denied::Bad)?;
            // Beside one's own as well: a port that one has is not a new one.
            let free = self.overlapping(&claim).next().is_none();
            if free && allowed(&claim) && !self.ports.rests(&claim, now) {
                return Ok(self.enter(slot, claim));
            }
            port = Ports::after(port);
        }
        let text = format!(
            "all ports that could be chosen are in use at {}",
            wanted.local
        );
        Err(Denied::Limit(text))
    }

    /// Grants the part of a grant that is one connection. `port` is for grants that name none.
    pub fn narrow(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        remote: Endpoint,
        port: u16,
    ) -> Result<Change, Denied> {
        let whole = self.of(slot, grant)?.claim;
        let part = Claim {
            port: if whole.port == 0 { port } else { whole.port },
            remote: Some(remote),
            ..whole
        };
        if !part.is_subset_of(&whole) || (port != 0 && port != part.port) {
            return Err(Denied::NotPart(whole));
        }
        self.claim(slot, part)
    }

    /// Gives a grant back.
    pub fn release(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        now: Now,
    ) -> Result<Option<Change>, Denied> {
        self.of(slot, grant)?;
        self.tickets.retain(|t| (t.from, t.grant) != (slot, grant));
        Ok(self.let_go(slot, grant, now))
    }

    /// Writes a ticket for a grant.
    pub fn write_ticket(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        kind: TicketKind,
        secret: Secret,
        now: Now,
    ) -> Result<(), Denied> {
        self.of(slot, grant)?;
        self.tickets.retain(|ticket| ticket.expires > now);
        let given = self.tickets.iter().filter(|t| t.from == slot).count();
        if given >= TICKETS_PER_SLOT_MAX {
            let text = format!(
                "{given} tickets have been given and not presented; present them, or wait a minute"
            );
            return Err(Denied::Limit(text));
        }
        let expires = now + TICKET_LIFE;
        let from = slot;
        self.tickets.push(Ticket {
            secret,
            grant,
            from,
            kind,
            expires,
        });
        Ok(())
    }

    /// Presents a ticket, which is then used up.
    pub fn present(&mut self, slot: SlotId, secret: &Secret, now: Now) -> Result<Change, Denied> {
        const NONE: Denied = Denied::NotFound("ticket, or it is older than a minute:");
        let at = self
            .tickets
            .iter()
            .position(|t| t.secret == *secret && t.expires > now);
        let ticket = &self.tickets[at.ok_or(NONE)?];
        let (id, from, kind) = (ticket.grant, ticket.from, ticket.kind);
        let interface = |slot| self.slots.get(&slot).map(|owner: &Owner| owner.interface);
        if interface(slot) != interface(from) {
            return Err(Denied::NotFound(
                "ticket on the interface of yours; it is another's:",
            ));
        }
        self.check_room(slot)?;
        self.tickets.remove(at.expect("found above"));
        let grant = self.grants.get_mut(&id).ok_or(NONE)?;
        match kind {
            TicketKind::Share if grant.holders.contains(&slot) => {}
            TicketKind::Share => grant.holders.push(slot),
            TicketKind::Move => {
                let place = grant.holders.iter().position(|holder| *holder == from);
                grant.holders[place.ok_or(NONE)?] = slot;
                dedup(&mut grant.holders);
            }
        }
        Ok(self.change(id))
    }

    /// Takes over a grant from the books of an earlier daemon.
    pub fn adopt(&mut self, id: GrantId, grant: Grant) -> Change {
        self.last_id = self.last_id.max(id);
        self.index.insert(key(&grant.claim), id);
        self.grants.insert(id, grant);
        self.change(id)
    }

    /// The grant, when the slot holds it.
    fn of(&self, slot: SlotId, grant: GrantId) -> Result<&Grant, Denied> {
        let found = self.grants.get(&grant);
        let held = found.filter(|grant| grant.holders.contains(&slot));
        held.ok_or(Denied::NotFound("grant"))
    }

    fn check_room(&self, slot: SlotId) -> Result<(), Denied> {
        let owner = self.slots.get(&slot).ok_or(Denied::NotFound("slot"))?;
        let of_user = |slot: SlotId| self.slots.get(&slot).is_some_and(|o| o.uid == owner.uid);
        // Counted only when it could matter: nobody reaches his bound before the books have as many.
        let near = self.grants.len() >= GRANTS_PER_USER_MAX;
        let mine = || self.grants.values().filter(|g| of_user(g.slot())).count();
        if self.grants.len() >= GRANTS_MAX || (near && mine() >= GRANTS_PER_USER_MAX) {
            let text = format!(
                "there are {} grants already; release some",
                self.grants.len()
            );
            return Err(Denied::Limit(text));
        }
        Ok(())
    }

    /// A claim of another slot that would lose packets to this one, and its owner.
    fn taken_by_other(&self, slot: SlotId, claim: &Claim) -> Option<(Claim, &Owner)> {
        let grants = self.overlapping(claim).map(|id| &self.grants[&id]);
        // A second holder is not the owner: the packets are the first one's.
        let mut theirs = grants.filter(|grant| grant.slot() != slot);
        // What is narrower goes on winning. Connections only: around the port of somebody else nobody listens.
        let losing = |grant: &&Grant| grant.claim.remote.is_none() || grant.claim == *claim;
        let grant = theirs.find(losing)?;
        Some((grant.claim, self.slots.get(&grant.slot())?))
    }

    /// The grants whose packets could match a claim too.
    fn overlapping(&self, claim: &Claim) -> impl Iterator<Item = GrantId> {
        let claim = *claim;
        let protocols = match claim.protocol {
            Protocol::Any => Protocol::ALL.to_vec(),
            protocol => vec![Protocol::Any, protocol],
        };
        let spans = protocols.into_iter().flat_map(move |protocol| {
            let all_ports = (0, u16::MAX);
            let (one, other) = match claim.port {
                0 => (all_ports, None),
                port => ((0, 0), Some((port, port))),
            };
            [Some(one), other]
                .into_iter()
                .flatten()
                .map(move |ports| (protocol, ports))
        });
        spans.flat_map(move |(protocol, (first, last))| {
            let from = (claim.interface, claim.local, protocol, first, None);
            let end = (
                claim.interface,
                claim.local,
                protocol,
                last,
                Some(LAST_ENDPOINT),
            );
            let range = self
                .index
                .range((Bound::Included(from), Bound::Included(end)));
            let ids = range.map(|(_, id)| *id);
            ids.filter(move |id| self.grants[id].claim.overlaps(&claim))
        })
    }

    fn enter(&mut self, slot: SlotId, claim: Claim) -> Change {
        loop {
            self.last_id = self.last_id.wrapping_add(1).max(1);
            if !self.grants.contains_key(&self.last_id) {
                break;
            }
        }
        let holders = vec![slot];
        self.index.insert(key(&claim), self.last_id);
        self.grants.insert(self.last_id, Grant { claim, holders });
        self.change(self.last_id)
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
        let claim = grant.claim;
        let next = grant.holders.first().copied();
        if next.is_none() {
            self.grants.remove(&id);
            self.index.remove(&key(&claim));
            self.tickets.retain(|ticket| ticket.grant != id);
            self.ports.rest(&claim, now);
        }
        (next != Some(before)).then_some(Change {
            grant: id,
            claim,
            slot: next,
        })
    }
}

/// Behind every other in the order of endpoints.
const LAST_ENDPOINT: Endpoint = Endpoint {
    ip: IpAddr::V6(std::net::Ipv6Addr::new(
        0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff,
    )),
    port: u16::MAX,
};

fn dedup(holders: &mut Vec<SlotId>) {
    let mut seen = Vec::new();
    holders.retain(|holder| {
        let new = !seen.contains(holder);
        seen.push(*holder);
        new
    });
}

#[cfg(test)]
mod tests;
