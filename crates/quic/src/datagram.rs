//! Datagrams that come, and those that are to leave.

use std::net::{IpAddr, SocketAddr};

use quinn_proto::{ConnectionHandle, Transmit};

/// A datagram that has come.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Who sent it.
    pub remote: SocketAddr,
    /// To which of our addresses, where that is known.
    pub local: Option<IpAddr>,
    /// The two bits of ECN (RFC 3168).
    pub ecn: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// A datagram that is to leave, or several of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Whose it is; of none that answers what is of no connection.
    pub link: Option<ConnectionHandle>,
    /// Where it goes.
    pub remote: SocketAddr,
    /// From which of our addresses, where that is known.
    pub local: Option<IpAddr>,
    /// The two bits of ECN.
    pub ecn: u8,
    /// Bytes, of all of them.
    pub len: usize,
    /// Of several, the length of each but the last.
    pub segment: usize,
}

impl Leaving {
    pub(crate) fn new(link: Option<ConnectionHandle>, transmit: &Transmit) -> Self {
        Self {
            link,
            remote: transmit.destination,
            local: transmit.src_ip,
            ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
            len: transmit.size,
            segment: transmit.segment_size.unwrap_or(transmit.size).max(1),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.len.div_ceil(self.segment) as u64
    }
}
