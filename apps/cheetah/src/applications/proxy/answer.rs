//! What an upstream answers (RFC 9112): bytes in, the head for the client and content out, as they come.
//!
//! Where an answer ends is said by its request, its status and its fields, in this order (§6.3):
//!
//! | answer | ends |
//! |---|---|
//! | to HEAD; 204, 304 | behind its head |
//! | 101, where a change of protocol was asked for | with the connection, and is what the protocol says |
//! | Transfer-Encoding: chunked | behind the last chunk |
//! | Content-Length | after that many bytes |
//! | any other | with the connection |
//!
//! What leaves a doubt about that is no answer: both fields, a length that is no number or there twice, another transfer coding, one in
//! HTTP/1.0, a folded line, a control character. What comes behind the end is not read: the connection is not used again.

use std::fmt;

use exos_inet::tcp::Reason;
use httparse::{EMPTY_HEADER, Header, Status as Parsed};

use crate::applications::chunks::{BodyError, Chunks};
use crate::applications::head::{
    Head, HeadError, fields_named, length, lines, push_field, reason_of,
};
use crate::caching::said::Said;
use crate::limits::{APPLICATION_FIELDS_MAX, APPLICATION_HEAD_LEN_MAX, INTERIM_ANSWERS_MAX};
use crate::message::request::list;

/// Why an upstream's answer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// It does not begin with a status line and fields.
    Head(HeadError),
    /// The head is too long.
    HeadLength,
    /// The status is none.
    Status(u16),
    /// It is in a transfer coding that is not known, or of a version that has none.
    Coding,
    /// It says its length in two ways.
    LengthAndCoding,
    /// Its chunks are none.
    Chunks(BodyError),
    /// There are too many answers before the last one.
    Interims,
    /// It changes to a protocol that was not asked for.
    Protocol,
    /// It goes on without the change of protocol that all depends on.
    Unchanged,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerError::Head(HeadError::Syntax) => {
                f.write_str("its answer does not begin with a status line and fields of HTTP/1")
            }
            AnswerError::Head(error) => error.fmt(f),
            AnswerError::HeadLength => write!(
                f,
                "the header of its answer is longer than {APPLICATION_HEAD_LEN_MAX} bytes"
            ),
            AnswerError::Status(code) => write!(f, "the status of its answer is {code}"),
            AnswerError::Coding => {
                f.write_str("the Transfer-Encoding of its answer is not chunked alone")
            }
            AnswerError::LengthAndCoding => {
                f.write_str("its answer has Content-Length and Transfer-Encoding")
            }
            AnswerError::Chunks(_) => f.write_str("the chunks of its answer are none"),
            AnswerError::Interims => {
                write!(f, "more than {INTERIM_ANSWERS_MAX} answers of 1xx")
            }
            AnswerError::Protocol => {
                f.write_str("it changes to another protocol, which nobody asked for")
            }
            AnswerError::Unchanged => {
                f.write_str("it has answered without the change of protocol that it was asked for")
            }
        }
    }
}

/// What the client has asked, as far as its answer depends on that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question {
    /// By HEAD.
    pub asks_head: bool,
    /// It wants to change to another protocol.
    pub wants_upgrade: bool,
    /// Its answer may be kept.
    pub may_be_kept: bool,
}

/// An answer that comes.
#[derive(Debug)]
pub struct Answer {
    question: Question,
    state: State,
    /// What has come of a head.
    begun: Vec<u8>,
    /// Bytes have come.
    has_begun: bool,
    /// Answers before the last one.
    interims: usize,
    /// Another request may follow on its connection.
    persistent: bool,
    /// It is of HTTP/1.0.
    is_old: bool,
}

#[derive(Debug)]
enum State {
    Head,
    /// This many bytes of content are left.
    Length(u64),
    Chunks(Chunks),
    /// All that comes is content; without an answer's frame behind a change of protocol.
    Rest,
    Over,
}

/// What has come of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// This many bytes were taken.
    pub count: usize,
    /// Answers before the last one that go to the client, whole.
    pub interim: Vec<u8>,
    /// The head, if that is whole now.
    pub head: Option<Head>,
    /// The lines behind the last chunk, when that is whole.
    pub trailers: Vec<u8>,
}

