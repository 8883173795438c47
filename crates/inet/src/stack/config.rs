//! What a stack is made with, and what a link says of itself and its frames.

use std::net::IpAddr;
use std::ops::Range;

use exos_wire::Mac;

use crate::limits::{CONNECTIONS_MAX, LOCAL_PORTS, TCP_MEMORY_BYTES_MAX};
use crate::route::{Prefix, RouteError, Routes, link_local};

/// What the link can do for what is sent.
#[derive(Copy, Clone, Debug, Default)]
pub struct Offload {
    /// It completes partial checksums.
    pub checksum: bool,
    /// It cuts TCP segments of up to this many bytes of frame, and completes their checksums.
    pub segmentation: Option<usize>,
    /// Where it cuts segments, it cuts datagrams of UDP too.
    pub datagrams: bool,
}

/// Who knows the neighbours' link addresses.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Neighbors {
    /// The stack asks by ARP and NDP, and answers for its addresses.
    #[default]
    Own,
    /// Somebody else who owns the addresses: `poll_unresolved` says what to ask them, and
    /// `set_neighbor` takes the answer.
    External,
}

/// A route beside those that follow from addresses and default routers.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct RouteTo {
    /// The destinations.
    pub network: IpAddr,
    /// How many leading bits of `network` count.
    pub prefix: u8,
    /// The router; `None` for destinations on the link itself.
    pub gateway: Option<IpAddr>,
}

/// What a stack is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our link address.
    pub mac: Mac,
    /// Largest IP packet of the link, in bytes.
    pub mtu: usize,
    /// Our addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Prefixes that are ours with all their addresses: a part of a network on the link, or a network that others route to
    /// one of `addresses`. Connections are opened from them where no source is said.
    pub pools: Vec<(IpAddr, u8)>,
    /// Local ports of connections that are opened where no source is said.
    pub local_ports: Range<u16>,
    /// Default routers, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// Further routes.
    pub routes: Vec<RouteTo>,
    /// Who knows the neighbours.
    pub neighbors: Neighbors,
    /// What the link does for us.
    pub offload: Offload,
    /// Connections at once.
    pub connections_max: usize,
    /// Verify the TCP and UDP checksums of what comes, where the link has not. Off, damaged data passes for good: to
    /// measure what verifying costs, or on a wire that damages nothing.
    pub verify_checksums: bool,
    /// Bytes that the receive queues of all connections should hold at most. Their windows shrink
    /// from half of this on; beyond it nothing new is taken.
    pub tcp_memory_bytes_max: usize,
}

impl Config {
    /// A stack on a link of the usual size, without addresses.
    pub fn new(mac: Mac, mtu: usize) -> Self {
        Self {
            mac,
            mtu,
            addresses: Vec::new(),
            pools: Vec::new(),
            local_ports: LOCAL_PORTS,
            gateways: Vec::new(),
            routes: Vec::new(),
            neighbors: Neighbors::Own,
            offload: Offload::default(),
            connections_max: CONNECTIONS_MAX,
            verify_checksums: true,
            tcp_memory_bytes_max: TCP_MEMORY_BYTES_MAX,
        }
    }

    /// The addresses, and where routes lead.
    pub(super) fn to_routes(&self) -> Result<Routes, RouteError> {
        let mut routes = Routes::new();
        for &(address, prefix) in &self.addresses {
            routes.add_address(address, prefix)?;
        }
        let own = self.neighbors == Neighbors::Own;
        if own && self.addresses.iter().any(|(a, _)| a.is_ipv6()) {
            // RFC 4291 §2.8: every interface that speaks IPv6 has a link-local address.
            match routes.add_address(link_local(self.mac).into(), 64) {
                Ok(()) | Err(RouteError::Duplicate(_)) => {}
                Err(e) => return Err(e),
            }
        }
        for &(address, prefix) in &self.pools {
            routes.add_pool(Prefix::new(address, prefix)?)?;
        }
        // What is on the link first: routers must be on it.
        for route in self.routes.iter().filter(|r| r.gateway.is_none()) {
            routes.add_on_link(Prefix::new(route.network, route.prefix)?)?;
        }
        for route in &self.routes {
            if let Some(gateway) = route.gateway {
                routes.add_gateway(Prefix::new(route.network, route.prefix)?, gateway)?;
            }
        }
        for &gateway in &self.gateways {
            routes.set_default(gateway)?;
        }
        Ok(routes)
    }
}
