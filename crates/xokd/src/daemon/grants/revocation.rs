//! Taking back what policy does not allow any more: first asked for, then taken.
//!
//! A slot, a grant or a part of a rate is asked for by a notice that says until when ([`REVOKE_TIME`]). What is given
//! back in time is gone in order; what is not is taken then. What policy allows again before that is kept. A slot's
//! grants are looked at by the right of the one that claimed them first, too: a program has by a ticket what its giver may.
//! What is asked for cannot be kept by cutting it up or handing it on: parts of it and tickets for it are refused, and
//! at the deadline it is looked at again what policy does not allow.
//!
//! A slot that is taken ends its connection, with a farewell that says so: a connection is the life of a slot, and who may
//! have no slot has no use for one.
//!
//! A program that is away, because the daemon was, is told when it comes back; its time runs all the same.

use exos_xok::Claim;
use exos_xok::message::{Farewell, GrantId, Notice, Revoked};

use crate::clock::{Now, now};
use crate::daemon::Daemon;
use crate::daemon::attachment::{Attachment, Change, Terms};
use crate::daemon::bounds::own_user;
use crate::gate::shares;
use crate::ledger::SlotId;
use crate::limits::REVOKE_TIME;
use crate::policy::{Policy, Rule, Who};
use crate::server::Cut;

/// What a person is told.
const REASON: &str = "policy does not allow it any more";

fn terms_of(rule: &Rule) -> Terms {
    (rule.weight, rule.rate_max)
}

/// True when there is something that the one has and the other has not.
fn is_more((weight, cap): Terms, (other_weight, other_cap): Terms) -> bool {
    let rate = |cap: Option<u64>| cap.unwrap_or(u64::MAX);
    weight > other_weight || rate(cap) > rate(other_cap)
}

impl Daemon {
    /// What another policy says that [`Self::set_policy`] does not do, in words.
    pub fn needing_restart(&self, policy: &Policy) -> Vec<String> {
        self.config.policy.needing_restart(policy)
    }

    /// Goes by other rules from now on. Which interfaces are served stays: that takes a restart. Returns how many
    /// slots, grants and rates are asked for.
    pub fn set_policy(&mut self, policy: Policy) -> usize {
        self.config.policy.rules = policy.rules;
        let policy = &self.config.policy;
        let standing = |who: &Who| policy.standing(who, own_user());
        self.server.set_standings(standing);
        self.ledger.set_standings(standing);
        self.taps.set_standings(standing);
        // What is written of users' groups goes by the rules.
        let all = self.interfaces.iter().map(|i| i.link.index);
        self.unsaved.extend(all);
        self.end_taps_not_allowed();
        self.enforce()
    }

    /// Asks for everything that policy does not allow and was not asked for yet.
    pub(in crate::daemon) fn enforce(&mut self) -> usize {
        let at = now() + REVOKE_TIME;
        let mut asked = 0;
        for slot in self.attachments.keys().copied().collect::<Vec<_>>() {
            let refused = self.not_allowed(slot);
            let taken = &mut self.attachment_mut(slot).revoked.taken;
            taken.retain(|(what, _)| refused.contains(what));
            let known: Vec<Revoked> = taken.iter().map(|(what, _)| *what).collect();
            let new: Vec<Revoked> = refused.into_iter().filter(|w| !known.contains(w)).collect();
            taken.extend(new.iter().map(|what| (*what, at)));
            asked += new.len();
            for what in new {
                self.tell_revoked(slot, what, at);
            }
            asked += usize::from(self.set_terms(slot, at));
            self.enforce_steps(slot);
        }
        self.end_awaited_not_allowed();
        self.renew_filters_of_all();
        self.forget_cut();
        asked
    }

    /// What a slot has that policy does not allow.
    pub(in crate::daemon) fn not_allowed(&self, slot: SlotId) -> Vec<Revoked> {
        if self.rule_of(slot).is_none() {
            return vec![Revoked::Slot];
        }
        let held = self.ledger.held_by(slot);
        let refused = held.filter(|(_, g)| !self.may_hold(slot, &g.claim, &g.origin));
        let filters = self.ledger.generals_of(slot);
        let filters = filters.filter(|(_, general)| !self.may_have(slot, general));
        let all = refused.map(|(id, _)| id).chain(filters.map(|(id, _)| id));
        all.map(Revoked::Grant).collect()
    }

    /// Whether policy lets the holder of a slot, or who claimed it first, have a claim: its address is one that the policy
    /// (or the host, where they are shared) has on the interface, which an earlier daemon's need not be.
    pub(in crate::daemon) fn may_hold(&self, slot: SlotId, claim: &Claim, origin: &Who) -> bool {
        let interface = self.interface(claim.interface);
        let (Some(interface), Some(owner)) = (interface, self.ledger.owner(slot)) else {
            return false;
        };
        let (policy, name) = (&self.config.policy, &interface.link.name);
        let mut either = [&*owner.who, origin].into_iter();
        interface.has(claim.local) && either.any(|who| policy.allows(who, name, claim))
    }

    /// The rule by which a slot is there.
    fn rule_of(&self, slot: SlotId) -> Option<&Rule> {
        let attachment = &self.attachments[&slot];
        let (owner, interface) = (
            self.ledger.owner(slot)?,
            self.interface(attachment.interface)?,
        );
        let (policy, direct) = (&self.config.policy, attachment.record.queue);
        policy.attach(&owner.who, &interface.link.name, direct).ok()
    }

