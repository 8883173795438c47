//! Packets at their last hop: who is told, by whom, and of what nobody is.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use exos_inet::Instant;
use exos_inet::limits::ICMP_ERRORS_BURST;
use exos_inet::route::Routes;

use super::*;

/// The answer to a frame that goes no further: the only one, to whom it goes.
fn answer(forwarder: &mut Forwarder, now: Instant, mut frame: Vec<u8>) -> (IpAddr, Vec<u8>) {
    let before = frame.clone();
    let verdict = forwarder.handle_frame(now, &mut frame, RxChecksum::MaybePartial);
    assert_eq!(verdict, Verdict::Answered);
    assert_eq!(frame, before, "what does not go on is as it was");
    let made = forwarder.poll_made().expect("an answer");
    assert_eq!(forwarder.poll_made(), None);
    made
}

/// "Time exceeded in transit" goes from the one to the other, is intact, and quotes as much of the packet as it may, as it came.
fn check_answer(answer: &[u8], from: IpAddr, to: IpAddr, about: &[u8]) {
    let sliced = SlicedPacket::from_ethernet(answer).unwrap();
    let (kind, quoted) = match (sliced.net.unwrap(), sliced.transport.unwrap()) {
        (NetSlice::Ipv4(ip), TransportSlice::Icmpv4(icmp)) => {
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            assert_eq!(IpAddr::from(header.source), from);
            assert_eq!(IpAddr::from(header.destination), to);
            let sum = icmp.header().icmp_type.calc_checksum(icmp.payload());
            assert_eq!(sum, icmp.checksum());
            ((icmp.type_u8(), icmp.code_u8()), icmp.payload())
        }
        (NetSlice::Ipv6(ip), TransportSlice::Icmpv6(icmp)) => {
            let header = ip.header().to_header();
            assert_eq!(IpAddr::from(header.source), from);
            assert_eq!(IpAddr::from(header.destination), to);
            assert!(icmp.is_checksum_valid(header.source, header.destination));
            ((icmp.type_u8(), icmp.code_u8()), icmp.payload())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(kind, if from.is_ipv4() { (11, 0) } else { (3, 0) });
    let most = if from.is_ipv4() { 576 - 28 } else { 1280 - 48 };
    assert_eq!(quoted, &about[14..about.len().min(14 + most)]);
}

fn with_hops(mut frame: Vec<u8>, hops: u8) -> Vec<u8> {
    set_hops(&mut frame, hops);
    frame
}

/// By each reach anyone who sends to a listener hears from it, before anything has begun and while it stands; and with two hops
/// left the packet goes on.
#[test]
fn clients_are_told() {
    for reach in Reach::ALL {
        for (client, vip) in [(CLIENT, VIP), (CLIENT6, VIP6)] {
            let mut forwarder = forwarder_by(reach, 100);
            let (from, to) = (at(vip).ip(), at(client).ip());
            let frames = [
                tcp(at(client), at(vip), SYN, 0),
                udp(client, at(vip), vec![7; 10]),
                udp(client, at(vip), vec![7; 1400]),
            ];
            for (frame, hops) in frames.iter().flat_map(|frame| [(frame, 0), (frame, 1)]) {
                let frame = with_hops(frame.clone(), hops);
                let (host, answer) = answer(&mut forwarder, START, frame.clone());
                assert_eq!(host, to);
                check_answer(&answer, from, to, &frame);
            }
            assert_eq!(forwarder.flows().len(), 0, "nothing has begun");
            assert_eq!(forwarder.counters().hops_answered, 6);
            let onward = with_hops(tcp(at(client), at(vip), SYN, 0), 2);
            give_any(&mut forwarder, START, onward).expect("it goes on");
            assert_eq!(forwarder.flows().len(), 1);
            let ack = with_hops(tcp(at(client), at(vip), ACK, ISN + 1), 1);
            let (_, answer) = answer(&mut forwarder, START, ack.clone());
            check_answer(&answer, from, to, &ack);
            let opening = [Class::Opening, Class::Claimed].map(|class| count(&forwarder, class));
            assert_eq!(opening, [1, 0], "it says nothing of its flow");
            assert_eq!(forwarder.counters().drop_hops, 0);
        }
    }
}

/// A server hears from the address that it sends to, if that is ours, or else from the one that its client knows of.
#[test]
fn servers_are_told() {
    for reach in [Reach::Nat, Reach::Transparent] {
        for (client, vip, server) in [(CLIENT, VIP, SERVER), (CLIENT6, VIP6, SERVER6)] {
            let mut forwarder = forwarder_by(reach, 100);
            let syn = give_any(&mut forwarder, START, tcp(at(client), at(vip), SYN, 0)).unwrap();
            let (seen, _) = ends_of(&syn[0].1);
            let frame = with_hops(tcp(at(server), seen, SYN | ACK, 101), 1);
            let (to, answer) = answer(&mut forwarder, START, frame.clone());
            assert_eq!(to, at(server).ip());
            check_answer(&answer, at(vip).ip(), to, &frame);
            assert_eq!(count(&forwarder, Class::Opening), 1);
            // What is of no flow is none of ours to tell.
            let strange = tcp(at(server), SocketAddr::new(seen.ip(), 9), SYN | ACK, 101);
            let strange = give(&mut forwarder, START, with_hops(strange, 1));
            assert_eq!(strange, Err(Verdict::Stack));
        }
    }
}

/// RFC 1122 §3.2.2, RFC 4443 §2.4(e): of errors and of later fragments nobody is told, nor is anybody who is not one host.
#[test]
fn of_some_nobody_is_told() {
    let mut forwarder = forwarder(100);
    let mut routes = Routes::new();
    routes.add_address(at(VIP).ip(), 24).unwrap();
    routes.add_address(at(VIP6).ip(), 64).unwrap();
    forwarder.set_routes(0, routes.generation(), &routes);
    let (IpAddr::V4(vip), IpAddr::V4(client)) = (at(VIP).ip(), at(CLIENT).ip()) else {
        unreachable!("constants");
    };
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    let mut error = Vec::new();
    let quoted = tcp(ours, at(SERVER), ACK, ISN + 1);
    let kind = etherparse::Icmpv4Type::TimeExceeded(
        etherparse::icmpv4::TimeExceededCode::TtlExceededInTransit,
    );
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], MAC.0)
        .ipv4(client.octets(), vip.octets(), 64)
        .icmpv4(kind)
        .write(&mut error, &quoted[14..14 + 28])
        .unwrap();
    let mut first = udp(CLIENT, at(VIP), vec![1; 80]);
    first[20] = 0x20;
    let mut later = first.clone();
    later[20..22].copy_from_slice(&[0, 11]);
    give(&mut forwarder, START, with_hops(first, 9)).expect("the first fragment goes on");
    let mut silent = vec![error, later];
    for source in [
        "0.0.0.0:5",
        "255.255.255.255:5",
        "10.0.0.255:5",
        "224.0.0.1:5",
        "240.0.0.1:5",
        "127.0.0.1:5",
        VIP,
    ] {
        silent.push(udp(source, at(VIP), vec![1]));
    }
    for source in ["[::]:5", "[::1]:5", "[ff02::1]:5", VIP6] {
        silent.push(udp(source, at(VIP6), vec![1]));
    }
    let count = silent.len() as u64;
    for frame in silent {
        let frame = with_hops(frame, 1);
        assert_eq!(give(&mut forwarder, START, frame), Err(Verdict::Drop));
    }
    assert_eq!(forwarder.counters().drop_hops, count);
    assert_eq!(forwarder.counters().hops_answered, 0);
}

/// Of what comes without end not everything is answered; and who makes us answer that does not keep others from hearing how long
/// packets may be.
#[test]
fn answers_are_bounded() {
    let mut forwarder = forwarder_by(Reach::Tunnel, 100);
    let last = with_hops(tcp(at(CLIENT), at(VIP), SYN, 0), 1);
    for _ in 0..1000 {
        let _ = give_any(&mut forwarder, START, last.clone());
    }
    let counters = forwarder.counters();
    assert_eq!(counters.hops_answered, u64::from(ICMP_ERRORS_BURST));
    assert_eq!(counters.drop_hops, 1000 - u64::from(ICMP_ERRORS_BURST));
    let mut long = udp(CLIENT, at(VIP), vec![0; 1470]);
    // It must not be cut.
    long[20] = 0x40;
    let told = give_any(&mut forwarder, START, with_hops(long, 64)).expect("an answer");
    assert_eq!(told.len(), 1);
    assert_eq!(forwarder.counters().too_big_answered, 1);
    let later = START + Duration::from_secs(1);
    give_any(&mut forwarder, later, last).expect("an answer again");
}
