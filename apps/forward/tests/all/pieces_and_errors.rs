//! Packets in fragments, and errors about packets, given to the forwarder one by one.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use common::steps::*;
use common::{Ends, Shape, build};
use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use exos_forward::forwarder::{Forwarder, Verdict};
use exos_forward::limits::{FRAGMENTS_HELD_LEN_MAX, FRAGMENTS_HELD_MAX, FRAGMENTS_HELD_TIME};
use exos_forward::packets::packet::{Packet, Transport};
use exos_forward::packets::reach::Reach;

/// Parts of a datagram go where its first part goes, under a number of their own; parts of another sender do not.
#[test]
fn fragments_follow_their_first() {
    for (client, other, vip, server, header) in [
        (CLIENT, "10.0.0.2:5", VIP, SERVER, 20),
        (CLIENT6, "[fd00::2]:5", VIP6, SERVER6, 40),
    ] {
        let mut forwarder = forwarder(100);
        let payload: Vec<u8> = (0..3000).map(|n| (n % 251) as u8).collect();
        let cut = |src: &str| {
            let whole = udp(src, at(vip), payload.clone());
            fragments(&whole[14..14 + header], &whole[14 + header..])
        };
        let [a, b, c] = <[Vec<u8>; 3]>::try_from(cut(client)).unwrap();
        // The second comes first, waits for the first, and follows it at once.
        assert_eq!(give(&mut forwarder, START, b), Err(Verdict::Held));
        let first = give(&mut forwarder, START, a).unwrap();
        let (to, second) = forwarder.poll_made().unwrap();
        assert_eq!((to, forwarder.poll_made()), (at(server).ip(), None));
        let last = give(&mut forwarder, START, c).unwrap();
        let onward = [first, last, second];
        let [x, y, _] = <[Vec<u8>; 3]>::try_from(cut(other)).unwrap();
        let stranger = give(&mut forwarder, START, x).unwrap();
        let ident = |frame: &[u8]| Packet::read(frame, MAC).unwrap().fragment.unwrap().ident;
        assert_ne!(
            ident(&stranger),
            ident(&onward[0]),
            "both had the same number"
        );
        assert!(onward.iter().all(|frame| ident(frame) == ident(&onward[0])));
        assert_eq!(
            ident(&give(&mut forwarder, START, y).unwrap()),
            ident(&stranger)
        );
        // Put together again it is the datagram, as it would have been sent.
        let first = Packet::read(&onward[0], MAC).unwrap();
        let (_, src, dst) = first.ends().unwrap();
        assert_eq!(SocketAddr::from(dst), at(server));
        let upper = |n: usize| {
            let packet = Packet::read(&onward[n], MAC).unwrap();
            onward[n][packet.upper_range()].to_vec()
        };
        let joined = [upper(0), upper(2), upper(1)].concat();
        let ends = Ends {
            src: src.into(),
            dst: dst.into(),
        };
        let shape = Shape {
            transport: Transport::Udp,
            payload: payload.clone(),
            hops: 63,
            options: 0,
            padding: 0,
        };
        assert_eq!(joined, build(MAC, &ends, &shape)[14 + header..]);
        assert_eq!(forwarder.counters().forwarded_fragments, 5);
        assert_eq!(forwarder.counters().held_fragments, 1);
        let late = START + Duration::from_secs(31);
        assert_eq!(
            give(&mut forwarder, late, cut(client)[1].clone()),
            Err(Verdict::Held),
            "where the first one went is forgotten"
        );
        assert_eq!(forwarder.counters().drop_fragment, 0);
    }
}

/// All that goes on when these come one after the other, and where to.
fn sent(forwarder: &mut Forwarder, frames: &[Vec<u8>]) -> Vec<Sent> {
    let mut out = Vec::new();
    for frame in frames {
        if let Ok(made) = give_any(forwarder, START, frame.clone()) {
            out.extend(made);
        }
        out.extend(std::iter::from_fn(|| forwarder.poll_made()));
    }
    out
}

/// What a fragment's datagram is told by: its last byte, and whether it is of IPv6.
type Datagram = (u8, bool);

/// A frame, and the host that it goes to.
type Sent = (IpAddr, Vec<u8>);

