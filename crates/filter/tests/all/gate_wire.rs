//! The gate on real interfaces: packets arrive where it says, and what the kernel does behind it fits.

mod batch;
mod batch_attacks;
mod live;

use crate::common;
use crate::gate;

use exos_filter::Filter;
use exos_filter::gate::layout::address_bytes;
use exos_filter::gate::limits::SNAP_LEN_MAX;
use exos_filter::gate::{
    self as gates, AddressFlags, Bucket, Counter, Direction, FlowKey, Slot, SlotKind, SlotSet, Tap,
    TapRecord, Verdict,
};
use exos_host::bpf::{Map, Prog, RingbufReader};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use gate::packets::{arp, ethernet, ip, mapped, ports, tcp};
use gate::wire::{PATIENCE, Wire, checksum};
use gate::{MAC, PEER_MAC, TCP, Tables, UDP, grant, in_namespace, sa, v};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const OURS: &str = "192.0.2.7:80";
const PEER: &str = "198.51.100.9:50000";

/// Port 80 of an address that is ours alone for slot 1, 443 for slot 2; another address is the host's.
fn wire() -> Wire {
    Wire::new(|model| {
        let addresses = [
            ("192.0.2.7", AddressFlags::OURS_ALONE),
            ("192.0.2.1", AddressFlags::HOST),
        ];
        for (address, flags) in addresses {
            model.addresses.insert(address_bytes(v(address)), flags);
        }
        for (port, slot) in [(80, 1), (443, 2)] {
            for protocol in [TCP, UDP] {
                let key = FlowKey::port(protocol, (v("192.0.2.7"), port).into());
                grant(model, key, slot);
            }
        }
    })
}

/// Each slot's counter comes to this; what was sent last need not have arrived yet.
fn expect_counted(tables: &Tables, expected: &[(u32, Counter, u64)]) {
    for &(slot, counter, count) in expected {
        let counted = || tables.counters(slot)[counter as usize];
        wait_until(|| counted() >= count);
        let all = gate::named(&tables.counters(slot));
        assert_eq!(counted(), count, "slot {slot} {counter:?}: {all}");
    }
}

/// Until it is so, or [`PATIENCE`] ends.
fn wait_until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// From the slots' MAC address, to the peer.
fn sent(source: &str, destination: &str, protocol: u8) -> Vec<u8> {
    let (source, destination) = (sa(source), sa(destination));
    let header = ports(protocol, source.port(), destination.port(), 32);
    let packet = ip(source.ip(), destination.ip(), protocol, None, &[], &header);
    ethernet(PEER_MAC, MAC, 0x0800, &packet)
}

/// Packets go to the slot that their port is granted to, and back; the rest where it belongs.
#[test]
fn packets_reach_their_slots_and_the_wire() {
    in_namespace("packets_reach_their_slots_and_the_wire", || {
        let wire = wire();
        let [to_first, to_second, stray] =
            [80, 443, 81].map(|port| tcp(PEER, &format!("192.0.2.7:{port}")));
        for frame in [&to_first, &to_second, &stray] {
            wire.peer.send(frame);
        }
        wire.slots[1].expect(&to_first);
        wire.slots[2].expect(&to_second);
        wire.slots[0].expect(&stray);
        let question = ethernet(
            [0xff; 6],
            PEER_MAC,
            0x0806,
            &arp(1, [192, 0, 2, 9], [192, 0, 2, 7]),
        );
        wire.peer.send(&question);
        wire.slots[0].expect(&question);

        let allowed = sent(OURS, PEER, TCP);
        wire.slots[1].send(&allowed);
        wire.peer.expect(&allowed);
        let foreign = sent("192.0.2.7:443", PEER, TCP);
        wire.slots[1].send(&foreign);
        // The kernel takes the tag out of the bytes before the program runs.
        let mut tagged = allowed.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        wire.slots[1].send(&tagged);
        wire.slots[2].send(&foreign);
        wire.peer.expect(&foreign);
        let expected = [
            (1, Counter::TxPackets, 1),
            (1, Counter::TxBadSource, 1),
            (1, Counter::TxBadEthertype, 1),
            (2, Counter::TxPackets, 1),
            (0, Counter::StrayToDaemon, 1),
        ];
        expect_counted(&wire.tables, &expected);
    });
}

