//! Claims by filter: what policy and the ledger say, and what the packet path and a successor are told.
//!
//! Texts are read, and programs compiled and verified, beside the loop ([`crate::daemon::work`]), so a claim comes in three steps: the
//! text is read; policy and the ledger are asked, and from then on its packets are nobody else's; programs are made and put
//! in force, and the asker is told. What is to become of a slot's filters ([`Change`]) is done one after another, and each
//! change begins with what policy and the ledger say then.
//!
//! To take a filter back takes descriptors and memory, too, for the program of what is left. A filter that the packet path
//! has still is nobody else's: when the kernel has run out of something, it stays the holder's, and is taken later.

use std::net::IpAddr;
use std::rc::Rc;

use exos_filter::gate::sending;
use exos_filter::{Filter, ParseError};
use exos_host::warn;
use exos_xok::message::{Answer, GrantId, Refusal, Revoked};

use crate::clock::{Now, now};
use crate::daemon::Daemon;
use crate::daemon::answers::{Refused, RequestId, plain, refuse};
use crate::daemon::attachment::Change;
use crate::gate::generals::GeneralPrograms;
use crate::gate::{Gate, GeneralFilters};
use crate::interface::Interface;
use crate::ledger::{General, SlotId};
use crate::limits::{AGAIN_AFTER, FILTER_WORDS_MAX};
use crate::policy::{Rule, Who};

impl Daemon {
    /// A program asks for a filter. It is answered when that is in force, or refused.
    pub(in crate::daemon) fn claim_filter(
        &mut self,
        request_id: RequestId,
        who: &Who,
        text: String,
    ) -> Result<(), Refused> {
        self.slot(request_id.connection)?;
        let owner = self.user(who);
        self.rates.count_filter(owner)?;
        self.work_for_filter(Some(owner), move || {
            let filter = Filter::parse(&text);
            Box::new(move |daemon| daemon.claim_parsed(request_id, text, filter))
        });
        Ok(())
    }

    fn claim_parsed(
        &mut self,
        request_id: RequestId,
        text: String,
        filter: Result<Filter, ParseError>,
    ) {
        match self.enter_filter(request_id, text, filter) {
            Ok((slot, grant)) => self.change_filters(slot, Change::Claim(request_id, grant)),
            Err(refused) => self.reply(request_id, Err(refused)),
        }
    }

    /// Grants a filter in the ledger, if policy allows it.
    fn enter_filter(
        &mut self,
        request_id: RequestId,
        text: String,
        filter: Result<Filter, ParseError>,
    ) -> Result<(SlotId, GrantId), Refused> {
        let slot = self.slot(request_id.connection)?;
        let (owner, interface) = (self.owner(slot), self.interface_of(slot));
        let filter = filter.map_err(|e| refuse(Refusal::BadRequest, e))?;
        let (policy, name) = (&self.config.policy, &interface.link.name);
        let rule = policy.general(&owner.who, name, &text, &filter);
        let rule = rule.map_err(|e| refuse(Refusal::NotAllowed, e))?;
        sending(&filter, &sources(rule, interface)).map_err(|e| refuse(Refusal::BadRequest, e))?;
        check_words(&filter)?;
        Ok((slot, self.ledger.claim_general(slot, text, filter)?))
    }

    /// Has a slot's filters changed when the changes before are done.
    pub(in crate::daemon) fn change_filters(&mut self, slot: SlotId, change: Change) {
        self.attachment_mut(slot).changes.waiting.push_back(change);
        self.next_change(slot);
    }

    /// Goes on with what is to become of a slot's filters, unless programs for that are being made.
    fn next_change(&mut self, slot: SlotId) {
        while let Some(attachment) = self.attachments.get_mut(&slot)
            && attachment.changes.making.is_none()
            && let Some(change) = attachment.changes.waiting.pop_front()
        {
            self.begin_change(slot, change);
        }
    }

