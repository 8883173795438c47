//! On parts of interfaces that the daemon lends: which addresses are wholly ours, and what cannot be.
//!
//! Flows get ports without anybody being asked. So of each address all ports are claimed at the start, once for each protocol
//! that is forwarded (`tcp 192.0.2.7`): packets of clients and of servers come here by that, with errors and fragments about
//! them, and all that we send comes from there. What is for other addresses, and what others would have to have sent, the
//! daemon neither brings nor lets go.

use std::net::IpAddr;

use exos::via::{Protocol, SUCCESSOR_TIME_MAX};
use exos::{Error, Exos, Prefixed};
use exos_program::LinkArgs;

use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::program::links::Links;
use crate::settings::wanted::{Service, Wanted};

/// Where no address is named on the only link, those are ours that are listened at. How long their networks are the daemon knows.
pub fn name_addresses(wanted: &mut Wanted) {
    if wanted.links.all().len() > 1 || wanted.links.addresses().next().is_some() {
        return;
    }
    let places = wanted.services.iter().flat_map(|service| &service.listen);
    let mut addresses: Vec<IpAddr> = places.map(|place| place.at.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let whole = |ip: IpAddr| Prefixed {
        ip,
        prefix: if ip.is_ipv4() { 32 } else { 128 },
    };
    let addresses = addresses.into_iter().map(whole).collect();
    wanted.links.set_addresses(addresses);
}

/// Refuses what the daemon would not let pass.
///
/// # Errors
///
/// Why, and what to do instead.
pub fn check(in_kernel: bool, wanted: &Wanted) -> Result<(), Error> {
    let has = |reach| wanted.services.iter().any(|service| service.reach == reach);
    let instead = "give --link xdp:INTERFACE (as root), or choose --reach nat or tunnel";
    if has(Reach::Transparent) {
        return Err(Error::new(
            "--reach transparent sends with clients' addresses and takes what is for them, and the daemon lends addresses of its own",
        )
        .mend(instead));
    }
    if has(Reach::Direct) {
        return Err(Error::new(
            "--reach direct sends with clients' addresses, and the daemon lets packets go from addresses that it lends",
        )
        .mend(instead));
    }
    if in_kernel {
        return Err(Error::new(
            "--in-kernel has packets sent on by the interface's driver, and that interface is the daemon's",
        )
        .mend("leave it out, or give --link xdp:INTERFACE (as root)"));
    }
    Ok(())
}

/// Claims what is wanted and not ours yet, on each link what is ours there.
///
/// # Errors
///
/// The daemon refuses, and says what would have to be in its policy, or who has it.
pub fn claim(links: &mut Links, wanted: &Wanted) -> Result<(), Error> {
    let checks = wanted.health.rule()?.is_some();
    let mut each = links.all_mut().iter_mut().zip(wanted.links.all());
    each.try_for_each(|(exos, link)| claim_on(exos, link, &wanted.services, checks))
}

fn claim_on(
    exos: &mut Exos,
    link: &LinkArgs,
    services: &[Service],
    checks: bool,
) -> Result<(), Error> {
    let Some(via) = exos.via() else {
        return Ok(());
    };
    for Prefixed { ip, .. } in &link.address {
        for protocol in protocols(*ip, services, checks) {
            via.claim_whole(protocol, *ip)?;
        }
    }
    Ok(())
}

/// Says that another follows that goes on with the flows that are kept: until it has claimed what is ours, nobody answers for
/// our addresses, which would reset connections that say something. However we end: who is killed says nothing more.
///
/// # Errors
///
/// The daemon refuses, or is not there.
pub fn await_successor(links: &mut Links) -> Result<(), Error> {
    let mut lent = links.all_mut().iter_mut().filter_map(Exos::via);
    lent.try_for_each(|via| via.await_successor(SUCCESSOR_TIME_MAX))
}

/// The protocols of which an address of ours is to be wholly ours.
fn protocols(ip: IpAddr, services: &[Service], checks: bool) -> Vec<Protocol> {
    let of_family = |service: &&Service| {
        let mut listen = service.listen.iter();
        listen.any(|place| place.at.is_ipv4() == ip.is_ipv4())
    };
    let services: Vec<&Service> = services.iter().filter(of_family).collect();
    // What goes in others is of neither protocol.
    if services.iter().any(|s| s.reach == Reach::Tunnel) {
        return vec![Protocol::Any];
    }
    let forwards = |transport| {
        let mut places = services.iter().flat_map(|service| &service.listen);
        places.any(|p| p.transport == transport && p.at.is_ipv4() == ip.is_ipv4())
    };
    let wanted = [
        // Checks are connections, also those of servers of datagrams.
        (
            Protocol::Tcp,
            forwards(Transport::Tcp) || checks && !services.is_empty(),
        ),
        (Protocol::Udp, forwards(Transport::Udp)),
    ];
    let wanted = wanted.into_iter().filter(|(_, is_wanted)| *is_wanted);
    wanted.map(|(protocol, _)| protocol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(listen: &[&str], reach: Reach) -> Service {
        Service {
            listen: listen.iter().map(|text| text.parse().unwrap()).collect(),
            reach,
            to: Vec::new(),
            named: Vec::new(),
        }
    }

    /// No more than what is forwarded: what else an address has may be another program's.
    #[test]
    fn protocols_are_those_of_the_address_s_family() {
        use Protocol::{Any, Tcp, Udp};
        let (four, six) = (IpAddr::from([10, 0, 0, 1]), "fd00::1".parse().unwrap());
        let services = [
            service(&["10.0.0.1:80", "udp:[fd00::1]:53"], Reach::Nat),
            service(&["[fd00::1]:80"], Reach::Nat),
        ];
        assert_eq!(protocols(four, &services, false), [Tcp]);
        assert_eq!(protocols(six, &services, false), [Tcp, Udp]);
        assert_eq!(protocols(six, &services[..1], false), [Udp]);
        assert_eq!(protocols(six, &services[..1], true), [Tcp, Udp]);
        assert_eq!(protocols(six, &services[1..], true), [Tcp]);
        assert!(protocols(four, &services[1..], true).is_empty());
        let tunnels = [service(&["10.0.0.1:80"], Reach::Tunnel)];
        assert_eq!(protocols(four, &tunnels, false), [Any]);
    }
}
