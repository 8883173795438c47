//! Grants whose holder has gone after saying that another program of theirs follows: nobody gets their packets until it is there.
//!
//! What is *promised* is held as before; when its last holder goes, however that happens, it is *awaited*: in the books, of
//! no program ([`NOBODY`]), so that the packet path drops its packets in silence and nobody else gets them. Programs of the
//! same user may claim it, or what meets it; then, or when its time is over, it is awaited no more. Awaited grants count as
//! the user's, and are whole addresses' alone, of which an interface has few.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use exos_xok::Claim;
use exos_xok::message::GrantId;

use super::{Change, Denied, Grant, Ledger, Now, Owner, SlotId};
use crate::limits::NOBODY;
use crate::policy::Who;

/// Who had a grant for which a successor is awaited, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awaited {
    /// The program that has gone.
    pub owner: Owner,
    /// When it is nobody's.
    pub until: Now,
}

/// What is promised, and what is awaited.
#[derive(Default)]
pub(super) struct Successors {
    promised: BTreeMap<(SlotId, GrantId), Duration>,
    awaited: BTreeMap<GrantId, Awaited>,
}

impl Successors {
    /// The grant is not the slot's any more, or is given back: it leaves nothing behind.
    pub(super) fn forget(&mut self, slot: SlotId, grant: GrantId) {
        self.promised.remove(&(slot, grant));
    }

    /// The grant has a holder, or is gone.
    pub(super) fn end(&mut self, grant: GrantId) {
        self.awaited.remove(&grant);
    }

    pub(super) fn awaited(&self, grant: GrantId) -> Option<&Awaited> {
        self.awaited.get(&grant)
    }

    pub(super) fn owners(&mut self) -> impl Iterator<Item = &mut Owner> {
        self.awaited.values_mut().map(|awaited| &mut awaited.owner)
    }
}

impl Ledger {
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

    /// What is awaited: number, claim, whose it was.
    pub fn awaited(&self) -> impl Iterator<Item = (GrantId, &Claim, &Awaited)> {
        let all = self.successors.awaited.iter();
        all.map(|(id, awaited)| (*id, &self.grants[id].claim, awaited))
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
            origin: Rc::clone(&awaited.owner.who),
        };
        self.successors.awaited.insert(id, awaited);
        self.adopt(id, grant)
    }

    /// The slot goes: one holder less, as [`Self::let_go`]; what it has promised awaits its successor.
    pub(super) fn leave(&mut self, slot: SlotId, id: GrantId, now: Now) -> Option<Change> {
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
    pub(super) fn succeed(&mut self, slot: SlotId, id: GrantId, origin: Rc<Who>) {
        let grant = self.grants.get_mut(&id).expect("it is in the books");
        (grant.holders, grant.origin) = (vec![slot], origin);
        self.held.entry(slot).or_default().insert(id);
        self.successors.end(id);
    }

    /// Whether the packets of a grant are the slot's, or are kept for a program of its user.
    pub(super) fn is_for(&self, slot: SlotId, id: GrantId) -> bool {
        let uid = |owner: &Owner| owner.who.uid;
        match self.successors.awaited(id) {
            Some(awaited) => self.owner(slot).map(uid) == Some(uid(&awaited.owner)),
            // A second holder is not the owner: the packets are the first one's.
            None => self.grants[&id].slot() == slot,
        }
    }
}
