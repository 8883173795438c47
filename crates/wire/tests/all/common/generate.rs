//! Frames that are right, of every kind that we emit, for proptest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exos_wire::arp::ArpPacket;
use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::icmpv4::Icmpv4;
use exos_wire::icmpv6::Icmpv6;
use exos_wire::ipv4::{self, Ipv4Header};
use exos_wire::ipv6::{self, FragmentHeader, Ipv6Header};
use exos_wire::tcp::{
    self, FastOpenCookie, SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps, options_len,
};
use exos_wire::udp::{self, UdpHeader};
use exos_wire::{Mac, SeqNumber, Sum, protocol};
use proptest::option;
use proptest::prelude::*;

/// Payloads of any length up to a little more than one packet of Ethernet.
pub fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(any::<u8>(), 1440..1480),
    ]
}

/// Options that fit into a header.
pub fn tcp_options() -> impl Strategy<Value = TcpOptions> {
    let timestamps = any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo });
    let cookie = prop::collection::vec(any::<u8>(), 0..=16)
        .prop_filter_map("a cookie's length", |bytes| FastOpenCookie::new(&bytes));
    let sack = prop::collection::vec(any::<(u32, u32)>(), 0..=4).prop_map(|list| {
        let mut sack = SackBlocks::NONE;
        list.iter()
            .for_each(|(l, r)| assert!(sack.push(SeqNumber(*l), SeqNumber(*r))));
        sack
    });
    (
        option::of(any::<u16>()),
        option::of(0u8..=14),
        any::<bool>(),
        option::of(timestamps),
        sack,
        option::weighted(0.2, cookie),
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, timestamps, sack, fast_open)| TcpOptions {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                sack,
                fast_open,
                malformed: false,
            },
        )
        .prop_filter("40 bytes", |options| options_len(options) <= 40)
}

/// Any header.
pub fn tcp_header() -> impl Strategy<Value = TcpHeader> {
    any::<((u16, u16), u32, u32, u8, u16, u16)>().prop_map(
        |((src_port, dst_port), seq, ack, flags, window, urgent)| TcpHeader {
            src_port,
            dst_port,
            seq: SeqNumber(seq),
            ack: SeqNumber(ack),
            flags: TcpFlags(flags),
            window,
            urgent,
        },
    )
}

/// What an IP packet carries.
#[derive(Clone, Debug)]
pub enum Carried {
    /// A TCP segment.
    Tcp(TcpHeader, TcpOptions),
    /// A UDP datagram.
    Udp(UdpHeader),
    /// An echo request or reply.
    Echo {
        /// Reply.
        reply: bool,
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
    },
    /// A packet too big, or fragmentation needed.
    TooBig(u16),
    /// An unreachable port.
    Unreachable,
}

impl Carried {
    fn any() -> impl Strategy<Value = Self> {
        let udp = any::<(u16, u16)>()
            .prop_map(|(src_port, dst_port)| Self::Udp(UdpHeader { src_port, dst_port }));
        let echo = any::<(bool, u16, u16)>().prop_map(|(reply, ident, seq)| Self::Echo {
            reply,
            ident,
            seq,
        });
        prop_oneof![
            4 => (tcp_header(), tcp_options()).prop_map(|(header, options)| Self::Tcp(header, options)),
            2 => udp,
            1 => echo,
            1 => (1u16..).prop_map(Self::TooBig),
            1 => Just(Self::Unreachable),
        ]
    }

