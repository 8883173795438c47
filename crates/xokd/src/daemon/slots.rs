//! Giving slots and taking them.

mod bypass;
mod handlers;
mod joining;
mod removal;

use std::os::fd::OwnedFd;
use std::rc::Rc;

use exos_filter::gate::{Slot, SlotKind};
use exos_host::random::random;
use exos_host::shared::LentMemory;
use exos_host::warn;
use exos_link::{Facts as LinkFacts, Feed};
use exos_xok::message::{Mode, Refusal};
use exos_xok::tables;

use super::Daemon;
use super::answers::{Refused, busy, refuse};
use super::attachment::{Attachment, Changes, Revocations};
use crate::clock::now;
use crate::gate::shares;
use crate::interface::Interface;
use crate::ledger::{Change, Owner, SlotId};
use crate::limits::{AGAIN_AFTER, NOBODY, REATTACH_TIME};
use crate::policy::{Rule, Who};
use crate::server::ConnectionId;
use crate::slot::{self, SlotPair, SlotPairConfig};
use crate::state;
pub(super) use removal::Removals;

/// What a program asks for.
pub(super) struct Wanted {
    pub(super) interface: String,
    pub(super) mode: Mode,
    pub(super) chunks: u32,
    pub(super) program: String,
}

/// What was made for a newcomer.
pub(super) struct Made {
    pub(super) slot: SlotId,
    /// None for a queue of the interface itself.
    pub(super) place: Option<SlotPair>,
    pub(super) facts: LinkFacts,
    /// Tells who has the memory.
    pub(super) memory: Option<LentMemory>,
    /// What is passed.
    pub(super) fds: Vec<OwnedFd>,
}

impl Daemon {
    /// Makes a slot for a program; returns its number and the descriptors to pass.
    pub(super) fn give_slot(
        &mut self,
        id: ConnectionId,
        who: &Who,
        pid: u32,
        wanted: Wanted,
    ) -> Result<(SlotId, Vec<OwnedFd>), Refused> {
        self.removals.settle();
        self.leftovers.sweep(&self.netlink);
        self.sweep_handler_memory();
        let interface = self.choose_interface(&wanted.interface)?;
        let (index, name) = (interface.link.index, &interface.link.name);
        let policy = &self.config.policy;
        let shared = || policy.attach(who, name, None).is_ok();
        // Nobody's, when it has gone meanwhile: not taken over then.
        let began = state::began(pid)?.unwrap_or_default();
        let (made, rule) = match wanted.mode {
            Mode::Shared => self.make_shared(index, who, wanted.chunks)?,
            Mode::Direct(queue) => self.make_direct(index, who, wanted.chunks, queue)?,
            Mode::Auto if policy.prefers_direct(who, name) => {
                match self.make_direct(index, who, wanted.chunks, None) {
                    Err(refused) if refused.code != Refusal::Busy && shared() => {
                        self.make_shared(index, who, wanted.chunks)?
                    }
                    made => made?,
                }
            }
            Mode::Auto => self.make_shared(index, who, wanted.chunks)?,
        };
        let record = state::Slot {
            slot: made.slot,
            who: who.clone(),
            pid,
            began,
            program: wanted.program,
            token: random(),
            link: made.facts.to_bytes().to_vec(),
            filters: Vec::new(),
            queue: made.place.is_none().then_some(made.facts.queue),
            ifindex: made.place.as_ref().map_or(0, |place| place.ifindex),
            namespace: made.place.as_ref().and_then(|place| place.number),
            memory: made.facts.memory_len(),
            maps: Vec::new(),
            handlers: Vec::new(),
            weight: rule.weight,
            rate_max: rule.rate_max,
            since_ms: now().as_millis() as u64,
        };
        self.attachment(index, record, (made.place, made.memory), Some(id));
        self.retell_taps(who.uid);
        self.divide(index);
        self.save(index);
        Ok((made.slot, made.fds))
    }

