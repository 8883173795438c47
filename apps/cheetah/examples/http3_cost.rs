//! Counts the instructions that the server takes for requests of HTTP/3: a client and it in one process, no wire, no kernel. The client keeps
//! requests under way on each of four connections, as `exos bench http` has it: a hundred for short documents, two for those of a megabyte.
//!
//! ```text
//! cargo build --release -p exos-cheetah --example http3_cost
//! valgrind --tool=callgrind --toggle-collect='*counted_turn*' target/release/examples/http3_cost 20000 100
//! ```
//!
//! The first number is that of requests, the second the document's length. The collected instructions, divided by the requests, are those of a
//! request; what comes and leaves for one is printed. Keys and identifiers are drawn at random, so counts of the same program differ a little.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use exos_buf::Slice;
use exos_cheetah::config::{Config, Root, TlsConfig};
use exos_cheetah::connections::{Abort, Cheetah, Transport};
use exos_cheetah::quic::{Beside, Quic};
use exos_cheetah::secure::Acceptor;
use exos_cheetah::site::{Description, Document};
use exos_cheetah::{Server, Site};
use exos_http3::qpack::encoder;
use exos_http3::{frame, frame::kind};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event};
use exos_quic::{Arrived, Connections, Leaving, Link};
use exos_tls::client::{Client as Tls, Trust, Way};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, Dir, EndpointConfig, MtuDiscoveryConfig, StreamId,
    TransportConfig, VarInt,
};

const UNIX_SECS: u64 = 784_111_777;
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 443);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 2], 4000);
const CONNECTIONS: usize = 4;
const STREAMS: usize = 100;
/// Of documents of a megabyte and more.
const STREAMS_OF_LONG: usize = 2;
/// Requests before those that are counted: the path's length is found out meanwhile, and windows open.
const FIRST: usize = 400;
/// What a turn of either side takes.
const TURN: Duration = Duration::from_micros(100);
/// Datagrams of one length that leave together, as on packets.
const SEGMENTS: usize = 40;
/// The longest datagrams: what Ethernet takes.
const DATAGRAM_MAX: u16 = 1452;

/// What carries no connections: all are QUIC's.
struct Nothing;

impl Transport for Nothing {
    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn peer(&self, _: ConnectionId) -> Option<IpAddr> {
        None
    }

    fn ends(&self, _: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        None
    }

    fn readable(&self, _: ConnectionId) -> &[u8] {
        &[]
    }

    fn consume(&mut self, _: ConnectionId, _: usize) {}

    fn send(&mut self, _: ConnectionId, _: Slice) {}

    fn unacknowledged(&self, _: ConnectionId) -> usize {
        0
    }

    fn unsent(&self, _: ConnectionId) -> usize {
        0
    }

    fn finish(&mut self, _: ConnectionId) {}

    fn discard_received(&mut self, _: ConnectionId) {}

    fn abort(&mut self, _: ConnectionId, _: Abort) {}
}

/// A connection of the client's, and the streams of its requests.
struct Asking {
    quic: Connection,
    is_begun: bool,
    under_way: BTreeSet<StreamId>,
}

impl Link for Asking {
    fn quic(&mut self) -> &mut Connection {
        &mut self.quic
    }
}

/// Bytes on their way, and the length of each datagram of them but the last.
type Burst = (Vec<u8>, usize);

struct World {
    now: Instant,
    quic: Quic,
    cheetah: Cheetah,
    client: Connections<Asking>,
    handles: Vec<ConnectionHandle>,
    to_server: VecDeque<(SocketAddr, Burst)>,
    to_client: VecDeque<(SocketAddr, Burst)>,
    streams: usize,
    request: Vec<u8>,
    asked: usize,
    done: usize,
    most: usize,
    came: usize,
}

fn request() -> Vec<u8> {
    let section = encoder::section(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/document.html"),
    ]);
    let mut out = Vec::new();
    frame::push(&mut out, kind::HEADERS, &section);
    out
}

/// As `exos load` has it.
fn client_config() -> ClientConfig {
    let tls = Tls::new(&Trust::Anybody, "localhost", &["h3"]).expect("a name");
    let crypto = QuicClientConfig::try_from(tls.config(Way::Full)).expect("TLS 1.3");
    let mut config = ClientConfig::new(Arc::new(crypto));
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(DATAGRAM_MAX);
    let mut transport = TransportConfig::default();
    transport
        .mtu_discovery_config(Some(discovery))
        .max_concurrent_uni_streams(VarInt::from_u32(16))
        .stream_receive_window(VarInt::from_u32(1 << 30))
        .receive_window(VarInt::from_u32(1 << 30));
    config.transport_config(Arc::new(transport));
    config
}

impl World {
    fn new(len: usize) -> World {
        let config = Config {
            tls: Some(TlsConfig {
                port: SERVER.1,
                self_signed: true,
                http3: true,
                ..TlsConfig::default()
            }),
            ..Config::of(Root::Example)
        };
        let acceptor = Acceptor::of(&config, None).expect("a configuration");
        let now = Instant::from_millis(1000);
        let mut site = Site::new();
        let description = Description::plain("text/html", UNIX_SECS);
        site.insert(
            b"/document.html",
            Document::new(&vec![b'0'; len], &description),
        );
        let mut client: Connections<Asking> =
            Connections::new(EndpointConfig::default(), None, true, now);
        let config = client_config();
        let mut connect = |_| {
            let make = |_, quic| Asking {
                quic,
                is_begun: false,
                under_way: BTreeSet::new(),
            };
            let begun = client.connect(config.clone(), SERVER.into(), "localhost", make);
            begun.expect("a connection")
        };
        World {
            handles: (0..CONNECTIONS).map(&mut connect).collect(),
            quic: Quic::new(acceptor.expect("HTTPS"), None, Some(DATAGRAM_MAX), now)
                .expect("TLS 1.3"),
            cheetah: Cheetah::new(Server::new(site, UNIX_SECS), now),
            now,
            client,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            streams: match len {
                ..1_000_000 => STREAMS,
                _ => STREAMS_OF_LONG,
            },
            request: request(),
            asked: 0,
            done: 0,
            most: 0,
            came: 0,
        }
    }

