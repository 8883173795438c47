//! Addresses and routes of one link (see the folder).

use crate::limits::{ADDRESSES_MAX, ROUTES_MAX};
use exos_wire::Mac;
use exos_wire::Prefix;
use exos_wire::ndp::solicited_node;
use exos_wire::prefix::{PrefixLengthError, common_bits};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How a destination concerns us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// One of our addresses.
    Unicast,
    /// Everybody on the link, IPv4.
    Broadcast,
    /// A group that we are a member of.
    Multicast,
}

/// Why an address or route was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// More bits than the address has.
    PrefixLength(PrefixLengthError),
    /// Not an address that one interface can have: multicast, broadcast, loopback or unspecified.
    NotUnicast(IpAddr),
    /// There already.
    Duplicate(IpAddr),
    /// No pool begins there: host bits are set.
    PoolBegin(Prefix),
    /// A pool with addresses that no host has, or that are others' (the second prefix): loopback, groups and the like.
    PoolReserved(Prefix, Prefix),
    /// A pool with the first or the last address of a network that an address of ours is in, which no host has, or with
    /// all of that network.
    PoolNetwork(Prefix, Prefix),
    /// Two pools with an address in common.
    PoolOverlap(Prefix, Prefix),
    /// A pool without an address of its family beside it.
    PoolAlone(Prefix),
    /// The gateway is in no on-link prefix.
    GatewayNotOnLink(IpAddr),
    /// Gateway and destination of different families.
    FamilyMismatch(IpAddr),
    /// Table full; the number is its size.
    Full(usize),
}

impl From<PrefixLengthError> for RouteError {
    fn from(error: PrefixLengthError) -> Self {
        Self::PrefixLength(error)
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::PrefixLength(error) => error.fmt(f),
            RouteError::NotUnicast(addr) => {
                write!(
                    f,
                    "{addr} cannot be an interface's or gateway's address: give a unicast one"
                )
            }
            RouteError::Duplicate(addr) => write!(f, "{addr} is there already"),
            RouteError::PoolBegin(pool) => write!(
                f,
                "{pool} has bits behind its prefix: the pool with that address is {}/{}",
                pool.first(),
                pool.len
            ),
            RouteError::PoolReserved(pool, reserved) => write!(
                f,
                "the pool {pool} has addresses of {reserved} in it, which are nobody's to have: choose a part of a network of yours"
            ),
            RouteError::PoolNetwork(pool, network) => write!(
                f,
                "the pool {pool} has the first or the last address of the network {}/{} in it: choose a part between them, or a network of its own that is routed to us",
                network.first(),
                network.len
            ),
            RouteError::PoolOverlap(a, b) => {
                write!(f, "the pools {a} and {b} overlap: leave one of them out")
            }
            RouteError::PoolAlone(pool) => write!(
                f,
                "the pool {pool} needs an address of ours beside it, of its family, by which it is reached"
            ),
            RouteError::GatewayNotOnLink(addr) => {
                write!(
                    f,
                    "gateway {addr} is in the prefix of none of the addresses: give one of them a prefix that contains it"
                )
            }
            RouteError::FamilyMismatch(addr) => {
                write!(f, "gateway {addr} is not of its route's address family")
            }
            RouteError::Full(max) => write!(f, "more than {max} of them"),
        }
    }
}

impl std::error::Error for RouteError {}

#[derive(Clone, Copy, Debug)]
struct Route {
    to: Prefix,
    gateway: IpAddr,
}

/// Addresses and routes of one link.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    pub(super) addresses: Vec<Prefix>,
    /// Prefixes that are ours with all their addresses.
    pub(super) pools: Vec<Prefix>,
    /// On-link prefixes without an address of ours in them.
    on_link: Vec<Prefix>,
    gateways: Vec<Route>,
    /// Moves when anything changes, so that keepers of an answer ask again.
    pub(super) generation: u64,
}

impl Routes {
    /// No addresses, no routes.
    pub fn new() -> Routes {
        Routes::default()
    }

    /// Number that moves with every change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Take an address with its on-link prefix.
    pub fn add_address(&mut self, addr: IpAddr, prefix_len: u8) -> Result<(), RouteError> {
        let prefix = Prefix::new(addr, prefix_len)?;
        if !is_usable(addr) || prefix.broadcast().is_some_and(|b| IpAddr::V4(b) == addr) {
            return Err(RouteError::NotUnicast(addr));
        }
        if self.is_local(addr) {
            return Err(RouteError::Duplicate(addr));
        }
        if self.addresses.len() == ADDRESSES_MAX {
            return Err(RouteError::Full(ADDRESSES_MAX));
        }
        self.addresses.push(prefix);
        self.generation += 1;
        Ok(())
    }

