//! Clients of HTTP/3 and a server, joined by a wire that loses datagrams, on virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use exos_buf::Slice;
use exos_cheetah::config::{Config, Root, TlsConfig};
use exos_cheetah::connections::{Abort, Cheetah, Transport};
use exos_cheetah::quic::{Beside, Quic};
use exos_cheetah::secure::Acceptor;
use exos_cheetah::{Server, Site};
use exos_http2::fields::Fields;
use exos_http3::qpack::{decoder, encoder};
use exos_http3::{frame, frame::kind};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event};
use exos_quic::Arrived;
use exos_testing::Random;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    StreamEvent, StreamId,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

const PORT: u16 = 443;
/// How long a datagram is under way.
const LATENCY: Duration = Duration::from_millis(10);
/// How long datagrams wait before a slow wire at most.
const QUEUE_TIME: Duration = Duration::from_secs(2);
/// Datagrams that leave as one.
const SEGMENTS: usize = 16;
/// A step of virtual time.
const STEP: Duration = Duration::from_millis(1);

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

/// Takes any certificate.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        unreachable!("QUIC is TLS 1.3")
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms =
            rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// What has come of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// It is whole, or was reset with this code.
    pub ended: Option<Result<(), u64>>,
    /// With this code the server has said that it reads no more of the request.
    pub stopped: Option<u64>,
    unread: Vec<u8>,
}

/// A client: an endpoint with one connection.
pub struct Client {
    address: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub quic: Connection,
    pub stands: bool,
    /// The code with which the server closed it.
    pub closed: Option<u64>,
    pub responses: BTreeMap<StreamId, Response>,
    /// What has come on the server's control stream.
    pub control: Vec<u8>,
    control_stream: Option<StreamId>,
    to_write: BTreeMap<StreamId, (Vec<u8>, bool)>,
}

/// A datagram under way: when it is there, which client's, its bytes.
type UnderWay = (Instant, SocketAddr, Vec<u8>);

/// All of them.
pub struct World {
    pub now: Instant,
    epoch: std::time::Instant,
    /// To the server, and to clients.
    wires: [VecDeque<UnderWay>; 2],
    /// Bytes a second that the wire to clients takes, and when it is free.
    pub rate: Option<u64>,
    free_at: Instant,
    random: Random,
    /// How many of a hundred datagrams are lost.
    pub lost_percent: u64,
    pub quic: Quic,
    pub cheetah: Cheetah,
    pub clients: Vec<Client>,
}

impl World {
    pub fn new(seed: u64, site: Site) -> World {
        let config = Config {
            tls: Some(TlsConfig {
                port: PORT,
                self_signed: true,
                http3: true,
                ..TlsConfig::default()
            }),
            ..Config::of(Root::Example)
        };
        let acceptor = Acceptor::of(&config, None).unwrap().unwrap();
        let now = Instant::from_millis(1000);
        World {
            now,
            epoch: std::time::Instant::now(),
            wires: Default::default(),
            rate: None,
            free_at: now,
            random: Random(seed),
            lost_percent: 0,
            quic: Quic::new(acceptor, None, None, now).unwrap(),
            cheetah: Cheetah::new(Server::new(site, super::NOW_SECS), now),
            clients: Vec::new(),
        }
    }

