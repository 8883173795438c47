//! Handshakes that fail, by peers that are honest and others: a session ends with an error and an alert, and never otherwise.

use std::sync::Arc;

use exos_tls::{Session, TlsError, self_signed};
use proptest::prelude::*;
use rustls::crypto::aws_lc_rs::kx_group::{SECP384R1, X25519};
use rustls::server::WebPkiClientVerifier;
use rustls::{AlertDescription, ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::peers::Pair;
use crate::sessions::{configs, configs_by, name};
use exos_tls::policy::{MinimumVersion, provider};

/// A fragment of a message, and then a record of a kind that there is not.
const FRAGMENT_AND_NONSENSE: &[u8] = &[22, 3, 1, 0, 1, 1, 0xff, 3, 1, 0, 1, 0];

/// A fragment of a message, and then data, which has no place within a message.
const FRAGMENT_AND_DATA: &[u8] = &[22, 3, 1, 0, 1, 1, 23, 3, 1, 0, 1, 0];

/// A hello that is none, and another message in its record.
const BAD_HELLO_AND_MORE: &[u8] = &[22, 3, 1, 0, 8, 1, 0, 0, 0, 1, 0, 0, 0];

/// A hello that is none, and a byte of another message.
const BAD_HELLO_AND_A_BYTE: &[u8] = &[22, 3, 1, 0, 5, 1, 0, 0, 0, 1];

/// What a session sends when it fails in clear text: an alert of this kind.
fn fatal(alert: AlertDescription) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, u8::from(alert)]
}

/// A record of nothing.
const NOTHING: &[u8] = &[22, 3, 1, 0, 0, 22, 3, 1, 0, 0];

#[test]
fn a_bad_hello_with_more_behind_it_is_answered_by_an_alert() {
    let (server, _) = configs(MinimumVersion::V12, &[]);
    let malformed = AlertDescription::DecodeError;
    for (bytes, alert) in [
        (FRAGMENT_AND_NONSENSE, malformed),
        (FRAGMENT_AND_DATA, AlertDescription::UnexpectedMessage),
        (BAD_HELLO_AND_MORE, malformed),
        (BAD_HELLO_AND_A_BYTE, malformed),
        (NOTHING, malformed),
    ] {
        for cut in 1..=bytes.len() {
            let mut session = Session::server(server.clone()).unwrap();
            let mut out = Vec::new();
            let mut waiting = Vec::new();
            let failed = bytes.chunks(cut).find_map(|piece| {
                waiting.extend_from_slice(piece);
                let received = session.receive(&waiting, &mut out);
                received.map(|taken| waiting.drain(..taken)).err()
            });
            assert!(
                matches!(failed, Some(TlsError::Handshake(_))),
                "{bytes:?}: {failed:?}"
            );
            assert_eq!(out[2..], fatal(alert)[2..], "{bytes:?}");
            assert!(session.is_over() && !session.is_peer_closed());
        }
    }
}

/// Handshake messages are not interleaved with other records (RFC 8446 §5.1). Behind a server's hello of TLS 1.2, and behind its wish for
/// another hello in TLS 1.3, what it says is in plain text yet.
#[test]
fn what_stands_within_a_message_is_unexpected() {
    let suites = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
    let of_12 = configs(MinimumVersion::V12, &suites);
    let change_within_key = [22, 3, 3, 0, 1, 16, 20, 3, 3, 0, 1, 1];
    let of_13 = || {
        let [mut for_server, mut for_client] = [(); 2].map(|()| (*provider(&[])).clone());
        for_client.kx_groups = vec![X25519, SECP384R1];
        for_server.kx_groups = vec![SECP384R1];
        configs_by(
            &[&rustls::version::TLS13],
            for_server.into(),
            for_client.into(),
        )
    };
    let data_within_hello = [22, 3, 3, 0, 1, 1, 23, 3, 3, 0, 1, 0];
    for ((server, client), bytes) in [(of_12, change_within_key), (of_13(), data_within_hello)] {
        let mut pair = Pair::new(server, client, 5000);
        let (mut hello, mut flight, mut out) = (Vec::new(), Vec::new(), Vec::new());
        pair.client.receive(&[], &mut hello).unwrap();
        pair.server.receive(&hello, &mut flight).unwrap();
        let received = pair.server.receive(&bytes, &mut out);
        assert!(
            matches!(received, Err(TlsError::Handshake(_))),
            "{received:?}"
        );
        assert_eq!(out, fatal(AlertDescription::UnexpectedMessage));
        // The client reads it as what it is.
        let told = pair
            .client
            .receive(&[flight, out].concat(), &mut Vec::new());
        let alert = TlsError::Alert(AlertDescription::UnexpectedMessage);
        assert_eq!(told, Err(alert));
    }
}