/// Fragments without their number, in an order of their own; and the number of each datagram, which all of it have.
fn by_datagram(reach: Reach, out: Vec<Sent>) -> (Vec<Sent>, BTreeMap<Datagram, u32>) {
    let mut numbers = BTreeMap::new();
    let without_number = |(to, mut frame): Sent| {
        frame[..6].copy_from_slice(&MAC.0);
        if reach == Reach::Tunnel {
            let around = if to.is_ipv4() { 20 } else { 40 };
            frame.drain(14..14 + around);
        }
        let part = Packet::read(&frame, MAC).unwrap().fragment.unwrap();
        let datagram = (*frame.last().unwrap(), to.is_ipv6());
        assert_eq!(*numbers.entry(datagram).or_insert(part.ident), part.ident);
        let at = usize::from(part.ident_at);
        if to.is_ipv6() {
            frame[at..at + 4].fill(0);
        } else {
            // And without the checksum over it.
            frame[at..at + 2].fill(0);
            frame[24..26].fill(0);
        }
        (to, frame)
    };
    let mut frames: Vec<_> = out.into_iter().map(without_number).collect();
    frames.sort();
    (frames, numbers)
}

/// In whatever order fragments of several datagrams come, of clients and of servers, one of them twice: what goes on is the same,
/// and each datagram has a number of its own.
#[test]
fn fragments_in_any_order() {
    let mut random = exos_testing::Random(3);
    for (round, reach) in (0..200u32).flat_map(|round| Reach::ALL.map(|reach| (round, reach))) {
        let begun = || {
            let mut forwarder = forwarder_by(reach, 100);
            let mut ends = Vec::new();
            for (client, vip) in [(CLIENT, VIP), (CLIENT6, VIP6)] {
                let first = give_any(&mut forwarder, START, udp(client, at(vip), vec![1])).unwrap();
                ends.extend(reach.hears_servers().then(|| ends_of(&first[0].1)));
            }
            (forwarder, ends)
        };
        let (mut forwarder, ends) = begun();
        let mut frames = Vec::new();
        // Each client has a port that servers see it by, no matter who comes first.
        let mut add = |src: &str, dst: SocketAddr, n: u8, len: usize| {
            let whole = udp(src, dst, vec![n; len]);
            let header = if dst.is_ipv4() { 20 } else { 40 };
            frames.extend(fragments(&whole[14..14 + header], &whole[14 + header..]));
        };
        for n in 1..4u8 {
            let len = 2500 + random.below(1000);
            add(&format!("10.0.1.{n}:200{n}"), at(VIP), n, len);
            add(&format!("[fd00::1:{n}]:200{n}"), at(VIP6), n, len);
        }
        for (seen, server) in &ends {
            add(&server.to_string(), *seen, 9, 3000);
        }
        frames.push(frames[random.below(frames.len())].clone());
        let (wanted, numbers) = by_datagram(reach, sent(&mut forwarder, &frames));
        assert_eq!(wanted.len(), frames.len(), "round {round}");
        for at in (1..frames.len()).rev() {
            frames.swap(at, random.below(at + 1));
        }
        let (mut other, _) = begun();
        let (found, others) = by_datagram(reach, sent(&mut other, &frames));
        assert!(found == wanted, "round {round} by {reach:?}");
        if reach.hears_servers() {
            for numbers in [numbers, others] {
                let all: BTreeSet<u32> = numbers.values().copied().collect();
                assert_eq!(all.len(), numbers.len(), "round {round}");
            }
        }
        let of = |forwarder: &Forwarder| {
            let counters = forwarder.counters();
            (counters.forwarded_fragments, counters.drop_fragment)
        };
        assert_eq!(of(&other), (frames.len() as u64, 0));
        assert_eq!(of(&other), of(&forwarder));
    }
}

/// What waits for a fragment that does not go on does not either, nor what comes after it.
#[test]
fn fragments_of_what_is_refused_do_not_go_on() {
    for (reach, narrow, answered) in [(Reach::Nat, false, 1), (Reach::Tunnel, true, 1)] {
        let mut forwarder = forwarder_by(reach, 100);
        let whole = udp(CLIENT6, at(VIP6), vec![7; 3000]);
        let [mut first, second, last] =
            <[Vec<u8>; 3]>::try_from(fragments(&whole[14..54], &whole[54..])).unwrap();
        if narrow {
            // Of IPv6 nothing is cut on its way, and only the last is short enough.
            forwarder.set_links(&[(MAC, 1000)]);
        } else {
            set_hops(&mut first, 1);
        }
        assert_eq!(
            give(&mut forwarder, START, last.clone()),
            Err(Verdict::Held)
        );
        assert_eq!(give(&mut forwarder, START, second), Err(Verdict::Held));
        let told = give_any(&mut forwarder, START, first).expect("an error for the sender");
        assert_eq!((told.len(), told[0].0), (answered, at(CLIENT6).ip()));
        assert_eq!(forwarder.counters().drop_fragment, 2);
        assert_eq!(give(&mut forwarder, START, last), Err(Verdict::Held));
        let counters = forwarder.counters();
        let forwarded = (counters.forwarded_fragments, counters.forwarded_to_servers);
        assert_eq!(forwarded, (0, 0));
    }
}

