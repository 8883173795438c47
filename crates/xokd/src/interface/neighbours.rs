//! Who the neighbours on an interface are: asked of our own responder for addresses that are ours alone, and of the
//! host where its addresses are shared, because then it is the host that is answered.

use std::net::IpAddr;

use exos_host::error::Result;
use exos_host::netlink::{Change, NeighbourState as HostState, Netlink, Watch};
use exos_wire::Mac;
use exos_xok::tables::{Neighbour, NeighbourState};

use crate::clock::Now;
use crate::interface::responder::Responder;

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

    /// The daemon's own slot, to be looked at.
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
    /// Addresses, routes or an interface that is served changed: they are to be read again.
    pub rest: bool,
    /// The kernel had no room for all of it: neighbours are to be read again, too.
    pub missed: bool,
}

impl HostNews {
    /// One change more. Of links only those that are served matter: others come and go with every program, and what
    /// they mean for the host's addresses is said of these.
    fn add(&mut self, change: Change, now: Now, served: &impl Fn(u32) -> bool) {
        match change {
            Change::Neighbour(n) => self.neighbours.extend(of_host(&n, now)),
            Change::NeighbourGone(n) => self.gone.push((n.index, n.ip)),
            Change::Link(link) | Change::LinkGone(link) => self.rest |= served(link.index),
            Change::Routes | Change::Addresses => self.rest = true,
            Change::Missed => (self.rest, self.missed) = (true, true),
        }
    }
}

/// Everything that has changed since the last call; `served` tells the interfaces that matter, by index.
pub fn host_news(watch: &mut Watch, now: Now, served: impl Fn(u32) -> bool) -> Result<HostNews> {
    let mut news = HostNews::default();
    while let Some(change) = watch.next()? {
        news.add(change, now, &served);
    }
    Ok(news)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_host::netlink::LinkInfo;

    fn link(index: u32) -> LinkInfo {
        LinkInfo {
            index,
            name: String::new(),
            mac: None,
            mtu: 1500,
            up: true,
            running: true,
            loopback: false,
            kind: None,
            peer_index: None,
            peer_netns: None,
            rx_queues: 1,
            tx_queues: 1,
            xdp: None,
        }
    }

    /// Routes and addresses of the host are not read for every program that comes and goes.
    #[test]
    fn links_that_are_not_served_are_no_reason_to_read_the_hosts_routes() {
        let news = |change| {
            let mut news = HostNews::default();
            news.add(change, Now::ZERO, &|index| index == 2);
            (news.rest, news.missed)
        };
        assert_eq!(news(Change::Link(link(7))), (false, false));
        assert_eq!(news(Change::LinkGone(link(7))), (false, false));
        assert_eq!(news(Change::Link(link(2))), (true, false));
        assert_eq!(news(Change::LinkGone(link(2))), (true, false));
        assert_eq!(news(Change::Routes), (true, false));
        assert_eq!(news(Change::Addresses), (true, false));
        assert_eq!(news(Change::Missed), (true, true));
    }
}
