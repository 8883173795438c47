//! Packets over an AF_XDP link: a veth with the real kernel on the other side. As
//! root; each test makes its own namespaces and leaves none.

use crate::common;

use std::time::{Duration, Instant};

use common::*;
use exos_filter::{Action, Filter, Rule};
use exos_link::{Link, RxChecksum, TxMeta, XdpConfig, XdpLink};

/// What the kernel sends we receive, in order and whole, over more packets than
/// the rings hold; its checksums may be partial.
#[test]
fn receives_what_the_kernel_sends() {
    if skip_without_root("receives_what_the_kernel_sends") {
        return;
    }
    let wire = Wire::new(1500);
    let mut link = open_xdp();
    let socket = wire.their_socket();
    let mut expected = 0u32;
    for _ in 0..100 {
        let batch = expected..expected + 100;
        for n in batch.clone() {
            let payload = [
                n.to_be_bytes().as_slice(),
                &vec![n as u8; n as usize % 1400],
            ]
            .concat();
            socket.send_to(&payload, (OURS, OUR_PORT)).unwrap();
        }
        receive_until(&mut link, |frame, meta| {
            if let Some(payload) = udp_payload(frame, OUR_PORT) {
                assert_eq!(meta.checksum, RxChecksum::MaybePartial);
                assert_eq!(payload[..4], expected.to_be_bytes());
                assert!(payload[4..].iter().all(|&b| b == expected as u8));
                assert_eq!(payload.len(), 4 + expected as usize % 1400);
                expected += 1;
            }
            expected == batch.end
        });
    }
    assert_eq!(counter(&link, "rx_frames"), 10_000);
    assert_eq!(counter(&link, "kernel_rx_ring_full"), 0);
}

/// The time of arrival is noted when a frame arrives, not when we look: also of one in several pieces.
#[test]
fn arrival_times_are_those_of_arrival() {
    if skip_without_root("arrival_times_are_those_of_arrival") {
        return;
    }
    for (mtu, payload_len) in [(1500, 100), (9000, 8000)] {
        if is_too_large(mtu) {
            continue;
        }
        let wire = Wire::new(mtu);
        let mut link = Link::from(
            XdpLink::open(&XdpConfig {
                arrival_times: true,
                ..config()
            })
            .unwrap(),
        );
        let socket = wire.their_socket();
        let mut sent = Vec::new();
        for n in 1..=20 {
            let before = monotonic_ns();
            socket
                .send_to(&vec![7; payload_len], (OURS, OUR_PORT))
                .unwrap();
            // It counts what it has noted the time of.
            wait_for("it to arrive", || counter(&link, "xdp_redirect") == n);
            sent.push(before..=monotonic_ns());
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut seen = 0;
        receive_until(&mut link, |frame, meta| {
            if udp_payload(frame, OUR_PORT).is_some() {
                let arrived = meta.arrived_ns.expect("asked for");
                assert!(sent[seen].contains(&arrived), "{arrived} {:?}", sent[seen]);
                seen += 1;
            }
            seen == sent.len()
        });
    }
}

/// The clock of arrival times.
fn monotonic_ns() -> u64 {
    // SAFETY: all-zero is a valid timespec, and the pointer lives through the call.
    unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t), 0);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    }
}

/// What we send the kernel receives, gathered from pieces, over more packets
/// than the rings hold.
#[test]
fn the_kernel_receives_what_we_send() {
    if skip_without_root("the_kernel_receives_what_we_send") {
        return;
    }
    let wire = Wire::new(1500);
    let mut link = open_xdp();
    let socket = wire.their_socket();
    let port = socket.local_addr().unwrap().port();
    let mut buffer = [0; 2000];
    for batch in 0..200u32 {
        for n in batch * 50..(batch + 1) * 50 {
            let payload: Vec<u8> = (0..4 + n as usize % 1400)
                .map(|i| (i as u32 * n) as u8)
                .collect();
            let frame = wire.frame_to(port, &payload);
            let (head, body) = frame.split_at(42);
            let (first, second) = body.split_at(body.len() / 3);
            assert!(link.transmit(head, &[first, &[], second], TxMeta::default()));
        }
        flush_all(&mut link);
        for n in batch * 50..(batch + 1) * 50 {
            let len = socket.recv(&mut buffer).unwrap();
            assert_eq!(len, 4 + n as usize % 1400);
            assert!(
                buffer[..len]
                    .iter()
                    .enumerate()
                    .all(|(i, &b)| b == (i as u32 * n) as u8)
            );
        }
    }
    assert!(!link.wants_write());
    assert_eq!(counter(&link, "tx_frames"), 10_000);
    assert_eq!(counter(&link, "kernel_tx_invalid_descriptors"), 0);
}

