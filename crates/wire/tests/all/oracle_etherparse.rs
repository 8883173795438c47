//! etherparse reads the same in a frame as we do: in captured ones, generated ones, damaged ones,
//! and ones that it wrote itself.
//!
//! Both sides are brought to one form, [`Frame`], and compared. What etherparse refuses and we take
//! is not compared, nor the other way round: it is stricter in some places (AH) and knows more
//! protocols in others (MACsec, 802.1ad).

use crate::common;
use crate::common::generate;

use std::net::IpAddr;

use common::captured;
use etherparse::{
    IpHeaders, LinkExtSlice, LinkSlice, NetSlice, PacketBuilder, SlicedPacket, TcpOptionElement,
    TransportSlice, ip_number,
};
use exos_testing::Random;
use exos_wire::arp::ArpView;
use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetView};
use exos_wire::icmpv4::Icmpv4View;
use exos_wire::icmpv6::Icmpv6View;
use exos_wire::ipv4::Ipv4View;
use exos_wire::ipv6::Ipv6View;
use exos_wire::tcp::TcpView;
use exos_wire::udp::UdpView;
use exos_wire::{Sum, protocol};
use proptest::prelude::*;

#[derive(Debug, PartialEq)]
struct Frame {
    dst: [u8; 6],
    src: [u8; 6],
    vlan: Option<u16>,
    packet: Packet,
}

#[derive(Debug, PartialEq)]
enum Packet {
    Arp {
        operation: u16,
        sender: ([u8; 6], [u8; 4]),
        target: ([u8; 6], [u8; 4]),
    },
    Ip(Ip),
    Other(u16),
}

#[derive(Debug, PartialEq)]
struct Ip {
    src: IpAddr,
    dst: IpAddr,
    hops: u8,
    class: u8,
    protocol: u8,
    fragmented: bool,
    payload: Vec<u8>,
    upper: Upper,
}

#[derive(Debug, PartialEq)]
enum Upper {
    Tcp {
        ports: (u16, u16),
        seq: u32,
        ack: u32,
        flags: u8,
        window: u16,
        urgent: u16,
        options: Options,
        payload: Vec<u8>,
        intact: bool,
    },
    Udp {
        ports: (u16, u16),
        payload: Vec<u8>,
        intact: bool,
    },
    Icmp {
        kind: u8,
        code: u8,
        rest: u32,
        body: Vec<u8>,
        intact: bool,
    },
    Other,
}

#[derive(Debug, Default, PartialEq)]
struct Options {
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    sack: Vec<(u32, u32)>,
    timestamps: Option<(u32, u32)>,
}

mod ours {
    use super::*;

    pub fn frame(bytes: &[u8]) -> Option<Frame> {
        let frame = EthernetView::parse(bytes).ok()?;
        let packet = match frame.ethertype() {
            ETHERTYPE_ARP => arp(&ArpView::parse(frame.payload()).ok()?),
            ETHERTYPE_IPV4 => ipv4(&Ipv4View::parse(frame.payload()).ok()?)?,
            ETHERTYPE_IPV6 => ipv6(&Ipv6View::parse(frame.payload()).ok()?)?,
            other => Packet::Other(other),
        };
        Some(Frame {
            dst: frame.dst().0,
            src: frame.src().0,
            vlan: frame.vlan(),
            packet,
        })
    }

    fn arp(view: &ArpView<'_>) -> Packet {
        Packet::Arp {
            operation: view.operation(),
            sender: (view.sender_mac().0, view.sender_ip().octets()),
            target: (view.target_mac().0, view.target_ip().octets()),
        }
    }

    fn ipv4(view: &Ipv4View<'_>) -> Option<Packet> {
        let (src, dst) = (view.src().into(), view.dst().into());
        Some(Packet::Ip(Ip {
            src,
            dst,
            hops: view.ttl(),
            class: view.tos(),
            protocol: view.protocol(),
            fragmented: view.is_fragment(),
            payload: view.payload().to_vec(),
            upper: upper(
                src,
                dst,
                view.protocol(),
                view.is_fragment(),
                view.payload(),
            )?,
        }))
    }

    fn ipv6(view: &Ipv6View<'_>) -> Option<Packet> {
        if view.payload_len() == 0 {
            // For etherparse, zero means everything that is there (RFC 2675 and Linux's GSO).
            return None;
        }
        let found = view.upper().ok()?;
        let (src, dst) = (view.src().into(), view.dst().into());
        Some(Packet::Ip(Ip {
            src,
            dst,
            hops: view.hop_limit(),
            class: view.traffic_class(),
            protocol: found.protocol,
            fragmented: found.fragment.is_some(),
            payload: found.payload.to_vec(),
            upper: upper(
                src,
                dst,
                found.protocol,
                found.fragment.is_some(),
                found.payload,
            )?,
        }))
    }

