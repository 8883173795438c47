//! Which certificate one is, as its authority knows it.

use exos_tls::certificate::identity;
use rustls_pki_types::CertificateDer;

/// The extension that says whose key has signed a certificate, as its identifier is encoded.
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

/// Tags of the extensions of a certificate, and of the key's identifier within that one.
const EXTENSIONS: u8 = 0xa3;
const KEY_IDENTIFIER: u8 = 0x80;

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
        0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0, 0xae,
        0x2c, 0xde, 0x01, 0xc8, 0xd4,
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
            assert_eq!(identity(&CertificateDer::from(&certificate[..cut])), None);
        }
    }
    // The issuer's name instead of its key's identifier.
    let named = extension(AUTHORITY_KEY_IDENTIFIER, false, &der(0x30, &der(0xa1, b"")));
    for without in [vec![], vec![usage], vec![named]] {
        assert_eq!(identity(&certificate(&without)), None);
    }
}
