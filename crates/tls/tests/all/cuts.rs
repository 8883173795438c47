//! The end of a handshake, data, a change of keys and the end of a session, in one piece and cut in two at each byte.

use std::io::Write as _;
use std::sync::Arc;

use exos_tls::policy::MinimumVersion;
use exos_tls::{Session, limits};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use crate::peers::take;
use crate::sessions::{SUITES, configs, name};

/// A server, and all that a client of rustls sends it behind its first flight.
fn server_and_what_comes(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
    data: &[u8],
) -> (Session, Vec<u8>) {
    let mut client: rustls::Connection = ClientConnection::new(client.clone(), name())
        .unwrap()
        .into();
    let mut server = Session::server(server.clone()).unwrap();
    client.set_buffer_limit(None);
    let mut to_server = take(&mut client);
    while client.is_handshaking() {
        let mut out = Vec::new();
        server.receive(&to_server, &mut out).unwrap();
        to_server.clear();
        client.read_tls(&mut &out[..]).unwrap();
        client.process_new_packets().unwrap();
        if client.is_handshaking() {
            to_server = take(&mut client);
        }
    }
    client.writer().write_all(data).unwrap();
    let _ = client.refresh_traffic_keys(); // TLS 1.2 cannot.
    client.writer().write_all(b"last").unwrap();
    client.send_close_notify();
    to_server.extend(take(&mut client));
    (server, to_server)
}

/// Gives a session two pieces, as its caller would, and reads all that comes.
fn receive(session: &mut Session, pieces: [&[u8]; 2]) -> Vec<u8> {
    let mut waiting = Vec::new();
    let mut plain = Vec::new();
    for piece in pieces {
        waiting.extend_from_slice(piece);
        loop {
            let mut out = Vec::new();
            let taken = session.receive(&waiting, &mut out).unwrap();
            waiting.drain(..taken);
            let count = session.readable().len();
            assert!(count < limits::UNREAD_LEN + limits::PLAIN_LEN_MAX);
            plain.extend_from_slice(session.readable());
            session.consume(count);
            if taken == 0 || waiting.is_empty() {
                break;
            }
        }
    }
    assert!(waiting.is_empty());
    plain
}

#[test]
fn a_servers_session_takes_it_whatever_is_cut_where() {
    for suite in [SUITES[1], SUITES[4]] {
        let (server, client) = configs(MinimumVersion::V12, &[suite]);
        // Full handshakes, and resumed ones, by which in TLS 1.2 the client ends.
        let mut len = 1;
        let mut at = 0;
        while at <= len {
            let (mut session, bytes) = server_and_what_comes(&server, &client, b"first");
            len = bytes.len();
            let (one, two) = bytes.split_at(at.min(len));
            assert_eq!(
                receive(&mut session, [one, two]),
                b"firstlast",
                "cut at {at}"
            );
            assert!(session.is_peer_closed() && session.is_established());
            let mut out = Vec::new();
            session.seal(&[b"answer"], &mut out).unwrap();
            session.close(&mut out);
            at += 1;
        }
    }
}

#[test]
fn a_clients_session_takes_it_whatever_is_cut_where() {
    for suite in [SUITES[1], SUITES[4]] {
        let (server, client) = configs(MinimumVersion::V12, &[suite]);
        let mut len = 1;
        let mut at = 0;
        while at <= len {
            let mut theirs: rustls::Connection =
                ServerConnection::new(server.clone()).unwrap().into();
            let mut session = Session::client(client.clone(), name()).unwrap();
            let mut to_server = Vec::new();
            session.receive(&[], &mut to_server).unwrap();
            let mut bytes = Vec::new();
            while theirs.is_handshaking() {
                session.receive(&bytes, &mut to_server).unwrap();
                theirs.read_tls(&mut &to_server[..]).unwrap();
                theirs.process_new_packets().unwrap();
                to_server.clear();
                bytes = take(&mut theirs);
            }
            theirs.writer().write_all(b"first").unwrap();
            let _ = theirs.refresh_traffic_keys();
            theirs.writer().write_all(b"last").unwrap();
            theirs.send_close_notify();
            bytes.extend(take(&mut theirs));
            len = bytes.len();
            let (one, two) = bytes.split_at(at.min(len));
            assert_eq!(
                receive(&mut session, [one, two]),
                b"firstlast",
                "cut at {at}"
            );
            assert!(session.is_peer_closed() && session.is_established());
            at += 1;
        }
    }
}

/// The end of a handshake and as much data as a socket may give at once: no more is taken than may be held.
#[test]
fn much_data_with_the_end_of_a_handshake_waits() {
    for suite in [SUITES[1], SUITES[4]] {
        let (server, client) = configs(MinimumVersion::V12, &[suite]);
        let data = vec![5; 700_000];
        let (mut session, bytes) = server_and_what_comes(&server, &client, &data);
        let mut out = Vec::new();
        let taken = session.receive(&bytes, &mut out).unwrap();
        assert!(
            taken < limits::UNREAD_LEN + 2 * limits::PLAIN_LEN_MAX,
            "{taken}"
        );
        assert!(!session.is_peer_closed());
        // Nothing more is taken before plaintext is consumed, and then it is.
        assert_eq!(session.receive(&bytes[taken..], &mut out), Ok(0));
        let rest = receive(&mut session, [&bytes[taken..], b""]);
        assert!(session.is_peer_closed());
        assert_eq!(rest, [&data[..], b"last"].concat());
    }
}
