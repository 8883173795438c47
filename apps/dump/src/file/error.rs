//! Why a capture cannot be read further.

use std::fmt;

/// Why a file cannot be read further.
#[derive(Debug)]
pub enum FileError {
    /// The system's answer.
    Io(std::io::Error),
    /// What is in the file is not a capture, or a damaged one.
    Bad {
        /// Where, in bytes from the beginning.
        at: u64,
        /// What is wrong.
        what: String,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Bad { at, what } => write!(f, "at byte {at}: {what}"),
        }
    }
}

impl std::error::Error for FileError {}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}