/// Anyone who sleeps after `prepare_wait` is woken by the next packet, and is told
/// not to sleep when one is there.
#[test]
fn sleeping_is_safe() {
    if skip_without_root("sleeping_is_safe") {
        return;
    }
    let wire = Wire::new(1500);
    let mut link = open_xdp();
    let socket = wire.their_socket();
    for round in 0..50u8 {
        assert!(link.prepare_wait(), "nothing is there");
        let sender = socket.try_clone().unwrap();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(u64::from(round % 3)));
            sender.send_to(&[round], (OURS, OUR_PORT)).unwrap();
        });
        assert!(wait_readable(&link, PATIENCE), "round {round}");
        assert!(!link.prepare_wait());
        receive_until(&mut link, |frame, _| {
            udp_payload(frame, OUR_PORT) == Some(&[round])
        });
        thread.join().unwrap();
    }
    assert!(link.prepare_wait());
    assert!(
        !wait_readable(&link, Duration::from_millis(50)),
        "and does not wake for nothing"
    );
}

/// A full transmit ring is refused, not dropped, and all of it is sent.
#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    if skip_without_root("a_full_ring_refuses_and_loses_nothing") {
        return;
    }
    let wire = Wire::new(1500);
    let mut link = open_xdp();
    let socket = wire.their_socket();
    socket.set_nonblocking(true).unwrap();
    let port = socket.local_addr().unwrap().port();
    let frame = wire.frame_to(port, b"full");
    let room = link.room();
    assert!(room >= 1024, "room for {room}");
    for _ in 0..room {
        assert!(link.transmit(&frame, &[], TxMeta::default()));
    }
    assert_eq!(link.room(), 0);
    assert!(!link.transmit(&frame, &[], TxMeta::default()));
    assert_eq!(counter(&link, "tx_no_room"), 1);
    flush_all(&mut link);
    // The last few come back when they are needed.
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..room {
        while !link.transmit(&frame, &[], TxMeta::default()) {
            assert!(Instant::now() < deadline, "{:?}", link.counters());
            std::thread::yield_now();
        }
    }
}

/// What no rule claims goes to the host: its kernel answers on the same
/// interface as if we were not there.
#[test]
fn the_rest_goes_to_the_host() {
    if skip_without_root("the_rest_goes_to_the_host") {
        return;
    }
    let wire = Wire::new(1500);
    let netlink = wire.our_ns.netlink().unwrap();
    let index = netlink.link_by_name(OUR_INTERFACE).unwrap().index;
    netlink.add_address(index, OURS.into(), 24).unwrap();
    netlink
        .set_neighbour(index, THEIRS.into(), wire.their_mac.0)
        .unwrap();
    let mut link = open_xdp();
    let host = std::net::UdpSocket::bind((OURS, 9001)).unwrap();
    host.set_read_timeout(Some(PATIENCE)).unwrap();
    let socket = wire.their_socket();
    socket.send_to(b"for the host", (OURS, 9001)).unwrap();
    socket.send_to(b"for us", (OURS, OUR_PORT)).unwrap();
    let mut buffer = [0; 100];
    let (len, from) = host.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"for the host");
    host.send_to(b"answer", from).unwrap();
    let len = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"answer");
    receive_until(&mut link, |frame, _| {
        assert_eq!(udp_payload(frame, OUR_PORT), Some(b"for us".as_slice()));
        true
    });
}

