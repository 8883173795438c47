//! Versions and suites by name, and the cryptographic provider.

use std::sync::{Arc, LazyLock};

use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CipherSuite, CipherSuiteCommon, NamedGroup, SupportedCipherSuite, SupportedProtocolVersion,
    Tls13CipherSuite,
};

use crate::hmac;

/// A cipher suite.
pub type Suite = SupportedCipherSuite;
/// A group in which keys are exchanged.
pub type Group = &'static dyn SupportedKxGroup;

/// In which clients and servers exchange keys, those that are preferred first.
const CLASSICAL: [Group; 3] = [kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];

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

/// All suites that are known, those that are preferred first: the provider's, but that keys of TLS 1.3 are derived by ours.
static SUITES: LazyLock<Vec<SupportedCipherSuite>> = LazyLock::new(|| {
    let own = |suite: &SupportedCipherSuite| match suite.tls13() {
        Some(of) => SupportedCipherSuite::Tls13(Box::leak(Box::new(with_own_keys(of)))),
        None => *suite,
    };
    aws_lc_rs::ALL_CIPHER_SUITES.iter().map(own).collect()
});

fn with_own_keys(suite: &Tls13CipherSuite) -> Tls13CipherSuite {
    let CipherSuiteCommon {
        suite: name,
        hash_provider,
        confidentiality_limit,
    } = suite.common;
    Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: name,
            hash_provider,
            confidentiality_limit,
        },
        hkdf_provider: match hash_provider.output_len() {
            48 => hmac::HKDF_SHA384,
            _ => hmac::HKDF_SHA256,
        },
        ..*suite
    }
}

/// The names of all suites that are known, those that are preferred first.
pub fn suite_names() -> Vec<String> {
    let all = SUITES.iter();
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
    let all = SUITES.iter();
    let found = all.copied().find(|it| suite_name(it.suite()) == name);
    found.ok_or_else(|| {
        format!(
            "{name:?} is no suite that is known here; write some of {}",
            suite_names().join(", ")
        )
    })
}

/// The suite of QUIC's first packets, whatever is agreed upon then (RFC 9001 §5.2).
pub fn initial_suite_of_quic() -> rustls::quic::Suite {
    let mut all = SUITES.iter().filter_map(SupportedCipherSuite::tls13);
    let found = all.find(|it| it.common.suite == CipherSuite::TLS13_AES_128_GCM_SHA256);
    let suite = found.and_then(Tls13CipherSuite::quic_suite);
    suite.expect("the provider has it")
}

/// The name of a group in which keys are exchanged, at IANA.
pub fn group_name(group: NamedGroup) -> String {
    format!("{group:?}")
}

/// A group in which clients exchange keys, by that name.
///
/// # Errors
///
/// It is none of them.
pub fn group(name: &str) -> Result<Group, String> {
    let found = CLASSICAL
        .into_iter()
        .find(|it| group_name(it.name()) == name);
    found.ok_or_else(|| {
        format!(
            "{name:?} is no group in which keys are exchanged here; write one of {}",
            CLASSICAL.map(|it| group_name(it.name())).join(", ")
        )
    })
}

/// What does the cryptography, with these suites in this order; with all of them where none are named.
///
/// The first call takes 30 ms: it has random numbers drawn, so that no connection waits until their generator is seeded.
pub fn provider(suites: &[SupportedCipherSuite]) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = CLASSICAL.to_vec();
    provider.cipher_suites = match suites {
        [] => SUITES.clone(),
        some => some.to_vec(),
    };
    // Where that fails, so do handshakes, which say so.
    let _ = provider.secure_random.fill(&mut [0]);
    Arc::new(provider)
}

/// [`provider`] of a client: it offers suites in the order of browsers, AES-128-GCM before AES-256-GCM before ChaCha20, for servers that take the
/// first.
pub fn client_provider() -> Arc<CryptoProvider> {
    use CipherSuite as C;
    let mut suites = SUITES.clone();
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
    provider.kx_groups.insert(0, kx_group::X25519MLKEM768);
    Arc::new(provider)
}

#[cfg(test)]
mod tests {
    use rustls::NamedGroup;

    use super::*;

    #[test]
    fn servers_alone_exchange_keys_by_ml_kem_too() {
        let groups = |provider: Arc<CryptoProvider>| -> Vec<NamedGroup> {
            let groups = provider.kx_groups.iter();
            groups.map(|group| group.name()).collect()
        };
        use NamedGroup as N;
        let classical = [N::X25519, N::secp256r1, N::secp384r1];
        assert_eq!(groups(client_provider()), classical);
        let all = [&[N::X25519MLKEM768], &classical[..]].concat();
        assert_eq!(groups(server_provider(&[])), all);
    }

    #[test]
    fn groups_have_names() {
        for own in CLASSICAL {
            let found = group(&group_name(own.name())).unwrap();
            assert_eq!(found.name(), own.name());
        }
        let said = group("ffdhe2048").unwrap_err();
        assert!(said.contains("X25519, secp256r1, secp384r1"), "{said}");
    }

    /// As in all versions before: configurations and documents have their names, and servers take what each client prefers.
    #[test]
    fn suites_have_an_order() {
        assert_eq!(
            suite_names(),
            [
                "TLS_AES_256_GCM_SHA384",
                "TLS_AES_128_GCM_SHA256",
                "TLS_CHACHA20_POLY1305_SHA256",
                "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            ]
        );
    }

    #[test]
    fn keys_of_tls_13_are_derived_by_ours() {
        for provider in [client_provider(), server_provider(&[])] {
            let suites = provider.cipher_suites.iter();
            let suites: Vec<_> = suites.filter_map(SupportedCipherSuite::tls13).collect();
            assert_eq!(suites.len(), 3);
            for suite in suites {
                let ours = match suite.common.suite {
                    CipherSuite::TLS13_AES_256_GCM_SHA384 => hmac::HKDF_SHA384,
                    _ => hmac::HKDF_SHA256,
                };
                assert!(std::ptr::addr_eq(suite.hkdf_provider, ours), "{suite:?}");
            }
        }
    }

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
