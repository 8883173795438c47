//! What names a connection: two addresses and two ports.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::siphash::SipKey;

/// An IPv4 or IPv6 address in 16 bytes; IPv4 is held in its mapped form (RFC 4291 §2.5.5.2).
#[derive(Copy, Clone, Eq, PartialEq, Hash)]
struct Address([u8; 16]);

impl Address {
    fn new(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Self(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => Self(v6.octets()),
        }
    }

    fn ip(self) -> IpAddr {
        let v6 = Ipv6Addr::from(self.0);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    fn words(self) -> [u64; 2] {
        let n = u128::from_be_bytes(self.0);
        [(n >> 64) as u64, n as u64]
    }
}

/// The four-tuple of a connection, seen from our side. 36 bytes.
#[derive(Copy, Clone, Eq, PartialEq, Hash)]
pub struct Flow {
    local: Address,
    remote: Address,
    local_port: u16,
    remote_port: u16,
}

impl Flow {
    /// The flow between `local`, which is ours, and `remote`.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local: Address::new(local.ip()),
            remote: Address::new(remote.ip()),
            local_port: local.port(),
            remote_port: remote.port(),
        }
    }

    /// Both addresses, ours first, then the ports, ours first, little-endian.
    pub(in crate::tcp) fn to_bytes(self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..16].copy_from_slice(&self.local.0);
        bytes[16..32].copy_from_slice(&self.remote.0);
        bytes[32..34].copy_from_slice(&self.local_port.to_le_bytes());
        bytes[34..].copy_from_slice(&self.remote_port.to_le_bytes());
        bytes
    }

    /// From what `to_bytes` gave.
    pub(in crate::tcp) fn from_bytes(bytes: [u8; 36]) -> Self {
        let (addresses, ports) = bytes.split_at(32);
        let (local, remote) = addresses.split_at(16);
        let address = |half: &[u8]| Address(half.try_into().expect("half of 32 bytes"));
        Self {
            local: address(local),
            remote: address(remote),
            local_port: u16::from_le_bytes([ports[0], ports[1]]),
            remote_port: u16::from_le_bytes([ports[2], ports[3]]),
        }
    }

    /// Our address and port.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local.ip(), self.local_port)
    }

    /// The peer's address and port.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.remote.ip(), self.remote_port)
    }

    /// The peer's address.
    #[inline]
    pub(crate) fn remote_ip(&self) -> IpAddr {
        match self.v4() {
            Some((_, remote)) => IpAddr::V4(remote.into()),
            None => IpAddr::V6(self.remote.0.into()),
        }
    }

    /// Our port.
    pub const fn local_port(&self) -> u16 {
        self.local_port
    }

    /// The peer's port.
    pub const fn remote_port(&self) -> u16 {
        self.remote_port
    }

    /// True when the packets are IPv6.
    #[inline]
    pub fn is_ipv6(&self) -> bool {
        self.v4().is_none()
    }

    /// Both addresses as one word each, ours first; `None` where they are IPv6.
    #[inline]
    pub(crate) fn v4(&self) -> Option<(u32, u32)> {
        let ([a, b], [_, d]) = (self.local.words(), self.remote.words());
        // Both are of one family.
        (a == 0 && b >> 32 == 0xffff).then_some((b as u32, d as u32))
    }

    /// The keyed hash by which the tables of connections find this flow. Its inputs differ from those of the
    /// hashes below in their length, so nothing that is told to peers (sequence numbers, cookies) says
    /// anything of it.
    #[inline]
    pub(crate) fn table_hash(&self, key: &SipKey) -> u32 {
        let ports = u32::from(self.remote_port) << 16 | u32::from(self.local_port);
        table_hash(key, self.remote, self.local, ports)
    }

    /// A keyed hash, with `salt` to tell several uses apart.
    #[inline]
    pub fn hash(&self, key: &SipKey, salt: u32) -> u64 {
        let ([a, b], [c, d]) = (self.local.words(), self.remote.words());
        let ports =
            u64::from(self.local_port) << 48 | u64::from(self.remote_port) << 32 | u64::from(salt);
        if a | c == 0 && (b & d) >> 32 == 0xffff {
            // Both IPv4: two words say it all, and their number tells them from IPv6's.
            return key.hash(&[b << 32 | d & 0xffff_ffff, ports]);
        }
        key.hash(&[a, b, c, d, ports])
    }

    /// A keyed hash of the four-tuple and two words more.
    pub(in crate::tcp) fn hash_with(&self, key: &SipKey, salt: u32, more: [u64; 2]) -> u64 {
        let ([a, b], [c, d]) = (self.local.words(), self.remote.words());
        let ports =
            u64::from(self.local_port) << 48 | u64::from(self.remote_port) << 32 | u64::from(salt);
        key.hash(&[a, b, c, d, ports, more[0], more[1]])
    }
}

