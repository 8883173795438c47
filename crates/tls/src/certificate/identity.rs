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

#[cfg(test)]
mod tests {
    use super::*;

    /// An element of DER.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// A certificate with these extensions, as far as it is looked at.
    fn certificate(extensions: &[Vec<u8>]) -> CertificateDer<'static> {
        let empty = der(0x30, b"");
        let fields = [
            der(0xa0, &der(0x02, &[2])),
            der(0x02, &[0, 0x87, 0x65, 0x43, 0x21]),
            empty.clone(),
            empty.clone(),
            empty.clone(),
            empty.clone(),
            empty.clone(),
            der(EXTENSIONS, &der(0x30, &extensions.concat())),
        ];
        der(0x30, &der(0x30, &fields.concat())).into()
    }

    fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
        let is_critical = if critical {
            der(0x01, &[0xff])
        } else {
            Vec::new()
        };
        let all = [der(0x06, id), is_critical, der(0x04, value)];
        der(0x30, &all.concat())
    }

    /// The example of RFC 9773 §4.1 has this serial number and this key.
    #[test]
    fn the_key_and_the_serial_number_are_found() {
        let key = [
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0,
            0xae, 0x2c, 0xde, 0x01, 0xc8, 0xd4,
        ];
        let usage = extension(&[0x55, 0x1d, 0x0f], true, &[3, 2, 7, 128]);
        let value = der(0x30, &der(KEY_IDENTIFIER, &key));
        for critical in [false, true] {
            let of_key = extension(AUTHORITY_KEY_IDENTIFIER, critical, &value);
            let certificate = certificate(&[usage.clone(), of_key]);
            let found = identity(&certificate).unwrap();
            assert_eq!(found.authority_key, key);
            assert_eq!(found.serial, [0, 0x87, 0x65, 0x43, 0x21]);
            // Cut anywhere it is none, and nothing panics.
            for cut in 0..certificate.len() {
                assert_eq!(identity(&certificate[..cut].into()), None);
            }
        }
        // The issuer's name instead of its key's identifier.
        let named = extension(AUTHORITY_KEY_IDENTIFIER, false, &der(0x30, &der(0xa1, b"")));
        for without in [vec![], vec![usage], vec![named]] {
            assert_eq!(identity(&certificate(&without)), None);
        }
    }
}
