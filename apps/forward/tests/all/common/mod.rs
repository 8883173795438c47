//! Packets built by etherparse, which sums them in full and knows nothing of ours.

pub mod steps;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use etherparse::{
    IpHeaders, Ipv4Options, LaxPacketHeaders, PacketBuilder, TransportHeader, ip_number,
};
use exos_forward::packets::packet::{Packet, Transport};
use exos_wire::{Mac, Sum};

/// Sender and receiver of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ends {
    pub src: SocketAddr,
    pub dst: SocketAddr,
}

impl Ends {
    pub fn of(src: &str, dst: &str) -> Self {
        Self {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
        }
    }
}

/// An end of these bytes: no mapped address, and no port zero.
pub fn mapped(ipv6: bool, bytes: [u8; 16], port: u16) -> SocketAddr {
    let port = port.max(1);
    if ipv6 {
        let mut bytes = bytes;
        bytes[0] |= 0x20;
        (Ipv6Addr::from(bytes), port).into()
    } else {
        let [a, b, c, d, ..] = bytes;
        (Ipv4Addr::new(a.max(1), b, c, d), port).into()
    }
}

/// All else of a packet.
#[derive(Clone, Debug)]
pub struct Shape {
    pub transport: Transport,
    pub payload: Vec<u8>,
    pub hops: u8,
    /// 0: none; 1: of IP (IPv6: an extension header); 2: of TCP.
    pub options: usize,
    /// Bytes of the link behind the packet.
    pub padding: usize,
}

/// A frame to `mac`.
pub fn build(mac: Mac, ends: &Ends, shape: &Shape) -> Vec<u8> {
    let ip = headers(ends, shape);
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], mac.0).ip(ip);
    let (src, dst) = (ends.src.port(), ends.dst.port());
    let mut frame = Vec::new();
    match shape.transport {
        Transport::Tcp => {
            let mut builder = builder.tcp(src, dst, 0x0102_0304, 4000).ack(77).psh();
            if shape.options == 2 {
                let stamps = etherparse::TcpOptionElement::Timestamp(5, 6);
                builder = builder.options(&[stamps]).unwrap();
            }
            builder.write(&mut frame, &shape.payload).unwrap();
        }
        Transport::Udp => builder
            .udp(src, dst)
            .write(&mut frame, &shape.payload)
            .unwrap(),
    }
    frame.resize(frame.len() + shape.padding, 0xee);
    frame
}

fn headers(ends: &Ends, shape: &Shape) -> IpHeaders {
    let number = match shape.transport {
        Transport::Tcp => ip_number::TCP,
        Transport::Udp => ip_number::UDP,
    };
    match (ends.src.ip(), ends.dst.ip()) {
        (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) => {
            let mut header =
                etherparse::Ipv4Header::new(0, shape.hops, number, src.octets(), dst.octets())
                    .unwrap();
            header.identification = 0x1234;
            if shape.options == 1 {
                // No operation, and the end of the list.
                header.options = Ipv4Options::from([1, 1, 1, 0]);
            }
            IpHeaders::Ipv4(header, Default::default())
        }
        (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) => {
            let header = etherparse::Ipv6Header {
                hop_limit: shape.hops,
                next_header: number,
                flow_label: 0x54321.try_into().unwrap(),
                source: src.octets(),
                destination: dst.octets(),
                ..Default::default()
            };
            let mut extensions = etherparse::Ipv6Extensions::default();
            if shape.options == 1 {
                let padding = [1, 4, 0, 0, 0, 0];
                let options = etherparse::Ipv6RawExtHeader::new_raw(number, &padding).unwrap();
                extensions.destination_options = Some(options);
            }
            IpHeaders::Ipv6(header, extensions)
        }
        _ => unreachable!("one family"),
    }
}

/// True when a receiver takes the packet: its checksums are right.
pub fn receive(frame: &[u8]) -> bool {
    let found = LaxPacketHeaders::from_ethernet(frame).unwrap();
    let payload = found.payload.slice();
    match (found.net.unwrap(), found.transport.unwrap()) {
        (etherparse::NetHeaders::Ipv4(ip, _), TransportHeader::Tcp(tcp)) => {
            ip.calc_header_checksum() == ip.header_checksum
                && tcp.calc_checksum_ipv4(&ip, payload).unwrap() == tcp.checksum
        }
        (etherparse::NetHeaders::Ipv4(ip, _), TransportHeader::Udp(udp)) => {
            ip.calc_header_checksum() == ip.header_checksum
                && udp.calc_checksum_ipv4(&ip, payload).unwrap() == udp.checksum
        }
        (etherparse::NetHeaders::Ipv6(ip, _), TransportHeader::Tcp(tcp)) => {
            tcp.calc_checksum_ipv6(&ip, payload).unwrap() == tcp.checksum
        }
        (etherparse::NetHeaders::Ipv6(ip, _), TransportHeader::Udp(udp)) => {
            udp.calc_checksum_ipv6(&ip, payload).unwrap() == udp.checksum
        }
        other => panic!("{other:?}"),
    }
}

/// Leaves only the sum of the pseudo header in the checksum's field, as a kernel does.
pub fn unfinish(frame: &mut [u8], mac: Mac) {
    let packet = Packet::read(frame, mac).unwrap();
    let (transport, ..) = packet.ends().unwrap();
    let len = packet.upper_range().len() as u32;
    let pseudo = Sum::pseudo(
        packet.src.into(),
        packet.dst.into(),
        transport.number(),
        len,
    );
    let at = usize::from(packet.upper_at) + transport.checksum_at();
    frame[at..at + 2].copy_from_slice(&pseudo.value().to_be_bytes());
}
