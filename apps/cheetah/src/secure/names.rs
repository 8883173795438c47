//! Which certificate a client gets: one for the name that it asks for (SNI), that it can check.

use std::collections::HashMap;
use std::sync::Arc;

use crate::acme::Acme;
use crate::acme::challenges::PROTOCOL;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, SignatureAlgorithm};

/// Certificates of one name or site, those with shorter signatures first.
type Choices = Vec<Arc<CertifiedKey>>;

/// The certificates of a server.
#[derive(Debug, Default)]
pub struct Names {
    exact: HashMap<String, Choices>,
    /// By what stands behind the star and its point.
    wildcards: HashMap<String, Choices>,
    /// For clients that ask for no name, or for one that nobody has.
    default: Choices,
    /// What authorities ask who give certificates.
    acme: Option<Arc<Acme>>,
}

impl Names {
    /// Adds certificates for a name as `example.org` or `*.example.org`.
    pub fn add(&mut self, name: &str, keys: &[Arc<CertifiedKey>]) {
        if keys.is_empty() {
            return;
        }
        let name = name.to_ascii_lowercase();
        let (names, name) = match name.strip_prefix("*.") {
            Some(rest) => (&mut self.wildcards, rest.to_owned()),
            None => (&mut self.exact, name),
        };
        extend(names.entry(name).or_default(), keys);
    }

    /// Has these be the certificates of a name, instead of others.
    pub fn set(&mut self, name: &str, keys: &[Arc<CertifiedKey>]) {
        let lower = name.to_ascii_lowercase();
        match lower.strip_prefix("*.") {
            Some(rest) => self.wildcards.remove(rest),
            None => self.exact.remove(&lower),
        };
        self.add(name, keys);
    }

    /// Answers what an authority asks by a handshake.
    pub fn answer(&mut self, acme: Option<Arc<Acme>>) {
        self.acme = acme;
    }

    /// Adds certificates for who asks for no name that is known.
    pub fn add_default(&mut self, keys: &[Arc<CertifiedKey>]) {
        extend(&mut self.default, keys);
    }

    /// There is a certificate for a name, or for clients that ask for none.
    pub fn has(&self, name: Option<&str>) -> bool {
        !self.of(name).is_empty()
    }

    /// Those that are meant by a name.
    fn of(&self, name: Option<&str>) -> &Choices {
        let Some(name) = name else {
            return &self.default;
        };
        let name = name.to_ascii_lowercase();
        // Behind the first point, the second, ...: the longest that there is.
        let points = name.match_indices('.');
        let mut behind = points.map(|(at, _)| &name[at + 1..]);
        let exact = self.exact.get(&name);
        exact
            .or_else(|| behind.find_map(|rest| self.wildcards.get(rest)))
            .unwrap_or(&self.default)
    }
}

fn extend(choices: &mut Choices, keys: &[Arc<CertifiedKey>]) {
    choices.extend_from_slice(keys);
    choices.sort_by_key(|key| match key.key.algorithm() {
        SignatureAlgorithm::ECDSA | SignatureAlgorithm::ED25519 => 0,
        SignatureAlgorithm::RSA => 1,
        _ => 2, // ML-DSA, whose signatures have kilobytes.
    });
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(acme) = &self.acme
            && hello.alpn().is_some_and(|asked| asked.eq([PROTOCOL]))
        {
            // RFC 8737 §3: it is for nothing else.
            return acme.challenges().certificate(hello.server_name()?);
        }
        let choices = self.of(hello.server_name());
        let fits = |key: &&Arc<CertifiedKey>| {
            let can_check = key.key.choose_scheme(hello.signature_schemes()).is_some();
            can_check && has_suite_for(key.key.algorithm(), hello.cipher_suites())
        };
        choices.iter().find(fits).or(choices.first()).cloned()
    }
}

/// Whether a client has a suite for such signatures: those of TLS 1.2 say of which kind, those of TLS 1.3 do not.
fn has_suite_for(algorithm: SignatureAlgorithm, suites: &[CipherSuite]) -> bool {
    suites.iter().any(|suite| {
        use CipherSuite as C;
        match suite {
            C::TLS13_AES_128_GCM_SHA256
            | C::TLS13_AES_256_GCM_SHA384
            | C::TLS13_CHACHA20_POLY1305_SHA256 => true,
            C::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
            | C::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
            | C::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => {
                algorithm == SignatureAlgorithm::RSA
            }
            C::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | C::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
            | C::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
                // Of ML-DSA none is of TLS 1.2.
                algorithm == SignatureAlgorithm::ECDSA || algorithm == SignatureAlgorithm::ED25519
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::signing::tests::ml_dsa;
    use super::*;

    #[test]
    fn signatures_have_suites_that_are_theirs() {
        use {CipherSuite as C, SignatureAlgorithm as S};
        let v13 = [C::TLS13_AES_128_GCM_SHA256];
        let ecdsa = [C::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
        let rsa = [C::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256];
        for (algorithm, expected) in [
            (S::ECDSA, [true, true, false]),
            (S::ED25519, [true, true, false]),
            (S::RSA, [true, false, true]),
            (ml_dsa().algorithm(), [true, false, false]),
        ] {
            let of = [v13, ecdsa, rsa].map(|suites| has_suite_for(algorithm, &suites));
            assert_eq!(of, expected, "{algorithm:?}");
        }
    }

    #[test]
    fn certificates_of_shorter_signatures_come_first() {
        let made = exos_tls::self_signed::certificate(&["a.test".to_owned()]);
        let (certificate, key) = made.unwrap();
        let provider = exos_tls::policy::provider(&[]);
        let ecdsa = CertifiedKey::from_der(vec![certificate], key, &provider).unwrap();
        let ml_dsa = CertifiedKey::new(ecdsa.cert.clone(), ml_dsa());
        let mut choices = Choices::new();
        extend(&mut choices, &[Arc::new(ml_dsa), Arc::new(ecdsa)]);
        let first = choices.iter().map(|key| key.key.algorithm()).next();
        assert_eq!(first, Some(SignatureAlgorithm::ECDSA));
    }
}
