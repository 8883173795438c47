//! Tickets: a secret that makes anyone who presents it a holder of a grant. Good once, and for a while.

use exos_xok::message::{GrantId, Secret};

use super::denied::Denied;
use super::grant::SlotId;
use crate::clock::Now;
use crate::limits::{TICKET_LIFE, TICKETS_PER_SLOT_MAX};

/// A ticket, as its giver's books have it.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// What is presented.
    pub secret: Secret,
    /// The grant that it is for.
    pub grant: GrantId,
    /// The slot that gave it.
    pub from: SlotId,
    /// Until when it is good.
    pub expires: Now,
}

/// The tickets that nobody has presented yet.
#[derive(Default)]
pub(super) struct Tickets(pub(super) Vec<Ticket>);

impl Tickets {
    pub(super) fn write(
        &mut self,
        from: SlotId,
        grant: GrantId,
        secret: Secret,
        now: Now,
    ) -> Result<(), Denied> {
        self.0.retain(|ticket| ticket.expires > now);
        let given = self.0.iter().filter(|t| t.from == from).count();
        if given >= TICKETS_PER_SLOT_MAX {
            let text = format!(
                "{given} tickets have been given and not presented; present them, or wait a minute"
            );
            return Err(Denied::Limit(text));
        }
        self.0.push(Ticket {
            secret,
            grant,
            from,
            expires: now + TICKET_LIFE,
        });
        Ok(())
    }

    /// The ticket of this secret, while it is good.
    pub(super) fn find(&self, secret: &Secret, now: Now) -> Option<Ticket> {
        let good = |t: &&Ticket| t.secret == *secret && t.expires > now;
        self.0.iter().find(good).copied()
    }

    /// It has been presented.
    pub(super) fn use_up(&mut self, secret: &Secret) {
        self.0.retain(|ticket| ticket.secret != *secret);
    }

    /// The slot goes.
    pub(super) fn forget_slot(&mut self, slot: SlotId) {
        self.0.retain(|ticket| ticket.from != slot);
    }

    /// The slot gives the grant back.
    pub(super) fn forget(&mut self, slot: SlotId, grant: GrantId) {
        self.0.retain(|t| (t.from, t.grant) != (slot, grant));
    }

    /// The grant is nobody's any more.
    pub(super) fn forget_grant(&mut self, grant: GrantId) {
        self.0.retain(|ticket| ticket.grant != grant);
    }
}
