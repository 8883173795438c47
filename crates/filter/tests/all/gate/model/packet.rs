//! What the gate sees of a packet: what the code in `gate/code/parse.rs` computes.
//!
//! A packet is seen as one of a flow: addresses, protocol, ports. An ICMP error is seen as a packet of the flow that
//! it is about. What has no ports has the port 0.
//!
//! What is sent is read more strictly: every receiver must see the packet that the gate sees, or none.

use exos_filter::gate::layout::address_bytes;
use exos_wire::ipv6::{Extensions, is_extension};
use exos_wire::protocol::{ICMP, ICMPV6, ROUTING, TCP, UDP};
use std::net::{IpAddr, Ipv4Addr};

/// Whether all of a packet is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    First,
    Later,
}

/// Headers that contradict themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The network header, or the transport header of a whole packet.
    Header,
    /// A first fragment without its transport header, or one that its receiver drops.
    Fragment,
}

/// An IP packet as one of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) source: [u8; 16],
    pub(super) destination: [u8; 16],
    /// The link address that it goes to.
    pub(super) station: [u8; 6],
    /// How many hops it may take.
    pub(super) hops: u8,
    pub(super) protocol: u8,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) part: Part,
    pub(super) identifier: u32,
    pub(super) is_v6: bool,
    /// IPv4 options or an IPv6 routing header.
    pub(super) odd: bool,
    /// An ICMP error that does not say which flow it is about: it may be anybody's who uses the address.
    pub(super) about_unknown: bool,
    /// The type if it is ICMP of its version.
    pub(super) icmp_type: Option<u8>,
    /// The flags of TCP; none of anything else, or of a quoted segment.
    pub(super) flags: u8,
    /// Where the transport header begins, in the frame.
    pub(super) transport: usize,
    /// Where the IP packet ends.
    pub(super) end: usize,
}

/// `N` bytes of the frame at `at`, if the IP packet, which ends at `end`, has them.
fn bytes<const N: usize>(frame: &[u8], at: usize, end: usize) -> Option<&[u8; N]> {
    frame.get(..end)?.get(at..)?.first_chunk()
}

const fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn v4_address(bytes: &[u8], at: usize) -> [u8; 16] {
    let octets = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    address_bytes(IpAddr::V4(Ipv4Addr::from(octets)))
}

fn v6_address(bytes: &[u8], at: usize) -> [u8; 16] {
    std::array::from_fn(|i| bytes[at + i])
}

impl Packet {
    /// The IPv4 or IPv6 packet behind 14 bytes of Ethernet. `sending`: an ICMP error must be whole, quote enough to say
    /// which flow it is about, go to the quoted packet's sender and come from its receiver; routers on the way send errors
    /// too, programs do not. A first fragment must have nothing before it that a receiver might drop it for, since others'
    /// fragments may then be what the later ones complete.
    pub(super) fn parse(frame: &[u8], is_v6: bool, sending: bool) -> Result<Self, Fault> {
        let mut packet = if is_v6 { v6(frame)? } else { v4(frame)? };
        if packet.part == Part::First && !packet.is_acceptable(frame, sending) {
            return Err(Fault::Fragment);
        }
        if packet.part != Part::Later {
            packet.transport(frame, sending)?;
        }
        Ok(packet)
    }

    fn transport(&mut self, frame: &[u8], sending: bool) -> Result<(), Fault> {
        let icmp = if self.is_v6 { ICMPV6 } else { ICMP };
        let needed = match self.protocol {
            TCP => 20,
            UDP => 8,
            p if p == icmp => 8,
            _ => return Ok(()),
        };
        // RFC 1858 §3: a first fragment holds the transport header.
        if self.transport + needed > self.end {
            return Err(match self.part {
                Part::First => Fault::Fragment,
                Part::Whole | Part::Later => Fault::Header,
            });
        }
        let header: &[u8; 8] = bytes(frame, self.transport, self.end).expect("checked");
        if self.protocol != icmp {
            (self.source_port, self.destination_port) = (be16(header, 0), be16(header, 2));
            if self.protocol == TCP {
                self.flags = frame[self.transport + 13];
            }
            return Ok(());
        }
        self.icmp_type = Some(header[0]);
        (self.source_port, self.destination_port) = echo_ports(header, self.is_v6);
        let kind = header[0];
        // RFC 4443 §2.1: types below 128 are errors, also those that nobody has defined, and receivers look at what they
        // quote.
        let is_unknown_error = self.is_v6 && (kind == 0 || (5..128).contains(&kind));
        let about_other = match self.is_v6 {
            true => matches!(kind, 1..=4),            // RFC 4443 §3
            false => matches!(kind, 3 | 4 | 11 | 12), // RFC 792
        };
        let is_read =
            about_other && self.part == Part::Whole && self.quoted(frame, sending).is_some();
        self.about_unknown = is_unknown_error || about_other && !is_read;
        if sending && self.about_unknown {
            return Err(Fault::Header);
        }
        Ok(())
    }

    /// Whether a receiver gets and takes the first fragment: the IPv4 header's sum is right (RFC 1122 §3.2.1.2), the IPv6 fragment
    /// has a multiple of eight bytes (RFC 8200 §4.5). What is sent has no other headers of IPv6 before the fragment's:
    /// an option in them may ask for the packet to be dropped (RFC 8200 §4.2).
    fn is_acceptable(&self, frame: &[u8], sending: bool) -> bool {
        if self.is_v6 {
            let alone = self.transport == 14 + 40 + 8;
            return (self.end - self.transport).is_multiple_of(8) && (alone || !sending);
        }
        // One that may not be cut ends where the path is narrow, and later ones do not (RFC 791 §2.3).
        if sending && frame[20] & 0x40 != 0 {
            return false;
        }
        // With options it is not checked: programs send none.
        let words = frame[14..34].as_chunks::<2>().0.iter();
        let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        self.odd || (sum >> 16) + (sum & 0xffff) == 0xffff
    }

