//! What clients are counted by: an address alone, or with IPv6 the network that one subscriber usually has.

use std::net::IpAddr;

/// An IPv4 address, or an IPv6 network of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl Peer {
    pub(crate) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, h, ..] = ip.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }

    /// The length of its bytes.
    pub(crate) const LEN: usize = 9;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        match self {
            Self::V4(of) => bytes[1..5].copy_from_slice(&of),
            Self::V6(of) => {
                bytes[0] = 1;
                bytes[1..].copy_from_slice(&of);
            }
        }
        bytes
    }

    pub(crate) fn of_bytes([kind, a, b, c, d, e, f, g, h]: [u8; Self::LEN]) -> Self {
        match kind {
            0 => Self::V4([a, b, c, d]),
            _ => Self::V6([a, b, c, d, e, f, g, h]),
        }
    }
}
