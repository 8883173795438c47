//! smoltcp reads the same in a frame as we do, and finds the same checksums right; neighbour
//! discovery messages go both ways.
//!
//! It reads no VLAN tags, which are taken out here, and no chain of IPv6 extension headers, which
//! etherparse is the oracle for.

use crate::common;
use crate::common::generate;

use std::net::{IpAddr, Ipv6Addr};

use common::captured;
use exos_testing::Random;
use exos_wire::arp::ArpView;
use exos_wire::ethernet::EthernetView;
use exos_wire::icmpv4::Icmpv4View;
use exos_wire::icmpv6::{Icmpv6, Icmpv6View};
use exos_wire::ipv4::Ipv4View;
use exos_wire::ipv6::Ipv6View;
use exos_wire::ndp::{
    NeighborAdvertisement, NeighborSolicitation, PrefixInformation, Prefixes, RouterAdvertisement,
    RouterSolicitation,
};
use exos_wire::tcp::{TcpOptions, TcpView, Timestamps};
use exos_wire::udp::UdpView;
use exos_wire::{Mac, SeqNumber, Sum};
use proptest::option;
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpPacket, ArpRepr, EthernetFrame, EthernetProtocol, Icmpv4Packet, Icmpv6Packet, Icmpv6Repr,
    IpProtocol, Ipv4Packet, Ipv6Packet, NdiscNeighborFlags, NdiscPrefixInfoFlags, NdiscRepr,
    NdiscRouterFlags, RawHardwareAddress, TcpOption, TcpPacket, UdpPacket,
};

/// Compares a frame; says whether both took it. Where only one does, nothing is compared.
fn agrees(bytes: &[u8]) -> bool {
    let Ok(ours) = EthernetView::parse(bytes) else {
        assert!(bytes.len() < 18);
        return false;
    };
    let untagged = match ours.vlan() {
        None => bytes.to_vec(),
        Some(_) => [&bytes[..12], &bytes[16..]].concat(),
    };
    let theirs = EthernetFrame::new_checked(&untagged[..]).unwrap();
    assert_eq!(
        (ours.dst().0, ours.src().0),
        (theirs.dst_addr().0, theirs.src_addr().0)
    );
    assert_eq!(ours.ethertype(), u16::from(theirs.ethertype()));
    assert_eq!(ours.payload(), theirs.payload());
    match theirs.ethertype() {
        EthernetProtocol::Arp => arp(ours.payload()),
        EthernetProtocol::Ipv4 => ipv4(ours.payload()),
        EthernetProtocol::Ipv6 => ipv6(ours.payload()),
        _ => true,
    }
}

fn arp(payload: &[u8]) -> bool {
    let theirs = ArpPacket::new_checked(payload).and_then(|packet| ArpRepr::parse(&packet));
    let (Ok(ours), Ok(theirs)) = (ArpView::parse(payload), theirs) else {
        return false;
    };
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr,
        target_hardware_addr,
        target_protocol_addr,
    } = theirs
    else {
        panic!("{theirs:?}")
    };
    assert_eq!(ours.operation(), u16::from(operation));
    assert_eq!(
        (ours.sender_mac().0, ours.sender_ip()),
        (source_hardware_addr.0, source_protocol_addr)
    );
    assert_eq!(
        (ours.target_mac().0, ours.target_ip()),
        (target_hardware_addr.0, target_protocol_addr)
    );
    true
}

fn ipv4(payload: &[u8]) -> bool {
    let (Ok(ours), Ok(theirs)) = (Ipv4View::parse(payload), Ipv4Packet::new_checked(payload))
    else {
        return false;
    };
    assert_eq!(
        (ours.src(), ours.dst()),
        (theirs.src_addr(), theirs.dst_addr())
    );
    assert_eq!(
        (ours.ttl(), ours.protocol()),
        (theirs.hop_limit(), theirs.next_header().into())
    );
    assert_eq!(ours.tos(), theirs.dscp() << 2 | theirs.ecn());
    assert_eq!(ours.ident(), theirs.ident());
    assert_eq!(ours.dont_fragment(), theirs.dont_frag());
    assert_eq!(ours.more_fragments(), theirs.more_frags());
    assert_eq!(ours.fragment_offset(), usize::from(theirs.frag_offset()));
    assert_eq!(ours.header_len(), usize::from(theirs.header_len()));
    assert_eq!(ours.header_checksum_ok(), theirs.verify_checksum());
    assert_eq!(ours.payload(), theirs.payload());
    let (src, dst) = (ours.src().into(), ours.dst().into());
    ours.is_fragment() || upper(src, dst, theirs.next_header(), ours.payload())
}

