//! Clients: whom they trust, and when they resume sessions.

use std::path::PathBuf;
use std::sync::Arc;

use exos_tls::client::{Client, Offer, Trust, Way, reason, told};
use exos_tls::policy::{group, provider, suite};
use exos_tls::{Session, TlsError, self_signed};
use rustls::ServerConfig;
use rustls::version::{TLS12, TLS13};

use crate::peers::Pair;

/// A server of `localhost` with a certificate of its own, and a file with that, which goes with its folder.
fn server(
    version: &'static rustls::SupportedProtocolVersion,
) -> (Arc<ServerConfig>, PathBuf, tempfile::TempDir) {
    let (certificate, key) = self_signed::certificate(&["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("certificate.pem");
    let text = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        base64(&certificate)
    );
    std::fs::write(&file, text).unwrap();
    let config = ServerConfig::builder_with_provider(provider(&[]));
    let config = config.with_protocol_versions(&[version]).unwrap();
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.enable_secret_extraction = true;
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    (Arc::new(config), file, folder)
}

/// RFC 4648 §4.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let all = three
            .iter()
            .fold(0usize, |all, byte| all << 8 | usize::from(*byte));
        let all = all << (8 * (3 - three.len()));
        let letter = |n: usize| match n <= three.len() {
            true => char::from(LETTERS[all >> (18 - 6 * n) & 63]),
            false => '=',
        };
        (0..4).map(letter).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// A client offers all, or what it is told alone: what both agree upon then is told.
#[test]
fn what_is_offered_alone_is_agreed_upon() {
    let (server, _, _folder) = server(&TLS13);
    let alone = Offer {
        suite: suite("TLS_AES_256_GCM_SHA384").ok(),
        group: group("secp384r1").ok(),
    };
    for (offer, agreed) in [
        (Offer::default(), "TLS_AES_128_GCM_SHA256 X25519"),
        (alone, "TLS_AES_256_GCM_SHA384 secp384r1"),
    ] {
        let client = Client::offering(offer, &Trust::Anybody, "localhost", &[]).unwrap();
        let known = client.offered_alone();
        assert_eq!(known, offer.suite.map(|_| agreed.to_owned()));
        let mut pair = Pair {
            client: client.begin(Way::Full).unwrap(),
            server: Session::server(server.clone()).unwrap(),
            cut: 5000,
        };
        pair.shake_hands();
        for side in [&pair.client, &pair.server] {
            assert_eq!(side.about().agreed(), format!("TLSv1.3 {agreed}"));
        }
    }
}

/// What becomes of a client's handshake with a server: whether a session was resumed.
pub(crate) fn meet(
    client: &Client,
    server: &Arc<ServerConfig>,
    resumes: bool,
) -> Result<bool, TlsError> {
    let mut pair = Pair {
        client: client.begin(if resumes { Way::Resumed } else { Way::Full })?,
        server: Session::server(server.clone())?,
        cut: 1000,
    };
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    pair.client.receive(&[], &mut to_server)?;
    for _ in 0..4 {
        let taken = pair.server.receive(&to_server, &mut to_client)?;
        to_server.drain(..taken);
        let taken = pair.client.receive(&to_client, &mut to_server)?;
        to_client.drain(..taken);
    }
    assert!(pair.client.is_established() && pair.server.is_established());
    let is_resumed = pair.client.about().is_resumed;
    assert_eq!(is_resumed, pair.server.about().is_resumed);
    Ok(is_resumed)
}

#[test]
fn a_certificate_is_good_that_the_file_has() {
    let (server, file, _folder) = server(&TLS13);
    let client = |trust: &Trust, name| Client::new(trust, name, &["http/1.1"]).unwrap();
    let own = Trust::File(file);
    assert_eq!(meet(&client(&own, "localhost"), &server, false), Ok(false));
    let other = meet(&client(&own, "a.test"), &server, false).unwrap_err();
    assert_eq!(reason(&other), "certificate_of_another_name");
    let said = told(&other, "10.0.0.1:443").to_string();
    assert!(
        said.contains("10.0.0.1:443") && said.contains("--tls-name"),
        "{said}"
    );
    let (_, another, _folder) = self::server(&TLS13);
    let stranger = meet(&client(&Trust::File(another), "localhost"), &server, false);
    assert_eq!(reason(&stranger.unwrap_err()), "certificate_not_trusted");
    let anybody = client(&Trust::Anybody, "10.1.2.3");
    assert_eq!(meet(&anybody, &server, false), Ok(false));
}

#[test]
fn what_cannot_be_read_or_named_is_said() {
    let nowhere = Trust::File("/nowhere/ca.pem".into());
    let error = Client::new(&nowhere, "localhost", &[]).unwrap_err();
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    let error = Client::new(&Trust::Anybody, "a b", &[]).unwrap_err();
    assert!(error.to_string().contains("a b"), "{error}");
    assert!(Client::new(&Trust::Anybody, "[fd00::1]", &[]).is_ok());
}

/// A full handshake leaves tickets; a session is resumed only where that is wanted, and with a ticket of one's own.
#[test]
fn sessions_are_resumed_where_that_is_wanted() {
    for version in [&TLS13, &TLS12] {
        let (server, file, _folder) = server(version);
        let client = Client::new(&Trust::File(file), "localhost", &[]).unwrap();
        assert_eq!(
            meet(&client, &server, true),
            Ok(false),
            "there is no ticket yet"
        );
        assert_eq!(meet(&client, &server, false), Ok(false));
        for _ in 0..20 {
            assert_eq!(meet(&client, &server, true), Ok(true));
        }
        assert_eq!(meet(&client, &server, false), Ok(false));
        assert_eq!(meet(&client.with_own_tickets(), &server, true), Ok(false));
    }
}

/// What answers in plain text is no TLS.
#[test]
fn what_answers_in_plain_text_is_no_tls() {
    let client = Client::new(&Trust::Anybody, "localhost", &[]).unwrap();
    let mut session = client.begin(Way::Full).unwrap();
    let mut out = Vec::new();
    session.receive(&[], &mut out).unwrap();
    let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    let error = session.receive(answer, &mut out).unwrap_err();
    assert_eq!(reason(&error), "not_tls");
}