/// Plaintext has 16 KiB at most, and what encryption adds to it is not there yet. What is too long is not waited for.
#[test]
fn a_record_in_plain_text_that_is_too_long_is_told_to_be() {
    let (server, client) = configs(MinimumVersion::V12, &[]);
    for len in [(1 << 14) + 1, (1 << 14) + 2048, u16::MAX] {
        let [high, low] = len.to_be_bytes();
        let header = [22, 3, 1, high, low];
        let mut out = Vec::new();
        let mut session = Session::server(server.clone()).unwrap();
        let received = session.receive(&header, &mut out);
        assert_eq!(received, Err(TlsError::TooLong), "{len}");
        assert_eq!(out, fatal(AlertDescription::RecordOverflow), "{len}");
        assert!(session.is_over());
        let mut session = Session::client(client.clone(), name()).unwrap();
        session.receive(&[], &mut out).unwrap();
        out.clear();
        let received = session.receive(&header, &mut out);
        assert_eq!(received, Err(TlsError::TooLong), "{len}");
        assert_eq!(out, fatal(AlertDescription::RecordOverflow), "{len}");
    }
}

/// One end's certificate, that nobody has signed whom the other trusts.
fn stranger() -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let (certificate, key) = self_signed::certificate(&["localhost".to_owned()]).unwrap();
    (vec![certificate], key)
}

/// Shakes hands until one of them fails; gives that error, and what told the peer.
pub(crate) fn fail(server: &mut Session, client: &mut Session) -> (TlsError, Vec<u8>) {
    let mut to_server = Vec::new();
    client.receive(&[], &mut to_server).unwrap();
    for _ in 0..4 {
        let mut to_client = Vec::new();
        if let Err(error) = server.receive(&to_server, &mut to_client) {
            return (error, to_client);
        }
        to_server.clear();
        if let Err(error) = client.receive(&to_client, &mut to_server) {
            return (error, to_server);
        }
    }
    panic!("nothing has failed");
}

/// A client packs its certificate, its signature and its end into one record, of which the first is refused.
#[test]
fn a_clients_certificate_that_is_not_trusted_is_refused() {
    for versions in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (_, trusting) = configs(MinimumVersion::V12, &[]);
        let mut roots = RootCertStore::empty();
        roots.add(stranger().0[0].clone()).unwrap();
        let provider = provider(&[]);
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let (chain, key) = stranger();
        let mut mine = RootCertStore::empty();
        mine.add(chain[0].clone()).unwrap();
        let server = ServerConfig::builder_with_provider(provider.clone());
        let mut server = server
            .with_protocol_versions(&[versions])
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        server.enable_secret_extraction = true;
        let (chain, key) = stranger();
        let client = ClientConfig::builder_with_provider(provider);
        let mut client = client
            .with_protocol_versions(&[versions])
            .unwrap()
            .with_root_certificates(mine)
            .with_client_auth_cert(chain, key)
            .unwrap();
        client.enable_secret_extraction = trusting.enable_secret_extraction;
        let mut pair = Pair::new(Arc::new(server), Arc::new(client), 5000);
        let (error, out) = fail(&mut pair.server, &mut pair.client);
        assert_eq!(error.reason(), "client_certificate");
        assert!(!out.is_empty() && pair.server.is_over());
    }
}

