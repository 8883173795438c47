//! What a program may say of the IP headers of its segments (RFC 9293 §3.9.1.9 and §3.9.2).

use crate::limits::HOP_LIMIT;

/// The fields of the IP header that are a connection's own. They are handed to IP as they are
/// (SHLD-22), also on retransmissions and bare acknowledgements.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct IpFields {
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Differentiated services code point (RFC 2474): the upper six bits of the type-of-service byte or
    /// traffic class. The lower two are ECN's.
    pub dscp: u8,
}

impl Default for IpFields {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl IpFields {
    /// What a connection begins with, and answers of none have.
    pub const DEFAULT: Self = Self {
        hop_limit: HOP_LIMIT,
        dscp: 0,
    };

    /// The type-of-service byte, or traffic class, with ECN's two bits.
    #[inline]
    pub(crate) const fn traffic_class(self, ecn_bits: u8) -> u8 {
        self.dscp << 2 | ecn_bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_bits_and_two() {
        let expedited = IpFields {
            dscp: 46,
            ..IpFields::default()
        };
        assert_eq!(expedited.traffic_class(2), 0xba);
    }
}