    /// Another client begins a connection: gives its number.
    pub fn connect(&mut self) -> usize {
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::aws_lc_rs::default_provider(),
        ));
        let tls = tls
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap();
        let mut tls = tls
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = QuicClientConfig::try_from(tls).unwrap();
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let time = self.time();
        let config = ClientConfig::new(Arc::new(crypto));
        let server = SocketAddr::from(([10, 0, 0, 1], PORT));
        let (handle, quic) = endpoint.connect(time, config, server, "localhost").unwrap();
        let number = self.clients.len();
        self.clients.push(Client {
            address: SocketAddr::from(([10, 0, 1, 2], 10_000 + number as u16)),
            endpoint,
            handle,
            quic,
            stands: false,
            closed: None,
            responses: BTreeMap::new(),
            control: Vec::new(),
            control_stream: None,
            to_write: BTreeMap::new(),
        });
        number
    }

    fn time(&self) -> std::time::Instant {
        self.epoch + Duration::from_micros(self.now.micros())
    }

    /// A client closes its connection.
    pub fn close(&mut self, client: usize) {
        let time = self.time();
        let code = quinn_proto::VarInt::from_u32(0x100);
        self.clients[client].quic.close(time, code, Bytes::new());
    }

    /// Goes on until that holds, or this much time has gone by: whether it held.
    pub fn run_until(&mut self, time: Duration, holds: impl Fn(&World) -> bool) -> bool {
        let end = self.now + time;
        while !holds(self) {
            if self.now >= end {
                return false;
            }
            self.step();
        }
        true
    }

    fn step(&mut self) {
        self.now += STEP;
        let (now, time) = (self.now, self.time());
        self.quic.begin_turn(now);
        let is_there = |it: &mut UnderWay| it.0 <= now;
        while let Some((_, client, bytes)) = self.wires[0].pop_front_if(is_there) {
            self.quic.receive(Arrived {
                remote: client,
                local: None,
                ecn: 0,
                payload: bytes[..].into(),
            });
        }
        while let Some((_, client, bytes)) = self.wires[1].pop_front_if(is_there) {
            let place = usize::from(client.port() - 10_000);
            self.clients[place].receive(time, &bytes);
        }
        let mut transport = Beside::new(Nothing, Some(&mut self.quic));
        self.cheetah.handle(now, super::NOW_SECS, &mut transport);
        self.cheetah.handle(now, super::NOW_SECS, &mut transport);
        while let Some((leaving, payload)) = self.quic.transmit(SEGMENTS) {
            let datagrams = payload.chunks(leaving.segment);
            let datagrams: Vec<Vec<u8>> = datagrams.map(<[u8]>::to_vec).collect();
            datagrams
                .into_iter()
                .for_each(|payload| self.push(leaving.remote, false, payload));
        }
        for place in 0..self.clients.len() {
            let sent = self.clients[place].turn(time);
            let address = self.clients[place].address;
            sent.into_iter()
                .for_each(|payload| self.push(address, true, payload));
        }
    }

    fn push(&mut self, client: SocketAddr, to_server: bool, payload: Vec<u8>) {
        if self.random.chance(self.lost_percent) {
            return;
        }
        let mut leaves = self.now;
        if let Some(rate) = self.rate.filter(|_| !to_server) {
            leaves = leaves.max(self.free_at);
            if leaves > self.now + QUEUE_TIME {
                return; // There is no more room before it.
            }
            leaves += Duration::from_micros(payload.len() as u64 * 1_000_000 / rate);
            self.free_at = leaves;
        }
        self.wires[usize::from(!to_server)].push_back((leaves + LATENCY, client, payload));
    }

    /// No more connections and requests are wanted.
    pub fn stop(&mut self) {
        self.quic.stop(self.now);
        let mut transport = Beside::new(Nothing, Some(&mut self.quic));
        self.cheetah.stop(self.now, super::NOW_SECS, &mut transport);
    }

    /// What is left is given up.
    pub fn give_up(&mut self) {
        let mut transport = Beside::new(Nothing, Some(&mut self.quic));
        while self.cheetah.abort_some(&mut transport) {}
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut all = self.quic.counters();
        all.find(|(of, _)| *of == name).expect("a counter").1
    }
}

impl Client {
    fn receive(&mut self, time: std::time::Instant, bytes: &[u8]) {
        let server = SocketAddr::from(([10, 0, 0, 1], PORT));
        let mut answer = Vec::new();
        let bytes = BytesMut::from(bytes);
        let event = self
            .endpoint
            .handle(time, server, None, None, bytes, &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.quic.handle_event(event);
        }
    }

