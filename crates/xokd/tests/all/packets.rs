//! Frames, honest but for what a case changes in them.

use std::net::{IpAddr, SocketAddr};

use exos_wire::Mac;
use exos_wire::checksum::Sum;
use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::ipv6::Ipv6Header;
use exos_wire::udp::UdpHeader;
use exos_wire::{arp, ethernet, ipv4, ipv6, protocol, udp};

/// Where a frame goes and says that it comes from.
#[derive(Clone, Copy, Debug)]
pub struct FrameEnds {
    pub from_mac: Mac,
    pub to_mac: Mac,
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// An Ethernet frame.
pub fn frame(ends: &FrameEnds, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::LEN];
    let header = EthernetHeader {
        dst: ends.to_mac,
        src: ends.from_mac,
        vlan: None,
        ethertype,
    };
    header.emit(&mut frame);
    frame.extend(payload);
    frame
}

/// An IP packet in a frame.
pub fn ip(ends: &FrameEnds, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet;
    let ethertype = match (ends.from.ip(), ends.to.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            packet = vec![0; ipv4::LEN];
            let header = Ipv4Header {
                src,
                dst,
                protocol,
                ttl: 64,
                tos: 0,
                ident: 1,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
            };
            header.emit(payload.len(), &mut packet);
            ETHERTYPE_IPV4
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            packet = vec![0; ipv6::LEN];
            let header = Ipv6Header {
                src,
                dst,
                next_header: protocol,
                hop_limit: 255,
                traffic_class: 0,
                flow_label: 0,
            };
            header.emit(payload.len(), &mut packet);
            ETHERTYPE_IPV6
        }
        _ => panic!("two families: {ends:?}"),
    };
    packet.extend(payload);
    frame(ends, ethertype, &packet)
}

/// A datagram in a frame.
pub fn udp(ends: &FrameEnds, payload: &[u8]) -> Vec<u8> {
    let length = udp::LEN + payload.len();
    let pseudo = Sum::pseudo(ends.from.ip(), ends.to.ip(), protocol::UDP, length as u32);
    let mut datagram = vec![0; udp::LEN];
    let header = UdpHeader {
        src_port: ends.from.port(),
        dst_port: ends.to.port(),
    };
    header.emit(payload.len(), pseudo.plus(Sum::of(payload)), &mut datagram);
    datagram.extend(payload);
    ip(ends, protocol::UDP, &datagram)
}

/// An echo request in a frame, with a mark at its end.
pub fn echo(ends: &FrameEnds, mark: &[u8]) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0, 0, 7, 0, 1];
    message.extend(mark);
    let sum = Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(ends, protocol::ICMP, &message)
}

/// "I have the address of `way.from`", to everybody who asked and did not, and a mark behind it.
pub fn arp(ends: &FrameEnds, operation: u16, mark: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) = (ends.from.ip(), ends.to.ip()) else {
        panic!("ARP is for IPv4")
    };
    let mut payload = vec![0; arp::LEN];
    let packet = arp::ArpPacket {
        operation,
        sender_mac: ends.from_mac,
        sender_ip,
        target_mac: ends.to_mac,
        target_ip,
    };
    packet.emit(&mut payload);
    payload.extend(mark);
    frame(ends, ETHERTYPE_ARP, &payload)
}