/// A head that was read.
struct Read {
    head: Head,
    state: State,
    persistent: bool,
    is_old: bool,
}

impl Answer {
    /// Nothing has come.
    pub fn to(question: Question) -> Answer {
        Answer {
            question,
            state: State::Head,
            begun: Vec::new(),
            has_begun: false,
            interims: 0,
            persistent: false,
            is_old: false,
        }
    }

    /// Takes bytes until the answer is whole. Its content is appended to `content`. `is_set` says which fields a rule sets instead.
    ///
    /// # Errors
    ///
    /// It is no answer.
    pub fn take(
        &mut self,
        bytes: &[u8],
        is_set: impl Fn(&str) -> bool,
        content: &mut Vec<u8>,
    ) -> Result<Taken, AnswerError> {
        let mut taken = Taken::default();
        self.has_begun |= !bytes.is_empty();
        while taken.count < bytes.len() {
            let rest = &bytes[taken.count..];
            match &mut self.state {
                State::Head => taken.count += self.take_head(rest, &is_set, &mut taken)?,
                State::Length(left) => {
                    let count = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    content.extend_from_slice(&rest[..count]);
                    taken.count += count;
                    *left -= count as u64;
                    if *left == 0 {
                        self.state = State::Over;
                    }
                }
                State::Chunks(chunks) => {
                    let count = chunks.take(rest, content);
                    taken.count += count.map_err(AnswerError::Chunks)?;
                    if chunks.is_over() {
                        taken.trailers = chunks.take_trailers();
                        self.state = State::Over;
                    }
                }
                State::Rest => {
                    content.extend_from_slice(rest);
                    taken.count = bytes.len();
                }
                State::Over => break,
            }
        }
        Ok(taken)
    }

    /// Takes what comes of a head: how many bytes.
    fn take_head(
        &mut self,
        bytes: &[u8],
        is_set: &impl Fn(&str) -> bool,
        taken: &mut Taken,
    ) -> Result<usize, AnswerError> {
        let before = self.begun.len();
        let part = &bytes[..bytes.len().min(APPLICATION_HEAD_LEN_MAX - before)];
        // Most come whole, in front of content that need not be looked through; all else is decided below.
        if before == 0
            && let Ok(Some((read, len))) = read_head(part, self.question, is_set)
        {
            self.hear_head(read, taken)?;
            return Ok(len);
        }
        self.begun.extend_from_slice(part);
        // Whole lines alone, and only when one has ended: so the verdict does not depend on how it was cut, and a head in many
        // pieces is not read as often.
        let lines = part.iter().rposition(|&b| b == b'\n');
        let read = match lines {
            Some(at) => read_head(&self.begun[..=before + at], self.question, is_set)?,
            None => None,
        };
        let Some((read, len)) = read else {
            return match self.begun.len() == APPLICATION_HEAD_LEN_MAX {
                true => Err(AnswerError::HeadLength),
                false => Ok(part.len()),
            };
        };
        self.begun = Vec::new();
        self.hear_head(read, taken)?;
        Ok(len.saturating_sub(before))
    }

    /// A head is whole.
    fn hear_head(&mut self, read: Read, taken: &mut Taken) -> Result<(), AnswerError> {
        if matches!(read.state, State::Head) {
            self.interims += 1;
            if self.interims > INTERIM_ANSWERS_MAX {
                return Err(AnswerError::Interims);
            }
            // RFC 9110 §15.2: all but the leave to send a body, which was given here.
            if read.head.code != 100 {
                push_interim(&mut taken.interim, &read.head);
            }
        } else {
            (self.state, self.persistent) = (read.state, read.persistent);
            self.is_old = read.is_old;
            taken.head = Some(read.head);
        }
        Ok(())
    }

    /// The connection has ended for this reason: true when that ends the answer, as it should.
    pub fn ends_with(&mut self, reason: Reason) -> bool {
        let is_end = reason == Reason::Done && matches!(self.state, State::Rest);
        if is_end {
            self.state = State::Over;
        }
        is_end || self.is_over()
    }

