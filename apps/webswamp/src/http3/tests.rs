//! The engine's connections of HTTP/3 beside a server that a test writes, joined by a wire in memory, on virtual time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use exos_http3::frame::{self, kind};
use exos_http3::qpack::encoder;
use exos_inet::Instant;
use exos_quic::quinn_proto::crypto::rustls::QuicServerConfig;
use exos_quic::quinn_proto::{
    Connection as QuicConnection, Dir, EndpointConfig, Event, ServerConfig, StreamEvent, StreamId,
    TransportConfig, VarInt,
};
use exos_quic::{Arrived, Connections, Link, Received};
use exos_tls::client::{Client, Offer, Trust};
use exos_tls::policy::{group, suite};
use exos_tls::self_signed;

use super::*;
use crate::driver::One;
use crate::engine::{Behaviour, Engine, Shape};
use crate::expect::Expect;
use crate::request::{Content, Request, Version};
use crate::secured::Shares;
use crate::statistics::{ErrorKind, Multiplexing};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 443);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 2], 4000);

/// Requests of a connection that it takes at once.
const STREAMS: u32 = 20;

/// A connection of the server's.
struct Peer {
    quic: QuicConnection,
    control: Option<StreamId>,
}

impl Link for Peer {
    fn quic(&mut self) -> &mut QuicConnection {
        &mut self.quic
    }
}

/// What the server does about its n-th request, on this stream of a connection.
type Answer = fn(&mut Peer, StreamId, u32);

struct World {
    now: Instant,
    engine: Engine,
    quic: Quic,
    server: Connections<Peer>,
    tls: rustls::ServerConfig,
    config: Arc<ServerConfig>,
    answer: Answer,
    requests: u32,
    /// To the client, and to the server.
    wires: [VecDeque<Vec<u8>>; 2],
}

fn framed(kind: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_head(&mut out, kind, content.len() as u64);
    out.extend_from_slice(content);
    out
}

fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    encoder::begin(&mut section);
    for (name, value) in fields {
        encoder::push(&mut section, name.as_bytes(), value.as_bytes());
    }
    framed(kind::HEADERS, &section)
}

/// Takes what has come of a request: one that is not taken to its end holds its stream's place.
fn take(peer: &mut Peer, stream: StreamId) {
    let mut request = peer.quic.recv_stream(stream);
    let Ok(mut chunks) = request.read(true) else {
        return;
    };
    while let Ok(Some(_)) = chunks.next(usize::MAX) {}
    let _ = chunks.finalize();
}

fn send(peer: &mut Peer, stream: StreamId, bytes: &[u8]) {
    let sent = peer.quic.send_stream(stream).write(bytes);
    assert_eq!(sent.expect("there is room"), bytes.len());
}

fn finish(peer: &mut Peer, stream: StreamId) {
    peer.quic.send_stream(stream).finish().expect("it is open");
}

fn say(peer: &mut Peer, frames: &[u8]) {
    send(peer, peer.control.expect("it stands"), frames);
}

fn ok(peer: &mut Peer, stream: StreamId, _: u32) {
    let head = head(&[(":status", "200"), ("content-length", "5")]);
    send(peer, stream, &[head, framed(kind::DATA, b"hello")].concat());
    finish(peer, stream);
}

/// What a server's connections begin with.
fn server_config(tls: rustls::ServerConfig) -> Arc<ServerConfig> {
    let crypto = QuicServerConfig::try_from(tls).unwrap();
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(STREAMS));
    config.transport_config(Arc::new(transport));
    Arc::new(config)
}

impl World {
    fn new(slots: u32, streams: u32, requests: u64, answer: Answer) -> Self {
        Self::trusting(
            (Trust::Anybody, "localhost", 0.0),
            (slots, streams, requests),
            answer,
        )
    }

