//! The head of an application's answer (RFC 3875 §6): a status and header fields, which become those of a response.

use std::borrow::Cow;
use std::fmt;

use httparse::{EMPTY_HEADER, Header, Status as Parsed};

use crate::caching::said::Said;
use crate::limits::APPLICATION_FIELDS_MAX;
use crate::message::Status;
use crate::message::request::list;

/// What an application answers, without the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// From 200 to 599.
    pub code: u16,
    /// The reason phrase.
    pub reason: Cow<'static, str>,
    /// The length of the content, if it says so.
    pub length: Option<u64>,
    /// All other fields that go to the client, as lines.
    pub fields: Vec<u8>,
    /// What it says of how it may be kept, where somebody wants to know.
    pub said: Option<Box<Said>>,
}

/// Why an answer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It does not begin with header fields.
    Syntax,
    /// There are too many of them.
    TooManyFields,
    /// The status is no final one.
    Status,
    /// The length is no number, or is there twice.
    Length,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadError::Syntax => "its answer does not begin with header fields and an empty line",
            HeadError::TooManyFields => "its answer has too many header fields",
            HeadError::Status => "the Status of its answer is not from 200 to 599",
            HeadError::Length => "the Content-Length of its answer is no number, or is there twice",
        })
    }
}

/// Fields that are about a connection or are ours to say (RFC 9110 §7.6.1), in lower case.
const OURS: [&str; 10] = [
    "connection",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "status",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Head {
    /// Reads the head at the start of `bytes`: with its length, or `None` when more bytes are needed. Fields of which
    /// `is_set` says that a rule sets them are left out.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn parse(
        bytes: &[u8],
        is_set: impl Fn(&str) -> bool,
    ) -> Result<Option<(Head, usize)>, HeadError> {
        let mut fields = [EMPTY_HEADER; APPLICATION_FIELDS_MAX];
        let (len, fields) = match httparse::parse_headers(bytes, &mut fields) {
            Ok(Parsed::Complete(parsed)) => parsed,
            Ok(Parsed::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyFields),
            Err(_) => return Err(HeadError::Syntax),
        };
        let named = |name| fields_named(fields, name);
        let (code, reason) = match (named("status").next(), named("location").next()) {
            (Some(status), _) => status_of(status.value)?,
            (None, Some(_)) => of(302),
            (None, None) => of(200),
        };
        let length = length(fields)?;
        let fields = lines(fields, &OURS, is_set);
        let head = Head {
            code,
            reason,
            length,
            fields,
            said: None,
        };
        Ok(Some((head, len)))
    }
}

/// The fields of this name.
pub(super) fn fields_named<'f, 'b>(
    fields: &'f [Header<'b>],
    name: &'static str,
) -> impl Iterator<Item = &'f Header<'b>> {
    let all = fields.iter();
    all.filter(move |field| field.name.eq_ignore_ascii_case(name))
}

