//! Pools of addresses from which a program opens connections, so that 64 K ports are no limit.
//!
//! | the pool is | who finds it | and needs |
//! |---|---|---|
//! | a part of the network of an address of ours | who asks for each address by ARP or Neighbour Discovery | a neighbour for each |
//! | a network of its own | who has a route to it by an address of ours | one neighbour |
//!
//! On an interface of our own the host is told that route, which goes with the interface. On a network whose other hosts
//! are not ours to change, only the first is possible, and their tables of neighbours bound the pool: of Linux's the
//! `gc_thresh3` is 1024.

use std::net::IpAddr;

use exos_filter::program::Rule;
use exos_host::error::{Error, ErrorKind};
use exos_host::multicast::Memberships;
use exos_host::netlink::Netlink;
use exos_inet::route::Prefix;
use exos_wire::ndp::solicited_node;

use super::addresses::{Addresses, Prefixed};
use super::role::rule;

/// Bits of a solicited-node group that are the same in all of them (RFC 4291 §2.7.1).
const GROUP_BITS: u8 = 104;

/// Everything for a pool's addresses, with what it takes to be found on the link.
pub(super) fn rules(pools: &[Prefixed]) -> Result<Vec<Rule>, Error> {
    let mut rules = Vec::new();
    for pool in pools {
        rules.push(rule(&format!("dst net {pool} and not arp"))?);
        match pool.ip {
            IpAddr::V4(_) => rules.push(rule(&format!("arp dst net {pool}"))?),
            IpAddr::V6(first) => {
                let bits = pool.prefix.max(GROUP_BITS);
                let group = Prefix::new(solicited_node(&first).into(), bits);
                let group = group.expect("at most 128 bits").first();
                rules.push(rule(&format!("icmp6 and dst net {group}/{bits}"))?);
            }
        }
    }
    Ok(rules)
}

/// An address that the host has too would be answered twice.
pub(super) fn refuse_host_addresses(netlink: &Netlink, ours: &Addresses) -> Result<(), Error> {
    for taken in netlink.all_addresses()? {
        if let Some(pool) = ours.pool_of(taken.ip) {
            let ip = taken.ip;
            return Err(in_use(format!(
                "{ip} is an address of this host, and in the pool {pool}"
            )));
        }
    }
    Ok(())
}

fn in_use(what: String) -> Error {
    Error::new(what)
        .mend("choose a pool of addresses that nobody has")
        .of_kind(ErrorKind::AddressInUse)
}

/// The addresses that must not be somebody else's: ours, and those of pools that are as few. In larger ones nobody is
/// looked for.
pub(super) fn to_be_asked_for(addresses: &Addresses) -> Vec<Prefixed> {
    let mut asked = addresses.ours().to_vec();
    let routes = addresses.routes();
    for ip in routes.small_pools().flat_map(Prefix::iter) {
        if asked.iter().all(|other| other.ip != ip) {
            asked.push(Prefixed::single(ip));
        }
    }
    asked
}

/// Joins the groups in which others on the link ask for our IPv6 addresses. Those of a larger pool are too many to be named.
pub(super) fn join_groups(interface: u32, addresses: &Addresses) -> Result<Memberships, Error> {
    let memberships = Memberships::new(interface)?;
    for address in to_be_asked_for(addresses) {
        if let IpAddr::V6(ip) = address.ip {
            memberships.join(solicited_node(&ip))?;
        }
    }
    let near = |pool: &Prefix| addresses.ours().iter().any(|a| a.network().overlaps(pool));
    let routes = addresses.routes();
    let is_large = |pool: &Prefix| routes.small_pools().all(|small| small != pool);
    let pools = addresses.pools().iter().filter(|pool| pool.ip.is_ipv6());
    if pools
        .map(Prefixed::network)
        .any(|pool| near(&pool) && is_large(&pool))
    {
        memberships.join_all()?;
    }
    Ok(memberships)
}

/// Routes of the host to the pools, by our addresses on an interface of our own: they go with the interface.
pub(super) fn add_routes(
    netlink: &Netlink,
    addresses: &Addresses,
    interface: u32,
) -> Result<(), Error> {
    let routed = netlink.routes()?;
    for pool in addresses.pools() {
        let mut ours = addresses.ours().iter();
        let by = ours.find(|a| a.ip.is_ipv4() == pool.ip.is_ipv4());
        let by = by.expect("an interface of our own has an address of each family");
        if by.network().overlaps(&pool.network()) {
            continue;
        }
        let inside = |r: &&_| is_inside(r, pool);
        if let Some(route) = routed.iter().find(inside) {
            return Err(in_use(format!(
                "this host has a route to {}/{}, which is in the pool {pool}",
                route.destination, route.prefix
            )));
        }
        netlink.add_route(pool.ip, pool.prefix, Some(by.ip), interface)?;
    }
    Ok(())
}