/// A server packs its whole flight into one record, and the client refuses a part of it.
#[test]
fn a_servers_certificate_that_is_not_trusted_is_refused() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (server, _) = configs(MinimumVersion::V12, &[]);
        let (_, client) = configs(MinimumVersion::V12, &[]); // It trusts another.
        let mut client = ClientConfig::clone(&client);
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let only = ClientConfig::builder_with_provider(provider(&[]));
        let mut roots = RootCertStore::empty();
        roots.add(stranger().0[0].clone()).unwrap();
        let only = only.with_protocol_versions(&[version]).unwrap();
        let mut only = only.with_root_certificates(roots).with_no_client_auth();
        only.enable_secret_extraction = true;
        for client in [client, only] {
            let mut pair = Pair::new(server.clone(), Arc::new(client), 5000);
            let (error, out) = fail(&mut pair.server, &mut pair.client);
            assert!(
                matches!(
                    error,
                    TlsError::Handshake(rustls::Error::InvalidCertificate(_))
                ),
                "{error:?}"
            );
            assert!(!out.is_empty() && pair.client.is_over());
            // The server hears why.
            let mut answer = Vec::new();
            let told = pair.server.receive(&out, &mut answer);
            assert!(matches!(told, Err(TlsError::Alert(_))), "{told:?}");
        }
    }
}

/// A server that has nothing in common with the client sends an alert first.
#[test]
fn a_client_hears_an_alert_in_place_of_a_hello() {
    let (_, client) = configs(MinimumVersion::V12, &[]);
    let mut session = Session::client(client.clone(), name()).unwrap();
    let mut out = Vec::new();
    session.receive(&[], &mut out).unwrap();
    let alert = fatal(AlertDescription::HandshakeFailure);
    let heard = session.receive(&alert, &mut out);
    let alert = TlsError::Alert(AlertDescription::HandshakeFailure);
    assert_eq!(heard, Err(alert));
    assert!(!session.is_peer_closed());
    let mut session = Session::client(client, name()).unwrap();
    let heard = session.receive(b"HTTP/1.1 400 Bad Request", &mut out);
    assert_eq!(heard, Err(TlsError::NotTls { is_http: false }));
}

/// In TLS 1.3 nothing of a handshake goes in plain text behind the hellos: the peer hears that this has no place there, and not that it
/// was changed on its way.
#[test]
fn a_message_in_plain_text_behind_the_hellos_is_unexpected() {
    let finished = [&[22, 3, 3, 0, 36, 20, 0, 0, 32][..], &[7; 32]].concat();
    let (server, client) = configs(MinimumVersion::V13, &[]);
    for to_server in [true, false] {
        let mut pair = Pair::new(server.clone(), client.clone(), 5000);
        let (mut hello, mut flight, mut out) = (Vec::new(), Vec::new(), Vec::new());
        pair.client.receive(&[], &mut hello).unwrap();
        pair.server.receive(&hello, &mut flight).unwrap();
        let received = if to_server {
            pair.server.receive(&finished, &mut out)
        } else {
            let server_hello_len = 5 + usize::from(u16::from_be_bytes([flight[3], flight[4]]));
            let (server_hello, rest) = flight.split_at(server_hello_len);
            let bytes = [server_hello, &finished, rest].concat();
            pair.client.receive(&bytes, &mut out)
        };
        assert_eq!(received, Err(TlsError::Unexpected));
        if to_server {
            // The server's alert is encrypted, with what its client has agreed to.
            let told = pair
                .client
                .receive(&[flight, out].concat(), &mut Vec::new());
            let alert = TlsError::Alert(AlertDescription::UnexpectedMessage);
            assert_eq!(told, Err(alert));
        } else {
            assert!(!out.is_empty() && pair.client.is_over());
        }
    }
}

