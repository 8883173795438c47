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
use exos_host::Error;
use exos_host::multicast::Memberships;
use exos_host::netlink::Netlink;
use exos_inet::route::{Prefix, Routes};
use exos_wire::ndp::solicited_node;

use crate::attach::{Attachment, LinkName, Prefixed, rule};
use crate::pair;

/// Bits of a solicited-node group that are the same in all of them (RFC 4291 §2.7.1).
const GROUP_BITS: u8 = 104;

/// Refuses what contradicts itself, before anything is made.
pub(crate) fn check(wanted: &Attachment) -> Result<(), Error> {
    if wanted.pools.is_empty() {
        return Ok(());
    }
    if wanted.share_address {
        return Err(Error::new("a pool is nothing that a host has to share")
            .mend("give an --address of our own beside --pool, instead of --share-address"));
    }
    if let LinkName::Daemon { .. } = wanted.link {
        return Err(Error::new("the daemon lends single addresses, and no pool")
            .mend("leave --pool out, or do without the daemon (--via none)"));
    }
    routes(wanted)?;
    for gateway in &wanted.gateways {
        if let Some(pool) = holder(&wanted.pools, *gateway) {
            return Err(
                Error::new(format!("the gateway {gateway} is in the pool {pool}"))
                    .mend("choose a pool of addresses that nobody has"),
            );
        }
    }
    Ok(())
}

/// The addresses and pools as the stack takes them.
fn routes(wanted: &Attachment) -> Result<Routes, Error> {
    let own = matches!(wanted.link, LinkName::OwnPair | LinkName::OwnTap);
    let addresses: Vec<(IpAddr, u8)> = if own {
        pair::addresses(0, 2).into()
    } else {
        let given = wanted.addresses.iter();
        given.map(|a| (a.ip, a.prefix)).collect()
    };
    let mut routes = Routes::new();
    for (ip, len) in addresses {
        // What is wrong with an address is said where it is used.
        let _ = routes.add_address(ip, len);
    }
    for pool in &wanted.pools {
        let added = routes.add_pool(prefix(pool));
        added.map_err(|e| Error::new(e.to_string()))?;
    }
    Ok(routes)
}

fn prefix(pool: &Prefixed) -> Prefix {
    Prefix::new(pool.ip, pool.prefix).expect("its length was checked when it was read")
}

/// The pool with this address.
fn holder(pools: &[Prefixed], ip: IpAddr) -> Option<&Prefixed> {
    pools.iter().find(|pool| prefix(pool).contains(ip))
}

