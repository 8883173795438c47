//! Flows that the kernel forwards: what of the table it is given, and what it says of them.
//!
//! With `--in-kernel` the packets of flows that stand are rewritten in the interface's driver
//! ([`exos_filter::handler::forward`]) and do not come here. What comes is what begins flows, what may change how one
//! stands (SYN, FIN, RST), and all that is unusual; [`Forwarder`] deals with that as ever. So the table here has every
//! flow, and the kernel those of its flows that are established or talk both ways:
//!
//! ```text
//! Forwarder ── a flow stands, or no longer ──> follow ──> flows, hops    (maps, read by the program)
//!                                                           │
//! FlowTable::see <── when it was last seen ── sweep <───────┘
//! ```
//!
//! - A flow in the kernel is in two entries, one for each way.
//! - Its packets' next hops are entries of their own ([`hops`]), so that a neighbour with another link address is one
//!   change, and packets of one who is not known come here, where he is asked for.
//! - The kernel notes when it last saw a packet. All flows are read once in [`SWEEP_TIME`], some at a time; one
//!   whose time is over is looked up before it is forgotten.
//! - What the kernel does not take (its memory is full, or there are more neighbours or servers than it can be told of) is
//!   forwarded here, and counted.

pub mod hops;
mod maps;
mod table;
mod tallies;
#[cfg(test)]
mod tests;

use std::time::Duration;

use exos::{Error, Exos};
use exos_filter::handler::ForwardHandler;
use exos_filter::handler::forward::{Shape, WayOut};
use exos_inet::{Instant, Stack};

use crate::flow::{FlowId, Tick};
use crate::forwarder::Forwarder;
use crate::limits::{SWEEP_STEP, SWEEP_TIME, WAY_OUT_EVERY};
use crate::packet::Transport;
use crate::service::Services;
use table::Table;

/// The flows in the kernel, and the program that forwards them.
pub struct Kernel {
    table: Table,
    /// The program as it is attached, if it is.
    handler: ForwardHandler,
    is_attached: bool,
    next_step: Instant,
    next_look: Instant,
}

impl Kernel {
    /// Has the kernel forward the flows that stand, those that are there already included.
    ///
    /// # Errors
    ///
    /// Packets would not leave by this interface, or the kernel refuses the program or its maps.
    pub fn start(exos: &mut Exos, forwarder: &mut Forwarder) -> Result<Self, Error> {
        let way_out = exos.way_out()?;
        let shapes = shapes(forwarder.services());
        let mut table = Table::new(forwarder.flows().capacity(), &shapes)?;
        let handler = ForwardHandler {
            mac: exos.stack.config().mac,
            shapes,
            flows_fd: table.maps.flow_fds(),
            hops_fd: table.maps.hops.raw_fd(),
            tallies_fd: table.maps.tallies.raw_fd(),
            way_out,
            may_be_partial: exos.link().offload().rx_partial_checksum,
        };
        exos.set_handler(&handler)?;
        let now = exos.now();
        forwarder.watch();
        let ids: Vec<FlowId> = forwarder.flows().ids().collect();
        for id in ids {
            table.follow(now, forwarder, &mut exos.stack, id);
        }
        Ok(Self {
            table,
            handler,
            is_attached: true,
            next_step: now,
            next_look: now + WAY_OUT_EVERY,
        })
    }

    /// A flow has begun, changed how it stands, or ended: tells the kernel what that is for it.
    pub fn follow(&mut self, now: Instant, forwarder: &Forwarder, stack: &mut Stack, id: FlowId) {
        self.table.follow(now, forwarder, stack, id);
    }

    /// When the kernel last saw a packet of a flow; `None` where it does not have it.
    pub fn seen(&self, services: &Services, id: FlowId) -> Option<Tick> {
        self.table.seen(services, id)
    }

    /// What is due: neighbours' new addresses, a step of the sweep, and whether packets still arrive. What there is to say
    /// to a person, it says.
    pub fn turn(&mut self, exos: &mut Exos, forwarder: &mut Forwarder) {
        let now = exos.now();
        self.table.refresh(now, &mut exos.stack);
        if now >= self.next_step {
            let is_over = self.table.sweep(forwarder);
            self.next_step = now + until_next_step(self.table.count, is_over);
        }
        if now >= self.next_look {
            self.next_look = now + WAY_OUT_EVERY;
            self.read_tallies(forwarder);
            self.look(exos);
        }
    }

    /// When [`turn`](Self::turn) is due.
    pub fn poll_timeout(&self) -> Instant {
        self.next_step.min(self.next_look)
    }

    /// Has traffic counted up to now: of listeners and servers, and in [`counters`](Self::counters).
    pub fn read_tallies(&mut self, forwarder: &mut Forwarder) {
        self.table.read_tallies(forwarder);
    }

    /// Where packets would not arrive any more, all come here, until they would.
    fn look(&mut self, exos: &mut Exos) {
        let way_out = exos.way_out();
        match way_out {
            Ok(way_out) if !self.is_attached || way_out != self.handler.way_out => {
                self.attach(exos, way_out);
            }
            Err(error) if self.is_attached => {
                eprintln!("exos forward: no longer in the kernel: {error}");
                exos.remove_handler();
                self.is_attached = false;
            }
            _ => {}
        }
    }

    fn attach(&mut self, exos: &mut Exos, way_out: WayOut) {
        self.handler.way_out = way_out;
        match exos.set_handler(&self.handler) {
            Ok(()) => {
                eprintln!("exos forward: in the kernel again");
                self.is_attached = true;
            }
            Err(error) => eprintln!("exos forward: still not in the kernel: {error}"),
        }
    }

    /// Flows in the kernel.
    pub fn flows(&self) -> u32 {
        self.table.count
    }

    /// What it counts, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let [to_servers, to_clients] = self.table.tallies.total;
        vec![
            ("kernel_forwarded_to_servers", to_servers.packets),
            ("kernel_forwarded_to_clients", to_clients.packets),
            ("kernel_bytes_to_servers", to_servers.bytes),
            ("kernel_bytes_to_clients", to_clients.bytes),
            ("kernel_flows_begun", self.table.begun),
            ("kernel_flows_refused", self.table.refused),
        ]
    }
}

/// With so many flows in the kernel, the time between two steps of a sweep, so that one takes as long whatever there are.
fn until_next_step(flows: u32, is_over: bool) -> Duration {
    match flows {
        // The last steps of a sweep of nothing need no haste.
        0 if is_over => SWEEP_TIME,
        _ => SWEEP_TIME / (2 * flows / SWEEP_STEP + 2),
    }
}

/// What packets of these listeners look like.
fn shapes(services: &Services) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for listener in &services.listeners {
        let shape = Shape {
            ipv6: listener.at.address.is_ipv6(),
            tcp: listener.transport == Transport::Tcp,
        };
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    shapes
}
