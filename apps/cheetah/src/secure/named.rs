//! Whether certificates are for the names of the sites that have them.

use std::sync::Arc;

use exos_tls::files::Files;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

/// What an operator should know: which of these names the certificate of each of these files is not for, so that clients refuse it.
pub(super) fn warnings(
    files: &[Files],
    keys: &[Arc<CertifiedKey>],
    names: &[String],
) -> Vec<String> {
    let with_names = files.iter().zip(keys).filter_map(|(file, key)| {
        let leaf = key.cert.first()?;
        let others = names.iter().filter(|name| !is_for(leaf, name));
        let others: Vec<&str> = others.map(String::as_str).collect();
        (!others.is_empty()).then(|| {
            format!(
                "the certificate in {} is not for {}: clients that ask for that refuse it; get one that has all names of its site",
                file.certificate.display(),
                others.join(", ")
            )
        })
    });
    with_names.collect()
}

/// Whether a certificate is for a name as `example.org`, `*.example.org` or `[2001:db8::7]`.
fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    // Any name that the star stands for, and no certificate names.
    let name = match name.strip_prefix("*.") {
        Some(rest) => format!("any-other.{rest}"),
        None => name.replace(['[', ']'], ""),
    };
    let parsed = ParsedCertificate::try_from(certificate);
    let (Ok(parsed), Ok(name)) = (parsed, ServerName::try_from(name)) else {
        return true; // What cannot be compared is not warned of.
    };
    verify_server_name(&parsed, &name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_told() {
        let of = ["a.test", "*.b.test", "2001:db8::7"].map(str::to_owned);
        let (certificate, key) = exos_tls::self_signed::certificate(&of).unwrap();
        let provider = exos_tls::policy::server_provider(&[]);
        let key = Arc::new(CertifiedKey::from_der(vec![certificate], key, &provider).unwrap());
        let files = Files {
            certificate: "c.pem".into(),
            key: "k.pem".into(),
            ocsp: None,
        };
        let warned = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
            warnings(
                std::slice::from_ref(&files),
                std::slice::from_ref(&key),
                &names,
            )
        };
        let own = ["a.test", "*.b.test", "x.b.test", "[2001:db8::7]"];
        assert!(warned(&own).is_empty() && warned(&[]).is_empty());
        for other in [
            "b.test",
            "*.test",
            "www.a.test",
            "[2001:db8::8]",
            "192.0.2.7",
        ] {
            let said = warned(&["a.test", other]);
            assert_eq!(said.len(), 1, "{other}");
            assert!(
                said[0].starts_with(&format!("the certificate in c.pem is not for {other}: ")),
                "{said:?}"
            );
        }
    }
}
