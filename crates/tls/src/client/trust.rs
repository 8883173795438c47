//! Which certificates of servers are good.
//!
//! A file may hold a server's own certificate instead of an authority's, as one that was signed by itself for a trial: this very
//! certificate is good then, for the names that it says and as long as it is valid.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use exos_host::Error;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Whose certificates are good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that an authority of this system has signed.
    #[default]
    System,
    /// Those that an authority of this file has signed, and those of this file.
    File(PathBuf),
    /// Anybody's: nothing is checked but that the server has the certificate's key.
    Anybody,
}

impl Trust {
    /// The certificates that are trusted, where some are.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        match self {
            Self::System => of_system(),
            Self::File(path) => crate::files::certificates(path),
            Self::Anybody => Ok(Vec::new()),
        }
    }

    pub(super) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let certificates = match self {
            Self::Anybody => return Ok(Arc::new(Anybody(provider.clone()))),
            Self::System => of_system()?,
            Self::File(path) => crate::files::certificates(path)?,
        };
        let mut roots = RootCertStore::empty();
        // Authorities whose certificates nobody can read sign nothing.
        roots.add_parsable_certificates(certificates.iter().cloned());
        let authorities =
            WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone())
                .build()
                .map_err(|e| {
                    match self {
                        Self::File(path) => none_in(path),
                        _ => none_in(Path::new("the system's store")),
                    }
                    .mend(format!(
                        "give the authority's certificate with --cacert ({e})"
                    ))
                })?;
        Ok(match self {
            Self::File(_) => Arc::new(Own {
                authorities,
                own: certificates,
            }),
            _ => authorities,
        })
    }
}

fn none_in(place: &Path) -> Error {
    Error::new(format!(
        "there is no certificate of an authority in {}",
        place.display()
    ))
}

/// Those of the system's authorities, as OpenSSL finds them.
fn of_system() -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = rustls_native_certs::load_native_certs();
    match found.errors.first() {
        Some(error) if found.certs.is_empty() => Err(Error::new(format!(
            "the certificates of this system's authorities cannot be read: {error}"
        ))
        .mend("install ca-certificates, or give the authority's certificate with --cacert")),
        _ => Ok(found.certs),
    }
}

/// Authorities, and certificates that are good without one.
#[derive(Debug)]
struct Own {
    authorities: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Own {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.own.contains(certificate) {
            return self
                .authorities
                .verify_server_cert(certificate, chain, name, ocsp, now);
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        let valid = crate::certificate::validity(certificate).ok_or(
            rustls::Error::InvalidCertificate(CertificateError::BadEncoding),
        )?;
        match i64::try_from(now.as_secs()) {
            Ok(now) if now < valid.from => Err(CertificateError::NotValidYet.into()),
            Ok(now) if now <= valid.until => Ok(ServerCertVerified::assertion()),
            _ => Err(CertificateError::Expired.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Any certificate is good whose key the server has.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.0.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
