//! How errors of the stack and of this crate are said in those of `std::io`.

use std::io::{self, ErrorKind as Kind};
use std::net::{SocketAddr, ToSocketAddrs};

use exos_inet::icmp;
use exos_inet::tcp::{OpenError, Reason};
use exos_inet::udp::UdpError;

use crate::{Error, ErrorKind};

/// An error of this crate: its sentence stays.
pub(super) fn of(error: Error) -> io::Error {
    let kind = match error.kind {
        ErrorKind::NoPermission | ErrorKind::DaemonRefuses => Kind::PermissionDenied,
        ErrorKind::InUse | ErrorKind::AddressInUse => Kind::AddrInUse,
        ErrorKind::NoAddress | ErrorKind::AddressOfHost => Kind::AddrNotAvailable,
        ErrorKind::NoRoute => Kind::NetworkUnreachable,
        ErrorKind::Unsupported => Kind::Unsupported,
        ErrorKind::Invalid => Kind::InvalidInput,
        _ => Kind::Other,
    };
    io::Error::new(kind, error)
}

/// Why a connection or a listener could not be made.
pub(super) fn of_open(error: OpenError) -> io::Error {
    let kind = match error {
        OpenError::PortTaken | OpenError::FlowTaken => Kind::AddrInUse,
        OpenError::NoPort => Kind::AddrNotAvailable,
        OpenError::Full => Kind::OutOfMemory,
        OpenError::NoRoute => Kind::NetworkUnreachable,
        OpenError::NotAHost => Kind::InvalidInput,
    };
    io::Error::new(kind, error)
}

/// Why a datagram could not be sent, or a socket for them not be bound.
pub(super) fn of_udp(error: UdpError) -> io::Error {
    let kind = match error {
        UdpError::PortTaken(_) | UdpError::NoPortLeft => Kind::AddrInUse,
        UdpError::TooManySockets(_) => Kind::OutOfMemory,
        UdpError::Closed => Kind::NotConnected,
        UdpError::TooLong { .. } | UdpError::BadDestination(_) => Kind::InvalidInput,
    };
    io::Error::new(kind, error)
}

/// What the end of a connection is for a program that reads or writes; `None` for one that both sides have finished.
pub(super) fn of_end(reason: Reason) -> Option<Kind> {
    match reason {
        Reason::Done => None,
        Reason::Reset => Some(Kind::ConnectionReset),
        Reason::Refused => Some(Kind::ConnectionRefused),
        Reason::TimedOut => Some(Kind::TimedOut),
        Reason::Aborted => Some(Kind::ConnectionAborted),
        Reason::Unreachable => Some(Kind::HostUnreachable),
    }
}

/// What ICMP said of a datagram, as far as a program is to hear of it. The kernel tells those that will not pass alone.
pub(super) fn of_icmp(error: icmp::ErrorKind) -> Option<Kind> {
    match error {
        icmp::ErrorKind::Hard(icmp::Reason::PortUnreachable) => Some(Kind::ConnectionRefused),
        icmp::ErrorKind::Hard(_) => Some(Kind::HostUnreachable),
        icmp::ErrorKind::Soft(_) | icmp::ErrorKind::TooBig { .. } => None,
    }
}

/// Nothing is there yet, and the socket does not wait, or has waited for as long as it may.
pub(super) fn would_block() -> io::Error {
    Kind::WouldBlock.into()
}

/// What comes of the first of these addresses of which anything does; `what` says what they were for.
pub(super) fn first_of<T>(
    addresses: impl ToSocketAddrs,
    what: &str,
    attempt: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for at in addresses.to_socket_addrs()? {
        match attempt(at) {
            Ok(made) => return Ok(made),
            Err(error) => last = Some(error),
        }
    }
    let none = || io::Error::new(Kind::InvalidInput, format!("there is no address to {what}"));
    Err(last.unwrap_or_else(none))
}
