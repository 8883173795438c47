//! A request's body on its way to an application.
//!
//! One whose length is said is handed on as it comes. A chunked one is collected first, for CGI wants to know the length
//! (RFC 3875 §4.1.2), so it may be less long. Chunks are read to the letter of RFC 9112 §7.1: what leaves a doubt about where
//! the request ends is refused.

use crate::limits::{CHUNK_LINE_LEN_MAX, TRAILER_LEN_MAX};

/// Why a body cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It is not chunked as it says.
    Syntax,
    /// It is longer than it may be.
    TooLong,
    /// Too many are collected already.
    NoRoom,
}

/// Reads a chunked body.
#[derive(Debug)]
pub struct Chunked {
    state: State,
    /// What it holds.
    pub content: Vec<u8>,
    content_max: usize,
}

#[derive(Debug)]
enum State {
    /// In the line with a chunk's length: what has come of it.
    Line(Vec<u8>),
    /// This many bytes of a chunk are left.
    Content(usize),
    /// The line end behind a chunk: one byte of it has come.
    LineEnd(bool),
    /// The fields behind the last chunk: what has come of the present line, and bytes of all.
    Trailer(Vec<u8>, usize),
    Over,
}

impl Chunked {
    /// Nothing has come; there may be this much of it.
    pub fn new(content_max: usize) -> Chunked {
        Chunked {
            state: State::Line(Vec::new()),
            content: Vec::new(),
            content_max,
        }
    }

    /// All of it is there.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Takes bytes until it is whole: how many.
    ///
    /// # Errors
    ///
    /// It cannot be had.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        let mut at = 0;
        while let (false, Some(&byte)) = (self.is_over(), bytes.get(at)) {
            if let State::Content(left) = &mut self.state {
                let count = (*left).min(bytes.len() - at);
                self.content.extend_from_slice(&bytes[at..][..count]);
                at += count;
                *left -= count;
                if *left == 0 {
                    self.state = State::LineEnd(false);
                }
                continue;
            }
            at += 1;
            self.take_byte(byte)?;
        }
        Ok(at)
    }

    /// A byte that is no content.
    fn take_byte(&mut self, byte: u8) -> Result<(), BodyError> {
        match &mut self.state {
            State::Line(line) => {
                if push_to_line(line, byte, CHUNK_LINE_LEN_MAX)? {
                    let len = chunk_len(line)?;
                    if len > self.content_max - self.content.len() {
                        return Err(BodyError::TooLong);
                    }
                    self.state = match len {
                        0 => State::Trailer(Vec::new(), 0),
                        len => State::Content(len),
                    };
                }
            }
            State::LineEnd(has_return) => match (*has_return, byte) {
                (false, b'\r') => *has_return = true,
                (true, b'\n') => self.state = State::Line(Vec::new()),
                _ => return Err(BodyError::Syntax),
            },
            State::Trailer(line, len) => {
                *len += 1;
                if *len > TRAILER_LEN_MAX {
                    return Err(BodyError::TooLong);
                }
                if push_to_line(line, byte, TRAILER_LEN_MAX)? {
                    match line.is_empty() {
                        true => self.state = State::Over,
                        // Fields behind the content are not handed on: RFC 9110 §6.5.1 lets nobody count on them.
                        false => line.clear(),
                    }
                }
            }
            State::Content(_) | State::Over => {}
        }
        Ok(())
    }
}

/// True when the line is whole; it is without its end then.
fn push_to_line(line: &mut Vec<u8>, byte: u8, len_max: usize) -> Result<bool, BodyError> {
    match (line.last() == Some(&b'\r'), byte) {
        (true, b'\n') => {
            line.pop();
            Ok(true)
        }
        // RFC 9112 §2.2: a line ends with both, or a proxy before us may see another end.
        (true, _) | (false, b'\n') => Err(BodyError::Syntax),
        _ if line.len() == len_max => Err(BodyError::TooLong),
        _ => {
            line.push(byte);
            Ok(false)
        }
    }
}

/// The length that a chunk's line says, before a `;` and what is behind it.
fn chunk_len(line: &[u8]) -> Result<usize, BodyError> {
    let end = line.iter().position(|&b| b == b';').unwrap_or(line.len());
    let digits = line[..end].trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(BodyError::Syntax);
    }
    let text = str::from_utf8(digits).map_err(|_| BodyError::Syntax)?;
    usize::from_str_radix(text, 16).map_err(|_| BodyError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], step: usize, most: usize) -> Result<(Vec<u8>, usize, bool), BodyError> {
        let mut body = Chunked::new(most);
        let mut taken = 0;
        for part in bytes.chunks(step) {
            taken += body.take(part)?;
            assert!(body.content.len() <= most);
        }
        let is_over = body.is_over();
        Ok((body.content, taken, is_over))
    }

    #[test]
    fn chunks_are_joined() {
        let text = b"3\r\nabc\r\n0A;name=\"value\"\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET / ";
        let end = text.len() - b"GET / ".len();
        for step in 1..text.len() + 1 {
            let (content, taken, is_over) = read(text, step, 13).unwrap();
            assert_eq!(
                (&*content, taken, is_over),
                (&b"abc0123456789"[..], end, true)
            );
        }
        for cut in 0..end {
            assert!(!read(&text[..cut], 5, 13).unwrap().2, "{cut}");
        }
        assert_eq!(read(text, 4, 12), Err(BodyError::TooLong));
    }

    #[test]
    fn what_leaves_a_doubt_is_refused() {
        let long_line = [&b"1;"[..], &[b'x'; CHUNK_LINE_LEN_MAX], b"\r\n"].concat();
        let long_trailer = [&b"0\r\n"[..], &b"A: b\r\n".repeat(TRAILER_LEN_MAX)].concat();
        for (text, wanted) in [
            (&b"3\nabc\r\n"[..], BodyError::Syntax),
            (b"3\r\nabcd\r\n", BodyError::Syntax),
            (b"3\r\nabc\n", BodyError::Syntax),
            (b"\r\n", BodyError::Syntax),
            (b"0x3\r\n", BodyError::Syntax),
            (b" 3\r\n", BodyError::Syntax),
            (b"+3\r\n", BodyError::Syntax),
            (b"-1\r\n", BodyError::Syntax),
            (b"3\rabc", BodyError::Syntax),
            (b"0\r\n\n", BodyError::Syntax),
            (b"ffffffffffffffff\r\n", BodyError::TooLong),
            (b"10000000000000000\r\n", BodyError::TooLong),
            (&long_line, BodyError::TooLong),
            (&long_trailer, BodyError::TooLong),
        ] {
            for step in [1, 2, 7, 100_000] {
                assert_eq!(
                    read(text, step, 1000),
                    Err(wanted),
                    "{}",
                    text.escape_ascii()
                );
            }
        }
    }
}
