//! What an application answers, as an HTTP response: records in, bytes for the client out, as they come.

use std::fmt;
use std::io::Write as _;
use std::mem::take;

use exos_application::asking;
use exos_buf::Slice;

use super::head::{Head, HeadError};
use super::proxy::answer::AnswerError;
use super::record::{Decoder, Ending, Piece, RecordError};
use crate::limits::{APPLICATION_HEAD_LEN_MAX, WARNING_LEN_MAX, WARNINGS_MAX};
use crate::message::Version;
use crate::message::text::push_number;

/// Why an application's answer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// Its records make no sense.
    Record(RecordError),
    /// Its head makes no sense.
    Head(HeadError),
    /// Its head is too long.
    HeadLength,
    /// It ended without a head.
    NoHead,
    /// It has too much to do.
    Overloaded,
    /// It does not do what was asked, for this reason of the protocol's.
    Refused(u8),
    /// It ended before the length that it said.
    Short,
    /// It is longer than it said.
    Long,
    /// It is none of HTTP.
    Answer(AnswerError),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Record(error) => write!(f, "it sent {error}"),
            ReplyError::Head(error) => error.fmt(f),
            ReplyError::Answer(error) => error.fmt(f),
            ReplyError::HeadLength => {
                write!(
                    f,
                    "the header of its answer is longer than {APPLICATION_HEAD_LEN_MAX} bytes"
                )
            }
            ReplyError::NoHead => f.write_str("it ended the request without an answer"),
            ReplyError::Overloaded => f.write_str("it says that it has too much to do"),
            ReplyError::Refused(status) => {
                write!(f, "it refuses the request with protocol status {status}")
            }
            ReplyError::Long => f.write_str(
                "its answer is longer than the Content-Length that it said; the rest is left out",
            ),
            ReplyError::Short => {
                f.write_str("its answer ended before the Content-Length that it said")
            }
        }
    }
}

/// An answer that comes.
#[derive(Debug, Default)]
pub struct Reply {
    decoder: Decoder,
    /// What has come of its head.
    begun: Vec<u8>,
    has_head: bool,
    /// Bytes have come.
    has_begun: bool,
    is_over: bool,
    /// What it says to the operator: the line that has begun, and those before.
    line: Vec<u8>,
    lines: Vec<String>,
    lines_told: usize,
}

impl Reply {
    /// Takes bytes until the application has ended the request: how many of them. The content of the answer is appended to
    /// `content`, and its head is given when it is whole. `is_set` says which fields a rule sets instead.
    ///
    /// # Errors
    ///
    /// It is no answer.
    pub fn take(
        &mut self,
        bytes: &[u8],
        is_set: impl Fn(&str) -> bool,
        content: &mut Vec<u8>,
    ) -> Result<(usize, Option<Head>), ReplyError> {
        let (mut at, mut head) = (0, None);
        self.has_begun |= !bytes.is_empty();
        while !self.is_over {
            let (count, piece) = self
                .decoder
                .next(&bytes[at..])
                .map_err(ReplyError::Record)?;
            at += count;
            match piece {
                None => break,
                Some(Piece::Stdout(bytes)) if self.has_head => content.extend_from_slice(bytes),
                Some(Piece::Stdout(bytes)) => head = head.or(self.begin(bytes, &is_set, content)?),
                Some(Piece::StdoutEnd) => {}
                Some(Piece::Stderr(bytes)) => self.note(bytes),
                Some(Piece::End(Ending::Overloaded)) => return Err(ReplyError::Overloaded),
                Some(Piece::End(Ending::Refused(status))) => {
                    return Err(ReplyError::Refused(status));
                }
                Some(Piece::End(Ending::Complete)) if !self.has_head => {
                    return Err(ReplyError::NoHead);
                }
                Some(Piece::End(Ending::Complete)) => self.is_over = true,
            }
        }
        Ok((at, head))
    }

    /// Takes what a part of an answer over shared buffers says beside its head and its content.
    pub fn take_part(&mut self, said: &[u8], is_last: bool) {
        self.has_begun = true;
        self.is_over |= is_last;
        self.note(said);
    }

    /// The application has ended the request.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// It is over, and another may follow: no part of a record is left, padding either.
    pub fn is_at_a_record(&self) -> bool {
        self.is_over && self.decoder.is_at_a_record()
    }

    /// No byte has come, of records of any kind.
    pub fn is_fresh(&self) -> bool {
        !self.has_begun
    }

    /// A part of the head, and perhaps of the content behind it.
    fn begin(
        &mut self,
        bytes: &[u8],
        is_set: &impl Fn(&str) -> bool,
        content: &mut Vec<u8>,
    ) -> Result<Option<Head>, ReplyError> {
        let room = APPLICATION_HEAD_LEN_MAX - self.begun.len();
        let (part, rest) = bytes.split_at(bytes.len().min(room));
        // Most come whole, in front of content that need not be looked through; all else is decided below.
        if self.begun.is_empty()
            && let Ok(Some((head, len))) = Head::parse(part, is_set)
        {
            self.has_head = true;
            content.extend_from_slice(&bytes[len..]);
            return Ok(Some(head));
        }
        self.begun.extend_from_slice(part);
        // Whole lines alone, and only when one has ended: so the verdict does not depend on how it was cut, and a head in many
        // pieces is not read as often.
        let head = match part.iter().rposition(|&b| b == b'\n') {
            Some(at) => {
                let lines = self.begun.len() - part.len() + at + 1;
                Head::parse(&self.begun[..lines], is_set).map_err(ReplyError::Head)?
            }
            None => None,
        };
        let Some((head, len)) = head else {
            return match self.begun.len() == APPLICATION_HEAD_LEN_MAX {
                true => Err(ReplyError::HeadLength),
                false => Ok(None),
            };
        };
        self.has_head = true;
        content.extend_from_slice(&take(&mut self.begun)[len..]);
        content.extend_from_slice(rest);
        Ok(Some(head))
    }

