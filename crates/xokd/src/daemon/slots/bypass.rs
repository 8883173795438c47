//! Lending slots the ways past their interface: the gate's program for one slot, which its holder runs, and memory that its frames
//! arrive in.
//!
//! The kernel takes long to verify the program, so that is done beside the loop. The memory is the slot's from the question on, and
//! nothing leads to it before the answer: a slot that goes meanwhile leaves nothing in the gate.

use std::rc::Rc;

use exos_filter::gate::limits::BATCH_PLACES;
use exos_host::error::Result as HostResult;
use exos_link::Facts as LinkFacts;
use exos_xok::message::{Answer, Refusal};

use super::super::answers::{Answered, Refused, RequestId, refuse};
use super::super::{Daemon, End};
use crate::gate::bypass::{BypassConfig, MadeBypass, bypass_bytes, may_arrive_in_memory};
use crate::ledger::SlotId;

impl Daemon {
    /// Makes a slot's program and memory, and passes them when they are made.
    pub(in crate::daemon) fn lend_bypass(&mut self, request_id: RequestId) -> Result<(), Refused> {
        let slot = self.slot(request_id.connection)?;
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
        let index = attachment.interface;
        let bytes = |with_arrivals| bypass_bytes(link.chunk_size, with_arrivals);
        let fits = |with_arrivals| self.check_more_memory(&record.who, index, bytes(with_arrivals));
        let with_arrivals = may_arrive_in_memory(link.mtu) && fits(true).is_ok();
        if !with_arrivals {
            fits(false)?;
        }
        let bytes = bytes(with_arrivals);
        let config = BypassConfig {
            slot,
            ifindex: record.ifindex,
            chunk_size: link.chunk_size,
            with_arrivals,
        };
        let work = self.served(index).gate.bypass_work(config)?;
        let user = self.user(&record.who);
        self.attachment_mut(slot).record.memory += bytes;
        self.work_for_place(user, move || -> End {
            let made = work.make();
            Box::new(move |daemon| daemon.end_bypass(request_id, slot, bytes, made))
        });
        Ok(())
    }

    /// What was made for a slot leads there, and its holder has it; unless the slot has gone meanwhile.
    fn end_bypass(
        &mut self,
        request_id: RequestId,
        slot: SlotId,
        bytes: u64,
        made: HostResult<MadeBypass>,
    ) {
        // Nobody else's connection has this number, and this one cannot have attached again: it is not heard before it is answered.
        if self.slot_of(request_id.connection) != Some(slot) {
            let text = "the slot has gone";
            return self.reply(request_id, Err(refuse(Refusal::NotFound, text)));
        }
        let answered = made.map_err(Refused::from);
        let answered = answered.and_then(|made| self.pass_bypass(slot, &made));
        if answered.is_err() {
            self.attachment_mut(slot).record.memory -= bytes;
        }
        self.reply(request_id, answered);
    }

    fn pass_bypass(&mut self, slot: SlotId, made: &MadeBypass) -> Answered {
        let lent = self.interface_of(slot).gate.lend_bypass(slot, made)?;
        let attachment = self.attachment_mut(slot);
        attachment.record.maps = lent.maps;
        let (interface, index) = (attachment.record.ifindex, attachment.interface);
        self.save(index);
        let fds = lent.descriptors.into_iter().map(Rc::new).collect();
        let answer = Answer::Bypass {
            places: BATCH_PLACES,
            interface,
            live: lent.live,
        };
        Ok((answer, fds))
    }
}
