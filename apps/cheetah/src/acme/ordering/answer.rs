//! Whether what an authority has sent is what was asked for: before it stands where a good certificate stood.

use exos_tls::certificate::{UnixSecs, validity};
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

/// Looks at a chain (PEM) that has come for a name and a key (PEM).
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn check(name: &str, key: &str, chain: &str, now: UnixSecs) -> Result<(), String> {
    let fail = |why: String| format!("what the authority sent is no certificate of {name}: {why}");
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = chain.map_err(|e| fail(e.to_string()))?;
    let Some(leaf) = chain.first() else {
        return Err(fail("there is none in it".to_owned()));
    };
    match validity(leaf) {
        Some(validity) if validity.until > now => {}
        Some(_) => {
            let clock = "it has expired; look at this host's clock";
            return Err(fail(clock.to_owned()));
        }
        None => return Err(fail("it cannot be read".to_owned())),
    }
    // A certificate with a star is one of any name in its place.
    let host = name.replacen('*', "any", 1);
    let host = ServerName::try_from(host).map_err(|e| fail(e.to_string()))?;
    let parsed = ParsedCertificate::try_from(leaf).map_err(|e| fail(e.to_string()))?;
    verify_server_name(&parsed, &host).map_err(|e| fail(e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| fail(e.to_string()))?;
    // Not by a provider, which would free the key's bytes as they are.
    let signer = any_supported_type(&Zeroizing::new(key)).map_err(|e| fail(e.to_string()))?;
    let made = CertifiedKey::new(chain, signer);
    made.keys_match().map_err(|e| fail(e.to_string()))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use exos_tls::self_signed;

    use super::*;

    fn pem(kind: &str, der: &[u8]) -> String {
        let text = BASE64_STANDARD.encode(der);
        format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
    }

    /// A certificate of a name and its key.
    fn made(name: &str) -> (String, String) {
        let (certificate, key) = self_signed::certificate(&[name.to_owned()]).unwrap();
        let key = pem("PRIVATE KEY", key.secret_der());
        (pem("CERTIFICATE", &certificate), key)
    }

    #[test]
    fn only_what_was_asked_for_is_taken() {
        let now = exos::clock::unix_secs() as UnixSecs;
        let ((chain, key), (other, other_key)) = (made("a.test"), made("b.test"));
        check("a.test", &key, &chain, now).unwrap();
        check("a.test", &key, &(chain.clone() + &other), now).unwrap();
        let (star, star_key) = made("*.c.test");
        check("*.c.test", &star_key, &star, now).unwrap();
        check("*.test", &star_key, &star, now).unwrap_err();
        let years = now + 10 * 365 * 24 * 3600;
        for (key, chain, now, says) in [
            (&key, "", now, "there is none"),
            (&key, "<html>", now, "there is none"),
            (
                &key,
                "-----BEGIN CERTIFICATE-----\n%",
                now,
                "no certificate of a.test",
            ),
            (&key, &*pem("CERTIFICATE", b"x"), now, "cannot be read"),
            (&other_key, &*other, now, "b.test"),
            (&other_key, &*chain, now, "no certificate of a.test"),
            (&key, &*chain, years, "this host's clock"),
        ] {
            let said = check("a.test", key, chain, now).unwrap_err();
            assert!(said.contains(says), "{says}: {said}");
        }
    }

    /// Whatever comes, it is looked at without a panic.
    #[test]
    fn cut_anywhere_it_is_none() {
        let now = exos::clock::unix_secs() as UnixSecs;
        let (chain, key) = made("a.test");
        let end = chain.trim_end().len();
        for cut in 0..end {
            check("a.test", &key, &chain[..cut], now).unwrap_err();
        }
        let der = BASE64_STANDARD
            .decode(chain.lines().nth(1).unwrap())
            .unwrap();
        for at in 0..der.len() {
            let mut bad = der.clone();
            bad[at] ^= 0x55;
            // A signature is nothing to look at here: the one who sent it was authenticated.
            let _ = check("a.test", &key, &pem("CERTIFICATE", &bad), now);
            check("a.test", &key, &pem("CERTIFICATE", &der[..at]), now).unwrap_err();
        }
    }
}
