//! Packets that do not fit where they are to go: cut, where they may be.
//!
//! A sender that has a packet not cut (IPv4's don't fragment, IPv6 always) is told how long it may be ([`refusal`](crate::packets::refusal)); it
//! sends shorter ones then. Others are cut as routers cut them (RFC 791 §3.2).

use exos_wire::Sum;
use exos_wire::ethernet;
use exos_wire::ipv4::{self, Ipv4View};

use crate::packets::packet::Packet;
use crate::packets::rewrite::{get16, put16};

/// Where flags and offset of a fragment are in an IPv4 header, and what is in the upper bits.
const PLACE_AT: usize = 6;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// True for a packet that routers may cut.
pub fn may_be_cut(packet: &Packet, frame: &[u8]) -> bool {
    let place = usize::from(packet.ip_at) + PLACE_AT;
    !packet.src.is_ipv6() && get16(frame, place) & DONT_FRAGMENT == 0
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

/// A packet of IPv4 as a frame, without link addresses.
pub fn framed(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::LEN];
    frame[12..].copy_from_slice(&ethernet::ETHERTYPE_IPV4.to_be_bytes());
    frame.extend_from_slice(packet);
    frame
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