/// The route is to the pool, or to a part of it.
fn is_inside(route: &exos_host::netlink::RouteEntry, pool: &Prefixed) -> bool {
    route.prefix >= pool.prefix && pool.network().contains(route.destination)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_inet::route::{Delivery, Routes};
    use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6};

    #[test]
    fn whom_to_ask_for() {
        let parse = |text: &&str| -> Prefixed { text.parse().unwrap() };
        let ours = Addresses::new(["10.0.0.2/22", "fd00::2/64"].map(|text| parse(&text)));
        let ours = ours.unwrap();
        let asked = |pools: &[&str]| {
            let pools: Vec<_> = pools.iter().map(parse).collect();
            to_be_asked_for(&ours.clone().with_pools(pools).unwrap()).len()
        };
        assert_eq!(asked(&[]), 2);
        assert_eq!(asked(&["10.0.0.64/26", "fd00::8:0/126"]), 2 + 64 + 4);
        // One of the two is in the pool.
        assert_eq!(asked(&["10.0.0.2/31"]), 2 + 1);
        // Too many, and others than those on the link.
        assert_eq!(asked(&["10.0.1.0/24", "fd00::1:0/112", "10.9.0.0/28"]), 2);
    }

    fn frame(ethertype: u16, at: usize, address: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14 + 60];
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        match ethertype {
            ETHERTYPE_IPV4 => frame[14..18].copy_from_slice(&[0x45, 0, 0, 60]),
            // A message of ICMP's, in a packet as long as the frame.
            ETHERTYPE_IPV6 => frame[14..21].copy_from_slice(&[0x60, 0, 0, 0, 0, 20, 58]),
            _ => (),
        }
        frame[14 + at..][..address.len()].copy_from_slice(address);
        frame
    }

    /// The frames that the filters take to `ip`: whole packets, and for IPv4 what asks for it.
    fn is_taken(rules: &[Rule], ip: IpAddr) -> bool {
        let frames = match ip {
            IpAddr::V4(ip) => vec![
                frame(ETHERTYPE_IPV4, 16, &ip.octets()),
                frame(ETHERTYPE_ARP, 24, &ip.octets()),
            ],
            IpAddr::V6(ip) => vec![frame(ETHERTYPE_IPV6, 24, &ip.octets())],
        };
        let taken = |frame: &Vec<u8>| rules.iter().any(|rule| rule.filter.matches(frame));
        let count = frames.iter().filter(|frame| taken(frame)).count();
        assert!(count == 0 || count == frames.len(), "half of {ip}");
        count > 0
    }

    /// The filters take exactly what the stack calls its own: addresses, and the groups in which they are asked for.
    #[test]
    fn filters_take_what_is_ours() {
        for text in [
            "10.9.0.0/20",
            "10.9.7.128/25",
            "10.9.3.3/32",
            "172.16.0.0/12",
            "fd01::/64",
            "fd01::8:0/112",
            "fd01:2::/104",
            "fd01::7/128",
            "fd01:3:4000::/36",
        ] {
            let pool: Prefixed = text.parse().unwrap();
            let rules = rules(&[pool]).unwrap();
            let mut stack = Routes::new();
            stack
                .add_address("203.0.113.1".parse().unwrap(), 32)
                .unwrap();
            stack
                .add_address("2001:db8::1".parse().unwrap(), 128)
                .unwrap();
            stack.add_pool(pool.network()).unwrap();
            // Each address that differs from the first or the last in one bit, and its group.
            let last = pool.network().last();
            for bit in 0..128 {
                for ip in [pool.ip, last]
                    .into_iter()
                    .filter_map(|ip| with_bit_changed(ip, bit))
                {
                    let ours = stack.accepts(ip) == Some(Delivery::Unicast);
                    assert_eq!(is_taken(&rules, ip), ours, "{text}: {ip}");
                    if let IpAddr::V6(ip) = ip {
                        let group = IpAddr::V6(solicited_node(&ip));
                        let asks = stack.accepts(group) == Some(Delivery::Multicast);
                        assert_eq!(is_taken(&rules, group), asks, "{text}: {group}");
                    }
                }
            }
        }
    }

    fn with_bit_changed(ip: IpAddr, bit: u32) -> Option<IpAddr> {
        match ip {
            IpAddr::V4(ip) => {
                let mask = 1_u32.checked_shl(bit)?;
                Some(IpAddr::V4((ip.to_bits() ^ mask).into()))
            }
            IpAddr::V6(ip) => Some(IpAddr::V6((ip.to_bits() ^ (1 << bit)).into())),
        }
    }
}
