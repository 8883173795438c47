//! Words of a filter's text, and errors that point at them.
//!
//! A token is a word (letters, digits, and what addresses and ranges consist of) or a symbol. A backslash before a
//! word is skipped: tcpdump users quote keywords with it (`proto \tcp`).

use super::error::ParseError;

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// Its text; empty at the end.
    pub(super) text: &'a str,
    /// Bytes before it.
    pub(super) at: usize,
}

/// A place in the text.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// Longest first.
const SYMBOLS: [&str; 17] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "!", "=", "<", ">", "&", "|", ":",
];

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | ':' | '/' | '-' | '_' | '%')
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The token here, without moving.
    pub(super) fn peek(&self) -> Token<'a> {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\\');
        let at = self.text.len() - trimmed.len();
        let word = trimmed.find(|c| !in_word(c)).unwrap_or(trimmed.len());
        let starts_word =
            trimmed.starts_with(|c: char| in_word(c) && c != ':') || trimmed.starts_with("::");
        let length = if starts_word {
            word
        } else if let Some(symbol) = SYMBOLS.iter().find(|s| trimmed.starts_with(**s)) {
            symbol.len()
        } else {
            trimmed.chars().next().map_or(0, char::len_utf8)
        };
        Token {
            text: &trimmed[..length],
            at,
        }
    }

    /// The token here; moves behind it.
    pub(super) fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at = token.at + token.text.len();
        token
    }

    /// Moves behind the token if it is one of these.
    pub(super) fn take(&mut self, words: &[&str]) -> bool {
        let taken = words.contains(&self.peek().text);
        if taken {
            self.next();
        }
        taken
    }

    /// Inside brackets a colon separates: `[12:2]` is one word elsewhere. Gives the number up to the colon or the
    /// word's end, and moves behind that.
    pub(super) fn next_in_brackets(&mut self) -> Token<'a> {
        let token = self.peek();
        let text = token
            .text
            .split_once(':')
            .filter(|(left, _)| !left.is_empty())
            .map_or(token.text, |(left, _)| left);
        self.at = token.at + text.len();
        Token { text, at: token.at }
    }

    /// Whether the text goes on with a colon here; moves behind it.
    pub(super) fn take_colon(&mut self) -> bool {
        let token = self.peek();
        let found = token.text.starts_with(':');
        if found {
            self.at = token.at + 1;
        }
        found
    }

    /// An error at a token. An empty one is the end of the text.
    pub(super) fn error(&self, token: Token<'_>, message: impl Into<String>) -> ParseError {
        ParseError {
            text: self.text.to_owned(),
            column: token.at,
            length: token.text.len(),
            message: message.into(),
        }
    }

    /// "expected …, found …" at the present token.
    pub(super) fn expected(&self, what: &str) -> ParseError {
        let token = self.peek();
        let found = if token.text.is_empty() {
            "the end".to_owned()
        } else {
            format!("`{}`", token.text)
        };
        self.error(token, format!("expected {what}, found {found}"))
    }
}