/// IPv4-mapped addresses are the keys of IPv4 addresses: as addresses of IPv6 packets they are nobody's.
#[test]
fn mapped_addresses_are_refused_in_both_directions() {
    in_namespace("mapped_addresses_are_refused_in_both_directions", || {
        let wire = wire();
        let over_v6 = |source: &str, destination: &str, from, to| {
            let (source, destination) = (sa(source), sa(destination));
            let header = ports(UDP, source.port(), destination.port(), 32);
            let addresses = (mapped(source.ip()), mapped(destination.ip()));
            let packet = ip(addresses.0, addresses.1, UDP, None, &[], &header);
            ethernet(to, from, 0x86dd, &packet)
        };
        wire.slots[1].send(&over_v6(OURS, "[2001:db8::9]:53", MAC, PEER_MAC));
        wire.slots[1].send(&over_v6(OURS, PEER, MAC, PEER_MAC));
        wire.slots[1].send(&over_v6("[2001:db8::7]:80", PEER, MAC, PEER_MAC));
        wire.peer.send(&over_v6(PEER, OURS, PEER_MAC, MAC));
        wire.peer
            .send(&over_v6("[2001:db8::9]:53", OURS, PEER_MAC, MAC));
        let allowed = sent(OURS, PEER, UDP);
        wire.slots[1].send(&allowed);
        wire.peer.expect(&allowed);
        let arriving = tcp(PEER, OURS);
        wire.peer.send(&arriving);
        wire.slots[1].expect(&arriving);
        let expected = [
            (1, Counter::TxBadHeader, 3),
            (1, Counter::TxPackets, 1),
            (1, Counter::RxPackets, 1),
        ];
        expect_counted(&wire.tables, &expected);
    });
}

/// From slot to slot, from a slot to the host, from the host to a slot and, asking who has the address, to the daemon.
#[test]
fn slots_and_host_reach_each_other() {
    in_namespace("slots_and_host_reach_each_other", || {
        let wire = wire();
        let hairpin = sent(OURS, "192.0.2.7:443", UDP);
        wire.slots[1].send(&hairpin);
        wire.slots[2].expect(&hairpin);
        expect_counted(&wire.tables, &[(1, Counter::TxToSlot, 1)]);

        let netlink = Netlink::new().unwrap();
        netlink
            .add_address(wire.device, v("192.0.2.1"), 24)
            .unwrap();
        let host = UdpSocket::bind("192.0.2.1:7000").unwrap();
        host.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut question = sent(OURS, "192.0.2.1:7000", UDP);
        question[..6].copy_from_slice(&MAC);
        // RFC 768: length; a checksum of zero is none.
        question[14 + 20 + 4..14 + 20 + 8].copy_from_slice(&[0, 40, 0, 0]);
        fix_header_checksum(&mut question);
        wire.slots[1].send(&question);
        let mut data = [0; 100];
        let (length, from) = host.recv_from(&mut data).unwrap();
        assert_eq!((length, from), (32, sa(OURS)));
        expect_counted(&wire.tables, &[(1, Counter::TxToHost, 1)]);

        host.send_to(b"hello", OURS).unwrap();
        let asked = wire.slots[0].receive(|frame| frame[12..14] == [8, 6]);
        assert_eq!(asked.unwrap()[38..42], [192, 0, 2, 7]);
        let mut answer = arp(2, [192, 0, 2, 7], [192, 0, 2, 1]);
        answer[8..14].copy_from_slice(&MAC);
        wire.slots[0].send(&ethernet(MAC, MAC, 0x0806, &answer));
        let got = wire.slots[1].receive(|frame| frame.ends_with(b"hello"));
        assert!(got.is_some(), "the host's packet reaches the slot");
    });
}