    fn upper(src: IpAddr, dst: IpAddr, number: u8, fragment: bool, bytes: &[u8]) -> Option<Upper> {
        let pseudo = |len: usize| Sum::pseudo(src, dst, number, len as u32);
        Some(match (number, src, dst) {
            _ if fragment => Upper::Other,
            (protocol::TCP, ..) => tcp(&TcpView::parse(bytes).ok()?, pseudo(bytes.len())),
            (protocol::UDP, ..) => {
                let view = UdpView::parse(bytes).ok()?;
                Upper::Udp {
                    ports: (view.src_port(), view.dst_port()),
                    payload: view.payload().to_vec(),
                    intact: view.checksum_ok(pseudo(view.length())),
                }
            }
            (protocol::ICMP, IpAddr::V4(_), _) => {
                let view = Icmpv4View::parse(bytes).ok()?;
                let (kind, code, body) = (view.kind(), view.code(), view.body().to_vec());
                Upper::Icmp {
                    kind,
                    code,
                    rest: view.rest(),
                    body,
                    intact: view.checksum_ok(),
                }
            }
            (protocol::ICMPV6, IpAddr::V6(src), IpAddr::V6(dst)) => {
                let view = Icmpv6View::parse(bytes).ok()?;
                let (kind, code, body) = (view.kind(), view.code(), view.body().to_vec());
                let intact = view.checksum_ok(&src, &dst);
                Upper::Icmp {
                    kind,
                    code,
                    rest: view.rest(),
                    body,
                    intact,
                }
            }
            _ => Upper::Other,
        })
    }

    fn tcp(view: &TcpView<'_>, pseudo: Sum) -> Upper {
        let options = view.options();
        Upper::Tcp {
            ports: (view.src_port(), view.dst_port()),
            seq: view.seq().0,
            ack: view.ack().0,
            flags: view.flags().0,
            window: view.window(),
            urgent: view.urgent(),
            options: Options {
                mss: options.mss,
                window_scale: options.window_scale,
                sack_permitted: options.sack_permitted,
                sack: options
                    .sack
                    .iter()
                    .map(|(left, right)| (left.0, right.0))
                    .collect(),
                timestamps: options.timestamps.map(|t| (t.value, t.echo)),
            },
            payload: view.payload().to_vec(),
            intact: view.checksum_ok(pseudo),
        }
    }
}

mod theirs {
    use super::*;

    pub fn frame(bytes: &[u8]) -> Option<Frame> {
        let sliced = SlicedPacket::from_ethernet(bytes).ok()?;
        let Some(LinkSlice::Ethernet2(ethernet)) = &sliced.link else {
            panic!("no Ethernet")
        };
        let vlan = match sliced.link_exts.as_slice() {
            [] => None,
            [LinkExtSlice::Vlan(tag)] if ethernet.ether_type().0 == 0x8100 => Some(
                u16::from_be_bytes(tag.header_slice()[..2].try_into().unwrap()),
            ),
            _ => return None,
        };
        let last_type = sliced
            .ether_payload()
            .map_or(0, |payload| payload.ether_type.0);
        let packet = match &sliced.net {
            None => Packet::Other(last_type),
            Some(NetSlice::Arp(arp)) => self::arp(arp)?,
            Some(NetSlice::Ipv4(ip)) => {
                let header = ip.header();
                let (src, dst) = (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                );
                let class = header.dcp().value() << 2 | header.ecn().value();
                self::ip(&sliced, src, dst, header.ttl(), class)?
            }
            Some(NetSlice::Ipv6(ip)) => {
                let header = ip.header();
                let (src, dst) = (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                );
                self::ip(
                    &sliced,
                    src,
                    dst,
                    header.hop_limit(),
                    header.traffic_class(),
                )?
            }
        };
        Some(Frame {
            dst: ethernet.destination(),
            src: ethernet.source(),
            vlan,
            packet,
        })
    }

    fn arp(view: &etherparse::ArpPacketSlice<'_>) -> Option<Packet> {
        let arp = view.to_packet().try_eth_ipv4().ok()?;
        Some(Packet::Arp {
            operation: arp.operation.0,
            sender: (arp.sender_mac, arp.sender_ipv4),
            target: (arp.target_mac, arp.target_ipv4),
        })
    }

    fn ip(
        sliced: &SlicedPacket<'_>,
        src: IpAddr,
        dst: IpAddr,
        hops: u8,
        class: u8,
    ) -> Option<Packet> {
        let payload = sliced.net.as_ref()?.ip_payload_ref()?;
        let mut upper = self::upper(src, dst, sliced.transport.as_ref());
        if payload.fragmented {
            upper = Upper::Other;
        }
        Some(Packet::Ip(Ip {
            src,
            dst,
            hops,
            class,
            protocol: payload.ip_number.0,
            fragmented: payload.fragmented,
            payload: payload.payload.to_vec(),
            upper,
        }))
    }

