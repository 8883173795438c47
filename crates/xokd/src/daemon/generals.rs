//! Claims by filter: what policy and the ledger say, and what the packet path and a successor are told.
//!
//! To take a filter back takes descriptors and memory, too, for the program of what is left. A filter that the packet path
//! has still is nobody else's: when the kernel has run out of something, it stays the holder's, and is taken later.

use std::net::IpAddr;
use std::rc::Rc;

use exos_filter::Filter;
use exos_filter::gate::sending;
use exos_xok::message::{Answer, GrantId, Refusal};

use super::requests::{Answered, Refused, plain, refuse};
use super::{Daemon, now};
use crate::gate::GeneralFilters;
use crate::interface::Interface;
use crate::ledger::{General, Now, SlotId};
use crate::limits::AGAIN_AFTER;
use crate::policy::{Rule, Who};
use crate::say::warn;

impl Daemon {
    pub(super) fn claim_filter(&mut self, slot: SlotId, who: &Who, text: String) -> Answered {
        self.count_filter(who)?;
        let interface = self.seats[&slot].interface;
        let seated = self.interface(interface).expect("a seat's interface");
        let filter = Filter::parse(&text);
        let filter = filter.map_err(|e| refuse(Refusal::BadRequest, e))?;
        let (policy, name) = (&self.config.policy, &seated.link.name);
        let rule = policy.general(who, name, &text, &filter);
        let rule = rule.map_err(|e| refuse(Refusal::NotAllowed, e))?;
        sending(&filter, &sources(rule, seated)).map_err(|e| refuse(Refusal::BadRequest, e))?;
        let grant = self.ledger.claim_general(slot, text.clone(), filter)?;
        if let Err(error) = self.apply_general(slot) {
            self.ledger.release_general(slot, grant);
            // What was there before, which fitted.
            self.renew_filters(slot);
            return Err(error);
        }
        self.seat_mut(slot).record.filters.push((grant, text));
        self.save(interface);
        plain(Answer::GrantedFilter { grant })
    }

    /// Takes the programs of a slot's filters out of the packet path.
    pub(super) fn forget_filters(&mut self, interface: u32, slot: SlotId) {
        let mut interfaces = self.interfaces.iter_mut();
        let interface = interfaces.find(|i| i.link.index == interface);
        if let Some(Err(error)) = interface.map(|i| i.gate.clear_general(slot)) {
            warn(format_args!("slot {slot}: {error}"));
        }
    }

    /// Gives back what of these grants are filters, all at once, since the kernel verifies what is left. Returns how many
    /// there were. When they cannot be given back they are held as before.
    pub(super) fn release_filters(
        &mut self,
        slot: SlotId,
        grants: &[GrantId],
    ) -> Result<usize, Refused> {
        let mut release =
            |grant: &GrantId| Some((*grant, self.ledger.release_general(slot, *grant)?));
        let released: Vec<(GrantId, General)> = grants.iter().filter_map(&mut release).collect();
        if released.is_empty() {
            return Ok(0);
        }
        if let Err(refused) = self.apply_general(slot) {
            for (grant, general) in released {
                self.ledger.adopt_general(grant, general);
            }
            return Err(refused);
        }
        let seat = self.seat_mut(slot);
        seat.record.filters.retain(|(id, _)| !grants.contains(id));
        let interface = seat.interface;
        self.save(interface);
        Ok(released.len())
    }

    /// The filters of a slot whose programs an earlier daemon left, and the check of what it sends.
    pub(super) fn adopt_filters(&mut self, slot: SlotId) {
        let seat = &self.seats[&slot];
        let interface = seat.interface;
        let owner = self.ledger.owner(slot).expect("a seat has an owner");
        let origin = Rc::clone(&owner.who);
        for (grant, text) in seat.record.filters.clone() {
            if let Ok(filter) = Filter::parse(&text) {
                let general = General {
                    interface,
                    slot,
                    text,
                    filter,
                    origin: Rc::clone(&origin),
                };
                self.ledger.adopt_general(grant, general);
            }
        }
        self.renew_check(slot);
    }

