//! Sessions with one another and with rustls' own connections, in memory: whatever is cut wherever, the bytes arrive.

use std::sync::Arc;

use exos_tls::policy::{MinimumVersion, provider, suite};
use exos_tls::{Session, TlsError, limits};
use proptest::prelude::*;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::ServerName;

use crate::peers::{Pair, carry};

/// A configuration for each end, with this version at least and these suites.
pub(crate) fn configs(
    minimum: MinimumVersion,
    suites: &[&str],
) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let suites: Vec<_> = suites.iter().map(|name| suite(name).unwrap()).collect();
    let versions = match suites.iter().any(|suite| suite.tls13().is_none()) {
        true => &[&rustls::version::TLS12][..],
        false => minimum.versions(),
    };
    let provider = provider(&suites);
    configs_by(versions, provider.clone(), provider)
}

/// A configuration for each end, of these versions and by these providers.
pub(crate) fn configs_by(
    versions: &[&'static rustls::SupportedProtocolVersion],
    for_server: Arc<CryptoProvider>,
    for_client: Arc<CryptoProvider>,
) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let names = ["localhost".to_owned()];
    let (certificate, key) = exos_tls::self_signed::certificate(&names).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let server = ServerConfig::builder_with_provider(for_server);
    let server = server.with_protocol_versions(versions).unwrap();
    let mut server = server
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    server.enable_secret_extraction = true;
    server.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    let client = ClientConfig::builder_with_provider(for_client);
    let client = client.with_protocol_versions(versions).unwrap();
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    client.enable_secret_extraction = true;
    (Arc::new(server), Arc::new(client))
}

pub(crate) fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

pub(crate) const SUITES: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

