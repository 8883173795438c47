//! What each primitive means, as tests.

use super::names;
use crate::filter::{Filter, TooLarge};
use crate::layers::{ARP, IPV4, IPV6, VLAN};
use crate::literal::{Base, Literal, Test, Width};
use exos_wire::Prefix;
use std::net::IpAddr;

/// The first word of a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Ether,
    Ip,
    Ip6,
    Arp,
    Rarp,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    Igmp,
    Esp,
}

/// Which of two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Src,
    Dst,
    Either,
    Both,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

type Result = std::result::Result<Filter, TooLarge>;

/// All packets that carry the protocol.
impl Protocol {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "ether" | "link" => Self::Ether,
            "ip" => Self::Ip,
            "ip6" => Self::Ip6,
            "arp" => Self::Arp,
            "rarp" => Self::Rarp,
            "tcp" => Self::Tcp,
            "udp" => Self::Udp,
            "sctp" => Self::Sctp,
            "icmp" => Self::Icmp,
            "icmp6" => Self::Icmp6,
            "igmp" => Self::Igmp,
            "esp" => Self::Esp,
            _ => return None,
        })
    }

    /// Its Ethertype, if it is bound to one.
    fn ethertype(self) -> Option<u16> {
        match self {
            Self::Ip | Self::Icmp | Self::Igmp => Some(IPV4),
            Self::Ip6 | Self::Icmp6 => Some(IPV6),
            Self::Arp => Some(ARP),
            Self::Rarp => Some(0x8035),
            Self::Ether | Self::Tcp | Self::Udp | Self::Sctp | Self::Esp => None,
        }
    }

    /// Its number, if it is carried by IP.
    fn number(self) -> Option<u8> {
        let name = match self {
            Self::Ether | Self::Ip | Self::Ip6 | Self::Arp | Self::Rarp => return None,
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Icmp => "icmp",
            Self::Icmp6 => "icmp6",
            Self::Igmp => "igmp",
            Self::Esp => "esp",
        };
        names::find(names::PROTOCOLS, name)
    }

    /// The tests that say a packet carries it.
    pub(super) fn tests(self) -> Vec<Literal> {
        let ethertype = self.ethertype().map(Test::ethertype);
        let number = self.number().map(Test::protocol);
        ethertype
            .into_iter()
            .chain(number)
            .map(Literal::from)
            .collect()
    }

    /// The layer that `protocol[offset]` counts from.
    pub(super) fn base(self) -> Base {
        match self {
            Self::Ether => Base::Link,
            Self::Ip | Self::Ip6 | Self::Arp | Self::Rarp => Base::Network,
            _ => Base::Transport,
        }
    }
}

impl Direction {
    /// Combine what is wanted of the source with what is wanted of the destination.
    pub(super) fn combine(self, src: impl Fn() -> Result, dst: impl Fn() -> Result) -> Result {
        match self {
            Self::Src => src(),
            Self::Dst => dst(),
            Self::Either => src()?.or(&dst()?),
            Self::Both => src()?.and(&dst()?),
        }
    }
}

/// `tests`, and the `bits` first bits behind `base` + `offset` are those of `bytes`.
fn prefix(tests: &[Test], base: Base, offset: usize, bytes: &[u8], bits: usize) -> Result {
    let mut literals: Vec<Literal> = tests.iter().copied().map(Literal::from).collect();
    for (i, word) in bytes.chunks(4).enumerate() {
        let wanted = bits.saturating_sub(32 * i).min(8 * word.len());
        if wanted == 0 && i > 0 {
            break;
        }
        let width = match word.len() {
            4 => Width::Word,
            _ => Width::Half,
        };
        let free = 8 * word.len() - wanted;
        let mask = u32::try_from(u64::from(width.max()) >> free << free).expect("at most 32 bits");
        let value = word
            .iter()
            .fold(0, |value, &byte| value << 8 | u32::from(byte))
            & mask;
        literals.push(Test::masked(base, offset + 4 * i, width, mask, value).into());
    }
    Filter::all_of(literals)
}

/// `[ip | ip6 | arp] [direction] host|net address/bits`. None when the protocol has no such address.
pub(super) fn network(
    protocol: Option<Protocol>,
    direction: Direction,
    network: Prefix,
) -> Option<Result> {
    match (protocol, network.addr) {
        (None, IpAddr::V4(_)) => {
            let ip = ADDRESSES_OF_IPV4.in_network(direction, network);
            Some(ip.and_then(|ip| ip.or(&ADDRESSES_OF_ARP.in_network(direction, network)?)))
        }
        (Some(Protocol::Ip), IpAddr::V4(_)) => {
            Some(ADDRESSES_OF_IPV4.in_network(direction, network))
        }
        (Some(Protocol::Arp), IpAddr::V4(_)) => {
            Some(ADDRESSES_OF_ARP.in_network(direction, network))
        }
        (None | Some(Protocol::Ip6), IpAddr::V6(_)) => {
            Some(ADDRESSES_OF_IPV6.in_network(direction, network))
        }
        _ => None,
    }
}

