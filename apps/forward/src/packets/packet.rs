//! What a forwarder reads of a frame: who sends what to whom, and where that is written.
//!
//! [`Packet::read`] looks at no more than has to be changed or looked up. What it does not read is none of the
//! forwarder's business: the stack takes it, answers or counts it. The payload's checksum is not verified: who passes a
//! packet on changes a checksum by what it changes beneath it, so that a wrong one stays wrong.

use std::ops::Range;

use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetView, VLAN_ID_MASK};
use exos_wire::ipv4::Ipv4View;
use exos_wire::ipv6::{self, Ipv6View};
use exos_wire::tcp::TcpFlags;
use exos_wire::{Mac, SeqNumber, protocol};

use crate::packets::endpoint::{Address, Endpoint};

/// A transport protocol that is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// Its number in an IP header.
    #[inline]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => protocol::TCP,
            Self::Udp => protocol::UDP,
        }
    }

    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// Where its checksum lies in its header.
    #[inline]
    pub const fn checksum_at(self) -> usize {
        match self {
            Self::Tcp => exos_wire::tcp::CHECKSUM_FIELD,
            Self::Udp => exos_wire::udp::CHECKSUM_FIELD,
        }
    }

    const fn header_len(self) -> usize {
        match self {
            Self::Tcp => exos_wire::tcp::LEN,
            Self::Udp => exos_wire::udp::LEN,
        }
    }
}

/// What the packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upper {
    /// A segment or datagram, or the first fragment of one.
    Transport {
        /// Of which protocol.
        transport: Transport,
        /// The sender's port.
        src_port: u16,
        /// The receiver's port.
        dst_port: u16,
    },
    /// A later fragment of one.
    Later(Transport),
    /// A message of ICMP, or of ICMPv6 in a packet of IPv6.
    Icmp,
}

/// A part of a packet that was sent in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// What all fragments of the packet have in common.
    pub ident: u32,
    /// Where that is written in the frame: the last two bytes of it for IPv4, all four for IPv6.
    pub ident_at: u16,
}

/// A packet as it lies in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its sender.
    pub src: Address,
    /// To whom.
    pub dst: Address,
    /// What it carries.
    pub upper: Upper,
    /// Set where it is only a part of what its sender sent.
    pub fragment: Option<Fragment>,
    /// Hops that it may go on.
    pub hops: u8,
    /// Where the IP header begins in the frame.
    pub ip_at: u16,
    /// Where what it carries begins, behind extension headers.
    pub upper_at: u16,
    /// Where the packet ends; what follows is padding of the link.
    pub end: u16,
}

impl Packet {
    /// Reads a frame that was sent to `to`; `None` for what is not forwarded.
    #[inline]
    pub fn read(frame: &[u8], to: Mac) -> Option<Self> {
        let ethernet = EthernetView::parse(frame).ok()?;
        let tagged = ethernet.vlan().is_some_and(|tci| tci & VLAN_ID_MASK != 0);
        if ethernet.dst() != to || tagged || frame.len() > usize::from(u16::MAX) {
            return None;
        }
        let at = ethernet.header_len();
        match ethernet.ethertype() {
            ETHERTYPE_IPV4 => Self::read_v4(ethernet.payload(), at),
            ETHERTYPE_IPV6 => Self::read_v6(ethernet.payload(), at),
            _ => None,
        }
    }

    /// Reads a frame that was for us when it came, by whichever link.
    pub fn read_again(frame: &[u8]) -> Option<Self> {
        let to = EthernetView::parse(frame).ok()?.dst();
        Self::read(frame, to)
    }

    #[inline]
    fn read_v4(bytes: &[u8], at: usize) -> Option<Self> {
        let view = Ipv4View::parse(bytes).ok()?;
        // RFC 1812 §5.2.2: who forwards verifies the header's checksum.
        if !view.header_checksum_ok() {
            return None;
        }
        let first = view.fragment_offset() == 0;
        let fragment = view.is_fragment().then(|| Fragment {
            ident: view.ident().into(),
            ident_at: (at + 4) as u16,
        });
        Some(Self {
            src: view.src().into(),
            dst: view.dst().into(),
            upper: upper(view.protocol(), protocol::ICMP, view.payload(), first)?,
            fragment,
            hops: view.ttl(),
            ip_at: at as u16,
            upper_at: (at + view.header_len()) as u16,
            end: (at + view.total_len()) as u16,
        })
    }

    #[inline]
    fn read_v6(bytes: &[u8], at: usize) -> Option<Self> {
        let view = Ipv6View::parse(bytes).ok()?;
        let (src, dst) = (Address::from(view.src()), Address::from(view.dst()));
        if !src.is_ipv6() || !dst.is_ipv6() {
            return None;
        }
        let found = view.upper().ok()?;
        if found.problem.is_some() {
            return None;
        }
        let first = found.fragment.is_none_or(|part| part.offset == 0);
        let fragment = found.fragment.map(|part| Fragment {
            ident: part.ident,
            // The last four of the eight bytes of a fragment header, at which the walk stops.
            ident_at: (at + found.offset - 4) as u16,
        });
        Some(Self {
            src,
            dst,
            upper: upper(found.protocol, protocol::ICMPV6, found.payload, first)?,
            fragment,
            hops: view.hop_limit(),
            ip_at: at as u16,
            upper_at: (at + found.offset) as u16,
            end: (at + ipv6::LEN + view.payload_len()) as u16,
        })
    }

    /// Where what it carries lies in the frame.
    #[inline]
    pub fn upper_range(&self) -> Range<usize> {
        self.upper_at.into()..self.end.into()
    }

    /// Its bytes from the IP header on.
    #[inline]
    pub fn ip_len(&self) -> u64 {
        (self.end - self.ip_at).into()
    }

    /// Sender and receiver, of a packet with ports.
    #[inline]
    pub fn ends(&self) -> Option<(Transport, Endpoint, Endpoint)> {
        let Upper::Transport {
            transport,
            src_port,
            dst_port,
        } = self.upper
        else {
            return None;
        };
        let end = |address, port| Endpoint { address, port };
        Some((transport, end(self.src, src_port), end(self.dst, dst_port)))
    }
}

#[inline]
fn upper(number: u8, icmp: u8, payload: &[u8], first: bool) -> Option<Upper> {
    let transport = match number {
        protocol::TCP => Transport::Tcp,
        protocol::UDP => Transport::Udp,
        _ if number == icmp && first => return Some(Upper::Icmp),
        _ => return None,
    };
    if !first {
        return Some(Upper::Later(transport));
    }
    let header = payload.get(..transport.header_len())?;
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    // Nobody has port 0 (RFC 9293 §3.9.2.3, RFC 768).
    (port(0) != 0 && port(2) != 0).then(|| Upper::Transport {
        transport,
        src_port: port(0),
        dst_port: port(2),
    })
}

/// What of a segment tells how a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Control bits.
    pub flags: TcpFlags,
    /// Sequence number.
    pub seq: SeqNumber,
    /// Acknowledgement number.
    pub ack: SeqNumber,
}

impl Segment {
    /// Reads it from a TCP header.
    ///
    /// # Panics
    ///
    /// If there is no whole header, which [`Packet::read`] has seen to.
    #[inline]
    pub fn read(header: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = header[at..at + 4].try_into().expect("four bytes");
            SeqNumber(u32::from_be_bytes(bytes))
        };
        Self {
            flags: TcpFlags(header[13]),
            seq: word(4),
            ack: word(8),
        }
    }
}
