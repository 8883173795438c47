//! Many frames at once, in live frame mode: the same frames arrive in the same order as by the ring, at a kernel and at
//! another link, and nothing is lost where the other end would not take them.

use crate::common;

use std::net::UdpSocket;
use std::time::Instant;

use common::*;
use exos_host::sysfs::Sysfs;
use exos_link::{Link, Relay, TransmitChoice, TxMeta, XdpConfig, XdpLink};

/// What leaves at one flush: above what always goes by the ring, below what the kernel's socket holds.
pub const BATCH: u32 = 50;

/// Turns generic receive offload of the other end on or off, without which it takes no redirected frames.
fn set_gro(wire: &Wire, on: bool) {
    let ethtool = wire.their_ns.ethtool().unwrap();
    ethtool.set_feature("vb", "rx-gro", on).unwrap();
}

/// The datagram of this number: of every length, and no two alike.
fn payload(n: u32) -> Vec<u8> {
    let rest = (0..n % 1400).map(|i| (i ^ n) as u8);
    n.to_be_bytes().into_iter().chain(rest).collect()
}

/// Sends a batch of datagrams from `first` on.
pub fn send_batch(link: &mut Link, wire: &Wire, port: u16, first: u32) {
    for n in first..first + BATCH {
        let frame = wire.frame_to(port, &payload(n));
        let (head, body) = frame.split_at(42);
        assert!(link.transmit(head, &[body], TxMeta::default()));
    }
    flush_all(link);
}

pub fn receive_batch(socket: &UdpSocket, first: u32) {
    let mut buffer = [0; 2000];
    for n in first..first + BATCH {
        let len = socket.recv(&mut buffer).unwrap();
        assert!(buffer[..len] == payload(n), "datagram {n}");
    }
}

/// Says why a test is not run: before Linux 6.3 the link cannot know whether frames arrive, and does without.
fn skip(test: &str) -> bool {
    let old = is_before(6, 3);
    if old {
        say_skipped(test, "Linux 6.3");
    }
    old || skip_without_root(test)
}

#[test]
fn batches_arrive_in_order_by_either_way() {
    if skip("batches_arrive_in_order_by_either_way") {
        return;
    }
    let wire = Wire::new(1500);
    set_gro(&wire, true);
    let mut link = open_xdp();
    let socket = wire.their_socket();
    let port = socket.local_addr().unwrap().port();
    for batch in 0..200 {
        send_batch(&mut link, &wire, port, batch * BATCH);
        receive_batch(&socket, batch * BATCH);
    }
    let live = counter(&link, "tx_live_frames");
    assert!(live >= u64::from(BATCH), "{:?}", link.counters());
    assert_eq!(counter(&link, "tx_frames"), 200 * u64::from(BATCH));
    assert_eq!(counter(&link, "tx_live_refused"), 0);
    assert_eq!(counter(&link, "tx_live_failed"), 0);
    // Every chunk came back, but for some of the ring's that are collected later.
    assert!(link.room() > 2048 - 64, "room for {}", link.room());
}

#[test]
fn frames_between_two_links_are_whole_and_in_order() {
    if skip("frames_between_two_links_are_whole_and_in_order") {
        return;
    }
    let wire = Wire::new(1500);
    let theirs = XdpConfig::new("vb", claim("udp"));
    let mut there = Link::from(
        wire.their_ns
            .run(|| XdpLink::open(&theirs))
            .unwrap()
            .unwrap(),
    );
    let mut link = open_xdp();
    let mut expected = 0;
    for batch in 0..400 {
        send_batch(&mut link, &wire, 7, batch * BATCH);
        receive_until(&mut there, |frame, _| {
            if let Some(data) = udp_payload(frame, 7) {
                assert!(data == payload(expected), "datagram {expected}");
                expected += 1;
            }
            expected == (batch + 1) * BATCH
        });
    }
    assert!(counter(&link, "tx_live_frames") >= u64::from(BATCH));
}

/// Relayed frames lie behind the room that the kernel leaves before what it received.
#[test]
fn relayed_frames_leave_from_where_they_came() {
    if skip("relayed_frames_leave_from_where_they_came") {
        return;
    }
    let wire = Wire::new(1500);
    set_gro(&wire, true);
    let mut link = open_xdp();
    let socket = wire.their_socket();
    let mut expected = 0;
    for batch in 0..50 {
        let first = batch * BATCH;
        for n in first..first + BATCH {
            socket.send_to(&payload(n), (OURS, OUR_PORT)).unwrap();
        }
        let mut seen = 0;
        while seen < BATCH {
            link.relay(|frame, _| {
                if udp_payload(frame, OUR_PORT).is_none() {
                    return Relay::Done;
                }
                seen += 1;
                // Back to where it came from; without a checksum, which UDP allows.
                let (start, rest) = frame.split_at_mut(6);
                start.swap_with_slice(&mut rest[..6]);
                for i in 0..4 {
                    frame.swap(26 + i, 30 + i);
                }
                frame.swap(34, 36);
                frame.swap(35, 37);
                frame[40..42].fill(0);
                Relay::Onward
            });
        }
        flush_all(&mut link);
        let mut buffer = [0; 2000];
        for n in first..first + BATCH {
            let len = socket.recv(&mut buffer).unwrap();
            assert!(buffer[..len] == payload(n), "datagram {n}");
        }
        expected += BATCH;
    }
    assert_eq!(counter(&link, "tx_frames"), u64::from(expected));
    assert!(counter(&link, "tx_live_frames") >= u64::from(BATCH));
}

