//! Keys and values of the gate's maps, as values and as bytes.
//!
//! Addresses are 16 bytes, IPv4 as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2). Ports are in network order, everything else
//! in the machine's, as the programs read it. Padding is explicit and zero: the kernel hashes whole keys.
//!
//! ```text
//! FlowKey 40      local 16 | remote 16 | local port 2 | remote port 2 | protocol 1 | zero 3
//! FlowValue 8     slot 4 | grant 4
//! OwnerKey 20     address 16 | protocol 1 | zero 3
//! FragmentKey 48  source 16 | destination 16 | identifier 4 | protocol 1 | direction 1 | station 6 | hops 1 | zero 3
//! FragmentValue 48  flow 40 | grant 4 | remote port 2 | zero 2
//! Bucket 32       rate 8 | burst 8 | tokens 8 | last 8
//! Share 88        guarantee Bucket 32 | ceiling Bucket 32 | part 8 | used 8 | since 8
//! Slot 192        kind 4 | ifindex 4 | mac 6 | port 2 | rx Share 88 | tx Share 88
//! Handling 48     steps 4 | replies 4 | protocol 4 | zero 4 | budget Bucket 32
//! Config 24       shapes 4 | ifindex 4 | mac 6 | zero 2 | taps 4 | generals 4
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::record::{Field, record};

/// An address as the maps hold it: IPv4 mapped into IPv6.
pub const fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The address that 16 bytes of a map stand for.
pub const fn address_from_bytes(bytes: [u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from_octets(bytes);
    match v6.to_ipv4_mapped() {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(v6),
    }
}

/// How much of a packet a grant names. Looked up in this order: the first that is there decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Shape {
    /// Protocol, both addresses, both ports: one connection.
    Exact = 1,
    /// Protocol, local address, local port: a listener.
    Port = 2,
    /// Protocol and local address.
    Protocol = 4,
    /// The local address.
    Address = 8,
}

impl Shape {
    /// In the order of lookup.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Port, Self::Protocol, Self::Address];
}

/// Whose packets: a grant, as the key of `flows`. What a shape does not name is zero.
///
/// Seen from this machine: local is the destination of what arrives and the source of what leaves. For ICMP echo the
/// identifier stands as the local port in requests that leave and in replies that arrive, because the program chose
/// it; in the opposite direction the peer did, and the port is 0. Other protocols than TCP and UDP have port 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// This machine's address.
    pub local: [u8; 16],
    /// The peer's address; zero unless the shape is [`Shape::Exact`].
    pub remote: [u8; 16],
    /// This machine's port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// The protocol that IP carries; 0 for [`Shape::Address`].
    pub protocol: u8,
}

record!(FlowKey, 40 { local, remote, local_port, remote_port, protocol + 3 });

impl FlowKey {
    /// One connection.
    pub const fn exact(protocol: u8, local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local: address_bytes(local.ip()),
            remote: address_bytes(remote.ip()),
            local_port: local.port(),
            remote_port: remote.port(),
            protocol,
        }
    }

    /// A local port.
    pub const fn port(protocol: u8, local: SocketAddr) -> Self {
        Self {
            local: address_bytes(local.ip()),
            remote: [0; 16],
            local_port: local.port(),
            remote_port: 0,
            protocol,
        }
    }

    /// All of a protocol at an address.
    pub const fn protocol(protocol: u8, local: IpAddr) -> Self {
        Self {
            local: address_bytes(local),
            remote: [0; 16],
            local_port: 0,
            remote_port: 0,
            protocol,
        }
    }

    /// All of an address.
    pub const fn address(local: IpAddr) -> Self {
        Self::protocol(0, local)
    }

    /// Which lookup finds this key, which must be set in [`Config::shapes`] for it.
    pub fn shape(&self) -> Shape {
        if self.remote != [0; 16] || self.remote_port != 0 {
            Shape::Exact
        } else if self.local_port != 0 {
            Shape::Port
        } else if self.protocol != 0 {
            Shape::Protocol
        } else {
            Shape::Address
        }
    }

    /// The key without what the shape does not name.
    pub fn masked(&self, shape: Shape) -> Self {
        let mut key = *self;
        if shape > Shape::Exact {
            key.remote = [0; 16];
            key.remote_port = 0;
        }
        if shape > Shape::Port {
            key.local_port = 0;
        }
        if shape > Shape::Protocol {
            key.protocol = 0;
        }
        key
    }
}

/// Who has a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowValue {
    /// The slot, below [`super::limits::SLOTS`], or a group of them ([`super::group`]).
    pub slot: u32,
    /// The daemon's number of the grant.
    pub grant: u32,
}

record!(FlowValue, 8 { slot, grant });