    fn upper(src: IpAddr, dst: IpAddr, transport: Option<&TransportSlice<'_>>) -> Upper {
        match transport {
            Some(TransportSlice::Tcp(tcp)) => self::tcp(src, dst, tcp),
            Some(TransportSlice::Udp(udp)) => {
                let header = udp.to_header();
                let expected = match (src, dst) {
                    (IpAddr::V4(src), IpAddr::V4(dst)) => {
                        header.calc_checksum_ipv4_raw(src.octets(), dst.octets(), udp.payload())
                    }
                    (IpAddr::V6(src), IpAddr::V6(dst)) => {
                        header.calc_checksum_ipv6_raw(src.octets(), dst.octets(), udp.payload())
                    }
                    _ => unreachable!(),
                };
                Upper::Udp {
                    ports: (udp.source_port(), udp.destination_port()),
                    payload: udp.payload().to_vec(),
                    intact: udp.checksum() == 0 || expected == Ok(udp.checksum()),
                }
            }
            // It takes ICMP of one family in packets of the other, which is nonsense.
            Some(TransportSlice::Icmpv4(icmp)) if src.is_ipv4() => Upper::Icmp {
                kind: icmp.type_u8(),
                code: icmp.code_u8(),
                rest: u32::from_be_bytes(icmp.bytes5to8()),
                body: icmp.slice()[8..].to_vec(),
                intact: {
                    // It has no check of its own, only a sum over what is to be sent.
                    let zeroed = [&icmp.slice()[..2], &[0, 0], &icmp.slice()[4..]].concat();
                    let sum = etherparse::checksum::u64_16bit_word::add_slice(0, &zeroed);
                    let sum = etherparse::checksum::u64_16bit_word::ones_complement(sum);
                    sum.to_be() == icmp.checksum()
                },
            },
            Some(TransportSlice::Icmpv6(icmp)) if src.is_ipv6() => Upper::Icmp {
                kind: icmp.type_u8(),
                code: icmp.code_u8(),
                rest: u32::from_be_bytes(icmp.bytes5to8()),
                body: icmp.slice()[8..].to_vec(),
                intact: match (src, dst) {
                    (IpAddr::V6(src), IpAddr::V6(dst)) => {
                        icmp.is_checksum_valid(src.octets(), dst.octets())
                    }
                    _ => unreachable!(),
                },
            },
            _ => Upper::Other,
        }
    }

    fn tcp(src: IpAddr, dst: IpAddr, tcp: &etherparse::TcpSlice<'_>) -> Upper {
        let expected = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                tcp.calc_checksum_ipv4(src.octets(), dst.octets())
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                tcp.calc_checksum_ipv6(src.octets(), dst.octets())
            }
            _ => unreachable!(),
        };
        let flags = [
            tcp.fin(),
            tcp.syn(),
            tcp.rst(),
            tcp.psh(),
            tcp.ack(),
            tcp.urg(),
            tcp.ece(),
            tcp.cwr(),
        ];
        Upper::Tcp {
            ports: (tcp.source_port(), tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.acknowledgment_number(),
            flags: (0..8).map(|bit| u8::from(flags[bit]) << bit).sum(),
            window: tcp.window_size(),
            urgent: tcp.urgent_pointer(),
            options: options(tcp),
            payload: tcp.payload().to_vec(),
            intact: expected == Ok(tcp.checksum()),
        }
    }

    /// It stops at what it does not know; the comparison of damaged frames allows for that.
    fn options(tcp: &etherparse::TcpSlice<'_>) -> Options {
        let mut found = Options::default();
        for option in tcp.options_iterator().map_while(Result::ok) {
            match option {
                TcpOptionElement::Noop => {}
                TcpOptionElement::MaximumSegmentSize(mss) => found.mss = Some(mss),
                TcpOptionElement::WindowScale(shift) => found.window_scale = Some(shift.min(14)),
                TcpOptionElement::SelectiveAcknowledgementPermitted => found.sack_permitted = true,
                TcpOptionElement::Timestamp(value, echo) => found.timestamps = Some((value, echo)),
                TcpOptionElement::SelectiveAcknowledgement(first, others) => {
                    found.sack = std::iter::once(first)
                        .chain(others.into_iter().flatten())
                        .collect();
                }
            }
        }
        found
    }
}

/// True when etherparse could read every TCP option.
fn knows_options(frame: &[u8]) -> bool {
    match SlicedPacket::from_ethernet(frame)
        .ok()
        .and_then(|sliced| sliced.transport)
    {
        Some(TransportSlice::Tcp(tcp)) => tcp.options_iterator().all(|option| option.is_ok()),
        _ => true,
    }
}

