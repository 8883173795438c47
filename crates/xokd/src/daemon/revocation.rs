//! Taking back what policy does not allow any more: first asked for, then taken.

use exos_xok::message::{Notice, Revoked};

use super::{Daemon, now};
use crate::ledger::{Now, SlotId};
use crate::limits::REVOKE_TIME;
use crate::policy::Policy;

impl Daemon {
    /// Goes by other rules from now on. Which interfaces are served stays: that takes a restart. Returns how many
    /// slots and grants are revoked by it.
    pub fn set_policy(&mut self, policy: Policy) -> usize {
        self.config.policy.rules = policy.rules;
        let mut revoked = 0;
        for slot in self.seats.keys().copied().collect::<Vec<_>>() {
            for what in self.not_allowed(slot) {
                self.revoke(slot, what, "the policy was changed");
                revoked += 1;
            }
        }
        revoked
    }

    /// What a slot has that policy does not allow. Programs that are away are looked at when they come back.
    fn not_allowed(&self, slot: SlotId) -> Vec<Revoked> {
        let seat = &self.seats[&slot];
        let connection = seat.connection.and_then(|id| self.server.connection(id));
        let (Some(connection), Some(interface)) = (connection, self.interface(seat.interface))
        else {
            return Vec::new();
        };
        let (who, policy) = (connection.who(), &self.config.policy);
        let name = &interface.link.name;
        if policy.attach(&who, name, seat.record.queue).is_err() {
            return vec![Revoked::Slot];
        }
        let held = self.ledger.held_by(slot);
        let refused = held.filter(|(_, grant)| policy.claim(&who, name, &grant.claim).is_err());
        refused.map(|(id, _)| Revoked::Grant(id)).collect()
    }

    /// Asks a program to give something back, and notes when it is taken.
    pub(super) fn revoke(&mut self, slot: SlotId, what: Revoked, reason: &str) {
        let Some(seat) = self.seats.get_mut(&slot) else {
            return;
        };
        let at = now() + REVOKE_TIME;
        match what {
            Revoked::Slot => seat.ends = Some(at),
            Revoked::Grant(grant) => seat.revoked.push((grant, at)),
        }
        let notice = Notice::Revoke {
            what,
            deadline_ms: REVOKE_TIME.as_millis() as u32,
            reason: reason.to_owned(),
        };
        if let Some(id) = seat.connection
            && !self.server.say(id, notice.encode(), Vec::new())
        {
            self.forget(id);
        }
    }

    /// Takes the grants whose time is over.
    pub(super) fn take_revoked(&mut self, now: Now) {
        let mut due = Vec::new();
        for (slot, seat) in &mut self.seats {
            let over = seat.revoked.extract_if(.., |(_, at)| *at <= now);
            due.extend(over.map(|(grant, _)| (*slot, grant)));
        }
        for (slot, grant) in due {
            // It may have been given back in time.
            if let Ok(Some(change)) = self.ledger.release(slot, grant, now) {
                self.apply(&change);
            }
        }
    }
}
