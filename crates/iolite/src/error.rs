//! What can go wrong between processes.

use std::fmt;
use std::io;

/// Why a buffer was not had, or did not pass.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Every buffer of the pool is in use. They come back when their holders let go of them, or end.
    Exhausted {
        /// How many there are.
        buffers: u32,
        /// How many of them the member has that has most.
        most_held: u32,
    },
    /// A member has as many buffers of a pool as it may have at once: it has to let go of some.
    ShareExceeded {
        /// How many it has, those under way to it among them.
        held: u32,
        /// How many it may have.
        share: u32,
    },
    /// More than a buffer holds.
    TooLong {
        /// What was asked for.
        len: usize,
        /// The most.
        most: usize,
    },
    /// A pool or a pipe of this shape is beyond the limits.
    Shape(&'static str),
    /// More members than a pool may have.
    Members,
    /// The peer has ended, or closed the pipe.
    PeerGone,
    /// The peer does not do as agreed: nothing of it is believed any more.
    PeerFault(&'static str),
    /// What a process had sent on before it ended, and its pool's owner has used for something else since.
    Lost,
    /// The kernel refuses something.
    System(&'static str, io::Error),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted { buffers, most_held } => write!(
                f,
                "all {buffers} buffers of the pool are in use, {most_held} of them by one member"
            ),
            Self::ShareExceeded { held, share } => write!(
                f,
                "the consumer keeps {held} buffers of the pool and may keep {share}: it has to let go of some"
            ),
            Self::TooLong { len, most } => write!(f, "{len} bytes are more than {most}"),
            Self::Shape(what) => f.write_str(what),
            Self::Members => f.write_str("the pool has no room for another member"),
            Self::PeerGone => f.write_str("the peer has gone"),
            Self::PeerFault(what) => write!(f, "the peer breaks the rules: {what}"),
            Self::Lost => f.write_str("bytes were lost: the process that sent them on has ended"),
            Self::System(what, source) => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<exos_host::Error> for Error {
    fn from(error: exos_host::Error) -> Self {
        let source = error.source.unwrap_or_else(|| io::Error::other(error.what));
        Self::System("shared memory", source)
    }
}

/// Says what the kernel refused.
pub(crate) trait Refused<T> {
    fn refused(self, what: &'static str) -> Result<T>;
}

impl<T, E: Into<io::Error>> Refused<T> for Result<T, E> {
    fn refused(self, what: &'static str) -> Result<T> {
        self.map_err(|error| Error::System(what, error.into()))
    }
}
