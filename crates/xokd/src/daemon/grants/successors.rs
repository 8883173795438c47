//! Successors that programs announce: nobody gets a grant of theirs meanwhile, whichever way they end.
//!
//! What the ledger awaits somebody for leads to a slot that is always empty, so the kernel drops its packets, those of other
//! programs and of the host too; a daemon that ends changes nothing about it. The daemon goes on answering ARP, neighbour
//! discovery, and what the grant does not cover. Policy is asked when it is announced, when the program ends and whenever it
//! changes: what it does not allow any more is answered for at once, as without a successor.

use std::rc::Rc;
use std::time::Duration;

use exos_filter::gate::Counter;
use exos_xok::Claim;
use exos_xok::limits::SUCCESSOR_MS_MAX;
use exos_xok::message::{Answer, GrantId, Refusal, Revoked};
use serde_json::{Value, json};

use crate::clock::{Now, now};
use crate::daemon::Daemon;
use crate::daemon::answers::{Answered, plain, refuse};
use crate::gate::FoundGrant;
use crate::interface::Interface;
use crate::ledger::{Awaited, Owner, SlotId};
use crate::limits::NOBODY;
use crate::policy::Who;
use crate::state::{self, GroupLists, State};

impl Daemon {
    pub(in crate::daemon) fn await_successor(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        ms: u32,
    ) -> Answered {
        if ms > SUCCESSOR_MS_MAX {
            let text = format!("a successor is awaited for {SUCCESSOR_MS_MAX} ms at most");
            return Err(refuse(Refusal::BadRequest, text));
        }
        let held = self.ledger.grant(grant).map(|grant| grant.claim);
        if held.is_some_and(|claim| self.is_shared(&claim)) {
            let text = "the host's own stack answers for its addresses";
            return Err(refuse(Refusal::Unsupported, text));
        }
        let time = Duration::from_millis(ms.into());
        self.ledger.await_successor(slot, grant, time)?;
        self.unsaved.insert(self.attachments[&slot].interface);
        plain(Answer::Done)
    }

    /// A program that ends leaves to a successor what policy still allows, and nothing else.
    pub(in crate::daemon) fn check_promises(&mut self, slot: SlotId) {
        let all = self.ledger.promised().filter(|(of, ..)| *of == slot);
        let promised: Vec<GrantId> = all.map(|(_, grant, _)| grant).collect();
        if promised.is_empty() || !self.attachments.contains_key(&slot) {
            return;
        }
        let refused = self.not_allowed(slot);
        let is_refused = |grant: &GrantId| {
            refused.contains(&Revoked::Slot) || refused.contains(&Revoked::Grant(*grant))
        };
        for grant in promised.into_iter().filter(is_refused) {
            self.ledger.forget_promise(slot, grant);
        }
    }

    /// Awaits nobody any more whose time is over.
    pub(in crate::daemon) fn end_awaited(&mut self, now: Now) {
        if self.ledger.awaited_until().is_some_and(|at| at <= now) {
            let ended = self
                .ledger
                .end_awaited(|_, awaited| awaited.until <= now, now);
            ended.iter().for_each(|change| self.apply(change));
        }
    }

    /// Nor for what policy does not allow any more.
    pub(in crate::daemon) fn end_awaited_not_allowed(&mut self) {
        let all = self.ledger.awaited();
        let refused = all.filter(|(_, claim, of)| !self.may_await(claim, &of.owner.who));
        let refused: Vec<Claim> = refused.map(|(_, claim, _)| *claim).collect();
        let ends = |claim: &Claim, _: &Awaited| refused.contains(claim);
        for change in self.ledger.end_awaited(ends, now()) {
            self.apply(&change);
        }
    }

    /// Nor for what lies in a claim that the successor has made, which has its packets instead.
    pub(in crate::daemon) fn end_awaited_within(&mut self, claim: &Claim) {
        let lies_within = |inner: &Claim, _: &Awaited| inner.is_subset_of(claim);
        for change in self.ledger.end_awaited(lies_within, now()) {
            self.apply(&change);
        }
    }

