//! Taking over what an earlier daemon left running, and leaving it so to the next.
//!
//! The packet path goes on without a daemon: its maps, programs and links have names, namespaces too. The grants are
//! read from the kernel's own table, the slots from the state file. A slot is kept when its process lives and its
//! interface is there; the program then has `REATTACH_TIME` to come back. Everything else is taken down.
//!
//! Lost with the earlier daemon: second holders of shared grants, tickets, resting ports, and the lock that keeps a
//! packet socket's holder from asking the kernel for rings (the slot's memory, not another's, is what it could waste).

use std::rc::Rc;

use exos_host::bpf;
use exos_host::error::Result;
use exos_host::netlink::Netlink;
use exos_link::Held;
use exos_xok::message::{Farewell, LINK_BYTES, Notice};

use super::Daemon;
use crate::interface::Interface;
use crate::ledger::{Change, Grant, SlotId};
use crate::slot::{self, Place};
use crate::state;

impl Daemon {
    /// Takes over what is there, of all interfaces.
    pub(super) fn adopt_all(&mut self) -> Result<()> {
        for at in 0..self.interfaces.len() {
            let saved = state::read(&self.interfaces[at].name);
            let index = self.interfaces[at].link.index;
            let kept: Vec<SlotId> = saved
                .slots
                .iter()
                .filter(|slot| self.interfaces[at].adopted && self.adopt(at, slot))
                .map(|slot| slot.slot)
                .collect();
            for slot in saved.slots.iter().filter(|s| !kept.contains(&s.slot)) {
                let interface = &self.interfaces[at];
                let _ = match slot.queue {
                    Some(queue) => interface.gate.remove_direct(slot.slot, queue),
                    None => interface.gate.remove_slot(slot.slot, slot.ifindex),
                };
                slot::remove(&self.netlink, &interface.prefix, index, slot.slot)?;
            }
            self.adopt_grants(at, &kept)?;
            self.divide(index);
            self.save(index);
        }
        Ok(())
    }

    /// Makes a seat of a saved slot; false when there is nothing to keep.
    fn adopt(&mut self, at: usize, saved: &state::Slot) -> bool {
        let interface = &self.interfaces[at];
        let index = interface.link.index;
        let alive = state::began(saved.pid) == Some(saved.began);
        let whole = saved.link.len() == LINK_BYTES && !self.seats.contains_key(&saved.slot);
        let place = match saved.queue {
            None => adopt_place(&self.netlink, interface, saved).map(Some),
            // The socket is the program's, and in the packet path's map as long as the program has it.
            Some(queue) => match interface.gate.queue_owner(queue) {
                Ok(owner) if owner == saved.slot => Some(None),
                _ => None,
            },
        };
        match place.filter(|_| alive && whole) {
            Some(place) => self.seat(index, saved.clone(), place, None),
            None => return false,
        }
        true
    }

    /// The grants of the slots that are kept go on; the others end.
    fn adopt_grants(&mut self, at: usize, kept: &[SlotId]) -> Result<()> {
        for (id, slot, claim) in self.interfaces[at].gate.grants()? {
            let fine = kept.contains(&slot) && claim.check().is_ok();
            let change = if fine && self.ledger.grant(id).is_none() {
                let holders = vec![slot];
                // The program goes on having the port when the host has taken it while there was no daemon.
                if self.is_shared(&claim)
                    && let Err(error) = self.reservations.hold(id, &claim)
                {
                    eprintln!("{claim} goes on, but {error}");
                }
                let owner = self.ledger.owner(slot).expect("it was kept");
                let origin = Rc::clone(&owner.who);
                let grant = Grant {
                    claim,
                    holders,
                    origin,
                };
                self.ledger.adopt(id, grant)
            } else {
                Change {
                    grant: id,
                    claim,
                    slot: None,
                }
            };
            self.apply(&change);
        }
        Ok(())
    }

    /// Writes down the slots of an interface for whoever comes after us.
    pub(super) fn save(&self, index: u32) {
        let Some(interface) = self.interface(index) else {
            return;
        };
        let seats = self.seats.iter().filter(|(_, s)| s.interface == index);
        let slots = seats.map(|(_, seat)| seat.record.clone());
        if let Err(error) = state::write(&interface.name, slots.collect()) {
            eprintln!("{error}; a daemon after this one will not know the programs");
        }
    }

    /// Goes without taking anything down.
    pub fn leave(mut self) {
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

/// The virtual interface of a slot, when all of it is there.
fn adopt_place(netlink: &Netlink, interface: &Interface, saved: &state::Slot) -> Option<Place> {
    let outer = slot::outer_name(interface.link.index, saved.slot);
    let outer = netlink.find_link(&outer).ok()??;
    let ring = bpf::Link::open_pinned(&interface.gate.ring_name(saved.slot)).ok()?;
    (outer.index == saved.ifindex).then(|| Place {
        namespace: slot::namespace_name(&interface.prefix, saved.slot),
        ifindex: saved.ifindex,
        held: Held {
            attachment: Some(ring),
            ..Held::default()
        },
    })
}
