//! What is read in a public key of RSA: how long it is, and its exponent.

use rustls_pki_types::alg_id::RSA_ENCRYPTION;

use super::{INTEGER, element, sequence};

/// The tag of what the key is within (X.690 §8.6).
const BIT_STRING: u8 = 0x03;

/// A public key of RSA.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RsaPublicKey {
    /// Bits of its modulus.
    pub bits: u64,
    /// Its exponent; of one with more than 64 bits the greatest number.
    pub exponent: u64,
}

/// The key in a `SubjectPublicKeyInfo` (RFC 3279 §2.3.1); nothing where it is none of RSA.
pub fn rsa_public_key(spki: &[u8]) -> Option<RsaPublicKey> {
    let (algorithm, rest) = sequence(sequence(spki)?.0)?;
    let (BIT_STRING, bits, _) = element(rest)? else {
        return None;
    };
    if algorithm != RSA_ENCRYPTION.as_ref() {
        return None;
    }
    // All of the last byte's bits belong to it.
    let (INTEGER, modulus, rest) = element(sequence(bits.strip_prefix(&[0])?)?.0)? else {
        return None;
    };
    let (INTEGER, exponent, _) = element(rest)? else {
        return None;
    };
    Some(RsaPublicKey {
        bits: bits_of(modulus),
        exponent: match bits_of(exponent) {
            0..=64 => exponent.iter().fold(0, |e, &byte| e << 8 | u64::from(byte)),
            _ => u64::MAX,
        },
    })
}

/// Bits of a number, without zeros before it.
fn bits_of(number: &[u8]) -> u64 {
    let Some(at) = number.iter().position(|&byte| byte != 0) else {
        return 0;
    };
    (number.len() - at) as u64 * 8 - u64::from(number[at].leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::super::SEQUENCE;
    use super::*;

    /// An element of DER with this tag.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let len = (content.len() as u16).to_be_bytes();
        [&[tag, 0x82], &len[..], content].concat()
    }

    fn public_key(algorithm: &[u8], modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
        let numbers = [der(INTEGER, modulus), der(INTEGER, exponent)].concat();
        let bits = [&[0], &der(SEQUENCE, &numbers)[..]].concat();
        der(
            SEQUENCE,
            &[der(SEQUENCE, algorithm), der(BIT_STRING, &bits)].concat(),
        )
    }

    #[test]
    fn keys_are_measured_by_their_bits() {
        let long = [&[0, 0x80], &[1; 255][..]].concat();
        let short = [&[0x01], &[1; 255][..]].concat();
        let of = |bits, exponent| Some(RsaPublicKey { bits, exponent });
        for (modulus, exponent, expected) in [
            (&long[..], &[1, 0, 1][..], of(2048, 65537)),
            (&short, &[3], of(2041, 3)),
            (
                &short,
                &[0, 0xff, 1, 1, 1, 1, 1, 1, 1],
                of(2041, 0xff01_0101_0101_0101),
            ),
            (&short, &[1; 9], of(2041, u64::MAX)),
            (&[0], &[0], of(0, 0)),
        ] {
            let key = public_key(&RSA_ENCRYPTION, modulus, exponent);
            assert_eq!(rsa_public_key(&key), expected);
            for len in 0..key.len() {
                assert_eq!(rsa_public_key(&key[..len]), None);
            }
        }
        let other = public_key(&rustls_pki_types::alg_id::ED25519, &long, &[1, 0, 1]);
        assert_eq!(rsa_public_key(&other), None);
    }
}
