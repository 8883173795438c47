//! Requests answered in the kernel on links of the program's own: one memory for all interfaces, and the kernel's part on each.

use std::ops::Range;

use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::SecondStage;
use exos_filter::handler::web::layout::{Entries, Rings};
use exos_filter::handler::{SynHandler, WebHandler};
use exos_host::bpf::{Map, MappedArray};
use exos_host::random::random_number;
use exos_inet::tcp::ListenerId;
use exos_link::XdpLink;

use super::capacity::Capacity;
use super::memory::Memory;
use super::shared::{Part, Shared};
use crate::Error;
use crate::handlers::needs_interface;
use crate::node::Exos;

/// What the kernel's parts have in common.
struct Common {
    entries: Entries,
    peer_connections: Option<u32>,
    rings: Rings,
    memory: MappedArray,
    scratch: Map,
    key: u64,
    reports: bool,
    http: bool,
}

impl Exos {
    /// The first core's part; the others get theirs.
    pub(super) fn begin_to_answer(
        &mut self,
        listener: ListenerId,
        capacity: Capacity,
        reports: bool,
    ) -> Result<Part, Error> {
        let entries = capacity.entries()?;
        let is_another_core = self.handoff.is_some() && self.cores.is_empty();
        if is_another_core || self.pair.is_some() {
            return Err(needs_interface(
                "requests are answered in the kernel on an interface, from its first core on",
            ));
        }
        if self.via.is_some() {
            expect_mtu(self.link_of(0)?, capacity)?;
            return self.have_requests_answered(listener, entries, capacity, reports);
        }
        let rings = WebHandler::rings(entries, reports, 1 + self.cores.len() as u32);
        let common = Common {
            entries,
            peer_connections: capacity.peer_connections,
            rings,
            memory: MappedArray::new("exos_web", rings.memory_len() as usize, 1)?,
            scratch: Map::percpu_array("exos_web_scratch", WebHandler::SCRATCH_LEN, 1)?,
            key: random_number(),
            reports,
            http: capacity.http,
        };
        let handlers = self.answer_on_each(listener, capacity, &common);
        let handlers = handlers.inspect_err(|_| self.remove_handlers(listener))?;
        let Common {
            memory, scratch, ..
        } = common;
        Ok(self.give_parts(memory, Some(scratch), handlers, capacity))
    }

    /// Gives the other cores their parts, and this one its own.
    pub(super) fn give_parts(
        &mut self,
        memory: MappedArray,
        scratch: Option<Map>,
        handlers: Vec<WebHandler>,
        capacity: Capacity,
    ) -> Part {
        let mut parts = Shared::divide(Memory::Shared(memory), scratch, handlers, capacity);
        let first = parts.next().expect("there is a first core");
        for (core, part) in self.cores.iter_mut().zip(parts) {
            core.requests = Some(part);
        }
        first
    }

    /// Has the kernel answer on each interface; the handlers are in the order of the interfaces' cores.
    fn answer_on_each(
        &mut self,
        listener: ListenerId,
        capacity: Capacity,
        common: &Common,
    ) -> Result<Vec<WebHandler>, Error> {
        let syns = self.syn_handlers(listener)?;
        let mut handlers = Vec::new();
        for (syn, cores) in syns {
            let link = self.link_of(cores.start)?;
            expect_mtu(link, capacity)?;
            let handler = common.handler_on(link, syn, cores)?;
            link.set_handlers(&handler, &[])?;
            handlers.push(handler);
        }
        self.in_kernel.were_replaced();
        Ok(handlers)
    }
}

impl Common {
    /// What the kernel runs on an interface that these of the cores have.
    fn handler_on(
        &self,
        link: &XdpLink,
        mut syn: SynHandler,
        cores: Range<usize>,
    ) -> Result<WebHandler, Error> {
        syn.way_out = exos_link::ways_out(&[link])?[0][0];
        syn.may_decline = true;
        let second_stage = match syn.way_out {
            WayOut::Redirect(interface) => Some(SecondStage {
                interface,
                mark: random_number(),
            }),
            _ => None,
        };
        let (first, count) = (cores.start as u32, cores.len() as u32);
        Ok(WebHandler {
            syn,
            entries: self.entries,
            peer_connections: self.peer_connections,
            rings: self.rings.of_interface(first, count),
            memory_fd: self.memory.raw_fd(),
            scratch_fd: self.scratch.raw_fd(),
            key: self.key,
            second_stage,
            reports: self.reports,
            http: self.http,
        })
    }
}

fn expect_mtu(link: &XdpLink, capacity: Capacity) -> Result<(), Error> {
    let (mtu, mtu_min) = (link.mtu(), capacity.response_max + WebHandler::HEADERS_LEN);
    if mtu < mtu_min {
        let error =
            format!("an MTU of {mtu} is less than the {mtu_min} that responses of the kernel take");
        return Err(
            needs_interface(&error).mend(format!("have the MTU of {} be larger", link.name()))
        );
    }
    Ok(())
}