    /// Hosts of `prefix` are reached directly, though no address of ours is in it.
    pub fn add_on_link(&mut self, prefix: Prefix) -> Result<(), RouteError> {
        if self.on_link.len() == ROUTES_MAX {
            return Err(RouteError::Full(ROUTES_MAX));
        }
        self.on_link.push(prefix);
        self.generation += 1;
        Ok(())
    }

    /// Hosts of `to` are reached through `gateway`. An earlier route to the same prefix is
    /// replaced.
    pub fn add_gateway(&mut self, to: Prefix, gateway: IpAddr) -> Result<(), RouteError> {
        if to.addr.is_ipv4() != gateway.is_ipv4() {
            return Err(RouteError::FamilyMismatch(gateway));
        }
        if !is_usable(gateway) || self.is_local(gateway) {
            return Err(RouteError::NotUnicast(gateway));
        }
        if self.on_link_len(gateway).is_none() {
            return Err(RouteError::GatewayNotOnLink(gateway));
        }
        self.gateways
            .retain(|r| !(r.to.len == to.len && r.to.contains(to.addr)));
        if self.gateways.len() == ROUTES_MAX {
            return Err(RouteError::Full(ROUTES_MAX));
        }
        self.gateways.push(Route { to, gateway });
        self.generation += 1;
        Ok(())
    }

    /// What no other route matches goes through `gateway`, in its family.
    pub fn set_default(&mut self, gateway: IpAddr) -> Result<(), RouteError> {
        let all = if gateway.is_ipv4() {
            Prefix::ALL_V4
        } else {
            Prefix::ALL_V6
        };
        self.add_gateway(all, gateway)
    }

    /// False for what cannot be anybody else's address (RFC 1122 §3.2.1.3); loopback addresses are a host's own, unless a
    /// route leads to them.
    pub fn may_send(&self, src: IpAddr) -> bool {
        !(src.is_multicast()
            || (src.is_loopback() && !self.lead_to_loopback())
            || self.is_broadcast(src)
            || (src.is_unspecified() && src.is_ipv4())
            || self.is_local(src))
    }

    /// True when loopback addresses are a neighbour's by a route of their own, and not only covered by a wider one.
    pub fn lead_to_loopback(&self) -> bool {
        let is_one = |r: &Route| r.to.addr.is_loopback() && r.to.len >= 8;
        self.gateways.iter().any(is_one)
    }

    /// Our addresses with their prefixes, in the order in which they were added.
    pub fn addresses(&self) -> &[Prefix] {
        &self.addresses
    }

