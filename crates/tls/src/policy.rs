//! Versions and suites by name, and the cryptographic provider.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

use crate::hybrid::X25519_MLKEM768;

/// The newest first.
static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// The lowest version that is spoken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MinimumVersion {
    /// TLS 1.2: all suites have forward secrecy and authenticated encryption.
    #[default]
    V12,
    /// TLS 1.3 alone.
    V13,
}

impl MinimumVersion {
    /// As it is written in a configuration: `1.2` or `1.3`.
    ///
    /// # Errors
    ///
    /// It is another.
    pub fn parse(text: &str) -> Result<MinimumVersion, String> {
        match text {
            "1.2" => Ok(MinimumVersion::V12),
            "1.3" => Ok(MinimumVersion::V13),
            "1.0" | "1.1" => Err(format!(
                "TLS {text} is broken and not spoken here (RFC 8996); write \"1.2\" or \"1.3\""
            )),
            _ => Err(format!(
                "{text:?} is no version of TLS; write \"1.2\" or \"1.3\""
            )),
        }
    }

    /// The versions that are spoken then.
    pub fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            MinimumVersion::V12 => BOTH,
            MinimumVersion::V13 => &BOTH[..1],
        }
    }
}

/// The names of all suites that are known, those that are preferred first.
pub fn suite_names() -> Vec<String> {
    let all = ring::ALL_CIPHER_SUITES.iter();
    all.map(|suite| suite_name(suite.suite())).collect()
}

/// A suite's name at IANA.
pub fn suite_name(suite: CipherSuite) -> String {
    // rustls writes `TLS13_` where IANA writes `TLS_`, to tell apart whose they are.
    let name = format!("{suite:?}");
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name,
    }
}

/// A suite by that name.
///
/// # Errors
///
/// It is none, or none that is sound.
pub fn suite(name: &str) -> Result<SupportedCipherSuite, String> {
    let all = ring::ALL_CIPHER_SUITES.iter();
    let found = all.copied().find(|it| suite_name(it.suite()) == name);
    found.ok_or_else(|| {
        format!(
            "{name:?} is no suite that is known here; write some of {}",
            suite_names().join(", ")
        )
    })
}

/// What does the cryptography, with these suites in this order; with all of them where none are named.
pub fn provider(suites: &[SupportedCipherSuite]) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites = suites.to_vec();
    }
    Arc::new(provider)
}

/// [`provider`] of a client: it offers suites in the order of browsers, AES-128-GCM before AES-256-GCM before ChaCha20, for servers that take the
/// first.
pub fn client_provider() -> Arc<CryptoProvider> {
    use CipherSuite as C;
    let mut suites = ring::ALL_CIPHER_SUITES.to_vec();
    suites.sort_by_key(|suite| match suite.suite() {
        C::TLS13_AES_128_GCM_SHA256 => (0, 0),
        C::TLS13_AES_256_GCM_SHA384 => (0, 1),
        C::TLS13_CHACHA20_POLY1305_SHA256 => (0, 2),
        C::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 | C::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => {
            (1, 0)
        }
        C::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 | C::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => {
            (1, 1)
        }
        _ => (1, 2),
    });
    provider(&suites)
}

/// [`provider`] of a server: clients that want to, as browsers do, exchange keys in a way that withstands quantum computers as well.
pub fn server_provider(suites: &[SupportedCipherSuite]) -> Arc<CryptoProvider> {
    let mut provider = CryptoProvider::clone(&provider(suites));
    provider.kx_groups.insert(0, X25519_MLKEM768);
    Arc::new(provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_offers_suites_as_browsers_do() {
        let provider = client_provider();
        let names = provider.cipher_suites.iter();
        let names: Vec<String> = names.map(|suite| suite_name(suite.suite())).collect();
        assert_eq!(names.len(), suite_names().len());
        assert_eq!(
            names[..5],
            [
                "TLS_AES_128_GCM_SHA256",
                "TLS_AES_256_GCM_SHA384",
                "TLS_CHACHA20_POLY1305_SHA256",
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            ]
        );
    }
}
