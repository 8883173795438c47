//! What the authority asks this server to know whether it is the one that a name leads to, and the answers.
//!
//! All loops look here, and nearly always nothing is there: one load of a number says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use exos_tls::policy::provider;
use exos_tls::self_signed;
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Where documents of http-01 are (RFC 8555 §8.3).
const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// The protocol of handshakes of tls-alpn-01 (RFC 8737 §4).
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// How an authority asks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Kind {
    /// For a document, at port 80 (RFC 8555 §8.3).
    #[serde(rename = "http-01")]
    Http,
    /// By a handshake, at port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn,
    /// For a record in DNS, which a program sets (RFC 8555 §8.4).
    #[serde(rename = "dns-01")]
    Dns,
}

impl Kind {
    /// As the protocol and the configuration have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Http => "http-01",
            Kind::TlsAlpn => "tls-alpn-01",
            Kind::Dns => "dns-01",
        }
    }

    /// A kind by its name.
    ///
    /// # Errors
    ///
    /// It is none that can be answered here.
    pub fn parse(text: &str) -> Result<Kind, String> {
        match text {
            "http-01" => Ok(Kind::Http),
            "tls-alpn-01" => Ok(Kind::TlsAlpn),
            "dns-01" => Ok(Kind::Dns),
            _ => Err(format!(
                "{text:?} is no challenge that can be answered here; write \"http-01\", \"tls-alpn-01\" or \"dns-01\""
            )),
        }
    }

    /// The other kind that takes nothing but this server; that of DNS has none, since the program for it may be gone.
    #[must_use]
    pub fn other(self) -> Option<Kind> {
        match self {
            Kind::Http => Some(Kind::TlsAlpn),
            Kind::TlsAlpn => Some(Kind::Http),
            Kind::Dns => None,
        }
    }
}

/// One question, with its answer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Challenge {
    /// How it is asked.
    pub kind: Kind,
    /// The host that it is about.
    pub name: String,
    /// What the authority calls it.
    pub token: String,
    /// The answer, in which the account's key is (RFC 8555 §8.1); of dns-01 what the record says.
    pub key_authorization: String,
}

/// What can be answered now.
#[derive(Debug, Default)]
pub struct Challenges {
    /// How many there are.
    count: AtomicUsize,
    current: RwLock<Current>,
    /// Held from looking which there are until they are answered, by whom is looking.
    taking_up: Mutex<()>,
    http_answered: AtomicU64,
    tls_answered: AtomicU64,
}

#[derive(Debug, Default)]
struct Current {
    all: Vec<Challenge>,
    /// By token.
    documents: HashMap<String, Arc<str>>,
    /// By name.
    certificates: HashMap<String, Arc<CertifiedKey>>,
}

impl Challenges {
    /// Answers what this finds from now on, and nothing else. Nobody else looks meanwhile: what is found first is not answered last.
    ///
    /// # Errors
    ///
    /// It could not look, and what was answered before still is.
    pub(super) fn take_up<E>(
        &self,
        find: impl FnOnce() -> Result<Vec<Challenge>, E>,
    ) -> Result<(), E> {
        let _taking_up = self
            .taking_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.set(find()?);
        Ok(())
    }

    /// Answers these from now on, and no others.
    pub fn set(&self, all: Vec<Challenge>) {
        if self.current().all == all {
            return;
        }
        let mut new = Current::default();
        for challenge in &all {
            match challenge.kind {
                Kind::Http => {
                    let answer = Arc::from(&*challenge.key_authorization);
                    new.documents.insert(challenge.token.clone(), answer);
                }
                Kind::TlsAlpn => match certificate(challenge) {
                    Ok(key) => {
                        let name = challenge.name.to_ascii_lowercase();
                        new.certificates.insert(name, key);
                    }
                    Err(error) => exos_program::warn!("exos serve: {error}"),
                },
                Kind::Dns => {} // Name servers answer.
            }
        }
        new.all = all;
        let count = new.documents.len() + new.certificates.len();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        self.count.store(count, Ordering::Release);
    }