/// The filter program is replaced a hundred times under traffic that every one
/// of them claims: every packet arrives, in order.
#[test]
fn swapping_filters_loses_nothing() {
    if skip_without_root("swapping_filters_loses_nothing") {
        return;
    }
    const PACKETS: u32 = 20_000;
    let wire = Wire::new(1500);
    let mut link = XdpLink::open(&config()).unwrap();
    let socket = wire.their_socket();
    let received = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::sync::atomic::Ordering;
            for n in 0..PACKETS {
                while n >= received.load(Ordering::Relaxed) + UNDER_WAY {
                    std::thread::yield_now();
                }
                socket.send_to(&n.to_be_bytes(), (OURS, OUR_PORT)).unwrap();
            }
        });
        let deadline = Instant::now() + PATIENCE;
        let (mut expected, mut swaps) = (0u32, 0);
        while expected < PACKETS {
            assert!(
                Instant::now() < deadline,
                "{expected} of {PACKETS}: {:?}",
                link.counters()
            );
            link.receive(|frame, _| {
                assert_eq!(
                    udp_payload(frame, OUR_PORT),
                    Some(expected.to_be_bytes().as_slice())
                );
                expected += 1;
            });
            received.store(expected, std::sync::atomic::Ordering::Relaxed);
            if expected / (PACKETS / 100) > swaps {
                swaps += 1;
                let other =
                    ["udp", "udp dst port 9000", "host 10.77.0.2 and udp"][swaps as usize % 3];
                link.set_rules(&claim(other), Action::Pass).unwrap();
            }
        }
        assert!(swaps >= 99, "{swaps} swaps");
    });
}

/// New rules are in force when `set_rules` returns.
#[test]
fn new_rules_are_in_force_at_once() {
    if skip_without_root("new_rules_are_in_force_at_once") {
        return;
    }
    let wire = Wire::new(1500);
    let mut link = XdpLink::open(&config()).unwrap();
    let socket = wire.their_socket();
    link.set_rules(&claim("udp dst port 9001"), Action::Pass)
        .unwrap();
    socket.send_to(b"unclaimed", (OURS, OUR_PORT)).unwrap();
    socket.send_to(b"claimed", (OURS, 9001)).unwrap();
    receive_until(&mut link.into(), |frame, _| {
        assert_eq!(udp_payload(frame, 9001), Some(b"claimed".as_slice()));
        true
    });
}

/// The program counts what becomes of every packet.
#[test]
fn verdicts_are_counted() {
    if skip_without_root("verdicts_are_counted") {
        return;
    }
    let wire = Wire::new(1500);
    let mut rules = our_rules();
    rules.push(Rule {
        filter: Filter::parse("udp port 9001").unwrap(),
        action: Action::Drop,
    });
    let mut link = XdpLink::open(&XdpConfig::new(OUR_INTERFACE, rules))
        .unwrap()
        .into();
    let before = counter(&link, "xdp_pass");
    let socket = wire.their_socket();
    for (count, port) in [(3, 9001), (2, 9002), (5, OUR_PORT)] {
        for _ in 0..count {
            socket.send_to(b"count", (OURS, port)).unwrap();
        }
    }
    let mut seen = 0;
    receive_until(&mut link, |_, _| {
        seen += 1;
        seen == 5
    });
    assert_eq!(
        [counter(&link, "xdp_drop"), counter(&link, "xdp_redirect")],
        [3, 5]
    );
    assert!(counter(&link, "xdp_pass") - before >= 2);
    assert_eq!(counter(&link, "xdp_no_socket"), 0);
}

/// Every MTU that is one for a chunk, for a larger chunk, and for several.
#[test]
fn packets_of_every_size_in_both_directions() {
    if skip_without_root("packets_of_every_size_in_both_directions") {
        return;
    }
    for mtu in [1500, 1774, 1775, 3498, 3499, 3822, 3823, 9000, 60_000] {
        if is_too_large(mtu) {
            continue;
        }
        let wire = Wire::new(mtu);
        let mut link = open_xdp();
        assert_eq!(link.mtu(), mtu as usize);
        let socket = wire.their_socket();
        let port = socket.local_addr().unwrap().port();
        let mut buffer = vec![0; 65_536];
        for len in [1, 1000, mtu as usize - 29, mtu as usize - 28] {
            let payload: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            socket.send_to(&payload, (OURS, OUR_PORT)).unwrap();
            receive_until(&mut link, |frame, _| {
                udp_payload(frame, OUR_PORT) == Some(&payload)
            });
            let frame = wire.frame_to(port, &payload);
            let (head, body) = frame.split_at(42);
            assert!(link.transmit(head, &[body], TxMeta::default()));
            link.flush().unwrap();
            let got = socket.recv(&mut buffer).unwrap();
            assert!(buffer[..got] == payload[..], "MTU {mtu}, {len} bytes");
        }
    }
}

