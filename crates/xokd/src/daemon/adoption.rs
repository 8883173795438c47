//! Taking over what an earlier daemon left running, and leaving it so to the next.
//!
//! The packet path goes on without a daemon: its maps, programs and links have names, namespaces too. The grants are
//! read from the kernel's own table, the slots from the state file. A slot is kept when its process lives and its
//! interface is there; the program then has `REATTACH_TIME` to come back. Everything else is taken down.
//!
//! What is passed on, shared grants and tickets, is written at the end of the turn that did it, or, when there is so much
//! of it that writing takes long, a while after the last time: a daemon that is killed before loses it, which
//! leaves the grant with anyone who had it.
//!
//! Lost with the earlier daemon:
//!
//! - which ports rest: to write each release down would cost more than it saves, since the next daemon chooses at random;
//! - connections in TIME-WAIT that programs left with slot 0, whose stack is made again;
//! - the lock that keeps a packet socket's holder from asking the kernel for rings: it is a mapping, which only a process
//!   can have, and the socket is the program's alone. What it could waste is the kernel's memory for its own socket; the
//!   socket goes with the program.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use exos_host::error::Result;
use exos_host::netlink::Netlink;
use exos_host::warn;
use exos_link::Held;
use exos_xok::Claim;
use exos_xok::message::{Farewell, GrantId, LINK_BYTES, Notice, Secret};

use super::Daemon;
use crate::clock::{Now, now};
use crate::gate::FoundGrant;
use crate::interface::Interface;
use crate::ledger::{Change, Grant, SlotId, Ticket};
use crate::limits::{AGAIN_AFTER, NOBODY, SAVE_AT_ONCE_BYTES, SAVE_BYTES_PER_SECOND};
use crate::policy::Who;
use crate::slot::{self, SlotPair};
use crate::state::{self, GroupLists, Groups, PassedOn, State};

impl Daemon {
    /// Takes over what is there, of all interfaces.
    pub(super) fn adopt_all(&mut self) -> Result<()> {
        for at in 0..self.interfaces.len() {
            let saved = state::read(&self.interfaces[at].name)?;
            let index = self.interfaces[at].link.index;
            let kept: Vec<SlotId> = saved
                .slots
                .iter()
                .filter(|slot| self.interfaces[at].adopted && self.adopt(at, slot))
                .map(|slot| slot.slot)
                .collect();
            self.adopt_leftovers(index, &saved, &kept);
            self.adopt_grants(at, &saved, &kept)?;
            self.take_down_others(at, &kept)?;
            kept.iter().for_each(|slot| self.adopt_filters(*slot));
            self.interfaces[at].gate.forget_generals()?;
            self.divide(index);
            self.save(index);
        }
        Ok(())
    }

    /// Takes down every slot of an interface that is not kept, whether the state file knew it or not.
    fn take_down_others(&self, at: usize, kept: &[SlotId]) -> Result<()> {
        let interface = &self.interfaces[at];
        let mut kept = kept.to_vec();
        if interface.neighbours.responder_ref().is_some() {
            kept.push(0);
        }
        // First: as long as a pair is there, what comes out of it is to be checked.
        slot::keep_only(&self.netlink, interface.link.index, &kept)?;
        match interface.adopted {
            true => interface.gate.keep_only(&kept),
            false => Ok(()),
        }
    }

    /// What was left before, and what may be left of the slots that are not kept.
    fn adopt_leftovers(&mut self, index: u32, saved: &State, kept: &[SlotId]) {
        let gone = saved.slots.iter().filter(|slot| !kept.contains(&slot.slot));
        let gone = gone.map(state::Slot::leftover);
        for leftover in saved.leftovers.iter().cloned().chain(gone) {
            self.leftovers.add(index, leftover, None);
        }
    }

    /// Makes an attachment of a saved slot; false when there is nothing to keep.
    fn adopt(&mut self, at: usize, saved: &state::Slot) -> bool {
        let interface = &self.interfaces[at];
        let index = interface.link.index;
        // Of whom nobody can tell that comes back in time or goes.
        let began = state::began(saved.pid).unwrap_or(Some(saved.began));
        let alive = began == Some(saved.began);
        // An earlier daemon may have lent the slot that has to be nobody's.
        let is_free = saved.slot != NOBODY && !self.attachments.contains_key(&saved.slot);
        let whole = saved.link.len() == LINK_BYTES && is_free;
        let place = match saved.queue {
            None => adopt_place(&self.netlink, interface, saved).map(Some),
            // The socket is the program's, and in the packet path's map as long as the program has it.
            Some(queue) => match interface.gate.queue_owner(queue) {
                Ok(owner) if owner == saved.slot => Some(None),
                _ => None,
            },
        };
        match place.filter(|_| alive && whole) {
            Some(place) => self.attachment(index, saved.clone(), (place, None), None),
            None => return false,
        }
        true
    }