    /// A virtual interface for a newcomer, with the rule that allows it.
    fn make_shared(&self, index: u32, who: &Who, chunks: u32) -> Result<(Made, Rule), Refused> {
        let interface = self.served(index);
        let rule = self.config.policy.attach(who, &interface.link.name, None);
        let rule = rule.map_err(|e| refuse(Refusal::NotAllowed, e))?;
        let chunks = self.check_bounds(who, rule, chunks)?;
        let slot = self.free_slot()?;
        let config = SlotPairConfig {
            id: slot,
            ifindex: index,
            mac: interface.mac,
            mtu: interface.link.mtu,
            chunks,
            super_packets: interface.gate.checks_checksums(),
            counters: interface.gate.slot_counters(slot),
        };
        let made = self.make_place(&config);
        if made.is_err() {
            // First: as long as the pair is there, what comes out of it is to be checked.
            let _ = slot::remove(&self.netlink, config.ifindex, slot);
            let _ = interface.gate.forget(slot);
        }
        let (mut place, facts, fds) = made.map_err(|e| refuse(Refusal::System, e))?;
        let made = Made {
            slot,
            memory: place.held.memory.take(),
            place: Some(place),
            facts,
            fds,
        };
        Ok((made, rule.clone()))
    }

    /// Enters a slot into the books.
    pub(super) fn attachment(
        &mut self,
        interface: u32,
        record: state::Slot,
        (place, memory): (Option<SlotPair>, Option<LentMemory>),
        connection: Option<ConnectionId>,
    ) {
        let slot = record.slot;
        let owner = Owner {
            standing: self.standing(&record.who),
            who: Rc::new(record.who.clone()),
            pid: record.pid,
            program: record.program.clone(),
            interface,
        };
        let attachment = Attachment {
            record,
            connection,
            interface,
            place,
            memory,
            ends: connection.is_none().then(|| now() + REATTACH_TIME),
            revoked: Revocations::default(),
            changes: Changes::default(),
        };
        self.ledger.add_slot(slot, owner);
        self.attachments.insert(slot, attachment);
        self.write_slot(slot);
    }

    /// The place in the kernel with its ring, checked on its way out before anybody can send.
    fn make_place(
        &self,
        config: &SlotPairConfig,
    ) -> exos_host::error::Result<(SlotPair, LinkFacts, Vec<OwnedFd>)> {
        let interface = self.served(config.ifindex);
        let mut place = SlotPair::make(&self.netlink, config)?;
        let entry = Slot {
            kind: SlotKind::Veth,
            ifindex: place.ifindex,
            mac: config.mac.0,
            ..Slot::default()
        };
        interface.gate.add_slot(config.id, &entry)?;
        let offer = place.offer(config, Feed::Everything(Some(config.counters)))?;
        if let Some(link) = &offer.held.attachment {
            link.pin(&interface.gate.ring_name(config.id))?;
        }
        place.held = offer.held;
        let fds = [Some(offer.socket), Some(offer.memory), offer.packet];
        Ok((place, offer.facts, fds.into_iter().flatten().collect()))
    }

