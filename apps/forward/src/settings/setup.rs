//! What is wanted, made of the options: where it contradicts itself or the link, that is said.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use exos::{Addresses, Attachment, Error, ErrorKind, Exos, Prefixed, Role, clock};
use exos_filter::handler::forward::layout::LINKS_MAX;
use exos_host::affinity;
use exos_host::netlink::Netlink;
use exos_inet::Stack;
use exos_inet::route::Prefix;
use exos_program::{LinkArgs, LinkName, Needs};
use exos_wire::Mac;

use crate::forwarder::link_to;
use crate::limits::{LINK_MTU, PATH_MTU_MIN};
use crate::packets::reach::Reach;
use crate::program::lent;
use crate::program::predecessor::Predecessor;
use crate::service::{Affinity, Balance, Listen};
use crate::settings::links::Links;
use crate::settings::wanted::{Service, Wanted};
use crate::settings::written::{ListenAddress, Weighted};

/// What is wanted fits together, on a link that a daemon lends or not, with the kernel forwarding or not.
///
/// # Errors
///
/// The first thing that does not.
pub fn check(wanted: &Wanted, in_kernel: bool, is_lent: bool) -> Result<(), Error> {
    check_listeners(wanted)?;
    check_options(wanted, in_kernel, is_lent)
        .into_iter()
        .collect()
}

/// Listeners are at addresses of ours.
fn check_listeners(wanted: &Wanted) -> Result<(), Error> {
    let mut listeners = wanted.services.iter().flat_map(|service| &service.listen);
    match listeners.find(|listen| !wanted.links.have(listen.at.ip())) {
        None => Ok(()),
        Some(ListenAddress { at, .. }) => {
            Err(Error::new(format!("{} is no address of ours", at.ip()))
                .mend(format!("give --address {}/PREFIX too", at.ip())))
        }
    }
}

/// What options rule each other out, each for itself.
pub fn check_options(wanted: &Wanted, in_kernel: bool, is_lent: bool) -> [Result<(), Error>; 4] {
    let lent = match is_lent {
        true => lent::check(in_kernel, wanted),
        false => Ok(()),
    };
    [
        lent,
        check_kernel(in_kernel, wanted),
        check_packet_sockets(wanted),
        check_affinity(wanted),
    ]
}

/// There are as many cores as are wanted, and the links can be shared out among them. To be asked before a thread keeps to its core.
///
/// # Errors
///
/// There are not, or a link is one core's.
pub fn check_cores(wanted: &Wanted) -> Result<(), Error> {
    let cores = wanted.core_count();
    wanted.places(&affinity::allowed()?)?;
    let needs = needs(cores);
    let mut links = wanted.links.all().iter();
    match cores {
        1 => Ok(()),
        _ => links.try_for_each(|link| link.attachment(&needs).map(drop)),
    }
}

/// What is wanted of each link for this many cores.
fn needs(cores: usize) -> Needs {
    Needs {
        cores: cores as u32,
        ..Needs::new(Role::Connect(Vec::new()))
    }
}

/// Only hashing looks at the client.
fn check_affinity(wanted: &Wanted) -> Result<(), Error> {
    match (wanted.affinity, wanted.balance) {
        (Affinity::Client, Balance::Least | Balance::RoundRobin) => Err(Error::new(
            "a client keeps its server only where servers are chosen by clients",
        )
        .mend("leave --balance out with --affinity client")),
        _ => Ok(()),
    }
}

/// What comes by packet sockets may stand for several packets, of which none fits into another.
fn check_packet_sockets(wanted: &Wanted) -> Result<(), Error> {
    let by_sockets = |link: &LinkArgs| match &link.link {
        Some(LinkName::Packet(interface)) => Some(interface.clone()),
        _ => None,
    };
    let interface = wanted.links.all().iter().find_map(by_sockets);
    let by_tunnel = |service: &Service| service.reach == Reach::Tunnel;
    match interface.filter(|_| wanted.services.iter().any(by_tunnel)) {
        Some(interface) => Err(Error::new(
            "packets are not forwarded by --reach tunnel where they come by packet sockets",
        )
        .mend(format!("give --link xdp:{interface}"))),
        None => Ok(()),
    }
}