    /// The grants of the slots that are kept go on; the others end.
    fn adopt_grants(&mut self, at: usize, saved: &State, kept: &[SlotId]) -> Result<()> {
        let passed_on = passed_on_by_grant(saved);
        for found in self.interfaces[at].gate.grants()? {
            let (id, claim) = (found.id, found.claim);
            let more = passed_on.get(&id);
            let holders = holders_of(&found, more.map(|(more, _)| *more), kept);
            let first = holders.first().copied();
            let change = match first {
                Some(first) if claim.check().is_ok() && self.ledger.grant(id).is_none() => {
                    let owner = &self.ledger.owner(first).expect("it was kept").who;
                    let origin = more.and_then(|(_, origin)| origin.as_ref());
                    let origin = Rc::clone(origin.unwrap_or(owner));
                    self.reserve_again(id, &claim);
                    let retired = found.members.iter().filter(|(_, gets_new)| !gets_new);
                    let retired = retired.map(|(slot, _)| *slot);
                    let grant = Grant {
                        claim,
                        retired: retired.filter(|slot| holders.contains(slot)).collect(),
                        holders,
                        is_divided: found.is_divided,
                        origin,
                    };
                    self.ledger.adopt(id, grant)
                }
                Some(_) => nobodys(id, claim),
                None if self.ledger.grant(id).is_some() => nobodys(id, claim),
                None => match self.left_to_successor(saved, &found) {
                    Some(awaited) => self.ledger.adopt_awaited(id, claim, awaited),
                    None => nobodys(id, claim),
                },
            };
            self.apply(&change);
        }
        saved
            .tickets
            .iter()
            .for_each(|ticket| self.adopt_ticket(ticket));
        self.adopt_promises(saved);
        Ok(())
    }

    /// The program goes on having the port when the host has taken it while there was no daemon.
    fn reserve_again(&mut self, id: GrantId, claim: &Claim) {
        if self.is_shared(claim)
            && let Err(error) = self.reservations.hold(id, claim)
        {
            warn!("{claim} goes on, but {error}");
        }
    }

    fn adopt_ticket(&mut self, saved: &state::Ticket) {
        self.ledger.adopt_ticket(Ticket {
            secret: Secret(saved.secret),
            grant: saved.grant,
            from: saved.from,
            expires: Now::from_millis(saved.expires_ms),
        });
    }

    /// Writes down the slots of an interface for anyone who comes after us, and who has what of whom. Returns how many bytes
    /// that is. What cannot be written is written a while later.
    pub(super) fn save(&mut self, index: u32) -> usize {
        let Some(interface) = self.interface(index) else {
            return 0;
        };
        let written = state::write(&interface.name, self.state_of(index));
        written.unwrap_or_else(|error| {
            warn!(
                "{error}; until it is written a daemon after this one will not know all programs"
            );
            self.unsaved.insert(index);
            self.save_after = self.save_after.max(now() + AGAIN_AFTER);
            0
        })
    }

    /// What there is to be written.
    fn state_of(&self, index: u32) -> State {
        let attachments = self.attachments.values().filter(|s| s.interface == index);
        let here = |id: GrantId| {
            self.ledger
                .grant(id)
                .is_some_and(|g| g.claim.interface == index)
        };
        let grants = self
            .ledger
            .grants()
            .filter(|(_, g)| g.claim.interface == index);
        let tickets = self.ledger.tickets().iter().filter(|t| here(t.grant));
        let mut groups = GroupLists::default();
        State {
            slots: attachments
                .map(|attachment| attachment.record.clone())
                .collect(),
            passed_on: grants
                .filter(|(_, grant)| self.is_by_another(grant))
                .map(|(id, grant)| self.passed_on(id, grant, &mut groups))
                .collect(),
            awaited: self.saved_awaited(index, &mut groups),
            groups: groups.into_lists(),
            tickets: tickets.map(saved_ticket).collect(),
            leftovers: self.leftovers.of(index).collect(),
            promised: self.saved_promises(index),
            ..State::default()
        }
    }

    /// Whether there is something to say of a grant beside what the kernel's table does: it has several holders, or one who
    /// has it by another's right.
    fn is_by_another(&self, grant: &Grant) -> bool {
        let owner = self.ledger.owner(grant.slot());
        grant.holders.len() > 1 || owner.is_some_and(|owner| owner.who != grant.origin)
    }

    fn passed_on(&self, id: GrantId, grant: &Grant, groups: &mut GroupLists) -> PassedOn {
        PassedOn {
            grant: id,
            holders: grant.holders.clone(),
            uid: grant.origin.uid,
            groups: groups.place(&grant.origin, &self.config.policy),
        }
    }

