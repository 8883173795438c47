//! One request head: from bytes to a [`Request`], or to the fault that refuses it.
//!
//! httparse finds the tokens; what they mean together is decided here, above all where the
//! request ends: everything in RFC 9112 §6.3 that leaves a doubt is refused and closes the
//! connection, so that no proxy before us and we can disagree (request smuggling).
//!
//! The verdict depends only on the bytes, not on how they were cut into segments.

use std::mem::MaybeUninit;

use httparse::{Error, Header};

use super::fault::Fault;
use super::target::is_authority;
use super::version::Version;
use crate::limits::{FIELDS_MAX, HEAD_LEN_MAX, REPARSE_FREELY_LEN, REQUEST_LINE_LEN_MAX};

/// Space for the header fields of one request; a fresh one costs nothing.
pub struct FieldStore<'a>([MaybeUninit<Header<'a>>; FIELDS_MAX]);

impl FieldStore<'_> {
    /// Empty space.
    #[inline]
    #[expect(clippy::new_without_default, reason = "a scratch area, not a value")]
    pub fn new() -> Self {
        FieldStore([const { MaybeUninit::uninit() }; FIELDS_MAX])
    }
}

/// What the client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The document.
    Get,
    /// Its header fields.
    Head,
    /// What can be done with it.
    Options,
    /// A method that HTTP defines and this server does not offer.
    NotOffered,
    /// Anything else.
    Unknown,
}

impl Method {
    /// It asks for nothing to be changed (RFC 9110 §9.2.1), so that a request may be answered twice.
    #[inline]
    pub fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options)
    }
}

/// What comes after the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// This many bytes, often 0.
    Length(u64),
    /// A chunked body, which is not read.
    Chunked,
    /// A body in a transfer coding that is not known.
    UnknownCoding,
}

/// A request whose head is whole and whose end is certain.
#[derive(Debug)]
pub struct Request<'b, 'f> {
    /// The method.
    pub method: Method,
    /// The method as it came.
    pub method_name: &'b str,
    /// The target as it came, see [`super::target::Target`].
    pub target: &'b [u8],
    /// The Host field as it came; `None` where there is none, which HTTP/1.0 allows.
    pub host: Option<&'b [u8]>,
    /// How it was asked.
    pub version: Version,
    /// Length of the head, its final empty line included.
    pub head_len: usize,
    /// What follows the head.
    pub body: Body,
    /// The client wants another request on this connection.
    pub persistent: bool,
    /// The client waits for leave before it sends the body (RFC 9110 §10.1.1).
    pub expects_continue: bool,
    /// The client expects something else, unknown to us.
    pub expects_unknown: bool,
    /// There are preconditions among the fields, or parts of the document are asked for.
    pub conditional: bool,
    /// There is an Upgrade field.
    pub has_upgrade: bool,
    /// All header fields.
    pub fields: &'f [Header<'b>],
}

impl Request<'_, '_> {
    /// This request, whose text is that of one which was asked otherwise.
    #[inline]
    pub(crate) fn asked_by(self, version: Version) -> Self {
        Request { version, ..self }
    }

    /// It asks for a tunnel on its stream, in which another protocol is spoken: CONNECT with a protocol (RFC 8441 §4), which is written here
    /// as the change of protocol that HTTP/1.1 has for it. Streams know no other.
    #[inline]
    pub(crate) fn is_tunnel(&self) -> bool {
        self.has_upgrade && self.version.has_streams()
    }
}

/// Parses the head at the start of `bytes`: `None` when more bytes are needed.
///
/// # Errors
///
/// The fault to answer with before closing.
#[inline]
pub fn parse<'b, 'f>(
    bytes: &'b [u8],
    store: &'f mut FieldStore<'b>,
) -> Result<Option<Request<'b, 'f>>, Fault> {
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(window(bytes), &mut store.0) {
        Ok(httparse::Status::Complete(head_len)) => understand(parsed, head_len).map(Some),
        Ok(httparse::Status::Partial) => unfinished(bytes),
        Err(error) => malformed(bytes, error),
    }
}