/// What waits follows its first in the order in which it came, twice where it came twice.
#[test]
fn what_waits_goes_on_in_order() {
    for reach in [Reach::Nat, Reach::Direct] {
        let mut forwarder = forwarder_by(reach, 100);
        let whole = udp(CLIENT, at(VIP), vec![7; 6000]);
        let parts = fragments(&whole[14..34], &whole[34..]);
        let order = [4, 1, 3, 1, 2];
        for n in order {
            let held = give_to(&mut forwarder, START, parts[n].clone());
            assert_eq!(held, Err(Verdict::Held));
        }
        give_to(&mut forwarder, START, parts[0].clone()).unwrap();
        let sent = order.map(|n| {
            let (_, frame) = forwarder.poll_made().unwrap();
            assert_eq!(frame[20..22], parts[n][20..22], "{n}");
            frame
        });
        assert!(sent[1] == sent[3]);
        assert_eq!(forwarder.poll_made(), None);
    }
}

/// A first fragment that comes twice keeps its number; the same one long after is of another packet.
#[test]
fn a_first_fragment_twice_is_of_one_packet() {
    let mut forwarder = forwarder(100);
    let whole = udp(CLIENT, at(VIP), vec![7; 3000]);
    let parts = fragments(&whole[14..34], &whole[34..]);
    let later = START + FRAGMENTS_HELD_TIME;
    let frames = [
        (0, START),
        (1, START),
        (0, START),
        (2, START),
        (0, later),
        (1, later),
    ];
    let idents = frames.map(|(n, now)| {
        let onward = give(&mut forwarder, now, parts[n].clone()).unwrap();
        Packet::read(&onward, MAC).unwrap().fragment.unwrap().ident
    });
    assert!(idents[..4].iter().all(|ident| *ident == idents[0]));
    assert_ne!(idents[4], idents[0]);
    assert_eq!(idents[5], idents[4]);
}

/// Nobody needs to come for what has waited for too long to be given up, and long frames take the place of several.
#[test]
fn what_waits_is_given_up_in_time() {
    let mut forwarder = forwarder(100);
    let whole = udp(CLIENT, at(VIP), vec![7; 3000]);
    let [_, second, last] =
        <[Vec<u8>; 3]>::try_from(fragments(&whole[14..34], &whole[34..])).unwrap();
    let early = START + FRAGMENTS_HELD_TIME / 2;
    for (now, frame) in [(START, second.clone()), (early, last)] {
        assert_eq!(give(&mut forwarder, now, frame), Err(Verdict::Held));
    }
    for (dropped, since) in [(1, START), (2, early)] {
        let due = since + FRAGMENTS_HELD_TIME;
        assert_eq!(forwarder.poll_timeout(), Some(due));
        forwarder.handle_timeout(due);
        assert_eq!(forwarder.counters().drop_fragment, dropped);
    }
    assert_eq!(forwarder.poll_timeout(), None);
    let mut long = second;
    long.resize(60_000, 0);
    let fit = (FRAGMENTS_HELD_LEN_MAX / long.len()) as u64;
    // All that have waited have made room again.
    for (turn, now) in (0..).zip([early, early + FRAGMENTS_HELD_TIME]) {
        for _ in 0..10 {
            let held = give(&mut forwarder, now, long.clone());
            assert_eq!(held, Err(Verdict::Held));
        }
        let dropped = 2 + 10 * (turn + 1) - fit;
        assert_eq!(forwarder.counters().drop_fragment, dropped);
    }
}

