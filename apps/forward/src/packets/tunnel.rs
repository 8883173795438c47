//! Packets wrapped in others, to servers anywhere that answer clients by themselves: IP in IP (RFC 2003, RFC 2473).
//!
//! What is within keeps all that it has but for a hop. What is around it:
//!
//! | field | is |
//! |---|---|
//! | source, destination | the address of ours on the way to the server, the server's own |
//! | DSCP and ECN | those within (RFC 2983 §4, the uniform model; RFC 6040 §4.1, normal mode) |
//! | hops | 64: the tunnel is one hop, however long |
//! | don't fragment (IPv4) | as within (RFC 2003 §3.1); then the identification means nothing, else it is made again |
//! | flow label (IPv6) | the one within, so that a flow stays on one way (RFC 6438) |
//!
//! A router on the way to a server that cannot pass a packet on tells us, who are its sender ([`TooBig`]). For ten minutes no
//! longer packets go there then ([`Paths`], RFC 1191 §6.3), and clients are told in time.

use std::collections::HashMap;

use exos_inet::Instant;
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::icmpv4::{self, Icmpv4View};
use exos_wire::icmpv6::{self, Icmpv6View};
use exos_wire::ipv4::{self, Ipv4Header, Ipv4View};
use exos_wire::ipv6::{self, Ipv6Header, Ipv6View};
use exos_wire::protocol::{IPV4_IN_IP, IPV6_IN_IP};

use crate::limits::{PATH_MTU_MIN, PATH_MTU_TIME, TUNNEL_HOPS};
use crate::packets::endpoint::Address;
use crate::packets::packet::{Packet, Upper};

/// Bytes of an Ethernet header.
const LINK_LEN: usize = 14;

/// From us to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The address of ours.
    pub from: Address,
    /// The server's, of the same family.
    pub to: Address,
}

/// Bytes that wrapping a packet of this family adds.
pub const fn overhead(ipv6: bool) -> usize {
    if ipv6 { ipv6::LEN } else { ipv4::LEN }
}

impl Tunnel {
    /// Wraps a packet of the tunnel's family: a frame without link addresses. `ident` is used for packets that may be fragmented.
    ///
    /// # Panics
    ///
    /// If the packet is not one, or of another family.
    pub fn wrap(&self, packet: &[u8], ident: u16) -> Vec<u8> {
        let around = LINK_LEN + overhead(self.to.is_ipv6());
        let mut frame = vec![0; around + packet.len()];
        frame[around..].copy_from_slice(packet);
        let ethertype = if self.to.is_ipv6() {
            self.emit_v6(packet, &mut frame[LINK_LEN..around]);
            ETHERTYPE_IPV6
        } else {
            self.emit_v4(packet, ident, &mut frame[LINK_LEN..around]);
            ETHERTYPE_IPV4
        };
        frame[12..LINK_LEN].copy_from_slice(&ethertype.to_be_bytes());
        frame
    }

    fn emit_v4(&self, packet: &[u8], ident: u16, out: &mut [u8]) {
        let within = Ipv4View::parse(packet).expect("a packet that was read");
        let header = Ipv4Header {
            src: self.from.v4().expect("of one family"),
            dst: self.to.v4().expect("of one family"),
            protocol: IPV4_IN_IP,
            ttl: TUNNEL_HOPS,
            tos: within.tos(),
            ident: if within.dont_fragment() { 0 } else { ident },
            dont_fragment: within.dont_fragment(),
            more_fragments: false,
            fragment_offset: 0,
        };
        header.emit(packet.len(), out);
    }

    fn emit_v6(&self, packet: &[u8], out: &mut [u8]) {
        let within = Ipv6View::parse(packet).expect("a packet that was read");
        let header = Ipv6Header {
            src: self.from.v6().expect("of one family"),
            dst: self.to.v6().expect("of one family"),
            next_header: IPV6_IN_IP,
            hop_limit: TUNNEL_HOPS,
            traffic_class: within.traffic_class(),
            flow_label: within.flow_label(),
        };
        header.emit(packet.len(), out);
    }
}

/// A router's word that a packet in a tunnel was too long for the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// The tunnel that the packet was in.
    pub tunnel: Tunnel,
    /// What would have passed.
    pub mtu: usize,
}

impl TooBig {
    /// Reads one; `None` for anything else.
    pub fn read(packet: &Packet, frame: &[u8]) -> Option<Self> {
        if packet.upper != Upper::Icmp || packet.fragment.is_some() {
            return None;
        }
        let message = &frame[packet.upper_range()];
        if packet.src.is_ipv6() {
            Self::read_v6(packet, message)
        } else {
            Self::read_v4(message)
        }
    }

    fn read_v4(message: &[u8]) -> Option<Self> {
        let view = Icmpv4View::parse(message).ok()?;
        let is_it = view.kind() == icmpv4::UNREACHABLE
            && view.code() == icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED;
        let quoted = Ipv4View::parse_quoted(view.quoted()).ok()?;
        // RFC 1191 §4: the low half; routers older than it say zero, of which nothing can be made.
        let mtu = (view.rest() & 0xffff) as usize;
        let said = is_it && mtu > 0 && quoted.protocol() == IPV4_IN_IP && view.checksum_ok();
        said.then(|| Self {
            tunnel: Tunnel {
                from: quoted.src().into(),
                to: quoted.dst().into(),
            },
            mtu,
        })
    }

    fn read_v6(packet: &Packet, message: &[u8]) -> Option<Self> {
        let view = Icmpv6View::parse(message).ok()?;
        let quoted = Ipv6View::parse_quoted(view.quoted()).ok()?;
        let (src, dst) = (packet.src.v6()?, packet.dst.v6()?);
        let said = view.kind() == icmpv6::PACKET_TOO_BIG
            && quoted.next_header() == IPV6_IN_IP
            && view.checksum_ok(&src, &dst);
        said.then(|| Self {
            tunnel: Tunnel {
                from: quoted.src().into(),
                to: quoted.dst().into(),
            },
            mtu: view.rest() as usize,
        })
    }
}

/// How long packets may be, headers around them included: on our link, and on ways of which a router has said so.
#[derive(Debug)]
pub struct Paths {
    link: usize,
    /// By the server's address, of which there are no more than servers.
    known: HashMap<Address, (usize, Instant)>,
}

impl Paths {
    /// Ways that begin on a link that takes packets of this many bytes.
    pub fn new(link: usize) -> Self {
        Self {
            link,
            known: HashMap::new(),
        }
    }

    /// The longest packet to this address.
    pub fn mtu(&self, now: Instant, to: Address) -> usize {
        match self.known.get(&to) {
            Some(&(mtu, until)) if now < until => mtu,
            _ => self.link,
        }
    }

    /// A router said so. Nobody makes packets shorter than [`PATH_MTU_MIN`] by that, nor longer.
    pub fn learn(&mut self, now: Instant, to: Address, mtu: usize) {
        let least = PATH_MTU_MIN[usize::from(to.is_ipv6())];
        let mtu = mtu.max(least).min(self.mtu(now, to));
        self.known.insert(to, (mtu, now + PATH_MTU_TIME));
    }
}