    /// True for our own unicast addresses.
    #[inline]
    pub fn is_local(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|p| p.addr == ip) || self.pools.iter().any(|p| p.contains(ip))
    }

    /// True when a packet to `ip` goes to everybody on the link: 255.255.255.255 or a prefix's last
    /// address.
    pub fn is_broadcast(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip else { return false };
        ip.is_broadcast()
            || self
                .addresses
                .iter()
                .chain(&self.on_link)
                .any(|p| p.broadcast() == Some(ip))
    }

    /// True for the groups that every host is in: all hosts, and in IPv6 all nodes and the
    /// solicited-node group of each of our addresses (RFC 4291 §2.8).
    pub fn is_member(&self, group: IpAddr) -> bool {
        match group {
            IpAddr::V4(group) => group == ALL_HOSTS_V4,
            IpAddr::V6(group) => {
                group == ALL_NODES_INTERFACE
                    || group == ALL_NODES_LINK
                    || self.solicited_groups().any(|g| g == group)
                    || self.pools.iter().any(|pool| asks_for(group, pool))
            }
        }
    }

    /// The solicited-node groups of our single IPv6 addresses, with repetitions.
    pub fn solicited_groups(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.addresses.iter().filter_map(|p| match p.addr {
            IpAddr::V6(addr) => Some(solicited_node(&addr)),
            IpAddr::V4(_) => None,
        })
    }

    /// How a packet to `dst` concerns us; `None`: not at all.
    #[inline]
    pub fn accepts(&self, dst: IpAddr) -> Option<Delivery> {
        if self.is_local(dst) {
            Some(Delivery::Unicast)
        } else if dst.is_multicast() {
            self.is_member(dst).then_some(Delivery::Multicast)
        } else {
            self.is_broadcast(dst).then_some(Delivery::Broadcast)
        }
    }

    /// The address on the link that a packet to `dst` is handed to, be it our own; `None`: no route.
    pub fn next_hop(&self, dst: IpAddr) -> Option<IpAddr> {
        if self.is_local(dst) {
            return Some(dst);
        }
        if dst.is_unspecified() {
            return None;
        }
        if dst.is_multicast() || self.is_broadcast(dst) || is_link_local(dst) {
            return self
                .addresses
                .iter()
                .any(|p| p.addr.is_ipv4() == dst.is_ipv4())
                .then_some(dst);
        }
        let direct = self.on_link_len(dst);
        let via = self
            .gateways
            .iter()
            .filter(|r| r.to.contains(dst))
            .max_by_key(|r| r.to.len);
        match (direct, via) {
            (Some(len), Some(route)) if route.to.len > len => Some(route.gateway),
            (Some(_), _) => Some(dst),
            (None, Some(route)) => Some(route.gateway),
            (None, None) => None,
        }
    }

    /// Our address that a packet to `dst` should come from; `None` without one in its family.
    pub fn source_for(&self, dst: IpAddr) -> Option<IpAddr> {
        // Through a gateway, peers of the gateway's own network know the way back.
        let hop = self
            .next_hop(dst)
            .filter(|hop| !hop.is_multicast())
            .unwrap_or(dst);
        let rank = |p: &&Prefix| {
            // RFC 6724 §5: rule 1 same address, rule 2 scope, rule 8 longest matching prefix (here
            // the next hop's network first).
            let on_hops_net = p.contains(hop);
            // Prefixes of IPv4 say nothing about distance beyond the network itself.
            let bits = if dst.is_ipv4() {
                Some(0)
            } else {
                common_bits(p.addr, dst)
            };
            let bits = bits.unwrap_or(0).min(u32::from(p.len));
            (
                p.addr == dst,
                scope(p.addr) == scope(dst),
                scope(p.addr) > scope(dst),
                on_hops_net,
                bits,
            )
        };
        // Reversed, because max_by_key keeps the last of equals and we want the first added.
        self.addresses
            .iter()
            .rev()
            .filter(|p| p.addr.is_ipv4() == dst.is_ipv4())
            .max_by_key(rank)
            .map(|p| p.addr)
    }

    /// How many leading bits of `dst` its route matches, for who chooses among several links; `None`: no route. Of addresses
    /// that every link has for itself (multicast, link-local) it says nothing.
    pub fn matched_len(&self, dst: IpAddr) -> Option<u8> {
        let routes = self.gateways.iter().filter(|r| r.to.contains(dst));
        self.on_link_len(dst).max(routes.map(|r| r.to.len).max())
    }

    /// Length of the longest on-link prefix that contains `ip`.
    fn on_link_len(&self, ip: IpAddr) -> Option<u8> {
        self.addresses
            .iter()
            .chain(&self.on_link)
            .filter(|p| p.contains(ip))
            .map(|p| p.len)
            .max()
    }
}

/// 224.0.0.1, RFC 1112 §4.
const ALL_HOSTS_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// ff01::1, RFC 4291 §2.7.1.
const ALL_NODES_INTERFACE: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1);
/// ff02::1, RFC 4291 §2.7.1.
pub const ALL_NODES_LINK: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Wider is greater: link-local 2, everything else that we can have 14 (RFC 4007 §5, RFC 6724
/// §3.2).
fn scope(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V6(ip) if ip.is_multicast() => ip.octets()[1] & 0x0f,
        _ if is_link_local(ip) => 2,
        _ => 14,
    }
}

pub(super) fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// An address that one interface on a link can have.
fn is_usable(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast || ip.is_multicast() || ip.is_unspecified() || ip.is_loopback())
}

/// The link-local address that goes with a MAC: modified EUI-64 (RFC 4291 §2.5.6 and appendix A).
pub fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let id = u64::from_be_bytes([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits((0xfe80_u128 << 112) | u128::from(id))
}

/// Whether a group is the solicited-node group of an address in the pool: their last 24 bits are the same (RFC 4291
/// §2.7.1).
fn asks_for(group: Ipv6Addr, pool: &Prefix) -> bool {
    let IpAddr::V6(first) = pool.addr else {
        return false;
    };
    let differing = (group.to_bits() ^ solicited_node(&first).to_bits()).leading_zeros();
    differing >= u32::from(pool.len).max(104)
}

#[cfg(test)]
mod tests;
