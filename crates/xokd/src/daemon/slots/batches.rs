//! Lending slots the way to send many frames at once: the gate's program for one slot, which its holder runs.

use std::rc::Rc;

use exos_filter::gate::limits::BATCH_PLACES;
use exos_link::Facts as LinkFacts;
use exos_xok::message::{Answer, Refusal};

use super::super::Daemon;
use super::super::answers::{Answered, refuse};
use crate::gate::batch_bytes;
use crate::ledger::SlotId;

impl Daemon {
    /// Makes a slot's program with its memory, and passes it.
    pub(in crate::daemon) fn lend_batch(&mut self, slot: SlotId) -> Answered {
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
        let chunk_size = LinkFacts::from_bytes(link.expect("as long as facts are")).chunk_size;
        let (index, ifindex) = (attachment.interface, record.ifindex);
        let bytes = batch_bytes(chunk_size);
        self.check_more_memory(&record.who, index, bytes)?;
        let interface = self.interface(index).expect("slots are of interfaces");
        let lent = interface.gate.lend_batch(slot, ifindex, chunk_size)?;
        let record = &mut self.attachment_mut(slot).record;
        record.maps = lent.maps;
        record.memory += bytes;
        self.save(index);
        let fds = lent.descriptors.into_iter().map(Rc::new).collect();
        let answer = Answer::Batch {
            places: BATCH_PLACES,
            interface: ifindex,
        };
        Ok((answer, fds))
    }
}
