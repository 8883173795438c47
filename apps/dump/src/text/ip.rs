//! What IPv4 and IPv6 have in common: addresses, what they carry, and its checksums.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exos_wire::{Sum, protocol};

use super::line::Line;
use super::part::Part;

/// RFC 2003.
pub(super) const IP_IN_IP: u8 = 4;
/// RFC 4213.
pub(super) const IPV6_IN_IP: u8 = 41;

/// What a protocol over IP must know of the packet around it.
pub(super) struct Upper {
    pub(super) addresses: Addresses,
    /// The IP header names this protocol itself, not an extension header.
    pub(super) is_first_header: bool,
    /// More of it follows in other packets, so that checksums cannot be judged.
    pub(super) is_fragment: bool,
    /// The destination that checksums cover is not the header's.
    pub(super) source_routed: bool,
}

/// Source and destination.
#[derive(Clone, Copy)]
pub(super) enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Addresses {
    pub(super) fn both(&self) -> (IpAddr, IpAddr) {
        match self {
            Self::V4(src, dst) => ((*src).into(), (*dst).into()),
            Self::V6(src, dst) => ((*src).into(), (*dst).into()),
        }
    }

    pub(super) fn is_v4(&self) -> bool {
        matches!(self, Self::V4(..))
    }

    /// The sum over pseudo header and payload; `None` when the payload is not all there.
    pub(super) fn sum(&self, protocol: u8, payload: Part<'_>) -> Option<Sum> {
        let (src, dst) = self.both();
        let len = u32::try_from(payload.len()).ok()?;
        let pseudo = Sum::pseudo(src, dst, protocol, len);
        payload
            .is_whole()
            .then(|| pseudo.plus(Sum::of(payload.bytes())))
    }
}

impl Line<'_> {
    /// Whether this payload's checksum, which is in a field, is right.
    pub(super) fn checksum(
        &mut self,
        name: &str,
        protocol: u8,
        (payload, field): (Part<'_>, u16),
        upper: &Upper,
    ) {
        let Some(sum) = upper.addresses.sum(protocol, payload) else {
            return;
        };
        if sum.is_intact() {
            write!(self, "[{name} sum ok] ");
        } else {
            let right = right_checksum(sum, field);
            write!(self, "[bad {name} cksum {field:#06x} -> {right:#06x}!] ");
        }
    }
}

/// What the field should hold, given the sum of everything with the field as it is.
pub(super) fn right_checksum(sum: Sum, field: u16) -> u16 {
    sum.minus(Sum::from_value(field)).finish()
}

/// The names of bits that are set.
pub(super) fn flag_names(flags: u8, names: &[(u8, &str)]) -> String {
    let set = names.iter().filter(|(bit, _)| flags >> bit & 1 != 0);
    let set: Vec<_> = set.map(|(_, name)| *name).collect();
    if set.is_empty() {
        "none".to_owned()
    } else {
        set.join(", ")
    }
}

/// The name of an IP protocol, as `-v` shows it.
pub(super) fn protocol_name(number: u8) -> &'static str {
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
