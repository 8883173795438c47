//! A listener whose SYNs somebody else answers: here another stack with the same secret, which sends cookies for all of
//! them and keeps nothing, as a program in the kernel does.

mod taking_on;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_inet::tcp::{
    ConnectionId, EventSet, Flow, ListenOptions, ListenerId, Options, Reason, State, SynCookies,
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

    /// The segments with which the server answers this frame; nobody gets them.
    fn answers(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.server
            .handle_frame(self.now, frame, RxChecksum::Unknown);
        let mut frames = Self::frames(&mut self.server, self.now);
        frames.retain(|frame| frame[12..14] == [8, 0]);
        frames
    }

    /// The client has opened, and its acknowledgement has come to nobody: that one. Both know the other's address.
    fn open_unheard(&mut self, port: u16) -> (ConnectionId, Vec<u8>) {
        self.open_from(3999);
        let source = SocketAddr::new(ADDRESSES[0].parse().unwrap(), port);
        let (server, options) = (SERVER.parse().unwrap(), Options::default());
        let id = self
            .client
            .tcp
            .connect(self.now, Some(source), server, &options)
            .unwrap();
        let syn = Self::frames(&mut self.client, self.now).remove(0);
        self.bring(&syn);
        let syn_ack = Self::frames(&mut self.answerer, self.now).remove(0);
        self.client
            .handle_frame(self.now, &syn_ack, RxChecksum::Unknown);
        let ack = Self::frames(&mut self.client, self.now).remove(0);
        (id, ack)
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

    /// More of it, there and back.
    fn talks_on(&mut self, (client, server): (ConnectionId, ConnectionId)) {
        for (stack, id) in [(&mut self.client, client), (&mut self.server, server)] {
            stack.tcp.consume(id, stack.tcp.readable(id).len());
        }
        self.talks((client, server));
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

fn word(frame: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}

/// This segment with other numbers, and with this behind it.
fn with(frame: &[u8], seq: u32, ack: u32, data: &[u8]) -> Vec<u8> {
    let mut frame = [frame, data].concat();
    frame[38..42].copy_from_slice(&seq.to_be_bytes());
    frame[42..46].copy_from_slice(&ack.to_be_bytes());
    let len = frame.len() as u16 - 14;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame[24..26].fill(0);
    let sum = exos_wire::Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    mend_checksum(&mut frame);
    frame
}

const FLAGS: usize = 47;
const RST: u8 = 4;
const ACK: u8 = 16;

/// The acknowledgement of the handshake did not come to the stack, as where a program in the kernel waits for the request.
#[test]
fn who_has_said_nothing_yet_is_told_that_the_connection_stands() {
    let mut wire = Wire::offloaded();
    let (client, ack) = wire.open_unheard(4000);
    let (seq, theirs) = (word(&ack, 38), word(&ack, 42));
    for garbage in [&b""[..], b"x"] {
        wire.now += Duration::from_secs(15);
        let probe = with(&ack, seq.wrapping_sub(1), theirs, garbage);
        let [answer] = <[_; 1]>::try_from(wire.answers(&probe)).expect("one answer");
        assert_eq!(answer[FLAGS], ACK);
        assert_eq!((word(&answer, 38), word(&answer, 42)), (theirs, seq));
        assert!(word(&answer, 46) & 0xffff > 0, "an open window");
        wire.client
            .handle_frame(wire.now, &answer, RxChecksum::Unknown);
    }
    // None of these asks so.
    for (seq, data) in [
        (seq.wrapping_sub(2), &b""[..]),
        (seq.wrapping_sub(1), b"xy"),
    ] {
        let answers = wire.answers(&with(&ack, seq, theirs, data));
        assert!(answers.iter().all(|a| a[FLAGS] & RST != 0), "{answers:?}");
    }
    assert_eq!(wire.server.tcp.connections(), 1, "that from before");
    Wire::events(&mut wire.server);
    // What the answer said of timestamps comes back with the request, and is as good as what the SYN-ACK said.
    let text = exos_buf::Buffer::from(&b"there"[..]);
    wire.client.tcp.send(client, text.into());
    wire.settle();
    let server = wire.accepted();
    assert_eq!(wire.server.tcp.readable(server), b"there");
    let info = wire
        .server
        .tcp
        .connection(server)
        .expect("it stands")
        .info();
    assert!(info.sack && info.timestamps, "{info:?}");
}

/// A connection without a request lasts as long as its cookie is good.
#[test]
fn who_has_said_nothing_for_long_is_told_that_it_is_over() {
    let mut wire = Wire::offloaded();
    let (_, ack) = wire.open_unheard(4000);
    let (seq, theirs) = (word(&ack, 38), word(&ack, 42));
    wire.now += Duration::from_secs(130);
    let answers = wire.answers(&with(&ack, seq.wrapping_sub(1), theirs, b""));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][FLAGS] & RST, RST);
}

/// A listener that answers itself has seen the acknowledgement, or it was lost.
#[test]
fn who_answers_himself_tells_nobody_that_a_connection_stands() {
    let mut wire = Wire::offloaded();
    let (_, ack) = wire.open_unheard(4000);
    wire.server.stop_offloading_syns(wire.now, wire.listener);
    let (seq, theirs) = (word(&ack, 38), word(&ack, 42));
    let answers = wire.answers(&with(&ack, seq.wrapping_sub(1), theirs, b""));
    assert_eq!(answers[0][FLAGS] & RST, RST);
}

/// A segment with data that nobody knows: it may come behind one that brings a cookie and was lost.
#[test]
fn what_may_follow_a_lost_cookie_is_not_reset() {
    let mut wire = Wire::offloaded();
    let (_, ack) = wire.open_unheard(4000);
    let (seq, theirs) = (word(&ack, 38), word(&ack, 42));
    let second = with(&ack, seq.wrapping_add(1000), theirs, b"there");
    for (later, flags) in [(0, None), (60, None), (70, Some(RST))] {
        wire.now += Duration::from_secs(later);
        let answers = wire.answers(&second);
        assert_eq!(
            answers.first().map(|a| a[FLAGS] & RST),
            flags,
            "after {later} s"
        );
    }
}

/// After a restart: who has a connection with the server before hears at once that there is none.
#[test]
fn what_follows_no_cookie_is_reset() {
    let mut wire = Wire::offloaded();
    let (_, ack) = wire.open_unheard(4000);
    let (seq, theirs) = (word(&ack, 38), word(&ack, 42));
    let reset = (0..32u32).filter(|epoch| {
        let old = with(
            &ack,
            seq,
            theirs.wrapping_add(2000 + (epoch << 27)),
            b"there",
        );
        let answers = wire.answers(&old);
        answers.iter().any(|a| a[FLAGS] & RST != 0)
    });
    assert_eq!(reset.count(), 30, "all but two epochs");
    assert_eq!(wire.server.tcp.connections(), 1, "that from before");
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
