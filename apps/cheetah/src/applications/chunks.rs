//! A chunked body (RFC 9112 §7.1), of a client's request or of an upstream's answer, read wherever it is cut.
//!
//! Chunks are read to the letter: what leaves a doubt about where the message ends is refused.

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
    /// It is longer than what is collected, and its upstream takes no chunks.
    WithoutLength,
}

/// Reads chunks.
#[derive(Debug)]
pub struct Chunks {
    state: State,
    /// Bytes of content that may still be announced.
    room: u64,
}

#[derive(Debug)]
enum State {
    /// In the line with a chunk's length: what has come of it.
    Line(Vec<u8>),
    /// This many bytes of a chunk are left.
    Content(u64),
    /// The line end behind a chunk: one byte of it has come.
    LineEnd(bool),
    /// The fields behind the last chunk, as lines, the present one included.
    Trailer(Vec<u8>),
    /// All is there: these lines were behind it.
    Over(Vec<u8>),
}

impl Chunks {
    /// Nothing has come; there may be this much of content.
    pub fn new(room: u64) -> Chunks {
        Chunks {
            state: State::Line(Vec::new()),
            room,
        }
    }

    /// All of them are there.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// The lines behind the last chunk (RFC 9112 §7.1.2), each with its end, when all is there: nobody has looked at what they say.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        match &mut self.state {
            State::Over(lines) => std::mem::take(lines),
            _ => Vec::new(),
        }
    }

    /// Takes bytes until the last chunk is whole: how many. Their content is appended to `content`.
    ///
    /// # Errors
    ///
    /// It is no chunked body, or too long a one.
    pub fn take(&mut self, bytes: &[u8], content: &mut Vec<u8>) -> Result<usize, BodyError> {
        let mut at = 0;
        while let (false, Some(&byte)) = (self.is_over(), bytes.get(at)) {
            if let State::Content(left) = &mut self.state {
                let rest = &bytes[at..];
                let count = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                content.extend_from_slice(&rest[..count]);
                at += count;
                *left -= count as u64;
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
                    self.room = self.room.checked_sub(len).ok_or(BodyError::TooLong)?;
                    self.state = match len {
                        0 => State::Trailer(Vec::new()),
                        len => State::Content(len),
                    };
                }
            }
            State::LineEnd(has_return) => match (*has_return, byte) {
                (false, b'\r') => *has_return = true,
                (true, b'\n') => self.state = State::Line(Vec::new()),
                _ => return Err(BodyError::Syntax),
            },
            State::Trailer(lines) => {
                if lines.len() == TRAILER_LEN_MAX {
                    return Err(BodyError::TooLong);
                }
                lines.push(byte);
                if !ends_line(lines)? {
                    return Ok(());
                }
                if lines.ends_with(b"\r\n\r\n") || lines == b"\r\n" {
                    lines.truncate(lines.len() - b"\r\n".len());
                    self.state = State::Over(std::mem::take(lines));
                }
            }
            State::Content(_) | State::Over(_) => {}
        }
        Ok(())
    }
}

/// Whether the last byte of lines ends one.
fn ends_line(lines: &[u8]) -> Result<bool, BodyError> {
    match lines {
        [.., b'\r', b'\n'] => Ok(true),
        // RFC 9112 §2.2: a line ends with both.
        [.., b'\r', _] | [.., b'\n'] => Err(BodyError::Syntax),
        _ => Ok(false),
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
fn chunk_len(line: &[u8]) -> Result<u64, BodyError> {
    let end = line.iter().position(|&b| b == b';').unwrap_or(line.len());
    let digits = line[..end].trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(BodyError::Syntax);
    }
    let text = str::from_utf8(digits).map_err(|_| BodyError::Syntax)?;
    u64::from_str_radix(text, 16).map_err(|_| BodyError::TooLong)
}
