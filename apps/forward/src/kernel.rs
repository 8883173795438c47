//! Flows that the kernel forwards: what of the table it is given, and what it says of them.
//!
//! With `--in-kernel` the packets of flows that stand are rewritten in the interface's driver
//! ([`exos_filter::handler::forward`]) and do not come here, also where they come by one link and leave by another: each link has
//! a program, and all have the same memory. What comes is what begins flows, what may change how one
//! stands (SYN, FIN, RST), and all that is unusual; [`Forwarder`] deals with that as ever. So the table here has every
//! flow, and the kernel those of its flows that are established or talk both ways; and where servers answer clients by
//! themselves, those that clients claim:
//!
//! ```text
//! Forwarder ── a flow stands, or no longer ──> follow ──> index, records, hops    (memory that the program reads)
//!                                                           │
//! FlowTable::see <── when it was last seen ── sweep <───────┘
//! ```
//!
//! - A flow is told and taken back by writing memory, without a system call.
//! - Its packets' next hops are entries of their own ([`hops`]), with the link that each is on, so that a neighbour with another link address is one
//!   change, and packets of one who is not known come here, where they are asked for.
//! - The kernel notes when it last saw a packet. All flows are read once in [`SWEEP_TIME`], some at a time; one
//!   whose time is over is looked up before it is forgotten.
//! - What the kernel does not take (there is no room in the index, or there are more neighbours or servers than it can be
//!   told of) is forwarded here, and counted.

pub mod hops;
mod maps;
mod table;
mod tallies;
#[cfg(test)]
mod tests;

use std::time::Duration;

use exos::handlers::ways_out;
use exos::{Error, Exos};
use exos_filter::handler::ForwardHandler;
use exos_filter::handler::forward::flows::HashKey;
use exos_filter::handler::forward::{Exit, Shape, WayOut};
use exos_inet::{Instant, Stack};

use crate::flow::{FlowId, Tick};
use crate::forwarder::Forwarder;
use crate::limits::{FIT_AGAIN_AFTER, SWEEP_STEP, SWEEP_TIME, WAY_OUT_EVERY};
use crate::packets::packet::Transport;
use crate::program::links::Links;
use crate::service::Services;
use table::Table;

/// How packets leave by each link, for each link that they come by.
pub type Exits = Vec<Vec<Exit>>;

/// The flows in the kernel, and the programs that forward them.
pub struct Kernel {
    table: Table,
    /// The program of each link as it is attached, if they are.
    handlers: Vec<ForwardHandler>,
    is_attached: bool,
    next_step: Instant,
    next_look: Instant,
    /// When other programs may be tried for listeners that have come.
    next_fit: Instant,
    /// What a person was told last.
    said: Option<String>,
}

impl Kernel {
    /// Has the kernel forward the flows that stand, those that are there already included.
    ///
    /// # Errors
    ///
    /// Packets would not leave by one of these links, or the kernel refuses a program or its maps.
    pub fn start(
        links: &mut Links,
        forwarder: &mut Forwarder,
        key: HashKey,
    ) -> Result<Self, Error> {
        let exits = exits(links)?;
        Self::start_with(links, forwarder, key, exits)
    }

    fn start_with(
        links: &mut Links,
        forwarder: &mut Forwarder,
        key: HashKey,
        exits: Exits,
    ) -> Result<Self, Error> {
        let shapes = shapes(forwarder.services());
        let mut table = Table::new(forwarder.flows().capacity(), &shapes, key)?;
        let maps = &table.maps;
        let handler = |((link, exos), exits): ((u8, &Exos), Vec<Exit>)| ForwardHandler {
            link,
            exits,
            shapes: shapes.clone(),
            index_fd: maps.index.raw_fd(),
            buckets: maps.buckets,
            key,
            records_fd: maps.records.raw_fd(),
            hops_fd: maps.hops.raw_fd(),
            tallies_fd: maps.tallies.raw_fd(),
            may_be_partial: exos.link().offload().rx_partial_checksum,
            fences: ForwardHandler::NEEDS_FENCES,
        };
        let numbered = (0..).zip(links.all());
        let handlers: Vec<ForwardHandler> = numbered.zip(exits).map(handler).collect();
        attach(links, &handlers)?;
        let now = links.now();
        forwarder.watch();
        let ids: Vec<FlowId> = forwarder.flows().ids().collect();
        let mut stacks = links.stacks_mut();
        for id in ids {
            table.follow(now, forwarder, &mut stacks, id);
        }
        Ok(Self {
            table,
            handlers,
            is_attached: true,
            next_step: now,
            next_look: now + WAY_OUT_EVERY,
            next_fit: now,
            said: None,
        })
    }

    /// A flow has begun, changed how it stands, or ended: tells the kernel what that is for it. These are the stacks of a core's links.
    pub fn follow(
        &mut self,
        now: Instant,
        forwarder: &mut Forwarder,
        stacks: &mut [&mut Stack],
        id: FlowId,
    ) {
        self.table.follow(now, forwarder, stacks, id);
    }

    /// Whether flows have neighbours that the stack of [`turn`](Self::turn) is to find now, because [`follow`](Self::follow) had another
    /// core's.
    pub fn hand_neighbours_over(&mut self) -> bool {
        self.table.hand_neighbours_over()
    }