    /// The protocol number and the bytes, checksum included.
    fn emit(&self, src: IpAddr, dst: IpAddr, payload: &[u8]) -> (u8, Vec<u8>) {
        let mut out = vec![0; 60 + payload.len()];
        let pseudo = |protocol, len: usize| Sum::pseudo(src, dst, protocol, len as u32);
        let (number, len) = match self {
            Self::Tcp(header, options) => {
                let len = tcp::LEN + options_len(options) + payload.len();
                let sum = pseudo(protocol::TCP, len).plus(Sum::of(payload));
                let head = header.emit_with_checksum(options, sum, &mut out);
                (protocol::TCP, head)
            }
            Self::Udp(header) => {
                let len = udp::LEN + payload.len();
                let sum = pseudo(protocol::UDP, len).plus(Sum::of(payload));
                (protocol::UDP, header.emit(payload.len(), sum, &mut out))
            }
            _ => return self.emit_icmp(src, dst, payload),
        };
        out.truncate(len);
        out.extend(payload);
        (number, out)
    }

    fn emit_icmp(&self, src: IpAddr, dst: IpAddr, data: &[u8]) -> (u8, Vec<u8>) {
        match (src, dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let message = self.icmpv6(data);
                let mut out = vec![0; message.message_len()];
                message.emit(&src, &dst, &mut out);
                (protocol::ICMPV6, out)
            }
            _ => {
                let message = self.icmpv4(data);
                let mut out = vec![0; message.message_len()];
                message.emit(&mut out);
                (protocol::ICMP, out)
            }
        }
    }

    fn icmpv4<'a>(&self, data: &'a [u8]) -> Icmpv4<'a> {
        match *self {
            Self::Echo {
                reply: false,
                ident,
                seq,
            } => Icmpv4::EchoRequest { ident, seq, data },
            Self::Echo {
                reply: true,
                ident,
                seq,
            } => Icmpv4::EchoReply { ident, seq, data },
            Self::TooBig(mtu) => Icmpv4::Unreachable {
                code: 4,
                mtu: Some(mtu),
                quoted: data,
            },
            _ => Icmpv4::Unreachable {
                code: 3,
                mtu: None,
                quoted: data,
            },
        }
    }

    fn icmpv6<'a>(&self, data: &'a [u8]) -> Icmpv6<'a> {
        match *self {
            Self::Echo {
                reply: false,
                ident,
                seq,
            } => Icmpv6::EchoRequest { ident, seq, data },
            Self::Echo {
                reply: true,
                ident,
                seq,
            } => Icmpv6::EchoReply { ident, seq, data },
            Self::TooBig(mtu) => Icmpv6::PacketTooBig {
                mtu: mtu.into(),
                quoted: data,
            },
            _ => Icmpv6::Unreachable {
                code: 4,
                quoted: data,
            },
        }
    }
}

/// A packet that is no fragment.
pub fn ipv4_packet() -> impl Strategy<Value = Vec<u8>> {
    let header = any::<(u32, u32, u8, u8, u16, bool)>();
    (header, Carried::any(), payload()).prop_map(
        |((src, dst, ttl, tos, ident, df), carried, payload)| {
            let (src, dst) = (Ipv4Addr::from_bits(src), Ipv4Addr::from_bits(dst));
            let (protocol, bytes) = carried.emit(src.into(), dst.into(), &payload);
            let header = Ipv4Header {
                src,
                dst,
                protocol,
                ttl,
                tos,
                ident,
                dont_fragment: df,
                more_fragments: false,
                fragment_offset: 0,
            };
            let mut packet = vec![0; ipv4::LEN];
            header.emit(bytes.len(), &mut packet);
            packet.extend(bytes);
            packet
        },
    )
}

fn ipv4_fragment() -> impl Strategy<Value = Vec<u8>> {
    (any::<(u16, bool)>(), 0usize..0x2000, payload()).prop_map(|((ident, more), place, payload)| {
        let header = Ipv4Header {
            src: Ipv4Addr::new(192, 0, 2, 1),
            dst: Ipv4Addr::new(192, 0, 2, 2),
            protocol: protocol::UDP,
            ttl: 64,
            tos: 0,
            ident,
            dont_fragment: false,
            // One of both makes it a fragment.
            more_fragments: more || place == 0,
            fragment_offset: place * 8,
        };
        let mut packet = vec![0; ipv4::LEN];
        header.emit(payload.len(), &mut packet);
        packet.extend(payload);
        packet
    })
}