/// Where a slot alone has ports: an address that is ours alone, TCP or UDP. A later fragment that comes before its first one
/// is that slot's: it names no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerKey {
    /// The address, IPv4 mapped.
    pub address: [u8; 16],
    /// The protocol's number.
    pub protocol: u8,
}

record!(OwnerKey, 20 { address, protocol + 3 });

/// A packet whose fragments are under way: the key in `fragments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
    /// Identification, in the machine's order: 16 bits of IPv4 (RFC 791 §3.1), 32 of IPv6 (RFC 8200 §4.5).
    pub identifier: u32,
    /// The protocol.
    pub protocol: u8,
    /// Whether the decision is about who sends it, rather than about who gets it.
    pub sending: bool,
    /// The link address that it goes to: of a first fragment for another station the receiver sees nothing.
    pub station: [u8; 6],
    /// How many hops it may take, if the decision is about who sends it; else 0. A first fragment that may take fewer than later
    /// ones ends on the way.
    pub hops: u8,
}

record!(FragmentKey, 48 { source, destination, identifier, protocol, sending, station, hops + 3 });

/// The grant that a first fragment belonged to: the value in `fragments`.
///
/// Later ones are looked up in `flows` by it, and go where that entry leads while it is of the same grant: a grant that
/// was given back takes its fragments along, no matter who gets its slot, its port or its address next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentValue {
    /// The key of the grant.
    pub flow: FlowKey,
    /// Its number.
    pub grant: u32,
    /// The other end's port, by which a group finds its member.
    pub remote_port: u16,
}

record!(FragmentValue, 48 { flow, grant, remote_port + 2 });

/// What an address means: the value in `addresses`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressFlags(pub u32);

impl AddressFlags {
    /// Not the host's: ARP and NDP for it, and what no grant claims, go to the daemon.
    pub const OURS_ALONE: Self = Self(1);
    /// The host's own: what programs send to it goes to the host's stack, unless a grant claims it.
    pub const HOST: Self = Self(2);

    /// Whether all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// As the map holds it.
    pub const fn to_bytes(self) -> [u8; 4] {
        self.0.to_ne_bytes()
    }
}

/// How a slot's packets reach its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SlotKind {
    /// The slot is empty: what still leads to it is dropped.
    #[default]
    None = 0,
    /// A virtual interface of its own.
    Veth = 1,
    /// Queues of the device.
    Direct = 2,
    /// The daemon's own virtual interface: what it sends is not checked.
    Daemon = 3,
}

impl Field for SlotKind {
    fn put(&self, bytes: &mut Vec<u8>) {
        (*self as u32).put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Self {
        match u32::take(bytes) {
            1 => Self::Veth,
            2 => Self::Direct,
            3 => Self::Daemon,
            _ => Self::None,
        }
    }
}

/// A token bucket. A rate of 0 means no bucket.
///
/// A packet may pass while there are tokens at all, and takes as many as it has bytes: so the bucket may go into
/// debt, and a packet longer than the burst still passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Bytes per second, at most [`super::limits::RATE_MAX`].
    pub rate: u64,
    /// The most tokens, in bytes. Useful from what the rate gives in [`super::limits::REFILL_NS_MIN`] upwards.
    pub burst: u64,
    /// Tokens at `last`.
    pub tokens: i64,
    /// When it was filled last: nanoseconds of CLOCK_MONOTONIC. 0 makes it full with the next packet.
    pub last: u64,
}

record!(Bucket, 32 { rate, burst, tokens, last });

impl Bucket {
    /// A full bucket. Panics when the rate is above [`super::limits::RATE_MAX`].
    pub fn new(rate: u64, burst: u64) -> Self {
        assert!(
            rate <= super::limits::RATE_MAX && i64::try_from(burst).is_ok(),
            "a rate of {rate} B/s with a burst of {burst} B"
        );
        Self {
            rate,
            burst,
            tokens: burst as i64,
            last: 0,
        }
    }
}

/// What a slot may have of the link, one way. `super::code::share` says how it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Share {
    /// What it always has. Means something only where the link's rate is known.
    pub guarantee: Bucket,
    /// What it never exceeds, whatever there is to spare. A rate of 0: no such bound.
    pub ceiling: Bucket,
    /// Its part of what others leave unused, beside the parts of others who want it: in sixteenths, 16 to
    /// [`super::limits::PART_MAX`].
    pub part: u64,
    /// Bytes of what others left that it has used lately: fades with [`super::limits::FADE_NS`]. Below zero for a moment
    /// when two CPUs fade at once, which counts as nothing.
    pub used: i64,
    /// When `used` faded last: nanoseconds of CLOCK_MONOTONIC.
    pub since: u64,
}

record!(Share, 88 { guarantee, ceiling, part, used, since });