fn ipv6(payload: &[u8]) -> bool {
    let (Ok(ours), Ok(theirs)) = (Ipv6View::parse(payload), Ipv6Packet::new_checked(payload))
    else {
        return false;
    };
    assert_eq!(
        (ours.src(), ours.dst()),
        (theirs.src_addr(), theirs.dst_addr())
    );
    assert_eq!(ours.hop_limit(), theirs.hop_limit());
    assert_eq!(ours.next_header(), u8::from(theirs.next_header()));
    assert_eq!(ours.traffic_class(), theirs.traffic_class());
    assert_eq!(ours.flow_label(), theirs.flow_label());
    assert_eq!(ours.payload(), theirs.payload());
    upper(
        ours.src().into(),
        ours.dst().into(),
        theirs.next_header(),
        ours.payload(),
    )
}

fn upper(src: IpAddr, dst: IpAddr, protocol: IpProtocol, payload: &[u8]) -> bool {
    let pseudo = |len: usize| Sum::pseudo(src, dst, protocol.into(), len as u32);
    match (protocol, src, dst) {
        (IpProtocol::Tcp, ..) => tcp(src, dst, pseudo(payload.len()), payload),
        (IpProtocol::Udp, ..) => {
            let (Ok(ours), Ok(theirs)) = (UdpView::parse(payload), UdpPacket::new_checked(payload))
            else {
                return false;
            };
            assert_eq!(
                (ours.src_port(), ours.dst_port()),
                (theirs.src_port(), theirs.dst_port())
            );
            assert_eq!(
                (ours.length(), ours.payload()),
                (theirs.len().into(), theirs.payload())
            );
            let intact = theirs.verify_checksum(&src.into(), &dst.into());
            assert_eq!(
                ours.checksum_ok(pseudo(ours.length())),
                intact || ours.checksum() == 0
            );
            true
        }
        (IpProtocol::Icmp, IpAddr::V4(_), _) => {
            let theirs = Icmpv4Packet::new_checked(payload);
            let (Ok(ours), Ok(theirs)) = (Icmpv4View::parse(payload), theirs) else {
                return false;
            };
            assert_eq!(
                (ours.kind(), ours.code()),
                (theirs.msg_type().into(), theirs.msg_code())
            );
            assert_eq!(ours.checksum_ok(), theirs.verify_checksum());
            assert_eq!(
                (ours.ident(), ours.seq()),
                (theirs.echo_ident(), theirs.echo_seq_no())
            );
            true
        }
        (IpProtocol::Icmpv6, IpAddr::V6(src), IpAddr::V6(dst)) => icmpv6(&src, &dst, payload),
        _ => true,
    }
}

fn tcp(src: IpAddr, dst: IpAddr, pseudo: Sum, payload: &[u8]) -> bool {
    let (Ok(ours), Ok(theirs)) = (TcpView::parse(payload), TcpPacket::new_checked(payload)) else {
        return false;
    };
    assert_eq!(
        (ours.src_port(), ours.dst_port()),
        (theirs.src_port(), theirs.dst_port())
    );
    assert_eq!(ours.seq().0, theirs.seq_number().0.cast_unsigned());
    assert_eq!(ours.ack().0, theirs.ack_number().0.cast_unsigned());
    let flags = [
        theirs.fin(),
        theirs.syn(),
        theirs.rst(),
        theirs.psh(),
        theirs.ack(),
        theirs.urg(),
    ];
    let flags: u8 = (0..6).map(|bit| u8::from(flags[bit]) << bit).sum();
    assert_eq!(ours.flags().0 & 0x3f, flags);
    assert_eq!(
        (ours.window(), ours.urgent()),
        (theirs.window_len(), theirs.urgent_at())
    );
    assert_eq!(ours.header_len(), usize::from(theirs.header_len()));
    assert_eq!(
        (ours.options_bytes(), ours.payload()),
        (theirs.options(), theirs.payload())
    );
    assert_eq!(
        ours.checksum_ok(pseudo),
        theirs.verify_checksum(&src.into(), &dst.into())
    );
    assert_eq!(ours.seq_len() as usize, theirs.segment_len());
    options(ours.options(), theirs.options())
}

