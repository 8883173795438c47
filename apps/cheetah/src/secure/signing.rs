//! What signatures of handshakes take: they are weighed by the kinds of their keys, for a turn has time for so much of them.
//!
//! rustls signs in the middle of a handshake and tells nobody. So keys are wrapped, and what each signature weighs is added up for
//! the thread that makes it, until [`take_spent`]. No clock is read: what a turn may do does not depend on who else is on its core.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use exos_tls::certificate::rsa_public_key;
use exos_tls::limits::RSA_BITS_MAX;
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
            let public = public.and_then(|key| rsa_public_key(&key));
            weight_of_rsa(public.map_or(RSA_BITS_MAX, |key| key.bits))
        }
        SignatureAlgorithm::ED25519 => 1,
        _ => {
            let p256 = [SignatureScheme::ECDSA_NISTP256_SHA256];
            key.choose_scheme(&p256).map_or(WEIGHT_OF_OTHERS, |_| 1)
        }
    }
}

fn weight_of_rsa(bits: u64) -> u32 {
    let bits = bits.min(RSA_BITS_MAX);
    let weight = u64::from(WEIGHT_RSA_2048) * bits.pow(3) / 2048_u64.pow(3);
    weight.max(1) as u32
}

#[cfg(test)]
pub(super) mod tests {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING,
        ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, ML_DSA_44_SIGNING,
        PqdsaKeyPair,
    };
    use rustls::crypto::aws_lc_rs::sign::any_supported_type;
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    /// The key in this PKCS#8.
    fn signing_key(pkcs8: &[u8]) -> Arc<dyn SigningKey> {
        let key = PrivatePkcs8KeyDer::from(pkcs8.to_vec());
        any_supported_type(&key.into()).unwrap()
    }

    /// A key of ML-DSA.
    pub(in crate::secure) fn ml_dsa() -> Arc<dyn SigningKey> {
        let made = PqdsaKeyPair::generate(&ML_DSA_44_SIGNING).unwrap();
        signing_key(made.to_pkcs8v1().unwrap().as_ref())
    }

    #[test]
    fn rsa_grows_with_the_third_power() {
        for (bits, weight) in [
            (2048, WEIGHT_RSA_2048),
            (3072, WEIGHT_RSA_2048 * 27 / 8),
            (4096, WEIGHT_RSA_2048 * 8),
            (u64::MAX, WEIGHT_RSA_2048 * 8),
        ] {
            assert_eq!(weight_of_rsa(bits), weight);
        }
    }

    #[test]
    fn keys_weigh_what_their_kinds_do() {
        let random = SystemRandom::new();
        let ecdsa = |by| EcdsaKeyPair::generate_pkcs8(by, &random).unwrap();
        let rsa = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        let rsa = AsDer::<Pkcs8V1Der<'_>>::as_der(&rsa).unwrap();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        for (kind, key, expected) in [
            ("P-256", ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING).as_ref(), 1),
            (
                "P-384",
                ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING).as_ref(),
                WEIGHT_OF_OTHERS,
            ),
            (
                "P-521",
                ecdsa(&ECDSA_P521_SHA512_ASN1_SIGNING).as_ref(),
                WEIGHT_OF_OTHERS,
            ),
            ("Ed25519", ed25519.as_ref(), 1),
            ("RSA", rsa.as_ref(), WEIGHT_RSA_2048),
        ] {
            assert_eq!(weight(&*signing_key(key)), expected, "{kind}");
        }
        assert_eq!(weight(&*ml_dsa()), WEIGHT_OF_OTHERS);
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
