//! Datagrams that leave together: cut by the stack or by the link, they are the same; and what of them is another stack's.

use std::net::{IpAddr, SocketAddr};

use exos_inet::stack::TxChecksum;
use exos_inet::udp::{HeaderFields, UdpError, UdpHandle};
use exos_inet::{Concern, Config, Instant, RxChecksum, Stack};
use exos_wire::ipv4::Ipv4View;
use exos_wire::{Mac, Sum, ethernet, ipv4, ipv6, protocol, udp};

const NOW: Instant = Instant::from_millis(1);
const PORT: u16 = 4433;
const MTU: usize = 1500;
const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "fd00::1"], ["10.0.0.2", "fd00::2"]];
const FIELDS: HeaderFields = HeaderFields {
    hop_limit: 33,
    traffic_class: 2,
};

struct Pair {
    stacks: [Stack; 2],
    sockets: [UdpHandle; 2],
}

impl Pair {
    fn new() -> Self {
        let stack = |n: usize| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), MTU);
            let ip = |s: &str| s.parse::<IpAddr>().unwrap();
            config.addresses = vec![(ip(ADDRESSES[n][0]), 24), (ip(ADDRESSES[n][1]), 64)];
            Stack::new(config, 42 + n as u64, NOW).unwrap()
        };
        let mut stacks = [stack(0), stack(1)];
        let sockets = stacks
            .each_mut()
            .map(|stack| stack.udp.bind(None, PORT).unwrap());
        Self { stacks, sockets }
    }

    /// Whose neighbour is known.
    fn acquainted() -> Self {
        let mut pair = Self::new();
        for family in 0..2 {
            pair.send(family, vec![1; 10], 10).unwrap();
            pair.settle();
        }
        pair.take();
        pair
    }

    fn send(&mut self, family: usize, payload: Vec<u8>, segment: usize) -> Result<(), UdpError> {
        let to = SocketAddr::new(ADDRESSES[1][family].parse().unwrap(), PORT);
        let burst = (payload, segment, FIELDS);
        self.stacks[0].udp_send_burst(NOW, self.sockets[0], None, to, burst)
    }

    /// What the first one sends: each with the size of the pieces that the link is to cut.
    fn sent(&mut self) -> Vec<(Vec<u8>, Option<u16>, TxChecksum)> {
        let mut frames = Vec::new();
        while let Some(t) = self.stacks[0].poll_transmit(NOW) {
            let parts = t.body.parts().iter();
            let mut frame = t.head.to_vec();
            parts.for_each(|part| frame.extend_from_slice(part));
            assert!(t.segment_size.is_none() || t.datagrams);
            frames.push((frame, t.segment_size, t.checksum));
        }
        frames
    }

    fn settle(&mut self) {
        for _ in 0..6 {
            for (frame, ..) in self.sent() {
                self.stacks[1].handle_frame(NOW, &frame, RxChecksum::Unknown);
            }
            self.stacks.swap(0, 1);
        }
    }

    /// What has come to the second one.
    fn take(&mut self) -> Vec<Vec<u8>> {
        let mut came = Vec::new();
        while let Some(received) = self.stacks[1].udp.receive(self.sockets[1]).unwrap() {
            assert_eq!(received.fields, FIELDS);
            came.push(received.payload);
        }
        came
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 % 251) as u8).collect()
}

fn pieces(all: &[u8], segment: usize) -> Vec<Vec<u8>> {
    all.chunks(segment).map(<[u8]>::to_vec).collect()
}

#[test]
fn each_comes_as_it_was() {
    for (len, segment) in [
        (1, 1200),
        (1200, 1200),
        (1201, 1200),
        (40 * 1452, 1452),
        (999, 10),
    ] {
        for family in 0..2 {
            // Also where the neighbour is yet to be asked for.
            for (is_known, mut pair) in [(false, Pair::new()), (true, Pair::acquainted())] {
                let all = bytes(len);
                pair.send(family, all.clone(), segment).unwrap();
                pair.settle();
                let mut wanted = pieces(&all, segment);
                let came = pair.take();
                if !is_known {
                    // Few wait for a neighbour.
                    wanted.truncate(came.len());
                    assert!(!came.is_empty());
                }
                assert_eq!(came, wanted, "{len} {segment} {family}");
            }
        }
    }
}