/// smoltcp refuses a list with any bad option in it, and reads at most three SACK blocks.
fn options(ours: TcpOptions, mut rest: &[u8]) -> bool {
    let (mut theirs, mut sack) = (TcpOptions::NONE, None);
    while !rest.is_empty() {
        let Ok((after, option)) = TcpOption::parse(rest) else {
            return false;
        };
        rest = after;
        match option {
            TcpOption::EndOfList => break,
            TcpOption::NoOperation | TcpOption::Unknown { .. } => {}
            TcpOption::MaxSegmentSize(mss) => theirs.mss = Some(mss),
            TcpOption::WindowScale(shift) => theirs.window_scale = Some(shift.min(14)),
            TcpOption::SackPermitted => theirs.sack_permitted = true,
            TcpOption::TimeStamp { tsval, tsecr } => {
                theirs.timestamps = Some(Timestamps {
                    value: tsval,
                    echo: tsecr,
                });
            }
            TcpOption::SackRange(ranges) => sack = Some(ranges),
        }
    }
    assert_eq!(ours.mss, theirs.mss);
    assert_eq!(ours.window_scale, theirs.window_scale);
    assert_eq!(ours.sack_permitted, theirs.sack_permitted);
    // To smoltcp a timestamp of another length is unknown; to us it is malformed.
    assert_eq!(ours.timestamps, theirs.timestamps);
    if !ours.malformed {
        let ranges = sack.into_iter().flatten().flatten();
        let expected: Vec<_> = ranges.map(|(l, r)| (SeqNumber(l), SeqNumber(r))).collect();
        assert_eq!(ours.sack.as_slice()[..ours.sack.len().min(3)], expected);
    }
    true
}

fn icmpv6(src: &Ipv6Addr, dst: &Ipv6Addr, payload: &[u8]) -> bool {
    let (Ok(ours), Ok(theirs)) = (
        Icmpv6View::parse(payload),
        Icmpv6Packet::new_checked(payload),
    ) else {
        return false;
    };
    assert_eq!(
        (ours.kind(), ours.code()),
        (theirs.msg_type().into(), theirs.msg_code())
    );
    assert_eq!(ours.checksum_ok(src, dst), theirs.verify_checksum(src, dst));
    let repr = Icmpv6Repr::parse(src, dst, &theirs, &ChecksumCapabilities::ignored());
    match (ours.message(), repr) {
        (Ok(message), Ok(Icmpv6Repr::Ndisc(theirs))) => match ndisc(&message) {
            // Of an option that comes twice, we take the first and smoltcp the last.
            Some(ours) if !repeats_option(payload) => assert_eq!(ours, masked(theirs)),
            _ => {}
        },
        (Ok(Icmpv6::EchoRequest { ident, seq, data }), Ok(repr)) => {
            assert_eq!(
                repr,
                Icmpv6Repr::EchoRequest {
                    ident,
                    seq_no: seq,
                    data
                }
            );
        }
        (Ok(Icmpv6::EchoReply { ident, seq, data }), Ok(repr)) => {
            assert_eq!(
                repr,
                Icmpv6Repr::EchoReply {
                    ident,
                    seq_no: seq,
                    data
                }
            );
        }
        (Ok(Icmpv6::PacketTooBig { mtu, .. }), Ok(Icmpv6Repr::PktTooBig { mtu: theirs, .. })) => {
            assert_eq!(mtu, theirs);
        }
        (Ok(_), Ok(_)) => {}
        // It refuses errors whose quotation it cannot read.
        (Ok(_), Err(_)) => return ours.is_error(),
        (Err(_), _) => return false,
    }
    true
}

