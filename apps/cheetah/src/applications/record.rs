//! The records of FastCGI 1.0: what we send is written whole, what an application sends is read wherever it is cut.
//!
//! ```text
//!   version 1 | type | request id (2) | content length (2) | padding length | reserved | content | padding
//! ```
//!
//! A connection carries one request at a time, whose id is 1. Of an application's records the content is given out as it
//! comes, so that a record of any length takes no memory.

use std::fmt;

/// The length of a record's header.
pub const HEADER_LEN: usize = 8;

/// Content of one record that we send: a multiple of eight, so that none needs padding but the last.
const CONTENT_LEN_MAX: usize = 65_528;

const VERSION: u8 = 1;
const REQUEST: u16 = 1;
const ROLE_RESPONDER: u8 = 1;
const KEEP_CONNECTION: u8 = 1;

/// A stream of ours, by the number of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stream {
    /// The variables.
    Params = 4,
    /// The request's body.
    Stdin = 5,
}

const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

fn push_record(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let padding = content.len().wrapping_neg() % 8;
    let [id_high, id_low] = REQUEST.to_be_bytes();
    let [len_high, len_low] = (content.len() as u16).to_be_bytes();
    out.extend([
        VERSION,
        kind,
        id_high,
        id_low,
        len_high,
        len_low,
        padding as u8,
        0,
    ]);
    out.extend_from_slice(content);
    out.extend_from_slice(&[0; 8][..padding]);
}

/// Begins a request; `keeps` has the application leave the connection open behind it.
pub fn begin(out: &mut Vec<u8>, keeps: bool) {
    let flags = if keeps { KEEP_CONNECTION } else { 0 };
    let role = [0, ROLE_RESPONDER, flags, 0, 0, 0, 0, 0];
    push_record(out, BEGIN_REQUEST, &role);
}

/// Appends a part of a stream, in as many records as it takes; nothing for none.
pub fn part(out: &mut Vec<u8>, stream: Stream, bytes: &[u8]) {
    for content in bytes.chunks(CONTENT_LEN_MAX) {
        push_record(out, stream as u8, content);
    }
}

/// Ends a stream.
pub fn end(out: &mut Vec<u8>, stream: Stream) {
    push_record(out, stream as u8, &[]);
}

/// Says that nobody wants the answer any more.
pub fn abort(out: &mut Vec<u8>) {
    push_record(out, ABORT_REQUEST, &[]);
}

/// Appends a variable to the content of [`Stream::Params`], whose value is these one behind the other.
#[inline]
pub fn pair(out: &mut Vec<u8>, name: &[u8], value: &[&[u8]]) {
    let len: usize = value.iter().map(|part| part.len()).sum();
    if name.len() < 0x80 && len < 0x80 {
        out.extend_from_slice(&[name.len() as u8, len as u8]);
    } else {
        push_len(out, name.len());
        push_len(out, len);
    }
    out.extend_from_slice(name);
    value.iter().for_each(|part| out.extend_from_slice(part));
}

/// Appends a length: up to 127 in one byte, else in four, of which the first bit says so.
pub(super) fn push_len(out: &mut Vec<u8>, len: usize) {
    match u8::try_from(len) {
        Ok(len) if len < 0x80 => out.push(len),
        _ => out.extend((len as u32 | 1 << 31).to_be_bytes()),
    }
}

/// What an application's records say, piece by piece.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'b> {
    /// Bytes of its answer.
    Stdout(&'b [u8]),
    /// The answer is whole.
    StdoutEnd,
    /// Bytes for the operator.
    Stderr(&'b [u8]),
    /// The request is over.
    End(Ending),
}

/// How an application ends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is answered.
    Complete,
    /// The application has too much to do.
    Overloaded,
    /// It does not do this: several requests of a connection at once, or this role.
    Refused(u8),
}

/// Records that are none of FastCGI's, or of another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// Of another version.
    Version(u8),
    /// Of a request that was not made.
    Request(u16),
    /// Of a type that applications do not send.
    Kind(u8),
    /// One that ends a request has eight bytes.
    EndLength(u16),
    /// Its status is not known.
    EndStatus(u8),
    /// There is more of an answer that was whole.
    BehindEnd,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Version(version) => {
                write!(
                    f,
                    "a record of version {version}: it does not speak FastCGI 1.0"
                )
            }
            RecordError::Request(id) => write!(f, "a record of request {id}, which was not made"),
            RecordError::Kind(kind) => write!(f, "a record of type {kind}"),
            RecordError::EndLength(len) => {
                write!(f, "the end of the request in {len} bytes, not 8")
            }
            RecordError::EndStatus(status) => write!(f, "an unknown protocol status {status}"),
            RecordError::BehindEnd => f.write_str("more behind the end of its answer"),
        }
    }
}

