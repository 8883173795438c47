//! Sessions over a transport in memory, of which a test says what it lets go and what clients have taken.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use exos_buf::{Buffer, Slice};
use exos_inet::tcp::{ConnectionId, Event, EventSet, Reason};
use exos_tls::Session;
use exos_tls::client::{Client, Trust};
use exos_tls::policy::provider;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{ServerConfig, SignatureAlgorithm, SignatureScheme};

use super::signing::weighed;
use super::{Acceptor, Secured, Sessions};
use crate::config::{Config, Root, TlsConfig};
use crate::connections::Transport;
use crate::limits::{HANDSHAKES_AT_ONCE, SEALED_LEN, SEALED_UNDER_WAY_LEN};

const PORT: u16 = 443;

/// A connection: what the client has sent, and what was sent to it.
#[derive(Default)]
struct End {
    received: Vec<u8>,
    sent: Vec<u8>,
    /// How much of that is under way, and how much the client has taken.
    let_go: usize,
    taken: usize,
}

/// What carries connections.
#[derive(Default)]
struct Wire {
    ends: BTreeMap<u64, End>,
    events: VecDeque<Event>,
}

impl Wire {
    fn tell(&mut self, id: ConnectionId, set: EventSet) {
        self.events.push_back(Event {
            connection: id,
            token: 0,
            set,
            reason: Reason::Done,
        });
    }

    fn end(&mut self, id: ConnectionId) -> &mut End {
        self.ends.entry(id.to_bits()).or_default()
    }

    /// A client's bytes come.
    fn receive(&mut self, id: ConnectionId, bytes: &[u8], set: EventSet) {
        self.end(id).received.extend_from_slice(bytes);
        self.tell(id, set.with(EventSet::READABLE));
    }
}

impl Transport for Wire {
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn peer(&self, _: ConnectionId) -> Option<IpAddr> {
        None
    }

    fn ends(&self, _: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        Some((at(PORT), at(50_000)))
    }

    fn readable(&self, id: ConnectionId) -> &[u8] {
        &self.ends[&id.to_bits()].received
    }

    fn consume(&mut self, id: ConnectionId, count: usize) {
        self.end(id).received.drain(..count);
    }

    fn send(&mut self, id: ConnectionId, bytes: Slice) {
        self.end(id).sent.extend_from_slice(bytes.as_bytes());
    }

    fn unacknowledged(&self, id: ConnectionId) -> usize {
        let end = &self.ends[&id.to_bits()];
        end.sent.len() - end.taken
    }

    fn unsent(&self, id: ConnectionId) -> usize {
        let end = &self.ends[&id.to_bits()];
        end.sent.len() - end.let_go
    }

    fn finish(&mut self, _: ConnectionId) {}

    fn discard_received(&mut self, _: ConnectionId) {}

    fn abort(&mut self, _: ConnectionId) {}
}

/// A server with a certificate made for the test, and its clients.
struct World {
    wire: Wire,
    sessions: Sessions,
    acceptor: Arc<Acceptor>,
    client: Client,
}

impl World {
    fn new() -> World {
        let config = Config {
            tls: Some(TlsConfig {
                port: PORT,
                self_signed: true,
                ..TlsConfig::default()
            }),
            ..Config::of(Root::Example)
        };
        let acceptor = Acceptor::of(&config, None).unwrap().unwrap();
        World {
            wire: Wire::default(),
            sessions: Sessions::new(acceptor.clone()),
            acceptor,
            client: Client::new(&Trust::Anybody, "localhost", &["http/1.1"]).unwrap(),
        }
    }

    /// A turn, in which nothing is answered.
    fn turn(&mut self) {
        self.sessions.begin_turn();
        let mut secured = Secured::new(&mut self.wire, Some(&mut self.sessions));
        while secured.poll_event().is_some() {}
    }

    /// A client's hello comes.
    fn greet(&mut self, id: ConnectionId) -> Session {
        let mut session = self.client.begin(false).unwrap();
        let mut hello = Vec::new();
        session.receive(&[], &mut hello).unwrap();
        self.wire.receive(id, &hello, EventSet::ACCEPTED);
        session
    }

    /// The client takes what was sent, as much as this, which is acknowledged.
    fn take(&mut self, id: ConnectionId, client: &mut Session, len: usize) -> Vec<u8> {
        let end = self.wire.end(id);
        let until = end.sent.len().min(end.taken.saturating_add(len));
        end.let_go = until.max(end.let_go);
        let (mut out, mut plain) = (Vec::new(), Vec::new());
        while let Ok(taken @ 1..) = client.receive(&end.sent[end.taken..until], &mut out) {
            end.taken += taken;
            plain.extend_from_slice(client.readable());
            client.consume(client.readable().len());
        }
        self.wire.receive(id, &out, EventSet::ACKNOWLEDGED);
        plain
    }
}

