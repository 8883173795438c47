//! Packets to servers within others, against headers that etherparse builds and reads.

use super::*;
use etherparse::{IpNumber, Ipv4Header, Ipv6Header, PacketBuilder};
use exos_forward::limits::{PATH_MTU_MIN, PATH_MTU_TIME};
use exos_forward::packets::rewrite::{Sums, keep_ends};

/// The bytes of a frame's packet, with a hop less.
fn within(frame: &[u8]) -> Vec<u8> {
    let packet = Packet::read(frame, MAC).unwrap();
    let mut frame = frame.to_vec();
    keep_ends(&packet, &mut frame, Sums::Complete);
    frame[packet.ip_at.into()..packet.end.into()].to_vec()
}

/// What goes around a packet to this server: 20 bytes of IPv4, or 40 of IPv6.
fn around(vip: &str, server: &str, within: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match (ours_by(Reach::Tunnel, vip), at(server).ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let len = within.len() as u16;
            let mut header =
                Ipv4Header::new(len, 64, IpNumber(4), src.octets(), dst.octets()).unwrap();
            header.dscp = (within[1] >> 2).try_into().unwrap();
            header.ecn = (within[1] & 3).try_into().unwrap();
            header.dont_fragment = within[6] & 0x40 != 0;
            header.header_checksum = header.calc_header_checksum();
            header.write(&mut out).unwrap();
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let inner = Ipv6Header::from_slice(within).unwrap().0;
            let header = Ipv6Header {
                traffic_class: inner.traffic_class,
                flow_label: inner.flow_label,
                payload_length: within.len() as u16,
                next_header: IpNumber(41),
                hop_limit: 64,
                source: source.octets(),
                destination: destination.octets(),
            };
            header.write(&mut out).unwrap();
        }
        _ => unreachable!("one family"),
    }
    out
}

/// A datagram of this many bytes with this class, which must not be cut.
fn datagram(client: &str, vip: &str, class: u8, len: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], MAC.0);
    let builder = match (at(client).ip(), at(vip).ip()) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            let mut ip = Ipv4Header::new(0, 64, IpNumber(17), s.octets(), d.octets()).unwrap();
            ip.dscp = (class >> 2).try_into().unwrap();
            ip.ecn = (class & 3).try_into().unwrap();
            builder.ip(etherparse::IpHeaders::Ipv4(ip, Default::default()))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = Ipv6Header {
                traffic_class: class,
                flow_label: 0x12345.try_into().unwrap(),
                hop_limit: 64,
                source: source.octets(),
                destination: destination.octets(),
                ..Default::default()
            };
            builder.ip(etherparse::IpHeaders::Ipv6(ip, Default::default()))
        }
        _ => unreachable!("one family"),
    };
    let headers = if at(vip).is_ipv4() { 28 } else { 48 };
    let mut frame = Vec::new();
    builder
        .udp(at(client).port(), at(vip).port())
        .write(&mut frame, &vec![3; len - headers])
        .unwrap();
    frame
}

fn only(made: Vec<(IpAddr, Vec<u8>)>) -> (IpAddr, Vec<u8>) {
    <[_; 1]>::try_from(made).expect("one packet")[0].clone()
}

/// The packet within is the one that came, with a hop less; around it are our address and the server's, its class, its
/// mark of congestion and its wish not to be cut.
#[test]
fn packets_are_wrapped() {
    for (client, vip, server) in [(CLIENT, VIP, SERVER), (CLIENT6, VIP6, SERVER6)] {
        let mut forwarder = forwarder_by(Reach::Tunnel, 100);
        let mut check = |frame: Vec<u8>| {
            let made = give_any(&mut forwarder, START, frame.clone()).unwrap();
            let (to, made) = only(made);
            let within = within(&frame);
            let wanted = [around(vip, server, &within), within].concat();
            assert_eq!(to, at(server).ip());
            assert_eq!(made[12..14], frame[12..14]);
            assert_eq!(made[14..], wanted);
        };
        check(tcp(at(client), at(vip), SYN, 0));
        check(tcp(at(client), at(vip), ACK, 500));
        for class in 0..=255 {
            check(datagram(client, vip, class, 100));
        }
        // Of padding nothing goes along.
        let mut padded = tcp(at(client), at(vip), ACK, 500);
        padded.resize(padded.len() + 9, 0xee);
        check(padded);
        assert_eq!(forwarder.counters().forwarded_to_servers, 259);
    }
}

