//! When an authority advises to renew a certificate (ARI, RFC 9773): so that its load is spread, and so that certificates are renewed in
//! time that it has to revoke.

use std::path::Path;
use std::time::Duration;

use exos_tls::certificate::{UnixSecs, Validity, identity};
use exos_tls::files;
use instant_acme::{CertificateIdentifier, Error as AcmeError, RenewalInfo};

use super::schedule::renew_in;

/// What it advises for a certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Advice {
    /// When to renew it: any time from then on.
    pub(super) from: UnixSecs,
    /// Until then.
    pub(super) until: UnixSecs,
    /// Where it says why, if it does.
    pub(super) explanation: Option<String>,
}

impl Advice {
    fn of(info: RenewalInfo) -> Advice {
        let plain = |url: &String| !url.contains(char::is_control) && url.len() <= 500;
        Advice {
            from: info.suggested_window.start.unix_timestamp(),
            until: info.suggested_window.end.unix_timestamp(),
            explanation: info.explanation_url.filter(plain),
        }
    }

    /// When to renew a certificate.
    pub(super) fn renew_at(&self, validity: Validity, spread: u64) -> UnixSecs {
        renew_in((self.from, self.until), validity, spread)
    }
}

/// What an authority has answered.
#[derive(Debug)]
pub(super) enum Advised {
    /// This, and when it is to be asked again.
    Renew(Advice, Duration),
    /// It gives no advice.
    Nothing,
    /// It has refused for this one.
    Failed,
    /// It was not reached, or has answered nothing that is understood: it would be so for others.
    Unreached,
}

impl Advised {
    /// What `instant-acme` has got.
    pub(super) fn of(answer: Result<(RenewalInfo, Duration), AcmeError>) -> Advised {
        match answer {
            Ok((info, again)) => Advised::Renew(Advice::of(info), again),
            Err(AcmeError::Unsupported(_)) => Advised::Nothing,
            Err(AcmeError::Api(_)) => Advised::Failed,
            Err(_) => Advised::Unreached,
        }
    }
}

/// What an authority knows the certificate in a file by, if it says that.
pub(super) fn identifier(file: &Path) -> Option<CertificateIdentifier<'static>> {
    let certificates = files::certificates(file).ok()?;
    let found = identity(certificates.first()?)?;
    let identifier = CertificateIdentifier::new(found.authority_key.into(), found.serial.into());
    Some(identifier.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_read_and_its_words_are_bounded() {
        let json = |url: &str| {
            let json = serde_json::json!({
                "suggestedWindow": {"start": "2025-01-02T04:00:00Z", "end": "2025-01-03T04:00:00Z"},
                "explanationURL": url,
            });
            Advice::of(serde_json::from_value(json).unwrap())
        };
        let advice = json("https://ca.test/why");
        assert_eq!((advice.from, advice.until), (1_735_790_400, 1_735_876_800));
        assert_eq!(advice.explanation.as_deref(), Some("https://ca.test/why"));
        assert_eq!(json("a\nb").explanation, None);
        assert_eq!(json(&"x".repeat(501)).explanation, None);
        assert!(matches!(
            Advised::of(Err(AcmeError::Unsupported("it"))),
            Advised::Nothing
        ));
        assert!(matches!(
            Advised::of(Err(AcmeError::Str("else"))),
            Advised::Unreached
        ));
        let problem = serde_json::from_value(serde_json::json!({})).unwrap();
        let refused = Advised::of(Err(AcmeError::Api(problem)));
        assert!(matches!(refused, Advised::Failed));
    }
}