    fn trusting(
        (trust, name, early): (Trust, &str, f64),
        (slots, streams, requests): (u32, u32, u64),
        answer: Answer,
    ) -> Self {
        let (certificate, key) = self_signed::certificate(&["localhost".to_owned()]).unwrap();
        let tls = rustls::ServerConfig::builder_with_provider(exos_tls::policy::provider(&[]));
        let tls = tls
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap();
        let mut tls = tls
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        tls.alpn_protocols = vec![ALPN.as_bytes().to_vec()];
        // Tickets are kept there, each of which is good once.
        tls.max_early_data_size = u32::MAX;
        let config = server_config(tls.clone());
        let now = Instant::from_millis(1000);
        let client = Client::new(&trust, name, &[ALPN]).unwrap();
        let shares = Shares {
            resumed: 0.0,
            early,
        };
        let quic = Quic::new(&client, (SERVER.into(), 1, None), (shares, 1), now).unwrap();
        let request = Request::new(&Content {
            version: Version::Http3,
            ..Content::get(&"https://localhost/".parse().unwrap())
        });
        let behaviour = Behaviour {
            slots,
            opening: 10,
            requests_per_connection: if early > 0.0 { 2 } else { u32::MAX },
            pipeline: 1,
            streams: Some(streams),
            is_http3: true,
            requests,
            timeout: Duration::from_secs(10),
            merging: true,
            early_finish: false,
            count_only: true,
            expect: Expect::default(),
        };
        let driver = Box::new(One::new(request, Duration::ZERO));
        Self {
            now,
            engine: Engine::new(behaviour, Shape::Closed, driver, now, now),
            quic,
            server: Connections::new(EndpointConfig::default(), Some(config.clone()), false, now),
            tls,
            config,
            answer,
            requests: 0,
            wires: Default::default(),
        }
    }

    /// Until the load is over.
    fn run(&mut self) -> &mut Self {
        for _ in 0..60_000 {
            if self.engine.is_over() {
                return self;
            }
            self.step();
        }
        panic!("it is not over: {:?}", self.errors());
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        self.serve();
        self.quic.begin_turn(now);
        while let Some(payload) = self.wires[0].pop_front() {
            self.quic.receive(arrived(SERVER.into(), &payload));
        }
        self.quic.tell(&mut self.engine, now);
        self.engine.handle_due(now, &mut self.quic);
        while let Some((_, leaving, payload)) = self.quic.transmit(4) {
            let datagrams = payload.chunks(leaving.segment).map(<[u8]>::to_vec);
            self.wires[1].extend(datagrams);
        }
    }

    fn serve(&mut self) {
        self.server.set_now(self.now);
        let mut buffer = Vec::new();
        let mut heard = Vec::new();
        while let Some(handle) = self.server.poll_due() {
            heard.push(handle);
        }
        while let Some(payload) = self.wires[1].pop_front() {
            match self
                .server
                .receive(arrived(CLIENT.into(), &payload), &mut buffer)
            {
                Received::New(incoming) => {
                    let make = |_, quic| Peer {
                        quic,
                        control: None,
                    };
                    let config = self.config.clone();
                    if let Ok(handle) = self.server.accept(*incoming, config, &mut buffer, make) {
                        heard.push(handle);
                    }
                }
                Received::Link(handle) => heard.push(handle),
                Received::Unclaimed | Received::Answered(_) => {}
            }
        }
        for handle in heard {
            let Some(peer) = self.server.get_mut(handle) else {
                continue;
            };
            while let Some(event) = peer.quic.poll() {
                match event {
                    Event::Connected => {
                        peer.control = peer.quic.streams().open(Dir::Uni);
                        say(peer, &frame::settings());
                    }
                    Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                        while let Some(stream) = peer.quic.streams().accept(Dir::Bi) {
                            take(peer, stream);
                            self.requests += 1;
                            (self.answer)(peer, stream, self.requests);
                        }
                    }
                    Event::Stream(StreamEvent::Readable { id }) => take(peer, id),
                    _ => {}
                }
            }
        }
        while let Some(leaving) = self.server.poll_transmit(4, &mut buffer) {
            let datagrams = buffer[..leaving.len].chunks(leaving.segment);
            self.wires[0].extend(datagrams.map(<[u8]>::to_vec));
        }
        while self.server.poll_over().is_some() {}
    }

    fn errors(&self) -> Vec<(ErrorKind, u64)> {
        self.engine.statistics.errors.list().collect()
    }

    fn seen(&self) -> &Multiplexing {
        self.engine.statistics.http3.as_ref().expect("it is spoken")
    }

    fn responses(&self) -> u64 {
        self.engine.statistics.responses
    }
}

fn arrived(remote: SocketAddr, payload: &[u8]) -> Arrived {
    Arrived {
        remote,
        local: None,
        ecn: 0,
        payload: payload.into(),
    }
}

fn named(counts: &std::collections::BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    counts.iter().map(|(name, n)| (&**name, *n)).collect()
}