    /// A grant is entered or about to go: what a successor must be told of it is to be written down.
    pub(super) fn note_passed_on(&mut self, id: GrantId) {
        if let Some(grant) = self.ledger.grant(id)
            && (self.is_by_another(grant) || self.ledger.is_passed_on(id))
        {
            let interface = grant.claim.interface;
            self.unsaved.insert(interface);
        }
    }

    /// When what was passed on is written down, if something was.
    pub(super) fn saves_at(&self) -> Option<Now> {
        (!self.unsaved.is_empty()).then_some(self.save_after)
    }

    /// Writes down what was passed on, unless that was much and done just now.
    pub(super) fn save_passed_on(&mut self, now: Now) {
        if self.saves_at().is_some_and(|at| now >= at) {
            let pause = self.save_unsaved();
            self.save_after = self.save_after.max(now + pause);
        }
    }

    /// Returns how long it is to be before there is such a file again.
    fn save_unsaved(&mut self) -> Duration {
        let unsaved = std::mem::take(&mut self.unsaved).into_iter();
        let pause = unsaved.map(|index| pause_behind(self.save(index)));
        pause.sum()
    }

    /// Goes without taking anything down. Slots that are being taken away are waited for: the next daemon may give their numbers
    /// again.
    pub fn leave(mut self) {
        self.removals.wait();
        self.save_unsaved();
        for interface in &mut self.interfaces {
            interface.gate.keep();
        }
        for id in self.server.ids() {
            let goodbye = Notice::Goodbye(Farewell::Restarting).encode();
            self.server.say(id, goodbye, Vec::new());
        }
    }

    /// Another daemon takes over: this one ends as it is.
    pub fn is_replaced(&self) -> bool {
        self.replaced
    }
}

/// What was passed on by its number, with whose right it is held by; each list of groups that the file has once is once
/// here, too.
fn passed_on_by_grant(saved: &State) -> BTreeMap<GrantId, (&PassedOn, Option<Rc<Who>>)> {
    let mut known: BTreeMap<(u32, usize), Option<Rc<Who>>> = BTreeMap::new();
    let origin = |of: &PassedOn| saved.origin(of).map(Rc::new);
    let mut entry = |of: &'_ PassedOn| match of.groups {
        Groups::At(at) => known
            .entry((of.uid, at))
            .or_insert_with(|| origin(of))
            .clone(),
        Groups::Here(_) => origin(of),
    };
    let all = saved.passed_on.iter();
    all.map(|of| (of.grant, (of, entry(of)))).collect()
}

/// The slots that are kept of those that hold a grant, the one first that gets the packets. Who shares a port the kernel knows
/// by itself, and nobody stands by.
fn holders_of(found: &FoundGrant, more: Option<&PassedOn>, kept: &[SlotId]) -> Vec<SlotId> {
    let mut holders: Vec<SlotId> = found.members.iter().map(|(slot, _)| *slot).collect();
    for other in more.iter().flat_map(|more| &more.holders) {
        if !found.is_divided && !holders.contains(other) {
            holders.push(*other);
        }
    }
    holders.retain(|holder| kept.contains(holder));
    holders
}

/// What the packet path is told of a grant that does not go on.
fn nobodys(grant: GrantId, claim: Claim) -> Change {
    Change {
        grant,
        claim,
        slot: None,
    }
}

/// How long nothing is written after this many bytes.
fn pause_behind(bytes: usize) -> Duration {
    let more = bytes.saturating_sub(SAVE_AT_ONCE_BYTES) as u64;
    Duration::from_micros(more * 1_000_000 / SAVE_BYTES_PER_SECOND)
}

fn saved_ticket(ticket: &Ticket) -> state::Ticket {
    state::Ticket {
        secret: ticket.secret.0,
        grant: ticket.grant,
        from: ticket.from,
        expires_ms: ticket.expires.as_millis() as u64,
    }
}

/// The virtual interface of a slot, when all of it is there. The link of its ring keeps itself by its name.
fn adopt_place(netlink: &Netlink, interface: &Interface, saved: &state::Slot) -> Option<SlotPair> {
    let outer = slot::outer_name(interface.link.index, saved.slot);
    let outer = netlink.find_link(&outer).ok()??;
    let is_whole = outer.index == saved.ifindex && interface.gate.has_ring(saved.slot);
    is_whole.then(|| SlotPair {
        namespace: None,
        number: saved.namespace,
        ifindex: saved.ifindex,
        held: Held::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_written_in_each_turn_and_much_now_and_then() {
        assert_eq!(pause_behind(0), Duration::ZERO);
        assert_eq!(pause_behind(SAVE_AT_ONCE_BYTES), Duration::ZERO);
        let much = pause_behind(SAVE_AT_ONCE_BYTES + 2_000_000);
        assert_eq!(much, Duration::from_millis(200));
    }
}