/// An interface that goes down under us is reported by `flush`, and what was
/// queued leaves when it is up again.
#[test]
fn an_interface_that_goes_down_is_reported() {
    if skip_without_root("an_interface_that_goes_down_is_reported") {
        return;
    }
    let wire = Wire::new(1500);
    let mut link = open_xdp();
    let netlink = wire.our_ns.netlink().unwrap();
    let index = netlink.link_by_name(OUR_INTERFACE).unwrap().index;
    let socket = wire.their_socket();
    let frame = wire.frame_to(socket.local_addr().unwrap().port(), b"patience");
    netlink.set_up(index, false).unwrap();
    assert!(link.transmit(&frame, &[], TxMeta::default()));
    assert_eq!(
        link.flush().unwrap_err().raw_os_error(),
        Some(libc::ENETDOWN)
    );
    netlink.set_up(index, true).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while link.wants_write() || link.flush().is_err() {
        assert!(Instant::now() < deadline, "{:?}", link.counters());
        let _ = link.flush();
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut buffer = [0; 100];
    let len = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"patience");
}

/// With busy polling asked for, packets come and go all the same.
#[test]
fn busy_polling_can_be_preferred() {
    if skip_without_root("busy_polling_can_be_preferred") {
        return;
    }
    let wire = Wire::new(1500);
    let polling = XdpConfig {
        prefer_busy_poll: true,
        ..config()
    };
    let mut link = XdpLink::open(&polling).unwrap().into();
    let socket = wire.their_socket();
    let port = socket.local_addr().unwrap().port();
    let mut buffer = [0; 100];
    for round in 0..100u8 {
        socket.send_to(&[round], (OURS, OUR_PORT)).unwrap();
        receive_until(&mut link, |frame, _| {
            udp_payload(frame, OUR_PORT) == Some(&[round])
        });
        assert!(link.transmit(&wire.frame_to(port, &[round]), &[], TxMeta::default()));
        link.flush().unwrap();
        assert_eq!((socket.recv(&mut buffer).unwrap(), buffer[0]), (1, round));
    }
}

/// An interface that is deleted under us is reported by `flush`, even to someone
/// who has nothing to send, once it wants to sleep, or looks after the link.
#[test]
fn an_interface_that_is_deleted_is_reported() {
    if skip_without_root("an_interface_that_is_deleted_is_reported") {
        return;
    }
    for (has_something_to_send, looks_after_it) in [(false, false), (false, true), (true, false)] {
        let wire = Wire::new(1500);
        let mut link = open_xdp();
        assert!(link.prepare_wait());
        link.flush().unwrap();
        let netlink = wire.our_ns.netlink().unwrap();
        netlink
            .delete_link(netlink.link_by_name(OUR_INTERFACE).unwrap().index)
            .unwrap();
        if has_something_to_send {
            assert!(link.transmit(&wire.frame_to(1, b"lost"), &[], TxMeta::default()));
        } else if looks_after_it {
            assert!(link.prepare_next_wait(), "the kernel is not asked");
            link.look_after();
            assert!(!link.prepare_next_wait());
        } else {
            assert!(!link.prepare_wait());
        }
        for _ in 0..2 {
            assert_eq!(link.receive(|_, _| {}), 0);
            assert_eq!(link.flush().unwrap_err().raw_os_error(), Some(libc::ENODEV));
            assert!(!link.prepare_wait());
        }
    }
}

/// When we do not come to receive, what has no room is dropped and counted: every
/// packet that the program gave us is somewhere. Afterwards all is as before.
#[test]
fn what_has_no_room_is_counted() {
    if skip_without_root("what_has_no_room_is_counted") {
        return;
    }
    const SENT: u64 = 25 * UNDER_WAY as u64;
    let wire = Wire::new(1500);
    let mut link = open_xdp();
    let socket = wire.their_socket();
    for n in 0..SENT {
        socket
            .send_to(&(n as u32).to_be_bytes(), (OURS, OUR_PORT))
            .unwrap();
        if (n + 1) % u64::from(UNDER_WAY) == 0 {
            wait_for("the packets to cross", || {
                counter(&link, "xdp_redirect") == n + 1
            });
        }
    }
    let mut received = 0;
    while !link.prepare_wait() {
        received += link.receive(|_, _| {}) as u64;
    }
    let dropped = counter(&link, "kernel_rx_dropped") + counter(&link, "kernel_rx_ring_full");
    assert_eq!(received + dropped, SENT, "{:?}", link.counters());
    assert!(dropped > 0 && received >= 1000);
    for round in 0..100u32 {
        socket
            .send_to(&round.to_be_bytes(), (OURS, OUR_PORT))
            .unwrap();
        receive_until(&mut link, |frame, _| {
            udp_payload(frame, OUR_PORT) == Some(&round.to_be_bytes())
        });
    }
}