    /// Whether a user may have a program on the interface that has this claim, on an address for which nobody else answers.
    fn may_await(&self, claim: &Claim, who: &Who) -> bool {
        let Some(interface) = self.interface(claim.interface) else {
            return false;
        };
        let (policy, name) = (&self.config.policy, &interface.link.name);
        let alone = interface.has(claim.local) && !self.is_shared(claim);
        alone && policy.attach(who, name, None).is_ok() && policy.allows(who, name, claim)
    }

    /// What slots of an interface have promised, for a successor of this daemon.
    pub(in crate::daemon) fn saved_promises(&self, index: u32) -> Vec<state::Promised> {
        let is_here = |slot: &SlotId| {
            self.attachments
                .get(slot)
                .is_some_and(|s| s.interface == index)
        };
        let here = self.ledger.promised().filter(|(slot, ..)| is_here(slot));
        let saved = here.map(|(slot, grant, time)| state::Promised {
            slot,
            grant,
            ms: time.as_millis() as u64,
        });
        saved.collect()
    }

    /// What is awaited on an interface, likewise.
    pub(in crate::daemon) fn saved_awaited(
        &self,
        index: u32,
        groups: &mut GroupLists,
    ) -> Vec<state::Awaited> {
        let all = self.ledger.awaited();
        let here = all.filter(|(_, claim, _)| claim.interface == index);
        let saved = here.map(|(grant, _, Awaited { owner, until })| state::Awaited {
            grant,
            uid: owner.who.uid,
            groups: groups.place(&owner.who, &self.config.policy),
            pid: owner.pid,
            program: owner.program.clone(),
            until_ms: until.as_millis() as u64,
        });
        saved.collect()
    }

    /// Whose successor gets a grant that an earlier daemon has left to nobody, or to a program that has ended meanwhile.
    pub(in crate::daemon) fn left_to_successor(
        &self,
        saved: &State,
        found: &FoundGrant,
    ) -> Option<Awaited> {
        let (id, claim) = (found.id, found.claim);
        let slot = found.members.first()?.0;
        let (who, pid, program, until) = if slot == NOBODY {
            let awaited = saved.awaited.iter().find(|awaited| awaited.grant == id)?;
            let until = Now::from_millis(awaited.until_ms);
            let who = saved.who(awaited.uid, &awaited.groups)?;
            (who, awaited.pid, &awaited.program, until)
        } else {
            let mut promised = saved.promised.iter();
            let promised = promised.find(|p| (p.slot, p.grant) == (slot, id))?;
            let left = saved.slots.iter().find(|left| left.slot == slot)?;
            let until = now() + Duration::from_millis(promised.ms);
            (left.who.clone(), left.pid, &left.program, until)
        };
        let latest = now() + Duration::from_millis(SUCCESSOR_MS_MAX.into());
        let owner = Owner {
            standing: self.standing(&who),
            who: Rc::new(who),
            pid,
            program: program.clone(),
            interface: claim.interface,
        };
        (claim.check().is_ok() && until > now()).then_some(Awaited {
            owner,
            until: until.min(latest),
        })
    }

    /// Takes over what programs that are there have promised to theirs.
    pub(in crate::daemon) fn adopt_promises(&mut self, saved: &State) {
        for promised in &saved.promised {
            let ms = promised.ms.min(SUCCESSOR_MS_MAX.into());
            let time = Duration::from_millis(ms);
            // Of slots that are not there any more there is no such grant.
            let _ = self
                .ledger
                .await_successor(promised.slot, promised.grant, time);
        }
    }

    /// What is awaited on an interface, for the report.
    pub(in crate::daemon) fn report_awaited(&self, interface: &Interface) -> Vec<Value> {
        let index = interface.link.index;
        let here = self.ledger.awaited();
        let here = here.filter(|(_, claim, _)| claim.interface == index);
        let now = now();
        here.map(|(id, claim, Awaited { owner, until })| {
            json!({
                "id": id,
                "claim": claim.to_string(),
                "program": owner.program,
                "pid": owner.pid,
                "uid": owner.who.uid,
                "left_ms": until.saturating_sub(now).as_millis() as u64,
            })
        })
        .collect()
    }
}

/// How many packets were dropped while a successor of theirs was awaited.
pub(in crate::daemon) fn dropped(interface: &Interface) -> u64 {
    let counters = interface.gate.counters(NOBODY).unwrap_or_default();
    let dropped = counters.get(Counter::NoRing as usize);
    dropped.copied().unwrap_or_default()
}