/// What fits the link with a header more goes; of what does not the sender is told what would.
#[test]
fn what_does_not_fit_is_answered() {
    for (client, vip, header) in [(CLIENT, VIP, 20), (CLIENT6, VIP6, 40)] {
        let mut forwarder = forwarder_by(Reach::Tunnel, 100);
        let fits = datagram(client, vip, 0, 1500 - header);
        let (_, made) = only(give_any(&mut forwarder, START, fits).unwrap());
        assert_eq!(made.len(), 1514);
        let long = datagram(client, vip, 0, 1500 - header + 1);
        let (to, answer) = only(give_any(&mut forwarder, START, long.clone()).unwrap());
        assert_eq!(to, at(client).ip());
        check_answer(&answer, client, vip, 1500 - header, &long);
        // Of what comes without end not everything is answered.
        for _ in 0..1000 {
            give_any(&mut forwarder, START, long.clone()).ok();
        }
        assert!(forwarder.counters().drop_too_big > 900);
    }
}

/// The error goes from the listener to the client, is intact, says what fits, and quotes as much as it may.
fn check_answer(answer: &[u8], client: &str, vip: &str, mtu: usize, about: &[u8]) {
    let sliced = etherparse::SlicedPacket::from_ethernet(answer).unwrap();
    let quoted = match (sliced.net.unwrap(), sliced.transport.unwrap()) {
        (etherparse::NetSlice::Ipv4(ip), etherparse::TransportSlice::Icmpv4(icmp)) => {
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            assert_eq!(IpAddr::from(header.source), at(vip).ip());
            assert_eq!(IpAddr::from(header.destination), at(client).ip());
            let kind = icmp.header().icmp_type;
            assert_eq!(kind.calc_checksum(icmp.payload()), icmp.checksum());
            let wanted = etherparse::Icmpv4Type::DestinationUnreachable(
                etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded {
                    next_hop_mtu: mtu as u16,
                },
            );
            assert_eq!(kind, wanted);
            assert_eq!(answer.len(), 14 + 576);
            icmp.payload()
        }
        (etherparse::NetSlice::Ipv6(ip), etherparse::TransportSlice::Icmpv6(icmp)) => {
            let header = ip.header().to_header();
            assert_eq!(IpAddr::from(header.source), at(vip).ip());
            assert_eq!(IpAddr::from(header.destination), at(client).ip());
            assert!(icmp.is_checksum_valid(header.source, header.destination));
            let wanted = etherparse::Icmpv6Type::PacketTooBig { mtu: mtu as u32 };
            assert_eq!(icmp.icmp_type(), wanted);
            assert_eq!(answer.len(), 14 + 1280);
            icmp.payload()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(quoted, &about[14..14 + quoted.len()]);
}

/// Packets that may be cut go on in pieces, each wrapped by itself; put together they are what came. Pieces of pieces too.
#[test]
fn what_may_be_cut_is_cut() {
    let mut forwarder = forwarder_by(Reach::Tunnel, 100);
    for (options, first, more, fragment) in [
        (vec![], 1500, false, 0),
        (vec![], 1500, true, 0),
        (vec![1, 1, 1, 0], 1500, false, 0),
        // A stream identifier, which is in all pieces, and a timestamp, which is in the first.
        (vec![136, 4, 0, 7, 68, 8, 5, 0, 0, 0, 0, 0], 1500, false, 0),
    ] {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (at(CLIENT).ip(), at(VIP).ip()) else {
            unreachable!("constants");
        };
        let options = etherparse::Ipv4Options::try_from(&options[..]).unwrap();
        let len = (first - 20 - options.len()) / 8 * 8;
        let mut ip =
            Ipv4Header::new(len as u16, 64, IpNumber(17), src.octets(), dst.octets()).unwrap();
        (ip.options, ip.dont_fragment, ip.more_fragments) = (options, false, more);
        (ip.identification, ip.fragment_offset) = (77, u16::try_into(fragment).unwrap());
        ip.set_payload_len(len).unwrap();
        ip.header_checksum = ip.calc_header_checksum();
        let mut upper = [40_000u16, 80, len as u16, 0]
            .map(u16::to_be_bytes)
            .concat();
        upper.extend((8..len).map(|n| (n % 251) as u8));
        let mut frame = [&MAC.0[..], &[2, 0, 0, 0, 0, 1, 8, 0]].concat();
        ip.write(&mut frame).unwrap();
        frame.extend(&upper);
        let made = give_any(&mut forwarder, START, frame).unwrap();
        assert_eq!(made.len(), 2);
        let mut joined: Vec<u8> = Vec::new();
        let mut idents = Vec::new();
        for (n, (_, piece)) in made.iter().enumerate() {
            assert!(piece.len() <= 1514);
            let (outer, _) = Ipv4Header::from_slice(&piece[14..]).unwrap();
            assert!(!outer.dont_fragment && outer.protocol == IpNumber(4));
            idents.push(outer.identification);
            let (inner, payload) = Ipv4Header::from_slice(&piece[34..]).unwrap();
            assert_eq!(inner.calc_header_checksum(), inner.header_checksum);
            assert_eq!((inner.identification, inner.time_to_live), (77, 63));
            assert_eq!(usize::from(inner.fragment_offset.value()) * 8, joined.len());
            assert_eq!(inner.more_fragments, n == 0 || more);
            assert_eq!(usize::from(inner.payload_len().unwrap()), payload.len());
            let kept = match (n, ip.options.len()) {
                (0, _) => ip.options.as_slice().to_vec(),
                (_, 12) => vec![136, 4, 0, 7],
                _ => vec![],
            };
            assert_eq!(inner.options.as_slice(), kept);
            joined.extend(payload);
        }
        assert!(joined == upper, "other bytes");
        assert_ne!(idents[0], idents[1]);
    }
    assert_eq!(forwarder.counters().forwarded_cut, 4);
}

/// A router on the way says how long packets may be: clients are told for ten minutes. Nobody says so of another's way, nor
/// that nothing passes.
#[test]
fn the_way_to_a_server_may_be_narrower() {
    for (client, vip, server, header) in [(CLIENT, VIP, SERVER, 20), (CLIENT6, VIP6, SERVER6, 40)] {
        let mut forwarder = forwarder_by(Reach::Tunnel, 100);
        let long = datagram(client, vip, 0, 1420);
        let (_, made) = only(give_any(&mut forwarder, START, long.clone()).unwrap());
        let mut strange = made.clone();
        strange[14 + header - 1] ^= 1;
        let error = too_big(vip, &strange, 1400);
        assert_eq!(give_any(&mut forwarder, START, error), Err(Verdict::Stack));
        let mut damaged = too_big(vip, &made, 1400);
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(
            give_any(&mut forwarder, START, damaged),
            Err(Verdict::Stack)
        );
        let least = PATH_MTU_MIN[usize::from(header == 40)];
        for (said, taken) in [(1400, 1400), (1450, 1400), (100, least)] {
            let error = too_big(vip, &made, said);
            assert_eq!(give_any(&mut forwarder, START, error), Err(Verdict::Drop));
            let (to, answer) = only(give_any(&mut forwarder, START, long.clone()).unwrap());
            assert_eq!(to, at(client).ip());
            check_answer(&answer, client, vip, taken - header, &long);
        }
        assert_eq!(forwarder.counters().path_mtus_learned, 3);
        let later = START + PATH_MTU_TIME;
        let (to, _) = only(give_any(&mut forwarder, later, long).unwrap());
        assert_eq!(to, at(server).ip());
    }
}

/// What a router says to us of a packet that it could not pass on.
fn too_big(vip: &str, about: &[u8], mtu: u16) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], MAC.0);
    let mut frame = Vec::new();
    match ours_by(Reach::Tunnel, vip) {
        IpAddr::V4(vip) => {
            let kind = etherparse::Icmpv4Type::DestinationUnreachable(
                etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded {
                    next_hop_mtu: mtu,
                },
            );
            let builder = builder.ipv4([10, 0, 0, 254], vip.octets(), 64).icmpv4(kind);
            builder.write(&mut frame, &about[14..14 + 48]).unwrap();
        }
        IpAddr::V6(vip) => {
            let kind = etherparse::Icmpv6Type::PacketTooBig { mtu: mtu.into() };
            let router = "fd00::fe".parse::<std::net::Ipv6Addr>().unwrap();
            let builder = builder.ipv6(router.octets(), vip.octets(), 64).icmpv6(kind);
            builder.write(&mut frame, &about[14..14 + 88]).unwrap();
        }
    }
    frame
}