/// RFC 1071, over the 20 bytes behind Ethernet.
fn fix_header_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks_exact(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// `struct virtio_net_hdr`: flags, gso type, header length, segment size, begin of the sum, place of the sum.
fn virtio(gso: u8, segment: u16, start: u16, offset: u16, frame: &[u8]) -> Vec<u8> {
    let header_len = if gso == 0 { 0u16 } else { 54 };
    let mut bytes = vec![1, gso];
    for field in [header_len, segment, start, offset] {
        bytes.extend(field.to_ne_bytes());
    }
    bytes.extend(frame);
    bytes
}

/// The kernel may be asked to complete the checksum of the transport header, and to write nowhere else.
#[test]
fn checksums_are_written_where_they_belong() {
    if checksum().is_none() {
        return common::skipped("checksums_are_written_where_they_belong: no type information");
    }
    in_namespace("checksums_are_written_where_they_belong", || {
        let wire = wire();
        let Wire {
            slots,
            peer,
            tables,
            ..
        } = wire;
        let slots: Vec<_> = slots.into_iter().map(|s| s.with_virtio_header()).collect();
        let frame = sent(OURS, PEER, UDP);
        // Into the source port, the destination port, data, and the right field with a wrong begin. (The kernel itself
        // refuses places inside the IP header.)
        for (start, offset) in [(34, 0), (34, 2), (36, 0), (34, 8), (34, 16), (36, 4)] {
            slots[1].send(&virtio(0, 0, start, offset, &frame));
        }
        expect_counted(&tables, &[(1, Counter::TxBadChecksum, 6)]);
        slots[1].send(&virtio(0, 0, 34, 6, &frame));
        let got = peer.receive(|have| have.len() == frame.len()).unwrap();
        assert_eq!(got[..40], frame[..40]);
        let sent_tcp = sent(OURS, PEER, TCP);
        slots[1].send(&virtio(0, 0, 34, 16, &sent_tcp));
        assert!(peer.receive(|have| have[..50] == sent_tcp[..50]).is_some());
        // Without an outstanding checksum nothing is looked at.
        let mut plain = vec![0; 10];
        plain.extend(&sent_tcp);
        slots[1].send(&plain);
        peer.expect(&sent_tcp);
    });
}

/// A super-packet is checked once, leaves whole, and is charged with its segments' headers; tiny segments are refused.
#[test]
fn super_packets_pass_whole() {
    in_namespace("super_packets_pass_whole", || {
        let wire = wire();
        let mut header = ports(TCP, 80, 50000, 30_000);
        header[12] = 5 << 4;
        let packet = ip(v("192.0.2.7"), v("198.51.100.9"), TCP, None, &[], &header);
        let frame = ethernet(PEER_MAC, MAC, 0x0800, &packet);
        let Wire {
            mut slots,
            peer,
            tables,
            mut model,
            ..
        } = wire;
        let plenty = Bucket {
            tokens: 1 << 30,
            last: 1 << 62,
            ..Bucket::new(1, 1 << 30)
        };
        model.slots[1].tx.ceiling = plenty;
        tables.fill(&model);
        let first = slots.remove(1).with_virtio_header();
        first.send(&virtio(1, 255, 34, 16, &frame));
        // VIRTIO_NET_HDR_GSO_TCPV4
        first.send(&virtio(1, 1448, 34, 16, &frame));
        assert!(peer.receive(|have| have.len() == frame.len()).is_some());
        let expected = [
            (1, Counter::TxPackets, 1),
            (1, Counter::TxBytes, frame.len() as u64),
            (1, Counter::TxBadHeader, 1),
        ];
        expect_counted(&tables, &expected);
        let charged = plenty.tokens - tables.slot(1).tx.ceiling.tokens;
        let len = frame.len() as i64;
        assert_eq!(charged, len + len / 1448 * 54);
    });
}

/// Has packets of these filters and slots copied: what reads the copies, and the programs.
fn tapped(
    wire: &Wire,
    taps: [(&str, Option<SlotSet>, u32); 3],
) -> (Vec<RingbufReader>, Vec<(Prog, Prog)>) {
    let size = 1 << 16;
    let maps = &wire.tables.0;
    let mut config = wire.model.config;
    config.taps = taps.len() as u32;
    let mut readers = Vec::new();
    let mut programs = Vec::new();
    for (index, (filter, slots, snap_len)) in taps.into_iter().enumerate() {
        let ring = Map::ringbuf("tap", size).unwrap();
        let tap = Tap {
            index: index as u32,
            filter: Filter::parse(filter).unwrap(),
            slots,
            snap_len,
            ring_fd: ring.raw_fd(),
        };
        let [incoming, outgoing] = gates::tap(&wire.tables.fds(), &tap).unwrap();
        let (incoming, outgoing) = (gate::load_xdp(&incoming), gate::load_tc(&outgoing));
        maps.taps_in.set_fd(tap.index, incoming.as_fd()).unwrap();
        maps.taps_out.set_fd(tap.index, outgoing.as_fd()).unwrap();
        let fd = ring.as_fd().try_clone_to_owned().unwrap();
        readers.push(RingbufReader::new(fd, size as usize).unwrap());
        programs.push((incoming, outgoing));
    }
    let key = 0u32.to_ne_bytes();
    maps.config.update(&key, &config.to_bytes()).unwrap();
    (readers, programs)
}

/// One client sees slot 1 only, another everything; a third is too slow.
#[test]
fn taps_copy_what_they_may_see() {
    in_namespace("taps_copy_what_they_may_see", || {
        let wire = wire();
        let taps = [
            ("tcp", Some(SlotSet::from_iter([1, 700])), 40),
            ("ip or arp", None, SNAP_LEN_MAX),
            ("tcp dst port 80", Some(SlotSet::from_iter([1])), 1518),
        ];
        let (mut readers, _programs) = tapped(&wire, taps);

        let [first, second] = [80, 443].map(|port| tcp(PEER, &format!("192.0.2.7:{port}")));
        let (answer, refused) = (sent(OURS, PEER, TCP), sent("192.0.2.7:443", PEER, TCP));
        wire.peer.send(&first);
        wire.slots[1].expect(&first);
        wire.peer.send(&second);
        wire.slots[2].expect(&second);
        wire.slots[1].send(&answer);
        wire.peer.expect(&answer);
        wire.slots[1].send(&refused);

        let mut own = Vec::new();
        wait_until(|| {
            own.extend(records(&mut readers[0]));
            own.retain(|(record, _)| record.slot == 1);
            own.len() >= 3
        });
        let told: Vec<_> = own.iter().map(|(r, _)| (r.direction, r.verdict)).collect();
        let refusal = Verdict::Dropped(Counter::TxBadSource);
        let (came, went) = (Direction::In, Direction::Out);
        assert_eq!(
            told,
            [
                (came, Verdict::Slot),
                (went, Verdict::Wire),
                (went, refusal)
            ]
        );
        for ((record, bytes), frame) in own.iter().zip([&first, &answer, &refused]) {
            assert_eq!((record.length as usize, bytes.len()), (frame.len(), 40));
            assert_eq!(bytes[..], frame[..40]);
        }
        assert!(own.is_sorted_by_key(|(record, _)| record.time_ns));
        assert_eq!(own[0].0.ifindex, wire.device);

        let mut all = Vec::new();
        let mut has_all = || {
            all.extend(records(&mut readers[1]));
            let copied = |frame| all.iter().any(|(_, bytes)| bytes == frame);
            [&first, &second, &answer, &refused].into_iter().all(copied)
        };
        wait_until(&mut has_all);
        assert!(has_all(), "{all:?}");
        lost_copies_are_counted(&wire, &mut readers[2], first);
    });
}

/// 64 KiB hold 42 records of 1,542 bytes; of a hundred frames the rest is lost, and said so.
fn lost_copies_are_counted(wire: &Wire, reader: &mut RingbufReader, mut frame: Vec<u8>) {
    frame.resize(1514, 0);
    (0..100).for_each(|_| wire.peer.send(&frame));
    assert!(wire.slots[1].receive(|frame| frame.len() == 1514).is_some());
    let counts = || wire.tables.0.tap_counts.sum_percpu_u64(2).unwrap();
    let all_seen = || counts().iter().sum::<u64>() >= 101;
    wait_until(all_seen);
    assert!(all_seen(), "{:?}", counts());
    let kept = records(reader).len() as u64;
    assert_eq!((counts()[0], counts()[0] + counts()[1]), (kept, 101));
    assert!((41..=43).contains(&kept), "{kept}");
}

fn records(reader: &mut RingbufReader) -> Vec<(TapRecord, Vec<u8>)> {
    let (mut all, mut bytes) = (Vec::new(), Vec::new());
    while reader.read(&mut bytes).unwrap() {
        let (record, packet) = TapRecord::parse(&bytes).expect("a record");
        all.push((record, packet.to_vec()));
    }
    all
}
