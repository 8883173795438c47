//! A certificate for trying, signed by itself: browsers warn of it, and nobody is kept from reading what they send. And what is made
//! in the same way for an authority that asks by a handshake.

use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{
    CertificateParams, CustomExtension, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::limits::{SELF_SIGNED_FOR, SELF_SIGNED_SINCE};

/// A certificate for these host names or addresses, and its key (ECDSA with P-256). It is valid for a year, and since yesterday for
/// clients whose clocks are late.
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = date_time_ymd(1970, 1, 1) + now.unwrap_or_default();
        params.not_before = now - SELF_SIGNED_SINCE;
        params.not_after = now + SELF_SIGNED_FOR;
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) = make().map_err(|e: rcgen::Error| e.to_string())?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((certificate.into(), key.into()))
}

/// The certificate that answers an authority which asks by a handshake (tls-alpn-01, RFC 8737 §3): for this name, with the digest of the
/// answer (SHA-256), and its key.
///
/// # Errors
///
/// What is wrong with the name.
pub fn acme_answer(
    name: &str,
    digest: &[u8],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), String> {
    let make = || {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new([name.to_owned()])?;
        let extension = CustomExtension::new_acme_identifier(digest);
        params.custom_extensions.push(extension);
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) = make().map_err(|e: rcgen::Error| e.to_string())?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((certificate.into(), key.into()))
}
