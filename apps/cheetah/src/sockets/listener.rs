//! The listening socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Result;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

/// Connections that wait to be accepted: as many as the kernel's own bound allows by default
/// (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Listens at an address; at `::`, for IPv4 too.
pub(super) fn listen(address: SocketAddr) -> Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // Connections of a server that was here before may still be in TIME-WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.ip().is_unspecified() && address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    // Urgent data is data like any other, as in the other way. Connections inherit it.
    sockopt::set_socket_oobinline(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Where it listens.
pub(super) fn address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    let address = net::getsockname(socket)?;
    Ok(SocketAddr::try_from(address)?)
}

/// The next connection, with its client's address; `None` when none waits.
pub(super) fn accept(socket: &OwnedFd) -> Result<Option<(OwnedFd, IpAddr)>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match net::acceptfrom_with(socket, flags) {
        Ok((client, peer)) => {
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            let peer = peer.map_or(IpAddr::from([0; 4]), |peer| peer.ip().to_canonical());
            // Responses are written whole: nothing is gained by waiting for more.
            sockopt::set_tcp_nodelay(&client, true)?;
            Ok(Some((client, peer)))
        }
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(e) => Err(e),
    }
}
