//! What can go wrong with the cache.

use crate::protocol::{NAME_LEN_MAX, Status};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no service, or no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Nobody serves there.
    NoService(PathBuf),
    /// A service runs there already.
    Taken(PathBuf),
    /// Another user serves there, and not root.
    AnotherUser(u32),
    /// The folder of the socket is no folder, or not this user's alone.
    Folder(PathBuf),
    /// The service has not answered for a while.
    Silent,
    /// The service has as many programs as it may, or of this user, or does not serve it.
    Full,
    /// A service of several users that is not root's, or has no `CAP_LEASE`, or only that of a user namespace.
    Privilege,
    /// The process may not have as many descriptors as a service of one program needs.
    Descriptors,
    /// Less memory than a cache needs, or more than it can have.
    Memory(u64),
    /// No name of a share.
    ShareName(String),
    /// The file has changed since it was opened here: what is read now would be of another version.
    Changed,
    /// The service cannot read the file.
    Refused(Status),
    /// The peer does not do as agreed.
    Fault(&'static str),
    /// Of buffers and pipes.
    Buffers(exos_iolite::Error),
    /// The kernel refuses something.
    System(&'static str, io::Error),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::limits::{DESCRIPTORS, DESCRIPTORS_MIN, MEMORY_MAX, MEMORY_MIN};
        match self {
            Self::NoService(path) => write!(
                f,
                "no file cache runs at {} (exos file-cache starts one)",
                path.display()
            ),
            Self::Taken(path) => write!(f, "a file cache runs at {} already", path.display()),
            Self::AnotherUser(uid) => write!(
                f,
                "the file cache there is of user {uid}, who is not believed"
            ),
            Self::Folder(path) => write!(
                f,
                "{} is not a folder of this user's, or others can write there: make it so (chmod go-w), or name a socket elsewhere (--socket)",
                path.display()
            ),
            Self::Silent => f.write_str("the file cache does not answer"),
            Self::Full => f.write_str(
                "the file cache has as many programs as it may, or does not serve this user",
            ),
            Self::Privilege => f.write_str(
                "a file cache of several users needs root and CAP_LEASE, so that nobody writes a file while it is read: run it as the host's root (that of a user namespace is refused leases of files), in a container with that capability added",
            ),
            Self::Descriptors => write!(
                f,
                "a file cache needs {DESCRIPTORS_MIN} descriptors for one program and {DESCRIPTORS} for all, and this process is allowed fewer: raise the limit (ulimit -Hn {DESCRIPTORS})"
            ),
            Self::Memory(bytes) => write!(
                f,
                "{bytes} bytes are no memory for a file cache: it has {} MiB to {} MiB",
                MEMORY_MIN >> 20,
                MEMORY_MAX >> 20
            ),
            Self::ShareName(name) => write!(
                f,
                "{name:?} is no name of a share: it has 1 to {NAME_LEN_MAX} bytes, none of them zero"
            ),
            Self::Changed => f.write_str("the file was changed after it was opened"),
            Self::Refused(status) => f.write_str(status.reason()),
            Self::Fault(what) => write!(f, "the file cache breaks the rules: {what}"),
            Self::Buffers(error) => error.fmt(f),
            Self::System(what, source) => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<exos_iolite::Error> for Error {
    fn from(error: exos_iolite::Error) -> Self {
        Self::Buffers(error)
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