    /// Checks what an adopted slot sends as this daemon would, not as the one did that attached it. A slot for which that
    /// cannot be done goes.
    fn renew_check(&mut self, slot: SlotId) {
        let Err(refused) = self.apply_general(slot) else {
            return;
        };
        warn(format_args!("slot {slot}: {}", refused.text));
        let interface = self.seats[&slot].interface;
        let mut interfaces = self.interfaces.iter_mut();
        let interface = interfaces.find(|i| i.link.index == interface);
        let gate = &mut interface.expect("a seat's interface").gate;
        if let Err(error) = gate.set_general(slot, None) {
            warn(format_args!("slot {slot}: {error}"));
            self.remove_seat(slot);
        }
    }

    /// Has a slot receive and send by the filters that it has, as policy says now; later, when that cannot be done.
    fn renew_filters(&mut self, slot: SlotId) {
        if let Err(refused) = self.apply_general(slot) {
            warn(format_args!("slot {slot}: {}", refused.text));
            self.renewals.insert(slot, now() + AGAIN_AFTER);
        }
    }

    /// What slots may send by their filters may be another by now.
    pub(super) fn renew_filters_of_all(&mut self) {
        for slot in self.seats.keys() {
            if self.ledger.generals_of(*slot).next().is_some() {
                self.renewals.insert(*slot, now());
            }
        }
    }

    /// Renews the filters of one slot for which it is time: each may take long, and others are heard in between.
    pub(super) fn renew_due_filters(&mut self, now: Now) {
        let due = self.renewals.iter().find(|(_, at)| **at <= now);
        if let Some(slot) = due.map(|(slot, _)| *slot) {
            self.renewals.remove(&slot);
            if self.seats.contains_key(&slot) {
                self.renew_filters(slot);
            }
        }
    }

    /// Whether policy lets the holder, or who claimed it, have a filter.
    pub(super) fn may_have(&self, slot: SlotId, general: &General) -> bool {
        let Some(rights) = self.ledger.owner(slot).map(|o| [&o.who, &general.origin]) else {
            return false;
        };
        rights
            .iter()
            .any(|who| self.rule_for(who, general).is_some())
    }

    fn rule_for(&self, who: &Who, general: &General) -> Option<&Rule> {
        let interface = self.interface(general.interface)?;
        let (policy, name) = (&self.config.policy, &interface.link.name);
        policy
            .general(who, name, &general.text, &general.filter)
            .ok()
    }

    /// Tells the packet path of all filters of a slot.
    fn apply_general(&mut self, slot: SlotId) -> Result<(), Refused> {
        let mut both: Option<GeneralFilters> = None;
        let mut index = None;
        for (_, general) in self.ledger.generals_of(slot) {
            let interface = self
                .interface(general.interface)
                .expect("a seat's interface");
            index = Some(general.interface);
            // A rule that is gone lets nothing go out, while the grant is asked back.
            let rule = self.rule_for(&general.origin, general);
            let from = rule.map_or_else(Vec::new, |rule| sources(rule, interface));
            let send = sending(&general.filter, &from);
            let send = send.map_err(|e| refuse(Refusal::BadRequest, e))?;
            both = Some(match both {
                None => GeneralFilters {
                    receive: general.filter.clone(),
                    send,
                },
                Some(others) => join(&others, &general.filter, &send)?,
            });
        }
        let index = index.unwrap_or(self.seats[&slot].interface);
        let mut interfaces = self.interfaces.iter_mut();
        let interface = interfaces.find(|i| i.link.index == index);
        let gate = &mut interface.expect("a seat's interface").gate;
        Ok(gate.set_general(slot, both.as_ref())?)
    }
}

fn join(
    others: &GeneralFilters,
    receive: &Filter,
    send: &Filter,
) -> Result<GeneralFilters, Refused> {
    let too_large = |e| refuse(Refusal::Limit, e);
    Ok(GeneralFilters {
        receive: others.receive.or(receive).map_err(too_large)?,
        send: others.send.or(send).map_err(too_large)?,
    })
}

/// The addresses of an interface that a rule lets somebody send from.
fn sources(rule: &Rule, interface: &Interface) -> Vec<IpAddr> {
    let all = interface.addresses.iter().map(|address| address.ip);
    let may = |ip: &IpAddr| rule.addresses.as_ref().is_none_or(|some| some.contains(ip));
    all.filter(may).collect()
}