/// Everything for a pool's addresses, with what it takes to be found on the link.
pub(crate) fn rules(pools: &[Prefixed]) -> Result<Vec<Rule>, Error> {
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
pub(crate) fn refuse_host_addresses(netlink: &Netlink, pools: &[Prefixed]) -> Result<(), Error> {
    for taken in netlink.all_addresses()? {
        if let Some(pool) = holder(pools, taken.ip) {
            return Err(Error::new(format!(
                "{} is an address of this host, and in the pool {pool}",
                taken.ip
            ))
            .mend("choose a pool of addresses that nobody has"));
        }
    }
    Ok(())
}

/// The addresses that must not be somebody else's: ours, and those of pools that are as few. In larger ones nobody is
/// looked for.
pub(crate) fn to_be_asked_for(wanted: &Attachment) -> Vec<Prefixed> {
    let small = routes(wanted).map(|routes| {
        let addresses = routes.small_pools().flat_map(Prefix::iter);
        addresses.collect::<Vec<_>>()
    });
    let pools = small.unwrap_or_default().into_iter();
    let width = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
    let single = |ip| Prefixed {
        ip,
        prefix: width(ip),
    };
    let is_new = |a: &Prefixed| wanted.addresses.iter().all(|given| given.ip != a.ip);
    let pools = pools.map(single).filter(is_new);
    wanted.addresses.iter().copied().chain(pools).collect()
}

/// Joins the groups in which others on the link ask for our IPv6 addresses. Those of a larger pool are too many to be named.
pub(crate) fn join_groups(interface: u32, wanted: &Attachment) -> Result<Memberships, Error> {
    let memberships = Memberships::new(interface)?;
    for address in to_be_asked_for(wanted) {
        if let IpAddr::V6(ip) = address.ip {
            memberships.join(solicited_node(&ip))?;
        }
    }
    let near = |pool: &Prefix| wanted.addresses.iter().any(|a| prefix(a).overlaps(pool));
    let routes = routes(wanted)?;
    let is_large = |pool: &Prefix| routes.small_pools().all(|small| small != pool);
    let mut pools = wanted.pools.iter().filter(|pool| pool.ip.is_ipv6());
    if pools.any(|pool| near(&prefix(pool)) && is_large(&prefix(pool))) {
        memberships.join_all()?;
    }
    Ok(memberships)
}

/// Routes of the host to the pools, by our addresses on an interface of our own: they go with the interface.
pub(crate) fn add_routes(
    netlink: &Netlink,
    pools: &[Prefixed],
    interface: u32,
    ours: &[Prefixed],
) -> Result<(), Error> {
    let routed = netlink.routes()?;
    for pool in pools {
        let by = ours.iter().find(|a| a.ip.is_ipv4() == pool.ip.is_ipv4());
        let by = by.expect("an interface of our own has an address of each family");
        if prefix(by).overlaps(&prefix(pool)) {
            continue;
        }
        let inside = |r: &&_| is_inside(r, pool);
        if let Some(route) = routed.iter().find(inside) {
            return Err(Error::new(format!(
                "this host has a route to {}/{}, which is in the pool {pool}",
                route.destination, route.prefix
            ))
            .mend("choose a pool of addresses that nobody has"));
        }
        netlink.add_route(pool.ip, pool.prefix, Some(by.ip), interface)?;
    }
    Ok(())
}

/// The route is to the pool, or to a part of it.
fn is_inside(route: &exos_host::netlink::RouteEntry, pool: &Prefixed) -> bool {
    route.prefix >= pool.prefix && prefix(pool).contains(route.destination)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_inet::route::Delivery;
    use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6};

    fn wanted(link: LinkName, pools: &[&str]) -> Attachment {
        let parse = |text: &&str| text.parse().unwrap();
        Attachment {
            addresses: match link {
                LinkName::OwnPair => Vec::new(),
                _ => ["10.0.0.2/24", "fd00::2/64"].iter().map(parse).collect(),
            },
            pools: pools.iter().map(parse).collect(),
            ..Attachment::new(link, 0)
        }
    }

    fn tap() -> LinkName {
        LinkName::Tap("t0".into())
    }

    #[test]
    fn what_is_refused_before_anything_is_made() {
        let refusal = |wanted: Attachment| wanted.check().unwrap_err().to_string();
        for (pool, part) in [
            ("10.9.0.1/16", "is 10.9.0.0/16"),
            ("10.0.0.0/25", "the network 10.0.0.0/24"),
            ("224.0.0.0/8", "224.0.0.0/3"),
        ] {
            let said = refusal(wanted(tap(), &[pool]));
            assert!(said.contains(part), "{pool}: {said}");
        }
        let with_gateway = Attachment {
            gateways: vec!["10.0.0.65".parse().unwrap()],
            ..wanted(tap(), &["10.0.0.64/26"])
        };
        assert!(refusal(with_gateway).contains("the gateway 10.0.0.65"));
        let alone = Attachment {
            addresses: vec!["fd00::2/64".parse().unwrap()],
            ..wanted(tap(), &["10.9.0.0/16"])
        };
        assert!(refusal(alone).contains("needs an address"));
        let shared = Attachment {
            addresses: Vec::new(),
            share_address: true,
            ..wanted(
                LinkName::Xdp {
                    interface: "eth0".into(),
                    queue: None,
                },
                &["10.9.0.0/16"],
            )
        };
        assert!(refusal(shared).contains("instead of --share-address"));
        let daemon = LinkName::Daemon {
            interface: None,
            socket: "/nowhere".into(),
            mode: crate::via::Mode::Auto,
        };
        assert!(refusal(wanted(daemon, &["10.9.0.0/16"])).contains("--via none"));
        assert!(
            wanted(LinkName::OwnPair, &["10.9.0.0/16", "fd01::/64"])
                .check()
                .is_ok()
        );
    }

    #[test]
    fn whom_to_ask_for() {
        let asked = |pools: &[&str]| to_be_asked_for(&wanted(tap(), pools)).len();
        assert_eq!(asked(&[]), 2);
        assert_eq!(asked(&["10.0.0.64/26", "fd00::8:0/126"]), 2 + 64 + 4);
        // One of the two is in the pool.
        assert_eq!(asked(&["10.0.0.2/31"]), 2 + 1);
        // Too many, and others than those on the link.
        assert_eq!(asked(&["10.0.0.128/25", "fd00::1:0/112", "10.9.0.0/28"]), 2);
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
            stack.add_pool(prefix(&pool)).unwrap();
            // Each address that differs from the first or the last in one bit, and its group.
            let last = prefix(&pool).last();
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
