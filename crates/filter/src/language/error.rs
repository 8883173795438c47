//! Why a text is no filter.

use std::fmt;

/// A text that is no filter: where, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub(super) text: String,
    pub(super) column: usize,
    pub(super) length: usize,
    pub(super) message: String,
}

impl ParseError {
    /// Bytes before the place.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ParseError {
    /// Three lines: the message, the text, and a caret below the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text[..self.column].chars().count();
        let marked = self.text[self.column..self.column + self.length]
            .chars()
            .count()
            .max(1);
        writeln!(f, "{}", self.message)?;
        writeln!(f, "  {}", self.text)?;
        write!(f, "  {}{}", " ".repeat(before), "^".repeat(marked))
    }
}

impl std::error::Error for ParseError {}