/// A program's place: the value in `slots`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// How its packets reach it.
    pub kind: SlotKind,
    /// The host's end of its virtual interface; 0 when there is none.
    pub ifindex: u32,
    /// The source MAC address that it must use.
    pub mac: [u8; 6],
    /// The port whose datagrams or segments its handler takes; 0 where it has none.
    pub handled_port: u16,
    /// Its share of what arrives.
    pub rx: Share,
    /// Its share of what is sent.
    pub tx: Share,
}

record!(Slot, 192 { kind, ifindex, mac, handled_port, rx, tx });

/// What a slot's handler may take of a processor: the value in `handling`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handling {
    /// Steps that a message takes at most.
    pub steps: u32,
    /// 1 if it ever replies: then a datagram needs something left of the slot's share of sending, too.
    pub replies: u32,
    /// The number of the protocol whose messages it gets: UDP's, or TCP's.
    pub protocol: u32,
    /// Steps that it has, in place of bytes.
    pub budget: Bucket,
}

record!(Handling, 48 { steps, replies, protocol + 4, budget });

/// What holds for the whole gate: the one value in `config`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Config {
    /// The shapes that any grant has: bits of [`Shape`]. Others are not looked up. Set the bit before the first such
    /// grant is stored, clear it after the last is gone.
    pub shapes: u32,
    /// The device.
    pub ifindex: u32,
    /// The device's MAC address: frames for others are left to the host.
    pub mac: [u8; 6],
    /// How many copy programs are in place, in both directions; 0 spares every packet the attempt.
    pub taps: u32,
    /// How many programs of general filters are in place.
    pub generals: u32,
}

record!(Config, 24 { shapes, ifindex, mac + 2, taps, generals });

/// The link's bucket for what arrives, in `link_buckets`.
pub const LINK_RX: u32 = 0;
/// The link's bucket for what is sent, in `link_buckets`.
pub const LINK_TX: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_lie_as_described() {
        let key = FlowKey::exact(
            6,
            "192.0.2.7:80".parse().unwrap(),
            "[2001:db8::1]:50000".parse().unwrap(),
        );
        let bytes = key.to_bytes();
        assert_eq!(bytes[10..16], [0xff, 0xff, 192, 0, 2, 7]);
        assert_eq!(bytes[16..20], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(bytes[32..], [0, 80, 0xc3, 0x50, 6, 0, 0, 0]);
        assert_eq!(
            address_from_bytes(key.local),
            "192.0.2.7".parse::<IpAddr>().unwrap()
        );
    }

    #[test]
    fn shapes_are_those_of_the_constructors() {
        let (local, remote) = (
            "192.0.2.7:80".parse().unwrap(),
            "[::1]:5".parse::<SocketAddr>().unwrap(),
        );
        let exact = FlowKey::exact(6, local, remote);
        let keys = [
            exact,
            FlowKey::port(6, local),
            FlowKey::protocol(6, local.ip()),
            FlowKey::address(local.ip()),
        ];
        for (key, shape) in keys.into_iter().zip(Shape::ALL) {
            assert_eq!((key.shape(), exact.masked(shape)), (shape, key));
        }
    }

    prop_compose! {
        fn bucket()(rate: u64, burst: u64, tokens: i64, last: u64) -> Bucket {
            Bucket { rate, burst, tokens, last }
        }
    }

    prop_compose! {
        fn share()(
            guarantee in bucket(), ceiling in bucket(), part: u64, used: i64, since: u64,
        ) -> Share {
            Share { guarantee, ceiling, part, used, since }
        }
    }

    proptest! {
        #[test]
        fn bytes_are_read_back(
            local: [u8; 16], remote: [u8; 16], local_port: u16, remote_port: u16, protocol: u8,
            slot: u32, grant: u32, ifindex: u32, mac: [u8; 6], kind in 0u32..4,
            rx in share(), tx in share(), shapes: u32, taps: u32, generals: u32,
        ) {
            let key = FlowKey { local, remote, local_port, remote_port, protocol };
            prop_assert_eq!(FlowKey::from_bytes(&key.to_bytes()), Some(key));
            let value = FlowValue { slot, grant };
            prop_assert_eq!(FlowValue::from_bytes(&value.to_bytes()), Some(value));
            let kind = SlotKind::take(&mut &kind.to_ne_bytes()[..]);
            let slot = Slot { kind, ifindex, mac, handled_port: local_port, rx, tx };
            prop_assert_eq!(Slot::from_bytes(&slot.to_bytes()), Some(slot));
            let handling = Handling {
                steps: grant, replies: taps, protocol: protocol.into(), budget: rx.ceiling,
            };
            prop_assert_eq!(Handling::from_bytes(&handling.to_bytes()), Some(handling));
            let config = Config { shapes, ifindex, mac, taps, generals };
            prop_assert_eq!(Config::from_bytes(&config.to_bytes()), Some(config));
        }
    }
}