fn id(number: u64) -> ConnectionId {
    ConnectionId::from_bits(number)
}

/// However far a client's window reaches: records are memory.
#[test]
fn records_under_way_are_bounded() {
    const LEN: usize = 5 * SEALED_UNDER_WAY_LEN;
    let mut world = World::new();
    let mut client = world.greet(id(0));
    world.turn();
    world.take(id(0), &mut client, usize::MAX);
    world.turn();
    assert!(client.is_established());
    world.take(id(0), &mut client, usize::MAX);

    let document: Vec<u8> = (0..LEN).map(|at| (at / 1000) as u8).collect();
    let mut secured = Secured::new(&mut world.wire, Some(&mut world.sessions));
    secured.send(id(0), Buffer::from(document.clone()).into());
    drop(secured);
    // All that is given leaves at once, and the client acknowledges none of it.
    let mut before = 0;
    while before < world.wire.end(id(0)).sent.len() {
        let end = world.wire.end(id(0));
        (before, end.let_go) = (end.sent.len(), end.sent.len());
        world.wire.tell(id(0), EventSet::ACKNOWLEDGED);
        world.turn();
    }
    let under_way = world.wire.unacknowledged(id(0));
    assert!(under_way >= SEALED_UNDER_WAY_LEN, "{under_way}");
    assert!(
        under_way < SEALED_UNDER_WAY_LEN + SEALED_LEN + 4096,
        "{under_way}"
    );
    let secured = Secured::new(&mut world.wire, Some(&mut world.sessions));
    // Each flight is a bit longer than its plaintext.
    let waiting = LEN - under_way / SEALED_LEN * SEALED_LEN;
    let counts = (secured.unacknowledged(id(0)), secured.unsent(id(0)));
    assert_eq!(counts, (LEN, waiting));
    drop(secured);

    let mut received = Vec::new();
    while received.len() < LEN {
        let plain = world.take(id(0), &mut client, 100_000);
        assert!(
            !plain.is_empty(),
            "it has stopped behind {}",
            received.len()
        );
        received.extend_from_slice(&plain);
        world.turn();
    }
    assert!(received == document, "other bytes came");
}

/// A turn signs for so long, whatever the keys are: one signature with a long key of RSA, or several with others.
#[test]
fn signatures_of_a_turn_are_weighed() {
    const CLIENTS: usize = 2 * HANDSHAKES_AT_ONCE;
    let answered = |world: &Wire| {
        let ends = world.ends.values();
        ends.filter(|end| !end.sent.is_empty()).count()
    };
    for (is_long, at_once) in [(false, HANDSHAKES_AT_ONCE), (true, 1)] {
        let mut world = World::new();
        if is_long {
            world.acceptor.begin_with(server_with(AsLongRsa(key())));
        }
        let clients = (0..CLIENTS as u64).map(|number| world.greet(id(number)));
        let mut clients: Vec<Session> = clients.collect();
        for turns in 1..=CLIENTS / at_once {
            world.turn();
            assert_eq!(answered(&world.wire), turns * at_once);
        }
        assert!(!world.sessions.is_waiting());
        for (client, number) in clients.iter_mut().zip(0..) {
            world.take(id(number), client, usize::MAX);
            assert!(client.is_established());
        }
    }
}

/// A certificate and its key.
fn key() -> CertifiedKey {
    let made = exos_tls::self_signed::certificate(&["localhost".to_owned()]);
    let (certificate, key) = made.unwrap();
    CertifiedKey::from_der(vec![certificate], key, &provider(&[])).unwrap()
}

fn server_with(key: AsLongRsa) -> Arc<ServerConfig> {
    let cert = key.0.cert.clone();
    let certified = weighed(&CertifiedKey::new(cert, Arc::new(key)));
    let builder = ServerConfig::builder_with_provider(provider(&[]));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let resolver = rustls::sign::SingleCertAndKey::from(certified);
    let mut config = builder
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.enable_secret_extraction = true;
    Arc::new(config)
}

/// A key that says that it is one of RSA with 4096 bits, and signs by another.
#[derive(Debug)]
struct AsLongRsa(CertifiedKey);

impl SigningKey for AsLongRsa {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.0.key.choose_scheme(offered)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(vec![0; 550]))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::RSA
    }
}