    /// Hears what there is, and gives the datagrams that leave.
    fn turn(&mut self, time: std::time::Instant) -> Vec<Vec<u8>> {
        if self.quic.poll_timeout().is_some_and(|at| at <= time) {
            self.quic.handle_timeout(time);
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                quinn_proto::Event::Connected => self.begin(),
                quinn_proto::Event::ConnectionLost { reason } => {
                    self.closed = Some(match reason {
                        quinn_proto::ConnectionError::ApplicationClosed(close) => {
                            close.error_code.into_inner()
                        }
                        _ => 0,
                    });
                }
                quinn_proto::Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    if let Some(response) = self.responses.get_mut(&id) {
                        response.stopped = Some(error_code.into_inner());
                    }
                }
                _ => {}
            }
        }
        if let Some(stream) = self.quic.streams().accept(Dir::Uni) {
            self.control_stream = Some(stream);
        }
        self.read();
        self.write();
        let mut sent = Vec::new();
        loop {
            let mut buffer = Vec::new();
            let Some(transmit) = self.quic.poll_transmit(time, 1, &mut buffer) else {
                return sent;
            };
            sent.push(buffer[..transmit.size].to_vec());
        }
    }

    fn begin(&mut self) {
        self.stands = true;
        let control = self.quic.streams().open(Dir::Uni).unwrap();
        self.to_write.insert(control, (frame::settings(), false));
    }

    /// Sends these bytes on a stream of a request of its own.
    pub fn send(&mut self, bytes: Vec<u8>, is_end: bool) -> StreamId {
        let stream = self
            .quic
            .streams()
            .open(Dir::Bi)
            .expect("room for a stream");
        self.to_write.insert(stream, (bytes, is_end));
        self.responses.insert(stream, Response::default());
        stream
    }

    /// Sends more on such a stream.
    pub fn send_more(&mut self, stream: StreamId, bytes: Vec<u8>, is_end: bool) {
        let (waiting, ends) = self.to_write.entry(stream).or_default();
        waiting.extend(bytes);
        *ends |= is_end;
    }

    /// Asks for something, with these fields more.
    pub fn ask(&mut self, method: &str, path: &str, more: &[(&str, &str)]) -> StreamId {
        self.send(request(method, path, more), true)
    }

    fn write(&mut self) {
        let quic = &mut self.quic;
        self.to_write.retain(|stream, (bytes, is_end)| {
            while !bytes.is_empty() {
                match quic.send_stream(*stream).write(bytes) {
                    Ok(len) => drop(bytes.drain(..len)),
                    Err(quinn_proto::WriteError::Blocked) => return true,
                    Err(_) => return false,
                }
            }
            if *is_end {
                let _ = quic.send_stream(*stream).finish();
            }
            false
        });
    }

    fn read(&mut self) {
        if let Some(stream) = self.control_stream {
            let (bytes, _) = read(&mut self.quic, stream);
            self.control.extend(bytes);
        }
        for (stream, response) in &mut self.responses {
            if response.ended.is_none() {
                let (bytes, ended) = read(&mut self.quic, *stream);
                response.unread.extend(bytes);
                response.take_frames();
                response.ended = ended;
            }
        }
    }
}

/// What has come on a stream, and how it ended.
fn read(quic: &mut Connection, stream: StreamId) -> (Vec<u8>, Option<Result<(), u64>>) {
    let (mut bytes, mut recv) = (Vec::new(), quic.recv_stream(stream));
    let Ok(mut chunks) = recv.read(true) else {
        return (bytes, None);
    };
    let ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
            Ok(None) => break Some(Ok(())),
            Err(quinn_proto::ReadError::Blocked) => break None,
            Err(quinn_proto::ReadError::Reset(code)) => break Some(Err(code.into_inner())),
        }
    };
    let _ = chunks.finalize();
    (bytes, ended)
}

impl Response {
    fn take_frames(&mut self) {
        loop {
            let mut rest = &self.unread[..];
            let Some((kind, len)) = frame::take_head(&mut rest) else {
                return;
            };
            let Some(content) = rest.get(..len as usize) else {
                return;
            };
            match kind {
                kind::DATA => self.body.extend_from_slice(content),
                kind::HEADERS => {
                    let mut fields = Fields::new();
                    decoder::decode(content, |name, value| fields.push(name, value)).unwrap();
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let all = fields.iter().map(|(name, value)| (text(name), text(value)));
                    self.fields = all.collect();
                    self.status = self.field(":status").unwrap_or_default().to_owned();
                }
                _ => panic!("a frame of kind {kind}"),
            }
            let taken = self.unread.len() - rest.len() + len as usize;
            self.unread.drain(..taken);
        }
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| &**value)
    }
}

/// The head of a request.
pub fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let own = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    let section = encoder::section(&[&own[..], more].concat());
    framed(kind::HEADERS, &section)
}

/// A frame.
pub fn framed(kind: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push(&mut out, kind, content);
    out
}
