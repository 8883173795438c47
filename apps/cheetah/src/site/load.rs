//! Loading a directory.
//!
//! # What is loaded
//!
//! Every regular file below the directory, under its own name. A [long](super::long) one is only looked
//! at, the others are read. Files reached by several names
//! (hard links, symbolic links) are in memory once for each media type and set of fields by rules. What
//! is left out is listed with its reason, see [`Reason`]: nothing disappears silently.
//!
//! `x.html.br` beside `x.html` is its [variant](super::variants), unless it is older.
//!
//! Nothing from outside the directory is reached, see [`store::root`](super::store::root). How it is
//! walked, and walked again when it changes, is in [`store`](super::store).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::limits;

/// How much a site may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one document.
    pub document_len: u64,
    /// Bytes of one document that is kept in memory; longer ones are read while they are sent. At most
    /// [`limits::MEMORY_LEN_MAX`].
    pub memory_len: u64,
    /// Files.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            document_len: u64::MAX,
            memory_len: limits::MEMORY_LEN,
            files: limits::SITE_FILES_MAX,
        }
    }
}

/// Why nothing could be loaded at all.
#[derive(Debug)]
pub struct LoadError {
    directory: PathBuf,
    source: io::Error,
}

impl LoadError {
    pub(super) fn new(directory: &Path, source: io::Error) -> LoadError {
        let directory = directory.into();
        LoadError { directory, source }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = match self.source.kind() {
            io::ErrorKind::NotFound => "give the path of a directory that exists",
            io::ErrorKind::PermissionDenied => "give this user the right to read and enter it",
            io::ErrorKind::NotADirectory => "give the directory that holds the documents",
            _ => "check the path and its file system",
        };
        write!(
            f,
            "cannot serve {}: {}; {remedy}",
            self.directory.display(),
            self.source
        )
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Something in the directory that is not served.
#[derive(Debug)]
pub struct Omission {
    /// Its path, relative to the directory.
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Why something is not served. Requests for it are answered with 403, for hidden files with 404;
/// a file that is only no variant of another is served under its own name.
#[derive(Debug)]
pub enum Reason {
    /// Its name begins with a dot (but for `.well-known`, RFC 8615).
    Hidden,
    /// Neither file nor directory: a device, a socket, a pipe.
    NotRegular,
    /// A symbolic link to outside the directory.
    LeavesDirectory,
    /// A symbolic link to a directory that it is itself in.
    Cycle,
    /// It cannot be opened or read.
    Unreadable(io::Error),
    /// Longer than a document may be.
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// There are too many files.
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// Too many directories inside one another.
    TooDeep,
    /// A coded variant from before the last change of what it was made from.
    Outdated,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Hidden => write!(f, "hidden: its name begins with a dot"),
            Reason::NotRegular => write!(f, "neither a file nor a directory"),
            Reason::LeavesDirectory => write!(f, "a link to outside the directory"),
            Reason::Cycle => write!(f, "a link to a directory that holds it"),
            Reason::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Reason::TooLong { limit } => write!(f, "longer than {limit} bytes"),
            Reason::TooManyFiles { limit } => write!(f, "more than {limit} files"),
            Reason::TooDeep => write!(f, "more than {} levels deep", limits::SITE_DEPTH_MAX),
            Reason::Outdated => write!(f, "older than its original; compress that again"),
        }
    }
}
