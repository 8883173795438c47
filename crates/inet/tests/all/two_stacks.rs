//! Two stacks joined by a wire without any faults: the plain paths of every protocol.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options, Reason};
use exos_inet::udp::HeaderFields;
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

struct Pair {
    stacks: [Stack; 2],
    now: Instant,
    frames: usize,
}

const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "fd00::1"], ["10.0.0.2", "fd00::2"]];

impl Pair {
    fn new() -> Self {
        let stack = |n: usize| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            let ip = |s: &str| s.parse::<IpAddr>().unwrap();
            config.addresses = vec![(ip(ADDRESSES[n][0]), 24), (ip(ADDRESSES[n][1]), 64)];
            Stack::new(config, 42 + n as u64, Instant::from_millis(1)).unwrap()
        };
        Self {
            stacks: [stack(0), stack(1)],
            now: Instant::from_millis(1),
            frames: 0,
        }
    }

    /// Carry frames to and fro until there are none.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for n in 0..2 {
                self.stacks[n].handle_timeout(self.now);
                let mut frames = Vec::new();
                while let Some(t) = self.stacks[n].poll_transmit(self.now) {
                    let mut frame = t.head.to_vec();
                    t.body
                        .parts()
                        .iter()
                        .for_each(|p| frame.extend_from_slice(p));
                    assert!(frame.len() <= 1514, "a frame longer than the MTU");
                    frames.push(frame);
                }
                for frame in frames {
                    moved = true;
                    self.frames += 1;
                    self.stacks[1 - n].handle_frame(self.now, &frame, RxChecksum::Unknown);
                }
            }
            if !moved {
                return;
            }
            self.now += Duration::from_micros(50);
        }
        panic!("frames go to and fro without end");
    }

    fn event(&mut self, n: usize) -> Option<(ConnectionId, EventSet, Reason)> {
        self.stacks[n]
            .poll_event()
            .map(|e| (e.connection, e.set, e.reason))
    }
}

/// A connection from the first to the second: both ends of it.
fn connect(pair: &mut Pair, family: usize) -> (ConnectionId, ConnectionId) {
    let server = SocketAddr::new(ADDRESSES[1][family].parse().unwrap(), 80);
    pair.stacks[1]
        .tcp
        .listen(None, 80, ListenOptions::default())
        .unwrap();
    let now = pair.now;
    let client = pair.stacks[0]
        .tcp
        .connect(now, None, server, &Options::default())
        .unwrap();
    pair.settle();
    let (id, set, _) = pair.event(0).unwrap();
    assert!(id == client && set.contains(EventSet::CONNECTED));
    let (accepted, set, _) = pair.event(1).unwrap();
    assert!(set.contains(EventSet::ACCEPTED));
    (client, accepted)
}

/// What the first receives until the second has finished.
fn receive_all(pair: &mut Pair) -> Vec<u8> {
    let mut got = Vec::new();
    let mut finished = false;
    for _ in 0..200 {
        pair.settle();
        while let Some((id, set, _)) = pair.event(0) {
            let bytes = pair.stacks[0].tcp.readable(id).to_vec();
            pair.stacks[0].tcp.consume(id, bytes.len());
            got.extend(bytes);
            finished |= set.contains(EventSet::FINISHED);
        }
        if finished {
            break;
        }
        pair.now += Duration::from_millis(50);
    }
    assert!(finished);
    got
}

fn exchange(family: usize) {
    let mut pair = Pair::new();
    let (client, accepted) = connect(&mut pair, family);

    let request = Buffer::from(b"GET / HTTP/1.1\r\n\r\n".to_vec());
    pair.stacks[0].tcp.send(client, request.into());
    pair.settle();
    let (_, set, _) = pair.event(1).unwrap();
    assert!(set.contains(EventSet::READABLE));
    assert_eq!(
        pair.stacks[1].tcp.readable(accepted),
        b"GET / HTTP/1.1\r\n\r\n"
    );
    pair.stacks[1].tcp.consume(accepted, 18);

    let body: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    let buffer = Buffer::from(body.clone());
    pair.stacks[1].tcp.send(accepted, buffer.slice(0..300_001));
    pair.stacks[1]
        .tcp
        .send(accepted, buffer.slice(300_001..1_000_000));
    pair.stacks[1].tcp.finish(accepted);
    assert!(receive_all(&mut pair) == body);
    pair.stacks[0].tcp.finish(client);
    pair.settle();
    let last = std::iter::from_fn(|| pair.event(0)).last().unwrap();
    assert!(last.1.contains(EventSet::CLOSED) && last.2 == Reason::Done);
    let last = std::iter::from_fn(|| pair.event(1)).last().unwrap();
    assert!(last.1.contains(EventSet::CLOSED) && last.2 == Reason::Done);
    assert_eq!(
        pair.stacks[1].tcp.time_wait_connections(),
        1,
        "who finishes first waits"
    );
    assert_eq!(
        pair.stacks[0].tcp.connections() + pair.stacks[1].tcp.connections(),
        0
    );
    let drops: Vec<_> = pair
        .stacks
        .iter()
        .flat_map(|s| s.counters().list())
        .filter(|(n, v)| n.starts_with("drop") && *v > 0)
        .collect();
    assert!(drops.is_empty(), "{drops:?}");
    assert_eq!(pair.stacks[1].counters().tcp_segments_retransmitted, 0);
}

#[test]
fn a_connection_over_ipv4() {
    exchange(0);
}

#[test]
fn a_connection_over_ipv6() {
    exchange(1);
}

