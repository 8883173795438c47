//! What is emitted is what is parsed again; and buffers that are too small are found out.

use crate::bodies;
use crate::common::generate;

use std::net::{Ipv4Addr, Ipv6Addr};

use exos_wire::Sum;
use exos_wire::arp::{self, ArpView};
use exos_wire::ethernet::EthernetView;
use exos_wire::icmpv4::{Icmpv4, Icmpv4View};
use exos_wire::ipv4::{Ipv4Header, Ipv4View};
use exos_wire::ipv6::{Ipv6Header, Ipv6View};
use exos_wire::tcp::{self, TcpOptions, TcpView, options_len};
use exos_wire::udp::{self, UdpHeader, UdpView};
use proptest::prelude::*;

proptest! {
    /// The checks that the fuzzer makes, on frames that get past every parser.
    #[test]
    fn frames(frame in generate::frame()) {
        bodies::frame(&frame);
    }

    #[test]
    fn ethernet(header in generate::ethernet_header(0x88b5), payload in generate::payload()) {
        let mut frame = vec![0xa5; 18];
        let len = header.emit(&mut frame);
        frame.truncate(len);
        frame.extend(&payload);
        let view = EthernetView::parse(&frame).unwrap();
        prop_assert_eq!(view.values(), header);
        prop_assert_eq!((view.payload(), view.header_len()), (&payload[..], len));
    }

    #[test]
    fn arp(packet in generate::arp_packet()) {
        let mut out = [0xa5; 60];
        prop_assert_eq!(packet.emit(&mut out), arp::LEN);
        prop_assert_eq!(ArpView::parse(&out).unwrap().packet(), packet);
        prop_assert!(out[arp::LEN..].iter().all(|byte| *byte == 0xa5));
    }

    #[test]
    fn ipv4(
        (src, dst) in any::<(u32, u32)>(),
        (protocol, ttl, tos, ident) in any::<(u8, u8, u8, u16)>(),
        (dont_fragment, more_fragments) in any::<(bool, bool)>(),
        place in 0usize..0x2000,
        payload in generate::payload(),
        padding in 0usize..8,
    ) {
        let header = Ipv4Header {
            src: src.into(),
            dst: dst.into(),
            protocol,
            ttl,
            tos,
            ident,
            dont_fragment,
            more_fragments,
            fragment_offset: place * 8,
        };
        let mut packet = vec![0xa5; 20];
        prop_assert_eq!(header.emit(payload.len(), &mut packet), 20);
        packet.extend(&payload);
        packet.extend(vec![0xee; padding]);
        let view = Ipv4View::parse(&packet).unwrap();
        prop_assert_eq!(view.values(), header);
        prop_assert!(view.header_checksum_ok());
        prop_assert_eq!(view.payload(), &payload[..]);
        prop_assert_eq!(view.is_fragment(), more_fragments || place != 0);
        prop_assert_eq!((view.header_len(), view.total_len()), (20, 20 + payload.len()));
    }

    #[test]
    fn ipv6(
        (src, dst) in any::<(u128, u128)>(),
        (next_header, hop_limit, traffic_class) in any::<(u8, u8, u8)>(),
        flow_label in 0u32..0x10_0000,
        payload in generate::payload(),
    ) {
        let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
        let header = Ipv6Header { src, dst, next_header, hop_limit, traffic_class, flow_label };
        let mut packet = vec![0xa5; 40];
        prop_assert_eq!(header.emit(payload.len(), &mut packet), 40);
        packet.extend(&payload);
        let view = Ipv6View::parse(&packet).unwrap();
        prop_assert_eq!((view.values(), view.payload()), (header, &payload[..]));
    }

    #[test]
    fn tcp(
        header in generate::tcp_header(),
        options in generate::tcp_options(),
        payload in generate::payload(),
        pseudo in any::<u16>(),
    ) {
        let pseudo = Sum::from_value(pseudo.max(1));
        let mut segment = vec![0xa5; 60];
        let len = header.emit(&options, &mut segment);
        segment.truncate(len);
        prop_assert_eq!(len, tcp::LEN + options_len(&options));
        prop_assert_eq!(TcpView::parse(&segment).unwrap().checksum(), 0);
        let mut head = segment.clone();
        segment.extend(&payload);
        tcp::fill_checksum(&mut segment, pseudo);
        let view = TcpView::parse(&segment).unwrap();
        prop_assert_eq!((view.values(), view.options()), (header, options));
        prop_assert_eq!((view.header_len(), view.payload()), (len, &payload[..]));
        prop_assert!(view.checksum_ok(pseudo));
        // The payload's sum may come from elsewhere, and the checksum be made with the header.
        tcp::fill_checksum(&mut head, pseudo.plus(Sum::of(&payload)));
        prop_assert_eq!(&head, &segment[..len]);
        let mut summed = vec![0; len];
        header.emit_with_checksum(&options, pseudo.plus(Sum::of(&payload)), &mut summed);
        prop_assert_eq!(&summed, &head);
        // A link that completes a partial checksum sums everything behind the pseudo-header.
        tcp::fill_partial_checksum(&mut segment, pseudo);
        prop_assert_eq!(Sum::of(&segment).finish(), TcpView::parse(&head).unwrap().checksum());
    }

    #[test]
    fn udp(ports in any::<(u16, u16)>(), payload in generate::payload(), pseudo in any::<u16>()) {
        let pseudo = Sum::from_value(pseudo);
        let header = UdpHeader { src_port: ports.0, dst_port: ports.1 };
        let mut out = [0xa5; 8];
        header.emit(payload.len(), pseudo.plus(Sum::of(&payload)), &mut out);
        let mut datagram = [&out[..], &payload, &[0xee; 3]].concat();
        let view = UdpView::parse(&datagram).unwrap();
        prop_assert_eq!((view.values(), view.payload()), (header, &payload[..]));
        prop_assert!(view.checksum() != 0 && view.checksum_ok(pseudo));
        // A link that completes a partial checksum sums everything behind the pseudo-header.
        let checksum = view.checksum();
        datagram[6..8].copy_from_slice(&pseudo.value().to_be_bytes());
        let sum = Sum::of(&datagram[..udp::LEN + payload.len()]).finish();
        prop_assert_eq!(if sum == 0 { 0xffff } else { sum }, checksum);
    }

    /// One flipped bit is noticed. (In the very first byte it may change the header's length.)
    #[test]
    fn damage_is_noticed(packet in generate::ipv4_packet(), at in 1usize..20, bit in 0u8..8) {
        let mut packet = packet;
        packet[at] ^= 1 << bit;
        prop_assert!(!Ipv4View::parse(&packet).is_ok_and(|view| view.header_checksum_ok()));
    }
}