#[test]
fn a_configuration_that_would_not_work_is_refused_at_once() {
    let (server, client) = configs(MinimumVersion::V12, &[]);
    let mut no_secrets = ServerConfig::clone(&server);
    no_secrets.enable_secret_extraction = false;
    let mut early = ServerConfig::clone(&server);
    early.max_early_data_size = 1000;
    for config in [no_secrets, early] {
        let error = Session::server(Arc::new(config)).unwrap_err();
        assert_eq!(error.reason(), "configuration");
    }
    let mut no_secrets = ClientConfig::clone(&client);
    no_secrets.enable_secret_extraction = false;
    let error = Session::client(Arc::new(no_secrets), name()).unwrap_err();
    assert!(error.to_string().contains("enable_secret_extraction"));
}

/// A message in pieces of a byte takes more than a message may: it is refused, and the peer is told.
#[test]
fn a_message_in_too_many_fragments_is_refused() {
    let (server, _) = configs(MinimumVersion::V12, &[]);
    let mut session = Session::server(server).unwrap();
    let mut records = vec![22, 3, 1, 0, 4, 1, 0, 0xff, 0xff];
    for _ in 0..20_000 {
        records.extend_from_slice(&[22, 3, 1, 0, 1, 7]);
    }
    let mut out = Vec::new();
    assert_eq!(session.receive(&records, &mut out), Err(TlsError::TooLong));
    assert_eq!(out, fatal(AlertDescription::DecodeError));
}

/// What is asked for too early or too late changes nothing.
#[test]
fn a_call_out_of_its_time_harms_nothing() {
    let (server, client) = configs(MinimumVersion::V12, &[]);
    let mut pair = Pair::new(server, client, 5000);
    let mut out = Vec::new();
    assert_eq!(pair.server.seal(&[b"early"], &mut out), Err(TlsError::Over));
    assert!(pair.server.is_handshaking());
    pair.shake_hands();
    pair.server.close(&mut out);
    let len = out.len();
    assert_eq!(pair.server.seal(&[b"late"], &mut out), Err(TlsError::Over));
    assert_eq!(out.len(), len);
    // Its other half still goes.
    let mut records = Vec::new();
    pair.client.seal(&[b"more"], &mut records).unwrap();
    pair.server.receive(&records, &mut out).unwrap();
    assert_eq!(pair.server.readable(), b"more");
    assert!(!pair.server.is_over());
}

/// The first record of a client, as rustls writes it.
fn hello() -> Vec<u8> {
    let (_, client) = configs(MinimumVersion::V12, &[]);
    let mut client = ClientConnection::new(client, name()).unwrap();
    let mut out = Vec::new();
    client.write_tls(&mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Records of a handshake with anything in them, and a hello that was changed, cut anywhere: a session waits or ends, and says
    /// nothing but alerts and what rustls answers.
    #[test]
    fn records_of_nonsense_are_refused(
        records in proptest::collection::vec(
            (prop_oneof![Just(22u8), 20..24u8, any::<u8>()], proptest::collection::vec(any::<u8>(), 0..40)),
            1..5,
        ),
        is_behind_hello in any::<bool>(),
        changes in proptest::collection::vec((0..500usize, any::<u8>()), 0..3),
        cut in 1..300usize,
    ) {
        let mut bytes = Vec::new();
        if is_behind_hello {
            bytes = hello();
            let len = bytes.len();
            changes.iter().for_each(|(at, with)| bytes[at % len] = *with);
        }
        for (kind, content) in &records {
            bytes.extend_from_slice(&[*kind, 3, 1, 0, content.len() as u8]);
            bytes.extend_from_slice(content);
        }
        let (server, _) = configs(MinimumVersion::V12, &[]);
        let mut session = Session::server(server).unwrap();
        let mut out = Vec::new();
        let mut waiting = Vec::new();
        for piece in bytes.chunks(cut) {
            waiting.extend_from_slice(piece);
            match session.receive(&waiting, &mut out) {
                Ok(taken) => drop(waiting.drain(..taken)),
                Err(_) => break,
            }
        }
        prop_assert!(!session.is_established());
        prop_assert!(session.readable().is_empty());
    }
}
