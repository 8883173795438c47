//! Frames that are sent without the ring arrive where they should.

use super::*;
use exos_filter::transmit::{END, LOST, QUEUE_LEN, TAKEN};
use gate::sender::{Sender, beginning};

/// For slot 1.
pub(super) fn sender(wire: &Wire) -> Sender {
    Sender::new(&wire.tables, 1, wire.model.slots[1].ifindex)
}

/// The ethertype of IPv4, which all frames here are of.
pub(super) fn ipv4() -> Vec<u8> {
    beginning(&[8, 0])
}

/// Every byte of them tells them apart, also by their length.
pub(super) fn numbered(count: u16, destination: &str) -> Vec<Vec<u8>> {
    let (from, to) = (sa(OURS), sa(destination));
    let frame = |n: u16| {
        let mut header = ports(UDP, from.port(), to.port(), 2 + usize::from(n % 1400));
        header[4..8].copy_from_slice(&[0; 4]);
        let len = header.len() as u16;
        header[4..6].copy_from_slice(&len.to_be_bytes());
        header[8..10].copy_from_slice(&n.to_be_bytes());
        header[10..].fill(n as u8);
        let packet = ip(from.ip(), to.ip(), UDP, None, &[], &header);
        ethernet(PEER_MAC, MAC, 0x0800, &packet)
    };
    (0..count).map(frame).collect()
}

/// These frames come, in this order, with nothing between them but what the kernel sends itself.
pub(super) fn expect_all(packets: &gate::wire::Packets, frames: &[Vec<u8>]) {
    for (n, frame) in frames.iter().enumerate() {
        let have = packets.receive(|have| have[12..14] == [8, 0]);
        assert!(have.as_ref() == Some(frame), "frame {n}: {have:02x?}");
    }
}

/// To the wire, to another slot and to the host; bytes, order and counters are those of frames that leave by the ring.
#[test]
fn batches_reach_the_wire_slots_and_the_host() {
    in_namespace("batches_reach_the_wire_slots_and_the_host", || {
        let wire = wire();
        let netlink = Netlink::new().unwrap();
        netlink
            .add_address(wire.device, v("192.0.2.1"), 24)
            .unwrap();
        let sender = sender(&wire);
        let frames = numbered(150, PEER);
        // Told to come from the slot's interface, the egress of the device leaves them alone.
        for ingress in [0, sender.ifindex] {
            sender.put(&frames);
            while sender.word(TAKEN) != sender.word(END) {
                sender.program.run_batch(&ipv4(), ingress, 2).unwrap();
            }
            expect_all(&wire.peer, &frames);
        }
        let hairpin = numbered(100, "192.0.2.7:443");
        sender.send(&hairpin);
        expect_all(&wire.slots[2], &hairpin);

        let host = UdpSocket::bind("192.0.2.1:7000").unwrap();
        host.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut questions = numbered(20, "192.0.2.1:7000");
        questions
            .iter_mut()
            .for_each(|q| q[..6].copy_from_slice(&MAC));
        sender.send(&questions);
        for question in &questions {
            let mut data = [0; 2000];
            let (len, from) = host.recv_from(&mut data).unwrap();
            assert_eq!((&data[..len], from), (&question[42..], sa(OURS)));
        }
        let expected = [
            (1, Counter::TxPackets, 420),
            (1, Counter::TxToSlot, 100),
            (1, Counter::TxToHost, 20),
            (2, Counter::RxPackets, 100),
        ];
        expect_counted(&wire.tables, &expected);
        let words = sender.words();
        assert_eq!((words.refused, words.returned), (0, 0));
    });
}

