//! Which handshakes were full: those in which a certificate was looked at. And why one was not good, where nobody else tells.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Another verifier, how often it was asked, and what it has refused last.
#[derive(Debug)]
pub(super) struct Checks {
    verifier: Arc<dyn ServerCertVerifier>,
    count: AtomicU64,
    refusal: Mutex<Option<Error>>,
}

impl Checks {
    pub(super) fn by(verifier: Arc<dyn ServerCertVerifier>) -> Self {
        Self {
            verifier,
            count: AtomicU64::new(0),
            refusal: Mutex::default(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn take_refusal(&self) -> Option<Error> {
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.take()
    }

    fn note<T>(&self, checked: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &checked {
            let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
            *refusal = Some(error.clone());
        }
        checked
    }
}

impl ServerCertVerifier for Checks {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let verifier = &self.verifier;
        self.note(verifier.verify_server_cert(certificate, chain, name, ocsp, now))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = &self.verifier;
        self.note(verifier.verify_tls12_signature(message, certificate, signed))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = &self.verifier;
        self.note(verifier.verify_tls13_signature(message, certificate, signed))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
