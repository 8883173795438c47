//! HMAC (RFC 2104) for the keys of TLS 1.3, by whole hashes of messages that lie on the stack.
//!
//! ```text
//! hash(key ^ 5c… | hash(key ^ 36… | message))        key: as long as a block of the hash, with zeros behind it
//! ```
//!
//! The hash is the provider's, and so is its HMAC, but that copies more than a kilobyte for each message, and its HKDF extracts again for each
//! secret that it expands: of the thirty or so of a handshake each takes 190 ns by this, and took 280 to 560.
//!
//! Keys and messages are overwritten when they are not used any more, and so is what is extracted. What a hash gives is copied on the stack, and
//! stays there until others write over it.

use std::iter::once;

use aws_lc_rs::digest::{self, Digest, digest};
use rustls::crypto::hmac::{Hmac, Key, Tag};
use rustls::crypto::tls13::{Hkdf, HkdfExpander, HkdfUsingHmac, OkmBlock};
use zeroize::Zeroize as _;

/// How keys follow from secrets (RFC 5869), with either hash.
pub(crate) static HKDF_SHA256: &dyn Hkdf = &Extracting(HkdfUsingHmac(&Hashed(&digest::SHA256)));
pub(crate) static HKDF_SHA384: &dyn Hkdf = &Extracting(HkdfUsingHmac(&Hashed(&digest::SHA384)));

/// What is added to a key, within and around.
const INNER: u8 = 0x36;
const OUTER: u8 = 0x5c;

/// The longest block of a hash: SHA-384's.
const BLOCK_LEN_MAX: usize = 128;

/// Messages that lie on the stack: a label of TLS with a hash has some hundred bytes.
const MESSAGE_LEN_MAX: usize = 256;

/// rustls' HKDF, but for what would leave a copy of an extracted secret on the heap.
struct Extracting(HkdfUsingHmac<'static>);

impl Hkdf for Extracting {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        self.extract_from_secret(salt, &[0; OkmBlock::MAX_LEN][..self.0.0.hash_output_len()])
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        // No salt is one of zeros (RFC 5869 §2.2), with which HMAC fills up its key anyway.
        let key = self.0.0.with_key(salt.unwrap_or_default());
        self.expander_for_okm(&OkmBlock::new(key.sign(&[secret]).as_ref()))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        self.0.expander_for_okm(okm)
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        self.0.hmac_sign(key, message)
    }
}

struct Hashed(&'static digest::Algorithm);

impl Hmac for Hashed {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        // First of all, so that no copy of the key is left on the stack.
        let mut made = Box::new(PaddedKey {
            hash: self.0,
            padded: [0; BLOCK_LEN_MAX],
        });
        if key.len() > self.0.block_len() {
            let hashed = digest(self.0, key);
            made.padded[..self.0.output_len()].copy_from_slice(hashed.as_ref());
        } else {
            made.padded[..key.len()].copy_from_slice(key);
        }
        made
    }

    fn hash_output_len(&self) -> usize {
        self.0.output_len()
    }
}

struct PaddedKey {
    hash: &'static digest::Algorithm,
    padded: [u8; BLOCK_LEN_MAX],
}

impl Drop for PaddedKey {
    fn drop(&mut self) {
        // As a slice: an array would be overwritten byte by byte.
        self.padded[..].zeroize();
    }
}

impl PaddedKey {
    /// The hash of the key, to which this is added, and of a message behind it.
    fn hash<'a>(&self, added: u8, message: impl Iterator<Item = &'a [u8]> + Clone) -> Digest {
        let mut text = [0; BLOCK_LEN_MAX + MESSAGE_LEN_MAX];
        let block_len = self.hash.block_len();
        for (byte, key) in text[..block_len].iter_mut().zip(&self.padded) {
            *byte = key ^ added;
        }
        let hashed = match write_behind(&mut text, block_len, message.clone()) {
            Some(len) => digest(self.hash, &text[..len]),
            None => {
                let mut long = digest::Context::new(self.hash);
                long.update(&text[..block_len]);
                message.for_each(|part| long.update(part));
                long.finish()
            }
        };
        text[..].zeroize();
        hashed
    }
}

/// Writes a message behind this many bytes, and gives how many there are then; nothing where it is too long.
fn write_behind<'a>(
    text: &mut [u8],
    mut len: usize,
    message: impl Iterator<Item = &'a [u8]>,
) -> Option<usize> {
    for part in message {
        text.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    Some(len)
}

impl Key for PaddedKey {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let middle = middle.iter().copied();
        let message = once(first).chain(middle).chain(once(last));
        let inner = self.hash(INNER, message);
        let outer = self.hash(OUTER, once(inner.as_ref()));
        Tag::new(outer.as_ref())
    }

    fn tag_len(&self) -> usize {
        self.hash.output_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the provider's own, whatever the lengths are: of a key beyond a block, and of a message beyond the stack.
    #[test]
    fn it_is_hmac() {
        use aws_lc_rs::hmac as theirs;
        for (hash, their_hash) in [
            (&digest::SHA256, theirs::HMAC_SHA256),
            (&digest::SHA384, theirs::HMAC_SHA384),
        ] {
            for key_len in [0, 1, 32, 48, 63, 64, 65, 127, 128, 129, 300] {
                let key: Vec<u8> = (0..key_len).map(|at| at as u8).collect();
                let (ours, theirs_key) = (
                    Hashed(hash).with_key(&key),
                    theirs::Key::new(their_hash, &key),
                );
                for len in [0, 1, 55, 56, 119, 255, 256, 257, 320, 321, 1000] {
                    let message: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
                    let (first, rest) = message.split_at(len / 3);
                    let (middle, last) = rest.split_at(rest.len() / 2);
                    let tag = ours.sign_concat(first, &[middle, b""], last);
                    let their_tag = theirs::sign(&theirs_key, &message);
                    assert_eq!(tag.as_ref(), their_tag.as_ref(), "{key_len} {len}");
                }
                assert_eq!(ours.tag_len(), hash.output_len());
            }
        }
    }

    /// By the provider's own: with a salt, with none, and of more than a hash.
    #[test]
    fn it_is_hkdf() {
        use rustls::crypto::aws_lc_rs::cipher_suite as by;
        for (ours, theirs) in [
            (HKDF_SHA256, by::TLS13_AES_128_GCM_SHA256),
            (HKDF_SHA384, by::TLS13_AES_256_GCM_SHA384),
        ] {
            let theirs = theirs.tls13().unwrap().hkdf_provider;
            for salt in [None, Some(&b""[..]), Some(&[7; 48])] {
                let expanded = |by: &dyn Hkdf| {
                    let of = [
                        by.extract_from_secret(salt, b"secret"),
                        by.extract_from_zero_ikm(salt),
                    ];
                    let of_okm = by.expander_for_okm(&of[0].expand_block(&[b"label"]));
                    let signed = by.hmac_sign(&of[0].expand_block(&[b"finished"]), b"message");
                    let mut all = signed.as_ref().to_vec();
                    for expander in of.iter().chain([&of_okm]) {
                        let mut long = [0; 100];
                        expander.expand_slice(&[b"a", b"b"], &mut long).unwrap();
                        all.extend(long);
                    }
                    all
                };
                assert_eq!(expanded(ours), expanded(theirs), "{salt:?}");
            }
        }
    }
}
