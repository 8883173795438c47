//! Who the neighbours on an interface are: asked of our own responder for addresses that are ours alone, and of the
//! host where its addresses are shared, because then it is the host that is answered.

use std::net::IpAddr;

use exos_host::error::Result;
use exos_host::netlink::{Change, NeighbourState as HostState, Netlink, Watch};
use exos_wire::Mac;
use exos_xok::tables::{Neighbour, NeighbourState};

use crate::ledger::Now;
use crate::responder::Responder;

/// The neighbours of one interface.
#[derive(Debug)]
pub struct Neighbours {
    interface: u32,
    responder: Option<Responder>,
}

impl Neighbours {
    /// With a responder where there are addresses that are ours alone.
    pub fn new(interface: u32, responder: Option<Responder>) -> Self {
        Self {
            interface,
            responder,
        }
    }

    /// The daemon's own slot.
    pub fn responder(&mut self) -> Option<&mut Responder> {
        self.responder.as_mut()
    }

    /// The same, to be looked at.
    pub fn responder_ref(&self) -> Option<&Responder> {
        self.responder.as_ref()
    }

    /// Asks for a neighbour, or makes sure of it; the answer comes later, into the tables. Returns what the host
    /// knows already.
    pub fn resolve(
        &mut self,
        netlink: &Netlink,
        now: Now,
        ip: IpAddr,
    ) -> Result<Option<Neighbour>> {
        if let Some(responder) = &mut self.responder {
            responder.resolve(now, ip);
            responder.serve(now)?;
            return Ok(None);
        }
        let known = netlink.neighbour(self.interface, ip)?;
        // A neighbour that cannot be asked for is one that does not answer.
        let _ = netlink.probe_neighbour(self.interface, ip);
        Ok(known.and_then(|n| of_host(&n, now)))
    }
}

/// A neighbour as the host knows it; `None` when it says nothing about where to send.
pub fn of_host(neighbour: &exos_host::netlink::Neighbour, now: Now) -> Option<Neighbour> {
    let state = match neighbour.state {
        HostState::Incomplete => NeighbourState::Incomplete,
        HostState::Failed => NeighbourState::Failed,
        HostState::Reachable | HostState::Permanent => NeighbourState::Reachable,
        HostState::Stale | HostState::Delay | HostState::Probe => NeighbourState::Stale,
        HostState::NoArp | HostState::None => return None,
    };
    Some(Neighbour {
        interface: neighbour.index,
        ip: neighbour.ip,
        mac: neighbour.mac.map(Mac).unwrap_or_default(),
        state,
        confirmed_ns: now.as_nanos() as u64,
    })
}

/// What the host's tables tell the daemon.
#[derive(Debug, Default)]
pub struct HostNews {
    /// Neighbours that changed.
    pub neighbours: Vec<Neighbour>,
    /// Neighbours that are forgotten: interface and address.
    pub gone: Vec<(u32, IpAddr)>,
    /// Addresses, routes or interfaces changed: all of them are to be read anew.
    pub rest: bool,
}

/// Everything that has changed since the last call.
pub fn host_news(watch: &mut Watch, now: Now) -> Result<HostNews> {
    let mut news = HostNews::default();
    while let Some(change) = watch.next()? {
        match change {
            Change::Neighbour(n) => news.neighbours.extend(of_host(&n, now)),
            Change::NeighbourGone(n) => news.gone.push((n.index, n.ip)),
            Change::Link(_)
            | Change::LinkGone(_)
            | Change::Routes
            | Change::Addresses
            | Change::Missed => news.rest = true,
        }
    }
    Ok(news)
}
