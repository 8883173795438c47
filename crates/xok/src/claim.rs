//! Claims: which packets of an interface a program owns, and from where it may send.
//!
//! A claim is protocol-aware and exact, of one of four shapes, and the narrower one wins where two apply. That is
//! what lets the kernel find the owner of a packet by at most four lookups, however many claims there are, and what
//! leaves no doubt about overlaps (the papers' "unsolved dilemma" of arbitrary filters):
//!
//! | shape | matches packets to | written |
//! |---|---|---|
//! | connection | this address and port, from this remote address and port | `tcp 192.0.2.7:80 <- 198.51.100.1:4000` |
//! | port | this address and port | `tcp 192.0.2.7:80` |
//! | protocol | this address | `tcp 192.0.2.7` |
//! | address | this address, any protocol | `ip 192.0.2.7` |
//!
//! What is none of the four is claimed by a filter (`ClaimFilter`): such a grant has what no claim here covers.
//!
//! ICMP echo counts as a protocol whose local port is the identifier.
//!
//! Two claims *overlap* when a packet could match both, whatever their shapes: the ledger allows that only to one
//! owner. A claim is a *subset* of another when every packet that it matches is matched by the other too: that is
//! what may be made of a claim that one holds.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A transport protocol, or all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Protocol {
    /// Every protocol: 0 in bytes.
    Any,
    /// ICMP, protocol 1.
    Icmp,
    /// TCP, protocol 6.
    Tcp,
    /// UDP, protocol 17.
    Udp,
    /// ICMPv6, next header 58.
    Icmpv6,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Any, Self::Icmp, Self::Tcp, Self::Udp, Self::Icmpv6];

    /// The number in the IP header; 0 for [`Protocol::Any`].
    pub const fn number(self) -> u8 {
        match self {
            Self::Any => 0,
            Self::Icmp => 1,
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Icmpv6 => 58,
        }
    }

    /// The protocol of this number; `None` for one that cannot be claimed by itself.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.number() == number)
    }

    /// Its name in policies and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "ip",
            Self::Icmp => "icmp",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmpv6 => "icmpv6",
        }
    }

    /// True when its packets can have an address of this family.
    pub const fn suits(self, ip: IpAddr) -> bool {
        match self {
            Self::Icmp => ip.is_ipv4(),
            Self::Icmpv6 => ip.is_ipv6(),
            Self::Any | Self::Tcp | Self::Udp => true,
        }
    }
}

/// An address and a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
}

impl From<SocketAddr> for Endpoint {
    fn from(at: SocketAddr) -> Self {
        Self {
            ip: at.ip(),
            port: at.port(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

/// What a program owns of an interface. See the top of the file for the shapes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Claim {
    /// The interface's index.
    pub interface: u32,
    /// The protocol.
    pub protocol: Protocol,
    /// Our address.
    pub local: IpAddr,
    /// Our port, or the identifier of echo requests; 0 for all of them.
    pub port: u16,
    /// The other end, for a claim on one connection.
    pub remote: Option<Endpoint>,
}

/// Why a claim is not one of the four shapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimError {
    /// No address: claims are exact.
    Unspecified,
    /// The address cannot be one of ours.
    NotUnicast,
    /// An IPv4 address written as an IPv6 one: two claims would be one in the kernel's tables.
    Mapped,
    /// The protocol does not exist with addresses of this family.
    Family,
    /// A port without a protocol that has ports.
    PortWithoutProtocol,
    /// A remote end without a port of ours, or without one of its own.
    RemoteWithoutPort,
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "a claim needs an address of ours",
            Self::Mapped => "a claim's IPv4 addresses are written as IPv4 addresses",
            Self::NotUnicast => "a claim's addresses must be unicast addresses",
            Self::Family => "the protocol and the addresses of a claim must be of one family",
            Self::PortWithoutProtocol => "a claim on a port needs a protocol",
            Self::RemoteWithoutPort => "a claim on a connection needs both ports",
        })
    }
}

impl std::error::Error for ClaimError {}

impl Claim {
    /// That it is one of the four shapes.
    pub fn check(&self) -> Result<(), ClaimError> {
        if self.local.is_unspecified() {
            return Err(ClaimError::Unspecified);
        }
        let remote = self.remote.map(|r| r.ip);
        if [Some(self.local), remote]
            .into_iter()
            .flatten()
            .any(is_group)
        {
            return Err(ClaimError::NotUnicast);
        }
        if [Some(self.local), remote]
            .into_iter()
            .flatten()
            .any(|ip| ip != ip.to_canonical())
        {
            return Err(ClaimError::Mapped);
        }
        let families = remote.is_some_and(|ip| ip.is_ipv4() != self.local.is_ipv4());
        if families || !self.protocol.suits(self.local) {
            return Err(ClaimError::Family);
        }
        if self.port != 0 && self.protocol == Protocol::Any {
            return Err(ClaimError::PortWithoutProtocol);
        }
        match self.remote {
            Some(remote) if self.port == 0 || remote.port == 0 => {
                Err(ClaimError::RemoteWithoutPort)
            }
            _ => Ok(()),
        }
    }

    /// True when it is on an identifier of echo requests, not on a port.
    pub const fn is_echo(&self) -> bool {
        self.port != 0 && matches!(self.protocol, Protocol::Icmp | Protocol::Icmpv6)
    }

    /// True when it has this port of an address of ours, with all other ends; or all ports, which port 0 asks for, too.
    pub fn has_port(&self, protocol: Protocol, local: IpAddr, port: u16) -> bool {
        let is_protocol = self.protocol == protocol || self.protocol == Protocol::Any;
        let is_port = self.port == port || self.port == 0;
        is_protocol && is_port && self.local == local && self.remote.is_none()
    }

