//! What the cryptography of TLS takes by itself on a core: the least that a server has to do for a request.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use exos_host::{Error, Result, affinity};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// For how long each of them is done again and again.
const TIME: Duration = Duration::from_millis(200);
/// The longest plaintext of a record.
const RECORD_LEN: usize = 1 << 14;

/// Microseconds of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cryptography {
    /// A signature with ECDSA P-256.
    pub signature_us: f64,
    /// A key of X25519 and its agreement with another.
    pub exchange_us: f64,
    /// AES-128-GCM: of a record by itself, and of each byte of it.
    record_us: f64,
    byte_us: f64,
}

impl Cryptography {
    /// Measures them on a core, in a thread of its own.
    pub fn measure(core: usize) -> Result<Self> {
        let measured = std::thread::scope(|scope| {
            let measured = scope.spawn(|| {
                affinity::pin(core)?;
                Self::of_this_core()
                    .ok_or_else(|| Error::new("aws-lc-rs refuses what TLS asks of it"))
            });
            measured.join()
        });
        measured.unwrap_or_else(|_| {
            Err(Error::new(
                "what the cryptography takes could not be measured",
            ))
        })
    }

    fn of_this_core() -> Option<Self> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).ok()?;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref()).ok()?;
        let peer = EphemeralPrivateKey::generate(&X25519, &random).ok()?;
        let peer = peer.compute_public_key().ok()?;
        let exchange = || {
            let own = EphemeralPrivateKey::generate(&X25519, &random).ok()?;
            black_box(own.compute_public_key().ok()?);
            let peer = UnparsedPublicKey::new(&X25519, &peer);
            let agreed = agree_ephemeral(own, peer, (), |it| Ok(black_box(it.len())));
            agreed.ok()
        };
        let [short_us, long_us] = [0, RECORD_LEN].map(sealing_us);
        let (short_us, long_us) = (short_us?, long_us?);
        Some(Self {
            signature_us: time_us(|| key.sign(&random, &[7; 64]).ok())?,
            exchange_us: time_us(exchange)?,
            record_us: short_us,
            byte_us: (long_us - short_us).max(0.0) / RECORD_LEN as f64,
        })
    }

    /// Of an answer in records of full length.
    pub fn cipher_us(&self, bytes: u64) -> f64 {
        let records = bytes.div_ceil(RECORD_LEN as u64).max(1);
        records as f64 * self.record_us + bytes as f64 * self.byte_us
    }
}

/// Of a record with a plaintext of this length.
fn sealing_us(len: usize) -> Option<f64> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[1; 16]).ok()?);
    let mut record = vec![0; len];
    time_us(|| {
        let nonce = Nonce::assume_unique_for_key([2; 12]);
        let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(&[0; 5]), &mut record);
        sealed.ok()
    })
}

/// The mean time of something that is done for a while; nothing where it fails.
fn time_us<R>(mut act: impl FnMut() -> Option<R>) -> Option<f64> {
    let (begin, mut times) = (Instant::now(), 0_u32);
    while begin.elapsed() < TIME {
        for _ in 0..16 {
            black_box(act()?);
        }
        times += 16;
    }
    Some(begin.elapsed().as_secs_f64() * 1e6 / f64::from(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_many_records_as_it_takes() {
        let it = Cryptography {
            signature_us: 20.0,
            exchange_us: 60.0,
            record_us: 0.5,
            byte_us: 0.001,
        };
        for (bytes, us) in [(0, 0.5), (100, 0.6), (1 << 14, 16.884), (100 << 10, 105.9)] {
            assert!(
                (it.cipher_us(bytes) - us).abs() < 1e-6,
                "{bytes}: {}",
                it.cipher_us(bytes)
            );
        }
    }

    #[test]
    fn everything_that_tls_asks_for_can_be_done() {
        let it = Cryptography::of_this_core().expect("aws-lc-rs has all of it");
        assert!(
            it.signature_us > 0.0 && it.exchange_us > 0.0 && it.record_us > 0.0,
            "{it:?}"
        );
    }
}