/// A frame to us by hand: IPv4 or IPv6, TCP with these flags and this much data, or a later fragment of it.
fn segment(wire: &Wire, ipv6: bool, flags: u8, data: usize, fragment: bool) -> Vec<u8> {
    let mut frame = [wire.our_mac.0, wire.their_mac.0].concat();
    let len = (20 + data) as u16;
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        let extension = if fragment { 8 } else { 0 };
        frame.extend((len + extension).to_be_bytes());
        frame.extend([if fragment { 44 } else { 6 }, 64]);
        frame.extend(THEIRS.to_ipv6_mapped().octets());
        frame.extend(OURS_V6.octets());
        if fragment {
            frame.extend([6, 0, 0, 0xa8, 0, 0, 0, 7]);
        }
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 7, 0, if fragment { 5 } else { 0 }, 64, 6, 0, 0]);
        frame.extend(THEIRS.octets());
        frame.extend(OURS.octets());
    }
    frame.extend([
        4,
        0,
        0,
        80,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        1,
        5 << 4,
        flags,
        1,
        0,
        0,
        0,
        0,
        0,
    ]);
    frame.resize(frame.len() + data, b'x');
    frame
}

const OURS_V6: std::net::Ipv6Addr = std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);

/// Of a ring that nobody takes packets from, fragments get a quarter, acknowledgements half, SYNs three quarters, and
/// everything else the rest: what a flood cannot have is there for others.
#[test]
fn a_flood_does_not_fill_the_ring() {
    if skip_without_root("a_flood_does_not_fill_the_ring") {
        return;
    }
    if is_before(6, 2) || !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        let needed = "Linux 6.2 with CONFIG_DEBUG_INFO_BTF";
        return say_skipped("a_flood_does_not_fill_the_ring", needed);
    }
    // Entries of the receive ring.
    let places = 2048;
    let (syn, ack, psh, fin) = (2, 16, 8, 1);
    for ipv6 in [false, true] {
        let wire = Wire::new(1500);
        let rules = claim(&format!("dst host {OURS} or dst host {OURS_V6}"));
        let link: Link = XdpLink::open(&XdpConfig::new(OUR_INTERFACE, rules))
            .unwrap()
            .into();
        let there = wire
            .their_ns
            .run(|| XdpLink::open(&XdpConfig::new("vb", our_rules())));
        let mut there = there.unwrap().unwrap();
        let verdicts = || {
            let all = link.counters();
            let verdicts = all.iter().filter(|(name, _)| name.starts_with("xdp_"));
            verdicts.map(|(_, count)| count).sum::<u64>()
        };
        let mut flood = |frame: &[u8], count: u64| {
            let until = verdicts() + count;
            for sent in 0..count {
                assert!(there.transmit(frame, &[], TxMeta::default()));
                // No more at a time than a veth holds.
                if sent % 32 == 31 || sent + 1 == count {
                    there.flush().unwrap();
                    let left = count - 1 - sent;
                    wait_for("frames to arrive", || verdicts() >= until - left);
                }
            }
        };
        let mut taken = 0;
        for (name, quarters, flags, data, fragment) in [
            ("xdp_early_drop_fragment", 1, ack, 8, true),
            ("xdp_early_drop_ack", 2, ack, 0, false),
            ("xdp_early_drop_syn", 3, syn, 0, false),
        ] {
            flood(&segment(&wire, ipv6, flags, data, fragment), places);
            let room = places / 4 * quarters - taken;
            assert_eq!(counter(&link, name), places - room, "{name}, IPv6 {ipv6}");
            taken += room;
            assert_eq!(counter(&link, "xdp_redirect"), taken, "{name}");
        }
        // A request, the end of a connection, the answer to a SYN of ours.
        for (flags, data) in [(ack | psh, 1), (ack | fin, 0), (ack | syn, 0)] {
            flood(&segment(&wire, ipv6, flags, data, false), places / 12);
        }
        taken += places / 12 * 3;
        assert_eq!(counter(&link, "xdp_redirect"), taken);
        assert_eq!(counter(&link, "kernel_rx_dropped"), 0);
    }
}
