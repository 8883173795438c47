//! What is wanted, made of the options: where it contradicts itself or the link, that is said.

use std::net::{IpAddr, SocketAddr};

use exos::{Addresses, Attachment, Error, Exos, Role, clock};
use exos_host::netlink::Netlink;
use exos_inet::Stack;
use exos_program::{LinkArgs, LinkName, Needs};
use exos_wire::Mac;

use crate::limits::{LINK_MTU, PATH_MTU_MIN};
use crate::packets::reach::Reach;
use crate::program::lent;
use crate::program::predecessor::Predecessor;
use crate::service::{Affinity, Balance, Listen};
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
    let ours = |ip: IpAddr| wanted.link.address.iter().any(|a| a.ip == ip);
    let mut listeners = wanted.services.iter().flat_map(|service| &service.listen);
    match listeners.find(|listen| !ours(listen.at.ip())) {
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
    let Some(LinkName::Packet(interface)) = &wanted.link.link else {
        return Ok(());
    };
    let by_tunnel = |service: &Service| service.reach == Reach::Tunnel;
    match wanted.services.iter().any(by_tunnel) {
        true => Err(Error::new(
            "packets are not forwarded by --reach tunnel where they come by packet sockets",
        )
        .mend(format!("give --link xdp:{interface}"))),
        false => Ok(()),
    }
}

/// The kernel wraps no packets in others.
fn check_kernel(in_kernel: bool, wanted: &Wanted) -> Result<(), Error> {
    let mut services = wanted.services.iter();
    match services.find(|service| service.reach == Reach::Tunnel) {
        Some(service) if in_kernel => Err(Error::new(format!(
            "the kernel does not forward by --reach {}",
            service.reach.name()
        ))
        .mend("leave --in-kernel out, or choose --reach nat, transparent or direct")),
        _ => Ok(()),
    }
}

/// The link is one on which packets can be forwarded.
pub fn check_link(link: &LinkArgs) -> Result<(), Error> {
    let suits = link.is_lent()? || link.link.as_ref().and_then(LinkName::interface).is_some();
    if suits && !link.share_address {
        return Ok(());
    }
    Err(Error::new("packets are forwarded on an interface by AF_XDP or packet sockets, with addresses of their own")
        .mend("give --link xdp:INTERFACE or packet:INTERFACE, and --address ADDRESS/PREFIX, or --via xokd where the daemon is there"))
}

/// The link, and our addresses on it.
///
/// # Errors
///
/// Packets are not forwarded on such a link.
pub fn attachment(wanted: &Wanted) -> Result<Attachment, Error> {
    check_link(&wanted.link)?;
    let mut link = wanted.link.clone();
    // What we say first comes from the first that fits. Servers that have a listener's address hear nothing from there.
    let is_listener_s = |ip: IpAddr| {
        let mut services = wanted.services.iter().filter(|s| !s.reach.hears_servers());
        services.any(|s| s.listen.iter().any(|listen| listen.at.ip() == ip))
    };
    link.address
        .sort_by_key(|address| is_listener_s(address.ip));
    link.attachment(&Needs::new(Role::Connect(Vec::new())))
}

/// Makes the link, when a forwarder that is there has given it up.
pub fn attach(wanted: &Wanted, before: Option<Predecessor>) -> Result<Exos, Error> {
    let attachment = attachment(wanted)?;
    wanted.user.give_up_for(&attachment.link)?;
    wanted.user.warn_of_merging(&attachment.link);
    Exos::attach_after(attachment, || match before {
        Some(before) => before.hand_over().map(|()| true),
        None => Ok(false),
    })
}

/// What is listened to, each with the servers of its family. Without a stack, servers see the listener's address, as they do
/// where a daemon lends the addresses.
pub fn listens(services: &[Service], stack: Option<&Stack>) -> Result<Vec<Listen>, Error> {
    let mut listens = Vec::new();
    for service in services {
        for &ListenAddress { transport, at } in &service.listen {
            let mut to = Vec::new();
            for server in service.to.iter().filter(|s| s.ip.is_ipv6() == at.is_ipv6()) {
                let end = SocketAddr::new(server.ip, server.port.unwrap_or(at.port()));
                let ours = match stack {
                    Some(stack) => source(stack, server.ip, service.reach)?,
                    None => at.ip(),
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

/// The address of ours that a server sees, or that checks of it come from.
pub fn source(stack: &Stack, server: IpAddr, reach: Reach) -> Result<IpAddr, Error> {
    if stack.addresses().iter().any(|a| a.addr == server) {
        return Err(Error::new(format!("{server} is an address of ours"))
            .mend("name a server elsewhere: to ourselves would be a loop"));
    }
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
            .mend("give an --address in its network, or a --gateway")
    })
}

/// A stack with the addresses and gateways, which knows where routes lead.
pub fn trial_stack(wanted: &Wanted) -> Option<Stack> {
    let addresses = Addresses::new(&wanted.link.address[..]).ok()?;
    let addresses = addresses.with_gateways(&wanted.link.gateway[..]).ok()?;
    let mtu = mtu_of(wanted.link.link.as_ref());
    let config = addresses.config(&Mac([2, 0, 0, 0, 0, 1]), mtu);
    Stack::new(config, 0, clock::now()).ok()
}

/// How long packets may be on the link, as far as it is there.
fn mtu_of(link: Option<&LinkName>) -> usize {
    let Some(interface) = link.and_then(LinkName::interface) else {
        return LINK_MTU;
    };
    let found = Netlink::new().and_then(|netlink| netlink.link_by_name(interface));
    found.map_or(LINK_MTU, |found| found.mtu as usize)
}