    fn begin_change(&mut self, slot: SlotId, change: Change) {
        let filters = match self.filters_of(slot, change.released()) {
            Ok(Some(filters)) => filters,
            Ok(None) => {
                let ended = self.gate_of(slot).end_general(slot);
                return self.changed(slot, change, ended.map_err(Refused::from));
            }
            Err(refused) => return self.changed(slot, change, Err(refused)),
        };
        let work = match self.gate_of(slot).plan_general(slot, &filters) {
            Ok(Some(work)) => work,
            Ok(None) => return self.changed(slot, change, Ok(())),
            Err(error) => return self.changed(slot, change, Err(error.into())),
        };
        // What policy takes waits for nobody; the rest is charged to the program.
        let is_asked = matches!(change, Change::Claim(..) | Change::Release(Some(_), _));
        let owner = self.owner(slot);
        let owner = is_asked.then(|| (owner.standing, owner.who.uid));
        self.last_change += 1;
        let number = self.last_change;
        self.attachment_mut(slot).changes.making = Some(number);
        self.work_for_filter(owner, move || {
            let programs = work.make();
            Box::new(move |daemon| daemon.end_change(slot, number, change, &filters, programs))
        });
    }

    /// The programs of a change are made.
    fn end_change(
        &mut self,
        slot: SlotId,
        number: u64,
        change: Change,
        filters: &GeneralFilters,
        programs: exos_host::error::Result<GeneralPrograms>,
    ) {
        let Some(attachment) = self.attachments.get_mut(&slot) else {
            return;
        };
        if attachment
            .changes
            .making
            .take_if(|making| *making == number)
            .is_none()
        {
            return; // It was another's slot.
        }
        let wanted = self.filters_of(slot, change.released());
        if !wanted.is_ok_and(|wanted| wanted.as_ref() == Some(filters)) {
            // Policy says something else by now.
            self.attachment_mut(slot).changes.waiting.push_front(change);
        } else {
            let put = programs.and_then(|made| self.gate_of(slot).put_general(slot, filters, made));
            self.changed(slot, change, put.map_err(Refused::from));
        }
        self.next_change(slot);
    }

    /// A change is done, or cannot be.
    fn changed(&mut self, slot: SlotId, change: Change, done: Result<(), Refused>) {
        match (change, done) {
            (Change::Claim(request_id, grant), Ok(())) => {
                self.record_filter(slot, grant);
                self.reply(request_id, plain(Answer::GrantedFilter { grant }));
            }
            (Change::Claim(request_id, grant), Err(refused)) => {
                self.ledger.release_general(slot, grant);
                // What was there before, which fitted.
                self.renewals.insert(slot, now());
                self.reply(request_id, Err(refused));
            }
            (Change::Release(request_id, grants), Ok(())) => {
                self.forget_grants(slot, &grants);
                if let Some(request_id) = request_id {
                    self.reply(request_id, plain(Answer::Done));
                }
            }
            (Change::Release(Some(request_id), _), Err(refused)) => {
                self.reply(request_id, Err(refused))
            }
            (Change::Release(None, grants), Err(refused)) => {
                warn!("slot {slot}: {}", refused.text);
                let again = grants.into_iter().map(Revoked::Grant);
                let at = now() + AGAIN_AFTER;
                self.attachment_mut(slot).revoked.take_later(again, at);
            }
            (Change::Renew, Ok(())) => {}
            (Change::Renew, Err(refused)) => {
                warn!("slot {slot}: {}", refused.text);
                self.renewals.insert(slot, now() + AGAIN_AFTER);
            }
        }
    }

    /// A filter is in force: a successor finds it in the slot's record.
    fn record_filter(&mut self, slot: SlotId, grant: GrantId) {
        let mut filters = self.ledger.generals_of(slot);
        let found = filters.find(|(id, _)| *id == grant);
        let text = found.map(|(_, general)| general.text.clone());
        drop(filters);
        let attachment = self.attachment_mut(slot);
        let record = &mut attachment.record;
        record.filters.extend(text.map(|text| (grant, text)));
        let interface = attachment.interface;
        self.save(interface);
    }

    /// Filters are in force no more.
    fn forget_grants(&mut self, slot: SlotId, grants: &[GrantId]) {
        for grant in grants {
            self.ledger.release_general(slot, *grant);
        }
        let attachment = self.attachment_mut(slot);
        let record = &mut attachment.record;
        record.filters.retain(|(id, _)| !grants.contains(id));
        let interface = attachment.interface;
        self.save(interface);
        self.write_slot(slot);
    }

    /// Whether a grant is a filter of a slot's.
    pub(in crate::daemon) fn is_filter(&self, slot: SlotId, grant: GrantId) -> bool {
        self.ledger.generals_of(slot).any(|(id, _)| id == grant)
    }

    /// Takes the programs of a slot's filters out of the packet path.
    pub(in crate::daemon) fn forget_filters(&mut self, interface: u32, slot: SlotId) {
        let mut interfaces = self.interfaces.iter_mut();
        let interface = interfaces.find(|i| i.link.index == interface);
        if let Some(Err(error)) = interface.map(|i| i.gate.clear_general(slot)) {
            warn!("slot {slot}: {error}");
        }
    }

