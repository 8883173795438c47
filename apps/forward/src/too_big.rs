//! Packets that do not fit where they are to go: answered, or cut.
//!
//! A sender that has a packet not cut (IPv4's don't fragment, IPv6 always) is told how long it may be, by an error of ICMP (RFC 1191 §4,
//! RFC 4443 §3.2); it sends shorter ones then. Others are cut as routers cut them (RFC 791 §3.2).

use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::icmpv4::{Icmpv4, UNREACHABLE_FRAGMENTATION_NEEDED};
use exos_wire::icmpv6::Icmpv6;
use exos_wire::ipv4::{self, Ipv4Header, Ipv4View};
use exos_wire::ipv6::{self, Ipv6Header};
use exos_wire::{Sum, protocol};

use crate::endpoint::Address;
use crate::limits::{ICMP_ERROR_LEN_MAX, TUNNEL_HOPS};
use crate::packet::{Packet, Upper};
use crate::rewrite::{get16, put16};

/// Bytes of an Ethernet header.
const LINK_LEN: usize = 14;

/// Bytes of an ICMP message before what it quotes.
const ICMP_LEN: usize = 8;

/// Where flags and offset of a fragment are in an IPv4 header, and what is in the upper bits.
const PLACE_AT: usize = 6;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// True for a packet that routers may cut.
pub fn may_be_cut(packet: &Packet, frame: &[u8]) -> bool {
    let place = usize::from(packet.ip_at) + PLACE_AT;
    !packet.src.is_ipv6() && get16(frame, place) & DONT_FRAGMENT == 0
}

/// The frame, without link addresses, that tells a packet's sender how long it may be; from this address of ours. `None`
/// for packets of which no errors are sent (RFC 1122 §3.2.2): errors, and later fragments.
pub fn answer(packet: &Packet, frame: &[u8], from: Address, mtu: usize) -> Option<Vec<u8>> {
    if !matches!(packet.upper, Upper::Transport { .. }) {
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
        let mtu = mtu as u32;
        Icmpv6::PacketTooBig { mtu, quoted }.emit(&src, &dst, message);
        ETHERTYPE_IPV6
    } else {
        let (src, dst) = (from.v4()?, packet.src.v4()?);
        Ipv4Header::atomic(src, dst, protocol::ICMP).emit(message.len(), ip);
        let error = Icmpv4::Unreachable {
            code: UNREACHABLE_FRAGMENTATION_NEEDED,
            mtu: Some(mtu as u16),
            quoted,
        };
        error.emit(message);
        ETHERTYPE_IPV4
    };
    link[12..].copy_from_slice(&ethertype.to_be_bytes());
    Some(out)
}

/// Cuts an IPv4 packet into pieces of at most `mtu` bytes, in their order. One that is itself a piece becomes smaller ones.
///
/// # Panics
///
/// If it is no packet of IPv4, or not eight bytes of it fit beside a header.
pub fn cut(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let view = Ipv4View::parse(packet).expect("a packet that was read");
    let (first, later) = (view.header().to_vec(), later_header(&view));
    let (offset, ends_here) = (view.fragment_offset(), !view.more_fragments());
    let payload = view.payload();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < payload.len() {
        let header = if at == 0 { &first } else { &later };
        let room = (mtu - header.len()) / 8 * 8;
        assert!(room > 0, "an MTU of {mtu} bytes");
        let left = payload.len() - at;
        // The last piece may use all that fits.
        let len = if left <= mtu - header.len() {
            left
        } else {
            room
        };
        let is_last = at + len == payload.len() && ends_here;
        let place = ((offset + at) / 8) as u16 | if is_last { 0 } else { MORE_FRAGMENTS };
        pieces.push(piece(header, place, &payload[at..at + len]));
        at += len;
    }
    pieces
}

/// RFC 791 §3.1: options of which the first bit says so are in all pieces, the others in the first alone.
fn later_header(view: &Ipv4View<'_>) -> Vec<u8> {
    let mut header = view.header()[..ipv4::LEN].to_vec();
    let mut options = view.options();
    while let [kind, rest @ ..] = options {
        let len = match (*kind, rest.first()) {
            (0, _) => break,
            (1, _) => 1,
            (_, Some(&len)) => usize::from(len),
            (_, None) => break,
        };
        if len == 0 || len > options.len() {
            break;
        }
        if kind & 0x80 != 0 {
            header.extend(&options[..len]);
        }
        options = &options[len..];
    }
    header.resize(header.len().next_multiple_of(4), 0);
    header
}

fn piece(header: &[u8], place: u16, payload: &[u8]) -> Vec<u8> {
    let mut piece = [header, payload].concat();
    let len = piece.len() as u16;
    piece[0] = 0x40 | (header.len() / 4) as u8;
    put16(&mut piece, 2, len);
    put16(&mut piece, PLACE_AT, place);
    put16(&mut piece, 10, 0);
    let sum = Sum::of(&piece[..header.len()]).finish();
    put16(&mut piece, 10, sum);
    piece
}