/// Requests of many slots are asked on few connections, each secured once.
#[test]
fn requests_share_connections() {
    let mut world = World::new(2, 10, 200, ok);
    world.run();
    assert_eq!((world.responses(), world.errors()), (200, vec![]));
    let statistics = &world.engine.statistics;
    assert_eq!((statistics.connections, statistics.content), (2, 1000));
    let handshakes = &statistics.handshakes;
    let kinds = &handshakes.kinds;
    assert_eq!((kinds.handshakes_full, kinds.handshakes_resumed), (2, 0));
    assert_eq!((handshakes.times.len(), statistics.connect.len()), (2, 2));
    assert_eq!(world.seen().streams_per_connection, 10);
}

/// QUIC tells neither suite nor group: they are known where one of each is offered, whichever.
#[test]
fn what_is_agreed_upon_is_known_where_there_is_no_choice() {
    let offers = [
        (Offer::default(), "TLSv1.3 (QUIC)"),
        (
            Offer {
                suite: suite("TLS_CHACHA20_POLY1305_SHA256").ok(),
                group: group("secp256r1").ok(),
            },
            "TLSv1.3 TLS_CHACHA20_POLY1305_SHA256 secp256r1",
        ),
    ];
    let quic = |offer, now| {
        let client = Client::offering(offer, &Trust::Anybody, "localhost", &[ALPN]).unwrap();
        Quic::new(
            &client,
            (SERVER.into(), 1, None),
            (Shares::default(), 1),
            now,
        )
    };
    for (offer, agreed) in offers {
        let mut world = World::new(1, 1, 1, ok);
        world.quic = quic(offer, world.now).unwrap();
        world.run();
        let kinds = &world.engine.statistics.handshakes.kinds;
        assert_eq!(named(&kinds.agreed), [(agreed, 1)]);
    }
    let of_old = Offer {
        suite: suite("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256").ok(),
        group: None,
    };
    let refused = quic(of_old, Instant::from_millis(1000)).err();
    assert!(refused.unwrap().to_string().contains("none of TLS 1.3"));
}

/// Where the server allows fewer streams than are to be, requests wait, and that is told.
#[test]
fn no_more_streams_than_the_server_allows() {
    let mut world = World::new(1, 50, 200, ok);
    world.run();
    assert_eq!((world.responses(), world.errors()), (200, vec![]));
    let allowed = world.seen().streams_allowed;
    assert!(
        allowed.is_some_and(|allowed| allowed <= STREAMS),
        "{allowed:?}"
    );
}

/// A certificate that is not good is told by name, and no request is asked.
#[test]
fn a_certificate_that_nobody_trusts() {
    let trust = Trust::File("/nonexistent".into());
    assert!(Client::new(&trust, "localhost", &[ALPN]).is_err());
    let mut world = World::trusting((Trust::System, "localhost", 0.0), (1, 1, 2), ok);
    world.run();
    assert_eq!(world.errors(), [(ErrorKind::Handshake, 2)]);
    let failed = &world.engine.statistics.handshakes.kinds.handshakes_failed;
    assert_eq!(failed.get("certificate_not_trusted"), Some(&2));
}

#[test]
fn streams_are_reset() {
    let answer: Answer = |peer, stream, n| match n % 5 {
        4 => {
            let code = VarInt::from_u32(exos_http3::ErrorCode::INTERNAL_ERROR.0);
            peer.quic.send_stream(stream).reset(code).unwrap();
        }
        _ => ok(peer, stream, n),
    };
    let mut world = World::new(1, 5, 50, answer);
    world.run();
    assert_eq!(world.responses(), 40);
    assert_eq!(world.errors(), [(ErrorKind::StreamReset, 10)]);
    assert_eq!(named(&world.seen().resets), [("internal_error", 10)]);
}

/// What a server that goes away has not looked at is asked again on another connection.
#[test]
fn a_server_goes_away() {
    let answer: Answer = |peer, stream, n| {
        if n.is_multiple_of(10) {
            let next = u64::from(VarInt::from(stream)) + 4;
            say(peer, &frame::go_away(next));
        }
        ok(peer, stream, n);
    };
    let mut world = World::new(1, 4, 100, answer);
    world.run();
    assert_eq!((world.responses(), world.errors()), (100, vec![]));
    let goaways = named(&world.seen().goaways);
    assert!(matches!(goaways[..], [("no_error", 8..=10)]), "{goaways:?}");
}

