//! Which certificate one is, as its authority knows it (RFC 9773 §4.1): the key that has signed it, and its serial number.

use rustls_pki_types::CertificateDer;

use super::{element, sequence};

/// The extension that says which key has signed a certificate (RFC 5280 §4.2.1.1), as its identifier is encoded.
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

/// Tags of DER: an object identifier, an octet string, the extensions of a certificate, and the identifier within that one.
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const EXTENSIONS: u8 = 0xa3;
const KEY_IDENTIFIER: u8 = 0x80;

/// Which certificate one is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity<'a> {
    /// What its issuer calls the key that has signed it.
    pub authority_key: &'a [u8],
    /// Its serial number, as it is encoded.
    pub serial: &'a [u8],
}

/// Which certificate one is; nothing where it does not say whose key has signed it, or is none.
pub fn identity<'a>(certificate: &'a CertificateDer<'_>) -> Option<Identity<'a>> {
    let serial = super::fields(certificate)?.serial;
    let (whole, _) = sequence(certificate)?;
    let (mut rest, _) = sequence(whole)?;
    while let Some((tag, content, behind)) = element(rest) {
        if tag == EXTENSIONS {
            let authority_key = authority_key(sequence(content)?.0)?;
            return Some(Identity {
                authority_key,
                serial,
            });
        }
        rest = behind;
    }
    None
}

fn authority_key(mut extensions: &[u8]) -> Option<&[u8]> {
    while let Some((extension, behind)) = sequence(extensions) {
        extensions = behind;
        let (OBJECT_IDENTIFIER, AUTHORITY_KEY_IDENTIFIER, mut rest) = element(extension)? else {
            continue;
        };
        // Behind whether it is critical, which it is not.
        while let Some((tag, content, behind)) = element(rest) {
            if tag == OCTET_STRING {
                return match element(sequence(content)?.0)? {
                    (KEY_IDENTIFIER, key, _) => Some(key),
                    _ => None,
                };
            }
            rest = behind;
        }
    }
    None
}
