//! Ethernet addresses.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An Ethernet (EUI-48) address, in transmission order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones: every station.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zeros: no station; "not known yet" in ARP requests.
    pub const ZERO: Self = Self([0; 6]);

    /// True for group addresses, broadcast included (IEEE 802: the first bit on the wire).
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// True for an address that one station can have: neither a group nor all zeros.
    #[inline]
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && u64::from_be_bytes(self.widened()) != 0
    }

    /// True for the broadcast address.
    #[inline]
    #[must_use]
    pub const fn is_broadcast(self) -> bool {
        u64::from_be_bytes(self.widened()) == 0xffff_ffff_ffff
    }

    /// Where an IPv4 multicast group is sent: its low 23 bits (RFC 1112 §6.4).
    #[must_use]
    pub const fn multicast_v4(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// Where an IPv6 multicast group is sent: its low 32 bits (RFC 2464 §7).
    #[must_use]
    pub const fn multicast_v6(group: &Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    const fn widened(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.0;
        [0, 0, a, b, c, d, e, f]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not six two-digit hexadecimal numbers separated by colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacParseError;

impl fmt::Display for MacParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an Ethernet address is written like 02:00:5e:10:00:01")
    }
}

impl std::error::Error for MacParseError {}

impl FromStr for Mac {
    type Err = MacParseError;

    /// Reads six hexadecimal numbers of two digits, separated by `:` or `-`.
    fn from_str(text: &str) -> Result<Self, MacParseError> {
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().ok_or(MacParseError)?;
            // `from_str_radix` alone would take "+1".
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(MacParseError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| MacParseError)?;
        }
        if parts.next().is_some() {
            Err(MacParseError)
        } else {
            Ok(Self(bytes))
        }
    }
}
