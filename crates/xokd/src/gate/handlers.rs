//! Handlers of slots: made of what the daemon has checked, and put behind the slot's entry.
//!
//! As with filters, what takes the kernel long is made elsewhere ([`HandlerWork::make`]) and put in its place when it is there
//! ([`Gate::put_handler`]). A handler goes with its slot; until then what it is not in the way of finds the
//! program, also when the port is another's by now: no packet of that leads to this slot.

mod places;

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use exos_ash::kernel::InKernel;
use exos_ash::{Checked, Layout};
use exos_filter::gate::handling::{ingress, outcome};
use exos_filter::gate::outcome::Outcome;
use exos_filter::gate::steps::Steps;
use exos_filter::gate::{Handled, Maps};
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::SecondStage;
use exos_filter::handler::web::layout::{Entries, Rings};
use exos_filter::handler::{SynHandler, WebHandler};
use exos_host::bpf::{Map, Prog, TcxHook, TcxLink};
use exos_host::error::Result;
use exos_host::random::random_number;
use exos_wire::{Mac, protocol};
use exos_xok::message::Answering;

use super::Gate;
use super::pins::find_tcx;

/// What handlers are to know of their interface.
#[derive(Debug)]
pub struct HandlerConfig {
    /// The interface's name.
    pub interface: String,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Addresses there.
    pub addresses: Vec<IpAddr>,
    /// Broadcast addresses there.
    pub broadcasts: Vec<Ipv4Addr>,
    /// Packets may come from a kernel on this machine, with a checksum that is still to be made.
    pub may_be_partial: bool,
}

/// Whose messages a handler gets, and what it does with them.
#[derive(Debug)]
pub enum Handles {
    /// The datagrams that come to a port.
    Datagrams {
        /// The port.
        port: u16,
        /// What is done with them.
        handler: Checked,
    },
    /// The segments that come to a TCP port: SYNs and requests are answered.
    Requests {
        /// What the program says.
        answering: Answering,
        /// What it answers with.
        entries: Entries,
        /// Where the port is the slot's.
        addresses: Vec<IpAddr>,
        /// The memory, where another slot of the program has it already.
        memory: Option<Arc<Map>>,
    },
}

impl Handles {
    /// Bytes of its memory.
    pub fn memory_len(&self) -> u64 {
        match self {
            Self::Datagrams { handler, .. } => Layout::of(handler.handler()).bytes().into(),
            Self::Requests {
                answering, entries, ..
            } => rings(answering, *entries).memory_len(),
        }
    }

    /// Whether it ever sends.
    fn replies(&self) -> bool {
        match self {
            Self::Datagrams { handler, .. } => handler.longest_reply().is_some(),
            Self::Requests { .. } => true,
        }
    }
}

/// Those of the slot, which is one core of its program's.
pub fn rings(answering: &Answering, entries: Entries) -> Rings {
    let rings = WebHandler::rings(entries, answering.reports, answering.cores.into());
    rings.of_interface(answering.core.into(), 1)
}

/// What it takes to make a handler's program.
#[derive(Debug)]
pub struct HandlerWork {
    maps: Arc<Maps<Map>>,
    config: HandlerConfig,
}

/// A handler's program, and its memory.
#[derive(Debug)]
pub struct MadeHandler {
    handled: Handled,
    program: Prog,
    /// What makes packets longer before they leave.
    second_stage: Option<Prog>,
    memory: Arc<Map>,
    /// The kernel's number of its memory, by which it is known whether anybody has it.
    pub map: u32,
    /// The kernel's number of its program, by which it is known whether that is there.
    pub code: u32,
    /// Bytes of its code.
    pub code_bytes: u64,
}

impl MadeHandler {
    fn new(
        handled: Handled,
        (program, second_stage): (Prog, Option<Prog>),
        memory: Arc<Map>,
    ) -> Result<Self> {
        let (info, later) = (program.info()?, second_stage.as_ref());
        let later = later.map(Prog::info).transpose()?;
        let all = [Some(&info), later.as_ref()].into_iter().flatten();
        let bytes = all.map(|one| u64::from(one.jited_bytes) + u64::from(one.xlated_bytes));
        Ok(Self {
            handled,
            map: memory.id()?,
            code: info.id,
            code_bytes: bytes.sum(),
            program,
            second_stage,
            memory,
        })
    }
}