/// What waits is bounded, in number and in time: the oldest goes, and nothing else suffers.
#[test]
fn fragments_that_wait_are_bounded() {
    let mut forwarder = forwarder(100);
    let ours = open(&mut forwarder, START, at("10.0.0.9:9"), VIP);
    let cut = |n: usize| {
        let client = format!("10.1.{}.{}:7", n / 250, 1 + n % 250);
        let whole = udp(&client, at(VIP), vec![7; 2000]);
        fragments(&whole[14..34], &whole[34..])
    };
    let hold = |forwarder: &mut Forwarder, now, n| {
        assert_eq!(give(forwarder, now, cut(n)[1].clone()), Err(Verdict::Held));
    };
    (0..1000).for_each(|n| hold(&mut forwarder, START, n));
    let dropped = 1000 - FRAGMENTS_HELD_MAX as u64;
    assert_eq!(forwarder.counters().drop_fragment, dropped);
    // The youngest are there, the others are not.
    for (n, follows) in [(999, true), (0, false), (dropped as usize, true)] {
        give(&mut forwarder, START, cut(n)[0].clone()).unwrap();
        assert_eq!(forwarder.poll_made().is_some(), follows, "{n}");
    }
    // After its time none follows, and all are given up when another has to wait.
    let late = START + FRAGMENTS_HELD_TIME + Duration::from_millis(1);
    give(&mut forwarder, late, cut(500)[0].clone()).unwrap();
    give(&mut forwarder, late, cut(998)[0].clone()).unwrap();
    assert_eq!(forwarder.poll_made(), None);
    hold(&mut forwarder, late, 1);
    assert_eq!(forwarder.counters().drop_fragment, 1000 - 2);
    give(&mut forwarder, late, tcp(at(SERVER), ours, ACK, 102)).expect("it stands");
}

/// Cuts what follows an IP header into three fragments.
fn fragments(header: &[u8], upper: &[u8]) -> Vec<Vec<u8>> {
    let parts: Vec<&[u8]> = upper.chunks(1200).collect();
    let cut = |(n, part): (usize, &&[u8])| {
        let more = n + 1 < parts.len();
        let mut frame = [&MAC.0[..], &[2, 0, 0, 0, 0, 1]].concat();
        if header.len() == 20 {
            let mut ip = etherparse::Ipv4Header::from_slice(header).unwrap().0;
            ip.set_payload_len(part.len()).unwrap();
            ip.dont_fragment = false;
            ip.more_fragments = more;
            ip.fragment_offset = ((n * 1200 / 8) as u16).try_into().unwrap();
            ip.header_checksum = ip.calc_header_checksum();
            frame.extend([8, 0]);
            ip.write(&mut frame).unwrap();
        } else {
            let mut ip = etherparse::Ipv6Header::from_slice(header).unwrap().0;
            let number = ip.next_header;
            ip.next_header = etherparse::ip_number::IPV6_FRAG;
            ip.payload_length = (8 + part.len()) as u16;
            frame.extend([0x86, 0xdd]);
            ip.write(&mut frame).unwrap();
            let at = ((n * 1200 / 8) as u16).try_into().unwrap();
            let part = etherparse::Ipv6FragmentHeader::new(number, at, more, 0x1234);
            part.write(&mut frame).unwrap();
        }
        frame.extend_from_slice(part);
        frame
    };
    parts.iter().enumerate().map(cut).collect()
}

/// An error about a packet that was sent on reaches anyone who sent it, and quotes what they sent.
#[test]
fn errors_go_back_to_who_sent_the_packet() {
    for (client, vip, server, router) in [
        (CLIENT, VIP, SERVER, "10.0.0.254"),
        (CLIENT6, VIP6, SERVER6, "fd00::fe"),
    ] {
        let router: IpAddr = router.parse().unwrap();
        let mut forwarder = forwarder(100);
        let ours = open(&mut forwarder, START, at(client), vip);
        for quoted_len in [8, 20] {
            // A packet of the client, as it went on to the server, found no way.
            let sent = tcp(at(client), at(vip), ACK, ISN + 1);
            let onward = give(&mut forwarder, START, sent.clone()).unwrap();
            let error = icmp_error(router, ours.ip(), &onward, quoted_len);
            let error = give(&mut forwarder, START, error).unwrap();
            check_error(&error, at(vip).ip(), at(client).ip(), &sent, quoted_len);
            // And one of the server.
            let sent = tcp(at(server), ours, ACK, 101);
            let onward = give(&mut forwarder, START, sent.clone()).unwrap();
            let error = icmp_error(router, at(vip).ip(), &onward, quoted_len);
            let error = give(&mut forwarder, START, error).unwrap();
            check_error(&error, ours.ip(), at(server).ip(), &sent, quoted_len);
        }
        assert_eq!(forwarder.counters().forwarded_icmp_errors, 4);
        // About what nobody has sent.
        let strange = tcp(SocketAddr::new(at(vip).ip(), 5), at(server), ACK, 1);
        let error = icmp_error(router, at(vip).ip(), &strange, 8);
        assert_eq!(give(&mut forwarder, START, error), Err(Verdict::Drop));
        assert_eq!(forwarder.counters().drop_icmp_unknown, 1);
        let about_us = tcp(SocketAddr::new(at(vip).ip(), 5), at(client), ACK, 1);
        let error = icmp_error(router, at(vip).ip(), &about_us, 8);
        assert_eq!(give(&mut forwarder, START, error), Err(Verdict::Stack));
    }
}