    /// It is whole.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// It is whole, and another may follow on its connection.
    pub fn may_be_followed(&self) -> bool {
        self.is_over() && self.persistent
    }

    /// Its head has come, and is of HTTP/1.0.
    pub fn is_old(&self) -> bool {
        self.is_old
    }

    /// No byte has come.
    pub fn is_fresh(&self) -> bool {
        !self.has_begun
    }
}

/// Reads the head at the start of `bytes`, with its length; nothing when more bytes are needed.
fn read_head(
    bytes: &[u8],
    question: Question,
    is_set: impl Fn(&str) -> bool,
) -> Result<Option<(Read, usize)>, AnswerError> {
    let mut fields = [EMPTY_HEADER; APPLICATION_FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    let len = match parsed.parse(bytes) {
        Ok(Parsed::Complete(len)) => len,
        Ok(Parsed::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(AnswerError::Head(HeadError::TooManyFields));
        }
        Err(_) => return Err(AnswerError::Head(HeadError::Syntax)),
    };
    let code = parsed.code.unwrap_or(0);
    let reason = reason_of(code, parsed.reason.unwrap_or(""));
    let is_old = parsed.version != Some(1);
    let fields = &*parsed.headers;
    let (state, length) = framing(code, fields, is_old, question)?;
    let mut lines = lines(fields, &LEFT_OUT, is_set);
    if code == 101 {
        push_field(&mut lines, "Connection", b"upgrade");
        let protocols = fields_named(fields, "upgrade").map(|field| field.value);
        protocols.for_each(|value| push_field(&mut lines, "Upgrade", value));
    }
    let says = |option: &[u8]| {
        let mut options = fields_named(fields, "connection").flat_map(|field| list(field.value));
        options.any(|it| it.eq_ignore_ascii_case(option))
    };
    let head = Head {
        code,
        reason,
        length,
        fields: lines,
        said: question.may_be_kept.then(|| Box::new(Said::of(fields))),
    };
    let ends = matches!(state, State::Rest) || says(b"close");
    let persistent = !ends && (!is_old || says(b"keep-alive"));
    let read = Read {
        head,
        state,
        persistent,
        is_old,
    };
    Ok(Some((read, len)))
}

/// Fields that are about the connection, or that this server says itself, in lower case.
const LEFT_OUT: [&str; 9] = [
    "connection",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What follows a head, and the length that it says (RFC 9112 §6.3).
fn framing(
    code: u16,
    fields: &[Header<'_>],
    is_old: bool,
    question: Question,
) -> Result<(State, Option<u64>), AnswerError> {
    let mut codings = fields_named(fields, "transfer-encoding");
    let coding = codings.next().map(|field| field.value.trim_ascii());
    let length = length(fields).map_err(AnswerError::Head)?;
    match code {
        101 if question.wants_upgrade => return Ok((State::Rest, None)),
        101 => return Err(AnswerError::Protocol),
        // Another answer follows.
        100..200 => return Ok((State::Head, None)),
        200..600 => {}
        code => return Err(AnswerError::Status(code)),
    }
    let is_chunked = coding.is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
    Ok(match (coding, length) {
        (Some(_), Some(_)) => return Err(AnswerError::LengthAndCoding),
        (Some(_), None) if !is_chunked || is_old || codings.next().is_some() => {
            return Err(AnswerError::Coding);
        }
        (_, length) if question.asks_head || matches!(code, 204 | 304) => (State::Over, length),
        (Some(_), None) => (State::Chunks(Chunks::new(u64::MAX)), None),
        (None, Some(0)) => (State::Over, Some(0)),
        (None, Some(length)) => (State::Length(length), Some(length)),
        (None, None) => (State::Rest, None),
    })
}

/// Appends an answer before the last one.
fn push_interim(out: &mut Vec<u8>, head: &Head) {
    let line = format!("HTTP/1.1 {} {}\r\n", head.code, head.reason);
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(&head.fields);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
#[path = "answer/tests.rs"]
mod tests;
