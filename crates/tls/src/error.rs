//! Why a session cannot begin or go on.

use std::fmt;

use rustls::AlertDescription;

/// Why a session cannot begin or go on.
#[derive(Clone, Debug, PartialEq)]
pub enum TlsError {
    /// The configuration cannot be used here, and why.
    Config(&'static str),
    /// What came first is no TLS: a request for HTTP in plain text, or something else.
    NotTls {
        /// It looks like a request.
        is_http: bool,
    },
    /// The handshake cannot go on.
    Handshake(rustls::Error),
    /// The peer has broken off, with this alert.
    Alert(AlertDescription),
    /// A record could not be decrypted.
    BadRecord,
    /// A record is longer than allowed.
    TooLong,
    /// A message that has no place there.
    Unexpected,
    /// A value that is none in a message.
    Illegal,
    /// Too many records that bring nothing.
    Useless,
    /// The key has encrypted as much as it may.
    Exhausted,
    /// The session is over.
    Over,
}

impl TlsError {
    /// A word for it, for counters.
    pub fn reason(&self) -> &'static str {
        use rustls::Error as E;
        match self {
            TlsError::Config(_) => "configuration",
            TlsError::NotTls { is_http: true } => "plain_http",
            TlsError::NotTls { is_http: false } => "not_tls",
            TlsError::Handshake(E::PeerIncompatible(_)) => "incompatible",
            TlsError::Handshake(E::InvalidCertificate(_) | E::NoCertificatesPresented) => {
                "client_certificate"
            }
            TlsError::Handshake(E::NoApplicationProtocol) => "alpn",
            TlsError::Handshake(E::AlertReceived(_)) | TlsError::Alert(_) => "peer_alert",
            TlsError::Handshake(E::General(_)) => "no_certificate",
            TlsError::Handshake(_) => "malformed",
            TlsError::BadRecord | TlsError::TooLong => "bad_record",
            TlsError::Unexpected | TlsError::Illegal | TlsError::Useless => "unexpected_message",
            TlsError::Exhausted | TlsError::Over => "over",
        }
    }

    /// All that [`reason`](TlsError::reason) gives.
    pub const REASONS: [&str; 12] = [
        "configuration",
        "plain_http",
        "not_tls",
        "incompatible",
        "client_certificate",
        "alpn",
        "peer_alert",
        "no_certificate",
        "malformed",
        "bad_record",
        "unexpected_message",
        "over",
    ];

    /// The alert that tells the peer of a session whose handshake is over. In a handshake rustls tells it.
    pub(crate) fn alert(&self) -> Option<AlertDescription> {
        match self {
            TlsError::BadRecord => Some(AlertDescription::BadRecordMac),
            TlsError::TooLong => Some(AlertDescription::RecordOverflow),
            TlsError::Unexpected | TlsError::Useless => Some(AlertDescription::UnexpectedMessage),
            TlsError::Illegal => Some(AlertDescription::IllegalParameter),
            TlsError::Handshake(rustls::Error::InvalidMessage(message)) => {
                Some(AlertDescription::from(*message))
            }
            // Not a close_notify: what was sent is not all, and must not seem to be.
            TlsError::Handshake(_) | TlsError::Exhausted => Some(AlertDescription::InternalError),
            // It has ended the session itself, or there is none.
            TlsError::Alert(_) | TlsError::NotTls { .. } | TlsError::Config(_) | TlsError::Over => {
                None
            }
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Config(what) => write!(f, "this configuration of TLS does not work: {what}"),
            TlsError::NotTls { is_http: true } => {
                f.write_str("a request for HTTP came in plain text where TLS is spoken")
            }
            TlsError::NotTls { is_http: false } => f.write_str("what came first is no TLS"),
            TlsError::Handshake(error) => write!(f, "the handshake failed: {error}"),
            TlsError::Alert(alert) => write!(f, "the peer has broken off: {alert:?}"),
            TlsError::BadRecord => f.write_str("a record was changed on its way"),
            TlsError::TooLong => f.write_str("a record is longer than allowed"),
            TlsError::Unexpected => f.write_str("a message has no place there"),
            TlsError::Illegal => f.write_str("a message has a value that it cannot have"),
            TlsError::Useless => f.write_str("too many records that bring nothing"),
            TlsError::Exhausted => f.write_str("the key has encrypted as much as it may"),
            TlsError::Over => f.write_str("the session is over"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        match error {
            rustls::Error::AlertReceived(alert) => TlsError::Alert(alert),
            error => TlsError::Handshake(error),
        }
    }
}
