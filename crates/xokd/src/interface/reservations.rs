//! Ports of shared addresses, held from the host while programs have them.
//!
//! Where an address is the host's own, too, the packet path takes the packets of what is granted before the host sees
//! them. That is not enough: the host could listen on the port (and would answer as soon as the grant is gone, or wonder
//! why nobody comes), or choose it for a connection of its own, whose answers would then go to the program. So each
//! granted port of a shared address has a socket of the host that is bound to it and does nothing else.
//!
//! An identifier of echo requests is held likewise, from those of the host's programs that leave the choice to the kernel
//! (`ping` as it is today). That takes a group that may send echo requests so (`net.ipv4.ping_group_range`): where the
//! daemon's may not, the host may choose an identifier that a program has, and loses the answers; the daemon says so when
//! it starts ([`check_echoes`]). There are few of them ([`ECHOES`](crate::limits::ECHOES)).
//!
//! Grants of several connections at one port have one socket between them. Claims without a port (a whole protocol, a
//! whole address) hold no ports: who may claim those takes the host's traffic, which policy has to allow by name.
//! The sockets end with the daemon; the next makes them again from the grants that it finds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use exos_host::error::{Error, Result};
use exos_host::ports::{Reservation, Transport, reserve_quickly};
use exos_xok::message::GrantId;
use exos_xok::{Claim, Protocol};

type Port = (Transport, SocketAddr);

/// Fails when identifiers of echo requests cannot be held from the host, and says what to do.
pub fn check_echoes() -> Result<()> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    match reserve_quickly(Transport::Echo, any) {
        Err(error) if error.is(libc::EACCES) => Err(Error::new(
            "the host's programs may choose an identifier of echo requests that a program here has, and lose the answers",
        )
        .mend("set net.ipv4.ping_group_range so that the daemon's group is in it")),
        _ => Ok(()),
    }
}

/// The ports that are held, and for which grants.
#[derive(Debug, Default)]
pub struct Reservations {
    held: BTreeMap<Port, (Reservation, BTreeSet<GrantId>)>,
    ports: BTreeMap<GrantId, Port>,
}

impl Reservations {
    /// Holds the port of a claim on a shared address. Fails when a program of the host has it.
    pub fn hold(&mut self, grant: GrantId, claim: &Claim) -> Result<()> {
        let Some(port) = port_of(claim) else {
            return Ok(());
        };
        if let Some((_, grants)) = self.held.get_mut(&port) {
            grants.insert(grant);
        } else {
            let reservation = match reserve_quickly(port.0, port.1) {
                Err(error) if port.0 == Transport::Echo && error.is(libc::EACCES) => return Ok(()),
                reservation => reservation?,
            };
            self.held
                .insert(port, (reservation, BTreeSet::from([grant])));
        }
        self.ports.insert(grant, port);
        Ok(())
    }

    /// The grant is gone: the host may have the port again when it was the last.
    pub fn release(&mut self, grant: GrantId) {
        let Some(port) = self.ports.remove(&grant) else {
            return;
        };
        let (_, grants) = self.held.get_mut(&port).expect("a grant's port is held");
        grants.remove(&grant);
        if grants.is_empty() {
            self.held.remove(&port);
        }
    }
}

fn port_of(claim: &Claim) -> Option<Port> {
    let transport = match claim.protocol {
        Protocol::Tcp => Transport::Tcp,
        Protocol::Udp => Transport::Udp,
        Protocol::Icmp | Protocol::Icmpv6 => Transport::Echo,
        Protocol::Any => return None,
    };
    let address = SocketAddr::new(claim.local, claim.port);
    (claim.port != 0).then_some((transport, address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_xok::Endpoint;
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with};
    use std::net::{IpAddr, Ipv6Addr, TcpListener, UdpSocket};

    #[test]
    fn a_port_is_held_until_its_last_grant_is_gone() {
        let free = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = free.local_addr().expect("bound");
        let claim = |remote| Claim {
            interface: 1,
            protocol: Protocol::Tcp,
            local: address.ip(),
            port: address.port(),
            remote: Some(Endpoint {
                ip: address.ip(),
                port: remote,
            }),
        };
        let mut reservations = Reservations::default();
        let taken = reservations.hold(1, &claim(1)).expect_err("it is taken");
        assert!(taken.what.contains("is taken by"), "{taken}");
        drop(free);
        reservations.hold(1, &claim(1)).expect("free now");
        reservations.hold(2, &claim(2)).expect("of the same owner");
        reservations.release(1);
        TcpListener::bind(address).expect_err("the second grant has it");
        reservations.release(2);
        TcpListener::bind(address).expect("nobody has it");
        reservations.release(2);
    }

    /// Of both families, which the kernel does not tell apart.
    #[test]
    fn an_identifier_of_echo_is_held_from_the_host() {
        let echo = |protocol, local: IpAddr| Claim {
            interface: 1,
            protocol,
            local,
            port: 40_001,
            remote: None,
        };
        let four = echo(Protocol::Icmp, Ipv4Addr::LOCALHOST.into());
        let six = echo(Protocol::Icmpv6, Ipv6Addr::LOCALHOST.into());
        let of_host = || {
            let address = SocketAddr::new(four.local, four.port);
            let flags = SocketFlags::CLOEXEC;
            let protocol = Some(ipproto::ICMP);
            let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, protocol);
            socket.and_then(|socket| bind(&socket, &address).map(|()| socket))
        };
        // The host's programs may not, and neither may we.
        let Ok(host) = of_host() else {
            check_echoes().expect_err("it is said");
            let skipped =
                b"SKIPPED: holding identifiers of echo requests needs net.ipv4.ping_group_range\n";
            let _ = std::io::Write::write_all(&mut std::io::stderr(), skipped);
            return;
        };
        check_echoes().expect("they can be held");
        let mut reservations = Reservations::default();
        let taken = reservations.hold(1, &four).expect_err("the host has it");
        assert!(taken.what.contains("ICMP echo identifier 40001"), "{taken}");
        drop(host);
        reservations.hold(1, &four).expect("free now");
        if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            reservations.hold(2, &six).expect("of another family");
            reservations.release(2);
        }
        assert_eq!(of_host().err(), Some(Errno::ADDRINUSE));
        reservations.release(1);
        of_host().expect("nobody has it");
    }

    #[test]
    fn what_has_no_port_holds_none() {
        let claim = Claim {
            interface: 1,
            protocol: Protocol::Tcp,
            local: [127, 0, 0, 1].into(),
            port: 0,
            remote: None,
        };
        assert_eq!(port_of(&claim), None);
    }
}