/// Compares, and says whether there was anything to compare.
fn agrees(bytes: &[u8], name: &str) -> bool {
    let (Some(mut ours), Some(mut theirs)) = (ours::frame(bytes), theirs::frame(bytes)) else {
        return false;
    };
    if !knows_options(bytes) {
        for side in [&mut ours, &mut theirs] {
            if let Packet::Ip(Ip {
                upper: Upper::Tcp { options, .. },
                ..
            }) = &mut side.packet
            {
                *options = Options::default();
            }
        }
    }
    assert_eq!(ours, theirs, "{name}: {bytes:02x?}");
    true
}

#[test]
fn captured_frames() {
    let frames = captured();
    let compared = frames
        .iter()
        .filter(|frame| agrees(&frame.bytes, &frame.name))
        .count();
    // It reads two tags where we read one: the one frame with an 802.1ad tag is not compared.
    assert_eq!(compared, frames.len() - 1);
}

/// What the kernel sent without offloads is intact. Only a raw socket sends what it is given: one
/// ICMP message was given without a checksum.
#[test]
fn captured_checksums_are_right() {
    let (mut right, mut wrong) = (0, Vec::new());
    for frame in captured() {
        match ours::frame(&frame.bytes).map(|frame| frame.packet) {
            Some(Packet::Ip(Ip {
                upper: Upper::Tcp { intact, .. },
                ..
            }))
            | Some(Packet::Ip(Ip {
                upper: Upper::Udp { intact, .. },
                ..
            }))
            | Some(Packet::Ip(Ip {
                upper: Upper::Icmp { intact, .. },
                ..
            })) => match intact {
                true => right += 1,
                false => wrong.push(frame.name),
            },
            _ => {}
        }
    }
    assert_eq!(wrong, ["errors_ext.pcap:32"]);
    assert!(right > 150, "only {right} frames had a checksum");
}

#[test]
fn damaged_captured_frames() {
    let (mut random, mut compared) = (Random(3), 0);
    for frame in captured() {
        for _ in 0..200 {
            let mut damaged = frame.bytes.clone();
            random.mutate(&mut damaged);
            compared += u32::from(agrees(&damaged, &frame.name));
        }
    }
    assert!(
        compared > 10_000,
        "only {compared} damaged frames were read by both"
    );
}

proptest! {
    #[test]
    fn generated_frames(frame in generate::frame()) {
        // It reads on behind a fragment header and does not know all options, but it reads.
        prop_assert!(theirs::frame(&frame).is_some());
        prop_assert!(agrees(&frame, "generated"));
    }

    /// Written by etherparse: TCP with its options and UDP, over both families, tagged or not.
    #[test]
    fn their_frames(
        (src, dst) in any::<([u8; 6], [u8; 6])>(),
        tag in prop::option::of(0u16..4096),
        v6 in any::<bool>(),
        (a, b) in any::<([u8; 16], [u8; 16])>(),
        (src_port, dst_port, seq, window, ttl) in any::<(u16, u16, u32, u16, u8)>(),
        (mss, shift, value, echo) in any::<(u16, u8, u32, u32)>(),
        tcp in any::<bool>(),
        payload in generate::payload(),
    ) {
        let ethernet = PacketBuilder::ethernet2(src, dst);
        let ip = match v6 {
            true => IpHeaders::Ipv6(
                etherparse::Ipv6Header { source: a, destination: b, hop_limit: ttl, ..Default::default() },
                Default::default(),
            ),
            false => {
                let (a, b) = (a[..4].try_into().unwrap(), b[..4].try_into().unwrap());
                let ip = etherparse::Ipv4Header::new(0, ttl, ip_number::TCP, a, b).unwrap();
                IpHeaders::Ipv4(ip, Default::default())
            }
        };
        let ip = match tag {
            None => ethernet.ip(ip),
            Some(id) => ethernet.single_vlan(id.try_into().unwrap()).ip(ip),
        };
        let mut frame = Vec::new();
        if tcp {
            use TcpOptionElement::{MaximumSegmentSize, Noop, Timestamp, WindowScale};
            let options = [MaximumSegmentSize(mss), WindowScale(shift), Noop, Timestamp(value, echo)];
            let tcp = ip.tcp(src_port, dst_port, seq, window).syn().options(&options).unwrap();
            tcp.write(&mut frame, &payload).unwrap();
        } else {
            ip.udp(src_port, dst_port).write(&mut frame, &payload).unwrap();
        }
        prop_assert!(agrees(&frame, "theirs"));
        let Some(Frame { packet: Packet::Ip(ip), .. }) = ours::frame(&frame) else { panic!() };
        let intact = matches!(ip.upper, Upper::Tcp { intact: true, .. } | Upper::Udp { intact: true, .. });
        prop_assert!(intact, "{ip:?}");
    }
}
