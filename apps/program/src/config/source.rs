//! The text of a configuration file, and what is wrong with it.
//!
//! Checking never ends with the first error: each is noted with its line, and all are told at once.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;

/// Something in the file that cannot stand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigError {
    /// The line, from 1; 0 when it is about the file as a whole.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub what: String,
}

/// All that is wrong with a configuration, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file.
    pub file: PathBuf,
    /// What is wrong; never empty.
    pub errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// One error about the file as a whole.
    pub fn whole(file: &Path, what: impl Into<String>) -> Self {
        let error = ConfigError {
            line: 0,
            what: what.into(),
        };
        Self {
            file: file.into(),
            errors: vec![error],
        }
    }
}

impl fmt::Display for ConfigErrors {
    /// A line for each, without a line end after the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, ConfigError { line, what }) in self.errors.iter().enumerate() {
            let file = self.file.display();
            let line_end = if at == 0 { "" } else { "\n" };
            match line {
                0 => write!(f, "{line_end}{file}: {what}")?,
                line => write!(f, "{line_end}{file}:{line}: {what}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// The text of the file, and the notes made while it is checked.
pub struct Source<'a> {
    file: &'a Path,
    text: &'a str,
    errors: RefCell<Vec<ConfigError>>,
    /// Whether all that is written fits the schema; else something that seems to be missing may be what does not.
    fits: Cell<bool>,
}

impl<'a> Source<'a> {
    /// A file's text.
    pub fn new(file: &'a Path, text: &'a str) -> Self {
        Self {
            file,
            text,
            errors: RefCell::default(),
            fits: Cell::new(true),
        }
    }

    /// The text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The line of a place in the text.
    pub fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        1 + before.matches('\n').count()
    }

    /// Takes note of an error.
    pub fn note(&self, at: &Range<usize>, what: impl Into<String>) {
        let error = ConfigError {
            line: self.line(at),
            what: what.into(),
        };
        self.errors.borrow_mut().push(error);
    }

    /// Takes note of something that does not fit the schema.
    pub fn note_misfit(&self, at: &Range<usize>, what: impl Into<String>) {
        self.fits.set(false);
        self.note(at, what);
    }

    /// Takes note of something that is missing.
    pub fn note_missing(&self, at: &Range<usize>, what: impl Into<String>) {
        if self.fits.get() {
            self.note(at, what);
        }
    }

    /// Takes note of something that is missing in the file as a whole.
    pub fn note_missing_whole(&self, what: impl Into<String>) {
        if self.fits.get() {
            let what = what.into();
            self.errors.borrow_mut().push(ConfigError { line: 0, what });
        }
    }

    /// A text turned into a value; what cannot be is noted with the reason, and is `None`.
    pub fn value<T, E: fmt::Display>(
        &self,
        text: &Spanned<String>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        parse(text.get_ref())
            .map_err(|e| self.note(&text.span(), e.to_string()))
            .ok()
    }

    /// A number within bounds; another is noted, and is `None`.
    pub fn number(&self, number: &Spanned<i64>, from: i64, to: i64) -> Option<i64> {
        let value = *number.get_ref();
        if (from..=to).contains(&value) {
            return Some(value);
        }
        let what = format!("{value} is out of bounds; write a number from {from} to {to}");
        self.note(&number.span(), what);
        None
    }

    /// The value if nothing was noted, else all that was.
    pub fn finish<T>(self, value: T) -> Result<T, ConfigErrors> {
        let mut errors = self.errors.into_inner();
        if errors.is_empty() {
            return Ok(value);
        }
        errors.sort();
        errors.dedup();
        Err(ConfigErrors {
            file: self.file.into(),
            errors,
        })
    }
}
