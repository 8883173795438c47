//! Key exchange by X25519MLKEM768: with a client that wants it, one that does not, and one that sends what is none.

use std::sync::Arc;

use exos_tls::policy::{MinimumVersion, provider, server_provider};
use rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, X25519, X25519MLKEM768};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{ClientConnection, NamedGroup, ServerConnection};

use crate::peers::Pair;
use crate::sessions::{configs_by, name};

/// Ends that may shake hands, where the client has these groups.
fn ends(
    minimum: MinimumVersion,
    groups: &[&'static dyn SupportedKxGroup],
) -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    let mut for_client = CryptoProvider::clone(&provider(&[]));
    for_client.kx_groups = groups.to_vec();
    let versions = minimum.versions();
    configs_by(versions, server_provider(&[]), Arc::new(for_client))
}

/// The group that both agree on.
fn agreed(groups: &[&'static dyn SupportedKxGroup]) -> NamedGroup {
    let (server, client) = ends(MinimumVersion::V13, groups);
    let mut client = ClientConnection::new(client, name()).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    for _ in 0..4 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().unwrap();
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    let of_client = client.negotiated_key_exchange_group().unwrap().name();
    let of_server = server.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(of_client, of_server);
    of_client
}

#[test]
fn a_client_gets_the_group_that_it_prefers() {
    let hybrid = NamedGroup::X25519MLKEM768;
    assert_eq!(agreed(&[X25519MLKEM768, X25519]), hybrid);
    assert_eq!(agreed(&[X25519MLKEM768]), hybrid);
    assert_eq!(agreed(&[X25519, X25519MLKEM768]), NamedGroup::X25519);
    assert_eq!(agreed(&[SECP256R1, X25519]), NamedGroup::secp256r1);
}

/// With sessions of ours on both sides, and where TLS 1.2 cannot have it.
#[test]
fn sessions_come_to_stand() {
    for (minimum, groups) in [
        (MinimumVersion::V13, &[X25519MLKEM768, X25519][..]),
        (MinimumVersion::V12, &[X25519MLKEM768, X25519][..]),
    ] {
        let (server, client) = ends(minimum, groups);
        Pair::new(server, client, 700).shake_hands();
    }
}

/// What is sent instead of a key is refused: of a wrong length, with coefficients beyond the modulus (FIPS 203 §7.2), and a point of
/// X25519 that gives nothing.
#[test]
fn bad_shares_are_refused() {
    let client = X25519MLKEM768.start().unwrap();
    let good = client.pub_key();
    assert_eq!(good.len(), 1184 + 32);
    let done = X25519MLKEM768.start_and_complete(good).unwrap();
    assert_eq!(done.pub_key.len(), 1088 + 32);
    let beyond = [&[0xff; 1184][..], &good[1184..]].concat();
    let nothing = [&good[..1184], &[0; 32]].concat();
    for bad in [
        &good[..1215],
        &[good, &[0]].concat(),
        &good[..100],
        &[],
        &beyond,
        &nothing,
    ] {
        assert!(X25519MLKEM768.start_and_complete(bad).is_err());
    }
    for bad in [
        &done.pub_key[..1119],
        &[&done.pub_key[..], &[0]].concat(),
        &[],
    ] {
        assert!(X25519MLKEM768.start().unwrap().complete(bad).is_err());
    }
    // Both come to the same, and another client does not.
    let same = client.complete(&done.pub_key).unwrap();
    assert_eq!(same.secret_bytes(), done.secret.secret_bytes());
    assert_eq!(same.secret_bytes().len(), 64);
    let other = X25519MLKEM768
        .start()
        .unwrap()
        .complete(&done.pub_key)
        .unwrap();
    assert_ne!(other.secret_bytes(), done.secret.secret_bytes());
}
