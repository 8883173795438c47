//! A packet as a line of text, in tcpdump's manner, so that anyone who reads one can read the other.
//!
//! [`Printer::print`] writes one packet: with its time, where it comes from as far as known, and its
//! protocols from Ethernet inwards, one file each. Addresses and ports are always numbers. What the
//! capture cut off is shown as ` [|tcp]`, named after the protocol in which it ends.
//!
//! Packets come from anybody: nothing in here panics, whatever the bytes; the work for one packet is
//! linear in its length (names of DNS, which could multiply, are bounded); and no control character
//! of a packet reaches the terminal.
//!
//! Other than tcpdump: only the protocols of this folder are read further, so that, say, NTP shows
//! as `UDP, length 48`.

mod arp;
mod conversations;
mod dns;
mod ethernet;
mod hex;
mod http;
mod icmpv4;
mod icmpv6;
mod ipv4;
mod ipv6;
mod part;
mod tcp;
mod udp;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exos_wire::{Sum, protocol};

use crate::limits::NESTED_MAX;
use crate::packet::Packet;
use conversations::Conversations;
pub(crate) use hex::escape;
use part::{Cut, Part, Printed};

/// How packets are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// How often `-v` was given: with one the IP header and checksums, with two everything.
    pub verbosity: u8,
    /// `-e`: the Ethernet header.
    pub link_header: bool,
    /// `-S`: sequence numbers as they are.
    pub absolute_seq: bool,
    /// `-x` or `-X`: the bytes below the line.
    pub rows: Option<Rows>,
}

/// Which bytes are shown below a packet's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// From the Ethernet header on, not only what follows it.
    pub link_header: bool,
    /// As characters too.
    pub characters: bool,
}

impl Style {
    fn has_rows(&self) -> bool {
        self.rows.is_some()
    }
}

/// Turns packets into text, and remembers what that needs of earlier ones.
#[derive(Debug, Default)]
pub struct Printer {
    style: Style,
    conversations: Conversations,
}

impl Printer {
    /// Packets in this style.
    #[must_use]
    pub fn new(style: Style) -> Self {
        Self {
            style,
            conversations: Conversations::default(),
        }
    }

    /// Appends a packet's text, several lines where the style asks for it, without a line feed at
    /// the end.
    pub fn print(&mut self, packet: &Packet<'_>, out: &mut String) {
        let mut line = Line {
            out,
            style: self.style,
            conversations: &mut self.conversations,
            link_len: 0,
            depth: 0,
        };
        let frame = Part::new(packet.bytes, packet.len, "ether");
        if let Err(Cut(protocol)) = line.ethernet(frame) {
            write!(line, " [|{protocol}]");
        }
        if let Some(rows) = self.style.rows {
            let from = if rows.link_header { 0 } else { line.link_len };
            let bytes = packet.bytes.get(from..).unwrap_or_default();
            line.rows("\n\t", bytes, rows.characters);
        }
    }
}

/// The text of one packet under way. Each protocol's file adds its methods.
struct Line<'p> {
    out: &'p mut String,
    style: Style,
    conversations: &'p mut Conversations,
    /// Bytes of the Ethernet header and its tags.
    link_len: usize,
    /// Packets around this one.
    depth: u8,
}

impl Line<'_> {
    /// What `write!` calls; text in memory takes everything.
    fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        let _ = fmt::Write::write_fmt(self.out, text);
    }

    /// A packet inside this one.
    fn nested(&mut self, print: impl FnOnce(&mut Self) -> Printed) -> Printed {
        if self.depth == NESTED_MAX {
            write!(self, "[more than {NESTED_MAX} packets inside each other]");
            return Ok(());
        }
        self.depth += 1;
        let printed = print(self);
        self.depth -= 1;
        printed
    }

    /// What IP carries.
    fn upper(&mut self, protocol: u8, payload: Part<'_>, upper: &Upper) -> Printed {
        match protocol {
            protocol::TCP => self.tcp(payload, upper),
            protocol::UDP => self.udp(payload, upper),
            protocol::ICMP if upper.addresses.is_v4() => self.icmpv4(payload, upper.is_fragment),
            protocol::ICMPV6 => self.icmpv6(payload, upper),
            IP_IN_IP => self.tunnel(|line| line.ipv4(payload)),
            IPV6_IN_IP => self.tunnel(|line| line.ipv6(payload)),
            _ => {
                write!(self, " ip-proto-{protocol} {}", payload.len());
                Ok(())
            }
        }
    }

    fn tunnel(&mut self, print: impl FnOnce(&mut Self) -> Printed) -> Printed {
        self.nested(print)
    }

    /// `src.port > dst.port`, without addresses behind an extension header, where they stand already.
    fn endpoints(&mut self, ports: Option<(u16, u16)>, upper: &Upper) {
        let (src, dst) = upper.addresses.both();
        match (ports, upper.is_first_header) {
            (Some((from, to)), true) => write!(self, "{src}.{from} > {dst}.{to}"),
            (Some((from, to)), false) => write!(self, "{from} > {to}"),
            (None, _) => write!(self, "{src} > {dst}"),
        }
    }
}

/// RFC 2003.
const IP_IN_IP: u8 = 4;
/// RFC 4213.
const IPV6_IN_IP: u8 = 41;

/// What a protocol over IP must know of the packet around it.
struct Upper {
    addresses: Addresses,
    /// The IP header names this protocol itself, not an extension header.
    is_first_header: bool,
    /// More of it follows in other packets, so that checksums cannot be judged.
    is_fragment: bool,
    /// The destination that checksums cover is not the header's.
    source_routed: bool,
}

/// Source and destination.
#[derive(Clone, Copy)]
enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Addresses {
    fn both(&self) -> (IpAddr, IpAddr) {
        match self {
            Self::V4(src, dst) => ((*src).into(), (*dst).into()),
            Self::V6(src, dst) => ((*src).into(), (*dst).into()),
        }
    }

    fn is_v4(&self) -> bool {
        matches!(self, Self::V4(..))
    }

    /// The sum over pseudo header and payload; `None` when the payload is not all there.
    fn sum(&self, protocol: u8, payload: Part<'_>) -> Option<Sum> {
        let (src, dst) = self.both();
        let len = u32::try_from(payload.len()).ok()?;
        let pseudo = Sum::pseudo(src, dst, protocol, len);
        payload
            .is_whole()
            .then(|| pseudo.plus(Sum::of(payload.bytes())))
    }
}

/// What the field should hold, given the sum of everything with the field as it is.
fn right_checksum(sum: Sum, field: u16) -> u16 {
    sum.minus(Sum::from_value(field)).finish()
}

/// The name of an IP protocol, as `-v` shows it.
fn protocol_name(number: u8) -> &'static str {
    match number {
        protocol::HOP_BY_HOP => "Options",
        protocol::ICMP => "ICMP",
        2 => "IGMP",
        IP_IN_IP => "IPIP",
        protocol::TCP => "TCP",
        8 => "EGP",
        9 => "IGRP",
        protocol::UDP => "UDP",
        33 => "DCCP",
        IPV6_IN_IP => "IPv6",
        protocol::ROUTING => "Routing",
        protocol::FRAGMENT => "Fragment",
        46 => "RSVP",
        47 => "GRE",
        protocol::ESP => "ESP",
        protocol::AUTHENTICATION => "AH",
        protocol::ICMPV6 => "ICMPv6",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        112 => "VRRP",
        132 => "SCTP",
        143 => "Ethernet",
        _ => "unknown",
    }
}
