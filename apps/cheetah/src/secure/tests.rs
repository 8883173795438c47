//! Sessions over a transport in memory, of which a test says what it lets go and what clients have taken.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use exos_buf::{Buffer, Slice};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Reason};
use exos_tls::Session;
use exos_tls::client::{Client, Trust, Way};
use exos_tls::policy::provider;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{ServerConfig, SignatureAlgorithm, SignatureScheme};

use super::signing::weighed;
use super::{Acceptor, Secured, Sessions};
use crate::config::{Config, Root, TlsConfig};
use crate::connections::{Abort, Cheetah, Transport};
use crate::http::Server;
use crate::limits::{
    HANDSHAKE_TIME, HANDSHAKES_AT_ONCE, HELLO_LEN_MAX, SEALED_LEN, SEALED_UNDER_WAY_LEN,
};
use crate::site::Site;

const PORT: u16 = 443;

/// A connection: what the client has sent, and what was sent to it.
#[derive(Default)]
struct End {
    received: Vec<u8>,
    sent: Vec<u8>,
    /// How much of that is under way, and how much the client has taken.
    let_go: usize,
    taken: usize,
    /// What comes is thrown away.
    discards: bool,
    was_reset: bool,
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
        let end = self.end(id);
        if !end.discards {
            end.received.extend_from_slice(bytes);
        }
        self.tell(id, set.with(EventSet::READABLE));
    }
}

impl Transport for Wire {
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn peer(&self, _: ConnectionId) -> Option<IpAddr> {
        Some([10, 0, 0, 2].into())
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

    fn discard_received(&mut self, id: ConnectionId) {
        let end = self.end(id);
        end.discards = true;
        end.received.clear();
    }

    fn abort(&mut self, id: ConnectionId, _: Abort) {
        self.end(id).was_reset = true;
    }
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
        World::taking(false)
    }

