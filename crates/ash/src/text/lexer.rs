//! Text to words, numbers and signs, each with its place.

use super::error::{Place, TextError};
use crate::limits::TEXT_MAX;

/// A piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Number(u64),
    Sign(&'static str),
    End,
}

/// Signs, longer ones before those that they begin with.
const SIGNS: [&str; 29] = [
    "..", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "<", ">", "=", "{", "}", "[", "]", "(",
    ")", ";", ",", "+", "-", "*", "/", "%", "&", "|", "^", "!",
];

/// All pieces of a text; the last is its end.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, Place)>, TextError> {
    let mut all = Vec::new();
    if text.len() > TEXT_MAX {
        let start = Place { line: 1, column: 1 };
        return Err(TextError::at(
            start,
            format!("a handler's text has at most {TEXT_MAX} bytes"),
        ));
    }
    let mut end = Place { line: 1, column: 1 };
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let mut rest = code;
        end = Place {
            line: number + 1,
            column: 1,
        };
        loop {
            let trimmed = rest.trim_start();
            end.column += chars(rest, trimmed);
            if trimmed.is_empty() {
                break;
            }
            let (token, len) = token(trimmed).map_err(|what| TextError::at(end, what))?;
            all.push((token, end));
            rest = &trimmed[len..];
            end.column += chars(trimmed, rest);
        }
    }
    all.push((Token::End, end));
    Ok(all)
}

/// Characters from the beginning of `from` to that of its end `to`.
fn chars(from: &str, to: &str) -> usize {
    from[..from.len() - to.len()].chars().count()
}

/// The first piece, and its bytes.
fn token(text: &str) -> Result<(Token<'_>, usize), String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let len = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let word = &text[..len];
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok((Token::Number(number(word)?), len));
    }
    if len > 0 {
        return Ok((Token::Word(word), len));
    }
    match SIGNS.iter().find(|sign| text.starts_with(**sign)) {
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None => Err(format!(
            "{:?} means nothing here",
            text.chars().next().unwrap_or_default()
        )),
    }
}

fn number(word: &str) -> Result<u64, String> {
    let digits = word.replace('_', "");
    let read = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    read.map_err(|_| format!("{word} is no number of 64 bits"))
}
