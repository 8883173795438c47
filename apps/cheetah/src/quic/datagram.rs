//! Datagrams that are to leave.

use std::net::{IpAddr, SocketAddr};

use quinn_proto::Transmit;

/// A datagram that is to leave, or several of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it goes.
    pub remote: SocketAddr,
    /// From which of our addresses, where that is known.
    pub local: Option<IpAddr>,
    /// The two bits of ECN (RFC 3168).
    pub ecn: u8,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// Of several, the length of each but the last.
    pub segment: usize,
}

impl Datagram {
    /// What QUIC has written at the beginning of `buffer`.
    pub(super) fn new(transmit: &Transmit, buffer: &[u8]) -> Datagram {
        Datagram {
            remote: transmit.destination,
            local: transmit.src_ip,
            ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
            payload: buffer[..transmit.size].to_vec(),
            segment: transmit.segment_size.unwrap_or(transmit.size).max(1),
        }
    }
}