/// The head of a request of HTTP/1.2 or later, as HTTP/1.1 has it: that is how it is served (RFC 9110 §2.5). Nobody sends
/// such requests but those who try, so it may cost a copy.
pub(crate) fn as_http_1_1(bytes: &[u8]) -> Option<Vec<u8>> {
    let line = first_line(bytes)?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let minor_at = line.len().checked_sub(1)?;
    let version = line.last_chunk::<9>()?;
    if !version.starts_with(b" HTTP/1.") || !matches!(version[8], b'2'..=b'9') {
        return None;
    }
    let mut copy = bytes[..bytes.len().min(HEAD_LEN_MAX)].to_vec();
    copy[minor_at] = b'1';
    Some(copy)
}

/// True when `bytes`, of which the first `seen` gave no whole head before, may give one now.
#[inline]
pub fn is_worth_parsing(bytes: &[u8], seen: usize) -> bool {
    seen < REPARSE_FREELY_LEN
        || bytes.len() >= HEAD_LEN_MAX
        || (seen <= REQUEST_LINE_LEN_MAX && bytes.len() > REQUEST_LINE_LEN_MAX)
        || bytes[seen.min(bytes.len())..].contains(&b'\n')
}

/// What of `bytes` is parsed: no more than a head may be long, and of a long head only whole
/// lines, so that parsing again after every segment and parsing at once agree. Of a request line
/// that is too long, as much as was parsed while it was arriving.
#[inline]
fn window(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= REPARSE_FREELY_LEN {
        return bytes;
    }
    if line_is_too_long(bytes) {
        return &bytes[..REPARSE_FREELY_LEN];
    }
    let bytes = &bytes[..bytes.len().min(HEAD_LEN_MAX)];
    let lines_len = bytes
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |at| at + 1);
    &bytes[..lines_len.max(REPARSE_FREELY_LEN)]
}

fn unfinished<T>(bytes: &[u8]) -> Result<Option<T>, Fault> {
    if line_is_too_long(bytes) {
        Err(Fault::TargetTooLong)
    } else if bytes.len() >= HEAD_LEN_MAX {
        Err(Fault::HeadTooLong)
    } else {
        Ok(None)
    }
}

fn line_is_too_long(bytes: &[u8]) -> bool {
    bytes.len() > REQUEST_LINE_LEN_MAX && first_line(bytes).is_none()
}

/// The request line without its LF, if it has ended within the limit.
fn first_line(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = &bytes[..bytes.len().min(REQUEST_LINE_LEN_MAX + 1)];
    let end = bytes.iter().position(|&b| b == b'\n')?;
    Some(&bytes[..end])
}

fn malformed<T>(bytes: &[u8], error: Error) -> Result<Option<T>, Fault> {
    match error {
        // Whether it is another version or no version shows only when the line is whole.
        Error::Version => match first_line(bytes) {
            Some(line) if names_other_version(line) => Err(Fault::Version),
            Some(_) => Err(Fault::RequestLine),
            None => unfinished(bytes),
        },
        Error::TooManyHeaders => Err(Fault::TooManyFields),
        Error::HeaderName | Error::HeaderValue => Err(Fault::FieldSyntax),
        Error::Token | Error::NewLine | Error::Status => Err(Fault::RequestLine),
    }
}

/// True for a line that ends like ` HTTP/2.0`. One that ends with a version of ours has something
/// else wrong with it.
fn names_other_version(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.last_chunk() {
        Some(&[b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor]) => {
            let is_version = major.is_ascii_digit() && minor.is_ascii_digit();
            is_version && !matches!((major, minor), (b'1', b'0' | b'1'))
        }
        _ => false,
    }
}

#[inline]
fn understand<'b, 'f>(
    parsed: httparse::Request<'f, 'b>,
    head_len: usize,
) -> Result<Request<'b, 'f>, Fault> {
    let mut noted = Noted::default();
    for field in parsed.headers.iter() {
        noted.note(field)?;
    }
    let version = Version::of_minor(parsed.version.unwrap_or(1));
    let is_new = version != Version::Http10;
    if noted.host.is_none() && is_new {
        return Err(Fault::HostMissing); // RFC 9112 §3.2
    }
    Ok(Request {
        method: method(parsed.method.unwrap_or("")),
        method_name: parsed.method.unwrap_or(""),
        target: parsed.path.unwrap_or("").as_bytes(),
        host: noted.host,
        version,
        head_len,
        body: noted.body(version)?,
        persistent: !noted.close && (is_new || noted.keep_alive),
        expects_continue: noted.expects_continue && is_new,
        expects_unknown: noted.expects_unknown && is_new,
        conditional: noted.conditional,
        has_upgrade: noted.upgrade,
        fields: parsed.headers,
    })
}

