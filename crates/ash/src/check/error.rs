//! Why a handler may not run.

use std::fmt;

/// Why a handler may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckError {
    /// The statement, counted from 0 as they are written; `None` if it is of the handler as a whole.
    pub statement: Option<usize>,
    /// What is wrong, and what to do.
    pub what: String,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.statement {
            Some(number) => write!(f, "statement {}: {}", number + 1, self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for CheckError {}
