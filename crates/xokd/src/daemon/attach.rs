//! Which connection has which slot: attaching, coming back, and whose a request is.

use std::rc::Rc;

use exos_xok::limits::ATTACHED_GRANTS_MAX;
use exos_xok::message::{Answer, Facts, Refusal, Secret};

use super::Daemon;
use super::answers::{AnswerWithFds, Answered, Refused, RequestId, plain, refuse};
use super::slots::Wanted;
use crate::ledger::SlotId;
use crate::policy::Who;
use crate::server::ConnectionId;
use crate::state;

impl Daemon {
    pub(super) fn attach(
        &mut self,
        request_id: RequestId,
        who: &Who,
        pid: u32,
        wanted: Wanted,
    ) -> Result<Option<AnswerWithFds>, Refused> {
        self.check_has_none(request_id.connection)?;
        let user = self.user(who);
        let programs_max = self.config.policy.programs_max(who.uid, Some(&who.groups));
        self.rates.count_attach(user, programs_max)?;
        let (slot, fds) = self.give_slot(request_id.connection, who, pid, wanted)?;
        let fds = fds.into_iter().map(Rc::new).collect();
        if self.taps.show_all_of(who.uid, slot) {
            return Ok(Some((self.attached(slot), fds)));
        }
        // Its first packets are copied, too.
        self.taps.await_copies(request_id, slot, fds);
        Ok(None)
    }

    /// Gives a slot to who has its token. From now on it is this process that it lives and ends with.
    pub(super) fn reattach(
        &mut self,
        id: ConnectionId,
        (who, pid): (&Who, u32),
        token: &Secret,
    ) -> Answered {
        // Two slots on a connection, and the second would outlive it.
        self.check_has_none(id)?;
        let found = self
            .attachments
            .iter_mut()
            .find(|(_, attachment)| attachment.record.token == token.0);
        let none = || {
            refuse(
                Refusal::NotFound,
                "there is no such slot any more; attach again",
            )
        };
        let (slot, attachment) = found
            .filter(|(_, attachment)| attachment.record.who.uid == who.uid)
            .ok_or_else(none)?;
        if attachment.connection.is_some() {
            let text = "the slot is held by another connection";
            return Err(refuse(Refusal::Held, text));
        }
        let began = match attachment.record.pid == pid {
            true => attachment.record.began,
            false => state::began(pid)?.unwrap_or_default(),
        };
        attachment.connection = Some(id);
        attachment.ends = None;
        let slot = *slot;
        if attachment.record.pid != pid {
            (attachment.record.pid, attachment.record.began) = (pid, began);
            let interface = attachment.interface;
            self.ledger.set_process(slot, pid);
            self.write_slot(slot);
            self.save(interface);
        }
        plain(self.attached(slot))
    }

    /// What a slot has.
    pub(super) fn attached(&self, slot: SlotId) -> Answer {
        let attachment = &self.attachments[&slot];
        let link = attachment.record.link[..].try_into();
        let told = self.ledger.held_by(slot).take(ATTACHED_GRANTS_MAX);
        Answer::Attached {
            slot,
            token: Secret(attachment.record.token),
            facts: Facts {
                interface: attachment.interface,
                direct: attachment.record.queue.is_some(),
                link: link.expect("as long as facts are"),
            },
            grants: told.map(|(grant, g)| (grant, g.claim)).collect(),
        }
    }

    pub(super) fn slot_of(&self, id: ConnectionId) -> Option<SlotId> {
        let attachment = self
            .attachments
            .iter()
            .find(|(_, s)| s.connection == Some(id));
        attachment.map(|(slot, _)| *slot)
    }

    fn check_has_none(&self, id: ConnectionId) -> Result<(), Refused> {
        if self.slot_of(id).is_some() {
            let text = "this connection has a slot already; connect again for another";
            return Err(refuse(Refusal::BadRequest, text));
        }
        Ok(())
    }

    pub(super) fn slot(&self, id: ConnectionId) -> Result<SlotId, Refused> {
        let none = || refuse(Refusal::BadRequest, "attach first");
        self.slot_of(id).ok_or_else(none)
    }
}
