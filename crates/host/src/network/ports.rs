//! Whether the host's own stack uses a port, and keeping it from doing so.
//!
//! When a program answers for an address that the host has too, the host must not answer on the same port, nor choose
//! it for connections of its own. A [`Reservation`] is a socket of the host bound to address and port that never
//! listens and that nobody reads: while it lives nobody else can have the port.
//!
//! [`reserve`] names the process that has the port, for which it looks through all processes; [`reserve_quickly`] does
//! not, for those who are asked by others and must answer soon.

use crate::error::{Context as _, Error, Result};
use procfs::FromReadSI as _;
use procfs::net::{TcpNetEntries, TcpNetEntry, TcpState};
use procfs::process::{FDTarget, Process, all_processes};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// A transport protocol with ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
    /// Echo requests of ICMP and ICMPv6, whose identifier is what a port is to others.
    Echo,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Echo => "ICMP echo",
        }
    }
}

/// Holds a port of the host while it lives.
#[derive(Debug)]
pub struct Reservation {
    _socket: OwnedFd,
    address: SocketAddr,
}

impl Reservation {
    /// What is held.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Takes a TCP port of one of the host's addresses (in the network namespace of the calling thread). When
/// another program has it, the error names that program.
pub fn reserve(address: SocketAddr) -> Result<Reservation> {
    let transport = Transport::Tcp;
    take(transport, address)?.ok_or_else(|| taken(transport, address, holder(address)))
}

/// Takes a port without a look at who has it when it is taken. A port below 1024 needs `CAP_NET_BIND_SERVICE`, and an
/// identifier of echo requests a group that may send them (`net.ipv4.ping_group_range`).
pub fn reserve_quickly(transport: Transport, address: SocketAddr) -> Result<Reservation> {
    take(transport, address)?.ok_or_else(|| taken(transport, address, None))
}

/// `None` when somebody has it.
fn take(transport: Transport, address: SocketAddr) -> Result<Option<Reservation>> {
    let what = || {
        let (port, ip) = (address.port(), address.ip());
        format!("cannot reserve {} port {port} of {ip}", transport.name())
    };
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let (kind, protocol) = match (transport, address.is_ipv4()) {
        (Transport::Tcp, _) => (SocketType::STREAM, None),
        (Transport::Udp, _) => (SocketType::DGRAM, None),
        (Transport::Echo, true) => (SocketType::DGRAM, Some(ipproto::ICMP)),
        (Transport::Echo, false) => (SocketType::DGRAM, Some(ipproto::ICMPV6)),
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol).context(what)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true).context(what)?;
    }
    // Old connections in TIME_WAIT shall not count as somebody using the port. (For UDP the option would mean sharing.) The
    // kernel does not tell identifiers of several addresses apart: ours share one, which takes that all of them say so.
    sockopt::set_socket_reuseaddr(&socket, transport != Transport::Udp).context(what)?;
    match bind(&socket, &address) {
        Ok(()) => {}
        Err(rustix::io::Errno::ADDRINUSE) => return Ok(None),
        Err(rustix::io::Errno::ADDRNOTAVAIL) => {
            return Err(
                Error::new(format!("{} is not an address of this host", address.ip()))
                    .mend("see its addresses with `ip address`"),
            );
        }
        Err(e) => return Err(Error::io(what(), e)),
    }
    if transport != Transport::Echo {
        // From here on nobody else may share it.
        sockopt::set_socket_reuseaddr(&socket, false).context(what)?;
    }
    Ok(Some(Reservation {
        _socket: socket,
        address,
    }))
}

