//! What is seen of a connection of others.

use std::fmt;
use std::ops::Range;

use rustls::HandshakeType;

/// Who has sent something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The one that began.
    Client,
    /// The one that answered.
    Server,
}

/// What was in an encrypted record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Seen {
    /// The last byte of a handshake message of this type.
    Message(HandshakeType),
    /// An alert: its level and what it says.
    Alert(u8, u8),
    /// Data: where it is in the plaintext.
    Data(Range<usize>),
}

/// Why nothing more of a connection is decrypted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// It is no TLS, or none that begins with a hello.
    NotTls,
    /// A version before TLS 1.2.
    Version(u16),
    /// A suite that is not decrypted here.
    Suite(u16),
    /// A record that these secrets do not decrypt.
    WrongKey,
    /// A message that has no place there.
    Unexpected,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::NotTls => f.write_str("no TLS"),
            Obstacle::Version(version) => write!(f, "version {version:#06x} is not decrypted"),
            Obstacle::Suite(suite) => write!(f, "suite {suite:#06x} is not decrypted"),
            Obstacle::WrongKey => f.write_str("the keys do not fit"),
            Obstacle::Unexpected => f.write_str("not understood"),
        }
    }
}

/// What was done with what was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// Bytes of whole records, from the first on.
    pub bytes: usize,
    /// The next record waits for a secret that is not known yet.
    pub wants_key: bool,
}