#[inline]
pub(super) fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        // RFC 9110 §9.3 and RFC 5789.
        "POST" | "PUT" | "DELETE" | "CONNECT" | "TRACE" | "PATCH" => Method::NotOffered,
        _ => Method::Unknown,
    }
}

/// What the fields have said so far.
#[derive(Default)]
pub(super) struct Noted<'b> {
    pub(super) host: Option<&'b [u8]>,
    close: bool,
    keep_alive: bool,
    pub(super) conditional: bool,
    pub(super) upgrade: bool,
    pub(super) expects_continue: bool,
    pub(super) expects_unknown: bool,
    length: Option<u64>,
    coding: Option<Coding>,
}

#[derive(PartialEq)]
enum Coding {
    Chunked,
    Unknown,
}

impl<'b> Noted<'b> {
    /// Takes note of one field. Names of other lengths than these are nothing to us.
    #[inline]
    pub(super) fn note(&mut self, field: &Header<'b>) -> Result<(), Fault> {
        let (name, value) = (field.name, field.value);
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            4 if is("host") => self.note_host(value)?,
            5 if is("range") => self.conditional = true,
            6 if is("expect") => self.note_expect(value),
            7 if is("upgrade") => self.upgrade = true,
            8 if is("if-match") => self.conditional = true,
            10 if is("connection") => self.note_connection(value),
            13 if is("if-none-match") => self.conditional = true,
            14 if is("content-length") => self.note_length(value)?,
            17 if is("if-modified-since") => self.conditional = true,
            17 if is("transfer-encoding") => self.note_coding(value),
            19 if is("if-unmodified-since") => self.conditional = true,
            _ => {}
        }
        Ok(())
    }

    fn note_host(&mut self, value: &'b [u8]) -> Result<(), Fault> {
        // RFC 9112 §3.2: more than one, or an invalid one, is answered with 400.
        let value = value.trim_ascii();
        match self.host.replace(value) {
            None if is_authority(value) => Ok(()),
            _ => Err(Fault::HostInvalid),
        }
    }

    fn note_connection(&mut self, value: &[u8]) {
        for option in list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn note_expect(&mut self, value: &[u8]) {
        if value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
            self.expects_continue = true;
        } else {
            self.expects_unknown = true;
        }
    }

    fn note_length(&mut self, value: &[u8]) -> Result<(), Fault> {
        // RFC 9112 §6.3, fifth: lists and repetitions may be refused, so they are.
        let length = Some(value.trim_ascii())
            .filter(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
            .and_then(|digits| str::from_utf8(digits).ok()?.parse().ok())
            .ok_or(Fault::LengthInvalid)?;
        match self.length.replace(length) {
            None => Ok(()),
            Some(_) => Err(Fault::LengthInvalid),
        }
    }

    fn note_coding(&mut self, value: &[u8]) {
        let is_chunked = value.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let is_first = self.coding.is_none();
        self.coding = Some(if is_chunked && is_first {
            Coding::Chunked
        } else {
            Coding::Unknown
        });
    }

    /// Where the request ends (RFC 9112 §6.3).
    #[inline]
    fn body(&self, version: Version) -> Result<Body, Fault> {
        match (&self.coding, self.length) {
            (None, length) => Ok(Body::Length(length.unwrap_or(0))),
            (Some(_), Some(_)) => Err(Fault::LengthAndCoding),
            // RFC 9112 §6.1: its framing is faulty even if it looks well.
            (Some(_), None) if version == Version::Http10 => Err(Fault::CodingInOldVersion),
            (Some(Coding::Chunked), None) => Ok(Body::Chunked),
            (Some(Coding::Unknown), None) => Ok(Body::UnknownCoding),
        }
    }
}

/// The members of a comma-separated list (RFC 9110 §5.6.1).
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}