/// It leaves bits beyond the prefix length to the reader, and so lengths beyond 128.
fn masked(mut repr: NdiscRepr<'_>) -> NdiscRepr<'_> {
    if let NdiscRepr::RouterAdvert { prefix_info, .. } = &mut repr {
        *prefix_info = prefix_info.take().filter(|info| info.prefix_len <= 128);
        if let Some(info) = prefix_info {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(info.prefix_len))
                .unwrap_or(0);
            info.prefix = Ipv6Addr::from_bits(info.prefix.to_bits() & mask);
        }
    }
    repr
}

fn repeats_option(message: &[u8]) -> bool {
    let fixed = if message[0] == 134 { 16 } else { 24 };
    let options = exos_wire::ndp::NdpOptions::new(message.get(fixed..).unwrap_or_default());
    let mut kinds: Vec<_> = options.flatten().map(|option| option.kind).collect();
    kinds.sort_unstable();
    kinds.windows(2).any(|pair| pair[0] == pair[1])
}

/// One of our messages as smoltcp would have it; None when it cannot say it.
fn ndisc(message: &Icmpv6<'_>) -> Option<NdiscRepr<'static>> {
    let address = |mac: Option<Mac>| mac.map(|mac| RawHardwareAddress::from_bytes(&mac.0));
    Some(match message {
        Icmpv6::RouterSolicitation(m) => NdiscRepr::RouterSolicit {
            lladdr: address(m.source_mac),
        },
        Icmpv6::NeighborSolicitation(m) => NdiscRepr::NeighborSolicit {
            target_addr: m.target,
            lladdr: address(m.source_mac),
        },
        Icmpv6::NeighborAdvertisement(m) => {
            let mut flags = NdiscNeighborFlags::empty();
            flags.set(NdiscNeighborFlags::ROUTER, m.router);
            flags.set(NdiscNeighborFlags::SOLICITED, m.solicited);
            flags.set(NdiscNeighborFlags::OVERRIDE, m.override_);
            NdiscRepr::NeighborAdvert {
                flags,
                target_addr: m.target,
                lladdr: address(m.target_mac),
            }
        }
        Icmpv6::RouterAdvertisement(m) => {
            let prefix_info = match m.prefixes.as_slice() {
                [] => None,
                [prefix] => Some(prefix_info(prefix)),
                _ => return None,
            };
            let mut flags = NdiscRouterFlags::empty();
            flags.set(NdiscRouterFlags::MANAGED, m.managed);
            flags.set(NdiscRouterFlags::OTHER, m.other_config);
            NdiscRepr::RouterAdvert {
                hop_limit: m.hop_limit,
                flags,
                router_lifetime: smoltcp::time::Duration::from_secs(m.lifetime_secs.into()),
                reachable_time: smoltcp::time::Duration::from_millis(m.reachable_ms.into()),
                retrans_time: smoltcp::time::Duration::from_millis(m.retrans_ms.into()),
                lladdr: address(m.source_mac),
                mtu: m.mtu,
                prefix_info,
            }
        }
        _ => return None,
    })
}

fn prefix_info(prefix: &PrefixInformation) -> smoltcp::wire::NdiscPrefixInformation {
    let mut flags = NdiscPrefixInfoFlags::empty();
    flags.set(NdiscPrefixInfoFlags::ON_LINK, prefix.on_link);
    flags.set(NdiscPrefixInfoFlags::ADDRCONF, prefix.autonomous);
    smoltcp::wire::NdiscPrefixInformation {
        prefix_len: prefix.prefix_len,
        flags,
        valid_lifetime: smoltcp::time::Duration::from_secs(prefix.valid_secs.into()),
        preferred_lifetime: smoltcp::time::Duration::from_secs(prefix.preferred_secs.into()),
        prefix: prefix.prefix,
    }
}

#[test]
fn captured_frames() {
    let frames = captured();
    let refused = |frame: &&common::Captured| !agrees(&frame.bytes);
    let refused: Vec<_> = frames
        .iter()
        .filter(refused)
        .map(|frame| &frame.name)
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn damaged_captured_frames() {
    let (mut random, mut compared) = (Random(4), 0);
    for frame in captured() {
        for _ in 0..200 {
            let mut damaged = frame.bytes.clone();
            random.mutate(&mut damaged);
            compared += u32::from(agrees(&damaged));
        }
    }
    assert!(
        compared > 10_000,
        "only {compared} damaged frames were read by both"
    );
}

fn mac() -> impl Strategy<Value = Option<Mac>> {
    option::of(any::<[u8; 6]>().prop_map(Mac))
}

fn unicast() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>()
        .prop_map(Ipv6Addr::from_bits)
        .prop_filter("unicast", |a| !a.is_multicast())
}

fn prefix() -> impl Strategy<Value = PrefixInformation> {
    (any::<u128>(), 0u8..=128, any::<(bool, bool, u32, u32)>()).prop_map(
        |(bits, prefix_len, (on_link, autonomous, valid_secs, preferred_secs))| {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(prefix_len))
                .unwrap_or(0);
            PrefixInformation {
                prefix: Ipv6Addr::from_bits(bits & mask),
                prefix_len,
                on_link,
                autonomous,
                valid_secs,
                preferred_secs,
            }
        },
    )
}