/// What an interface does not take is counted, for the one who sent it: in its own queue and by the gate.
#[test]
fn what_an_interface_does_not_take_is_counted() {
    in_namespace("what_an_interface_does_not_take_is_counted", || {
        let wire = wire();
        let netlink = Netlink::new().unwrap();
        let sender = sender(&wire);
        let frames = numbered(50, PEER);
        let hairpin = numbered(30, "192.0.2.7:443");
        sender.send(&frames);
        expect_all(&wire.peer, &frames);
        assert_eq!(sender.word(LOST), 0);

        netlink.set_up(wire.device, false).unwrap();
        sender.send(&frames);
        assert_eq!(sender.word(LOST), 50);
        netlink.set_up(wire.model.slots[2].ifindex, false).unwrap();
        sender.send(&hairpin);
        assert_eq!(sender.word(LOST), 80);
        let expected = [
            (1, Counter::TxPackets, 130),
            (1, Counter::TxLost, 80),
            (2, Counter::TxLost, 0),
        ];
        expect_counted(&wire.tables, &expected);
    });
}

/// While somebody copies packets all are given back, and leave by the ring; afterwards not.
#[test]
fn what_is_copied_is_given_back() {
    in_namespace("what_is_copied_is_given_back", || {
        let wire = wire();
        let sender = sender(&wire);
        let frames = numbered(40, PEER);
        let mut config = wire.model.config;
        let key = 0_u32.to_ne_bytes();
        for taps in [1, 0, 8] {
            config.taps = taps;
            wire.tables
                .0
                .config
                .update(&key, &config.to_bytes())
                .unwrap();
            let before = (sender.words(), wire.tables.counters(1));
            sender.send(&frames);
            let returned = sender.words().returned - before.0.returned;
            if taps == 0 {
                expect_all(&wire.peer, &frames);
                assert_eq!(returned, 0);
            } else {
                assert_eq!(returned, frames.len() as u64);
                assert!((0..40).all(|n| sender.is_given_back(before.0.taken, n)));
                assert_eq!(wire.tables.counters(1), before.1, "nothing is counted");
            }
        }
    });
}

/// A full queue of the greatest frames, from the shortest beginning and from a long one.
#[test]
fn long_frames_leave_whole() {
    in_namespace("long_frames_leave_whole", || {
        let wire = wire();
        let sender = sender(&wire);
        let frame = numbered(1400, PEER).pop().unwrap();
        let mut long = ipv4();
        long.resize(1514, 0);
        for beginning in [&ipv4()[..34], &long] {
            sender.put(&vec![&frame; QUEUE_LEN as usize]);
            let mut got = 0;
            while sender.word(TAKEN) != sender.word(END) {
                sender.program.run_batch(beginning, 0, 1).unwrap();
                while let Some(have) = wire.peer.next() {
                    if have[12..14] == [8, 0] {
                        assert!(have == frame, "{have:02x?}");
                        got += 1;
                    }
                }
            }
            wait_until(|| {
                got += std::iter::from_fn(|| wire.peer.next())
                    .filter(|have| *have == frame)
                    .count();
                got == QUEUE_LEN as usize
            });
            assert_eq!(got, QUEUE_LEN as usize);
        }
    });
}

/// The device's driver would get frames of any length, so the program stops those that the slot's interface does not take
/// by the ring.
#[test]
fn frames_beyond_the_mtu_are_refused() {
    in_namespace("frames_beyond_the_mtu_are_refused", || {
        let wire = wire();
        let sender = sender(&wire);
        let netlink = Netlink::new().unwrap();
        let of_length = |len: usize| {
            let mut frame = sent(OURS, PEER, UDP);
            frame.resize(len, 0);
            frame
        };
        for (mtu, lengths) in [
            (1500, [74, 82, 83, 1514, 1515, 1700]),
            (100, [74, 82, 83, 114, 115, 1514]),
            (68, [74, 81, 82, 83, 114, 1514]),
        ] {
            netlink.set_mtu(sender.ifindex, mtu).unwrap();
            let before = sender.words();
            let frames = lengths.map(of_length);
            sender.send(&frames);
            let (fit, long): (Vec<_>, Vec<_>) = frames
                .into_iter()
                .partition(|frame| frame.len() <= 14 + mtu as usize);
            expect_all(&wire.peer, &fit);
            let refused = sender.words().refused - before.refused;
            assert_eq!(refused, long.len() as u64);
        }
        assert!(wire.peer.next().is_none_or(|frame| frame[12..14] != [8, 0]));
    });
}