    /// True when every packet that this matches is matched by the other too.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.interface == other.interface
            && self.local == other.local
            && (other.protocol == Protocol::Any || self.protocol == other.protocol)
            && (other.port == 0 || self.port == other.port)
            && (other.remote.is_none() || self.remote == other.remote)
    }

    /// True when a packet could match both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let protocols = self.protocol == other.protocol
            || self.protocol == Protocol::Any
            || other.protocol == Protocol::Any;
        let ports = self.port == other.port || self.port == 0 || other.port == 0;
        let remotes = match (self.remote, other.remote) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        self.interface == other.interface
            && self.local == other.local
            && protocols
            && ports
            && remotes
    }
}

fn is_group(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.protocol.name())?;
        match (self.port, self.local) {
            (0, ip) => write!(f, "{ip}")?,
            (port, ip) => SocketAddr::new(ip, port).fmt(f)?,
        }
        match self.remote {
            Some(remote) => write!(f, " <- {remote}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Few values, so that claims do meet.
    fn claim() -> impl Strategy<Value = Claim> {
        let ip = |last| IpAddr::from([192, 0, 2, last]);
        let protocol = prop::sample::select(vec![Protocol::Any, Protocol::Tcp, Protocol::Udp]);
        (1..3_u32, protocol, 1..3_u8, 0..3_u16, 0..3_u16)
            .prop_map(move |(interface, protocol, local, port, remote)| Claim {
                interface,
                protocol,
                local: ip(local),
                port,
                remote: (remote != 0).then(|| Endpoint {
                    ip: ip(9),
                    port: remote,
                }),
            })
            .prop_filter("one of the shapes", |claim| claim.check().is_ok())
    }

    /// A packet as the classifier sees it, and what it means that a claim matches it: the oracle.
    type Packet = (u32, Protocol, IpAddr, u16, Endpoint);

    fn matches(claim: &Claim, (interface, protocol, local, port, remote): Packet) -> bool {
        claim.interface == interface
            && claim.local == local
            && (claim.protocol == Protocol::Any || claim.protocol == protocol)
            && (claim.port == 0 || claim.port == port)
            && claim.remote.is_none_or(|r| r == remote)
    }

    /// All packets of the little world of `claim`, with one value more in each field than claims name.
    fn packets() -> Vec<Packet> {
        let mut all = Vec::new();
        for interface in 1..3 {
            for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Icmp] {
                for last in 1..3 {
                    for port in 1..4 {
                        for remote in 1..4 {
                            let far = Endpoint {
                                ip: IpAddr::from([192, 0, 2, 9]),
                                port: remote,
                            };
                            let local = IpAddr::from([192, 0, 2, last]);
                            all.push((interface, protocol, local, port, far));
                        }
                    }
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn comparisons_agree_with_packets(a in claim(), b in claim()) {
            let all = packets();
            let both = all.iter().any(|p| matches(&a, *p) && matches(&b, *p));
            let within = all.iter().all(|p| !matches(&a, *p) || matches(&b, *p));
            prop_assert_eq!(a.overlaps(&b), both);
            prop_assert_eq!(b.overlaps(&a), both);
            prop_assert_eq!(a.is_subset_of(&b), within);
        }
    }

    #[test]
    fn what_is_no_claim_is_refused_with_the_reason() {
        let good = Claim {
            interface: 2,
            protocol: Protocol::Tcp,
            local: IpAddr::from([192, 0, 2, 7]),
            port: 80,
            remote: None,
        };
        let far = |ip: &str, port| {
            Some(Endpoint {
                ip: ip.parse().expect("an address"),
                port,
            })
        };
        let cases = [
            (
                Claim {
                    local: IpAddr::from([0, 0, 0, 0]),
                    ..good
                },
                ClaimError::Unspecified,
            ),
            (
                Claim {
                    local: IpAddr::from([224, 0, 0, 1]),
                    ..good
                },
                ClaimError::NotUnicast,
            ),
            (
                Claim {
                    remote: far("ff02::1", 1),
                    ..good
                },
                ClaimError::NotUnicast,
            ),
            (
                Claim {
                    remote: far("2001:db8::1", 1),
                    ..good
                },
                ClaimError::Family,
            ),
            (
                Claim {
                    local: "::ffff:192.0.2.7".parse().expect("an address"),
                    ..good
                },
                ClaimError::Mapped,
            ),
            (
                Claim {
                    protocol: Protocol::Icmpv6,
                    ..good
                },
                ClaimError::Family,
            ),
            (
                Claim {
                    protocol: Protocol::Any,
                    ..good
                },
                ClaimError::PortWithoutProtocol,
            ),
            (
                Claim {
                    port: 0,
                    remote: far("192.0.2.1", 1),
                    ..good
                },
                ClaimError::RemoteWithoutPort,
            ),
            (
                Claim {
                    remote: far("192.0.2.1", 0),
                    ..good
                },
                ClaimError::RemoteWithoutPort,
            ),
        ];
        assert_eq!(good.check(), Ok(()));
        for (claim, error) in cases {
            assert_eq!(claim.check(), Err(error), "{claim}");
        }
    }

    #[test]
    fn claims_read_as_people_write_them() {
        let claim = Claim {
            interface: 2,
            protocol: Protocol::Tcp,
            local: "2001:db8::7".parse().expect("an address"),
            port: 80,
            remote: Some(Endpoint {
                ip: "2001:db8::1".parse().expect("an address"),
                port: 4000,
            }),
        };
        assert_eq!(
            claim.to_string(),
            "tcp [2001:db8::7]:80 <- [2001:db8::1]:4000"
        );
        let all = Claim {
            port: 0,
            remote: None,
            protocol: Protocol::Any,
            ..claim
        };
        assert_eq!(all.to_string(), "ip 2001:db8::7");
    }
}