/// A veth whose other end has neither GRO nor a program loses what is redirected to it: the link knows, when it is opened
/// and later.
#[test]
fn where_they_would_be_lost_frames_go_by_the_ring() {
    if skip("where_they_would_be_lost_frames_go_by_the_ring") {
        return;
    }
    let wire = Wire::new(1500);
    set_gro(&wire, false);
    let socket = wire.their_socket();
    let port = socket.local_addr().unwrap().port();
    let mut link = open_xdp();
    for batch in 0..5 {
        send_batch(&mut link, &wire, port, batch * BATCH);
        receive_batch(&socket, batch * BATCH);
    }
    assert_eq!(counter(&link, "tx_live_frames"), 0);

    set_gro(&wire, true);
    let interval = std::time::Duration::from_millis(1100);
    std::thread::sleep(interval);
    for batch in 0..5 {
        send_batch(&mut link, &wire, port, batch * BATCH);
        receive_batch(&socket, batch * BATCH);
    }
    let live = counter(&link, "tx_live_frames");
    assert!(live > 0);
    set_gro(&wire, false);
    // What is sent before the link asks again may be lost, and is told then.
    for _ in 0..200 {
        send_batch(&mut link, &wire, port, 0);
    }
    let lost = counter(&link, "tx_live_frames") - live;
    let live = live + lost;
    std::thread::sleep(interval);
    let at_once = std::time::Duration::from_millis(1);
    socket.set_read_timeout(Some(at_once)).unwrap();
    while socket.recv(&mut [0; 2000]).is_ok() {}
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for batch in 5..10 {
        send_batch(&mut link, &wire, port, batch * BATCH);
        receive_batch(&socket, batch * BATCH);
    }
    assert_eq!(counter(&link, "tx_live_frames"), live);
    let unsure = counter(&link, "tx_live_unsure");
    assert!(unsure >= lost, "{unsure} of {lost}");
}

/// What a veth has no room for it counts, and the link tells: all that was sent has arrived or is counted.
#[test]
fn what_the_interface_drops_is_counted() {
    if skip("what_the_interface_drops_is_counted") {
        return;
    }
    let wire = Wire::new(1500);
    set_gro(&wire, true);
    let theirs = Sysfs::of(&wire.their_ns).unwrap();
    // A thread of the kernel's receives, which is not there at once.
    theirs.write("class/net/vb/threaded", "1").unwrap();
    let received = || {
        let count = theirs.read("class/net/vb/statistics/rx_packets");
        count.unwrap().unwrap().parse::<u64>().unwrap()
    };
    let config = XdpConfig {
        transmit: TransmitChoice::Batches,
        ..config()
    };
    let mut link = Link::from(XdpLink::open(&config).unwrap());
    assert_eq!(counter(&link, "interface_tx_dropped"), 0);
    let before = received();
    let frame = wire.frame_to(7, &[7; 18]);
    let deadline = Instant::now() + PATIENCE;
    while counter(&link, "interface_tx_dropped") == 0 {
        for _ in 0..1_000 {
            assert!(link.transmit(&frame, &[], TxMeta::default()));
        }
        flush_all(&mut link);
        assert!(Instant::now() < deadline, "a veth holds all of them");
    }
    let (sent, dropped) = (
        counter(&link, "tx_live_frames"),
        counter(&link, "interface_tx_dropped"),
    );
    assert_eq!(sent, counter(&link, "tx_frames"));
    // The kernel sends a few frames of its own.
    let arrived = || (sent - dropped..sent - dropped + 20).contains(&(received() - before));
    while !arrived() {
        assert!(Instant::now() < deadline, "{sent} and {dropped}");
    }
}

/// A frame too long for a page of the kernel's has the ring take the whole batch.
#[test]
fn long_frames_go_by_the_ring() {
    if skip("long_frames_go_by_the_ring") {
        return;
    }
    if is_too_large(9000) {
        return;
    }
    let wire = Wire::new(3498);
    let theirs = XdpConfig::new("vb", claim("udp"));
    let mut there = Link::from(
        wire.their_ns
            .run(|| XdpLink::open(&theirs))
            .unwrap()
            .unwrap(),
    );
    let mut link = open_xdp();
    let lens = [100, 3258, 3259, 3456];
    let mut live = 0;
    for (n, len) in lens.into_iter().cycle().take(40).enumerate() {
        for i in 0..BATCH {
            let frame = wire.frame_to(7, &vec![(n as u32 + i) as u8; len]);
            assert!(link.transmit(&frame, &[], TxMeta::default()));
        }
        flush_all(&mut link);
        let mut seen = 0;
        receive_until(&mut there, |frame, _| {
            if let Some(data) = udp_payload(frame, 7) {
                assert!(*data == vec![(n as u32 + seen) as u8; len]);
                seen += 1;
            }
            seen == BATCH
        });
        let now = counter(&link, "tx_live_frames");
        assert!(len + 42 <= 3300 || now == live, "{len} bytes");
        live = now;
    }
    assert!(live > 0);
}