impl HandlerWork {
    /// Makes the memory and the program, and has the kernel verify it.
    pub fn make(self, handles: &Handles) -> Result<MadeHandler> {
        let (maps, config) = (&self.maps, &self.config);
        let way_out = match handles.replies() {
            false => WayOut::Transmit,
            true => exos_link::way_back(&config.interface)?,
        };
        let new_memory = |name| {
            let len = handles.memory_len() as usize;
            Map::mappable_array(name, len, 1).map(Arc::new)
        };
        let handled = |protocol, port, steps| Handled {
            port,
            protocol,
            replies: handles.replies(),
            steps,
        };
        match handles {
            Handles::Datagrams { port, handler } => {
                let memory = new_memory("exos_ash")?;
                let steps = u32::try_from(handler.steps()).unwrap_or(u32::MAX);
                let handled = handled(protocol::UDP, *port, steps);
                let in_kernel = config.datagrams((*port, handler), &memory, way_out);
                let program = in_kernel.in_gate(maps.outcomes.raw_fd());
                let program = Prog::load(&program.words(), "exos_ash", true)?;
                MadeHandler::new(handled, (program, None), memory)
            }
            Handles::Requests {
                answering,
                entries,
                addresses,
                memory,
            } => {
                let memory = match memory {
                    Some(memory) => memory.clone(),
                    None => new_memory("exos_web")?,
                };
                let port = answering.recipe.port;
                let handled = handled(protocol::TCP, port, WebHandler::steps(*entries));
                let syns = config.syns(answering, addresses, way_out);
                let programs = answers(maps, (answering, *entries), syns, &memory)?;
                MadeHandler::new(handled, programs, memory)
            }
        }
    }
}

impl HandlerConfig {
    fn datagrams<'a>(
        &self,
        (port, handler): (u16, &'a Checked),
        memory: &Map,
        way_out: WayOut,
    ) -> InKernel<'a> {
        InKernel {
            handler,
            memory_fd: memory.raw_fd(),
            mac: self.mac,
            addresses: Vec::new(),
            not_from: self.broadcasts.clone(),
            port,
            may_be_partial: self.may_be_partial,
            way_out,
        }
    }

    fn syns(&self, answering: &Answering, addresses: &[IpAddr], way_out: WayOut) -> SynHandler {
        let broadcasts = self.broadcasts.iter().copied().map(IpAddr::V4);
        SynHandler {
            mac: self.mac,
            addresses: addresses.to_vec(),
            not_from: self.addresses.iter().copied().chain(broadcasts).collect(),
            recipe: answering.recipe.clone(),
            may_decline: true,
            may_be_partial: self.may_be_partial,
            way_out,
        }
    }
}

/// The program that answers requests, and its second stage where it has one.
fn answers(
    maps: &Maps<Map>,
    (answering, entries): (&Answering, Entries),
    syn: SynHandler,
    memory: &Map,
) -> Result<(Prog, Option<Prog>)> {
    let outcomes_fd = maps.outcomes.raw_fd();
    let steps = Steps {
        scratch_fd: maps.scratch.raw_fd(),
        budgets_fd: maps.handler_budgets.raw_fd(),
    };
    let scratch = Map::percpu_array("exos_web_scratch", WebHandler::SCRATCH_LEN, 1)?;
    let handler = WebHandler {
        second_stage: second_stage(syn.way_out),
        syn,
        entries,
        peer_connections: answering.peer_connections,
        rings: rings(answering, entries),
        memory_fd: memory.raw_fd(),
        scratch_fd: scratch.raw_fd(),
        key: answering.key,
        reports: answering.reports,
        http: answering.http,
    };
    let later = handler.second_stage_in_gate(outcomes_fd);
    let later = later.map(|later| Prog::load_classifier(&later.words(), "exos_web"));
    let words = handler.in_gate(outcomes_fd, steps).words();
    Ok((Prog::load(&words, "exos_web", true)?, later.transpose()?))
}

/// Where packets leave by a redirection, as on a veth, they cannot grow before.
fn second_stage(way_out: WayOut) -> Option<SecondStage> {
    match way_out {
        WayOut::Redirect(interface) => Some(SecondStage {
            interface,
            mark: random_number(),
        }),
        _ => None,
    }
}

impl Gate {
    /// Puts the programs in their places that handlers go on in.
    pub(super) fn put_outcomes(maps: &Maps<Map>) -> Result<()> {
        let fds = maps.map(|map| map.raw_fd());
        for each in Outcome::ALL {
            let program = Prog::load(&outcome(&fds, each).words(), "exos_outcome", true)?;
            maps.outcomes.set_fd(each as u32, program.as_fd())?;
        }
        Ok(())
    }

    /// What it takes to make a slot's handler.
    pub fn handler_work(&self, config: HandlerConfig) -> HandlerWork {
        HandlerWork {
            maps: Arc::clone(&self.maps),
            config,
        }
    }

    /// Has the program that leads to second stages be at the device's ingress, from now on.
    fn lead_to_second_stages(&self) -> Result<()> {
        let (name, ifindex) = (self.folder.join("ingress"), self.config.ifindex);
        let fds = self.maps.map(|map| map.raw_fd());
        let program = Prog::load_classifier(&ingress(&fds).words(), "exos_ingress")?;
        if let Some(link) = find_tcx(&name, ifindex)? {
            return link.update(&program);
        }
        let _ = std::fs::remove_file(&name);
        TcxLink::attach(ifindex, &program, TcxHook::Ingress)?.pin(&name)
    }
}
