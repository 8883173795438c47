//! What a slot does with its grants for others: it narrows one to a connection, writes and presents tickets, and promises
//! one to its successor.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use exos_xok::message::{GrantId, Secret};
use exos_xok::{Claim, Endpoint};

use super::books::Ledger;
use super::denied::Denied;
use super::grant::{Change, Grant, Owner, SlotId};
use super::successors::Awaited;
use super::tickets::Ticket;
use crate::clock::Now;
use crate::limits::NOBODY;
use crate::policy::Who;

impl Ledger {
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

    /// Writes a ticket for a grant; for a connection the only one, if its packets are the slot's.
    pub fn write_ticket(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        secret: Secret,
        now: Now,
    ) -> Result<(), Denied> {
        let held = self.of(slot, grant)?;
        if held.claim.remote.is_some() && held.is_whole_of(slot) {
            self.withdraw(slot, grant, now)?;
        }
        self.tickets.write(slot, grant, secret, now)
    }

    /// Takes back what was offered of a grant whose packets are the slot's: tickets, and those that have presented one.
    pub fn withdraw(&mut self, slot: SlotId, grant: GrantId, now: Now) -> Result<(), Denied> {
        let held = self.of(slot, grant)?;
        if !held.is_whole_of(slot) {
            return Err(Denied::NotFound("grant"));
        }
        let later = held.holders[1..].to_vec();
        for holder in later {
            self.successors.forget(holder, grant);
            let change = self.let_go(holder, grant, now);
            debug_assert_eq!(change, None, "its packets stay where they are");
        }
        self.tickets.forget_grant(grant);
        Ok(())
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
        self.add_holder(slot, id)?;
        self.tickets.use_up(secret);
        Ok(self.change(id))
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

    /// When the slot goes, its successor gets this grant, if it comes within this time; no time: nobody is awaited.
    pub fn await_successor(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        time: Duration,
    ) -> Result<(), Denied> {
        let claim = self.of(slot, grant)?.claim;
        if claim.port != 0 {
            return Err(Denied::NotWhole(claim));
        }
        match time.is_zero() {
            true => self.successors.promised.remove(&(slot, grant)),
            false => self.successors.promised.insert((slot, grant), time),
        };
        Ok(())
    }

    /// What slots have promised to their successors: slot, grant, for how long.
    pub fn promised(&self) -> impl Iterator<Item = (SlotId, GrantId, Duration)> {
        let all = self.successors.promised.iter();
        all.map(|((slot, grant), time)| (*slot, *grant, *time))
    }

    /// How long a successor of the slot would be awaited for a grant.
    pub fn promise_of(&self, slot: SlotId, grant: GrantId) -> Option<Duration> {
        self.successors.promised.get(&(slot, grant)).copied()
    }

    /// The slot leaves nothing of this grant to a successor.
    pub fn forget_promise(&mut self, slot: SlotId, grant: GrantId) {
        self.successors.forget(slot, grant);
    }

    /// When the first of it is nobody's.
    pub fn awaited_until(&self) -> Option<Now> {
        let all = self.successors.awaited.values();
        all.map(|awaited| awaited.until).min()
    }

    /// Awaits nobody any more for what is like that: it is nobody's.
    pub fn end_awaited(
        &mut self,
        ends: impl Fn(&Claim, &Awaited) -> bool,
        now: Now,
    ) -> Vec<Change> {
        let all = self.awaited().filter(|(_, claim, a)| ends(claim, a));
        let ended: Vec<GrantId> = all.map(|(id, ..)| id).collect();
        let changes = ended.into_iter().map(|id| self.let_go(NOBODY, id, now));
        changes.flatten().collect()
    }

    /// Takes over what an earlier daemon awaited, or what a program has left that ended without one.
    pub fn adopt_awaited(&mut self, id: GrantId, claim: Claim, awaited: Awaited) -> Change {
        let grant = Grant {
            claim,
            holders: vec![NOBODY],
            is_divided: false,
            retired: BTreeSet::new(),
            origin: Rc::clone(&awaited.owner.who),
        };
        self.successors.awaited.insert(id, awaited);
        self.adopt(id, grant)
    }
}
