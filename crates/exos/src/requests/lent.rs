//! Requests answered in the kernel by the daemon: it is told numbers, makes the kernel's part, and lends its memory.

use exos_filter::Counter;
use exos_filter::handler::WebHandler;
use exos_filter::handler::web::layout::{self, Entries};
use exos_inet::tcp::ListenerId;
use exos_xok::message::Answering;

use super::memory::Memory;
use super::shared::{Part, Shared};
use super::{Capacity, Requests, random};
use crate::Error;
use crate::node::Exos;

impl Exos {
    /// Has the daemon have the kernel answer requests to a listener.
    pub(super) fn have_requests_answered(
        &mut self,
        listener: ListenerId,
        entries: Entries,
        capacity: Capacity,
        reports: bool,
    ) -> Result<Part, Error> {
        let mut handler = WebHandler {
            syn: self.syn_handler(listener)?,
            entries,
            peer_connections: capacity.peer_connections,
            rings: WebHandler::rings(entries, reports, 1),
            memory_fd: -1,
            scratch_fd: -1,
            key: random()?,
            second_stage: None,
            reports,
            http: capacity.http,
        };
        let via = self.via.as_mut().expect("a link is lent");
        let len = handler.rings.memory_len() as usize;
        let memory = via.answer_requests(answering(&handler), len);
        let now = self.now();
        let memory = memory.inspect_err(|_| self.stack.stop_offloading_syns(now, listener))?;
        self.in_kernel.were_replaced();
        handler.memory_fd = memory.raw_fd();
        let mut parts = Shared::divide(Memory::Shared(memory), None, vec![handler], capacity);
        Ok(parts.next().expect("there is a first core"))
    }
}

fn answering(of: &WebHandler) -> Answering {
    Answering {
        recipe: of.syn.recipe.clone(),
        key: of.key,
        requests: of.entries.count as u32,
        response_max: of.entries.response_max as u16,
        peer_connections: of.peer_connections,
        reports: of.reports,
        http: of.http,
    }
}

impl Requests {
    /// What the kernel's part of the daemon's counted, by the names that a link has for it; nothing where it is a link's.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let counts = WebHandler::COUNTS.iter().filter(|_| self.shared.is_lent());
        let counts = counts.map(|&counter| {
            let at = layout::COUNTS + 8 * counter as u64;
            (Counter::ALL[counter as usize].1, self.shared.memory.get(at))
        });
        counts.collect()
    }
}
