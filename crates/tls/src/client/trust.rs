//! Which certificates of servers are good.
//!
//! A file may hold a server's own certificate instead of an authority's, as one that was signed by itself for a trial: this very
//! certificate is good then, for the names that it says and as long as it is valid.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use exos_host::Error;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier as _};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore};
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

    pub(super) fn read(&self, provider: &Arc<CryptoProvider>) -> Result<Trusted, Error> {
        let certificates = match self {
            Self::Anybody => return Ok(Trusted::Anybody),
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
        Ok(Trusted::Authorities {
            authorities,
            own: match self {
                Self::File(_) => certificates,
                _ => Vec::new(),
            },
        })
    }
}

/// What was read of whose certificates are good.
#[derive(Clone, Debug)]
pub(super) enum Trusted {
    Anybody,
    Authorities {
        authorities: Arc<WebPkiServerVerifier>,
        /// Certificates that are good without an authority.
        own: Vec<CertificateDer<'static>>,
    },
}

impl Trusted {
    /// Whether this certificate of a server is good.
    pub(super) fn check(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Self::Authorities { authorities, own } = self else {
            return Ok(ServerCertVerified::assertion());
        };
        if !own.contains(certificate) {
            return authorities.verify_server_cert(certificate, chain, name, ocsp, now);
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