/// The kernel wraps no packets in others, and tells no more links apart than it has numbers for.
fn check_kernel(in_kernel: bool, wanted: &Wanted) -> Result<(), Error> {
    let links = wanted.links.all().len();
    if in_kernel && links > LINKS_MAX {
        return Err(Error::new(format!(
            "--in-kernel forwards on {LINKS_MAX} links at most, and there are {links}"
        ))
        .mend("leave --in-kernel out, or give fewer --link"));
    }
    let mut services = wanted.services.iter();
    match services.find(|service| service.reach == Reach::Tunnel) {
        Some(_) if in_kernel => Err(Error::new("the kernel does not forward by --reach tunnel")
            .mend("leave --in-kernel out, or choose --reach nat, transparent or direct")),
        _ => Ok(()),
    }
}

/// The link is one on which packets can be forwarded.
pub fn check_link(link: &LinkArgs) -> Result<(), Error> {
    let is_interface = |name: &LinkName| !matches!(name, LinkName::Tap(_));
    let suits = link.is_lent()? || link.link.as_ref().is_some_and(is_interface);
    if suits && !link.share_address {
        return Ok(());
    }
    Err(Error::new("packets are forwarded on an interface by AF_XDP or packet sockets, with addresses of their own")
        .mend("give --link xdp:INTERFACE or packet:INTERFACE, and --address ADDRESS/PREFIX, or --via xokd where the daemon is there"))
}

/// The links are such, and each packet leaves by one of them alone.
///
/// # Errors
///
/// The first thing that is not so.
pub fn check_links(links: &Links) -> Result<(), Error> {
    links.all().iter().try_for_each(check_link)?;
    if links.all().len() > 1 {
        check_kinds(links)?;
    }
    for (at, link) in links.all().iter().enumerate() {
        let before = &links.all()[..at];
        before
            .iter()
            .try_for_each(|other| check_apart(other, link))?;
    }
    Ok(())
}

/// Several links are of one kind: what comes by packet sockets may stand for several packets, which only they send on. How long each
/// of those will be on the wire is not looked at, so what came by one link has to fit the others.
fn check_kinds(links: &Links) -> Result<(), Error> {
    let names = || links.all().iter().map(|link| link.link.as_ref());
    let is_xdp = |name: Option<&LinkName>| matches!(name, Some(LinkName::Xdp { .. }));
    let is_lent = |name: Option<&LinkName>| matches!(name, Some(LinkName::Xokd(_)));
    if names().all(is_xdp) || names().all(is_lent) {
        return Ok(());
    }
    if !names().all(|name| matches!(name, Some(LinkName::Packet(_)))) {
        return Err(
            Error::new("several links are interfaces by AF_XDP, or all by packet sockets, or all lent by the daemon")
                .mend("give --link xdp:INTERFACE for each, or --link packet:INTERFACE, or --link xokd:INTERFACE"),
        );
    }
    let mut mtus = names().map(mtu_of);
    let first = mtus.next();
    match mtus.find(|mtu| Some(*mtu) != first) {
        None => Ok(()),
        Some(_) => Err(Error::new("links by packet sockets have one MTU")
            .mend("give their interfaces one (ip link set INTERFACE mtu 1500), or give --link xdp:INTERFACE for each")),
    }
}

/// Two links have nothing in common.
fn check_apart(one: &LinkArgs, other: &LinkArgs) -> Result<(), Error> {
    let (a, b) = (name_of(one), name_of(other));
    if a == b {
        return Err(Error::new(format!("{a} is named as two links"))
            .mend("give one --link, and all its addresses behind it"));
    }
    check_gateways((one, a), (other, b))?;
    let is_there_too = |x: &&Prefixed| other.address.iter().any(|y| y.ip == x.ip);
    if let Some(address) = one.address.iter().find(is_there_too) {
        return Err(
            Error::new(format!("{} is an address on {a} and on {b}", address.ip))
                .mend("give it to one of them"),
        );
    }
    check_networks((one, a), (other, b))
}

/// Two links are not both the way to all other networks.
fn check_gateways((one, a): (&LinkArgs, &str), (other, b): (&LinkArgs, &str)) -> Result<(), Error> {
    let is_there_too = |gateway: &&IpAddr| {
        let mut others = other.gateway.iter();
        others.any(|o| o.is_ipv4() == gateway.is_ipv4())
    };
    match one.gateway.iter().find(is_there_too) {
        None => Ok(()),
        Some(gateway) => Err(Error::new(format!(
            "{gateway} on {a} is not the only default gateway: {b} has one too"
        ))
        .mend("give one --gateway of a family, behind the --link that leads to all others")),
    }
}

