//! Why a handshake failed, as a client sees it: in a word, for counters, and what a person can do about it.

use rustls::{AlertDescription, CertificateError, Error};

use crate::TlsError;

/// A word for it.
#[must_use]
pub fn reason(error: &TlsError) -> &'static str {
    match error {
        TlsError::Config(_) => "configuration",
        TlsError::NotTls { .. } => "not_tls",
        TlsError::Handshake(Error::InvalidCertificate(error)) => certificate(error),
        TlsError::Handshake(Error::NoCertificatesPresented) => "no_certificate",
        TlsError::Handshake(Error::PeerIncompatible(_)) => "incompatible",
        TlsError::Handshake(Error::NoApplicationProtocol) => "no_application_protocol",
        TlsError::Handshake(Error::AlertReceived(alert)) | TlsError::Alert(alert) => {
            alerted(*alert)
        }
        TlsError::Handshake(_) => "malformed",
        TlsError::BadRecord | TlsError::TooLong => "bad_record",
        TlsError::Unexpected | TlsError::Illegal | TlsError::Useless => "unexpected_message",
        TlsError::Exhausted | TlsError::Over => "over",
    }
}

fn certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate_expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate_not_valid_yet"
        }
        // Of an authority that has the name of one that is trusted.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate_not_trusted"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "certificate_of_another_name"
        }
        _ => "certificate_invalid",
    }
}

/// The server has broken off.
fn alerted(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::HandshakeFailure => "alert_handshake_failure",
        AlertDescription::ProtocolVersion => "alert_protocol_version",
        AlertDescription::UnrecognisedName => "alert_unrecognized_name",
        AlertDescription::CertificateRequired => "alert_certificate_required",
        AlertDescription::NoApplicationProtocol => "alert_no_application_protocol",
        AlertDescription::InternalError => "alert_internal_error",
        _ => "alert",
    }
}

/// What went wrong with this server, for a person, and what can be done about it.
#[must_use]
pub fn told(error: &TlsError, server: &str) -> exos_host::Error {
    let what = match error {
        TlsError::NotTls { .. } => "what it answers is none".to_owned(),
        TlsError::Handshake(Error::InvalidCertificate(error)) => wrong(error),
        _ => error.to_string(),
    };
    let told = exos_host::Error::new(format!("no TLS with {server}: {what}"));
    match mend(reason(error)) {
        Some(mend) => told.mend(mend),
        None => told,
    }
}

/// What is wrong with a server's certificate.
fn wrong(error: &CertificateError) -> String {
    let what = match certificate(error) {
        "certificate_expired" => "has expired",
        "certificate_not_valid_yet" => "is not valid yet",
        _ => match error {
            CertificateError::UnknownIssuer => {
                return "no authority that is trusted here has signed its certificate".to_owned();
            }
            CertificateError::BadSignature => {
                "is signed by an authority that is not the one of this name that is trusted here, or has another key"
            }
            CertificateError::BadEncoding => "is broken",
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                "is not for servers"
            }
            // Names of the verifier's (rustls-webpki).
            CertificateError::Other(other) => match &*other.to_string() {
                "UnsupportedCriticalExtension" => {
                    "has a critical extension that is not understood here"
                }
                "CaUsedAsEndEntity" => "is an authority's, and none for servers",
                "EndEntityUsedAsCa" => "is signed by what is no authority",
                "PathLenConstraintViolated" => {
                    "has more authorities above it than one of them allows"
                }
                "NameConstraintViolation" => {
                    "is for a name that an authority above it may not sign for"
                }
                other => return format!("its certificate is not good: {other}"),
            },
            other => return format!("its certificate is not good: {other}"),
        },
    };
    format!("its certificate {what}")
}

fn mend(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "not_tls" => "give a port at which TLS is spoken, or leave TLS out",
        "certificate_not_trusted" => {
            "give the authority's certificate, or this one if nobody else has signed it, with --cacert; or have nothing checked, with --insecure"
        }
        "certificate_of_another_name" => {
            "give the certificate's name with --tls-name; or have nothing checked, with --insecure"
        }
        "certificate_expired" | "certificate_not_valid_yet" => {
            "renew the certificate, or set the clock; or have nothing checked, with --insecure"
        }
        "certificate_invalid" => {
            "if it is yours, trust it with --cacert; or have nothing checked, with --insecure"
        }
        "alert_handshake_failure" => {
            "it may have no version, no suite or no kind of certificate in common with this client: look at what the server logs or counts"
        }
        "alert_unrecognized_name" => "give a name that the server has with --tls-name",
        _ => return None,
    })
}