/// A datagram of ours is not fragmented on its way, and none that is longer than a packet leaves.
#[test]
fn none_is_fragmented() {
    for (family, max) in [(0, MTU - 28), (1, MTU - 48)] {
        let mut pair = Pair::acquainted();
        pair.send(family, bytes(3 * max), max).unwrap();
        let refused = pair.send(family, bytes(3 * max), max + 1);
        assert_eq!(refused, Err(UdpError::TooLong { len: max + 1, max }));
        let sent = pair.sent();
        assert_eq!(sent.len(), 3);
        if family == 0 {
            let view = Ipv4View::parse(&sent[0].0[ethernet::LEN..]).unwrap();
            assert!(view.dont_fragment());
        }
    }
}

/// Where the link cuts, it is given as many in one frame as it takes and there is room for, with the pseudo header's sum.
#[test]
fn a_link_that_cuts_gets_them_whole() {
    for (family, ip_len) in [(0, ipv4::LEN), (1, ipv6::LEN)] {
        let mut pair = Pair::acquainted();
        pair.stacks[0].set_segmentation(Some(65_535));
        pair.stacks[0].set_datagram_segmentation(true);
        let all = bytes(100 * 1000 + 7);
        pair.send(family, all.clone(), 1000).unwrap();
        let sent = pair.sent();
        let head = ethernet::LEN + ip_len + udp::LEN;
        let counts: Vec<usize> = sent
            .iter()
            .map(|(frame, ..)| (frame.len() - head).div_ceil(1000))
            .collect();
        assert_eq!(counts, [64, 37]);
        let came: Vec<u8> = sent.iter().flat_map(|(f, ..)| f[head..].to_vec()).collect();
        assert_eq!(came, all);
        for (frame, segment, checksum) in &sent {
            let start = (ethernet::LEN + ip_len) as u16;
            let offset = udp::CHECKSUM_FIELD as u16;
            assert_eq!(*segment, Some(1000));
            assert_eq!(*checksum, TxChecksum::Partial { start, offset });
            let len = frame.len() - usize::from(start);
            let ends = [0, 1].map(|n| ADDRESSES[n][family].parse::<IpAddr>().unwrap());
            let pseudo = Sum::pseudo(ends[0], ends[1], protocol::UDP, len as u32);
            let field = usize::from(start + offset);
            assert_eq!(frame[field..field + 2], pseudo.value().to_be_bytes());
        }
        // One alone is complete.
        pair.send(family, bytes(500), 1000).unwrap();
        assert_eq!(pair.sent()[0].1, None);
    }
}

#[test]
fn what_there_is_no_room_for_is_dropped_and_counted() {
    let mut pair = Pair::acquainted();
    let room = pair.stacks[0].datagram_room();
    pair.send(0, bytes(10 * (room - 5)), 10).unwrap();
    assert_eq!(pair.stacks[0].datagram_room(), 5);
    pair.send(0, bytes(60), 10).unwrap();
    assert_eq!(pair.stacks[0].counters().drop_control_queue_full, 6);
    pair.send(0, bytes(50), 10).unwrap();
    assert_eq!(pair.sent().len(), room);
    assert_eq!(pair.stacks[0].datagram_room(), room);
}

/// Of several stacks with one address, each takes what is its own, and the one to which it came what is nobody's.
#[test]
fn what_is_another_stacks_is_not_taken() {
    let mut pair = Pair::acquainted();
    let is_of_another = |payload: &[u8]| payload[0] == 9;
    pair.stacks[1].share_datagrams(PORT, Box::new(is_of_another));
    for first in [8, 9] {
        pair.send(0, vec![first; 20], 20).unwrap();
        let (frame, ..) = pair.sent().remove(0);
        let concern = pair.stacks[1].handle_frame_among(NOW, &frame, RxChecksum::Unknown);
        let (wanted, taken) = match first {
            9 => (Concern::Another, 0),
            _ => (Concern::Nobody, 1),
        };
        assert_eq!((concern, pair.take().len()), (wanted, taken));
        pair.stacks[1].handle_frame(NOW, &frame, RxChecksum::Unknown);
        assert_eq!(pair.take().len(), 1);
    }
}
