//! The flows that the kernel has been given, at the places that they have in the forwarder's table, and the hops and
//! tallies that they name.
//!
//! What a flow in the kernel was made of is in its record, and nowhere else. Invariant: a flow that is there names both
//! its hops and its pair of tallies as long as it is.

use std::net::IpAddr;

use exos::Error;
use exos_filter::handler::forward::Shape;
use exos_filter::handler::forward::flows::HashKey;
use exos_filter::handler::forward::layout::{self, Ends};
use exos_inet::{Instant, Stack};

use super::hops::Hops;
use super::maps::Maps;
use super::tallies::Tallies;
use crate::flow::{Class, Flow, FlowId, Tick};
use crate::forwarder::Forwarder;
use crate::limits::SWEEP_STEP;
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::service::Services;

/// The flows in the kernel.
pub(super) struct Table {
    pub(super) maps: Maps,
    hops: Hops,
    pub(super) tallies: Tallies,
    /// How many there are.
    pub(super) count: u32,
    /// Places that there was ever a flow at are below this.
    pub(super) top: u32,
    /// Where the sweep goes on.
    swept: u32,
    /// What packets look like that the program knows.
    shapes: Vec<Shape>,
    /// Flows that were given to the kernel, and those that it did not take.
    pub(super) begun: u64,
    pub(super) refused: u64,
}

impl Table {
    /// Room for this many flows, of packets that look like these.
    pub(super) fn new(capacity: u32, shapes: &[Shape], key: HashKey) -> Result<Self, Error> {
        Ok(Self {
            maps: Maps::new(capacity, shapes, key)?,
            hops: Hops::default(),
            tallies: Tallies::default(),
            count: 0,
            top: 0,
            swept: 0,
            shapes: shapes.to_vec(),
            begun: 0,
            refused: 0,
        })
    }

    /// A flow has begun, changed how it stands, or ended: tells the kernel what that is for it.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        forwarder: &mut Forwarder,
        stacks: &mut [&mut Stack],
        id: FlowId,
    ) {
        let flow = *forwarder.flows().get(id);
        let is_for_it = flow.is_there && is_for_the_kernel(&flow);
        let wanted = is_for_it.then(|| packets(forwarder.services(), &flow));
        let there = self.maps.flows().get(id.0);
        let is_known = |there: layout::Flow| {
            let Some(wanted) = wanted else {
                return false;
            };
            let is_same = (there.protocol, there.ends) == (wanted.protocol, wanted.ends);
            // Where packets keep their ends, these do not say whose server it is.
            is_same
                && self
                    .tallies
                    .is_of(there.pair, (flow.key.listener, flow.server))
        };
        if there.is_some_and(is_known) {
            return;
        }
        if there.is_some() {
            self.remove(id);
        }
        let Some(wanted) = wanted else {
            return;
        };
        match self.insert(now, forwarder, stacks, id, wanted) {
            Some(()) => {
                self.count += 1;
                self.top = self.top.max(id.0 + 1);
                self.begun += 1;
            }
            None => self.refused += 1,
        }
    }

    /// Gives a flow to the kernel, once it has its hops and tallies.
    fn insert(
        &mut self,
        now: Instant,
        forwarder: &mut Forwarder,
        stacks: &mut [&mut Stack],
        id: FlowId,
        mut wanted: layout::Flow,
    ) -> Option<()> {
        let shape = Shape {
            ipv6: wanted.ends.client.is_ipv6(),
            tcp: wanted.protocol == Transport::Tcp.number(),
        };
        if !self.shapes.contains(&shape) {
            return None;
        }
        let flow = forwarder.flows().get(id);
        let pair = (flow.key.listener, flow.server);
        let server = forwarder.services().rewrite(flow, true).dst.address.into();
        wanted.pair = self.tallies.take(&self.maps, pair, forwarder)?;
        let client = (!wanted.is_one_way).then_some(wanted.ends.client.ip());
        // On the link that leads to a server it answers, whatever address it is told that asks.
        let to_server = forwarder.link_to(server);
        wanted.links = [link_of(stacks, wanted.ends.listener.ip()), to_server as u8];
        let server = (to_server, server);
        let client = client.map(|client| (forwarder.link_to(client), client));
        let Some(hops) = self.take_hops(now, stacks, server, client) else {
            self.tallies.give(wanted.pair);
            return None;
        };
        wanted.hops = hops;
        let seen_ns = now.micros() * 1000;
        let put = self.maps.flows().insert(id.0, &wanted, seen_ns);
        if put.is_err() {
            self.let_go(&wanted);
        }
        put.ok()
    }

    /// Counts on from where the one before it ends, of which it has the flows.
    pub(super) fn go_on_from(&mut self, before: &Self) {
        self.begun = before.begun + self.begun.saturating_sub(before.count.into());
        self.refused += before.refused;
        self.tallies.go_on_from(&before.tallies);
    }

    /// Both hops, or none. Where packets come from the client alone, there is none to it: who it says it is may be anybody.
    fn take_hops(
        &mut self,
        now: Instant,
        stacks: &mut [&mut Stack],
        server: (usize, IpAddr),
        client: Option<(usize, IpAddr)>,
    ) -> Option<[u32; 2]> {
        let mut take = |(link, to): (usize, IpAddr)| {
            let on = (link as u8, &mut *stacks[link]);
            self.hops.take(now, on, &self.maps, to)
        };
        let to_server = take(server)?;
        let Some(client) = client else {
            return Some([to_server, 0]);
        };
        let Some(to_client) = take(client) else {
            self.hops.give(&self.maps, to_server);
            return None;
        };
        Some([to_server, to_client])
    }

    fn remove(&mut self, id: FlowId) {
        if let Some(flow) = self.maps.flows().remove(id.0) {
            self.let_go(&flow);
            // Others can put flows there too.
            self.count = self.count.saturating_sub(1);
        }
    }

    /// Nothing is left of a flow: neither its hops nor its tallies are named by it.
    fn let_go(&mut self, flow: &layout::Flow) {
        let [to_server, to_client] = flow.hops;
        self.hops.give(&self.maps, to_server);
        if !flow.is_one_way {
            self.hops.give(&self.maps, to_client);
        }
        self.tallies.give(flow.pair);
    }

    /// When a packet of a flow was last seen there; `None` where the kernel does not have it.
    pub(super) fn seen(&self, now: Instant, id: FlowId) -> Option<Tick> {
        self.maps.flows().seen(id.0).map(|ns| tick_of(ns, now))
    }

    /// Whether neighbours have come that another stack than that of [`refresh`](Self::refresh) was asked for: it is from now on.
    pub(super) fn hand_neighbours_over(&mut self) -> bool {
        let have_come = self.hops.have_come();
        if have_come {
            self.hops.look_again();
        }
        have_come
    }

    /// Writes the link addresses that have changed, on each link.
    pub(super) fn refresh<'a>(
        &mut self,
        now: Instant,
        stacks: impl Iterator<Item = &'a mut Stack>,
    ) {
        for link in (0..).zip(stacks) {
            self.hops.refresh(now, link, &self.maps);
        }
        self.hops.have_come();
    }

    /// Tells what was forwarded since the last time.
    pub(super) fn read_tallies(&mut self, forwarder: &mut Forwarder) {
        self.tallies.read(&self.maps, forwarder);
    }

    /// Reads when some of the flows were last seen; true when these were the last of all.
    pub(super) fn sweep(&mut self, now: Instant, forwarder: &mut Forwarder) -> bool {
        if self.count == 0 {
            self.top = 0;
        }
        let end = self.top.min(self.swept + SWEEP_STEP);
        for id in (self.swept..end).map(FlowId) {
            if let Some(seen) = self.seen(now, id) {
                forwarder.note_seen(id, seen);
            }
        }
        self.swept = if end == self.top { 0 } else { end };
        self.swept == 0
    }
}

