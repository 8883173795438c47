//! The versions of HTTP that this server speaks.

/// A version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2, on a stream of its own.
    Http2,
    /// HTTP/3, on a stream of its own.
    Http3,
}

impl Version {
    /// Of the minor number in a head of HTTP/1.
    #[inline]
    pub(super) const fn of_minor(minor: u8) -> Version {
        match minor {
            0 => Version::Http10,
            _ => Version::Http11,
        }
    }

    /// Fields come and leave in blocks, on a stream for each request: HTTP/2, and HTTP/3.
    #[inline]
    pub const fn has_streams(self) -> bool {
        matches!(self, Version::Http2 | Version::Http3)
    }

    /// As it stands in a request line, in logs, and in what applications are told.
    pub const fn name(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}