/// From a burst that is under way nothing is handed over whole, although the link is to cut what comes next.
#[test]
fn a_burst_ends_as_it_began() {
    let mut pair = Pair::new();
    let server = SocketAddr::new(ADDRESSES[1][0].parse().unwrap(), 80);
    let listen = ListenOptions::default();
    pair.stacks[1].tcp.listen(None, 80, listen).unwrap();
    let options = Options::default();
    let client = pair.stacks[0].tcp.connect(pair.now, None, server, &options);
    pair.settle();
    let (now, stack) = (pair.now, &mut pair.stacks[0]);
    let send = |stack: &mut Stack| {
        let bytes = Buffer::from(vec![7; 6_000]);
        stack.tcp.send(client.unwrap(), bytes.whole());
    };
    send(stack);
    let first = stack.poll_transmit(now).expect("a segment");
    assert_eq!(first.segment_size, None);
    stack.set_segmentation(Some(65_535));
    assert_eq!(stack.config().offload.segmentation, None);
    let mut others = 0;
    while let Some(next) = stack.poll_transmit(now) {
        assert_eq!(next.segment_size, None);
        others += 1;
    }
    assert!(others >= 3, "{others} others");
    stack.set_segmentation(Some(65_535));
    send(stack);
    let whole = stack.poll_transmit(now).expect("segments");
    assert!(whole.segment_size.is_some());
}

#[test]
fn nobody_listens() {
    let mut pair = Pair::new();
    let now = pair.now;
    pair.stacks[0]
        .tcp
        .connect(
            now,
            None,
            "10.0.0.2:81".parse().unwrap(),
            &Options::default(),
        )
        .unwrap();
    pair.settle();
    let (_, set, reason) = pair.event(0).unwrap();
    assert!(set.contains(EventSet::CLOSED) && reason == Reason::Refused);
}

#[test]
fn nobody_is_there() {
    let mut pair = Pair::new();
    let now = pair.now;
    pair.stacks[0]
        .tcp
        .connect(
            now,
            None,
            "10.0.0.77:81".parse().unwrap(),
            &Options::default(),
        )
        .unwrap();
    let mut closed = None;
    for _ in 0..10_000 {
        pair.settle();
        closed = closed.or(pair.event(0));
        let Some(at) = pair.stacks[0].poll_timeout(pair.now) else {
            break;
        };
        pair.now = at.max(pair.now + Duration::from_millis(1));
    }
    assert_eq!(closed.map(|c| c.2), Some(Reason::TimedOut));
}

#[test]
fn ping_both_families_also_in_fragments() {
    let mut pair = Pair::new();
    for (seq, (to, len)) in [
        ("10.0.0.2", 10),
        ("fd00::2", 10),
        ("10.0.0.2", 5000),
        ("fd00::2", 5000),
    ]
    .iter()
    .enumerate()
    {
        let now = pair.now;
        assert!(pair.stacks[0].ping(now, to.parse().unwrap(), 7, seq as u16, &vec![1; *len]));
        pair.settle();
        let reply = pair.stacks[0].poll_echo_reply().expect("an answer");
        assert_eq!(
            (reply.ident, reply.seq, reply.from.to_string().as_str()),
            (7, seq as u16, *to)
        );
    }
}

#[test]
fn datagrams_and_port_unreachable() {
    let mut pair = Pair::new();
    let now = pair.now;
    let a = pair.stacks[0].udp.bind(None, 5000).unwrap();
    let b = pair.stacks[1].udp.bind(None, 6000).unwrap();
    let payload = Buffer::from(vec![9; 4000]);
    pair.stacks[0]
        .udp_send(
            now,
            a,
            None,
            "10.0.0.2:6000".parse().unwrap(),
            payload.clone().into(),
        )
        .unwrap();
    pair.settle();
    let got = pair.stacks[1].udp.receive(b).unwrap().expect("a datagram");
    assert_eq!(
        (got.payload.len(), got.from.to_string().as_str()),
        (4000, "10.0.0.1:5000")
    );
    let now = pair.now;
    pair.stacks[0]
        .udp_send(
            now,
            a,
            None,
            "[fd00::2]:6001".parse().unwrap(),
            payload.slice(0..9),
        )
        .unwrap();
    pair.settle();
    assert!(
        pair.stacks[0].udp.take_error(a).unwrap().is_some(),
        "nobody has port 6001"
    );
}

/// Of both families, whole and in fragments: what the socket says, and what one datagram says instead.
#[test]
fn datagrams_carry_hops_and_class() {
    let mut pair = Pair::new();
    let a = pair.stacks[0].udp.bind(None, 5000).unwrap();
    let b = pair.stacks[1].udp.bind(None, 6000).unwrap();
    let said = |hop_limit, traffic_class| HeaderFields {
        hop_limit,
        traffic_class,
    };
    for (to, len) in [
        ("10.0.0.2:6000", 9),
        ("[fd00::2]:6000", 9),
        ("10.0.0.2:6000", 4000),
        ("[fd00::2]:6000", 4000),
    ] {
        let to = to.parse().unwrap();
        let payload = || Buffer::from(vec![9; len]).into();
        let now = pair.now;
        let stack = &mut pair.stacks[0];
        stack.udp.set_fields(a, said(64, 0)).unwrap();
        stack.udp_send(now, a, None, to, payload()).unwrap();
        stack.udp.set_fields(a, said(7, 0xb9)).unwrap();
        stack.udp_send(now, a, None, to, payload()).unwrap();
        stack
            .udp_send_with(now, a, None, to, (payload(), said(255, 0x2e)))
            .unwrap();
        pair.settle();
        for wanted in [said(64, 0), said(7, 0xb9), said(255, 0x2e)] {
            let got = pair.stacks[1].udp.receive(b).unwrap().expect("a datagram");
            assert_eq!((got.payload.len(), got.fields), (len, wanted), "{to}");
        }
    }
}
