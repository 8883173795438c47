//! Which connection has which slot: attaching, coming back, and whose a request is.

use exos_xok::message::{Answer, Mode, Refusal, Secret};

use super::Daemon;
use super::requests::{Answered, Refused, plain, refuse};
use super::seats::Wanted;
use crate::ledger::SlotId;
use crate::policy::Who;
use crate::server::ConnectionId;

impl Daemon {
    pub(super) fn attach(
        &mut self,
        id: ConnectionId,
        who: &Who,
        pid: u32,
        wanted: Wanted,
    ) -> Answered {
        self.check_seatless(id)?;
        let wanted = Wanted {
            mode: match wanted.mode {
                Mode::Auto => Mode::Shared,
                mode => mode,
            },
            ..wanted
        };
        let (slot, fds) = self.add_seat(id, who, pid, wanted)?;
        let seat = &self.seats[&slot];
        let attached = Answer::Attached {
            slot,
            token: seat.token,
            facts: seat.facts,
            grants: Vec::new(),
        };
        Ok((attached, fds))
    }

    pub(super) fn reattach(&mut self, id: ConnectionId, who: &Who, token: &Secret) -> Answered {
        // Two slots on a connection, and the second would outlive it.
        self.check_seatless(id)?;
        let found = self.seats.iter_mut().find(|(_, seat)| seat.token == *token);
        let owner = |slot| self.ledger.owner(slot).is_some_and(|o| o.uid == who.uid);
        let none = || {
            refuse(
                Refusal::NotFound,
                "there is no such slot any more; attach anew",
            )
        };
        let (slot, seat) = found.filter(|(slot, _)| owner(**slot)).ok_or_else(none)?;
        if seat.connection.is_some() {
            let text = "the slot is held by another connection";
            return Err(refuse(Refusal::Held, text));
        }
        seat.connection = Some(id);
        seat.ends = None;
        let held = self.ledger.held_by(*slot);
        let attached = Answer::Attached {
            slot: *slot,
            token: seat.token,
            facts: seat.facts,
            grants: held.map(|(grant, g)| (grant, g.claim)).collect(),
        };
        plain(attached)
    }

    pub(super) fn slot_of(&self, id: ConnectionId) -> Option<SlotId> {
        let seat = self.seats.iter().find(|(_, s)| s.connection == Some(id));
        seat.map(|(slot, _)| *slot)
    }

    fn check_seatless(&self, id: ConnectionId) -> Result<(), Refused> {
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
