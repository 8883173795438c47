//! What is in the maps: the bytes that user space writes and the program reads.
//!
//! ```text
//! flows over IPv4: key    0  source, destination: 4 each   8  ports: 2 each   12  protocol, 0 0 0             (16 bytes)
//!                  value  0  HEAD   28  new source, destination: 4 each   36  0: 4                            (40)
//! flows over IPv6: key    0  source, destination: 16 each  32  ports: 2 each  36  protocol, 0 0 0             (40)
//!                  value  0  HEAD   28  new source, destination: 16 each  60  0: 4                            (64)
//! HEAD                    0  last seen: u64   8  place: u32  12  hop: u32  16  tally: u32
//!                        20  new ports: 2 each   24  change of the upper sum: 2   26  change of IPv4's: 2     (28)
//! hops                    0  link address: 6   6  1 where it is known, else 0   7  0                          (8)
//! tallies                 0  packets: u64   8  bytes: u64                                                     (16)
//! ```
//!
//! Addresses, ports and sums are as in a packet, all else in the machine's byte order. *Last seen* is in nanoseconds of
//! the monotonic clock, as of its last tick; the program writes it. *Place* is for user space alone. Bytes are counted from the IP header on. The sums' changes are
//! what the Internet checksum's sum grows by (RFC 1624): of TCP and UDP by addresses and ports, of IPv4 by addresses and
//! the hop that is taken away.

use exos_wire::{Mac, Sum};
use std::net::{IpAddr, SocketAddr};

pub(super) const SEEN: usize = 0;
const PLACE: usize = 8;
pub(super) const HOP: usize = 12;
pub(super) const TALLY: usize = 16;
pub(super) const PORTS: usize = 20;
pub(super) const UPPER_CHANGE: usize = 24;
pub(super) const IP_CHANGE: usize = 26;
pub(super) const ADDRESSES: usize = 28;

/// Where a hop says that it is known.
pub(super) const IS_KNOWN: usize = 6;
/// Where a tally has its bytes.
pub(super) const BYTES: usize = 8;

/// Bytes of a key and of a value of flows over IPv4.
pub const V4_LENS: (usize, usize) = (16, 40);
/// The same over IPv6.
pub const V6_LENS: (usize, usize) = (40, 64);
/// Bytes of a hop.
pub const HOP_LEN: usize = 8;
/// Bytes of a tally.
pub const TALLY_LEN: usize = 16;

const LEN_MAX: usize = V6_LENS.1;

/// A hop less, in the word of IPv4's header that has the hops in its high half: what its sum grows by.
const HOP_LESS: u16 = !0x0100;

/// Sender and receiver of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Who sends it.
    pub src: SocketAddr,
    /// To whom.
    pub dst: SocketAddr,
}

/// A flow one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// The transport protocol's number.
    pub protocol: u8,
    /// The ends that its packets come with.
    pub from: Ends,
    /// Those that they leave with, of the same family.
    pub to: Ends,
    /// Where user space has it.
    pub place: u32,
    /// Which entry of the hops they go to.
    pub hop: u32,
    /// Which tally counts them.
    pub tally: u32,
}

/// A key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl Bytes {
    const EMPTY: Self = Self {
        bytes: [0; LEN_MAX],
        len: 0,
    };

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn put_addresses(&mut self, ends: &Ends) {
        for end in [ends.src, ends.dst] {
            match end.ip() {
                IpAddr::V4(ip) => self.put(&ip.octets()),
                IpAddr::V6(ip) => self.put(&ip.octets()),
            }
        }
    }

    fn put_ports(&mut self, ends: &Ends) {
        self.put(&ends.src.port().to_be_bytes());
        self.put(&ends.dst.port().to_be_bytes());
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Ends {
    /// The key of packets with these ends, in the table of their family.
    pub fn key(&self, protocol: u8) -> Bytes {
        let mut key = Bytes::EMPTY;
        key.put_addresses(self);
        key.put_ports(self);
        key.put(&[protocol, 0, 0, 0]);
        key
    }

    fn address_sum(&self) -> Sum {
        let of = |ip| match ip {
            IpAddr::V4(ip) => Sum::of(&ip.octets()),
            IpAddr::V6(ip) => Sum::of(&ip.octets()),
        };
        of(self.src.ip()).plus(of(self.dst.ip()))
    }

    fn port_sum(&self) -> Sum {
        Sum::ZERO
            .plus_word(self.src.port())
            .plus_word(self.dst.port())
    }
}

impl OneWay {
    /// Its key, in the table of its family.
    pub fn key(&self) -> Bytes {
        self.from.key(self.protocol)
    }

    /// Its value, last seen at this time.
    pub fn value(&self, seen_ns: u64) -> Bytes {
        let addresses = self.to.address_sum().minus(self.from.address_sum());
        let upper = addresses
            .plus(self.to.port_sum())
            .minus(self.from.port_sum());
        let ip = addresses.plus_word(HOP_LESS);
        let mut value = Bytes::EMPTY;
        value.put(&seen_ns.to_ne_bytes());
        for number in [self.place, self.hop, self.tally] {
            value.put(&number.to_ne_bytes());
        }
        value.put_ports(&self.to);
        value.put(&upper.value().to_be_bytes());
        value.put(&ip.value().to_be_bytes());
        value.put_addresses(&self.to);
        value.put(&[0; 4]);
        value
    }
}

/// What a value says of its flow: when a packet of it was last seen, and its place.
///
/// # Panics
///
/// If it is no value.
pub fn seen(value: &[u8]) -> (u64, u32) {
    let seen = value[SEEN..SEEN + 8].try_into().expect("eight bytes");
    let place = value[PLACE..PLACE + 4].try_into().expect("four bytes");
    (u64::from_ne_bytes(seen), u32::from_ne_bytes(place))
}

/// A next hop, known or not.
pub fn hop(mac: Option<Mac>) -> [u8; HOP_LEN] {
    let [m0, m1, m2, m3, m4, m5] = mac.unwrap_or(Mac::ZERO).0;
    [m0, m1, m2, m3, m4, m5, mac.is_some().into(), 0]
}