    /// Take the flow of the quoted packet, in the opposite direction; unreadable quotes change nothing.
    fn quoted(&mut self, frame: &[u8], sending: bool) -> Option<()> {
        let at = self.transport + 8;
        let (source, destination, protocol, transport) = if self.is_v6 {
            let header: &[u8; 40] = bytes::<48>(frame, at, self.end)?.first_chunk()?;
            if header[0] >> 4 != 6 {
                return None;
            }
            let addresses = (v6_address(header, 8), v6_address(header, 24));
            (addresses.0, addresses.1, header[6], at + 40)
        } else {
            // RFC 792: the header and 8 bytes.
            let header: &[u8; 20] = bytes::<28>(frame, at, self.end)?.first_chunk()?;
            if !(0x45..=0x4f).contains(&header[0]) || be16(header, 6) & 0x1fff != 0 {
                return None;
            }
            let transport = at + usize::from(header[0] & 15) * 4;
            let addresses = (v4_address(header, 12), v4_address(header, 16));
            (addresses.0, addresses.1, header[9], transport)
        };
        let header: &[u8; 8] = bytes(frame, transport, self.end)?;
        if source != self.destination || (sending && destination != self.source) {
            return None;
        }
        if self.is_v6 && is_extension(protocol) {
            return None;
        }
        let icmp = if self.is_v6 { ICMPV6 } else { ICMP };
        let ports = match protocol {
            TCP | UDP => (be16(header, 0), be16(header, 2)),
            p if p == icmp => echo_ports(header, self.is_v6),
            _ => (0, 0),
        };
        self.source = destination;
        self.protocol = protocol;
        (self.destination_port, self.source_port) = ports;
        Some(())
    }
}

/// The identifier stands at the side that chose it (RFC 792, RFC 4443 §4.1).
const fn echo_ports(header: &[u8; 8], is_v6: bool) -> (u16, u16) {
    let identifier = be16(header, 4);
    match (is_v6, header[0]) {
        (false, 8) | (true, 128) => (identifier, 0),
        (false, 0) | (true, 129) => (0, identifier),
        _ => (0, 0),
    }
}

/// RFC 791 §3.1.
fn v4(frame: &[u8]) -> Result<Packet, Fault> {
    let header: &[u8; 20] = bytes(frame, 14, frame.len()).ok_or(Fault::Header)?;
    let (first, total) = (header[0], usize::from(be16(header, 2)));
    let length = usize::from(first & 15) * 4;
    let end = 14 + total;
    if !(0x45..=0x4f).contains(&first) || total < length || end > frame.len() {
        return Err(Fault::Header);
    }
    let fragment = be16(header, 6);
    Ok(Packet {
        source: v4_address(header, 12),
        destination: v4_address(header, 16),
        station: *frame.first_chunk().expect("it has a header behind it"),
        hops: header[8],
        protocol: header[9],
        source_port: 0,
        destination_port: 0,
        part: match (fragment & 0x1fff, fragment & 0x2000) {
            (0, 0) => Part::Whole,
            (0, _) => Part::First,
            _ => Part::Later,
        },
        identifier: be16(header, 4).into(),
        is_v6: false,
        odd: length > 20,
        about_unknown: false,
        icmp_type: None,
        flags: 0,
        transport: 14 + length,
        end,
    })
}

/// RFC 8200 §3, §4.
fn v6(frame: &[u8]) -> Result<Packet, Fault> {
    let header: &[u8; 40] = bytes(frame, 14, frame.len()).ok_or(Fault::Header)?;
    let end = 54 + usize::from(be16(header, 4));
    if header[0] >> 4 != 6 || end > frame.len() {
        return Err(Fault::Header);
    }
    // In the tables they would be IPv4 addresses.
    if is_mapped(&header[8..24]) || is_mapped(&header[24..40]) {
        return Err(Fault::Header);
    }
    let mut packet = Packet {
        source: v6_address(header, 8),
        destination: v6_address(header, 24),
        station: *frame.first_chunk().expect("it has a header behind it"),
        hops: header[7],
        protocol: header[6],
        source_port: 0,
        destination_port: 0,
        part: Part::Whole,
        identifier: 0,
        is_v6: true,
        odd: false,
        about_unknown: false,
        icmp_type: None,
        flags: 0,
        transport: 54,
        end,
    };
    let mut headers = Extensions::behind_fixed_header(header[6], &frame[54..end], 54);
    while let Some(header) = headers.advance().map_err(|_| Fault::Header)? {
        packet.protocol = headers.next_header;
        packet.odd |= header.kind == ROUTING;
        if let Some(fragment) = header.fragment() {
            packet.identifier = fragment.ident;
            if fragment.offset != 0 {
                packet.part = Part::Later;
                return Ok(packet);
            }
            // Without more fragments the first is all (RFC 6946).
            if fragment.more {
                packet.part = Part::First;
            }
        }
        packet.transport = headers.offset;
    }
    Ok(packet)
}

/// RFC 4291 §2.5.5.2.
fn is_mapped(address: &[u8]) -> bool {
    address.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}
