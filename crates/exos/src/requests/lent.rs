//! Requests answered in the kernel by the daemon: it is told numbers, makes the kernel's part, and lends its memory. On several cores each has a
//! slot of the daemon's, and with it a part of the kernel's, all on the memory that the first was lent.

use exos_filter::handler::WebHandler;
use exos_filter::handler::web::layout::Entries;
use exos_filter::{Counter, gate};
use exos_host::bpf::MappedArray;
use exos_host::random::random_number;
use exos_inet::tcp::ListenerId;
use exos_xok::message::{Answering, Secret};

use super::Requests;
use super::capacity::Capacity;
use super::shared::Part;
use crate::Error;
use crate::node::Exos;
use crate::via::Via;

impl Exos {
    /// Has the daemon have the kernel answer requests to a listener: by this core's slot, and by those of the cores that it has not given away,
    /// from one memory.
    pub(super) fn have_requests_answered(
        &mut self,
        listener: ListenerId,
        entries: Entries,
        capacity: Capacity,
        reports: bool,
    ) -> Result<Part, Error> {
        let handlers = self.handlers_to_lend(listener, entries, capacity, reports)?;
        let memory = self.ask_for_each(&handlers);
        // The first that was made took the place of handlers of datagrams, also where another was refused.
        self.in_kernel.were_replaced();
        let now = self.now();
        let memory = memory.inspect_err(|_| self.stack.stop_offloading_syns(now, listener))?;
        Ok(self.give_parts(memory, None, handlers, capacity))
    }

    /// What the daemon is to make, of each core.
    fn handlers_to_lend(
        &mut self,
        listener: ListenerId,
        entries: Entries,
        capacity: Capacity,
        reports: bool,
    ) -> Result<Vec<WebHandler>, Error> {
        let key = random_number();
        let syns = self.syn_handlers(listener)?;
        let rings = WebHandler::rings(entries, reports, syns.len() as u32);
        let handlers = syns.into_iter().map(|(syn, cores)| WebHandler {
            syn,
            entries,
            peer_connections: capacity.peer_connections,
            rings: rings.of_interface(cores.start as u32, cores.len() as u32),
            memory_fd: -1,
            scratch_fd: -1,
            key,
            second_stage: None,
            reports,
            http: capacity.http,
        });
        Ok(handlers.collect())
    }

    /// Has the daemon make them, all or none; the first brings the memory.
    fn ask_for_each(&mut self, handlers: &[WebHandler]) -> Result<MappedArray, Error> {
        let others = self.cores.iter_mut().map(|core| &mut core.via);
        let slots = std::iter::once(&mut self.via).chain(others);
        let mut slots: Vec<&mut Via> = slots.flatten().collect();
        let len = handlers[0].rings.memory_len() as usize;
        let memory = slots[0].answer_requests(answering(&handlers[0], None), len)?;
        let token = slots[0].token();
        let mut others = handlers.iter().zip(&mut slots).skip(1);
        let shared = others.try_for_each(|(handler, via)| {
            via.answer_requests(answering(handler, Some(token)), len)
                .map(drop)
        });
        shared.map(|()| memory).inspect_err(|_| {
            for via in slots {
                // A daemon that is not there has the kernel go on.
                let _ = via.remove_handler(None);
            }
        })
    }
}

fn answering(of: &WebHandler, memory_of: Option<Secret>) -> Answering {
    Answering {
        recipe: of.syn.recipe.clone(),
        key: of.key,
        requests: of.entries.count as u32,
        response_max: of.entries.response_max as u16,
        peer_connections: of.peer_connections,
        reports: of.reports,
        http: of.http,
        cores: of.rings.cores() as u16,
        core: of.rings.own().start as u16,
        memory_of,
    }
}

impl Requests {
    /// Looks whether segments were dropped beyond the steps of the daemon's policy; of the first a person is told.
    pub(super) fn look_for_dropped(&mut self, via: Option<&mut Via>) {
        let Some(via) = via else {
            return;
        };
        let dropped = via.handler_dropped().saturating_sub(self.dropped_before);
        if self.dropped == 0 && dropped > 0 {
            via.tell_dropped();
        }
        self.dropped = self.dropped.max(dropped);
    }

    /// What the kernel's part of the daemon's counted, by the names that a link has for it, and what the daemon counted of it; nothing where
    /// it is a link's.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        if !self.shared.is_lent() {
            return Vec::new();
        }
        let of_core = self.handler.rings.counts(self.core as u64);
        let counts = WebHandler::COUNTS.iter().map(|&counter| {
            let at = of_core + 8 * counter as u64;
            (Counter::ALL[counter as usize].1, self.shared.memory.get(at))
        });
        let dropped = (gate::Counter::HandlerDropped.name(), self.dropped);
        counts.chain([dropped]).collect()
    }
}
