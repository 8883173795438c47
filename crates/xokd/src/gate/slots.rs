//! Slots as the packet path has them: what is entered for one, and that all of it goes again.
//!
//! ```text
//! slots[N]             what it is           by_ifindex[interface] = N    whose what comes out of a pair is
//! ports[N]             where its pair is    queue_owner[queue] = N       whose a queue of the device is
//! slot<N>-out, -ring,  the links' names     sockets[queue]               where that queue's packets go
//!   -web
//! arrivals[N]          the memory that its frames arrive in, past its pair
//! queues[N], frames[N], secrets[N]           what its holder sends live frames from, and by what it is known
//! ```
//!
//! The tables outlive the daemon, so nothing that it remembers is asked when a slot goes: what leads to the slot is
//! found in the tables themselves, whole or half made, by this daemon or by an earlier one. For that a slot is entered
//! in `slots` before anything else, and in `by_ifindex` and `queue_owner` before anything that only they tell of.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use exos_filter::gate::limits::{QUEUES_MAX, SLOTS};
use exos_filter::gate::{Bucket, Slot, SlotKind};
use exos_host::bpf::{Link, TcxHook};
use exos_host::error::Result;

use super::Gate;
use super::handler_tables::forget_handlers;
use super::pins::attach_tc;
use super::remains::{Remains, check_name, forget_memory, forget_secret, ring_name};
use crate::ledger::SlotId;

impl Gate {
    /// Puts a slot in its place: its table entry, the way in and the check on the way out.
    pub fn add_slot(&self, id: SlotId, slot: &Slot) -> Result<()> {
        let key = id.to_ne_bytes();
        self.enter_slot(id, slot)?;
        let ifindex = slot.ifindex.to_ne_bytes();
        self.maps.by_ifindex.update(&ifindex, &key)?;
        // The check is there before anything can be sent: the program gets its sockets later.
        let name = self.check_name(id);
        attach_tc(&name, slot.ifindex, &self.out, TcxHook::Ingress)?;
        self.maps.ports.update(&key, &ifindex)
    }

    /// Gives a queue of the device to a slot: what comes in there for it goes to the socket. Nobody checks what the
    /// socket sends.
    pub fn add_direct(
        &self,
        id: SlotId,
        slot: &Slot,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<()> {
        self.enter_slot(id, slot)?;
        let owner = id.to_ne_bytes();
        self.maps.queue_owner.update(&queue.to_ne_bytes(), &owner)?;
        self.maps.sockets.set_fd(queue, socket)
    }

    fn enter_slot(&self, id: SlotId, slot: &Slot) -> Result<()> {
        let key = id.to_ne_bytes();
        // That of the number's last holder, should it be there still.
        forget_secret(&self.maps, id)?;
        forget_memory(&self.maps, id)?;
        forget_handlers(&self.maps, id, |_| true)?;
        let no_steps = Bucket::default().to_bytes();
        self.maps.handler_budgets.update(&key, &no_steps)?;
        if slot.kind != SlotKind::Daemon {
            // What the number's last holder was counted is not the next one's. Slot 0 is always the daemon's.
            let zeros = vec![0; self.maps.counters.user_value_size()];
            self.maps.counters.update(&key, &zeros)?;
        }
        self.maps.slots.update(&key, &slot.to_bytes())
    }

    /// Takes a slot out, whatever of it is there. Its grants must be gone, and its pair.
    pub fn forget(&self, id: SlotId) -> Result<()> {
        self.close_slot(id).and(self.remains().forget(id))
    }

    /// Has nothing more be received or sent for a slot. Its grants must be gone. A socket on a queue receives nothing more, and
    /// can send until its last holder has gone. The rest is for [`Remains::forget`], without its pair.
    pub fn close_slot(&self, id: SlotId) -> Result<()> {
        let ways = self.slot(id).and_then(|slot| self.forget_ways(id, &slot));
        // Also where it cannot be seen what led to it.
        ways.and(self.remains().empty(id))
    }

    /// Forgets what leads to a slot.
    fn forget_ways(&self, id: SlotId, slot: &Slot) -> Result<()> {
        let interface = self.forget_interface(id, slot.ifindex);
        let queues = match slot.kind {
            SlotKind::Direct => self.forget_queues(|owner| owner == id),
            _ => Ok(()),
        };
        interface.and(queues)
    }

    /// Where slots' remains are.
    pub fn remains(&self) -> Remains {
        Remains::new(self.config.ifindex, &self.folder, &self.maps)
    }

    /// Forgets that an interface is a slot's.
    fn forget_interface(&self, id: SlotId, ifindex: u32) -> Result<()> {
        let key = ifindex.to_ne_bytes();
        match self.maps.by_ifindex.lookup(&key)?.and_then(number) {
            Some(slot) if slot == id => self.maps.by_ifindex.delete(&key).map(drop),
            _ => Ok(()),
        }
    }

    /// Takes out all slots but these, and everything that leads to none: also what no daemon knows of any more.
    pub fn keep_only(&self, kept: &[SlotId]) -> Result<()> {
        let entries: Vec<Slot> = (0..SLOTS).map(|id| self.slot(id)).collect::<Result<_>>()?;
        let is_at = |id: SlotId, ifindex| {
            let entry = entries.get(id as usize);
            entry.is_some_and(|slot| slot.ifindex == ifindex)
        };
        self.forget_interfaces(|slot, ifindex| !kept.contains(&slot) || !is_at(slot, ifindex))?;
        self.forget_queues(|slot| slot == 0 || !kept.contains(&slot))?;
        let mut others = (0..SLOTS).filter(|id| !kept.contains(id));
        let remains = self.remains();
        others.try_for_each(|id| remains.forget(id))
    }

    /// Forgets whose interfaces are that these slots have.
    fn forget_interfaces(&self, goes: impl Fn(SlotId, u32) -> bool) -> Result<()> {
        for key in self.maps.by_ifindex.keys()? {
            let slot = self.maps.by_ifindex.lookup(&key)?.and_then(number);
            let ifindex = number(key.clone()).unwrap_or_default();
            if slot.is_none_or(|slot| goes(slot, ifindex)) {
                self.maps.by_ifindex.delete(&key)?;
            }
        }
        Ok(())
    }

    /// Takes back the queues of these slots; 0 has those that are nobody's.
    fn forget_queues(&self, goes: impl Fn(SlotId) -> bool) -> Result<()> {
        for queue in 0..QUEUES_MAX {
            if goes(self.queue_owner(queue)?) {
                let key = queue.to_ne_bytes();
                self.maps.queue_owner.update(&key, &[0; 4])?;
                // The kernel takes out a socket that is closed by itself.
                self.maps.sockets.clear(queue)?;
            }
        }
        Ok(())
    }

    /// The slot that a queue belongs to; 0 for none.
    pub fn queue_owner(&self, queue: u32) -> Result<SlotId> {
        let value = self.maps.queue_owner.lookup(&queue.to_ne_bytes())?;
        Ok(value.and_then(number).unwrap_or_default())
    }

    /// Where the XDP link of a slot's ring is to be pinned.
    pub fn ring_name(&self, id: SlotId) -> PathBuf {
        ring_name(&self.folder, id)
    }

    /// Whether the ring of a slot gets what arrives at the other end of its pair.
    pub fn has_ring(&self, id: SlotId) -> bool {
        Link::is_attached(&self.ring_name(id)).unwrap_or(false)
    }

    /// Where the link of the check of what a slot sends is pinned.
    pub(super) fn check_name(&self, id: SlotId) -> PathBuf {
        check_name(&self.folder, id)
    }
}

fn number(bytes: Vec<u8>) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}
