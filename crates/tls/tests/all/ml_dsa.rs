//! Certificates with keys of ML-DSA (FIPS 204): whole handshakes, and clients that do not know such signatures.

use std::sync::Arc;

use exos_tls::client::{Client, Trust, Way, reason, told};
use exos_tls::files::{Files, load};
use exos_tls::policy::provider;
use exos_tls::{Session, TlsError};
use rcgen::{
    CertificateParams, KeyPair, PKCS_ML_DSA_44, PKCS_ML_DSA_65, PKCS_ML_DSA_87, SignatureAlgorithm,
};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::ResolvesServerCert;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS12;
use rustls::{AlertDescription, ClientConfig, PeerIncompatible, ServerConfig, SignatureScheme};

use crate::client::meet;
use crate::files::pem;
use crate::handshakes::fail;
use crate::peers::{Pair, carry};
use crate::sessions::{configs_by, name};

const KINDS: [&SignatureAlgorithm; 3] = [&PKCS_ML_DSA_44, &PKCS_ML_DSA_65, &PKCS_ML_DSA_87];

/// A server of `localhost` by a certificate and a key in files, and what clients trust it by.
fn server(kind: &'static SignatureAlgorithm) -> (Arc<ServerConfig>, Trust, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let files = Files {
        certificate: folder.path().join("certificate"),
        key: folder.path().join("key"),
        ocsp: None,
    };
    let key = KeyPair::generate_for(kind).unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(&files.certificate, pem("CERTIFICATE", certificate.der())).unwrap();
    std::fs::write(&files.key, pem("PRIVATE KEY", &key.serialize_der())).unwrap();
    let loaded = load(&files, 1_800_000_000).unwrap();
    let resolver: Arc<dyn ResolvesServerCert> = Arc::new(SingleCertAndKey::from(loaded.key));
    let config = ServerConfig::builder_with_provider(provider(&[]));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
    config.enable_secret_extraction = true;
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    (Arc::new(config), Trust::File(files.certificate), folder)
}

/// Our client verifies the certificate and the signature; sessions are resumed as any others; and bytes arrive, whatever is cut where.
#[test]
fn sessions_stand_by_each_kind_of_key() {
    for kind in KINDS {
        let (server, trust, _folder) = server(kind);
        let client = Client::new(&trust, "localhost", &[]).unwrap();
        assert_eq!(meet(&client, &server, false), Ok(false), "{kind:?}");
        assert_eq!(meet(&client, &server, true), Ok(true), "{kind:?}");
        let (other, _, _folder) = self::server(kind);
        let client = Client::new(&trust, "localhost", &[]).unwrap();
        let stranger = meet(&client, &other, false).unwrap_err();
        assert_eq!(reason(&stranger), "certificate_not_trusted", "{kind:?}");
        for cut in [1, 700, 20_000] {
            let client = Client::new(&trust, "localhost", &[]).unwrap();
            let mut pair = Pair {
                client: client.begin(Way::Full).unwrap(),
                server: Session::server(server.clone()).unwrap(),
                cut,
            };
            pair.shake_hands();
            let bytes = vec![7; 20_000];
            let Pair { client, server, .. } = &mut pair;
            assert_eq!(carry(client, server, &bytes, cut), bytes);
            assert_eq!(carry(server, client, &bytes, cut), bytes);
        }
    }
}

/// A client that has everything but ML-DSA, or speaks TLS 1.2, for which there is none: both ends are told what is wrong.
#[test]
fn clients_that_do_not_know_it_are_refused() {
    let (_, of_12) = configs_by(&[&TLS12], provider(&[]), provider(&[]));
    let mut classical = (*provider(&[])).clone();
    let known = classical.signature_verification_algorithms;
    let is_classical = |scheme: SignatureScheme| !format!("{scheme:?}").starts_with("ML_DSA");
    let mapping = known.mapping.iter().copied();
    let mapping: Vec<_> = mapping.filter(|(it, _)| is_classical(*it)).collect();
    assert_eq!(mapping.len() + KINDS.len(), known.mapping.len());
    classical.signature_verification_algorithms = WebPkiSupportedAlgorithms {
        mapping: mapping.leak(),
        ..known
    };
    let client = ClientConfig::builder_with_provider(classical.into());
    let client = client.with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(rustls::RootCertStore::empty());
    let mut client = client.with_no_client_auth();
    client.enable_secret_extraction = true;
    for (client, why) in [
        (of_12, PeerIncompatible::NoCipherSuitesInCommon),
        (client.into(), PeerIncompatible::NoSignatureSchemesInCommon),
    ] {
        let (server, _, _folder) = server(&PKCS_ML_DSA_65);
        let mut server = Session::server(server).unwrap();
        let mut client = Session::client(client, name()).unwrap();
        let (error, sent) = fail(&mut server, &mut client);
        assert_eq!(error.reason(), "incompatible");
        assert_eq!(error, TlsError::Handshake(why.into()));
        let heard = client.receive(&sent, &mut Vec::new()).unwrap_err();
        assert_eq!(heard, TlsError::Alert(AlertDescription::HandshakeFailure));
        assert_eq!(reason(&heard), "alert_handshake_failure");
        let said = told(&heard, "a.test:443").to_string();
        assert!(said.contains("kind of certificate"), "{said}");
    }
}
