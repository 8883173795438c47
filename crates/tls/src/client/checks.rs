//! The verifier of a client's sessions: which handshakes were full, those in which a certificate was looked at, and why one was not good, where
//! nobody else tells.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::trust::Trusted;

/// Whose certificates are good, how often one was looked at, and what was refused last.
#[derive(Debug)]
pub(super) struct Checks {
    trusted: Trusted,
    algorithms: WebPkiSupportedAlgorithms,
    count: AtomicU64,
    refusal: Mutex<Option<Error>>,
}

impl Checks {
    pub(super) fn new(trusted: Trusted, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self {
            trusted,
            algorithms,
            count: AtomicU64::new(0),
            refusal: Mutex::default(),
        }
    }

    /// These certificates are good, and none was looked at yet.
    pub(super) fn restarted(&self) -> Self {
        Self::new(self.trusted.clone(), self.algorithms)
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
        self.note(self.trusted.check(certificate, chain, name, ocsp, now))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.algorithms;
        self.note(verify_tls12_signature(
            message,
            certificate,
            signed,
            algorithms,
        ))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.algorithms;
        self.note(verify_tls13_signature(
            message,
            certificate,
            signed,
            algorithms,
        ))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
