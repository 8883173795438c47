//! A listener whose SYNs somebody else answers: here another stack with the same secret, which sends cookies for all of
//! them and keeps nothing, as a program in the kernel does.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_inet::tcp::{
    ConnectionId, EventSet, ListenOptions, ListenerId, Options, Reason, SynCookies,
};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

const ADDRESSES: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const SERVER: &str = "10.0.0.2:80";

fn stack(n: usize, seed: u64) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
    config.addresses = vec![(ADDRESSES[n].parse::<IpAddr>().unwrap(), 24)];
    Stack::new(config, seed, Instant::from_millis(1)).unwrap()
}

fn listen(stack: &mut Stack, syn_cookies: SynCookies) -> ListenerId {
    let options = ListenOptions {
        syn_cookies,
        ..ListenOptions::default()
    };
    stack.tcp.listen(None, 80, options).unwrap()
}

struct Wire {
    client: Stack,
    /// Sees SYNs, and nothing else.
    answerer: Stack,
    server: Stack,
    listener: ListenerId,
    now: Instant,
}

impl Wire {
    fn new() -> Self {
        let [mut answerer, mut server] = [stack(1, 7), stack(1, 7)];
        listen(&mut answerer, SynCookies::Always);
        let listener = listen(&mut server, SynCookies::WhenFull);
        Self {
            client: stack(0, 1),
            answerer,
            server,
            listener,
            now: Instant::from_millis(1),
        }
    }

    fn offloaded() -> Self {
        let mut wire = Self::new();
        let answer = wire.server.offload_syns(wire.now, wire.listener);
        assert_eq!(answer.expect("the usual options").port, 80);
        wire
    }

    fn frames(stack: &mut Stack, now: Instant) -> Vec<Vec<u8>> {
        stack.handle_timeout(now);
        let mut frames = Vec::new();
        while let Some(t) = stack.poll_transmit(now) {
            frames.push([&[t.head], t.body.parts()].concat().concat());
        }
        frames
    }

    /// To the server or, a SYN, to who answers those.
    fn bring(&mut self, frame: &[u8]) {
        let is_tcp = frame[12..14] == [8, 0] && frame[23] == 6;
        let is_syn = is_tcp && frame[47] & 0x12 == 0x02;
        if !is_syn {
            self.server
                .handle_frame(self.now, frame, RxChecksum::Unknown);
        }
        if is_syn || !is_tcp {
            self.answerer
                .handle_frame(self.now, frame, RxChecksum::Unknown);
        }
    }

    fn settle(&mut self) {
        for _ in 0..1000 {
            let out = Self::frames(&mut self.client, self.now);
            out.iter().for_each(|frame| self.bring(frame));
            let mut back = Self::frames(&mut self.answerer, self.now);
            back.extend(Self::frames(&mut self.server, self.now));
            for frame in &back {
                self.client
                    .handle_frame(self.now, frame, RxChecksum::Unknown);
            }
            if out.is_empty() && back.is_empty() {
                return;
            }
            self.now += Duration::from_micros(50);
        }
        panic!("frames go to and fro without end");
    }

    fn open_from(&mut self, port: u16) -> ConnectionId {
        let source = SocketAddr::new(ADDRESSES[0].parse().unwrap(), port);
        let (server, options) = (SERVER.parse().unwrap(), Options::default());
        let id = self
            .client
            .tcp
            .connect(self.now, Some(source), server, &options)
            .unwrap();
        self.settle();
        id
    }

    fn events(stack: &mut Stack) -> Vec<(ConnectionId, EventSet, Reason)> {
        let events = std::iter::from_fn(|| stack.poll_event());
        events.map(|e| (e.connection, e.set, e.reason)).collect()
    }

    /// The one connection that the server has been told of.
    fn accepted(&mut self) -> ConnectionId {
        let events = Self::events(&mut self.server);
        let mut accepted = events.iter().filter(|e| e.1.contains(EventSet::ACCEPTED));
        let (id, ..) = *accepted.next().expect("a connection");
        assert!(accepted.next().is_none());
        id
    }

    /// Data there and back.
    fn talks(&mut self, (client, server): (ConnectionId, ConnectionId)) {
        let text = |text: &[u8]| exos_buf::Buffer::from(text).into();
        self.client.tcp.send(client, text(b"there"));
        self.settle();
        assert_eq!(self.server.tcp.readable(server), b"there");
        self.server.tcp.send(server, text(b"back"));
        self.settle();
        assert_eq!(self.client.tcp.readable(client), b"back");
    }

    /// The client's side forgets everything.
    fn client_restarts(&mut self) {
        self.client = stack(0, 99);
    }
}

