//! Data that a client sends with its hello: a server that takes none skips it, and the handshake goes on behind it (RFC 8446 §4.2.10); one
//! that takes it does so once.

use std::io::Write as _;
use std::sync::Arc;

use exos_tls::limits::EARLY_DATA_LEN_MAX;
use exos_tls::policy::provider;
use exos_tls::tickets::{TicketTable, accept_early_data};
use exos_tls::{Session, TlsError};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::kx_group::{SECP384R1, X25519};
use rustls::server::StoresServerSessions as _;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, Error, PeerMisbehaved, ServerConfig,
    ServerConnection, quic,
};

use crate::peers::{Pair, carry, give, take};
use crate::sessions::{configs_by, name};

fn receive(connection: &mut Connection, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        connection.read_tls(&mut bytes).unwrap();
        connection.process_new_packets().unwrap();
    }
}

/// A client that was at a server of this name that takes early data, and a server that does not. Where they have no key share in
/// common at first, this one has to ask for another.
fn ends(record_len: Option<usize>, is_asked_again: bool) -> (Session, ClientConnection) {
    let by = |group| {
        let mut provider = CryptoProvider::clone(&provider(&[]));
        provider.kx_groups = vec![group];
        Arc::new(provider)
    };
    let (server, client) = configs_by(&[&TLS13], by(X25519), provider(&[]));
    let mut client = ClientConfig::clone(&client);
    client.enable_early_data = true;
    client.max_fragment_size = record_len;
    let client = Arc::new(client);

    let mut takes_it = ServerConfig::clone(&server);
    accept_early_data(&mut takes_it, Arc::default());
    takes_it.max_early_data_size = 1 << 16;
    let mut first = ClientConnection::new(client.clone(), name())
        .unwrap()
        .into();
    let mut other = ServerConnection::new(Arc::new(takes_it)).unwrap().into();
    for _ in 0..3 {
        receive(&mut other, &take(&mut first));
        receive(&mut first, &take(&mut other));
    }

    let mut ours = ServerConfig::clone(&server);
    if is_asked_again {
        let (by_another, _) = configs_by(&[&TLS13], by(SECP384R1), provider(&[]));
        ours = ServerConfig::clone(&by_another);
        ours.cert_resolver = server.cert_resolver.clone();
    }
    let client = ClientConnection::new(client, name()).unwrap();
    (Session::server(Arc::new(ours)).unwrap(), client)
}

/// Sends that many bytes of early data, each in records of their own, and then shakes hands; what is sent is cut into such pieces.
fn shake_hands(session: &mut Session, client: ClientConnection, lens: &[usize], cut: usize) {
    let mut client = client;
    for len in lens {
        let bytes = vec![7; *len];
        client.early_data().unwrap().write_all(&bytes).unwrap();
    }
    let mut client = client.into();
    for _ in 0..3 {
        let answer = give(session, &take(&mut client), cut);
        receive(&mut client, &answer);
    }
    assert!(session.is_established() && !session.about().is_resumed);
    assert_eq!(session.about().early, Some(false));
    client.writer().write_all(b"again").unwrap();
    give(session, &take(&mut client), cut);
    assert_eq!(session.readable(), b"again");
}

#[test]
fn a_handshake_goes_on_behind_early_data() {
    for is_asked_again in [false, true] {
        for (lens, record_len) in [
            (&[16_000][..], None),
            (&[5000, 5000, 5000], None),
            (&[1; 100], None),
            // Its end of the handshake is cut into records, too.
            (&[300], Some(40)),
        ] {
            for cut in [7, 1000, 100_000] {
                let (mut session, client) = ends(record_len, is_asked_again);
                shake_hands(&mut session, client, lens, cut);
            }
        }
    }
}

/// More than that is no early data which anybody was told to send.
#[test]
fn early_data_is_skipped_up_to_a_bound() {
    let (mut session, mut client) = ends(None, false);
    for _ in 0..4 {
        client.early_data().unwrap().write_all(&[7; 5000]).unwrap();
    }
    let mut out = Vec::new();
    let received = session.receive(&take(&mut client.into()), &mut out);
    assert_eq!(received, Err(TlsError::Handshake(Error::DecryptError)));
    assert!(session.is_over());
}

/// A record that nobody could encrypt so ends a handshake without early data.
#[test]
fn what_cannot_be_decrypted_is_no_early_data_where_none_was_announced() {
    let (server, client) = configs_by(&[&TLS13], provider(&[]), provider(&[]));
    let mut session = Session::server(server).unwrap();
    let mut client = ClientConnection::new(client, name()).unwrap().into();
    let mut bytes = take(&mut client);
    bytes.extend_from_slice(&[23, 3, 3, 0, 20]);
    bytes.extend_from_slice(&[7; 20]);
    let received = session.receive(&bytes, &mut Vec::new());
    assert_eq!(received, Err(TlsError::Handshake(Error::DecryptError)));
}