/// No network is on two links.
fn check_networks((one, a): (&LinkArgs, &str), (other, b): (&LinkArgs, &str)) -> Result<(), Error> {
    let networks = |link: &LinkArgs| -> Vec<Prefixed> {
        let routes = link.route.iter().map(|route| route.to);
        let all = link.gateway.iter().map(|gateway| everything(*gateway));
        let addresses = link.address.iter().copied();
        addresses.chain(routes).chain(all).collect()
    };
    let are_one = |x: &Prefixed, y: &Prefixed| {
        let network = Prefix::new(x.ip, x.prefix);
        x.prefix == y.prefix && network.is_ok_and(|network| network.contains(y.ip))
    };
    for x in networks(one) {
        if let Some(y) = networks(other).into_iter().find(|y| are_one(&x, y)) {
            let what = format!(
                "{x} on {a} and {y} on {b} are one network: by which of them its hosts are reached would be chance"
            );
            return Err(Error::new(what)
                .mend("give each link a network of its own, or name one of the links alone"));
        }
    }
    Ok(())
}

/// The network of all addresses of a family.
fn everything(of: IpAddr) -> Prefixed {
    let ip = match of {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Prefixed { ip, prefix: 0 }
}

/// What a link is called.
fn name_of(link: &LinkArgs) -> &str {
    link.link.as_ref().map_or("xokd", LinkName::interface)
}

/// The links, and our addresses on them.
///
/// # Errors
///
/// Packets are not forwarded on such links.
pub fn attachments(wanted: &Wanted) -> Result<Vec<Attachment>, Error> {
    check_links(&wanted.links)?;
    // What we say first comes from the first that fits. Servers that have a listener's address hear nothing from there.
    let is_listener_s = |ip: IpAddr| {
        let mut services = wanted.services.iter().filter(|s| !s.reach.hears_servers());
        services.any(|s| s.listen.iter().any(|listen| listen.at.ip() == ip))
    };
    let needs = needs(wanted.core_count());
    let attachment = |link: &LinkArgs| {
        let mut link = link.clone();
        link.address
            .sort_by_key(|address| is_listener_s(address.ip));
        link.attachment(&needs)
    };
    wanted.links.all().iter().map(attachment).collect()
}

/// Makes the links, when a forwarder that is there has given them up.
pub fn attach(wanted: &Wanted, before: Option<Predecessor>) -> Result<Vec<Exos>, Error> {
    let attachments = attachments(wanted)?;
    wanted.user.give_up_for(&attachments[0].link)?;
    for attachment in &attachments {
        wanted.user.warn_of_merging(&attachment.link);
    }
    Exos::attach_after(attachments, || match before {
        Some(before) => before.hand_over().map(|()| true),
        None => Ok(false),
    })
    .map_err(|error| match error.kind {
        // There is nothing to share it by.
        ErrorKind::AddressOfHost => error
            .mend("choose one that nobody has")
            .of_kind(ErrorKind::Other),
        _ => error,
    })
}

/// What is listened to, each with the servers of its family. Without the stacks of the links, servers see the
/// listener's address, as they do where a daemon lends the addresses.
pub fn listens(services: &[Service], stacks: &[&Stack]) -> Result<Vec<Listen>, Error> {
    let mut listens = Vec::new();
    for service in services {
        for &ListenAddress { transport, at } in &service.listen {
            let mut to = Vec::new();
            for server in service.to.iter().filter(|s| s.ip.is_ipv6() == at.is_ipv6()) {
                let end = SocketAddr::new(server.ip, server.port.unwrap_or(at.port()));
                let ours = match stacks {
                    [] => at.ip(),
                    stacks => source(stacks, server.ip, service.reach)?,
                };
                to.push((end, server.weight, ours));
            }
            listens.push(Listen {
                transport,
                at,
                reach: service.reach,
                to,
            });
        }
        check_use(service)?;
    }
    Ok(listens)
}

/// Each server is of a family that is listened for.
fn check_use(service: &Service) -> Result<(), Error> {
    let is_used = |to: &&Weighted| {
        let mut listeners = service.listen.iter();
        listeners.any(|listen| listen.at.is_ipv6() == to.ip.is_ipv6())
    };
    match service.to.iter().find(|server| !is_used(server)) {
        Some(server) => Err(Error::new(format!("nothing is forwarded to {}", server.ip))
            .mend("listen at an address of its family too, or leave it out")),
        None => Ok(()),
    }
}

/// The address of ours that a server sees, or that checks of it come from: on the link that leads there.
pub fn source(stacks: &[&Stack], server: IpAddr, reach: Reach) -> Result<IpAddr, Error> {
    let mut addresses = stacks.iter().flat_map(|stack| stack.addresses());
    if addresses.any(|a| a.addr == server) {
        return Err(Error::new(format!("{server} is an address of ours"))
            .mend("name a server elsewhere: to ourselves would be a loop"));
    }
    let stack = stacks[link_to(stacks.iter().map(|stack| stack.routes().1), server)];
    if reach == Reach::Direct && stack.next_hop(server).is_some_and(|hop| hop != server) {
        return Err(Error::new(format!(
            "{server} is behind a gateway, and packets that keep their ends go to link addresses alone"
        ))
        .mend("give an --address in its network, or choose another --reach"));
    }
    let least = PATH_MTU_MIN[usize::from(server.is_ipv6())];
    if reach == Reach::Tunnel && stack.config().mtu < least {
        return Err(Error::new(format!(
            "packets to {server} have room in others on a link with an MTU of {least} at least"
        ))
        .mend(
            "raise the interface's MTU (ip link set INTERFACE mtu 1500), or choose another --reach",
        ));
    }
    let ours = stack.source_for(server).filter(|_| stack.has_route(server));
    ours.ok_or_else(|| {
        Error::new(format!("no route leads to {server}"))
            .mend("give an --address in its network, a --gateway, or a --route")
    })
}

/// Stacks with the addresses and gateways of the links, which know where routes lead; none where these do not fit together.
pub fn trial_stacks(wanted: &Wanted) -> Vec<Stack> {
    let stacks = wanted.links.all().iter().map(trial_stack);
    stacks.collect::<Option<_>>().unwrap_or_default()
}

fn trial_stack(link: &LinkArgs) -> Option<Stack> {
    let addresses = Addresses::new(&link.address[..]).ok()?;
    let addresses = addresses.with_gateways(&link.gateway[..]).ok()?;
    let addresses = addresses.with_routes(&link.route[..]).ok()?;
    let config = addresses.config(&Mac([2, 0, 0, 0, 0, 1]), mtu_of(link.link.as_ref()));
    Stack::new(config, 0, clock::now()).ok()
}

/// How long packets may be on the link, as far as it is there.
fn mtu_of(link: Option<&LinkName>) -> usize {
    let Some(name) = link else {
        return LINK_MTU;
    };
    let found = Netlink::new().and_then(|netlink| netlink.link_by_name(name.interface()));
    found.map_or(LINK_MTU, |found| found.mtu as usize)
}

#[cfg(test)]
mod tests {
    use exos_program::NamedLink;

    use super::*;

    fn link(name: &str, addresses: &[&str], gateways: &[&str]) -> LinkArgs {
        LinkArgs {
            link: Some(name.parse().unwrap()),
            address: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            gateway: gateways.iter().map(|text| text.parse().unwrap()).collect(),
            ..LinkArgs::default()
        }
    }

    /// By which link a packet leaves is never a matter of chance.
    #[test]
    fn links_have_nothing_in_common() {
        let a = || link("xdp:a", &["10.0.0.7/24", "fd00::7/64"], &["10.0.0.1"]);
        let checked = |b: LinkArgs| {
            let other = NamedLink {
                name: b.link.expect("a link"),
                address: b.address,
                gateway: b.gateway,
                route: b.route,
            };
            check_links(&Links::from(LinkArgs {
                others: vec![other],
                ..a()
            }))
        };
        for (b, wanted) in [
            (link("xdp:a:1", &["10.0.1.7/24"], &[]), "named as two links"),
            (link("xdp:b", &["10.0.0.8/24"], &[]), "are one network"),
            (
                link("xdp:b", &["10.0.0.7/25"], &[]),
                "an address on a and on b",
            ),
            (
                link("xdp:b", &["10.0.1.7/24"], &["10.0.1.1"]),
                "not the only default gateway",
            ),
            (
                link("tap:b", &["10.0.1.7/24"], &[]),
                "give --link xdp:INTERFACE",
            ),
            (
                link("packet:b", &["10.0.1.7/24"], &[]),
                "give --link xdp:INTERFACE for each",
            ),
        ] {
            let said = checked(b).unwrap_err().to_string();
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
        let mut b = link("xdp:b", &["10.0.1.7/24"], &[]);
        b.route.push("0.0.0.0/0,10.0.1.1".parse().unwrap());
        let said = checked(b.clone()).unwrap_err().to_string();
        assert!(said.contains("are one network"), "{said}");
        b.route[0] = "10.0.0.0/16,10.0.1.1".parse().unwrap();
        checked(b).unwrap();
        // A network within another's is told from it; each family may have a gateway of its own.
        let b = link("xdp:b", &["10.0.0.129/25", "fd01::7/64"], &["fd01::1"]);
        checked(b).unwrap();
    }

    /// What comes by packet sockets may be too long for other links.
    #[test]
    fn links_are_of_one_kind() {
        for (names, refused) in [
            (["xdp:a", "xdp:b:1", "xdp:c"], None),
            (["packet:a", "packet:b", "packet:c"], None),
            (["xokd:a", "xokd:b", "xokd:lo"], None),
            (
                ["xokd:a", "xdp:b", "xdp:c"],
                Some("or all lent by the daemon"),
            ),
            (
                ["xdp:a", "xdp:b", "packet:c"],
                Some("or all by packet sockets"),
            ),
            (
                ["packet:a", "packet:b", "xdp:c"],
                Some("or all by packet sockets"),
            ),
            // The loopback has another MTU than those that are not there.
            (["packet:a", "packet:b", "packet:lo"], Some("have one MTU")),
            (["xdp:a", "xdp:b", "xdp:lo"], None),
        ] {
            let others = (1..).zip(&names[1..]).map(|(n, name)| NamedLink {
                name: name.parse().unwrap(),
                address: vec![format!("10.0.{n}.7/24").parse().unwrap()],
                gateway: Vec::new(),
                route: Vec::new(),
            });
            let links = LinkArgs {
                others: others.collect(),
                ..link(names[0], &["10.0.0.7/24"], &[])
            };
            let said = check_links(&Links::from(links))
                .err()
                .map(|error| error.to_string());
            match (&said, refused) {
                (None, None) => {}
                (Some(said), Some(wanted)) if said.contains(wanted) => {}
                _ => panic!("{names:?}: {said:?}"),
            }
        }
    }

    /// Servers are spoken to from the link that leads to them.
    #[test]
    fn servers_see_the_address_of_their_link() {
        let mut links = [
            link("xdp:a", &["10.0.0.7/24"], &["10.0.0.1"]),
            link("xdp:b", &["10.0.1.7/24", "fd01::7/64"], &[]),
        ];
        links[1].route.push("10.8.0.0/16,10.0.1.1".parse().unwrap());
        let stacks: Vec<Stack> = links.iter().map(|l| trial_stack(l).unwrap()).collect();
        let stacks: Vec<&Stack> = stacks.iter().collect();
        let from = |server: &str, reach| source(&stacks, server.parse().unwrap(), reach);
        for (server, wanted) in [
            ("10.0.0.9", "10.0.0.7"),
            ("10.0.1.9", "10.0.1.7"),
            ("192.0.2.9", "10.0.0.7"),
            ("10.8.3.4", "10.0.1.7"),
            ("fd01::9", "fd01::7"),
        ] {
            let ours = from(server, Reach::Nat).unwrap();
            assert_eq!(ours, wanted.parse::<IpAddr>().unwrap(), "{server}");
        }
        let refused = |server, reach| from(server, reach).unwrap_err().to_string();
        assert!(refused("10.0.1.7", Reach::Nat).contains("is an address of ours"));
        assert!(refused("fd02::9", Reach::Nat).contains("no route leads to"));
        assert!(refused("192.0.2.9", Reach::Direct).contains("is behind a gateway"));
    }
}
