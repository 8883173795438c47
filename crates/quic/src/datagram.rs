//! Datagrams that come, and those that are to leave.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use quinn_proto::{ConnectionHandle, Transmit};

/// Datagrams that come to less are copied, so that a few of them do not keep a buffer for many: four packets.
const COPIED_LEN_MAX: usize = 6 * 1024;

/// A datagram that has come.
#[derive(Debug)]
pub struct Arrived {
    /// Who sent it.
    pub remote: SocketAddr,
    /// To which of our addresses, where that is known.
    pub local: Option<IpAddr>,
    /// The two bits of ECN (RFC 3168).
    pub ecn: u8,
    /// Its bytes, which are decrypted where they lie.
    pub payload: BytesMut,
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

    /// Takes them out of the buffer in which they were made: with it where they fill some of it, for it is as long as they may be at most.
    pub fn take_from(&self, buffer: &mut Vec<u8>) -> Vec<u8> {
        if self.len < COPIED_LEN_MAX {
            return buffer[..self.len].to_vec();
        }
        buffer.truncate(self.len);
        std::mem::take(buffer)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.len.div_ceil(self.segment) as u64
    }
}