fn router_advertisement() -> impl Strategy<Value = RouterAdvertisement> {
    let times = any::<(u16, u32, u32)>();
    (
        any::<(u8, bool, bool)>(),
        times,
        mac(),
        option::of(any::<u32>()),
        option::of(prefix()),
    )
        .prop_map(
            |((hop_limit, managed, other_config), times, source_mac, mtu, prefix)| {
                let mut prefixes = Prefixes::NONE;
                prefix.map(|prefix| prefixes.push(prefix));
                RouterAdvertisement {
                    hop_limit,
                    managed,
                    other_config,
                    lifetime_secs: times.0,
                    reachable_ms: times.1,
                    retrans_ms: times.2,
                    source_mac,
                    mtu,
                    prefixes,
                }
            },
        )
}

fn neighbour_discovery() -> impl Strategy<Value = Icmpv6<'static>> {
    let advertisement = (unicast(), any::<(bool, bool, bool)>(), mac()).prop_map(
        |(target, (router, solicited, override_), target_mac)| NeighborAdvertisement {
            target,
            router,
            solicited,
            override_,
            target_mac,
        },
    );
    prop_oneof![
        (unicast(), mac()).prop_map(|(target, source_mac)| {
            Icmpv6::NeighborSolicitation(NeighborSolicitation { target, source_mac })
        }),
        advertisement.prop_map(Icmpv6::NeighborAdvertisement),
        mac().prop_map(|source_mac| Icmpv6::RouterSolicitation(RouterSolicitation { source_mac })),
        router_advertisement().prop_map(Icmpv6::RouterAdvertisement),
    ]
}

proptest! {
    #[test]
    fn generated_frames(frame in generate::frame()) {
        prop_assert!(agrees(&frame));
    }

    /// What we emit, smoltcp reads; what smoltcp emits, we read.
    #[test]
    fn neighbour_discovery_both_ways(message in neighbour_discovery(), src in unicast(), dst in unicast()) {
        let mut ours = vec![0xa5; message.message_len()];
        message.emit(&src, &dst, &mut ours);
        prop_assert!(icmpv6(&src, &dst, &ours));
        let repr = Icmpv6Repr::Ndisc(ndisc(&message).unwrap());
        let mut theirs = vec![0; repr.buffer_len()];
        let mut packet = Icmpv6Packet::new_unchecked(&mut theirs[..]);
        repr.emit(&src, &dst, &mut packet, &ChecksumCapabilities::default());
        let view = Icmpv6View::parse(&theirs).unwrap();
        prop_assert!(view.checksum_ok(&src, &dst));
        prop_assert_eq!(view.message(), Ok(message));
    }
}