fn taken(transport: Transport, address: SocketAddr, holder: Option<(u32, String)>) -> Error {
    let (ip, port, name) = (address.ip(), address.port(), transport.name());
    match holder {
        Some((pid, program)) => Error::new(format!(
            "{name} port {port} of {ip} is taken by {program} (process {pid})"
        ))
        .mend("stop it, or choose another port"),
        None => {
            let kind = name.chars().next().unwrap_or('t').to_ascii_lowercase();
            let what = match transport {
                Transport::Echo => "identifier",
                Transport::Tcp | Transport::Udp => "port",
            };
            let mend = match transport {
                Transport::Echo => "choose another identifier".to_owned(),
                Transport::Tcp | Transport::Udp => format!(
                    "find it with `ss -anp{kind} sport = {port}` and stop it, or choose another port"
                ),
            };
            Error::new(format!(
                "{name} {what} {port} of {ip} is taken by another program of this host"
            ))
            .mend(mend)
        }
    }
}

/// The process that listens on a port of an address, if we may see it.
fn holder(address: SocketAddr) -> Option<(u32, String)> {
    let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
    let entries = tables
        .into_iter()
        .filter_map(|table| TcpNetEntries::from_file(table, procfs::current_system_info()).ok())
        .flat_map(|table| table.0);
    let listens = |entry: &TcpNetEntry| {
        entry.state == TcpState::Listen && reaches(entry.local_address, address)
    };
    let wanted = FDTarget::Socket(entries.into_iter().find(listens)?.inode);
    let holds = |process: &Process| {
        let mut files = process.fd().into_iter().flatten().flatten();
        files.any(|file| file.target == wanted)
    };
    let process = all_processes().ok()?.flatten().find(holds)?;
    let pid = u32::try_from(process.pid).ok()?;
    Some((pid, process.stat().ok()?.comm))
}

/// Whether who listens at `at` also has what is sent to `address`.
fn reaches(at: SocketAddr, address: SocketAddr) -> bool {
    let any = |address: SocketAddr| address.ip().is_unspecified();
    let same_ip = at.ip() == address.ip() || any(at) || any(address);
    // A socket of IPv6 that listens at :: has IPv4 too, unless it says otherwise.
    let same_family = at.is_ipv4() == address.is_ipv4() || at.ip() == IpAddr::from([0u8; 16]);
    at.port() == address.port() && same_ip && same_family
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    #[test]
    fn a_port_somebody_listens_on_is_taken_by_name() {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
        let error = reserve(listener.local_addr().expect("bound")).expect_err("taken");
        let me = std::process::id().to_string();
        assert!(error.what.contains(&me), "{error}");
    }

    #[test]
    fn while_reserved_nobody_else_can_listen() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
        let address = free.local_addr().expect("bound");
        drop(free);
        let reservation = reserve(address).expect("free now");
        assert_eq!(reservation.address(), address);
        TcpListener::bind(address).expect_err("std listens with SO_REUSEADDR, as servers do");
        drop(reservation);
        TcpListener::bind(address).expect("free again");
    }

    #[test]
    fn datagrams_are_reserved_too() {
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
        let address = free.local_addr().expect("bound");
        let error = reserve_quickly(Transport::Udp, address).expect_err("taken");
        assert!(error.what.contains("taken by another program"), "{error}");
        drop(free);
        let _reservation = reserve_quickly(Transport::Udp, address).expect("free now");
        UdpSocket::bind(address).expect_err("it is reserved");
    }

    #[test]
    fn an_address_of_somebody_else() {
        let error = reserve("192.0.2.1:80".parse().expect("an address"))
            .expect_err("documentation address");
        assert!(
            error.what.contains("not an address of this host"),
            "{error}"
        );
    }

    #[test]
    fn who_has_an_address_too() {
        for (at, address, has) in [
            ("127.0.0.1:8080", "127.0.0.1:8080", true),
            ("127.0.0.1:8080", "127.0.0.2:8080", false),
            ("127.0.0.1:8080", "127.0.0.1:8081", false),
            ("127.0.0.1:8080", "0.0.0.0:8080", true),
            ("0.0.0.0:8080", "10.0.0.1:8080", true),
            ("0.0.0.0:8080", "[::1]:8080", false),
            ("[::]:8080", "10.0.0.1:8080", true),
        ] {
            let parse = |text: &str| text.parse().expect("an address");
            assert_eq!(reaches(parse(at), parse(address)), has, "{at} {address}");
        }
    }
}
