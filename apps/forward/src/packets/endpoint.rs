//! Addresses as the tables keep them: 128 bits, IPv4 as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2).
//!
//! On a wire mapped addresses mean nothing, so that no packet of one family is taken for one of the other:
//! [`packet`](crate::packets::packet) reads none that has one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use exos_wire::Sum;

/// An IP address: two words of 64 bits, which keep a table's entries dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address([u64; 2]);

/// The upper half of the second word of a mapped address.
const MAPPED: u64 = 0xffff;

impl Address {
    /// False for IPv4.
    #[inline]
    pub const fn is_ipv6(self) -> bool {
        self.0[0] != 0 || self.0[1] >> 32 != MAPPED
    }

    /// The address, of IPv4.
    #[inline]
    pub fn v4(self) -> Option<Ipv4Addr> {
        (!self.is_ipv6()).then(|| Ipv4Addr::from_bits(self.0[1] as u32))
    }

    /// The address, of IPv6.
    #[inline]
    pub fn v6(self) -> Option<Ipv6Addr> {
        let [high, low] = self.0;
        let bits = u128::from(high) << 64 | u128::from(low);
        self.is_ipv6().then(|| Ipv6Addr::from_bits(bits))
    }

    /// As words for a hash.
    #[inline]
    pub const fn words(self) -> [u64; 2] {
        self.0
    }

    /// Of such words.
    pub const fn from_words(words: [u64; 2]) -> Self {
        Self(words)
    }

    /// The sum of its bytes as they are in a packet.
    #[inline]
    pub const fn sum(self) -> Sum {
        let [high, low] = self.0;
        // What makes a mapped address one is in no packet.
        let mapped = if self.is_ipv6() { 0 } else { MAPPED };
        let halves = (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff);
        Sum::from_wide(halves - mapped)
    }

    /// Writes it where an address of its family lies.
    ///
    /// # Panics
    ///
    /// If `out` has not the length of such an address.
    #[inline]
    pub fn put(self, out: &mut [u8]) {
        if self.is_ipv6() {
            let (high, low) = out.split_at_mut(8);
            high.copy_from_slice(&self.0[0].to_be_bytes());
            low.copy_from_slice(&self.0[1].to_be_bytes());
        } else {
            out.copy_from_slice(&(self.0[1] as u32).to_be_bytes());
        }
    }
}

impl From<Ipv4Addr> for Address {
    #[inline]
    fn from(address: Ipv4Addr) -> Self {
        Self([0, MAPPED << 32 | u64::from(address.to_bits())])
    }
}

impl From<Ipv6Addr> for Address {
    #[inline]
    fn from(address: Ipv6Addr) -> Self {
        let bits = address.to_bits();
        Self([(bits >> 64) as u64, bits as u64])
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => address.into(),
        }
    }
}

impl From<Address> for IpAddr {
    #[inline]
    fn from(address: Address) -> Self {
        let [high, low] = address.0;
        if address.is_ipv6() {
            Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into()
        } else {
            Ipv4Addr::from_bits(low as u32).into()
        }
    }
}

/// An address with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The address.
    pub address: Address,
    /// The port.
    pub port: u16,
}

impl From<SocketAddr> for Endpoint {
    fn from(at: SocketAddr) -> Self {
        Self {
            address: at.ip().into(),
            port: at.port(),
        }
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(at: Endpoint) -> Self {
        Self::new(at.address.into(), at.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_bytes_in_a_packet() {
        for text in ["10.1.2.3", "255.255.255.255", "2001:db8::ffff:7", "fd10::1"] {
            let ip: IpAddr = text.parse().unwrap();
            let address = Address::from(ip);
            let bytes = match ip {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            assert_eq!(address.sum(), Sum::of(&bytes), "{text}");
            let mut out = vec![0; bytes.len()];
            address.put(&mut out);
            assert_eq!(out, bytes);
            assert_eq!(IpAddr::from(address), ip);
        }
    }
}
