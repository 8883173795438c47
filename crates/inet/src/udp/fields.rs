//! What the IP headers of datagrams say besides addresses, of those that come and of those that go.

use crate::limits::HOP_LIMIT;

/// Fields of a datagram's IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderFields {
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// The type-of-service byte, or traffic class, with its two bits of ECN: RFC 8085 §3.1.7 leaves these to programs.
    pub traffic_class: u8,
}

impl Default for HeaderFields {
    fn default() -> Self {
        Self {
            hop_limit: HOP_LIMIT,
            traffic_class: 0,
        }
    }
}

impl HeaderFields {
    /// Those of a packet that was read, with `ecn` in place of the bits of its own, for these may be of a fragment.
    pub(crate) fn of(packet: &[u8], ecn: u8) -> Self {
        let byte = |at: usize| packet.get(at).copied().unwrap_or(0);
        let (hop_limit, class) = match byte(0) >> 4 {
            4 => (byte(8), byte(1)),
            _ => (byte(7), byte(0) << 4 | byte(1) >> 4),
        };
        Self {
            hop_limit,
            traffic_class: class & !3 | ecn,
        }
    }
}