    /// When the kernel last saw a packet of a flow; `None` where it does not have it.
    pub fn seen(&self, now: Instant, id: FlowId) -> Option<Tick> {
        self.table.seen(now, id)
    }

    /// What is due: neighbours' new addresses, a step of the sweep, and whether packets still arrive. What there is to say
    /// to a person, it says. `exits` is what [`exits`] has said just now, wanted from [`next_look`](Self::next_look) on.
    pub fn turn(
        &mut self,
        links: &mut Links,
        forwarder: &mut Forwarder,
        exits: Option<Result<Exits, Error>>,
    ) {
        let now = links.now();
        self.table.refresh(now, links.stacks_mut().into_iter());
        if now >= self.next_step {
            self.table.sweep(now, forwarder);
            self.next_step = now + until_next_step(self.table.top);
        }
        if let Some(exits) = exits.filter(|_| now >= self.next_look) {
            self.next_look = now + WAY_OUT_EVERY;
            self.read_tallies(forwarder);
            self.look(links, exits);
            self.fit(links, forwarder);
        }
    }

    /// When [`turn`](Self::turn) is due.
    pub fn poll_timeout(&self) -> Instant {
        self.next_step.min(self.next_look)
    }

    /// When it is to be looked at how packets leave: that takes system calls for each link, so the one that calls
    /// [`turn`](Self::turn) does it before taking what others wait for.
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Has traffic counted up to now: of listeners and servers, and in [`counters`](Self::counters).
    pub fn read_tallies(&mut self, forwarder: &mut Forwarder) {
        self.table.read_tallies(forwarder);
    }

    /// Where packets would not arrive any more, all come here, until they would.
    fn look(&mut self, links: &mut Links, exits: Result<Exits, Error>) {
        let exits = match exits {
            Ok(exits) => exits,
            Err(error) => return self.detach(links, &error),
        };
        let known = self.handlers.iter().map(|handler| &handler.exits);
        if self.is_attached && known.eq(&exits) {
            return;
        }
        for (handler, exits) in self.handlers.iter_mut().zip(exits) {
            handler.exits = exits;
        }
        match attach(links, &self.handlers) {
            Ok(()) if std::mem::replace(&mut self.is_attached, true) => {}
            Ok(()) => self.say("in the kernel again".to_owned()),
            Err(error) => self.detach(links, &error),
        }
    }

    fn detach(&mut self, links: &mut Links, error: &Error) {
        if std::mem::take(&mut self.is_attached) {
            links.all_mut().iter_mut().for_each(Exos::remove_handler);
        }
        self.say(format!("no longer in the kernel: {error}"));
    }

    /// Where listeners have come whose packets the programs do not know, others take their place, with the flows of these
    /// and theirs. Until then, and where that fails, their packets come here.
    fn fit(&mut self, links: &mut Links, forwarder: &mut Forwarder) {
        let known = &self.handlers[0].shapes;
        let is_new = |shape: &Shape| !known.contains(shape);
        let now = links.now();
        let is_due = self.is_attached && now >= self.next_fit;
        if !is_due || !shapes(forwarder.services()).iter().any(is_new) {
            return;
        }
        self.next_fit = now + FIT_AGAIN_AFTER;
        let exits = self.handlers.iter().map(|handler| handler.exits.clone());
        let exits = exits.collect();
        match Self::start_with(links, forwarder, self.handlers[0].key, exits) {
            Ok(mut next) => {
                self.read_tallies(forwarder);
                next.table.go_on_from(&self.table);
                *self = next;
            }
            Err(error) => {
                self.say(format!(
                    "listeners that have come are not in the kernel: {error}"
                ));
                if let Err(error) = attach(links, &self.handlers) {
                    self.detach(links, &error);
                }
            }
        }
    }

    /// Tells a person what is different from what they were told last.
    fn say(&mut self, text: String) {
        if self.said.as_ref() != Some(&text) {
            exos_program::warn!("exos forward: {text}");
            self.said = Some(text);
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

/// Has the kernel forward by these programs, one of each link; by none where one is refused.
fn attach(links: &mut Links, handlers: &[ForwardHandler]) -> Result<(), Error> {
    let mut all = links.all_mut().iter_mut().zip(handlers);
    let put = all.try_for_each(|(exos, handler)| exos.set_handler(handler));
    if put.is_err() {
        links.all_mut().iter_mut().for_each(Exos::remove_handler);
    }
    put
}

/// How packets that come by each of the links leave by each of them, as it is now.
///
/// # Errors
///
/// They would not arrive.
pub fn exits(links: &Links) -> Result<Exits, Error> {
    let exit = |(to, way_out): (&Exos, WayOut)| {
        let config = to.stack.config();
        Exit {
            mac: config.mac,
            mtu: config.mtu as u32,
            way_out,
        }
    };
    let row = |ways: Vec<WayOut>| links.all().iter().zip(ways).map(exit).collect();
    Ok(ways_out(links.all())?.into_iter().map(row).collect())
}

/// With flows at this many places, the time between two steps of a sweep, so that one takes as long whatever there are.
fn until_next_step(places: u32) -> Duration {
    SWEEP_TIME / places.div_ceil(SWEEP_STEP).max(1)
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