#[cfg(test)]
impl Table {
    pub(super) fn hops_are_free(&self) -> bool {
        self.hops.are_free()
    }

    pub(super) const fn hops(&self) -> &Hops {
        &self.hops
    }
}

/// The link that an address of ours is heard on.
fn link_of(stacks: &[&mut Stack], ours: IpAddr) -> u8 {
    let has = |stack: &&mut Stack| stack.addresses().iter().any(|prefix| prefix.addr == ours);
    stacks.iter().position(has).unwrap_or(0) as u8
}

/// A time that the program has written; it is none that has yet to come.
fn tick_of(ns: u64, now: Instant) -> Tick {
    let tick = (ns / 1_000_000_000).min(now.millis() / 1000);
    tick as Tick
}

/// True for a flow of which packets that are like most change nothing of how it stands. What a client claims by itself may be
/// forged; it takes a place of the kernel's only as long as it has one here.
pub(super) const fn is_for_the_kernel(flow: &Flow) -> bool {
    match flow.reach {
        Reach::Nat | Reach::Transparent | Reach::Direct => matches!(
            flow.state.class(),
            Class::Established | Class::Talking | Class::Claimed
        ),
        // There is no room in a frame for what is around it.
        Reach::Tunnel => false,
    }
}

/// What a flow's packets look like, both ways; links, hops and tallies are for others to say.
pub(super) fn packets(services: &Services, flow: &Flow) -> layout::Flow {
    let listener = &services.listeners[usize::from(flow.key.listener)];
    let onward = services.rewrite(flow, true);
    let keeps_ends = !flow.reach.hears_servers();
    layout::Flow {
        protocol: listener.transport.number(),
        ends: Ends {
            client: flow.key.client.into(),
            listener: listener.at.into(),
            ours: onward.src.into(),
            server: if keeps_ends { listener.at } else { onward.dst }.into(),
        },
        links: [0; 2],
        hops: [0; 2],
        pair: 0,
        is_one_way: keeps_ends,
    }
}
