//! What signatures of handshakes take: they are weighed by the kinds of their keys, for a turn has time for so much of them.
//!
//! rustls signs in the middle of a handshake and tells nobody. So keys are wrapped, and what each signature weighs is added up for
//! the thread that makes it, until [`take_spent`]. No clock is read: what a turn may do does not depend on who else is on its core.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

use crate::limits::{WEIGHT_OF_OTHERS, WEIGHT_RSA_2048};

thread_local! {
    static SPENT: Cell<u32> = const { Cell::new(0) };
}

/// What this thread has spent on signatures since the last call, in signatures with ECDSA P-256.
pub(super) fn take_spent() -> u32 {
    SPENT.take()
}

/// A certificate whose signatures are weighed.
pub(super) fn weighed(certified: &CertifiedKey) -> Arc<CertifiedKey> {
    let key = certified.key.clone();
    Arc::new(CertifiedKey {
        cert: certified.cert.clone(),
        key: Arc::new(Weighed {
            weight: weight(&*key),
            key,
        }),
        ocsp: certified.ocsp.clone(),
    })
}

/// A key whose signatures are weighed.
#[derive(Debug)]
struct Weighed {
    key: Arc<dyn SigningKey>,
    weight: u32,
}

impl SigningKey for Weighed {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.key.choose_scheme(offered)?;
        let weight = self.weight;
        Some(Box::new(WeighedSigner { signer, weight }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

struct WeighedSigner {
    signer: Box<dyn Signer>,
    weight: u32,
}

impl fmt::Debug for WeighedSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut signer = f.debug_struct("WeighedSigner");
        signer.field("weight", &self.weight).finish_non_exhaustive()
    }
}

impl Signer for WeighedSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        SPENT.set(SPENT.get().saturating_add(self.weight));
        self.signer.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.signer.scheme()
    }
}

/// What a signature with this key takes, by one with ECDSA P-256.
fn weight(key: &dyn SigningKey) -> u32 {
    match key.algorithm() {
        SignatureAlgorithm::RSA => {
            let public = key.public_key();
            weight_of_rsa(public.map_or(RSA_BITS_MAX, |key| rsa_bits(key.len())))
        }
        SignatureAlgorithm::ED25519 => 1,
        _ => {
            let p256 = [SignatureScheme::ECDSA_NISTP256_SHA256];
            key.choose_scheme(&p256).map_or(WEIGHT_OF_OTHERS, |_| 1)
        }
    }
}

/// The longest keys that are taken.
const RSA_BITS_MAX: u64 = 8192;

/// How long the modulus is of a public key of this length: what stands around it are 38 bytes (RFC 3279 §2.3.1).
fn rsa_bits(len: usize) -> u64 {
    let modulus_len = len.saturating_sub(38) as u64;
    modulus_len.saturating_mul(8).min(RSA_BITS_MAX)
}

fn weight_of_rsa(bits: u64) -> u32 {
    let weight = u64::from(WEIGHT_RSA_2048) * bits.pow(3) / 2048_u64.pow(3);
    weight.max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the lengths of public keys that openssl makes.
    #[test]
    fn rsa_grows_with_the_third_power() {
        for (len, bits, weight) in [
            (294, 2048, WEIGHT_RSA_2048),
            (422, 3072, WEIGHT_RSA_2048 * 27 / 8),
            (550, 4096, WEIGHT_RSA_2048 * 8),
            (usize::MAX, 8192, WEIGHT_RSA_2048 * 64),
        ] {
            assert_eq!((rsa_bits(len), weight_of_rsa(bits)), (bits, weight));
        }
    }

    #[test]
    fn longer_curves_weigh_more() {
        use aws_lc_rs::rand::SystemRandom;
        use aws_lc_rs::signature as with;
        use rustls::crypto::aws_lc_rs::sign::any_supported_type;
        use rustls::pki_types::PrivatePkcs8KeyDer;
        for (algorithm, expected) in [
            (&with::ECDSA_P256_SHA256_ASN1_SIGNING, 1),
            (&with::ECDSA_P384_SHA384_ASN1_SIGNING, WEIGHT_OF_OTHERS),
            (&with::ECDSA_P521_SHA512_ASN1_SIGNING, WEIGHT_OF_OTHERS),
        ] {
            let made = with::EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new());
            let key = PrivatePkcs8KeyDer::from(made.unwrap().as_ref().to_vec());
            let key = any_supported_type(&key.into()).unwrap();
            assert_eq!(weight(&*key), expected, "{algorithm:?}");
        }
    }

    #[test]
    fn what_was_signed_is_told_once() {
        let made = exos_tls::self_signed::certificate(&["localhost".to_owned()]);
        let (certificate, key) = made.unwrap();
        let provider = exos_tls::policy::provider(&[]);
        let made = CertifiedKey::from_der(vec![certificate], key, &provider).unwrap();
        let weighed = weighed(&made);
        let offered = [SignatureScheme::ECDSA_NISTP256_SHA256];
        let signer = weighed.key.choose_scheme(&offered).unwrap();
        take_spent();
        signer.sign(b"this").unwrap();
        signer.sign(b"that").unwrap();
        assert_eq!((take_spent(), take_spent()), (2, 0));
    }
}
