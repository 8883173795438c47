//! The key of one direction: encrypts and decrypts records in their order.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

use super::{ContentType, Header, Version};
use crate::TlsError;
use crate::limits::{COPY_LEN, HEADER_LEN, PLAIN_LEN_MAX, RECORDS_MAX};

/// Bytes of a nonce, of its part that TLS 1.2 sends along with AES-GCM, and of the tag.
const NONCE_LEN: usize = 12;
const EXPLICIT_LEN: usize = 8;
pub(crate) const TAG_LEN: usize = 16;

/// What a record was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Opened {
    /// Its real type.
    pub(crate) content_type: ContentType,
    /// Bytes of its plaintext.
    pub(crate) len: usize,
}

/// The key of one direction, and how many records it has had. It is a secret: it has no `Debug`.
pub(crate) struct Cipher {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    version: Version,
    /// AES-GCM. In TLS 1.2 a part of its nonce is sent along.
    is_gcm: bool,
}

impl Cipher {
    /// Of what a handshake has agreed on, from this record on.
    ///
    /// # Errors
    ///
    /// The suite is none that is known here.
    pub(crate) fn new(
        version: Version,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
    ) -> Result<Cipher, TlsError> {
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(TlsError::Unexpected),
        };
        let mut cipher = Cipher::of(version, algorithm, key.as_ref(), iv.as_ref())?;
        cipher.sequence = sequence;
        Ok(cipher)
    }

    /// Of this key, from its first record on.
    ///
    /// # Errors
    ///
    /// Key or nonce are not as long as the algorithm has them.
    pub(crate) fn of(
        version: Version,
        algorithm: &'static Algorithm,
        key: &[u8],
        iv: &[u8],
    ) -> Result<Cipher, TlsError> {
        let key = UnboundKey::new(algorithm, key).map_err(|_| TlsError::Unexpected)?;
        Ok(Cipher {
            key: LessSafeKey::new(key),
            iv: iv.try_into().map_err(|_| TlsError::Unexpected)?,
            sequence: 0,
            version,
            is_gcm: algorithm != &CHACHA20_POLY1305,
        })
    }

    /// A part of the nonce is sent along.
    fn is_explicit(&self) -> bool {
        self.is_gcm && self.version == Version::V12
    }

    /// It has encrypted as many records as it may.
    pub(crate) fn is_used_up(&self) -> bool {
        self.is_gcm && self.sequence >= RECORDS_MAX
    }

    /// What a record takes beside its plaintext.
    pub(crate) fn overhead(&self) -> usize {
        let inner_type = usize::from(self.version == Version::V13);
        let explicit = if self.is_explicit() { EXPLICIT_LEN } else { 0 };
        HEADER_LEN + explicit + inner_type + TAG_LEN
    }

    /// Appends a record of these pieces, which are no longer than a record may be.
    ///
    /// # Errors
    ///
    /// They are longer, and nothing is appended.
    pub(crate) fn seal<'a>(
        &mut self,
        content_type: ContentType,
        pieces: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let begin = out.len();
        let sealed = self.seal_behind(content_type, pieces, begin, out);
        if sealed.is_err() {
            out.truncate(begin); // Plaintext does not leave.
        }
        sealed
    }

    fn seal_behind<'a>(
        &mut self,
        content_type: ContentType,
        pieces: impl Iterator<Item = &'a [u8]>,
        begin: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        out.extend_from_slice(&[0; HEADER_LEN]);
        let nonce = self.nonce();
        if self.is_explicit() {
            out.extend_from_slice(&nonce[NONCE_LEN - EXPLICIT_LEN..]);
        }
        let from = out.len();
        // The C library copies long pieces by `rep movsb`, at two thirds of the rate on some processors.
        let pieces = pieces.flat_map(|piece| piece.chunks(COPY_LEN));
        pieces.for_each(|piece| out.extend_from_slice(piece));
        let plain_len = len_of(out.len() - from)?;
        if self.version == Version::V13 {
            out.push(content_type.number());
        }
        let header = Header {
            content_type: match self.version {
                Version::V13 => ContentType::Data,
                Version::V12 => content_type,
            },
            len: len_of(out.len() - begin - HEADER_LEN + TAG_LEN)?,
        };
        out[begin..begin + HEADER_LEN].copy_from_slice(&header.to_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let (aad, aad_len) = self.aad(header, plain_len);
        let aad = Aad::from(&aad[..aad_len]);
        let key = &self.key;
        let tag = key.seal_in_place_separate_tag(nonce, aad, &mut out[from..]);
        let tag = tag.map_err(|_| TlsError::TooLong)?;
        out.extend_from_slice(tag.as_ref());
        self.sequence += 1;
        Ok(())
    }

    /// Decrypts what follows a record's header, and leaves the plaintext behind what is in the vector already.
    ///
    /// # Errors
    ///
    /// It is not what the peer has sent, and nothing is left of it.
    pub(crate) fn open(
        &mut self,
        header: Header,
        payload: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Opened, TlsError> {
        let from = plain.len();
        let opened = self.open_behind(header, payload, from, plain);
        match &opened {
            Ok(opened) => plain.truncate(from + opened.len),
            Err(_) => plain.truncate(from),
        }
        opened
    }

    fn open_behind(
        &mut self,
        header: Header,
        payload: &[u8],
        from: usize,
        plain: &mut Vec<u8>,
    ) -> Result<Opened, TlsError> {
        let mut nonce = self.nonce();
        let mut encrypted = payload;
        if self.is_explicit() {
            let (explicit, rest) = payload
                .split_first_chunk::<EXPLICIT_LEN>()
                .ok_or(TlsError::BadRecord)?;
            nonce = self.iv;
            nonce[NONCE_LEN - EXPLICIT_LEN..].copy_from_slice(explicit);
            encrypted = rest;
        }
        let plain_len = encrypted.len().checked_sub(TAG_LEN);
        let plain_len = plain_len.ok_or(TlsError::BadRecord)?;
        plain.extend_from_slice(encrypted);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let (aad, aad_len) = self.aad(header, len_of(plain_len)?);
        let opened = self
            .key
            .open_in_place(nonce, Aad::from(&aad[..aad_len]), &mut plain[from..]);
        opened.map_err(|_| TlsError::BadRecord)?;
        self.sequence += 1;
        let mut opened = Opened {
            content_type: header.content_type,
            len: plain_len,
        };
        let mut len_max = PLAIN_LEN_MAX;
        if self.version == Version::V13 {
            len_max += 1; // Its type, and padding, if there is room for some (RFC 8446 §5.4).
        }
        if plain_len > len_max {
            return Err(TlsError::TooLong);
        }
        if self.version == Version::V13 {
            // The real type is the last byte that is not zero (RFC 8446 §5.4).
            let inner = &plain[from..from + plain_len];
            let at = inner.iter().rposition(|&byte| byte != 0);
            let at = at.ok_or(TlsError::Unexpected)?;
            opened = Opened {
                content_type: ContentType::parse(inner[at])?,
                len: at,
            };
        }
        Ok(opened)
    }

    /// Of the record that is next.
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        let sequence = self.sequence.to_be_bytes();
        for (byte, with) in nonce[NONCE_LEN - EXPLICIT_LEN..].iter_mut().zip(sequence) {
            *byte ^= with;
        }
        nonce
    }

    /// What is authenticated beside the plaintext, and how long it is: the header, and in TLS 1.2 the number of the record before
    /// it (RFC 5246 §6.2.3.3).
    fn aad(&self, header: Header, plain_len: u16) -> ([u8; EXPLICIT_LEN + HEADER_LEN], usize) {
        let mut aad = [0; EXPLICIT_LEN + HEADER_LEN];
        match self.version {
            Version::V13 => {
                aad[..HEADER_LEN].copy_from_slice(&header.to_bytes());
                (aad, HEADER_LEN)
            }
            Version::V12 => {
                let header = Header {
                    len: plain_len,
                    ..header
                };
                aad[..EXPLICIT_LEN].copy_from_slice(&self.sequence.to_be_bytes());
                aad[EXPLICIT_LEN..].copy_from_slice(&header.to_bytes());
                (aad, aad.len())
            }
        }
    }
}

/// A length as a header has it.
fn len_of(count: usize) -> Result<u16, TlsError> {
    u16::try_from(count).map_err(|_| TlsError::TooLong)
}
