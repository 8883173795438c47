//! From a program's wishes to a stack on a link of the daemon: which addresses and ports to claim.
//!
//! A program that serves claims its port, of the addresses that it was told or of all that policy lets
//! it have; one that only connects claims a port for each connection ([`Via::claim_ephemeral`]).

use std::net::IpAddr;

use exos_host::error::{Error, ErrorKind};
use exos_inet::route::Prefix;
use exos_inet::{Config, Neighbors, Part};
use exos_xok::Protocol;
use exos_xok::message::{LocalAddress, PortWish, Refusal};

use super::control::AskError;
use super::lease::Via;
use crate::attach::daemon::Daemon;
use crate::attach::role::Role;
use crate::cores::{Core, seed, share_out};
use crate::share::{Kept, StackSettings};
use crate::watch::program_name;

/// A link of the daemon for each core. All are made with one seed: a flow may become another's, when programs come that share the port.
pub(crate) fn open(daemon: &Daemon, wanted: &StackSettings) -> Result<Vec<Core>, Error> {
    let wanted = StackSettings {
        seed: Some(seed(wanted)),
        ..*wanted
    };
    let parts = Part::all(daemon.cores);
    parts.map(|part| lend(daemon, &wanted, part)).collect()
}

fn lend(daemon: &Daemon, wanted: &StackSettings, part: Part) -> Result<Core, Error> {
    let interface = daemon.interface.as_deref();
    let (mut via, link) = Via::open(&daemon.socket, interface, daemon.mode, &program_name())?;
    let named: Vec<IpAddr> = daemon.addresses.iter().map(|a| a.ip).collect();
    let addresses = match &daemon.role {
        Role::Connect(_) => usable(&via, &named)?,
        Role::Serve(ports) => claim_each(&mut via, &named, ports, daemon)?,
    };
    let config = config(&via, &link, &addresses);
    via.addresses = addresses;
    let mut cores = share_out(vec![link], config, None, wanted, Kept::default())?;
    let core = cores.pop().expect("the link is one core's");
    Ok(Core {
        via: Some(via),
        part,
        ..core
    })
}

/// The interface's addresses, of which `wanted` are meant when there are any.
fn usable(via: &Via, wanted: &[IpAddr]) -> Result<Vec<LocalAddress>, Error> {
    let (all, name) = (&via.interface.addresses, &via.interface.name);
    for ip in wanted {
        if !all.iter().any(|a| a.ip == *ip) {
            let list: Vec<String> = all.iter().map(|a| a.ip.to_string()).collect();
            return Err(Error::new(format!("the daemon has no address {ip} on {name}"))
                .mend(format!(
                    "choose one of {}, or have it in the daemon's policy (addresses = [\"{ip}/...\"])",
                    list.join(", ")
                ))
                .of_kind(ErrorKind::NoAddress));
        }
    }
    if wanted.is_empty() {
        return Ok(all.clone());
    }
    // In the order in which they are named: what we say first comes from the first that fits.
    let mut meant: Vec<LocalAddress> = Vec::new();
    for address in wanted
        .iter()
        .filter_map(|ip| all.iter().find(|a| a.ip == *ip))
    {
        if !meant.contains(address) {
            meant.push(*address);
        }
    }
    Ok(meant)
}

/// Claims these ports; gives the addresses that have all of them.
fn claim_each(
    via: &mut Via,
    named: &[IpAddr],
    ports: &[u16],
    wanted: &Daemon,
) -> Result<Vec<LocalAddress>, Error> {
    let mut granted: Option<Vec<LocalAddress>> = None;
    for &port in ports {
        let of_port = claim_all(via, named, port, wanted)?;
        granted = Some(match granted {
            None => of_port,
            Some(before) => before
                .into_iter()
                .filter(|it| of_port.contains(it))
                .collect(),
        });
    }
    Ok(granted.unwrap_or_default())
}

/// Claims the port of every address that is meant. What policy does not allow is left out when no
/// address was named, as long as something remains.
fn claim_all(
    via: &mut Via,
    named: &[IpAddr],
    port: u16,
    wanted: &Daemon,
) -> Result<Vec<LocalAddress>, Error> {
    let mut granted = Vec::new();
    let mut refusal = None;
    for address in usable(via, named)? {
        let mut claim = |protocol| match wanted.reuse_port || wanted.cores > 1 {
            true => via.claim_divided(protocol, address.ip, port),
            false => via.claim(protocol, address.ip, PortWish::Number(port), None),
        };
        match claim(Protocol::Tcp) {
            Ok(_) => granted.push(address),
            Err(AskError::Refused(Refusal::NotAllowed, text)) if named.is_empty() => {
                refusal.get_or_insert(text);
                continue;
            }
            Err(e) => return Err(e.into()),
        }
        if wanted.datagrams {
            match claim(Protocol::Udp) {
                // A service over both does without the one that policy does not allow.
                Ok(_) | Err(AskError::Refused(Refusal::NotAllowed, _)) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    match (granted.is_empty(), refusal) {
        (false, _) => Ok(granted),
        (true, Some(text)) => Err(AskError::Refused(Refusal::NotAllowed, text).into()),
        (true, None) => Err(Error::new(format!(
            "{} has no address that the daemon could lend",
            via.interface.name
        ))
        .mend(format!(
            "give it one (ip address add ADDRESS/PREFIX dev {}), or have one in the daemon's policy",
            via.interface.name
        ))
        .of_kind(ErrorKind::NoAddress)),
    }
}

fn config(via: &Via, link: &exos_link::XdpLink, addresses: &[LocalAddress]) -> Config {
    let ours: Vec<Prefix> = addresses
        .iter()
        .filter_map(|a| Prefix::new(a.ip, a.prefix).ok())
        .collect();
    let routes = via.shared.routes(&ours);
    let has_default = |v4: bool| {
        let default = |r: &exos_inet::RouteTo| r.prefix == 0 && r.network.is_ipv4() == v4;
        routes.iter().any(default)
    };
    let of_family = |v4: bool| ours.iter().any(|a| a.addr.is_ipv4() == v4);
    let wanted = |ip: &&IpAddr| of_family(ip.is_ipv4()) && !has_default(ip.is_ipv4());
    let gateways = via.interface.gateways.iter().filter(wanted);
    Config {
        addresses: ours.iter().map(|a| (a.addr, a.len)).collect(),
        gateways: gateways.copied().collect(),
        routes: routes
            .iter()
            .filter(|r| of_family(r.network.is_ipv4()))
            .copied()
            .collect(),
        neighbors: Neighbors::External,
        ..Config::new(link.mac(), link.mtu())
    }
}
