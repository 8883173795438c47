//! What is read in certificates, and files that hold none. Files with certificates are `tests/serve/tls.sh`'s.

use std::os::unix::fs::PermissionsExt as _;

use exos_testing::corpus;
use exos_tls::certificate::validity;
use exos_tls::files::{Files, certificates, load};
use exos_tls::self_signed;
use rustls_pki_types::CertificateDer;

/// PEM of this (RFC 7468).
pub(crate) fn pem(what: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = der.chunks(3).flat_map(|three| {
        let bytes = [0, 1, 2].map(|at| three.get(at).copied().unwrap_or(0));
        let number = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        let digit = move |at: usize| match at <= three.len() {
            true => char::from(DIGITS[(number >> (18 - 6 * at)) as usize & 63]),
            false => '=',
        };
        [0, 1, 2, 3].map(digit)
    });
    let digits: String = digits.collect();
    format!("-----BEGIN {what}-----\n{digits}\n-----END {what}-----\n")
}

const DAY: i64 = 24 * 3600;

#[test]
fn certificates_say_how_long_they_are_valid() {
    let (certificate, _) = self_signed::certificate(&["a.test".to_owned()]).unwrap();
    let of = validity(&certificate).unwrap();
    assert_eq!(of.until - of.from, 366 * DAY);
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
    let error = load(&files, 0).unwrap_err().to_string();
    assert!(
        error.contains("no certificate in /proc/self/status"),
        "{error}"
    );
    for none in ["/dev/zero", "/proc/self"] {
        let error = certificates(std::path::Path::new(none)).unwrap_err();
        assert!(error.to_string().contains("it is no file"), "{error}");
    }
}

/// A pipe that nobody writes to is not waited for, and a file without an end is no certificate.
#[test]
fn what_is_read_has_an_end() {
    let folder = std::env::temp_dir().join(format!("exos-tls-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (pipe, long) = (folder.join("pipe"), folder.join("long"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let long_file = std::fs::File::create(&long).unwrap();
    long_file
        .set_len(exos_tls::limits::PEM_LEN_MAX + 1)
        .unwrap();
    let of_pipe = certificates(&pipe).unwrap_err().to_string();
    let of_long = certificates(&long).unwrap_err().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(of_pipe.contains("it is no file"), "{of_pipe}");
    assert!(of_long.contains("longer than"), "{of_long}");
}

/// A key is its owner's: who else can read it is said.
#[test]
fn readers_of_a_key_are_told_of() {
    let folder = std::env::temp_dir().join(format!("exos-tls-keys-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (certificate, key) = self_signed::certificate(&["a.test".to_owned()]).unwrap();
    let files = Files {
        certificate: folder.join("certificate"),
        key: folder.join("key"),
        ocsp: None,
    };
    std::fs::write(&files.certificate, pem("CERTIFICATE", &certificate)).unwrap();
    std::fs::write(&files.key, pem("PRIVATE KEY", key.secret_der())).unwrap();
    let now = validity(&certificate).unwrap().from + 2 * DAY;
    let mut said = Vec::new();
    for mode in [0o600, 0o640, 0o604] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&files.key, permissions).unwrap();
        said.push(load(&files, now).unwrap().warnings);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(said[0], [""; 0]);
    assert!(said[1][0].contains("chmod 600") && said[2][0].contains("chmod 600"));
}

/// A key of RSA with a small exponent is refused before it is looked whether the certificate is its own.
#[test]
fn small_exponents_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, _) = self_signed::certificate(&["a.test".to_owned()]).unwrap();
    let files = Files {
        certificate: folder.path().join("certificate"),
        key: folder.path().join("key"),
        ocsp: None,
    };
    std::fs::write(&files.certificate, pem("CERTIFICATE", &certificate)).unwrap();
    for (asked, said) in [
        (&["-3", "2048"][..], "RSA with the exponent 3"),
        (&["2048"], "does not belong to the certificate"),
    ] {
        let mut openssl = std::process::Command::new("openssl");
        let made = openssl.args(["genrsa", "-out"]).arg(&files.key).args(asked);
        assert!(made.output().unwrap().status.success());
        let error = load(&files, 0).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
