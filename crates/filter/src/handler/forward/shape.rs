//! What forwarded packets look like, and where the program keeps what it knows of one: in registers and on the stack.

use super::layout;
use crate::ebpf::Reg;
use crate::packet::{Bytes, NETWORK as IP};
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::{ipv4, ipv6, protocol, tcp, udp};

/// What a packet looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// IPv6, or IPv4.
    pub ipv6: bool,
    /// TCP, or UDP.
    pub tcp: bool,
}

/// Where things wait on the stack. Places in arrays, for look-ups:
pub(super) const INDEX: i16 = -8;
pub(super) const TALLY: i16 = -16;
/// Which way of a flow a packet goes.
pub(super) const WAY: i16 = -4;
/// What the sums grow by, the upper one and IPv4's.
pub(super) const CHANGES: i16 = -12;
pub(super) const HOP: i16 = -24;
/// The number of the link that the packet leaves by: a byte of the hop.
pub(super) const EXIT: i16 = HOP + layout::HOP_LINK as i16;
/// The length of what the IP packet carries.
pub(super) const LENGTH: i16 = -32;
/// The record's number.
pub(super) const NUMBER: i16 = -40;
/// What fences are made with.
pub(super) const SPARE: i16 = -48;
/// The new ends.
pub(super) const PORTS: i16 = -56;
pub(super) const ADDRESSES: i16 = PORTS - 32;
/// Bytes of a part. A multiple of 8; with the rest of what is on the stack it has to fit into 512 bytes.
pub(super) const PART_LEN: usize = 256;
/// A part of a packet that is summed.
pub(super) const PART: i16 = ADDRESSES - PART_LEN as i16;

pub(super) const CONTEXT: Reg = Reg::R6;
pub(super) const FRAME: Reg = Reg::R7;
pub(super) const FLOW: Reg = Reg::R8;
pub(super) const END: Reg = Reg::R9;
/// All of the packet.
pub(super) const PACKET: Bytes = Bytes {
    start: FRAME,
    end: END,
};

impl Shape {
    pub(in crate::handler) const fn protocol(self) -> u8 {
        if self.tcp {
            protocol::TCP
        } else {
            protocol::UDP
        }
    }

    /// What Ethernet calls it.
    pub(in crate::handler) const fn ethertype(self) -> u16 {
        if self.ipv6 {
            ETHERTYPE_IPV6
        } else {
            ETHERTYPE_IPV4
        }
    }

    pub(in crate::handler) const fn ip_header_len(self) -> usize {
        if self.ipv6 { ipv6::LEN } else { ipv4::LEN }
    }

    /// Where what the IP packet carries begins.
    pub(in crate::handler) const fn upper(self) -> usize {
        IP + self.ip_header_len()
    }

    /// Bytes of its header at least.
    pub(in crate::handler) const fn upper_len(self) -> usize {
        if self.tcp { tcp::LEN } else { udp::LEN }
    }

    /// Where the checksum of TCP or UDP lies.
    pub(in crate::handler) const fn checksum(self) -> usize {
        let field = if self.tcp {
            tcp::CHECKSUM_FIELD
        } else {
            udp::CHECKSUM_FIELD
        };
        self.upper() + field
    }

    /// Where the sender's address lies, and the receiver's behind it.
    pub(in crate::handler) const fn addresses(self) -> usize {
        if self.ipv6 { IP + 8 } else { IP + 12 }
    }

    /// Where the receiver's address lies.
    pub(in crate::handler) const fn receiver(self) -> usize {
        self.addresses() + 2 * self.address_words()
    }

    /// Words of both addresses.
    pub(in crate::handler) const fn address_words(self) -> usize {
        if self.ipv6 { 8 } else { 2 }
    }

    /// Where the number lies of the protocol that the IP packet carries.
    pub(in crate::handler) const fn protocol_field(self) -> usize {
        if self.ipv6 { IP + 6 } else { IP + 9 }
    }

    /// Where the hops that are left lie.
    pub(in crate::handler) const fn hops(self) -> usize {
        if self.ipv6 { IP + 7 } else { IP + 8 }
    }
}