#[test]
fn all_suites_have_names() {
    let mut names = exos_tls::policy::suite_names();
    names.sort();
    let mut known = SUITES.to_vec();
    known.sort_unstable();
    assert_eq!(names, known);
    assert!(
        suite("TLS_RSA_WITH_AES_128_CBC_SHA")
            .unwrap_err()
            .contains("TLS_AES_256")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Ours with ours, and each of ours with rustls', in every suite that an ECDSA key can have.
    #[test]
    fn bytes_arrive_whatever_is_cut_where(
        suite in 0..6usize,
        cut in 1..2000usize,
        there in proptest::collection::vec(1..40_000usize, 0..4),
        back in proptest::collection::vec(1..40_000usize, 0..4),
    ) {
        let (server, client) = configs(MinimumVersion::V12, &[SUITES[suite]]);
        let mut pair = Pair {
            client: Session::client(client.clone(), name()).unwrap(),
            server: Session::server(server.clone()).unwrap(),
            cut,
        };
        pair.shake_hands();
        for (len, fill) in there.iter().zip(1..) {
            let bytes = vec![fill; *len];
            prop_assert_eq!(carry(&mut pair.client, &mut pair.server, &bytes, cut), bytes);
        }
        for (len, fill) in back.iter().zip(1..) {
            let bytes = vec![fill; *len];
            prop_assert_eq!(carry(&mut pair.server, &mut pair.client, &bytes, cut), bytes);
        }
        crate::peers::with_rustls(server, client, &there, &back, cut);
    }

    /// Whatever comes in place of a hello, or behind the beginning of one, a session ends or waits, and no more.
    #[test]
    fn garbage_is_refused(
        begins in 0..4usize,
        bytes in proptest::collection::vec(any::<u8>(), 1..600),
    ) {
        let (server, client) = configs(MinimumVersion::V12, &[]);
        let mut hello = Vec::new();
        Session::client(client, name()).unwrap().receive(&[], &mut hello).unwrap();
        let begin = [&[][..], &[22, 3, 1, 0, bytes.len() as u8], &hello[..20], &hello];
        let mut session = Session::server(server).unwrap();
        let mut out = Vec::new();
        let bytes = [begin[begins], &bytes].concat();
        let taken = session.receive(&bytes, &mut out);
        prop_assert_eq!(taken.is_err(), session.is_over());
        prop_assert!(!session.is_established() && !session.is_peer_closed());
        prop_assert!(session.readable().is_empty());
    }

    /// A byte that is changed on its way ends the session, and nothing of its record is read.
    #[test]
    fn a_changed_byte_is_noticed(suite in 0..6usize, len in 1..2000usize, at in 0..2000usize, with in 1..=255u8) {
        let (server, client) = configs(MinimumVersion::V12, &[SUITES[suite]]);
        let mut pair = Pair::new(server, client, 5000);
        pair.shake_hands();
        let mut records = Vec::new();
        pair.client.seal(&[&vec![7; len]], &mut records).unwrap();
        let at = at % records.len();
        records[at] ^= with;
        let mut out = Vec::new();
        let (before, after) = records.split_at(5);
        let says_more = usize::from(u16::from_be_bytes([before[3], before[4]])) > after.len();
        match pair.server.receive(&records, &mut out) {
            Err(error) => {
                prop_assert_ne!(error.reason(), "over");
                prop_assert!(!out.is_empty(), "an alert says why");
                prop_assert!(pair.server.is_over() && !pair.server.is_peer_closed());
            }
            Ok(taken) => prop_assert!(says_more && taken == 0),
        }
        prop_assert!(pair.server.readable().is_empty());
    }
}

#[test]
fn plain_http_is_told_apart() {
    let (server, _) = configs(MinimumVersion::V12, &[]);
    for (bytes, error) in [
        (
            &b"GET / HTTP/1.1\r\n"[..],
            TlsError::NotTls { is_http: true },
        ),
        (b"\x00\x01", TlsError::NotTls { is_http: false }),
    ] {
        let mut session = Session::server(server.clone()).unwrap();
        let mut out = Vec::new();
        assert_eq!(session.receive(bytes, &mut out), Err(error));
        assert!(out.is_empty(), "who speaks no TLS understands no alert");
    }
}

#[test]
fn a_session_takes_no_more_than_it_may_hold() {
    let (server, client) = configs(MinimumVersion::V12, &[]);
    let mut pair = Pair::new(server, client, 5000);
    pair.shake_hands();
    let mut records = Vec::new();
    let bytes = vec![1; 3 * limits::UNREAD_LEN];
    pair.client.seal(&[&bytes], &mut records).unwrap();
    let mut out = Vec::new();
    let mut read = 0;
    let mut rest = &records[..];
    while !rest.is_empty() {
        let taken = pair.server.receive(rest, &mut out).unwrap();
        rest = &rest[taken..];
        let len = pair.server.readable().len();
        assert!(len > 0 && len < limits::UNREAD_LEN + limits::PLAIN_LEN_MAX);
        read += len;
        pair.server.consume(len);
    }
    assert_eq!(read, bytes.len());
}

#[test]
fn an_end_is_told_from_a_cut() {
    for suite in [SUITES[0], SUITES[4]] {
        let (server, client) = configs(MinimumVersion::V12, &[suite]);
        let mut pair = Pair::new(server, client, 5000);
        pair.shake_hands();
        assert!(!pair.server.is_peer_closed());
        let mut out = Vec::new();
        pair.client.close(&mut out);
        pair.client.close(&mut out);
        assert!(pair.client.seal(&[b"more"], &mut out).is_err());
        let mut answer = Vec::new();
        pair.server.receive(&out, &mut answer).unwrap();
        assert!(pair.server.is_peer_closed() && answer.is_empty());
        // Its own side still goes.
        pair.server.seal(&[b"last"], &mut answer).unwrap();
        pair.server.close(&mut answer);
    }
}

/// The last message of a handshake, a request and the end may come in one piece.
#[test]
fn what_comes_with_the_end_of_a_handshake_is_read() {
    for suite in [SUITES[0], SUITES[4]] {
        let (server, client) = configs(MinimumVersion::V12, &[suite]);
        let mut server = Session::server(server).unwrap();
        let mut client = Session::client(client, name()).unwrap();
        let mut to_server = Vec::new();
        client.receive(&[], &mut to_server).unwrap();
        while !client.is_established() {
            let mut to_client = Vec::new();
            server.receive(&to_server, &mut to_client).unwrap();
            to_server.clear();
            client.receive(&to_client, &mut to_server).unwrap();
        }
        client.seal(&[b"request"], &mut to_server).unwrap();
        client.close(&mut to_server);
        let mut out = Vec::new();
        server.receive(&to_server, &mut out).unwrap();
        assert!(
            server.is_established() && server.is_peer_closed(),
            "{suite}"
        );
        assert_eq!(server.readable(), b"request");
        server.seal(&[b"answer"], &mut out).unwrap();
    }
}

#[test]
fn a_session_is_resumed() {
    for suite in [SUITES[0], SUITES[4]] {
        let (server, client) = configs(MinimumVersion::V12, &[suite]);
        for is_resumed in [false, true] {
            let mut pair = Pair::new(server.clone(), client.clone(), 5000);
            pair.shake_hands();
            // Tickets of TLS 1.3 come with what comes first.
            carry(&mut pair.server, &mut pair.client, b"x", 5000);
            assert_eq!(pair.server.about().is_resumed, is_resumed, "{suite}");
            assert_eq!(pair.server.about().suite_name(), suite);
        }
    }
}

/// What has to be seen in one piece may be longer than what a session keeps by default; there is a bound all the same.
#[test]
fn a_session_keeps_as_much_as_was_said() {
    const MOST: usize = 5 * limits::UNREAD_LEN;
    let (server, client) = configs(MinimumVersion::V13, &[]);
    for (most, keeps) in [(None, limits::UNREAD_LEN), (Some(MOST), MOST)] {
        let mut pair = Pair::new(server.clone(), client.clone(), 1000);
        pair.shake_hands();
        if let Some(most) = most {
            pair.client = pair.client.with_unread_max(most);
        }
        let (mut records, mut out) = (Vec::new(), Vec::new());
        let long = vec![7; 2 * MOST];
        pair.server.seal(&[&long], &mut records).unwrap();
        let taken = pair.client.receive(&records, &mut out).unwrap();
        assert_eq!(pair.client.readable().len(), keeps);
        assert_eq!(pair.client.receive(&records[taken..], &mut out), Ok(0));
        pair.client.consume(1);
        assert!(pair.client.receive(&records[taken..], &mut out).unwrap() > 0);
    }
}
