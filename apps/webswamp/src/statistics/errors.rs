//! What goes wrong with requests, by kind.

/// Why a request has no whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nobody listens there.
    Refused,
    /// ICMP says that the server cannot be reached.
    Unreachable,
    /// No connection stood in the time that a request may take.
    ConnectTimeout,
    /// There was no port, or no room, for a connection of ours.
    NoConnection,
    /// The server reset the connection.
    Reset,
    /// It closed the connection before its response was whole.
    Closed,
    /// The response was not whole in the time that a request may take.
    Timeout,
    /// What came is no response.
    Malformed,
    /// A whole response came that is other than expected.
    Mismatch,
    /// The load ended, and the response was not whole.
    Unfinished,
    /// Too many requests waited for a connection.
    NotBegun,
}

impl ErrorKind {
    /// All there are, in the order of a request's life.
    pub const ALL: [Self; 11] = [
        Self::NotBegun,
        Self::NoConnection,
        Self::Refused,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::Reset,
        Self::Closed,
        Self::Timeout,
        Self::Malformed,
        Self::Mismatch,
        Self::Unfinished,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotBegun => "not_begun",
            Self::NoConnection => "no_connection",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect_timeout",
            Self::Reset => "reset",
            Self::Closed => "closed_early",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Mismatch => "mismatch",
            Self::Unfinished => "unfinished",
        }
    }
}

/// How often each happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors([u64; ErrorKind::ALL.len()]);

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
        let all = ErrorKind::ALL.into_iter().map(|kind| (kind, self.of(kind)));
        all.filter(|&(_, count)| count > 0)
    }
}