    /// The server takes in what has come, answers it, and sends, as it does on packets.
    #[inline(always)]
    fn server_turn(&mut self) {
        let now = self.now;
        self.quic.begin_turn(now);
        while let Some((remote, (bytes, segment))) = self.to_server.pop_front() {
            for datagram in bytes.chunks(segment) {
                self.quic.receive(Arrived {
                    remote,
                    local: Some(IpAddr::from(SERVER.0)),
                    ecn: 2,
                    payload: datagram.into(),
                });
            }
        }
        let mut transport = Beside::new(Nothing, Some(&mut self.quic));
        self.cheetah.handle(now, UNIX_SECS, &mut transport);
        while let Some((leaving, payload)) = self.quic.transmit_owned(SEGMENTS, Vec::new) {
            self.to_client
                .push_back((leaving.remote, (payload, leaving.segment)));
        }
    }

    /// One that is counted.
    #[inline(never)]
    fn counted_turn(&mut self) {
        self.server_turn();
    }

    /// The client takes what has come, and asks again where something has come whole.
    fn client_turn(&mut self) {
        self.client.set_now(self.now);
        while self.client.poll_due().is_some() {}
        let mut buffer = Vec::new();
        while let Some((_, (bytes, segment))) = self.to_client.pop_front() {
            for datagram in bytes.chunks(segment) {
                let arrived = Arrived {
                    remote: SERVER.into(),
                    local: None,
                    ecn: 2,
                    payload: datagram.into(),
                };
                self.client.receive(arrived, &mut buffer);
            }
        }
        for at in 0..self.handles.len() {
            self.ask(self.handles[at]);
        }
        while let Some(leaving) = self.client.poll_transmit(SEGMENTS, &mut buffer) {
            let Leaving { len, segment, .. } = leaving;
            let burst = (buffer[..len].to_vec(), segment);
            self.to_server.push_back((CLIENT.into(), burst));
        }
    }

    fn ask(&mut self, handle: ConnectionHandle) {
        let link = self.client.get_mut(handle).expect("it goes on");
        while let Some(event) = link.quic.poll() {
            let lost = matches!(event, quinn_proto::Event::ConnectionLost { .. });
            assert!(!lost, "{event:?}");
        }
        if link.quic.is_handshaking() {
            return;
        }
        if !std::mem::replace(&mut link.is_begun, true) {
            let control = link.quic.streams().open(Dir::Uni).expect("a stream");
            let written = link.quic.send_stream(control).write(&frame::settings());
            written.expect("there is room");
        }
        let under_way: Vec<StreamId> = link.under_way.iter().copied().collect();
        for stream in under_way {
            let mut incoming = link.quic.recv_stream(stream);
            let Ok(mut chunks) = incoming.read(true) else {
                continue;
            };
            let is_whole = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => self.came += chunk.bytes.len(),
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            let _ = chunks.finalize();
            if is_whole {
                link.under_way.remove(&stream);
                self.done += 1;
            }
        }
        while link.under_way.len() < self.streams && self.asked < self.most {
            let Some(stream) = link.quic.streams().open(Dir::Bi) else {
                return;
            };
            let mut out = link.quic.send_stream(stream);
            out.write(&self.request).expect("there is room");
            out.finish().expect("it is open");
            link.under_way.insert(stream);
            self.asked += 1;
        }
    }

    /// Runs until this many requests more are answered.
    fn run(&mut self, count: usize, server_turn: fn(&mut World)) {
        self.most += count;
        while self.done < self.most {
            self.now += TURN;
            self.client_turn();
            self.now += TURN;
            server_turn(self);
        }
    }

    fn datagrams(&self) -> [u64; 2] {
        ["quic_datagrams_received", "quic_datagrams_sent"].map(|name| {
            let mut all = self.quic.counters();
            all.find(|(of, _)| *of == name).expect("a counter").1
        })
    }
}

fn main() {
    let numbers = std::env::args().skip(1);
    let mut numbers = numbers.map(|it| it.parse().expect("a number"));
    let count: usize = numbers.next().unwrap_or(20_000);
    let mut world = World::new(numbers.next().unwrap_or(100));
    world.run(FIRST, World::server_turn);
    let (clock, came, before) = (Clock::now(), world.came, world.datagrams());
    world.run(count, World::counted_turn);
    let each = |count_of: f64| count_of / count as f64;
    let [received, sent] = {
        let after = world.datagrams();
        [after[0] - before[0], after[1] - before[1]].map(|it| each(it as f64))
    };
    println!(
        "{count} requests, {:.1} bytes each; datagrams of one: {received:.3} in, {sent:.3} out; {:.0} ns each with their client",
        each((world.came - came) as f64),
        each(clock.elapsed().as_nanos() as f64)
    );
}
