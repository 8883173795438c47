//! TLS as far as it is in clear: records (RFC 8446 §5.1) and the hellos in them (§4.1.2, §4.1.3); extensions are in
//! [`extensions`].
//!
//! ```text
//!  0      1         3        5
//!  | type | version | length | fragment
//!
//!  a hello, in fragments of records of type handshake:
//!  0      1        4         6        38
//!  | type | length | version | random | session id | cipher suite(s) | compression | extensions
//! ```
//!
//! A hello with a large key share is longer than a segment, and a segment then has a part of it. So views here hold what is there
//! and say whether that is all: [`RecordView::is_whole`], [`HelloView::is_whole`].

use crate::WireError;
use crate::bytes::{be16, head};
use crate::cursor::Cursor;
use crate::limits::TLS_FRAGMENT_LEN_MAX;

pub mod extensions;

/// Bytes before a record's fragment.
pub const RECORD_LEN: usize = 5;
/// Record type of alerts.
pub const ALERT: u8 = 21;
/// Record type of handshake messages.
pub const HANDSHAKE: u8 = 22;

/// TLS 1.2, which hellos of TLS 1.3 claim too (RFC 8446 §4.1.2).
pub const VERSION_1_2: u16 = 0x0303;
/// TLS 1.3.
pub const VERSION_1_3: u16 = 0x0304;

/// Handshake message type of a client's hello.
pub const CLIENT_HELLO: u8 = 1;
/// Handshake message type of a server's.
pub const SERVER_HELLO: u8 = 2;
/// Bytes before a handshake message's body.
const MESSAGE_LEN: usize = 4;
/// Bytes of a hello's random number.
pub const RANDOM_LEN: usize = 32;

/// RFC 8446 §4.1.3: SHA-256 of "HelloRetryRequest", which such a message has in place of a random.
const RETRY_RANDOM: [u8; RANDOM_LEN] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// A record, as much of it as is there.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    header: &'a [u8; RECORD_LEN],
    fragment: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads a record; bytes behind it are left out, bytes that are missing at its end may be.
    ///
    /// # Errors
    /// [`WireError::Truncated`] of its header; [`WireError::BadField`] and [`WireError::BadLength`] of what no record of TLS says.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = head::<RECORD_LEN>(bytes, "tls")?;
        let bad = |field, value| WireError::BadField {
            layer: "tls",
            field,
            value,
        };
        // RFC 8446 §B.1: change_cipher_spec, alert, handshake, application_data; RFC 6520: heartbeat.
        if !(20..=24).contains(&header[0]) {
            return Err(bad("content type", header[0].into()));
        }
        let version = be16::<1, _>(header);
        if !(0x0300..=VERSION_1_3).contains(&version) {
            return Err(bad("record version", version.into()));
        }
        let length = usize::from(be16::<3, _>(header));
        if length == 0 || length > TLS_FRAGMENT_LEN_MAX {
            return Err(WireError::BadLength {
                layer: "tls",
                length,
            });
        }
        Ok(Self {
            header,
            fragment: rest.get(..length).unwrap_or(rest),
        })
    }

    /// What it carries: [`HANDSHAKE`], [`ALERT`] or another.
    #[must_use]
    pub fn content_type(&self) -> u8 {
        self.header[0]
    }

    /// Bytes of the fragment on the wire.
    #[must_use]
    pub fn length(&self) -> usize {
        be16::<3, _>(self.header).into()
    }

    /// The fragment, as much of it as is there.
    #[must_use]
    pub fn fragment(&self) -> &'a [u8] {
        self.fragment
    }

    /// True when all of it is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.fragment.len() == self.length()
    }

    /// The level and description of an alert that is in clear (RFC 8446 §6); `None` of other records.
    #[must_use]
    pub fn alert(&self) -> Option<(u8, u8)> {
        match (self.content_type(), self.length(), self.fragment) {
            (ALERT, 2, &[level @ 1..=2, description]) => Some((level, description)),
            _ => None,
        }
    }
}

/// Which hello it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloKind {
    /// ClientHello.
    Client,
    /// ServerHello.
    Server,
    /// A ServerHello that asks for another ClientHello (RFC 8446 §4.1.4).
    Retry,
}

/// The hello of a client or a server, as much of it as is there.
#[derive(Clone, Copy, Debug)]
pub struct HelloView<'a> {
    kind: HelloKind,
    version: u16,
    random: &'a [u8; RANDOM_LEN],
    cipher_suites: &'a [u8],
    extensions: &'a [u8],
    is_whole: bool,
}

impl<'a> HelloView<'a> {
    /// Reads a handshake message, from the begin of a record's fragment on.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when there is less than its fixed fields; [`WireError::BadField`] of other messages;
    /// [`WireError::BadLength`] when lengths contradict each other.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = head::<MESSAGE_LEN>(message, "tls")?;
        let is_client = match header[0] {
            CLIENT_HELLO => true,
            SERVER_HELLO => false,
            other => {
                return Err(WireError::BadField {
                    layer: "tls",
                    field: "handshake type",
                    value: other.into(),
                });
            }
        };
        let length = usize::from(header[1]) << 16 | usize::from(be16::<2, _>(header));
        let mut body = Cursor::new(rest, length, "tls");
        let version = u16::from_be_bytes(*body.array()?);
        let random = body.array::<RANDOM_LEN>()?;
        if version >> 8 != 3 {
            return Err(WireError::BadField {
                layer: "tls",
                field: "version",
                value: version.into(),
            });
        }
        let kind = match is_client {
            true => HelloKind::Client,
            false if *random == RETRY_RANDOM => HelloKind::Retry,
            false => HelloKind::Server,
        };
        let _session_id = body.vector_u8()?;
        let cipher_suites = match is_client {
            true => body.vector_u16()?,
            false => body.bytes(2)?,
        };
        let _compression = match is_client {
            true => body.vector_u8()?,
            false => body.bytes(1)?,
        };
        // RFC 8446 §4.2: hellos before TLS 1.3 may be without.
        let extensions = match body.is_at_end() {
            true => &[],
            false => body.vector_u16()?,
        };
        Ok(Self {
            kind,
            version,
            random,
            cipher_suites,
            extensions,
            is_whole: !body.is_cut(),
        })
    }

    /// Whose it is.
    #[must_use]
    pub fn kind(&self) -> HelloKind {
        self.kind
    }

    /// The version: of a client the highest that it speaks, of a server the one that it chose. Where the extension that says so is
    /// not there, what the fixed field says.
    #[must_use]
    pub fn version(&self) -> u16 {
        let extensions = self.extensions();
        let said = match self.kind {
            HelloKind::Client => extensions.client_versions().max(),
            HelloKind::Server | HelloKind::Retry => extensions.server_version(),
        };
        said.unwrap_or(self.version)
    }

    /// Its random number, by which a log of keys names the session.
    #[must_use]
    pub fn random(&self) -> &'a [u8; RANDOM_LEN] {
        self.random
    }

    /// Cipher suites, two bytes each: a client's in the order of its preference, a server's choice. As many as are there.
    pub fn cipher_suites(&self) -> impl Iterator<Item = u16> + 'a {
        let (suites, _) = self.cipher_suites.as_chunks();
        suites.iter().map(|suite| u16::from_be_bytes(*suite))
    }

    /// Its extensions, as far as they are there.
    #[must_use]
    pub fn extensions(&self) -> extensions::Extensions<'a> {
        extensions::Extensions::new(self.extensions)
    }

    /// True when all of it is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }
}
