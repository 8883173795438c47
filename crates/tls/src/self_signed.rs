//! A certificate for trying, signed by itself: browsers warn of it, and nobody is kept from reading what they send.

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate for these host names or addresses, and its key (ECDSA with P-256).
///
/// # Errors
///
/// What is wrong with a name.
pub fn certificate(
    names: &[String],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), String> {
    let make = || {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new(names)?;
        let name = "exos, signed by itself";
        params.distinguished_name.push(DnType::CommonName, name);
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) = make().map_err(|e: rcgen::Error| e.to_string())?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((certificate.into(), key.into()))
}
