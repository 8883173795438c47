//! Lending slots the ways past their interface: the gate's program for one slot, which its holder runs, and memory that its frames
//! arrive in.

use std::rc::Rc;

use exos_filter::gate::limits::BATCH_PLACES;
use exos_link::Facts as LinkFacts;
use exos_xok::message::{Answer, Refusal};

use super::super::Daemon;
use super::super::answers::{Answered, refuse};
use crate::gate::{bypass_bytes, may_arrive_in_memory};
use crate::ledger::SlotId;

impl Daemon {
    /// Makes a slot's program and memory, and passes them.
    pub(in crate::daemon) fn lend_bypass(&mut self, slot: SlotId) -> Answered {
        let attachment = &self.attachments[&slot];
        let record = &attachment.record;
        if record.queue.is_some() {
            let text = "what is sent by a queue of the interface itself is checked by nobody: there is no program for it";
            return Err(refuse(Refusal::Unsupported, text));
        }
        if !record.maps.is_empty() {
            let text = "the slot has its program already; attach again for another";
            return Err(refuse(Refusal::Held, text));
        }
        let link = record.link[..].try_into();
        let link = LinkFacts::from_bytes(link.expect("as long as facts are"));
        let (index, ifindex) = (attachment.interface, record.ifindex);
        let bytes = |with_arrivals| bypass_bytes(link.chunk_size, with_arrivals);
        let fits = |with_arrivals| self.check_more_memory(&record.who, index, bytes(with_arrivals));
        let with_arrivals = may_arrive_in_memory(link.mtu) && fits(true).is_ok();
        if !with_arrivals {
            fits(false)?;
        }
        let bytes = bytes(with_arrivals);
        let interface = self.interface(index).expect("slots are of interfaces");
        let lent = interface
            .gate
            .lend_bypass(slot, ifindex, link.chunk_size, with_arrivals)?;
        let record = &mut self.attachment_mut(slot).record;
        record.maps = lent.maps;
        record.memory += bytes;
        self.save(index);
        let fds = lent.descriptors.into_iter().map(Rc::new).collect();
        let answer = Answer::Bypass {
            places: BATCH_PLACES,
            interface: ifindex,
            live: lent.live,
        };
        Ok((answer, fds))
    }
}
