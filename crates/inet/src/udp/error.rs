//! What a UDP operation may be refused for.

use std::fmt;
use std::net::SocketAddr;

/// Why a UDP operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// Another socket has this address and port.
    PortTaken(u16),
    /// Every dynamic port is taken.
    NoPortLeft,
    /// Table full; the number is its size.
    TooManySockets(usize),
    /// The handle's socket was closed.
    Closed,
    /// More bytes than a datagram of this family holds.
    TooLong {
        /// The bytes given.
        len: usize,
        /// The most there can be.
        max: usize,
    },
    /// The destination cannot be sent to: port zero, no address, or of another family than the
    /// socket's address.
    BadDestination(SocketAddr),
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UdpError::PortTaken(port) => {
                write!(
                    f,
                    "UDP port {port} is bound by another socket: choose another, or 0 for any"
                )
            }
            UdpError::NoPortLeft => write!(f, "every dynamic UDP port is bound: close sockets"),
            UdpError::TooManySockets(max) => write!(f, "more than {max} UDP sockets"),
            UdpError::Closed => write!(f, "the UDP socket was closed"),
            UdpError::TooLong { len, max } => {
                write!(f, "{len} bytes do not fit a UDP datagram: {max} do")
            }
            UdpError::BadDestination(to) => write!(f, "cannot send a UDP datagram to {to}"),
        }
    }
}

impl std::error::Error for UdpError {}
