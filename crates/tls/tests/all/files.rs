//! What is read in certificates, and files that hold none. Files with certificates are `tests/serve/tls.sh`'s.

use exos_testing::corpus;
use exos_tls::certificate::validity;
use exos_tls::files::{Files, certificates, load};
use exos_tls::policy::provider;
use exos_tls::self_signed;
use rustls_pki_types::CertificateDer;

const DAY: i64 = 24 * 3600;

#[test]
fn certificates_say_how_long_they_are_valid() {
    let (certificate, _) = self_signed::certificate(&["a.test".to_owned()]).unwrap();
    let of = validity(&certificate).unwrap();
    assert!(of.from < of.until);
    // By openssl, for 30 days, and for more than there is room in two digits of a year.
    for (name, days) in [("p256", 30), ("rsa-until-2070", 16_000)] {
        let inputs = corpus("tls_certificate");
        let (_, bytes) = inputs.into_iter().find(|(of, _)| of == name).unwrap();
        let of = validity(&CertificateDer::from(&bytes[..])).unwrap();
        assert_eq!(of.until - of.from, days * DAY, "{name}");
        for len in 0..bytes.len() {
            assert_eq!(validity(&CertificateDer::from(&bytes[..len])), None);
        }
    }
}

#[test]
fn names_that_are_none_get_no_certificate() {
    assert!(self_signed::certificate(&["münchen.example".to_owned()]).is_err());
}

#[test]
fn what_is_missing_is_said() {
    let nowhere = std::path::Path::new("/nowhere/cert.pem");
    let error = certificates(nowhere).unwrap_err().to_string();
    assert!(error.contains("/nowhere/cert.pem"), "{error}");
    let files = Files {
        certificate: "/proc/self/status".into(),
        key: nowhere.into(),
        ocsp: None,
    };
    let error = load(&files, &provider(&[]), 0).unwrap_err().to_string();
    assert!(
        error.contains("no certificate in /proc/self/status"),
        "{error}"
    );
    let endless = certificates(std::path::Path::new("/dev/zero")).unwrap_err();
    assert!(endless.to_string().contains("longer than"), "{endless}");
}