#[test]
fn a_connection_begins_with_its_first_acknowledgement() {
    let mut wire = Wire::offloaded();
    let client = wire.open_from(4000);
    let server = wire.accepted();
    wire.talks((client, server));
    // Window scale, SACK and timestamps have come over, in the SYN-ACK and in the cookie.
    for (stack, id) in [(&wire.client, client), (&wire.server, server)] {
        let info = stack.tcp.connection(id).expect("it stands").info();
        assert!(info.sack && info.timestamps, "{info:?}");
    }
    assert_eq!(wire.server.counters().tcp_syn_cookies_accepted, 1);
}

#[test]
fn nobody_believes_a_cookie_when_nobody_answers_for_him() {
    let mut wire = Wire::new();
    wire.open_from(4000);
    assert!(Wire::events(&mut wire.server).is_empty());
    assert_eq!(wire.server.counters().tcp_resets_sent, 1);
}

#[test]
fn cookies_on_their_way_are_good_after_the_last_answer() {
    let mut wire = Wire::offloaded();
    wire.server.stop_offloading_syns(wire.now, wire.listener);
    let client = wire.open_from(4000);
    let server = wire.accepted();
    wire.talks((client, server));
    wire.now += Duration::from_secs(600);
    wire.open_from(4001);
    assert!(
        !Wire::events(&mut wire.server)
            .iter()
            .any(|e| e.1.contains(EventSet::ACCEPTED))
    );
}

#[test]
fn a_four_tuple_in_time_wait_is_used_again() {
    let mut wire = Wire::offloaded();
    let client = wire.open_from(4000);
    let server = wire.accepted();
    wire.server.tcp.finish(server);
    wire.settle();
    wire.client.tcp.finish(client);
    wire.settle();
    assert_eq!(wire.server.tcp.time_wait_connections(), 1);
    wire.client_restarts();
    Wire::events(&mut wire.server);
    let client = wire.open_from(4000);
    let server = wire.accepted();
    wire.talks((client, server));
    assert_eq!(wire.server.tcp.time_wait_connections(), 0);
    assert_eq!(wire.server.counters().tcp_time_wait_reused, 1);
}

#[test]
fn a_connection_that_its_peer_has_forgotten_makes_room() {
    let mut wire = Wire::offloaded();
    wire.open_from(4000);
    let old = wire.accepted();
    wire.client_restarts();
    let client = wire.open_from(4000);
    let events = Wire::events(&mut wire.server);
    let closed = events.iter().find(|e| e.0 == old).expect("it is told");
    assert!(closed.1.contains(EventSet::CLOSED));
    assert_eq!(closed.2, Reason::Reset);
    let opened = events.iter().find(|e| e.1.contains(EventSet::ACCEPTED));
    let server = opened.expect("the new one").0;
    assert_ne!(server, old);
    wire.talks((client, server));
    assert_eq!(wire.server.tcp.connections(), 1);
    assert_eq!(wire.server.counters().tcp_connections_replaced, 1);
}

/// Who does not know a cookie challenges, and replaces nothing.
#[test]
fn a_wrong_acknowledgement_replaces_nothing() {
    let mut wire = Wire::offloaded();
    let client = wire.open_from(4000);
    let server = wire.accepted();
    let text = exos_buf::Buffer::from(&b"there"[..]);
    wire.client.tcp.send(client, text.into());
    let good = Wire::frames(&mut wire.client, wire.now).remove(0);
    let mut tried = 0;
    for wrong in 1..2000u32 {
        let mut frame = good.clone();
        let ack = u32::from_be_bytes(frame[42..46].try_into().unwrap());
        let wrong = ack.wrapping_add(wrong.wrapping_mul(0x9e37_79b1));
        frame[42..46].copy_from_slice(&wrong.to_be_bytes());
        mend_checksum(&mut frame);
        wire.server
            .handle_frame(wire.now, &frame, RxChecksum::Unknown);
        tried += 1;
        Wire::frames(&mut wire.server, wire.now);
        assert!(wire.server.tcp.connection(server).is_some());
        assert!(wire.server.tcp.readable(server).is_empty());
    }
    assert_eq!(tried, 1999);
    assert_eq!(wire.server.counters().tcp_connections_replaced, 0);
    wire.server
        .handle_frame(wire.now, &good, RxChecksum::Unknown);
    assert_eq!(wire.server.tcp.readable(server), b"there");
}

fn mend_checksum(frame: &mut [u8]) {
    use exos_wire::Sum;
    frame[50..52].fill(0);
    let len = frame.len() as u64 - 34;
    let pseudo = Sum::of(&frame[26..34]).plus(Sum::from_wide(len + 6));
    let sum = pseudo.plus(Sum::of(&frame[34..])).finish();
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
}

/// Who answers elsewhere says all four options: a listener that does not cannot have it.
#[test]
fn only_the_usual_options() {
    let mut server = stack(1, 7);
    let mut options = ListenOptions::default();
    options.connection.sack = false;
    let listener = server.tcp.listen(None, 80, options).unwrap();
    let now = Instant::from_millis(1);
    assert!(server.offload_syns(now, listener).is_none());
    server.tcp.close_listener(listener);
    assert!(server.offload_syns(now, listener).is_none());
}