    /// Gives a slot the share that policy says: at once, or, when it is less than before and makes a difference, at a
    /// time that the program is told. True when it was told.
    fn set_terms(&mut self, slot: SlotId, at: Now) -> bool {
        let Some(terms) = self.rule_of(slot).map(terms_of) else {
            return false;
        };
        let rate = self.rate_under(slot, terms);
        let attachment = self.attachment_mut(slot);
        let has = (attachment.record.weight, attachment.record.rate_max);
        let asked = attachment.revoked.terms.map(|(terms, _)| terms);
        match rate {
            Some(rate) if is_more(has, terms) => {
                if asked == Some(terms) {
                    return false;
                }
                attachment.revoked.terms = Some((terms, at));
                self.tell_revoked(slot, Revoked::Rate(rate), at);
                true
            }
            _ => {
                attachment.revoked.terms = None;
                if has != terms {
                    self.apply_terms(slot, terms);
                }
                false
            }
        }
    }

    fn apply_terms(&mut self, slot: SlotId, (weight, rate_max): Terms) {
        let attachment = self.attachment_mut(slot);
        (attachment.record.weight, attachment.record.rate_max) = (weight, rate_max);
        let interface = attachment.interface;
        self.divide(interface);
        self.save(interface);
    }

    /// What a slot would be guaranteed; `None` when nothing would hold it back.
    fn rate_under(&self, slot: SlotId, (weight, cap): Terms) -> Option<u64> {
        let index = self.attachments[&slot].interface;
        let mut parts = self.parts(index);
        parts.retain(|part| part.0 != slot);
        parts.push((slot, weight, cap));
        let link = self.interface(index)?.policy.rate;
        shares::bound(link, &parts, slot)
    }

    /// Tells a program that has come back what it is to give back.
    pub(in crate::daemon) fn remind(&mut self, slot: SlotId) {
        let revoked = &self.attachments[&slot].revoked;
        let mut all = revoked.taken.clone();
        if let Some((terms, at)) = revoked.terms
            && let Some(rate) = self.rate_under(slot, terms)
        {
            all.push((Revoked::Rate(rate), at));
        }
        for (what, at) in all {
            self.tell_revoked(slot, what, at);
        }
    }

    fn tell_revoked(&mut self, slot: SlotId, what: Revoked, at: Now) {
        let notice = Notice::Revoke {
            what,
            deadline_ms: at.saturating_sub(now()).as_millis() as u32,
            reason: REASON.to_owned(),
        };
        if let Some(id) = self.attachments[&slot].connection {
            self.server.say(id, notice.encode(), Vec::new());
        }
    }

    /// Takes what was asked for and not given back in time, and what was made of it since.
    pub(in crate::daemon) fn take_revoked(&mut self, now: Now) {
        let due =
            |attachment: &Attachment| attachment.revoked.deadline().is_some_and(|at| at <= now);
        if !self.attachments.values().any(due) {
            return;
        }
        for slot in self.attachments.keys().copied().collect::<Vec<_>>() {
            self.take_from(slot, now);
        }
        self.forget_cut();
    }

    /// Takes a slot, and with it its connection, which was there for it.
    fn take_slot(&mut self, slot: SlotId) {
        let connection = self.attachments[&slot].connection;
        self.remove_slot(slot);
        if let Some(id) = connection {
            let goodbye = Notice::Goodbye(Farewell::Revoked).encode();
            self.server.say(id, goodbye, Vec::new());
            self.server.cut(id, Cut::NotAllowed);
        }
    }

    /// What is taken is what policy does not allow now, whatever was asked for: all of it whose deadline has not still
    /// to come. What was allowed again meanwhile stays.
    fn take_from(&mut self, slot: SlotId, now: Now) {
        let mut refused = self.not_allowed(slot);
        let revoked = &mut self.attachment_mut(slot).revoked;
        revoked.taken.retain(|(_, at)| *at > now);
        refused.retain(|what| revoked.taken.iter().all(|(later, _)| later != what));
        let terms = revoked.terms.take_if(|(_, at)| *at <= now);
        if refused.is_empty() && terms.is_none() {
            return;
        }
        if refused.contains(&Revoked::Slot) {
            return self.take_slot(slot);
        }
        let grants = refused.into_iter().filter_map(|what| match what {
            Revoked::Grant(grant) => Some(grant),
            _ => None,
        });
        self.take_grants(slot, &grants.collect::<Vec<_>>(), now);
        if let Some((terms, _)) = terms {
            self.apply_terms(slot, terms);
        }
        self.write_slot(slot);
    }

    /// Takes grants. Filters that cannot be taken are taken later.
    fn take_grants(&mut self, slot: SlotId, grants: &[GrantId], now: Now) {
        let (filters, exact): (Vec<GrantId>, Vec<GrantId>) = grants
            .iter()
            .partition(|grant| self.is_filter(slot, **grant));
        for grant in exact {
            self.note_passed_on(grant);
            if let Ok(Some(change)) = self.ledger.release(slot, grant, now) {
                self.apply(&change);
            }
        }
        if !filters.is_empty() {
            self.change_filters(slot, Change::Release(None, filters));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_asked_for_and_more_is_given() {
        for (has, gets, asked) in [
            ((1, None), (1, None), false),
            ((2, None), (1, None), true),
            ((1, None), (2, None), false),
            ((1, None), (1, Some(9)), true),
            ((1, Some(9)), (1, None), false),
            ((1, Some(9)), (1, Some(8)), true),
            ((1, Some(9)), (2, Some(8)), true),
        ] {
            assert_eq!(is_more(has, gets), asked, "{has:?} {gets:?}");
        }
    }
}