/// Whether the Connection field names this one: it is about the connection then (RFC 9110 §7.6.1).
pub(super) fn is_hop_by_hop(fields: &[Header<'_>], name: &str) -> bool {
    let mut options = fields_named(fields, "connection").flat_map(|field| list(field.value));
    options.any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
}

/// The length of the content that the fields say.
///
/// # Errors
///
/// It is no number, or is there twice.
pub(super) fn length(fields: &[Header<'_>]) -> Result<Option<u64>, HeadError> {
    let mut lengths = fields_named(fields, "content-length");
    let length = lengths.next().map(|field| length_of(field.value));
    match lengths.next() {
        Some(_) => Err(HeadError::Length),
        None => length.transpose(),
    }
}

/// The fields that go to the client, as lines: none about the connection, no length, none of these names, and none that a rule sets.
pub(super) fn lines(
    fields: &[Header<'_>],
    left_out: &[&str],
    is_set: impl Fn(&str) -> bool,
) -> Vec<u8> {
    let len = |field: &Header<'_>| field.name.len() + field.value.len() + 4;
    let mut lines = Vec::with_capacity(fields.iter().map(len).sum());
    let has_options = fields_named(fields, "connection").next().is_some();
    for field in fields {
        let name = field.name;
        let is_one_of = |names: &[&str]| names.iter().any(|it| it.eq_ignore_ascii_case(name));
        let is_left_out = is_one_of(left_out) || is_one_of(&["content-length"]);
        let is_option = has_options && is_hop_by_hop(fields, name);
        if !is_left_out && !is_option && !is_set(name) {
            push_field(&mut lines, name, field.value);
        }
    }
    lines
}

/// Whether a field of this name is among lines.
pub(crate) fn is_among(lines: &[u8], name: &str) -> bool {
    let lines = lines.split(|&b| b == b'\n');
    let mut names = lines.filter_map(|line| line.split(|&b| b == b':').next());
    names.any(|it| it.eq_ignore_ascii_case(name.as_bytes()))
}

/// Appends a field's line.
pub(crate) fn push_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// `404 Not Found`, or the number alone.
fn status_of(value: &[u8]) -> Result<(u16, Cow<'static, str>), HeadError> {
    let text = value.trim_ascii();
    let (digits, reason) = text.split_at_checked(3).ok_or(HeadError::Status)?;
    let is_number =
        digits.iter().all(u8::is_ascii_digit) && reason.first().is_none_or(|b| *b == b' ');
    let code = str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok());
    let code = code
        .filter(|code| is_number && (200..600).contains(code))
        .ok_or(HeadError::Status)?;
    match reason.trim_ascii() {
        b"" => Ok(of(code)),
        reason => Ok((code, reason_of(code, &String::from_utf8_lossy(reason)))),
    }
}

/// What is said of a status, which mostly is what everybody says.
pub(super) fn reason_of(code: u16, said: &str) -> Cow<'static, str> {
    let (_, known) = of(code);
    match known == said {
        true => known,
        false => Cow::Owned(said.to_owned()),
    }
}

/// A status whose reason is not said.
fn of(code: u16) -> (u16, Cow<'static, str>) {
    let known = Status::ALL.into_iter().find(|status| status.code() == code);
    let others = match code {
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        303 => "See Other",
        409 => "Conflict",
        410 => "Gone",
        422 => "Unprocessable Content",
        _ => "",
    };
    (code, known.map_or(others, Status::reason).into())
}

fn length_of(value: &[u8]) -> Result<u64, HeadError> {
    let digits = value.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok());
    number.filter(|_| is_number).ok_or(HeadError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<(Head, usize)>, HeadError> {
        Head::parse(text.as_bytes(), |name| name == "X-Set")
    }

    #[test]
    fn a_head_is_a_status_and_fields() {
        for (text, code, reason, length, fields) in [
            (
                "Content-Type: text/html\r\n\r\nbody",
                200,
                "OK",
                None,
                "Content-Type: text/html\r\n",
            ),
            (
                "Status: 404 Gone fishing\nA: b\n\n",
                404,
                "Gone fishing",
                None,
                "A: b\r\n",
            ),
            ("status:404\r\n\r\n", 404, "Not Found", None, ""),
            ("Status: 299\r\n\r\n", 299, "", None, ""),
            (
                "Location: /there\r\n\r\n",
                302,
                "Found",
                None,
                "Location: /there\r\n",
            ),
            (
                "Status: 303\r\nLocation: http://a/\r\n\r\n",
                303,
                "See Other",
                None,
                "Location: http://a/\r\n",
            ),
            (
                "Content-Length: 12\r\nContent-type: a/b\r\n\r\n",
                200,
                "OK",
                Some(12),
                "Content-type: a/b\r\n",
            ),
            (
                "Set-Cookie: a=1\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\
                 Keep-Alive: 5\r\nServer: app\r\nDate: now\r\nX-Set: no\r\nset-cookie: b=2\r\n\r\n",
                200,
                "OK",
                None,
                "Set-Cookie: a=1\r\nset-cookie: b=2\r\n",
            ),
        ] {
            let (head, len) = parse(text).unwrap().unwrap();
            assert_eq!(
                (head.code, &*head.reason, head.length),
                (code, reason, length),
                "{text}"
            );
            assert_eq!(String::from_utf8(head.fields).unwrap(), fields, "{text}");
            assert!(text[len..].is_empty() || &text[len..] == "body");
            for cut in 0..len {
                assert_eq!(parse(&text[..cut]), Ok(None), "{:?}", &text[..cut]);
            }
        }
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let many = "A: b\r\n".repeat(APPLICATION_FIELDS_MAX + 1);
        for (text, wanted) in [
            ("<html>\r\n\r\n", HeadError::Syntax),
            ("A b: c\r\n\r\n", HeadError::Syntax),
            ("A: b\u{0}c\r\n\r\n", HeadError::Syntax),
            ("A: b\rSet-Cookie: c\r\n\r\n", HeadError::Syntax),
            (&many, HeadError::TooManyFields),
            ("Status: 100\r\n\r\n", HeadError::Status),
            ("Status: 600\r\n\r\n", HeadError::Status),
            ("Status: +20\r\n\r\n", HeadError::Status),
            ("Status: 2000\r\n\r\n", HeadError::Status),
            ("Status: OK\r\n\r\n", HeadError::Status),
            ("Content-Length: -1\r\n\r\n", HeadError::Length),
            ("Content-Length: \r\n\r\n", HeadError::Length),
            (
                "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
                HeadError::Length,
            ),
            (
                "Content-Length: 99999999999999999999\r\n\r\n",
                HeadError::Length,
            ),
        ] {
            assert_eq!(parse(text), Err(wanted), "{text}");
        }
    }
}
