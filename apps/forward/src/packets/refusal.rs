//! Errors of ICMP of our own: they tell the sender of a packet why it did not go on.
//!
//! A packet that does not fit (RFC 1191 §4, RFC 4443 §3.2) and one that has gone over as many hops as it may (RFC 1812 §5.3.1,
//! RFC 4443 §3.3). An error quotes the packet as it came. None is sent about errors, about later fragments, or to an address that
//! is not one host's (RFC 1122 §3.2.2, RFC 4443 §2.4(e)); packets to groups are never forwarded.

use std::net::IpAddr;

use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::icmpv4::{self, Icmpv4};
use exos_wire::icmpv6::{self, Icmpv6};
use exos_wire::ipv4::{self, Ipv4Header};
use exos_wire::ipv6::{self, Ipv6Header};
use exos_wire::protocol;

use crate::limits::{ICMP_ERROR_LEN_MAX, TUNNEL_HOPS};
use crate::packets::endpoint::Address;
use crate::packets::packet::{Packet, Upper};

/// Bytes of an Ethernet header.
const LINK_LEN: usize = 14;

/// Bytes of an ICMP message before what it quotes.
const ICMP_LEN: usize = 8;

/// Why a packet does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is longer than this, and must not be cut.
    TooBig(usize),
    /// It has gone over as many hops as it may.
    HopsOver,
}

impl Refusal {
    /// The frame, without link addresses, that tells a packet's sender; from this address of ours. `None` for packets of which
    /// no errors are sent.
    pub fn answer(self, packet: &Packet, frame: &[u8], from: Address) -> Option<Vec<u8>> {
        let is_first = matches!(packet.upper, Upper::Transport { .. });
        if !is_first || !is_one_host(packet.src) {
            return None;
        }
        let whole = &frame[packet.ip_at.into()..packet.end.into()];
        let around = match packet.src.is_ipv6() {
            true => ipv6::LEN,
            false => ipv4::LEN,
        };
        let most = ICMP_ERROR_LEN_MAX[usize::from(packet.src.is_ipv6())] - around - ICMP_LEN;
        let quoted = &whole[..whole.len().min(most)];
        let mut out = vec![0; LINK_LEN + around + ICMP_LEN + quoted.len()];
        let (link, rest) = out.split_at_mut(LINK_LEN);
        let (ip, message) = rest.split_at_mut(around);
        let ethertype = if let (Some(src), Some(dst)) = (from.v6(), packet.src.v6()) {
            let header = Ipv6Header {
                src,
                dst,
                next_header: protocol::ICMPV6,
                hop_limit: TUNNEL_HOPS,
                traffic_class: 0,
                flow_label: 0,
            };
            header.emit(message.len(), ip);
            self.message_v6(quoted).emit(&src, &dst, message);
            ETHERTYPE_IPV6
        } else {
            let (src, dst) = (from.v4()?, packet.src.v4()?);
            Ipv4Header::atomic(src, dst, protocol::ICMP).emit(message.len(), ip);
            self.message_v4(quoted).emit(message);
            ETHERTYPE_IPV4
        };
        link[12..].copy_from_slice(&ethertype.to_be_bytes());
        Some(out)
    }

    fn message_v4(self, quoted: &[u8]) -> Icmpv4<'_> {
        match self {
            Self::TooBig(mtu) => Icmpv4::Unreachable {
                code: icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED,
                mtu: Some(mtu as u16),
                quoted,
            },
            Self::HopsOver => Icmpv4::TimeExceeded {
                code: icmpv4::TIME_EXCEEDED_TTL,
                quoted,
            },
        }
    }

    fn message_v6(self, quoted: &[u8]) -> Icmpv6<'_> {
        match self {
            Self::TooBig(mtu) => {
                let mtu = mtu as u32;
                Icmpv6::PacketTooBig { mtu, quoted }
            }
            Self::HopsOver => Icmpv6::TimeExceeded {
                code: icmpv6::TIME_EXCEEDED_HOP_LIMIT,
                quoted,
            },
        }
    }
}

/// True for what can be the address of one host, as far as that does not depend on the link (RFC 1122 §3.2.2, RFC 4443
/// §2.4(e.6)).
fn is_one_host(address: Address) -> bool {
    match IpAddr::from(address) {
        // Class E ends with the address of everybody.
        IpAddr::V4(ip) => (1..224).contains(&ip.octets()[0]),
        IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast(),
    }
}