/// The four-tuple of a received segment as it stands in its headers, to be compared with a flow.
#[derive(Copy, Clone)]
pub(crate) struct FlowKey {
    remote: Address,
    local: Address,
    /// Remote, then local, as in the header.
    ports: u32,
}

/// SipHash-1-3 of 12 bytes for IPv4, of 36 for IPv6. A pseudorandom function: anyone who lacks the key can neither
/// find flows that collide nor tell from delays which do, however many flows they try (a multiplicative hash,
/// a few instructions cheaper, has no such argument behind it, and its collisions can be solved for).
#[inline]
fn table_hash(key: &SipKey, remote: Address, local: Address, ports: u32) -> u32 {
    let ([a, b], [c, d]) = (remote.words(), local.words());
    let hash = if a | c == 0 && (b & d) >> 32 == 0xffff {
        key.hash_and_half([b << 32 | d & 0xffff_ffff], ports)
    } else {
        key.hash_and_half([a, b, c, d], ports)
    };
    hash as u32
}

impl FlowKey {
    /// The flow's [`Flow::table_hash`].
    #[inline]
    pub fn table_hash(&self, key: &SipKey) -> u32 {
        table_hash(key, self.remote, self.local, self.ports)
    }

    /// Source and destination, and the first word of the TCP header.
    #[inline]
    pub fn v4(source: u32, destination: u32, ports: u32) -> Self {
        let mapped = |ip: u32| Address((0xffff_0000_0000 | u128::from(ip)).to_be_bytes());
        Self {
            remote: mapped(source),
            local: mapped(destination),
            ports,
        }
    }

    /// Both addresses, source first, and the first word of the TCP header.
    #[inline]
    pub fn v6(addresses: &[u8; 32], ports: u32) -> Self {
        let (source, destination) = addresses.split_at(16);
        Self {
            remote: Address(source.try_into().expect("half of 32 bytes")),
            local: Address(destination.try_into().expect("half of 32 bytes")),
            ports,
        }
    }
}

impl Flow {
    /// True when a segment with that key is of this flow.
    #[inline]
    pub(crate) fn is(&self, key: &FlowKey) -> bool {
        let ports = u32::from(self.remote_port) << 16 | u32::from(self.local_port);
        ports == key.ports && self.remote == key.remote && self.local == key.local
    }
}

impl core::fmt::Debug for Flow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} <-> {}", self.local(), self.remote())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_round_trip_and_differ() {
        let v4 = Flow::new(
            "10.0.0.1:80".parse().unwrap(),
            "10.0.0.2:4000".parse().unwrap(),
        );
        let v6 = Flow::new(
            "[fd10::1]:80".parse().unwrap(),
            "[fd10::2]:4000".parse().unwrap(),
        );
        assert_eq!(v4.local().to_string(), "10.0.0.1:80");
        assert_eq!(v6.remote().to_string(), "[fd10::2]:4000");
        assert!(v6.is_ipv6() && !v4.is_ipv6());
        let key = SipKey::from_seed(1);
        assert_ne!(v4.hash(&key, 0), v6.hash(&key, 0));
        assert_ne!(v4.hash(&key, 0), v4.hash(&key, 1));
        assert_eq!(size_of::<Flow>(), 36);
        let ports = 4000 << 16 | 80;
        let key_v4 = FlowKey::v4(0x0a00_0002, 0x0a00_0001, ports);
        assert_eq!(key_v4.table_hash(&key), v4.table_hash(&key));
        let addresses = [v6.remote.0, v6.local.0].concat().try_into().unwrap();
        let key_v6 = FlowKey::v6(&addresses, ports);
        assert_eq!(key_v6.table_hash(&key), v6.table_hash(&key));
        assert!(v4.is(&key_v4) && v6.is(&key_v6) && !v4.is(&key_v6));
    }
}