// A server that takes it.

/// A server that takes early data, and a client of its that sends some where it has a ticket.
fn takers() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let (server, client) = configs_by(&[&TLS13], provider(&[]), provider(&[]));
    let mut server = ServerConfig::clone(&server);
    accept_early_data(&mut server, Arc::default());
    let mut client = ClientConfig::clone(&client);
    client.enable_early_data = true;
    (Arc::new(server), Arc::new(client))
}

/// A visit of a client without early data, after which it has tickets.
fn visit(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) {
    let mut pair = Pair::new(server.clone(), client.clone(), 100_000);
    pair.shake_hands();
}

/// The hello of a client that comes again, with early data behind it.
fn come_again(client: &Arc<ClientConfig>, early: &[&[u8]]) -> (Session, Vec<u8>) {
    let mut session = Session::client(client.clone(), name()).unwrap();
    let mut flight = Vec::new();
    session.receive(&[], &mut flight).unwrap();
    assert!(session.is_early() && !session.is_established());
    session.seal(early, &mut flight).unwrap();
    (session, flight)
}

fn read(session: &mut Session) -> Vec<u8> {
    let plain = session.readable().to_vec();
    session.consume(plain.len());
    plain
}

#[test]
fn early_data_is_answered_before_the_handshake_is_over() {
    for cut in [1, 7, 1000, 100_000] {
        let (server, client) = takers();
        visit(&server, &client);
        for len in [1, 300, EARLY_DATA_LEN_MAX as usize] {
            let asked = vec![b'q'; len];
            let (mut ours, flight) = come_again(&client, &[&asked[..len / 2], &asked[len / 2..]]);
            let mut taker = Session::server(server.clone()).unwrap();
            let mut back = give(&mut taker, &flight, cut);
            assert!(taker.is_early() && taker.is_handshaking());
            assert_eq!(read(&mut taker), asked);
            let about = taker.about();
            assert_eq!((about.is_resumed, about.early), (true, Some(true)));
            let answer = vec![b'a'; 40_000];
            taker
                .seal(&[&answer[..10], &answer[10..]], &mut back)
                .unwrap();
            let end = give(&mut ours, &back, cut);
            assert_eq!(read(&mut ours), answer);
            assert!(ours.is_established() && ours.about().early == Some(true));
            let tickets = give(&mut taker, &end, cut);
            assert!(taker.is_established() && taker.about().early == Some(true));
            assert!(give(&mut ours, &tickets, cut).is_empty());
            for turn in 0..3 {
                assert_eq!(carry(&mut taker, &mut ours, &[turn; 50], cut), [turn; 50]);
                assert_eq!(carry(&mut ours, &mut taker, &[turn; 50], cut), [turn; 50]);
            }
        }
    }
}

/// A client that announces early data and sends none has had it taken all the same.
#[test]
fn early_data_may_be_empty() {
    let (server, client) = takers();
    visit(&server, &client);
    let mut pair = Pair::new(server, client, 100_000);
    pair.shake_hands();
    assert_eq!(pair.server.about().early, Some(true));
    assert_eq!(pair.client.about().early, None);
}

