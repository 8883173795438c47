//! One record of a session whose handshake is over (RFC 8446 §5, RFC 5246 §6.2).
//!
//! ```text
//! header    type, legacy version 3.3, length of what follows            5 bytes
//! TLS 1.3   encrypted: plaintext, its real type; tag                     plaintext + 1 + 16
//! TLS 1.2   AES-GCM: explicit nonce, encrypted plaintext, tag            8 + plaintext + 16
//!           ChaCha20-Poly1305: encrypted plaintext, tag (RFC 7905)       plaintext + 16
//! ```

mod cipher;

pub(crate) use cipher::{Cipher, Opened, TAG_LEN};

use crate::TlsError;
use crate::limits::{EXPANSION_12_MAX, EXPANSION_MAX, HEADER_LEN, PLAIN_LEN_MAX};

/// What a record carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ContentType {
    /// A message for middleboxes, and of TLS 1.2 in a handshake.
    ChangeCipherSpec,
    /// The session ends, or something is wrong.
    Alert,
    /// Of the handshake, or behind it: tickets, changes of keys.
    Handshake,
    /// What it is all for.
    Data,
}

impl ContentType {
    /// By its number.
    pub(crate) fn parse(number: u8) -> Result<ContentType, TlsError> {
        Ok(match number {
            20 => ContentType::ChangeCipherSpec,
            21 => ContentType::Alert,
            22 => ContentType::Handshake,
            23 => ContentType::Data,
            _ => return Err(TlsError::Unexpected),
        })
    }

    /// Its number.
    pub(crate) fn number(self) -> u8 {
        match self {
            ContentType::ChangeCipherSpec => 20,
            ContentType::Alert => 21,
            ContentType::Handshake => 22,
            ContentType::Data => 23,
        }
    }
}

/// Which version, where it matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Version {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// What headers say of the version, whichever it is.
const VERSION: [u8; 2] = [3, 3];

/// The header of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    /// Of TLS 1.3 it says `Data` of all that is encrypted.
    pub(crate) content_type: ContentType,
    /// Bytes that follow.
    pub(crate) len: u16,
}

impl Header {
    /// The header that bytes begin with; nothing while it is not whole.
    ///
    /// # Errors
    ///
    /// There is none, or the record is longer than this version allows.
    pub(crate) fn parse(bytes: &[u8], version: Version) -> Result<Option<Header>, TlsError> {
        let Some((&[content_type, major, minor, high, low], _)) =
            bytes.split_first_chunk::<HEADER_LEN>()
        else {
            return Ok(None);
        };
        let content_type = ContentType::parse(content_type)?;
        if [major, minor] != VERSION {
            return Err(TlsError::Unexpected); // It is authenticated with the rest of the header.
        }
        let len = u16::from_be_bytes([high, low]);
        let most = match version {
            Version::V12 => PLAIN_LEN_MAX + EXPANSION_12_MAX,
            Version::V13 => PLAIN_LEN_MAX + EXPANSION_MAX,
        };
        if usize::from(len) > most {
            return Err(TlsError::TooLong);
        }
        Ok(Some(Header { content_type, len }))
    }

    /// As bytes.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let ([major, minor], [high, low]) = (VERSION, self.len.to_be_bytes());
        [self.content_type.number(), major, minor, high, low]
    }
}