/// Reads what an application sends.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    /// The header that has begun, or the content of the record that ends the request.
    kept: [u8; HEADER_LEN],
    kept_len: usize,
    stdout_ended: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    Content {
        kind: u8,
        left: u16,
        padding: u8,
    },
    Ending {
        padding: u8,
    },
    Padding(u8),
}

impl Decoder {
    /// Takes bytes up to the next piece: how many, and the piece; none when all bytes were taken without one.
    ///
    /// # Errors
    ///
    /// Nothing that follows means anything.
    pub fn next<'b>(&mut self, bytes: &'b [u8]) -> Result<(usize, Option<Piece<'b>>), RecordError> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match self.state {
                State::Header => {
                    if !self.fill(rest, &mut at) {
                        return Ok((at, None));
                    }
                    if let Some(piece) = self.begin_record()? {
                        return Ok((at, Some(piece)));
                    }
                }
                State::Ending { padding } => {
                    if !self.fill(rest, &mut at) {
                        return Ok((at, None));
                    }
                    self.state = State::Padding(padding);
                    return Ok((at, Some(Piece::End(ending(self.kept[4])?))));
                }
                State::Content {
                    padding, left: 0, ..
                } => self.state = State::Padding(padding),
                State::Content {
                    kind,
                    left,
                    padding,
                } => {
                    if rest.is_empty() {
                        return Ok((at, None));
                    }
                    let count = rest.len().min(usize::from(left));
                    let left = left - count as u16;
                    self.state = State::Content {
                        kind,
                        left,
                        padding,
                    };
                    let content = &rest[..count];
                    let piece = match kind {
                        STDOUT => Piece::Stdout(content),
                        _ => Piece::Stderr(content),
                    };
                    return Ok((at + count, Some(piece)));
                }
                State::Padding(0) => self.state = State::Header,
                State::Padding(left) => {
                    let count = rest.len().min(usize::from(left));
                    at += count;
                    self.state = State::Padding(left - count as u8);
                    if count == 0 {
                        return Ok((at, None));
                    }
                }
            }
        }
    }

    /// The next byte is the first of a record.
    pub fn is_at_a_record(&self) -> bool {
        matches!(self.state, State::Header | State::Padding(0)) && self.kept_len == 0
    }

    /// Keeps bytes until there are eight; false when there are not.
    fn fill(&mut self, bytes: &[u8], at: &mut usize) -> bool {
        let count = bytes.len().min(HEADER_LEN - self.kept_len);
        self.kept[self.kept_len..][..count].copy_from_slice(&bytes[..count]);
        self.kept_len += count;
        *at += count;
        let is_whole = self.kept_len == HEADER_LEN;
        if is_whole {
            self.kept_len = 0;
        }
        is_whole
    }

    /// A header is whole.
    fn begin_record(&mut self) -> Result<Option<Piece<'static>>, RecordError> {
        let [
            version,
            kind,
            id_high,
            id_low,
            len_high,
            len_low,
            padding,
            _,
        ] = self.kept;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let id = u16::from_be_bytes([id_high, id_low]);
        if id != REQUEST {
            return Err(RecordError::Request(id));
        }
        let left = u16::from_be_bytes([len_high, len_low]);
        self.state = match kind {
            STDOUT if self.stdout_ended => return Err(RecordError::BehindEnd),
            STDOUT | STDERR => State::Content {
                kind,
                left,
                padding,
            },
            END_REQUEST if left == 8 => State::Ending { padding },
            END_REQUEST => return Err(RecordError::EndLength(left)),
            kind => return Err(RecordError::Kind(kind)),
        };
        let is_end = kind == STDOUT && left == 0;
        self.stdout_ended |= is_end;
        Ok(is_end.then_some(Piece::StdoutEnd))
    }
}

fn ending(status: u8) -> Result<Ending, RecordError> {
    match status {
        0 => Ok(Ending::Complete),
        2 => Ok(Ending::Overloaded),
        1 | 3 => Ok(Ending::Refused(status)),
        status => Err(RecordError::EndStatus(status)),
    }
}

#[cfg(test)]
#[path = "record/tests.rs"]
mod tests;