#[test]
fn a_server_that_takes_no_request_is_asked_twice() {
    let answer: Answer = |peer, _, _| say(peer, &frame::go_away(0));
    let mut world = World::new(1, 1, 3, answer);
    world.run();
    assert_eq!((world.responses(), world.seen().asked_again), (0, 3));
    assert_eq!(world.errors(), [(ErrorKind::GoAway, 3)]);
}

/// A server that closes a connection with an error is told of by the error's name.
#[test]
fn a_server_closes_with_an_error() {
    let answer: Answer = |peer, stream, n| match n {
        1 => ok(peer, stream, n),
        _ => {
            let code = VarInt::from_u32(exos_http3::ErrorCode::EXCESSIVE_LOAD.0);
            let time = std::time::Instant::now();
            peer.quic.close(time, code, bytes::Bytes::new());
        }
    };
    let mut world = World::new(1, 1, 2, answer);
    world.run();
    assert_eq!(world.responses(), 1);
    assert_eq!(named(&world.seen().goaways), [("excessive_load", 1)]);
    assert_eq!(world.errors(), [(ErrorKind::GoAway, 1)]);
}

/// What is no response fails its request, and the connection goes on; what no server may do ends the connection.
#[test]
fn what_breaks_the_rules() {
    /// What it is, what the server does, the faults that are counted, and how many connections there are.
    type Row = (&'static str, Answer, &'static [(&'static str, u64)], u64);
    let table: [Row; 5] = [
        (
            "a body that is too short",
            |peer, stream, _| {
                send(
                    peer,
                    stream,
                    &head(&[(":status", "200"), ("content-length", "5")]),
                );
                finish(peer, stream);
            },
            &[],
            1,
        ),
        (
            "no status",
            |peer, stream, _| send(peer, stream, &head(&[("server", "a")])),
            &[],
            1,
        ),
        (
            "a push",
            |peer, stream, _| send(peer, stream, &framed(kind::PUSH_PROMISE, b"\0\0\0")),
            &[("frame_unexpected", 3)],
            3,
        ),
        (
            "settings twice",
            |peer, _, _| say(peer, &framed(kind::SETTINGS, b"")),
            &[("frame_unexpected", 3)],
            3,
        ),
        (
            "a control stream that ends",
            |peer, _, _| finish(peer, peer.control.expect("it stands")),
            &[("critical_stream", 3)],
            3,
        ),
    ];
    for (name, answer, faults, connections) in table {
        let mut world = World::new(1, 1, 3, answer);
        world.run();
        assert_eq!(world.errors(), [(ErrorKind::Malformed, 3)], "{name}");
        assert_eq!(named(&world.seen().faults), faults, "{name}");
        assert_eq!(world.engine.statistics.connections, connections, "{name}");
    }
}

/// A server that says nothing more is left when the time of a request is over; one that says nothing at all has no connection.
#[test]
fn silence_is_an_error_by_name() {
    let mut world = World::new(1, 2, 2, |_, _, _| {});
    world.run();
    assert_eq!(world.errors(), [(ErrorKind::Timeout, 2)]);
    let mut world = World::new(1, 1, 1, ok);
    while !world.engine.is_over() {
        world.step();
        world.wires[1].clear();
    }
    assert_eq!(world.errors(), [(ErrorKind::ConnectTimeout, 1)]);
}

/// Where there is a ticket, requests leave with the hello; what a server does not take of them is asked again when it stands.
#[test]
fn early_data_is_taken_or_asked_again() {
    let mut world = World::trusting((Trust::Anybody, "localhost", 1.0), (2, 2, 200), ok);
    while world.responses() < 100 {
        world.step();
    }
    let kinds = &world.engine.statistics.handshakes.kinds;
    assert!(kinds.handshakes_early > 10, "{kinds:?}");
    assert_eq!(kinds.early_refused, 0);
    // Another one, as it were, that knows nothing of its tickets.
    world.tls.session_storage = rustls::server::ServerSessionMemoryCache::new(32);
    world.config = server_config(world.tls.clone());
    world.run();
    assert_eq!((world.responses(), world.errors()), (200, vec![]));
    let kinds = &world.engine.statistics.handshakes.kinds;
    assert!(kinds.early_refused > 0, "{kinds:?}");
    assert_eq!(world.engine.statistics.content, 1000);
}