    /// What is for the operator: lines that end, of printable characters.
    fn note(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&b| b == b'\n') {
            let room = WARNING_LEN_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let line = take(&mut self.line);
        let text = String::from_utf8_lossy(line.trim_ascii());
        if text.is_empty() || self.lines_told == WARNINGS_MAX {
            return;
        }
        self.lines_told += 1;
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        self.lines.push(text.chars().map(plain).collect());
    }

    /// What it has said to the operator since the last call; when it is over, also a line that has not ended.
    pub fn take_warnings(&mut self) -> Vec<String> {
        if self.line.is_empty() && self.lines.is_empty() {
            return Vec::new();
        }
        if self.is_over {
            self.end_line();
        }
        take(&mut self.lines)
    }
}

/// A piece of an answer's content.
#[derive(Clone, Debug)]
pub enum Content {
    /// Bytes that are nobody else's.
    Bytes(Vec<u8>),
    /// A part of a buffer.
    Slice(Slice),
}

impl From<asking::Content> for Content {
    fn from(content: asking::Content) -> Content {
        match content {
            asking::Content::Bytes(bytes) => Content::Bytes(bytes),
            asking::Content::Slice(slice) => Content::Slice(slice),
        }
    }
}

impl Content {
    /// Nothing.
    pub const NONE: Content = Content::Bytes(Vec::new());

    /// Bytes.
    pub fn len(&self) -> usize {
        match self {
            Content::Bytes(bytes) => bytes.len(),
            Content::Slice(slice) => slice.len(),
        }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Content::Bytes(bytes) => bytes.truncate(len),
            Content::Slice(slice) if len < slice.len() => *slice = slice.sub(0..len),
            Content::Slice(_) => {}
        }
    }
}

/// How a client knows where the content ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Without,
    /// After this many bytes more.
    Length(u64),
    /// By the last chunk.
    Chunked,
    /// With the connection, or the stream.
    Close,
    /// With the connection, on which another protocol is spoken from here on.
    Tunnel,
}

impl Framing {
    /// That of an answer to a request, of which a length may be said; `asks_head` says that it was HEAD.
    pub fn of(code: u16, length: Option<u64>, asks_head: bool, version: Version) -> Framing {
        match (length, version) {
            _ if code == 101 => Framing::Tunnel,
            _ if asks_head || matches!(code, 204 | 304) => Framing::Without,
            (Some(length), _) => Framing::Length(length),
            (None, Version::Http10 | Version::Http2 | Version::Http3) => Framing::Close,
            (None, Version::Http11) => Framing::Chunked,
        }
    }

    /// The fields that say so, of an answer of which this was said.
    pub fn push_fields(self, code: u16, length: Option<u64>, out: &mut Vec<u8>) {
        match (self, length) {
            // Of HEAD it is what GET would have.
            (Framing::Without | Framing::Length(_), Some(length)) => push_length(code, length, out),
            (Framing::Chunked, _) => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            (Framing::Without | Framing::Length(_), None) => {}
            (Framing::Close | Framing::Tunnel, _) => {}
        }
    }

    /// Frames a part of the answer for the client without copying it: appends the line of its chunk to `before` and the end of that
    /// to `behind`, or cuts `content` where the client gets no more. Returns false when the application has said more than the
    /// length that it announced; the excess is cut off.
    pub fn frame(
        &mut self,
        content: &mut Content,
        before: &mut Vec<u8>,
        behind: &mut Vec<u8>,
    ) -> bool {
        match self {
            _ if content.is_empty() => true,
            Framing::Without => {
                *content = Content::NONE;
                true
            }
            Framing::Close | Framing::Tunnel => true,
            Framing::Chunked => {
                let _ = write!(before, "{:x}\r\n", content.len());
                behind.extend_from_slice(b"\r\n");
                true
            }
            Framing::Length(left) => {
                let all = content.len();
                content.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= content.len() as u64;
                content.len() == all
            }
        }
    }

    /// The content is whole; these lines are behind it, where there is a place for them.
    ///
    /// # Errors
    ///
    /// It is shorter than was said.
    pub fn end(self, trailers: &[u8], out: &mut Vec<u8>) -> Result<(), ReplyError> {
        match self {
            Framing::Length(1..) => return Err(ReplyError::Short),
            Framing::Chunked => [&b"0\r\n"[..], trailers, b"\r\n"]
                .iter()
                .for_each(|part| out.extend_from_slice(part)),
            Framing::Without | Framing::Length(0) | Framing::Close | Framing::Tunnel => {}
        }
        Ok(())
    }
}

/// The field that says a length. RFC 9110 §8.6: none with 204, and with 304 only what 200 would say, which nobody knows.
pub(super) fn push_length(code: u16, length: u64, out: &mut Vec<u8>) {
    if !matches!(code, 204 | 304) {
        out.extend_from_slice(b"Content-Length: ");
        push_number(out, length, 1);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
#[path = "reply/tests.rs"]
mod tests;