    /// The filters of a slot whose programs an earlier daemon left, and the check of what it sends.
    pub(in crate::daemon) fn adopt_filters(&mut self, slot: SlotId) {
        let attachment = &self.attachments[&slot];
        let interface = attachment.interface;
        let origin = Rc::clone(&self.owner(slot).who);
        for (grant, text) in attachment.record.filters.clone() {
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

    /// Checks what an adopted slot sends as this daemon would, not as the one did that attached it. Nobody is served yet who
    /// would wait for that. A slot for which that cannot be done goes.
    fn renew_check(&mut self, slot: SlotId) {
        let filters = self.filters_of(slot, &[]);
        let Err(refused) = filters.and_then(|filters| self.put_now(slot, filters)) else {
            return;
        };
        warn!("slot {slot}: {}", refused.text);
        if let Err(error) = self.gate_of(slot).end_general(slot) {
            warn!("slot {slot}: {error}");
            self.remove_slot(slot);
        }
    }

    fn put_now(&mut self, slot: SlotId, filters: Option<GeneralFilters>) -> Result<(), Refused> {
        let gate = self.gate_of(slot);
        let Some(filters) = filters else {
            return Ok(gate.end_general(slot)?);
        };
        if let Some(work) = gate.plan_general(slot, &filters)? {
            gate.put_general(slot, &filters, work.make()?)?;
        }
        Ok(())
    }

    /// What slots may send by their filters may be another by now.
    pub(in crate::daemon) fn renew_filters_of_all(&mut self) {
        for slot in self.attachments.keys() {
            if self.ledger.generals_of(*slot).next().is_some() {
                self.renewals.insert(*slot, now());
            }
        }
    }

    /// Renews the filters of the slots for which it is time.
    pub(in crate::daemon) fn renew_due_filters(&mut self, now: Now) {
        let due: Vec<SlotId> = self
            .renewals
            .extract_if(.., |_, at| *at <= now)
            .map(|(slot, _)| slot)
            .collect();
        for slot in due {
            if self.attachments.contains_key(&slot) {
                self.change_filters(slot, Change::Renew);
            }
        }
    }

    /// Whether policy lets the holder, or who claimed it, have a filter.
    pub(in crate::daemon) fn may_have(&self, slot: SlotId, general: &General) -> bool {
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

    /// What a slot is to receive and to send by its filters but these, as policy says now; `None` when it has no others.
    fn filters_of(
        &self,
        slot: SlotId,
        without: &[GrantId],
    ) -> Result<Option<GeneralFilters>, Refused> {
        let mut all: Option<GeneralFilters> = None;
        let filters = self.ledger.generals_of(slot);
        for (_, general) in filters.filter(|(id, _)| !without.contains(id)) {
            let interface = self.served(general.interface);
            // A rule that is gone lets nothing go out, while the grant is asked back.
            let rule = self.rule_for(&general.origin, general);
            let from = rule.map_or_else(Vec::new, |rule| sources(rule, interface));
            let send = sending(&general.filter, &from);
            let send = send.map_err(|e| refuse(Refusal::BadRequest, e))?;
            all = Some(match all {
                None => GeneralFilters {
                    receive: general.filter.clone(),
                    send,
                },
                Some(others) => join(&others, &general.filter, &send)?,
            });
        }
        if let Some(all) = &all {
            check_words(&all.receive)?;
        }
        Ok(all)
    }

    /// The gate of a slot's interface.
    fn gate_of(&mut self, slot: SlotId) -> &mut Gate {
        let index = self.attachments[&slot].interface;
        let mut interfaces = self.interfaces.iter_mut();
        let interface = interfaces.find(|i| i.link.index == index);
        &mut interface
            .expect("slots are on interfaces that are served")
            .gate
    }
}

/// Refuses what would take the kernel long to verify. The filters of a slot, or of copies, are one program.
pub(in crate::daemon) fn check_words(filter: &Filter) -> Result<(), Refused> {
    let words = filter.words();
    if words > FILTER_WORDS_MAX {
        let text = format!(
            "the filters of one program test {words} different words of a packet, and {FILTER_WORDS_MAX} are the most; ask for less"
        );
        return Err(refuse(Refusal::Limit, text));
    }
    Ok(())
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
