//! TLS from outside: what comes to a server in place of a hello, and certificates.

use std::sync::{Arc, OnceLock};

use exos_tls::{Session, certificate, policy, self_signed};
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;

/// One server for all inputs: it remembers nothing of them.
fn config() -> Arc<ServerConfig> {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    let make = || {
        let (certificate, key) =
            self_signed::certificate(&["localhost".to_owned()]).expect("a name");
        let builder = ServerConfig::builder_with_provider(policy::provider(&[]));
        let builder = builder.with_safe_default_protocol_versions().expect("both");
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("its own key");
        config.enable_secret_extraction = true;
        Arc::new(config)
    };
    CONFIG.get_or_init(make).clone()
}

/// What a client sends first, cut into pieces of a length that the first byte says: nobody comes to stand by bytes that were
/// made before our hello, nothing is read, and what is taken is no more than was given.
pub fn hello(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let mut session = Session::server(config()).expect("a configuration that works");
    let (mut waiting, mut out) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(usize::from(cut) + 1) {
        waiting.extend_from_slice(piece);
        match session.receive(&waiting, &mut out) {
            Ok(taken) => drop(waiting.drain(..taken)),
            Err(_) => {
                assert!(session.is_over());
                break;
            }
        }
    }
    assert!(!session.is_established() && session.readable().is_empty());
}

/// A certificate, or what is none: only one with both moments has a validity.
pub fn validity(data: &[u8]) {
    if let Some(validity) = certificate::validity(&CertificateDer::from(data)) {
        // Years have four digits.
        let years = -80_000_000_000..300_000_000_000;
        assert!(years.contains(&validity.from) && years.contains(&validity.until));
    }
}
