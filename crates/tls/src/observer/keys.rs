//! From a logged secret to the key of a direction: the suites that are known, TLS 1.3's labels (RFC 8446 §7.1, §7.3) and TLS 1.2's
//! key block (RFC 5246 §5, §6.3).

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305};
use aws_lc_rs::{hkdf, hmac};

use crate::TlsError;
use crate::record::{Cipher, Version};

/// Bytes of a nonce, and of its part that is secret with AES-GCM of TLS 1.2 (RFC 5288 §3).
pub(super) const NONCE_LEN: usize = 12;
const SALT_LEN: usize = 4;

/// A cipher suite, as far as records and keys are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suite {
    aead: &'static Algorithm,
    is_sha384: bool,
}

impl Suite {
    /// By its number; `None` of those that are not decrypted here: CBC, CCM and older ones.
    pub(super) fn of(number: u16) -> Option<Suite> {
        let (aead, is_sha384) = match number {
            // TLS 1.3; TLS 1.2 with ECDHE and ECDSA, ECDHE and RSA, DHE and RSA, RSA alone.
            0x1301 | 0xc02b | 0xc02f | 0x009e | 0x009c => (&AES_128_GCM, false),
            0x1302 | 0xc02c | 0xc030 | 0x009f | 0x009d => (&AES_256_GCM, true),
            0x1303 | 0xcca9 | 0xcca8 | 0xccaa => (&CHACHA20_POLY1305, false),
            _ => return None,
        };
        Some(Suite { aead, is_sha384 })
    }

    /// That of QUIC's Initial packets (RFC 9001 §5.2).
    pub(super) const INITIAL: Suite = Suite {
        aead: &AES_128_GCM,
        is_sha384: false,
    };

    /// The cipher.
    pub(super) fn aead(self) -> &'static Algorithm {
        self.aead
    }

    /// Bytes of its hash, and so of its secrets.
    pub(super) fn hash_len(self) -> usize {
        if self.is_sha384 { 48 } else { 32 }
    }

    /// The numbers of TLS 1.3's.
    pub(super) const ALL_13: [u16; 3] = [0x1301, 0x1302, 0x1303];

    /// The key of TLS 1.3 that follows from a direction's secret.
    pub(super) fn cipher_13(self, secret: &[u8]) -> Result<Cipher, TlsError> {
        let key = self.expand(secret, b"key", self.aead.key_len())?;
        let iv = self.expand(secret, b"iv", NONCE_LEN)?;
        Cipher::of(Version::V13, self.aead, &key, &iv)
    }

    /// The secret behind this one (RFC 8446 §7.2).
    pub(super) fn next_secret(self, secret: &[u8]) -> Result<Vec<u8>, TlsError> {
        self.expand(secret, b"traffic upd", secret.len())
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 §7.1).
    pub(super) fn expand(
        self,
        secret: &[u8],
        label: &[u8],
        len: usize,
    ) -> Result<Vec<u8>, TlsError> {
        let hash = match self.is_sha384 {
            true => hkdf::HKDF_SHA384,
            false => hkdf::HKDF_SHA256,
        };
        Self::expand_key(&hkdf::Prk::new_less_safe(hash, secret), label, len)
    }

    /// That, of what was extracted.
    pub(super) fn expand_key(
        key: &hkdf::Prk,
        label: &[u8],
        len: usize,
    ) -> Result<Vec<u8>, TlsError> {
        struct Len(usize);
        impl hkdf::KeyType for Len {
            fn len(&self) -> usize {
                self.0
            }
        }
        let prefix: &[u8] = b"tls13 ";
        let lens = [0, len as u8, (prefix.len() + label.len()) as u8];
        let info = [&lens, prefix, label, &[0]];
        let mut out = vec![0; len];
        let expanded = key.expand(&info, Len(len)).and_then(|it| it.fill(&mut out));
        expanded.map_err(|_| TlsError::Unexpected)?;
        Ok(out)
    }

    /// The keys of TLS 1.2, the client's and the server's, that follow from the master secret.
    pub(super) fn ciphers_12(
        self,
        master: &[u8],
        server_random: &[u8],
        client_random: &[u8],
    ) -> Result<[Cipher; 2], TlsError> {
        let iv_len = match self.aead == &CHACHA20_POLY1305 {
            true => NONCE_LEN,
            false => SALT_LEN,
        };
        let key_len = self.aead.key_len();
        let hash = match self.is_sha384 {
            true => hmac::HMAC_SHA384,
            false => hmac::HMAC_SHA256,
        };
        let seed = [b"key expansion", server_random, client_random].concat();
        let block = p_hash(hash, master, &seed, 2 * (key_len + iv_len));
        let (keys, ivs) = block.split_at(2 * key_len);
        let cipher = |side: usize| {
            let mut iv = [0; NONCE_LEN];
            iv[..iv_len].copy_from_slice(&ivs[side * iv_len..][..iv_len]);
            Cipher::of(
                Version::V12,
                self.aead,
                &keys[side * key_len..][..key_len],
                &iv,
            )
        };
        Ok([cipher(0)?, cipher(1)?])
    }
}

/// P_hash of RFC 5246 §5.
fn p_hash(hash: hmac::Algorithm, secret: &[u8], seed: &[u8], len: usize) -> Vec<u8> {
    let key = hmac::Key::new(hash, secret);
    let mut out = Vec::new();
    let mut a = hmac::sign(&key, seed);
    while out.len() < len {
        let piece = hmac::sign(&key, &[a.as_ref(), seed].concat());
        out.extend_from_slice(piece.as_ref());
        a = hmac::sign(&key, a.as_ref());
    }
    out.truncate(len);
    out
}