/// Where a network header has its addresses.
struct Addresses {
    ethertype: u16,
    source: usize,
    destination: usize,
}

/// RFC 791 §3.1.
const ADDRESSES_OF_IPV4: Addresses = Addresses {
    ethertype: IPV4,
    source: 12,
    destination: 16,
};

/// RFC 826: with 6-byte hardware addresses, the sender's and the target's protocol address.
const ADDRESSES_OF_ARP: Addresses = Addresses {
    ethertype: ARP,
    source: 14,
    destination: 24,
};

/// RFC 8200 §3.
const ADDRESSES_OF_IPV6: Addresses = Addresses {
    ethertype: IPV6,
    source: 8,
    destination: 24,
};

impl Addresses {
    fn in_network(&self, direction: Direction, network: Prefix) -> Result {
        let field = |at| {
            let (tests, bits) = ([Test::ethertype(self.ethertype)], network.len.into());
            match network.addr {
                IpAddr::V4(a) => prefix(&tests, Base::Network, at, &a.octets(), bits),
                IpAddr::V6(a) => prefix(&tests, Base::Network, at, &a.octets(), bits),
            }
        };
        direction.combine(|| field(self.source), || field(self.destination))
    }
}

/// `ether [direction] host mac`: destination at 0, source at 6.
pub(super) fn ether_host(direction: Direction, mac: [u8; 6]) -> Result {
    let field = |at| prefix(&[], Base::Link, at, &mac, 48);
    direction.combine(|| field(6), || field(0))
}

/// Ports of TCP, UDP and SCTP: source at 0, destination at 2. None when the protocol has no ports.
pub(super) fn ports(
    protocol: Option<Protocol>,
    direction: Direction,
    low: u16,
    high: u16,
) -> Option<Result> {
    let protocols = match protocol {
        None => vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp],
        Some(p @ (Protocol::Tcp | Protocol::Udp | Protocol::Sctp)) => vec![p],
        Some(_) => return None,
    };
    let field = |protocol: Protocol, at| {
        let port = Test::range(
            Base::Transport,
            at,
            Width::Half,
            0xffff,
            low.into(),
            high.into(),
        );
        Filter::all_of(protocol.tests().into_iter().chain([port.into()]))
    };
    let one = |p: &Protocol| direction.combine(|| field(*p, 0), || field(*p, 2));
    Some(
        protocols
            .iter()
            .try_fold(Filter::nothing(), |all, p| all.or(&one(p)?)),
    )
}

/// `[ip | ip6] proto number`. None for other protocols.
pub(super) fn protocol_number(protocol: Option<Protocol>, number: u8) -> Option<Result> {
    let tests = match protocol {
        None => Vec::new(),
        Some(p @ (Protocol::Ip | Protocol::Ip6)) => p.tests(),
        Some(_) => return None,
    };
    Some(Filter::all_of(
        tests.into_iter().chain([Test::protocol(number).into()]),
    ))
}

/// `vlan [id]`: IEEE 802.1Q, tag protocol at 12, the number in the low 12 bits at 14.
pub(super) fn vlan(id: Option<u16>) -> Result {
    let tag = Test::equal(Base::Link, 12, Width::Half, VLAN.into());
    let number = id.map(|id| Test::masked(Base::Link, 14, Width::Half, 0xfff, id.into()));
    Filter::all_of([tag].into_iter().chain(number).map(Literal::from))
}

/// `greater n`: frames of at least `n` bytes.
pub(super) fn greater(n: usize) -> Result {
    match n.checked_sub(1) {
        None => Ok(Filter::everything()),
        Some(last) => Ok(Filter::test(Test::present(Base::Link, last, Width::Byte))),
    }
}

/// `less n`: frames of at most `n` bytes.
pub(super) fn less(n: usize) -> Result {
    greater(n + 1)?.not()
}

/// `ether multicast`: the first bit on the wire.
pub(super) fn ether_multicast() -> Filter {
    Filter::test(Test::masked(Base::Link, 0, Width::Byte, 1, 1))
}

/// `ip multicast`: 224.0.0.0/4, as tcpdump does: 224 and above.
pub(super) fn ip_multicast() -> Result {
    let first = Test::range(Base::Network, 16, Width::Byte, 0xff, 224, 255);
    Filter::all_of([Test::ethertype(IPV4), first].map(Literal::from))
}

/// `ip6 multicast`: ff00::/8.
pub(super) fn ip6_multicast() -> Result {
    let first = Test::equal(Base::Network, 24, Width::Byte, 0xff);
    Filter::all_of([Test::ethertype(IPV6), first].map(Literal::from))
}