/// Where servers see their clients, an error about what a client sent is for the client, and comes by us; one about what a
/// server sent comes to us, and goes on to the server from whom it came.
#[test]
fn errors_go_back_where_servers_see_their_clients() {
    for (client, vip, server, router) in [
        (CLIENT, VIP, SERVER, "10.0.0.254"),
        (CLIENT6, VIP6, SERVER6, "fd00::fe"),
    ] {
        let router: IpAddr = router.parse().unwrap();
        let (client, vip, server) = (at(client), at(vip), at(server));
        let mut forwarder = forwarder_by(Reach::Transparent, 100);
        for (src, dst, flags) in [(client, vip, SYN), (server, client, SYN | ACK)] {
            give(&mut forwarder, START, tcp(src, dst, flags, 101)).unwrap();
        }
        for quoted_len in [8, 20] {
            let sent = tcp(client, vip, ACK, ISN + 1);
            let onward = give(&mut forwarder, START, sent.clone()).unwrap();
            let error = icmp_error(router, client.ip(), &onward, quoted_len);
            let error = give(&mut forwarder, START, error).unwrap();
            check_error(&error, vip.ip(), client.ip(), &sent, quoted_len);
            let sent = tcp(server, client, ACK, 101);
            let onward = give(&mut forwarder, START, sent.clone()).unwrap();
            let error = icmp_error(router, vip.ip(), &onward, quoted_len);
            let error = give(&mut forwarder, START, error).unwrap();
            check_error(&error, router, server.ip(), &sent, quoted_len);
        }
        assert_eq!(forwarder.counters().forwarded_icmp_errors, 4);
    }
}

/// "Fragmentation needed", or "packet too big", that quotes so much of a frame's transport header.
fn icmp_error(from: IpAddr, to: IpAddr, about: &[u8], quoted_len: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], MAC.0);
    let mut frame = Vec::new();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let quote = &about[14..14 + 20 + quoted_len];
            let kind = etherparse::Icmpv4Type::DestinationUnreachable(
                etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded {
                    next_hop_mtu: 1280,
                },
            );
            let builder = builder.ipv4(from.octets(), to.octets(), 64);
            builder.icmpv4(kind).write(&mut frame, quote).unwrap();
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let quote = &about[14..14 + 40 + quoted_len];
            let kind = etherparse::Icmpv6Type::PacketTooBig { mtu: 1280 };
            let builder = builder.ipv6(from.octets(), to.octets(), 64);
            builder.icmpv6(kind).write(&mut frame, quote).unwrap();
        }
        _ => unreachable!(),
    }
    frame
}

/// The error goes between these, is intact, says what it said, and quotes `sent` but for the hops, which are less.
fn check_error(error: &[u8], src: IpAddr, dst: IpAddr, sent: &[u8], quoted_len: usize) {
    let packet = Packet::read(error, MAC).unwrap();
    assert_eq!(
        (IpAddr::from(packet.src), IpAddr::from(packet.dst)),
        (src, dst)
    );
    let sliced = SlicedPacket::from_ethernet(error).unwrap();
    let quote = match sliced.transport.unwrap() {
        TransportSlice::Icmpv4(icmp) => {
            assert_eq!(
                icmp.header().icmp_type.calc_checksum(icmp.payload()),
                icmp.checksum()
            );
            icmp.payload()
        }
        TransportSlice::Icmpv6(icmp) => {
            let (IpAddr::V6(src), IpAddr::V6(dst)) = (src, dst) else {
                unreachable!()
            };
            assert!(icmp.is_checksum_valid(src.octets(), dst.octets()));
            icmp.payload()
        }
        other => panic!("{other:?}"),
    };
    let ip_len = if src.is_ipv4() { 20 } else { 40 };
    let mut wanted = sent[14..14 + ip_len + quoted_len].to_vec();
    let hops_at = if src.is_ipv4() { 8 } else { 7 };
    wanted[hops_at] -= 1;
    if src.is_ipv4() {
        // The hops are above the protocol in their word.
        let old = u16::from_be_bytes([wanted[10], wanted[11]]);
        let sum = exos_wire::checksum::update16(old, 0x4006, 0x3f06);
        wanted[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    assert_eq!(quote, wanted);
}
