//! What goes wrong with requests, by kind.

use strum::VariantArray as _;

/// Why a request has no whole response, in the order of a request's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorKind {
    /// Too many requests waited for a connection.
    NotBegun,
    /// There was no port, or no room, for a connection of ours.
    NoConnection,
    /// Nobody listens there.
    Refused,
    /// ICMP says that the server cannot be reached.
    Unreachable,
    /// No connection stood in the time that a request may take.
    ConnectTimeout,
    /// The connection stood, and TLS could not be agreed upon, or was not in the time that a request may take.
    #[strum(serialize = "tls_handshake")]
    Handshake,
    /// The server reset the connection.
    Reset,
    /// It closed the connection before its response was whole.
    #[strum(serialize = "closed_early")]
    Closed,
    /// The server reset the stream of the request (RST_STREAM of HTTP/2).
    StreamReset,
    /// It went away (GOAWAY of HTTP/2) because something was wrong before it answered, or twice without doing anything at all.
    #[strum(serialize = "goaway")]
    GoAway,
    /// The response was not whole in the time that a request may take.
    Timeout,
    /// What came is no response.
    Malformed,
    /// A whole response came that is other than expected.
    Mismatch,
    /// The load ended, and the response was not whole.
    Unfinished,
}

/// How often each happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors([u64; ErrorKind::VARIANTS.len()]);

impl Errors {
    /// One more.
    pub fn count(&mut self, kind: ErrorKind) {
        self.0[kind as usize] += 1;
    }

    /// Of a kind.
    pub fn of(&self, kind: ErrorKind) -> u64 {
        self.0[kind as usize]
    }

    /// Of all kinds.
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that happened.
    pub fn list(&self) -> impl Iterator<Item = (ErrorKind, u64)> {
        let all = ErrorKind::VARIANTS
            .iter()
            .map(|&kind| (kind, self.of(kind)));
        all.filter(|&(_, count)| count > 0)
    }
}