/// Up to three extension headers before what is carried; the last may be a fragment header.
fn ipv6_packet() -> impl Strategy<Value = Vec<u8>> {
    let extensions = (
        any::<bool>(),
        0usize..3,
        option::weighted(0.3, any::<(u16, bool, u32)>()),
    );
    let header = (any::<(u128, u128, u8, u8)>(), 0u32..0x10_0000);
    (header, extensions, Carried::any(), payload()).prop_map(
        |(((src, dst, hop_limit, traffic_class), flow_label), extensions, carried, payload)| {
            let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
            let (protocol, bytes) = carried.emit(src.into(), dst.into(), &payload);
            let (next_header, body) = extend(extensions, protocol, bytes);
            let header = Ipv6Header {
                src,
                dst,
                next_header,
                hop_limit,
                traffic_class,
                flow_label,
            };
            let mut packet = vec![0; ipv6::LEN];
            header.emit(body.len(), &mut packet);
            packet.extend(body);
            packet
        },
    )
}

type Extensions = (bool, usize, Option<(u16, bool, u32)>);

fn extend((hop_by_hop, options, fragment): Extensions, last: u8, bytes: Vec<u8>) -> (u8, Vec<u8>) {
    let (mut next, mut body) = (last, bytes);
    if let Some((offset, more, ident)) = fragment {
        let header = FragmentHeader {
            next_header: next,
            offset: usize::from(offset & 0xfff8),
            more,
            ident,
        };
        let mut out = vec![0; ipv6::FRAGMENT_LEN];
        header.emit(&mut out);
        (next, body) = (protocol::FRAGMENT, [out, body].concat());
    }
    let mut prepend = |kind, words: u8| {
        let len = usize::from(words) * 8;
        let mut header = vec![0; len];
        header[..4].copy_from_slice(&[next, words - 1, 1, (len - 4) as u8]);
        (next, body) = (kind, [header, std::mem::take(&mut body)].concat());
    };
    for words in 1..=options as u8 {
        prepend(protocol::DESTINATION_OPTIONS, words);
    }
    if hop_by_hop {
        prepend(protocol::HOP_BY_HOP, 1);
    }
    (next, body)
}

/// Any ARP packet.
pub fn arp_packet() -> impl Strategy<Value = ArpPacket> {
    any::<(u16, [u8; 6], u32, [u8; 6], u32)>().prop_map(
        |(operation, sender_mac, sender_ip, target_mac, target_ip)| ArpPacket {
            operation,
            sender_mac: Mac(sender_mac),
            sender_ip: sender_ip.into(),
            target_mac: Mac(target_mac),
            target_ip: target_ip.into(),
        },
    )
}

/// Any Ethernet header around a packet of the given type.
pub fn ethernet_header(ethertype: u16) -> impl Strategy<Value = EthernetHeader> {
    (any::<([u8; 6], [u8; 6])>(), option::of(any::<u16>())).prop_map(move |((dst, src), vlan)| {
        EthernetHeader {
            dst: Mac(dst),
            src: Mac(src),
            vlan,
            ethertype,
        }
    })
}

/// Any frame.
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    let arp = arp_packet().prop_map(|packet| {
        let mut out = vec![0; 28];
        packet.emit(&mut out);
        out
    });
    let packets = prop_oneof![
        1 => (Just(ETHERTYPE_ARP), arp.boxed()),
        4 => (Just(ETHERTYPE_IPV4), ipv4_packet().boxed()),
        1 => (Just(ETHERTYPE_IPV4), ipv4_fragment().boxed()),
        5 => (Just(ETHERTYPE_IPV6), ipv6_packet().boxed()),
    ];
    packets.prop_flat_map(|(ethertype, packet)| {
        ethernet_header(ethertype).prop_map(move |header| {
            let mut out = vec![0; header.header_len()];
            header.emit(&mut out);
            out.extend(&packet);
            out
        })
    })
}