    /// One whose server takes early data, or not.
    fn taking(early_data: bool) -> World {
        let config = Config {
            tls: Some(TlsConfig {
                port: PORT,
                self_signed: true,
                early_data,
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

    /// A turn, in which nothing is answered. Gives what is told of a connection.
    fn turn_of(&mut self, id: ConnectionId) -> EventSet {
        self.sessions.begin_turn();
        let mut secured = Secured::new(&mut self.wire, Some(&mut self.sessions));
        let mut told = EventSet::NONE;
        while let Some(event) = secured.poll_event() {
            if event.connection == id {
                told = told.with(event.set);
            }
        }
        told
    }

    fn turn(&mut self) {
        self.turn_of(id(0));
    }

    fn secured(&mut self) -> Secured<'_, Wire> {
        Secured::new(&mut self.wire, Some(&mut self.sessions))
    }

    /// A client's first visit, by which it has tickets.
    fn visit(&mut self, id: ConnectionId) {
        let mut client = self.greet(id);
        for _ in 0..2 {
            self.turn();
            self.take(id, &mut client, usize::MAX);
        }
        assert!(client.is_established());
    }

    /// The first flight of a client with a ticket, with this as early data.
    fn early(&mut self, plain: &[u8]) -> (Session, Vec<u8>) {
        let mut session = self.client.begin(Way::Early).unwrap();
        let mut flight = Vec::new();
        session.receive(&[], &mut flight).unwrap();
        session.seal(&[plain], &mut flight).unwrap();
        (session, flight)
    }

    fn counted(&self, name: &str) -> u64 {
        let mut all = self.sessions.counters();
        all.find(|(it, _)| *it == name).unwrap().1
    }

    /// A client's hello comes.
    fn greet(&mut self, id: ConnectionId) -> Session {
        let mut session = self.client.begin(Way::Full).unwrap();
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

/// A request that came with a hello is told of at once, and answered; our end waits for the client's Finished, and so does what the request
/// waits for.
#[test]
fn early_data_is_told_of_before_the_handshake_is_over() {
    let mut world = World::taking(true);
    world.visit(id(0));
    let (mut client, flight) = world.early(b"GET");
    world.wire.receive(id(1), &flight, EventSet::ACCEPTED);
    let told = world.turn_of(id(1));
    assert!(told.contains(EventSet::READABLE) && told.contains(EventSet::ACCEPTED));
    let mut secured = world.secured();
    assert!(secured.is_early(id(1)) && secured.is_handshaking(id(1)));
    assert_eq!(secured.readable(id(1)), b"GET");
    assert_eq!(secured.tls(id(1)).unwrap().early, Some(true));
    secured.send(id(1), Buffer::from(b"answer".to_vec()).into());
    secured.finish(id(1));
    secured.discard_received(id(1));
    drop(secured);
    assert!(!world.wire.end(id(1)).discards);
    assert_eq!(world.take(id(1), &mut client, usize::MAX), b"answer");
    assert!(client.is_established() && !client.is_peer_closed());
    let told = world.turn_of(id(1));
    assert!(
        told.contains(EventSet::READABLE),
        "what has waited is told of again"
    );
    let secured = world.secured();
    assert!(!secured.is_early(id(1)) && !secured.is_handshaking(id(1)));
    assert_eq!(secured.readable(id(1)), b"GET");
    drop(secured);
    world.take(id(1), &mut client, usize::MAX);
    assert!(client.is_peer_closed() && world.wire.end(id(1)).discards);
    let counted = ["accepted", "refused"].map(|it| world.counted(&format!("tls_early_{it}")));
    assert_eq!(counted, [1, 0]);

    // Who sends it again is answered by a full handshake alone, and cannot go on with that.
    world.wire.receive(id(2), &flight, EventSet::ACCEPTED);
    assert_eq!(
        world.turn_of(id(2)),
        EventSet::NONE.with(EventSet::ACCEPTED)
    );
    let secured = world.secured();
    assert!(secured.is_handshaking(id(2)) && secured.readable(id(2)).is_empty());
}

/// What came early stays so when its session fails, and when its client ends before it stands, ours ends at once.
#[test]
fn early_data_of_a_session_that_never_stands_stays_early() {
    let mut world = World::taking(true);
    for spoils in [true, false] {
        world.visit(id(0));
        let (mut client, mut flight) = world.early(b"POST");
        if spoils {
            flight.extend_from_slice(&[23, 3, 3, 0, 20]);
            flight.extend_from_slice(&[7; 20]);
        }
        world.wire.receive(id(1), &flight, EventSet::ACCEPTED);
        assert!(world.turn_of(id(1)).contains(EventSet::READABLE));
        let mut secured = world.secured();
        assert_eq!(secured.readable(id(1)), b"POST");
        assert_eq!(secured.has_failed(id(1)), spoils);
        assert!(secured.is_early(id(1)));
        secured.send(id(1), Buffer::from(b"answer".to_vec()).into());
        secured.finish(id(1));
        secured.discard_received(id(1));
        drop(secured);
        if !spoils {
            assert!(!world.wire.end(id(1)).discards);
            world.wire.tell(id(1), EventSet::FINISHED);
            assert!(world.turn_of(id(1)).contains(EventSet::FINISHED));
            assert_eq!(world.take(id(1), &mut client, usize::MAX), b"answer");
        }
        assert!(world.wire.end(id(1)).discards);
        world.secured().abort(id(1), Abort::Failed);
        world.wire.ends.remove(&1);
    }
}

/// A client that asks by early data and never comes to a session is reset when its time for that is over, however it goes on to ask.
#[test]
fn early_data_that_does_not_end_has_an_end() {
    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    let mut world = World::taking(true);
    world.visit(id(0));
    let begun = Instant::from_millis(1);
    let mut cheetah = Cheetah::new(Server::new(Site::example(), 0), begun);
    let (mut client, mut flight) = world.early(GET);
    let mut set = EventSet::ACCEPTED;
    let end = begun + HANDSHAKE_TIME;
    for now in (0..10).map(|secs| begun + std::time::Duration::from_secs(secs)) {
        world.wire.receive(id(1), &flight, set);
        world.sessions.begin_turn();
        let answered = world.wire.end(id(1)).sent.len();
        cheetah.handle(now, 0, &mut world.secured());
        let its = world.wire.end(id(1));
        assert!(its.sent.len() > answered && !its.was_reset);
        (its.let_go, its.taken) = (its.sent.len(), its.sent.len());
        flight.clear();
        client.seal(&[GET], &mut flight).unwrap();
        set = EventSet::ACKNOWLEDGED;
    }
    // The wheel of times may look a bit before.
    assert!(cheetah.poll_timeout().is_some_and(|at| at <= end));
    cheetah.handle(end, 0, &mut world.secured());
    assert!(world.wire.end(id(1)).was_reset && cheetah.is_alone());
    let timeouts = cheetah
        .counters()
        .into_iter()
        .find(|(name, _)| *name == "tls_handshake_timeouts");
    assert_eq!(timeouts.map(|(_, count)| count), Some(1));
    world.secured().abort(id(1), Abort::Failed);
    assert_eq!(world.counted("tls_early_left"), 1);
}

/// A server that takes none gives tickets that say so, and one that has lost its tickets shakes hands in full: the client sends again
/// what it has sent.
#[test]
fn early_data_that_is_not_taken_comes_behind_the_handshake() {
    let mut world = World::new();
    world.visit(id(0));
    let mut session = world.client.begin(Way::Early).unwrap();
    session.receive(&[], &mut Vec::new()).unwrap();
    assert!(!session.is_early());

    let mut world = World::taking(true);
    world.visit(id(0));
    let (mut client, flight) = world.early(b"GET");
    let other = World::taking(true);
    (world.sessions, world.acceptor) = (other.sessions, other.acceptor);
    world.wire.receive(id(1), &flight, EventSet::ACCEPTED);
    assert!(!world.turn_of(id(1)).contains(EventSet::READABLE));
    world.take(id(1), &mut client, usize::MAX);
    assert!(world.turn_of(id(1)).contains(EventSet::READABLE));
    assert_eq!(world.secured().readable(id(1)), b"GET");
    let counted = ["accepted", "refused"].map(|it| world.counted(&format!("tls_early_{it}")));
    assert_eq!(counted, [0, 1]);
}

/// Of HTTP/1 a client may name the older version alone, as curl --http1.0 does.
#[test]
fn every_version_that_is_spoken_may_be_named() {
    for name in ["http/1.1", "http/1.0", "h2"] {
        let mut world = World::new();
        world.client = Client::new(&Trust::Anybody, "localhost", &[name]).unwrap();
        world.visit(id(0));
    }
    let mut world = World::new();
    world.client = Client::new(&Trust::Anybody, "localhost", &["http/0.9"]).unwrap();
    world.greet(id(0));
    world.turn();
    assert_eq!(world.counted("tls_failed_alpn"), 1);
}

/// The names of protocols make hellos long.
#[test]
fn hellos_that_are_too_long_are_refused_however_they_come() {
    for (count, is_taken) in [(75, true), (90, false)] {
        let names: Vec<String> = (0..count).map(|name| format!("{name:0200}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let offered = [&names[..], &["http/1.1"]].concat();
        // Whole, in halves, in many parts, and a record at once.
        for part_len in [usize::MAX, 9_000, 400, 5 + (1 << 14)] {
            let mut world = World::new();
            let client = Client::new(&Trust::Anybody, "localhost", &offered).unwrap();
            let mut hello = Vec::new();
            let mut session = client.begin(Way::Full).unwrap();
            session.receive(&[], &mut hello).unwrap();
            assert_eq!(hello.len() <= HELLO_LEN_MAX, is_taken);
            for (nth, part) in hello.chunks(part_len).enumerate() {
                let set = if nth == 0 {
                    EventSet::ACCEPTED
                } else {
                    EventSet::NONE
                };
                world.wire.receive(id(0), part, set);
                world.turn();
            }
            let said = &world.wire.end(id(0)).sent;
            let is_alert = said.starts_with(&[21]);
            assert_eq!(
                (said.is_empty(), is_alert),
                (false, !is_taken),
                "{count} names in parts of {part_len}"
            );
        }
    }
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
