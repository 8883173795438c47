//! Whole frames of ours that are small and rare: what ARP and NDP ask, answer and announce.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exos_wire::arp::{self, ArpPacket};
use exos_wire::ethernet::{self, ETHERTYPE_ARP, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv6::{self, Ipv6Header};
use exos_wire::ndp::{NeighborAdvertisement, NeighborSolicitation, solicited_node};
use exos_wire::{Mac, protocol};

pub(crate) fn frame_of(from: Mac, to: Mac, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let header = EthernetHeader {
        dst: to,
        src: from,
        vlan: None,
        ethertype,
    };
    let mut frame = vec![0; ethernet::LEN + packet.len()];
    let len = header.emit(&mut frame);
    frame[len..].copy_from_slice(packet);
    frame
}

fn arp_frame(to: Mac, packet: &ArpPacket) -> Vec<u8> {
    let mut bytes = [0; arp::LEN];
    packet.emit(&mut bytes);
    frame_of(packet.sender_mac, to, ETHERTYPE_ARP, &bytes)
}

pub(crate) fn arp_question(
    from: Mac,
    source: Ipv4Addr,
    target: Ipv4Addr,
    to: Option<Mac>,
) -> Vec<u8> {
    let packet = ArpPacket {
        operation: arp::REQUEST,
        sender_mac: from,
        sender_ip: source,
        target_mac: Mac::ZERO,
        target_ip: target,
    };
    arp_frame(to.unwrap_or(Mac::BROADCAST), &packet)
}

pub(super) fn arp_answer(from: Mac, question: &ArpPacket) -> Vec<u8> {
    let packet = ArpPacket {
        operation: arp::REPLY,
        sender_mac: from,
        sender_ip: question.target_ip,
        target_mac: question.sender_mac,
        target_ip: question.sender_ip,
    };
    arp_frame(question.sender_mac, &packet)
}

fn ipv6_frame(macs: (Mac, Mac), src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let header = Ipv6Header {
        src,
        dst,
        next_header: protocol::ICMPV6,
        hop_limit: 255,
        traffic_class: 0,
        flow_label: 0,
    };
    let mut packet = vec![0; ipv6::LEN + message.len()];
    header.emit(message.len(), &mut packet);
    packet[ipv6::LEN..].copy_from_slice(message);
    frame_of(macs.0, macs.1, ETHERTYPE_IPV6, &packet)
}

pub(crate) fn ndp_question(
    from: Mac,
    source: Ipv6Addr,
    target: Ipv6Addr,
    to: Option<Mac>,
) -> Vec<u8> {
    let message = NeighborSolicitation {
        target,
        source_mac: Some(from),
    };
    let dst = if to.is_some() {
        target
    } else {
        solicited_node(&target)
    };
    let mut bytes = vec![0; message.message_len()];
    message.emit(&source, &dst, &mut bytes);
    ipv6_frame(
        (from, to.unwrap_or_else(|| Mac::multicast_v6(&dst))),
        source,
        dst,
        &bytes,
    )
}

/// A message of ours to `to` that says what our link address for `target` is.
pub(super) fn advertisement(
    from: Mac,
    target: Ipv6Addr,
    to: &Ipv6Addr,
    solicited: bool,
) -> Vec<u8> {
    let message = NeighborAdvertisement {
        target,
        router: false,
        solicited,
        override_: true,
        target_mac: Some(from),
    };
    let mut bytes = vec![0; message.message_len()];
    message.emit(&target, to, &mut bytes);
    bytes
}

/// The answer to a solicitation by `asker`; `None` when their link address must be found out first.
/// An unspecified asker looks for duplicates and is answered by multicast (RFC 4861 §7.2.4).
pub(super) fn advertise(
    from: Mac,
    target: Ipv6Addr,
    asker: Ipv6Addr,
    asker_mac: Option<Mac>,
) -> Option<Vec<u8>> {
    let (dst, mac, solicited) = if asker.is_unspecified() {
        (ALL_NODES, Mac::multicast_v6(&ALL_NODES), false)
    } else {
        (asker, asker_mac?, true)
    };
    let bytes = advertisement(from, target, &dst, solicited);
    Some(ipv6_frame((from, mac), target, dst, &bytes))
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Tells everybody our link address for `address`, unasked.
pub(crate) fn announcement(from: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(ip) => arp_question(from, ip, ip, None),
        IpAddr::V6(ip) => {
            let bytes = advertisement(from, ip, &ALL_NODES, false);
            ipv6_frame((from, Mac::multicast_v6(&ALL_NODES)), ip, ALL_NODES, &bytes)
        }
    }
}