/// Anybody who has seen a flight may send it again, to any core.
#[test]
fn the_same_flight_is_taken_once() {
    let (server, client) = takers();
    visit(&server, &client);
    let (_, flight) = come_again(&client, &[b"GET /"]);
    let servers = [server.clone(), Arc::new(ServerConfig::clone(&server))];
    let read_by = |config: &Arc<ServerConfig>| {
        let mut session = Session::server(config.clone()).unwrap();
        give(&mut session, &flight, 100_000);
        assert!(!session.is_over());
        session.readable().to_vec()
    };
    assert_eq!(read_by(&servers[1]), b"GET /");
    for config in servers.iter().chain(&servers) {
        assert!(read_by(config).is_empty());
    }
    // And at once by many cores, of which one has it.
    visit(&server, &client);
    let (_, flight) = come_again(&client, &[b"GET /"]);
    let took = std::thread::scope(|scope| {
        let one = || {
            let mut session = Session::server(server.clone()).unwrap();
            give(&mut session, &flight, 100_000);
            usize::from(!session.readable().is_empty())
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .map(|it| it.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!(took, 1);
}

/// A client sends again what a server does not take: one that has forgotten its tickets, one that takes none, and one that has it say
/// hello again.
#[test]
fn what_is_not_taken_is_sent_again() {
    let forgets = |config: &mut ServerConfig| accept_early_data(config, Arc::default());
    let takes_none = |config: &mut ServerConfig| {
        config.max_early_data_size = 0;
    };
    let asks_again = |config: &mut ServerConfig| {
        let mut provider = CryptoProvider::clone(&provider(&[]));
        provider.kx_groups = vec![SECP384R1];
        let (by_another, _) = configs_by(
            &[&TLS13],
            Arc::new(provider),
            exos_tls::policy::provider(&[]),
        );
        let before = std::mem::replace(config, ServerConfig::clone(&by_another));
        config.cert_resolver = before.cert_resolver.clone();
        let mut table = before;
        std::mem::swap(&mut config.session_storage, &mut table.session_storage);
        config.ticketer = table.ticketer;
        config.max_early_data_size = EARLY_DATA_LEN_MAX;
        config.send_half_rtt_data = true;
    };
    let changes: [&dyn Fn(&mut ServerConfig); 3] = [&forgets, &takes_none, &asks_again];
    for (at, change) in changes.into_iter().enumerate() {
        let (server, client) = takers();
        visit(&server, &client);
        let mut other = ServerConfig::clone(&server);
        change(&mut other);
        let mut asked = vec![b'q'; 5000];
        let (mut ours, mut flight) = come_again(&client, &[&asked]);
        let mut session = Session::server(Arc::new(other)).unwrap();
        for _ in 0..4 {
            let back = give(&mut session, &flight, 100_000);
            assert!(!session.is_early());
            flight = give(&mut ours, &back, 100_000);
            if ours.is_handshaking() {
                // What is said in the middle follows it.
                ours.seal(&[b"more"], &mut flight).unwrap();
                asked.extend_from_slice(b"more");
            }
        }
        assert!(ours.is_established() && session.is_established());
        assert_eq!(asked.len(), if at == 2 { 5004 } else { 5000 });
        assert_eq!(read(&mut session), asked, "change {at}");
        let fates = (ours.about().early, session.about().early);
        assert_eq!(fates, (Some(false), Some(false)), "change {at}");
        assert_eq!(ours.about().is_resumed, at > 0, "change {at}");
    }
}

/// A client keeps what is beyond the bound for the end of the handshake; one that does not is refused.
#[test]
fn early_data_has_a_bound() {
    let (server, client) = takers();
    visit(&server, &client);
    let asked = vec![b'q'; EARLY_DATA_LEN_MAX as usize + 5000];
    let (mut ours, flight) = come_again(&client, &[&asked]);
    let mut taker = Session::server(server.clone()).unwrap();
    let back = give(&mut taker, &flight, 100_000);
    assert_eq!(read(&mut taker), asked[..EARLY_DATA_LEN_MAX as usize]);
    let rest = give(&mut ours, &back, 100_000);
    give(&mut taker, &rest, 100_000);
    assert_eq!(read(&mut taker), asked[EARLY_DATA_LEN_MAX as usize..]);

    let mut narrow = ServerConfig::clone(&server);
    narrow.max_early_data_size = 100;
    let (_, flight) = come_again(&client, &[&[b'q'; 101]]);
    let mut session = Session::server(Arc::new(narrow)).unwrap();
    let mut out = Vec::new();
    let received = session.receive(&flight, &mut out);
    let too_much = Error::from(PeerMisbehaved::TooMuchEarlyDataReceived);
    assert_eq!(received, Err(TlsError::Handshake(too_much)));
    assert!(session.is_over() && session.readable().is_empty() && !out.is_empty());
}

/// Whatever is changed in a flight, nothing is read that the client has not sent, and a flight that ends too early brings what is
/// whole of it.
#[test]
fn forged_and_cut_flights_bring_nothing_else() {
    let (server, client) = takers();
    for at in [30, 120, 250] {
        for from_end in [1, 10, 40] {
            for spoils in [0, 1, 2] {
                visit(&server, &client);
                let (_, mut flight) = come_again(&client, &[b"GET / HTTP/1.1\r\n"]);
                let len = flight.len();
                match spoils {
                    0 => flight[at] ^= 1,
                    1 => flight[len - from_end] ^= 1,
                    _ => flight.truncate(len - from_end),
                }
                let mut session = Session::server(server.clone()).unwrap();
                let mut out = Vec::new();
                let received = session.receive(&flight, &mut out);
                assert!(session.readable().is_empty(), "{at} {from_end} {spoils}");
                assert!(!session.is_established());
                assert_eq!(received.is_err(), session.is_over());
                if spoils == 2 {
                    assert!(received.is_ok());
                }
            }
        }
    }
}

/// The ends of a connection of QUIC, as far as TLS has to do with it.
fn quic_ends(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
) -> (quic::ClientConnection, quic::ServerConnection) {
    let version = quic::Version::V1;
    let client = quic::ClientConnection::new(client.clone(), version, name(), b"c".to_vec());
    let server = quic::ServerConnection::new(server.clone(), version, b"s".to_vec());
    (client.unwrap(), server.unwrap())
}

/// A hello comes to a server over QUIC; gives whether early data may follow.
fn show_by_quic(server: &Arc<ServerConfig>, hello: &[u8]) -> Option<bool> {
    let version = quic::Version::V1;
    let mut server = quic::ServerConnection::new(server.clone(), version, b"s".to_vec()).unwrap();
    server.read_hs(hello).unwrap();
    Some(server.zero_rtt_keys().is_some())
}

/// And over TCP, where it is in a record, and where early data shows that it may follow.
fn show_by_tcp(server: &Arc<ServerConfig>, hello: &[u8]) -> Option<bool> {
    let len = (hello.len() as u16).to_be_bytes();
    let record = [&[22, 3, 1, len[0], len[1]][..], hello].concat();
    let mut session = Session::server(server.clone()).unwrap();
    give(&mut session, &record, 100_000);
    assert!(!session.is_over());
    None
}

/// One table is behind TCP and QUIC: what was shown over one of them is not good over the other.
#[test]
fn a_ticket_is_good_once_over_tcp_and_quic_together() {
    let (server, client) = takers();
    let table = Arc::new(TicketTable::default());
    let mut server = ServerConfig::clone(&server);
    accept_early_data(&mut server, table.clone());
    let server = Arc::new(server);
    let mut by_quic = ServerConfig::clone(&server);
    by_quic.max_early_data_size = u32::MAX; // RFC 9001 §4.6.1.
    let by_quic = Arc::new(by_quic);
    type Shows = fn(&Arc<ServerConfig>, &[u8]) -> Option<bool>;
    let (quic, tcp): ((_, Shows), (_, Shows)) = ((&by_quic, show_by_quic), (&server, show_by_tcp));
    for (nth, order) in [[quic, tcp], [tcp, quic], [quic, quic], [tcp, tcp]]
        .into_iter()
        .enumerate()
    {
        let (mut ours, mut taker) = quic_ends(&by_quic, &client);
        for _ in 0..4 {
            loop {
                let mut bytes = Vec::new();
                let change = ours.write_hs(&mut bytes);
                taker.read_hs(&bytes).unwrap();
                if change.is_none() && bytes.is_empty() {
                    break;
                }
            }
            loop {
                let mut bytes = Vec::new();
                let change = taker.write_hs(&mut bytes);
                ours.read_hs(&bytes).unwrap();
                if change.is_none() && bytes.is_empty() {
                    break;
                }
            }
        }
        assert!(!ours.is_handshaking() && !taker.is_handshaking());
        // What a client of QUIC says is read by a server over TCP, too.
        let (mut again, _) = quic_ends(&by_quic, &client);
        let mut hello = Vec::new();
        again.write_hs(&mut hello);
        assert!(again.zero_rtt_keys().is_some(), "it announces some");
        let took = order.map(|(server, show)| {
            let before = table.len();
            let may_follow = show(server, &hello);
            let took = table.len() < before;
            assert_eq!(may_follow.unwrap_or(took), took, "order {nth}");
            took
        });
        assert_eq!(took, [true, false], "order {nth}");
    }
}

#[test]
fn tickets_are_good_once_and_the_oldest_go() {
    let table = TicketTable::of(64, 1 << 20);
    assert!(table.is_empty());
    let id = |number: u8| [number; 32].to_vec();
    assert!(table.put(id(1), b"one".to_vec()));
    assert_eq!(table.get(&id(1)), Some(b"one".to_vec()));
    assert_eq!(table.take(&id(1)), Some(b"one".to_vec()));
    assert_eq!((table.take(&id(1)), table.get(&id(1))), (None, None));
    assert!(!table.put(b"short".to_vec(), Vec::new()));
    assert_eq!(table.take(b"short"), None);
    // Numbers in one part of the table, where there is room for one.
    for number in [1, 65, 129, 193] {
        table.put(id(number), vec![number]);
    }
    assert_eq!(table.len(), 1);
    assert_eq!(
        (table.take(&id(129)), table.take(&id(193))),
        (None, Some(vec![193]))
    );
    for _ in 0..1000 {
        table.put(id(1), vec![1]);
        assert_eq!(table.take(&id(1)), Some(vec![1]));
    }
    assert!(table.is_empty() && table.bytes() == 0);
    // One that would take more than all may is not kept.
    assert!(!table.put(id(1), vec![0; 1 << 14]));
    assert!(table.put(id(1), vec![0; 1 << 13]));
    assert!(table.bytes() > 1 << 13);
}

/// Tickets that stand for themselves cannot be good once.
#[test]
fn a_configuration_takes_early_data_by_kept_tickets_alone() {
    let (server, _) = takers();
    let mut config = ServerConfig::clone(&server);
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    let refused = Session::server(Arc::new(config)).unwrap_err();
    assert_eq!(refused.reason(), "configuration");
}