    /// What is answered at a path of HTTP; nothing where nobody has asked for it.
    #[inline]
    pub fn document(&self, path: &[u8]) -> Option<Arc<str>> {
        if self.is_empty() {
            return None;
        }
        let token = str::from_utf8(path.strip_prefix(PATH)?).ok()?;
        let found = self.current().documents.get(token).cloned()?;
        self.http_answered.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// The certificate for a handshake of [`PROTOCOL`] with this name.
    pub fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let found = self.current().certificates.get(&name).cloned()?;
        self.tls_answered.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// How many questions were answered, of both kinds.
    pub fn answered(&self) -> u64 {
        self.http_answered.load(Ordering::Relaxed) + self.tls_answered.load(Ordering::Relaxed)
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The certificate that answers (RFC 8737 §3): for the name alone, with the digest of the answer.
fn certificate(challenge: &Challenge) -> Result<Arc<CertifiedKey>, String> {
    let digest = Sha256::digest(challenge.key_authorization.as_bytes());
    let fail = |e: String| format!("cannot make a certificate for {}: {e}", challenge.name);
    let (certificate, key) = self_signed::acme_answer(&challenge.name, &digest).map_err(fail)?;
    let signer = provider(&[]).key_provider.load_private_key(key);
    let signer = signer.map_err(|e| fail(e.to_string()))?;
    // What compares both knows no such extension, which is critical.
    Ok(Arc::new(CertifiedKey::new(vec![certificate], signer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(kind: Kind) -> Challenge {
        Challenge {
            kind,
            name: "A.test".to_owned(),
            token: "to-ken_1".to_owned(),
            key_authorization: "to-ken_1.thumb".to_owned(),
        }
    }

    #[test]
    fn documents_are_there_as_long_as_somebody_asks() {
        let challenges = Challenges::default();
        let path = b"/.well-known/acme-challenge/to-ken_1";
        assert_eq!(challenges.document(path), None);
        challenges.set(vec![challenge(Kind::Http)]);
        assert_eq!(&*challenges.document(path).unwrap(), "to-ken_1.thumb");
        for other in [
            &b"/.well-known/acme-challenge/"[..],
            b"/.well-known/acme-challenge/to-ken_1/",
            b"/.well-known/acme-challenge/\xff",
            b"/to-ken_1",
        ] {
            assert_eq!(challenges.document(other), None);
        }
        assert!(challenges.certificate("a.test").is_none(), "another kind");
        assert_eq!(challenges.answered(), 1);
        challenges.set(Vec::new());
        assert_eq!(challenges.document(path), None);
    }

    /// RFC 8737 §3: a critical extension with the digest of the answer, and the name as the only one.
    #[test]
    fn certificates_have_the_digest() {
        let challenges = Challenges::default();
        challenges.set(vec![challenge(Kind::TlsAlpn)]);
        let key = challenges.certificate("a.TEST").unwrap();
        let digest = Sha256::digest(b"to-ken_1.thumb");
        // id-pe-acmeIdentifier 1.3.6.1.5.5.7.1.31, critical, an OCTET STRING within the extension's.
        let mut extension = vec![
            0x06, 8, 0x2b, 6, 1, 5, 5, 7, 1, 31, 0x01, 1, 0xff, 0x04, 34, 0x04, 32,
        ];
        extension.extend_from_slice(&digest);
        let der = &key.cert[0];
        let has = |what: &[u8]| der.windows(what.len()).any(|it| it == what);
        assert!(has(&extension), "{der:?}");
        assert!(has(b"\x82\x06A.test"), "{der:?}");
        assert!(challenges.certificate("b.test").is_none());
        let path = b"/.well-known/acme-challenge/to-ken_1";
        assert_eq!(challenges.document(path), None);
    }
}
