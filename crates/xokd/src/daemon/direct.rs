//! Queues of the interface itself, lent to programs.
//!
//! The daemon makes an AF_XDP socket that is bound to the queue and gives it away with its memory. What comes in there
//! is given to the program by the gate, as far as it is the program's by its grants. **What the program sends is not
//! checked by anybody**: no program runs between its ring and the wire, so it can send any frame, with anybody's
//! addresses, as much as the queue carries. Hence policy must say `direct` for a user, and the socket is all that is
//! passed: a packet socket of the host's namespace could be bound to any interface there.
//!
//! What the program receives is checked and shared as everybody's. A queue can be taken back only as far as that goes:
//! the kernel has no way to take a bound socket from its holder, so the sending ends with the holder's process.

use std::time::Duration;

use exos_filter::gate::limits::QUEUES_MAX;
use exos_filter::gate::{Slot, SlotKind};
use exos_host::Error;
use exos_host::ethtool::Ethtool;
use exos_host::netns::NetNs;
use exos_link::{Feed, Offer, OfferConfig};
use exos_xok::message::Refusal;
use rustix::io::Errno;

use super::Daemon;
use super::answers::{Refused, busy, refuse};
use super::slots::Made;
use crate::clock::now;
use crate::interface::Interface;
use crate::ledger::SlotId;
use crate::limits::{QUEUE_RETRY, QUEUE_WAIT};
use crate::policy::{Rule, Who};

impl Daemon {
    /// A queue for a newcomer, the one that is asked for or the first that is free, by the rule that allows it.
    pub(super) fn make_direct(
        &self,
        index: u32,
        who: &Who,
        chunks: u32,
        asked: Option<u32>,
    ) -> Result<(Made, Rule), Refused> {
        let interface = self.served(index);
        let queues = self.queues(interface, who, asked)?;
        let first = queues[0];
        let rule = self.direct_rule(interface, who, first)?;
        let chunks = self.check_bounds(who, rule, chunks)?;
        let slot = self.free_slot()?;
        let mut refused = Vec::new();
        for queue in queues {
            let offer = offer(interface, queue, chunks);
            match offer.and_then(|offer| place(interface, slot, queue, offer)) {
                Ok(made) => return Ok((made, self.direct_rule(interface, who, queue)?.clone())),
                Err(error) => refused.push(self.unlent(interface, queue, error)),
            }
        }
        // One that comes free in a moment is what to tell of.
        let last = refused.pop().expect("there was an attempt");
        let soon = refused.into_iter().find(|r| r.code == Refusal::Busy);
        Err(soon.unwrap_or(last))
    }

    /// Why a queue that the daemon has lent to nobody cannot be lent: for a moment after it was given back it is still with
    /// the program that had it, and nobody waits for that here. Otherwise a program has it that the daemon does not know.
    fn unlent(&self, interface: &Interface, queue: u32, error: Error) -> Refused {
        let given_back = self.given_back.get(&(interface.link.index, queue));
        let lately = given_back.is_some_and(|at| now() < *at + QUEUE_WAIT);
        if lately && error.is(Errno::BUSY.raw_os_error()) {
            let name = &interface.link.name;
            let why = format!("queue {queue} of {name} was given back just now");
            return busy(&why, QUEUE_RETRY);
        }
        refuse(Refusal::System, error)
    }

    /// The queues to try: allowed, and not lent. At least one.
    pub(super) fn queues(
        &self,
        interface: &Interface,
        who: &Who,
        asked: Option<u32>,
    ) -> Result<Vec<u32>, Refused> {
        let ethtool = Ethtool::new().map_err(|e| refuse(Refusal::System, e))?;
        let all = 0..ethtool.receive_queues(&interface.link).min(QUEUES_MAX);
        if let Some(queue) = asked.filter(|queue| !all.contains(queue)) {
            let (name, count) = (&interface.link.name, all.end);
            let text = format!("{name} uses no queue {queue}; name one below {count}");
            return Err(refuse(Refusal::NotFound, text));
        }
        let meant = all.filter(|queue| asked.is_none_or(|asked| asked == *queue));
        let allowed = |queue: &u32| self.direct_rule(interface, who, *queue).is_ok();
        let allowed: Vec<u32> = meant.filter(allowed).collect();
        let Some(first) = allowed.first() else {
            let refused = self.direct_rule(interface, who, asked.unwrap_or(0)).err();
            return Err(refused.expect("no queue is allowed"));
        };
        let holder = self.queue_holder(interface, *first);
        let free = allowed.iter().copied();
        let free: Vec<u32> = free
            .filter(|queue| self.queue_holder(interface, *queue).is_none())
            .collect();
        match (free.is_empty(), holder) {
            (true, Some(holder)) => Err(refuse(Refusal::Held, self.held_queue(*first, holder))),
            _ => Ok(free),
        }
    }

    /// The slot that has a queue.
    fn queue_holder(&self, interface: &Interface, queue: u32) -> Option<SlotId> {
        let mut attachments = self.attachments.iter();
        let holder = attachments.find(|(_, attachment)| {
            attachment.interface == interface.link.index && attachment.record.queue == Some(queue)
        });
        holder.map(|(slot, _)| *slot)
    }

    fn held_queue(&self, queue: u32, holder: SlotId) -> String {
        let owner = self.owner(holder);
        format!(
            "queue {queue} is held by {owner}, and no other that policy allows is free; ask for shared"
        )
    }

    fn direct_rule(&self, interface: &Interface, who: &Who, queue: u32) -> Result<&Rule, Refused> {
        let rule = self
            .config
            .policy
            .attach(who, &interface.link.name, Some(queue));
        rule.map_err(|e| refuse(Refusal::NotAllowed, e))
    }
}

/// A socket on a queue of the interface, with its memory.
fn offer(interface: &Interface, queue: u32, chunks: u32) -> Result<Offer, Error> {
    Offer::make(&OfferConfig {
        namespace: &NetNs::current()?,
        interface: interface.link.name.clone(),
        queue,
        chunks,
        mac: interface.mac,
        rx_partial_checksum: false,
        super_packets: false,
        prefer_busy_poll: false,
        feed: Feed::Attached(interface.gate.mode()),
        queue_wait: Duration::ZERO,
    })
}

/// Has the gate give the slot's packets to the socket.
fn place(interface: &Interface, slot: SlotId, queue: u32, offer: Offer) -> Result<Made, Error> {
    let entry = Slot {
        kind: SlotKind::Direct,
        mac: interface.mac.0,
        ..Slot::default()
    };
    let socket = std::os::fd::AsFd::as_fd(&offer.socket);
    let placed = interface.gate.add_direct(slot, &entry, queue, socket);
    if placed.is_err() {
        let _ = interface.gate.forget(slot);
    }
    placed?;
    Ok(Made {
        slot,
        place: None,
        facts: offer.facts,
        memory: offer.held.memory,
        fds: vec![offer.socket, offer.memory],
    })
}
