//! A stack that talks to itself: what goes to its own addresses comes back, and no link sees it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::icmp;
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, OpenError, Options, Reason, State};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// Of each family, one on the link's network and one of a pool that others route to us.
const ADDRESSES: [&str; 4] = ["10.0.0.1", "fd00::1", "10.9.0.5", "fd09::5"];

struct Alone {
    stack: Stack,
    now: Instant,
    /// What was told of connections, and their tokens.
    told: Vec<(ConnectionId, EventSet, Reason)>,
}

impl Alone {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(MAC, 1500);
        config.addresses = vec![(ip(ADDRESSES[0]), 24), (ip(ADDRESSES[1]), 64)];
        config.pools = vec![(ip("10.9.0.0"), 16), (ip("fd09::"), 64)];
        change(&mut config);
        let now = Instant::from_millis(1);
        let mut stack = Stack::new(config, 7, now).unwrap();
        while stack.poll_transmit(now).is_some() {}
        Self {
            stack,
            now,
            told: Vec::new(),
        }
    }

    /// One turn of a program's loop, in which nothing may leave by the link.
    fn turn(&mut self) {
        self.stack.handle_timeout(self.now);
        while let Some(event) = self.stack.poll_event() {
            self.told.push((event.connection, event.set, event.reason));
        }
        let sent = self.stack.poll_transmit(self.now);
        assert!(
            sent.is_none(),
            "a frame for the link: {:02x?}",
            sent.unwrap().head
        );
    }

    /// Turns until nothing is left to do for some seconds.
    fn settle(&mut self) {
        let until = self.now + Duration::from_secs(3);
        for _ in 0..100_000 {
            self.turn();
            match self.stack.poll_timeout(self.now) {
                Some(at) if at <= until => self.now = at.max(self.now + Duration::from_micros(1)),
                _ => return,
            }
        }
        panic!("packets go round without end");
    }

    fn listen(&mut self, port: u16) {
        let options = ListenOptions::default();
        self.stack.tcp.listen(None, port, options).unwrap();
    }

    fn connect(&mut self, to: &str, port: u16) -> ConnectionId {
        let to = SocketAddr::new(ip(to), port);
        let options = Options::default();
        self.stack
            .tcp
            .connect(self.now, None, to, &options)
            .unwrap()
    }

    /// A connection to a listener, with both its ends.
    fn pair(&mut self, to: &str, port: u16) -> [ConnectionId; 2] {
        let ours = self.connect(to, port);
        self.settle();
        let accepted = self.told.iter().rev();
        let mut accepted = accepted.filter(|(_, set, _)| set.contains(EventSet::ACCEPTED));
        [ours, accepted.next().expect("a connection is accepted").0]
    }

    fn was_told(&self, id: ConnectionId, what: EventSet) -> bool {
        self.told
            .iter()
            .any(|(of, set, _)| *of == id && set.contains(what))
    }

    /// Sends on the one end and reads on the other, as the bytes come.
    fn carry(&mut self, from: ConnectionId, to: ConnectionId, bytes: &[u8]) {
        assert!(self.stack.tcp.send(from, Buffer::from(bytes).into()));
        let mut read = Vec::new();
        for _ in 0..100_000 {
            self.turn();
            let came = self.stack.tcp.readable(to);
            read.extend_from_slice(came);
            let count = came.len();
            self.stack.tcp.consume(to, count);
            if read.len() == bytes.len() {
                break;
            }
            let next = self.stack.poll_timeout(self.now);
            let least = self.now + Duration::from_micros(1);
            self.now = next.map_or(least, |at| at.max(least));
        }
        assert!(read == bytes, "{} of {} bytes", read.len(), bytes.len());
    }

    fn counter(&self, wanted: &str) -> u64 {
        let all = self.stack.counters().list();
        all.iter().find(|(name, _)| *name == wanted).unwrap().1
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

/// Both ends are ours: bytes pass both ways, and the end too. Whatever the link is like, and by the fast paths or without.
#[test]
fn connections_to_each_address_of_ours() {
    let cuts = |config: &mut Config| {
        config.offload.segmentation = Some(65_535);
        config.offload.checksum = true;
    };
    let jumbo = |config: &mut Config| config.mtu = 9000;
    for to in ADDRESSES {
        let mut all = [
            Alone::new(),
            Alone::with(cuts),
            Alone::with(jumbo),
            Alone::new(),
        ];
        all[3].stack.without_fast_paths();
        for alone in &mut all {
            alone.listen(80);
            let [ours, theirs] = alone.pair(to, 80);
            let flow = *alone.stack.tcp.connection(ours).unwrap().flow();
            let back = *alone.stack.tcp.connection(theirs).unwrap().flow();
            assert_eq!((flow.local(), flow.remote()), (back.remote(), back.local()));
            alone.carry(ours, theirs, b"request");
            alone.carry(theirs, ours, &bytes(3_000_000));
            assert_eq!(alone.counter("tcp_segments_retransmitted"), 0, "{to}");
            alone.stack.tcp.finish(ours);
            alone.stack.tcp.finish(theirs);
            alone.settle();
            for id in [ours, theirs] {
                assert!(alone.was_told(id, EventSet::FINISHED), "{to}");
                assert!(alone.was_told(id, EventSet::CLOSED), "{to}");
            }
            assert!(alone.counter("packets_looped") > 50);
        }
    }
}

/// Nobody listens: the reset comes back too.
#[test]
fn a_port_without_a_listener_refuses() {
    for to in ADDRESSES {
        let mut alone = Alone::new();
        let id = alone.connect(to, 81);
        alone.settle();
        assert_eq!(
            alone.told.last().map(|t| (t.0, t.2)),
            Some((id, Reason::Refused))
        );
    }
}

/// From a port to itself: one connection is both ends (RFC 9293 §3.5, simultaneous open), as Linux has it.
#[test]
fn a_port_that_is_connected_to_itself() {
    for to in ADDRESSES {
        let mut alone = Alone::new();
        let itself = SocketAddr::new(ip(to), 5000);
        let (now, options) = (alone.now, Options::default());
        let tcp = &mut alone.stack.tcp;
        let id = tcp.connect(now, Some(itself), itself, &options).unwrap();
        let again = tcp.connect(now, Some(itself), itself, &options);
        assert_eq!(again.unwrap_err(), OpenError::FlowTaken);
        alone.settle();
        assert!(alone.was_told(id, EventSet::CONNECTED), "{to}");
        alone.carry(id, id, &bytes(100_000));
        alone.stack.tcp.finish(id);
        alone.settle();
        assert!(alone.was_told(id, EventSet::FINISHED) && alone.was_told(id, EventSet::CLOSED));
        assert_eq!(alone.counter("tcp_resets_sent"), 0);
    }
}

/// Datagrams of each length, in one piece; and what ICMP says where nobody has the port.
#[test]
fn datagrams() {
    for to in ADDRESSES {
        let mut alone = Alone::new();
        let udp = &mut alone.stack.udp;
        let (from, at) = (udp.bind(None, 0).unwrap(), udp.bind(None, 53).unwrap());
        let to = SocketAddr::new(ip(to), 53);
        for len in [0, 1, 1472, 1473, 65_507] {
            let payload = Buffer::from(bytes(len)).into();
            alone
                .stack
                .udp_send(alone.now, from, None, to, payload)
                .unwrap();
            alone.turn();
            let came = alone.stack.udp.receive(at).unwrap().expect("it comes back");
            assert!(came.payload == bytes(len) && came.to == to.ip());
            let back = Buffer::from(vec![7]).into();
            alone
                .stack
                .udp_send(alone.now, at, Some(came.to), came.from, back)
                .unwrap();
            alone.turn();
            assert_eq!(alone.stack.udp.receive(from).unwrap().unwrap().from, to);
        }
        let closed = SocketAddr::new(to.ip(), 54);
        let payload = Buffer::from(vec![1]).into();
        alone
            .stack
            .udp_send(alone.now, from, None, closed, payload)
            .unwrap();
        alone.settle();
        let error = alone.stack.udp.take_error(from).unwrap();
        let kind = icmp::ErrorKind::Hard(icmp::Reason::PortUnreachable);
        assert_eq!(error, Some((closed, kind)), "{to}");
        assert_eq!(alone.counter("fragments_received"), 0);
    }
}

#[test]
fn echo_requests() {
    for to in ADDRESSES {
        let mut alone = Alone::new();
        assert!(alone.stack.ping(alone.now, ip(to), 3, 4, &bytes(2000)));
        alone.settle();
        let reply = alone.stack.poll_echo_reply().expect("an answer");
        assert_eq!((reply.from, reply.ident, reply.seq), (ip(to), 3, 4));
    }
}

/// What waits is bounded: datagrams beyond that are lost and counted, and TCP sends again.
#[test]
fn what_has_no_room_is_lost() {
    let mut alone = Alone::new();
    alone.listen(80);
    let at = alone.stack.udp.bind(None, 53).unwrap();
    let to = "10.0.0.1:53".parse().unwrap();
    for _ in 0..200 {
        let payload = Buffer::from(bytes(65_000)).into();
        alone
            .stack
            .udp_send(alone.now, at, None, to, payload)
            .unwrap();
    }
    let lost = alone.counter("drop_loopback_full");
    assert!((50..100).contains(&lost), "{lost}");
    let id = alone.connect("10.0.0.1", 80);
    assert!(alone.stack.poll_transmit(alone.now).is_none());
    assert_eq!(alone.counter("drop_loopback_full"), lost + 1);
    alone.settle();
    assert!(alone.was_told(id, EventSet::CONNECTED));
    assert_eq!(alone.counter("tcp_segments_retransmitted"), 1);
}

/// What comes by the link is not from ourselves, whatever it says.
#[test]
fn a_frame_of_the_link_with_our_address_is_dropped() {
    let mut alone = Alone::new();
    alone.listen(80);
    alone.stack.udp.bind(None, 53).unwrap();
    let mut other = Alone::with(|config| {
        config.mac = Mac([2, 0, 0, 0, 0, 9]);
        config.addresses = vec![(ip("10.0.0.2"), 24)];
        config.pools = Vec::new();
    });
    other.stack.set_neighbor(other.now, ip("10.0.0.1"), MAC);
    other.connect("10.0.0.1", 80);
    let mut frame = other.stack.poll_transmit(other.now).unwrap().head.to_vec();
    // Sums stay right when the address's last byte goes up by what its checksums go down.
    frame[29] = 1;
    for field in [24, 50] {
        let sum = u16::from_be_bytes([frame[field], frame[field + 1]]);
        frame[field..field + 2].copy_from_slice(&(sum + 1).to_be_bytes());
    }
    alone
        .stack
        .handle_frame(alone.now, &frame, RxChecksum::Unknown);
    alone.settle();
    assert_eq!(alone.counter("drop_ip_source"), 1);
    assert_eq!(alone.counter("packets_looped"), 0);
}

/// Nor is the next segment of a connection within the stack, with all its numbers right and the headers that are predicted.
#[test]
fn a_segment_of_the_link_is_of_no_connection_within_the_stack() {
    let mut alone = Alone::new();
    alone.listen(80);
    let [ours, theirs] = alone.pair("10.9.0.5", 80);
    let flow = *alone.stack.tcp.connection(ours).unwrap().flow();
    let detached = alone.stack.tcp.take_out(alone.now, ours).unwrap();
    let mut forger = Alone::with(|config| {
        config.mac = Mac([2, 0, 0, 0, 0, 9]);
        config.addresses = vec![(flow.local().ip(), 8)];
        config.pools = Vec::new();
    });
    forger
        .stack
        .set_neighbor(alone.now, flow.remote().ip(), MAC);
    let Ok(forged) = forger.stack.tcp.put_in(alone.now, detached) else {
        panic!("it does not fit");
    };
    let mut frame = Vec::new();
    forger
        .stack
        .tcp
        .send(forged, Buffer::from(&b"forged"[..]).into());
    while !frame.ends_with(b"forged") {
        let sent = forger.stack.poll_transmit(alone.now).unwrap();
        frame = [&[sent.head], sent.body.parts()].concat().concat();
    }
    alone
        .stack
        .handle_frame(alone.now, &frame, RxChecksum::Unknown);
    assert_eq!(alone.stack.tcp.readable(theirs), b"");
    assert_eq!(alone.counter("drop_ip_source"), 1);
}

/// A connection that waits to be read stops the sender, and goes on when it is.
#[test]
fn a_window_that_closes_opens_again() {
    let mut alone = Alone::new();
    alone.listen(80);
    let [ours, theirs] = alone.pair("10.0.0.1", 80);
    let much = bytes(12 << 20);
    alone.stack.tcp.send(ours, Buffer::from(&much[..]).into());
    for _ in 0..2000 {
        alone.turn();
        alone.now += Duration::from_micros(10);
    }
    let waits = alone.stack.tcp.readable(theirs).len();
    assert!((1..much.len()).contains(&waits));
    let mut read = Vec::new();
    while read.len() < much.len() {
        let came = alone.stack.tcp.readable(theirs);
        let count = came.len();
        read.extend_from_slice(came);
        alone.stack.tcp.consume(theirs, count);
        alone.turn();
        alone.now += Duration::from_micros(10);
        assert!(alone.now < Instant::from_millis(60_000), "{}", read.len());
    }
    assert!(read == much);
    assert_eq!(
        alone.stack.tcp.connection(ours).unwrap().state(),
        State::Established
    );
}
