//! What a filter sees of a packet: where each layer begins.
//!
//! ```text
//! | dst 6 | src 6 | [8100 tci] | type 2 | network header … | [extension headers …] | transport header … |
//! ^ link                       ^ type   ^ network                                  ^ transport
//! ```
//!
//! [`Layers::locate`] is total: on any bytes it gives the layers that are there. The generated program computes the
//! same, so each rule below is written once here and once in `program::sections`.

use crate::limits::EXTENSION_HEADERS_MAX;
use exos_wire::protocol::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Ethertype of an 802.1Q tag.
pub const VLAN: u16 = 0x8100;

/// Where the layers of one packet begin. A layer that is not there is None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The Ethertype, behind a VLAN tag if there is one.
    pub ethertype: Option<u16>,
    /// Where the network header begins: there exactly when the Ethertype is.
    pub network: Option<usize>,
    /// The protocol that an IPv4 or IPv6 packet carries, behind IPv6 extension headers.
    pub protocol: Option<u8>,
    /// Where the transport header begins: only when there is a protocol, and not in fragments behind the first.
    pub transport: Option<usize>,
}

impl Layers {
    /// Find the layers of a frame.
    pub fn locate(frame: &[u8]) -> Self {
        let Some(outer) = be16(frame, 12) else {
            return Self::default();
        };
        let network = if outer == VLAN { 18 } else { 14 };
        let Some(ethertype) = be16(frame, network - 2) else {
            return Self::default();
        };
        let upper = match ethertype {
            IPV4 => ipv4(frame, network),
            IPV6 => ipv6(frame, network),
            _ => None,
        };
        Self {
            ethertype: Some(ethertype),
            network: Some(network),
            protocol: upper.map(|u| u.protocol),
            transport: upper.and_then(|u| u.transport),
        }
    }
}

/// What an IP header leads to.
#[derive(Clone, Copy)]
struct Upper {
    protocol: u8,
    transport: Option<usize>,
}

/// RFC 791 §3.1. None when the header is malformed or not all there.
fn ipv4(frame: &[u8], at: usize) -> Option<Upper> {
    let header = frame.get(at..)?.first_chunk::<20>()?;
    let words = usize::from(header[0])
        .checked_sub(0x45)
        .filter(|&n| n <= 10)?
        + 5;
    let transport = at + words * 4;
    if transport > frame.len() {
        return None;
    }
    let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    Some(Upper {
        protocol: header[9],
        transport: (fragment_offset == 0).then_some(transport),
    })
}

/// RFC 8200 §4. None when a header is malformed or not all there, or when there are too many.
fn ipv6(frame: &[u8], at: usize) -> Option<Upper> {
    let header = frame.get(at..)?.first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let (mut protocol, mut offset) = (header[6], at + 40);
    for count in 0..=EXTENSION_HEADERS_MAX {
        // RFC 8200 §4.1: hop-by-hop options are only read directly behind the fixed header.
        if !is_extension(protocol) || (protocol == HOP_BY_HOP && count > 0) {
            return Some(Upper {
                protocol,
                transport: Some(offset),
            });
        }
        if count == EXTENSION_HEADERS_MAX {
            break;
        }
        let start = frame.get(offset..)?.first_chunk::<8>()?;
        let length = match protocol {
            FRAGMENT => 8,
            // RFC 4302 §2.2: in words of 4 bytes, less 2.
            AUTHENTICATION => (usize::from(start[1]) + 2) * 4,
            // RFC 8200 §4.3: in words of 8 bytes, not counting the first.
            _ => (usize::from(start[1]) + 1) * 8,
        };
        // RFC 8200 §4.5: the fragment offset is the upper 13 bits.
        if protocol == FRAGMENT && u16::from_be_bytes([start[2], start[3]]) & 0xfff8 != 0 {
            return Some(Upper {
                protocol: start[0],
                transport: None,
            });
        }
        protocol = start[0];
        offset += length;
        if offset > frame.len() {
            return None;
        }
    }
    None
}

/// Whether the walk reads this header and goes on behind it.
pub(crate) const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}

/// Two bytes at `at`, big-endian, if they are there.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}
