//! Data that a client sends before it hears that it is not taken: it is skipped, and the handshake goes on behind it (RFC 8446 §4.2.10).

use std::io::Write as _;
use std::sync::Arc;

use exos_tls::policy::provider;
use exos_tls::{Session, TlsError};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::kx_group::{SECP384R1, X25519};
use rustls::server::ProducesTickets;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection};

use crate::peers::{give, take};
use crate::sessions::{configs_by, name};

/// rustls takes early data in sessions that it keeps itself, and in none by tickets like this server's.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

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
    takes_it.max_early_data_size = 1 << 16;
    takes_it.ticketer = Arc::new(NoTickets);
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
