//! Whether the host's own stack uses a port, and keeping it from doing so.
//!
//! When a program answers for an address that the host has too, the host must not answer on the same port, nor choose
//! it for connections of its own. A [`Reservation`] is a socket of the host bound to address and port that never
//! listens and that nobody reads: while it lives nobody else can have the port.
//!
//! [`reserve`] names the process that has the port, for which it looks through all processes; [`reserve_quickly`] does
//! not, for those who are asked by others and must answer soon.

use crate::error::{Context as _, Error, Result};
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
    let inode = tables.iter().find_map(|table| {
        let text = std::fs::read_to_string(table).ok()?;
        text.lines()
            .skip(1)
            .find_map(|line| listener(line, address))
    })?;
    let wanted = format!("socket:[{inode}]");
    std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .find_map(|process| {
            let pid: u32 = process.file_name().to_str()?.parse().ok()?;
            let mut files = std::fs::read_dir(process.path().join("fd")).ok()?.flatten();
            files.find(|fd| {
                std::fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str())
            })?;
            let name = std::fs::read_to_string(process.path().join("comm")).ok()?;
            Some((pid, name.trim_end().to_owned()))
        })
}

/// The inode of the socket of a line of /proc/net/tcp, if it listens where `address` would.
///
/// `  sl  local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...`; addresses
/// are words in memory order, printed as hexadecimal numbers; state 0A is LISTEN.
fn listener(line: &str, address: SocketAddr) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (ip, port) = fields.get(1)?.split_once(':')?;
    let same_port = u16::from_str_radix(port, 16) == Ok(address.port());
    if !same_port || *fields.get(3)? != "0A" {
        return None;
    }
    let ip = parse_ip(ip)?;
    let same_ip = ip == address.ip() || ip.is_unspecified() || address.ip().is_unspecified();
    let reaches = same_ip && (ip.is_ipv4() == address.is_ipv4() || ip == IpAddr::from([0u8; 16]));
    if reaches {
        fields.get(9)?.parse().ok()
    } else {
        None
    }
}

fn parse_ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        u32::from_str_radix(hex.get(at..at + 8)?, 16)
            .ok()
            .map(u32::to_ne_bytes)
    };
    match hex.len() {
        8 => Some(word(0)?.into()),
        32 => {
            let mut bytes = [0; 16];
            for (i, four) in bytes.chunks_mut(4).enumerate() {
                four.copy_from_slice(&word(8 * i)?);
            }
            Some(bytes.into())
        }
        _ => None,
    }
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
    fn lines_of_the_kernel_table() {
        let address = |text: &str| text.parse().expect("an address");
        let v4 = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1";
        assert_eq!(listener(v4, address("127.0.0.1:8080")), Some(4242));
        assert_eq!(listener(v4, address("127.0.0.2:8080")), None);
        assert_eq!(listener(v4, address("127.0.0.1:8081")), None);
        assert_eq!(
            listener(&v4.replace(" 0A ", " 01 "), address("127.0.0.1:8080")),
            None
        );
        let any = v4.replace("0100007F", "00000000000000000000000000000000");
        assert_eq!(listener(&any, address("10.0.0.1:8080")), Some(4242));
        assert_eq!(listener("garbage", address("10.0.0.1:8080")), None);
    }
}