/// RFC 768: a sum that comes out as zero is sent as all ones.
#[test]
fn udp_checksum_zero_is_sent_as_ones() {
    let header = UdpHeader {
        src_port: 1,
        dst_port: 2,
    };
    let sum = Sum::from_value(!(1 + 2 + 8));
    let mut out = [0; 8];
    header.emit(0, sum, &mut out);
    assert_eq!(out[6..], [0xff, 0xff]);
    assert!(UdpView::parse(&out).unwrap().checksum_ok(sum));
}

/// RFC 768: a checksum of zero was not computed, and says nothing.
#[test]
fn udp_without_checksum() {
    let datagram = [0, 1, 0, 2, 0, 9, 0, 0, 0x55];
    assert!(
        UdpView::parse(&datagram)
            .unwrap()
            .checksum_ok(Sum::from_value(0x1234))
    );
}

/// RFC 1191 §4: routers that know no next-hop MTU send zero.
#[test]
fn fragmentation_needed_of_old_routers() {
    let quoted = &[0; 28];
    for mtu in [None, Some(1400)] {
        let message = Icmpv4::Unreachable {
            code: 4,
            mtu,
            quoted,
        };
        let mut out = [0; 36];
        message.emit(&mut out);
        assert_eq!(Icmpv4View::parse(&out).unwrap().message(), message);
    }
}

/// RFC 6864 §4.1: Don't Fragment, no offset, and an identification that means nothing.
#[test]
fn an_atomic_packet_is_whole_and_stays_so() {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut packet = [0; 24];
    Ipv4Header::atomic(src, dst, 17).emit(4, &mut packet);
    assert_eq!(packet[..10], [0x45, 0, 0, 24, 0, 0, 0x40, 0, 64, 17]);
    let view = Ipv4View::parse(&packet).unwrap();
    assert_eq!((view.src(), view.dst()), (src, dst));
}

#[test]
fn ipv4_options_are_listed() {
    let mut packet = vec![
        0x48, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    packet.extend([1, 148, 4, 0, 0, 7, 3, 4, 0, 148, 4, 0]);
    let view = Ipv4View::parse(&packet).unwrap();
    let options: Vec<_> = view
        .options_iter()
        .map(|o| o.map(|o| (o.kind, o.data)))
        .collect();
    assert_eq!(options, [Ok((148, &[0, 0][..])), Ok((7, &[4][..]))]);
    assert_eq!((view.header_len(), view.payload().len()), (32, 0));
    packet[26] = 99;
    let last = Ipv4View::parse(&packet).unwrap().options_iter().last();
    assert_eq!(last.unwrap().unwrap_err().name(), "bad_option");
}

#[test]
#[should_panic(expected = "emitting arp needs 28 bytes of room, not 27")]
fn too_small_a_buffer_is_a_bug() {
    let ip = Ipv4Addr::LOCALHOST;
    let mac = exos_wire::Mac::ZERO;
    let packet = arp::ArpPacket {
        operation: arp::REQUEST,
        sender_mac: mac,
        sender_ip: ip,
        target_mac: mac,
        target_ip: ip,
    };
    packet.emit(&mut [0; 27]);
}

#[test]
#[should_panic(expected = "emitting tcp timestamps needs 12 bytes of room, not 11")]
fn too_small_a_buffer_for_options_is_a_bug() {
    let header = tcp::TcpHeader::default();
    header.emit(&TcpOptions::with_timestamps(1, 2), &mut [0; 31]);
}