    fn choose_interface(&self, name: &str) -> Result<&Interface, Refused> {
        let all = &self.interfaces;
        match (name, &all[..]) {
            ("", [only]) => Ok(only),
            (name, _) => all.iter().find(|i| i.link.name == name).ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|i| i.link.name.as_str()).collect();
                let text = format!("this daemon serves {}; name one of them", names.join(", "));
                refuse(Refusal::NotFound, text)
            }),
        }
    }

    pub(super) fn free_slot(&self) -> Result<SlotId, Refused> {
        // Not one of which copies are made still for anyone who had it before, nor one that is being taken away.
        let is_free = |slot: &SlotId| {
            let is_taken = self.attachments.contains_key(slot) || self.removals.has(*slot);
            !is_taken && !self.taps.show(*slot)
        };
        let free = (1..NOBODY).find(is_free);
        free.ok_or_else(|| match self.removals.is_empty() {
            true => refuse(Refusal::Limit, "all slots are taken; end some program"),
            false => busy(
                "programs have ended, and their slots are not free yet",
                AGAIN_AFTER,
            ),
        })
    }

    /// Takes a slot with all that it holds, and has its place taken away. What the kernel refuses is said, and does not stop
    /// the rest.
    pub(super) fn remove_slot(&mut self, slot: SlotId) {
        self.check_promises(slot);
        let Some(attachment) = self.attachments.remove(&slot) else {
            return;
        };
        for change in self.ledger.remove_slot(slot, now()) {
            self.apply(&change);
        }
        if let Some(queue) = attachment.record.queue {
            self.given_back.insert((attachment.interface, queue), now());
        }
        self.retell_taps(attachment.record.who.uid);
        self.forget_filters(attachment.interface, slot);
        let Some(interface) = self.interface(attachment.interface) else {
            return;
        };
        let remains = interface.gate.remains();
        if let Err(error) = interface.gate.close_slot(slot) {
            warn!("slot {slot}: {error}");
        }
        self.removals.add(slot, remains, attachment.place);
        self.tables.remove_slot(slot);
        let leftover = attachment.record.leftover();
        self.leftovers
            .add(attachment.interface, leftover, attachment.memory);
        self.divide(attachment.interface);
        self.save(attachment.interface);
    }

    /// Tells the packet path and the tables of a change of the ledger. What the kernel refuses is said.
    pub(super) fn apply(&mut self, change: &Change) {
        if let Err(error) = self.enter(change) {
            warn!("{}: {error}", change.claim);
        }
        // After the packet path: what still comes for the grant does not meet the host's own socket.
        if change.slot.is_none() {
            self.reservations.release(change.grant);
        }
        self.tables.grant(&self.ledger, change);
    }

    /// Tells the packet path alone, and whether the kernel took it.
    pub(super) fn enter(&mut self, change: &Change) -> exos_host::error::Result<()> {
        let index = change.claim.interface;
        let members = self.ledger.members(change.grant);
        let mut interfaces = self.interfaces.iter_mut();
        let interface = interfaces.find(|i| i.link.index == index);
        interface.map_or(Ok(()), |i| i.gate.apply(change, &members))
    }

    /// Gives each slot of an interface its part of the link.
    pub(super) fn divide(&self, ifindex: u32) {
        let Some(interface) = self.interface(ifindex) else {
            return;
        };
        let parts = self.parts(ifindex);
        if let Err(error) = shares::divide(&interface.gate, interface.policy.rate, &parts) {
            warn!("{}: {error}", interface.link.name);
        }
    }

    /// How each slot of an interface shares the link: weight and cap.
    pub(super) fn parts(&self, ifindex: u32) -> Vec<shares::Part> {
        let attachments = self.attachments.values().filter(|s| s.interface == ifindex);
        let records = attachments.map(|attachment| &attachment.record);
        records.map(|r| (r.slot, r.weight, r.rate_max)).collect()
    }

    /// The attachment of a slot that there is.
    pub(super) fn attachment_mut(&mut self, slot: SlotId) -> &mut Attachment {
        let attachment = self.attachments.get_mut(&slot);
        attachment.expect("every slot has an attachment")
    }

    /// Whose a slot is that there is.
    pub(super) fn owner(&self, slot: SlotId) -> &Owner {
        let owner = self.ledger.owner(slot);
        owner.expect("every slot has an owner")
    }

    /// The interface of a slot that there is.
    pub(super) fn interface_of(&self, slot: SlotId) -> &Interface {
        self.served(self.attachments[&slot].interface)
    }

    /// An interface that has slots.
    pub(super) fn served(&self, index: u32) -> &Interface {
        let interface = self.interface(index);
        interface.expect("slots are on interfaces that are served")
    }

    /// A slot's row of the tables.
    pub(super) fn write_slot(&mut self, slot: SlotId) {
        let Some(attachment) = self.attachments.get(&slot) else {
            return;
        };
        let record = &attachment.record;
        let mut row = tables::Slot {
            number: slot,
            pid: record.pid,
            uid: record.who.uid,
            interface: attachment.interface,
            direct: record.queue.is_some(),
            weight: record.weight,
            grants: (self.ledger.count_held_by(slot) + self.ledger.generals_of(slot).count())
                as u32,
            since_ns: record.since_ns(),
            program: record.program.clone(),
            counters: [0; exos_xok::limits::TABLE_COUNTERS],
        };
        let interface = self.interface(attachment.interface);
        let counters = interface.and_then(|i| i.gate.counters(slot).ok());
        for (to, from) in row.counters.iter_mut().zip(counters.unwrap_or_default()) {
            *to = from;
        }
        self.tables
            .write_quietly(|w| w.set(slot as usize, Some(&row)));
    }
}
