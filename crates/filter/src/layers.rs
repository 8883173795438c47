//! What a filter sees of a packet: where each layer begins.
//!
//! ```text
//! | dst 6 | src 6 | [8100 tci] | type 2 | network header … | [extension headers …] | transport header … |
//! ^ link                       ^ type   ^ network                                  ^ transport
//! ```
//!
//! [`Layers::locate`] is total: on any bytes it gives the layers that are there. The generated program computes the
//! same, so each rule below is written once here and once in `program::sections`. The walk over IPv6 extension headers is
//! that of [`exos_wire::ipv6::Extensions`].

use exos_wire::ipv6::Extensions;

pub use exos_wire::ethernet::{
    ETHERTYPE_ARP as ARP, ETHERTYPE_IPV4 as IPV4, ETHERTYPE_IPV6 as IPV6, ETHERTYPE_VLAN as VLAN,
};

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
    let mut headers = Extensions::behind_fixed_header(header[6], &frame[at + 40..], at + 40);
    while let Some(header) = headers.advance().ok()? {
        if header.fragment().is_some_and(|f| f.offset != 0) {
            return Some(Upper {
                protocol: headers.next_header,
                transport: None,
            });
        }
    }
    Some(Upper {
        protocol: headers.next_header,
        transport: Some(headers.offset),
    })
}

/// Two bytes at `at`, big-endian, if they are there.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}
