//! Why bytes are not the packet that they claim to be.
//!
//! One small value for every parser: it is counted by [`WireError::name`] and shown to people with
//! `Display`. `layer` is the protocol's lower-case name as `exos` prints it everywhere ("ipv4").

use std::fmt;

/// Why a packet was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireError {
    /// The bytes end before the packet does.
    Truncated {
        /// The protocol whose header or body is cut off.
        layer: &'static str,
        /// Bytes that this protocol needs, as far as known.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A length field contradicts the protocol, whatever the number of bytes.
    BadLength {
        /// The protocol whose field it is.
        layer: &'static str,
        /// The field's meaning in bytes.
        length: usize,
    },
    /// The version field is another protocol's.
    BadVersion {
        /// The protocol that was expected.
        layer: &'static str,
        /// The version found.
        version: u8,
    },
    /// A field has a value that the protocol does not allow or that we do not speak.
    BadField {
        /// The protocol whose field it is.
        layer: &'static str,
        /// The field's name.
        field: &'static str,
        /// The value found.
        value: u32,
    },
    /// An option's length is impossible, so that what follows cannot be found.
    BadOption {
        /// The protocol whose option it is.
        layer: &'static str,
        /// The option's kind.
        kind: u8,
    },
    /// More IPv6 extension headers than [`crate::limits::EXTENSION_HEADERS_MAX`].
    TooManyHeaders {
        /// The limit.
        max: usize,
    },
}

impl WireError {
    /// The name under which drops for this reason are counted.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::BadLength { .. } => "bad_length",
            Self::BadVersion { .. } => "bad_version",
            Self::BadField { .. } => "bad_field",
            Self::BadOption { .. } => "bad_option",
            Self::TooManyHeaders { .. } => "too_many_headers",
        }
    }

    /// The protocol whose parser refused.
    #[must_use]
    pub const fn layer(&self) -> &'static str {
        match self {
            Self::Truncated { layer, .. }
            | Self::BadLength { layer, .. }
            | Self::BadVersion { layer, .. }
            | Self::BadField { layer, .. }
            | Self::BadOption { layer, .. } => layer,
            Self::TooManyHeaders { .. } => "ipv6",
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { layer, need, have } => {
                write!(f, "{layer}: cut off: {have} bytes where {need} are needed")
            }
            Self::BadLength { layer, length } => {
                write!(f, "{layer}: impossible length field: {length} bytes")
            }
            Self::BadVersion { layer, version } => write!(f, "{layer}: version {version}"),
            Self::BadField {
                layer,
                field,
                value,
            } => {
                write!(f, "{layer}: {field} is {value} ({value:#x})")
            }
            Self::BadOption { layer, kind } => {
                write!(f, "{layer}: option {kind} has an impossible length")
            }
            Self::TooManyHeaders { max } => {
                write!(f, "ipv6: more than {max} extension headers")
            }
        }
    }
}

impl std::error::Error for WireError {}
