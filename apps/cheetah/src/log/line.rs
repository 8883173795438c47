//! What a line of the log looks like.
//!
//! ```text
//! common    10.0.0.1 - - [22/Nov/2026:14:32:23 +0100] "GET /a HTTP/1.1" 200 1234
//! combined  the same, then "Referer" "User-Agent"
//! json      {"time":"2026-11-22T14:32:23+01:00","peer":"10.0.0.1","request":"GET /a HTTP/1.1",...}
//! ```
//!
//! A line is made in two steps. When the response is made, [`render`] writes what the request says; when
//! the response has been taken, [`finish`] writes the line, with the client, the time and the [`Numbers`].
//!
//! **Nothing that a client sends can look like another line, another field, or a control sequence of a terminal.** In
//! `common` and `combined`, every byte of a client's that is not printable ASCII, the quote and the backslash are
//! written as `\xHH`, as nginx does. In `json`, each byte is the character of the same number: printable ASCII as it
//! is, the others as `\u00HH`, so that the bytes can be had back.

use std::net::IpAddr;

use exos_inet::Instant;
use exos_tls::About;
use httparse::Header;

use super::unfinished::Text;
use crate::limits::{LOG_FIELD_LEN_MAX, LOG_LINE_LEN_MAX};
use crate::message::Version;
use crate::message::text::{push_address, push_number};
use crate::secure::Fact;

/// The form of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Common Log Format
    Common,
    /// Common Log Format plus Referer and User-Agent, which most log analysers expect
    #[default]
    Combined,
    /// A JSON object on each line
    Json,
}

/// A response, and what of its request is logged.
#[derive(Debug)]
pub struct Answer<'a> {
    /// Who asked.
    pub peer: IpAddr,
    /// When the first bytes of the request came.
    pub begun: Instant,
    /// What was asked.
    pub asked: LoggedRequest<'a>,
    /// How it was answered.
    pub code: u16,
    /// Bytes of the response's head.
    pub head_len: usize,
    /// Bytes of the whole response.
    pub len: usize,
    /// What a cache had to do with it, where one had.
    pub cache: Option<&'static str>,
    /// The session of TLS that it was asked by.
    pub tls: Option<&'a About>,
    /// It was taken before the handshake of that was over.
    pub is_early: bool,
}

/// What was asked.
#[derive(Debug)]
pub enum LoggedRequest<'a> {
    /// A request with a whole head.
    Request {
        /// The method as it came.
        method: &'a str,
        /// The target as it came.
        target: &'a [u8],
        /// How it was asked.
        version: Version,
        /// The header fields.
        fields: &'a [Header<'a>],
    },
    /// No request: bytes of which at most the first line means something.
    Bytes(&'a [u8]),
}

/// What is known when the response has been taken.
#[derive(Debug)]
pub(super) struct Numbers<'a> {
    pub(super) peer: IpAddr,
    /// Where the text is of a request with neither, lines of Referer and User-Agent.
    pub(super) logged: &'a [u8],
    pub(super) sent: u64,
    pub(super) body: u64,
    pub(super) micros: u64,
}

/// Writes the parts of a line that the request decides.
pub(super) fn render(format: Format, answer: &Answer<'_>, text: &mut Text) {
    text.clear();
    match format {
        Format::Common | Format::Combined => render_common(format, answer, text),
        Format::Json => render_json(answer, text),
    }
}

/// Writes a whole line.
pub(super) fn finish(format: Format, text: &Text, time: &str, n: &Numbers<'_>, out: &mut Vec<u8>) {
    let [asked, fields, last] = text.parts();
    match format {
        Format::Common | Format::Combined => {
            push_address(out, n.peer);
            out.extend_from_slice(b" - - [");
            out.extend_from_slice(time.as_bytes());
            out.extend_from_slice(asked);
            push_number(out, n.body, 1);
        }
        Format::Json => {
            out.extend_from_slice(b"{\"time\":\"");
            out.extend_from_slice(time.as_bytes());
            out.extend_from_slice(b"\",\"peer\":\"");
            push_address(out, n.peer);
            out.extend_from_slice(asked);
            out.extend_from_slice(b",\"body_bytes_sent\":");
            push_number(out, n.body, 1);
            out.extend_from_slice(b",\"bytes_sent\":");
            push_number(out, n.sent, 1);
            out.extend_from_slice(b",\"request_time\":");
            push_number(out, n.micros / 1_000_000, 1);
            out.push(b'.');
            push_number(out, n.micros % 1_000_000, 6);
        }
    }
    out.extend_from_slice(fields);
    match n.logged {
        b"" => out.extend_from_slice(last),
        logged => push_logged(format, logged, out),
    }
}

fn render_common(format: Format, answer: &Answer<'_>, text: &mut Text) {
    text.bytes.extend_from_slice(b"] \"");
    push_asked(&mut text.bytes, &answer.asked, push_escaped);
    text.bytes.extend_from_slice(b"\" ");
    push_number(&mut text.bytes, answer.code.into(), 3);
    text.bytes.push(b' ');
    text.end_first();
    render_fields(format, answer, text);
}

fn render_json(answer: &Answer<'_>, text: &mut Text) {
    text.bytes.extend_from_slice(b"\",\"request\":\"");
    push_asked(&mut text.bytes, &answer.asked, push_json);
    text.bytes.extend_from_slice(b"\",\"status\":");
    push_number(&mut text.bytes, answer.code.into(), 3);
    if let Some(cache) = answer.cache {
        text.bytes.extend_from_slice(b",\"cache\":\"");
        text.bytes.extend_from_slice(cache.as_bytes());
        text.bytes.push(b'"');
    }
    text.end_first();
    render_fields(Format::Json, answer, text);
}

/// Writes what header fields decide, which stands behind the numbers.
fn render_fields(format: Format, answer: &Answer<'_>, text: &mut Text) {
    let fields = answer.asked.fields();
    let value = |name: &str| {
        let mut fields = fields.iter();
        let field = fields.find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| field.value)
    };
    if format == Format::Json {
        text.bytes.extend_from_slice(b",\"host\":\"");
        push_value(&mut text.bytes, value("host"), push_json);
        text.bytes.push(b'"');
        if let Some(about) = answer.tls {
            render_tls(about, answer.is_early, &mut text.bytes);
        }
    }
    text.end_second();
    push_last(format, value, &mut text.bytes);
}

/// Writes what is known of a session of TLS; of clients' certificates, where there is one.
fn render_tls(about: &About, is_early: bool, out: &mut Vec<u8>) {
    let is_of_none = |fact: &Fact| *fact == Fact::ClientVerify && about.peer.is_none();
    for fact in Fact::ALL.into_iter().filter(|fact| !is_of_none(fact)) {
        if let Some(value) = fact.value(about, is_early) {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(fact.name().as_bytes());
            out.extend_from_slice(b"\":\"");
            push_json(out, value.as_bytes());
            out.push(b'"');
        }
    }
}

/// Writes what the Referer and the User-Agent among these lines decide, in place of what was written of others.
pub(super) fn render_logged(format: Format, logged: &[u8], text: &mut Text) {
    text.cut_to_second();
    push_logged(format, logged, &mut text.bytes);
}

fn push_logged(format: Format, logged: &[u8], out: &mut Vec<u8>) {
    let value = |name: &str| {
        logged.split(|&byte| byte == b'\n').find_map(|line| {
            let (its, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":")?;
            its.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        })
    };
    push_last(format, value, out);
}

/// Writes the last part of a line, of the values of header fields.
fn push_last<'a>(format: Format, value: impl Fn(&str) -> Option<&'a [u8]>, out: &mut Vec<u8>) {
    let (keys, end, push): ([&[u8]; 2], &[u8], Push) = match format {
        Format::Common => return out.push(b'\n'),
        Format::Combined => ([b" \"", b" \""], b"\n", push_escaped),
        Format::Json => (
            [b",\"referer\":\"", b",\"user_agent\":\""],
            b"}\n",
            push_json,
        ),
    };
    for (name, key) in ["referer", "user-agent"].into_iter().zip(keys) {
        out.extend_from_slice(key);
        push_value(out, value(name), push);
        out.push(b'"');
    }
    out.extend_from_slice(end);
}

impl LoggedRequest<'_> {
    fn fields(&self) -> &[Header<'_>] {
        match self {
            LoggedRequest::Request { fields, .. } => fields,
            LoggedRequest::Bytes(_) => &[],
        }
    }
}

type Push = fn(&mut Vec<u8>, &[u8]);

/// The request line; `-` where there is none.
fn push_asked(out: &mut Vec<u8>, asked: &LoggedRequest<'_>, push: Push) {
    match asked {
        LoggedRequest::Request {
            method,
            target,
            version,
            ..
        } => {
            push_bounded(out, method.as_bytes(), LOG_FIELD_LEN_MAX, push);
            out.push(b' ');
            push_bounded(out, target, LOG_LINE_LEN_MAX, push);
            out.push(b' ');
            out.extend_from_slice(version.name().as_bytes());
        }
        LoggedRequest::Bytes(bytes) => {
            let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
            match line.trim_ascii_end() {
                b"" => out.push(b'-'),
                line => push_bounded(out, line, LOG_LINE_LEN_MAX, push),
            }
        }
    }
}

/// The value of a field; `-` where there is none.
fn push_value(out: &mut Vec<u8>, value: Option<&[u8]>, push: Push) {
    match value.map(<[u8]>::trim_ascii) {
        None | Some(b"") => out.push(b'-'),
        Some(value) => push_bounded(out, value, LOG_FIELD_LEN_MAX, push),
    }
}

/// Its first bytes, with dots where there are more.
fn push_bounded(out: &mut Vec<u8>, bytes: &[u8], len_max: usize, push: Push) {
    push(out, &bytes[..bytes.len().min(len_max)]);
    if bytes.len() > len_max {
        out.extend_from_slice(b"...");
    }
}

/// True for bytes that mean nothing but themselves in a line of either form.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    push_with(out, bytes, |out, byte| {
        out.extend_from_slice(&[b'\\', b'x', hex(byte >> 4), hex(byte & 15)]);
    });
}

fn push_json(out: &mut Vec<u8>, bytes: &[u8]) {
    push_with(out, bytes, |out, byte| match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
        }
    });
}

/// Plain bytes as they are, in runs; `push` writes the others.
fn push_with(out: &mut Vec<u8>, bytes: &[u8], push: impl Fn(&mut Vec<u8>, u8)) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&b| !is_plain(b)) {
        out.extend_from_slice(&rest[..at]);
        push(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

const fn hex(digit: u8) -> u8 {
    b"0123456789ABCDEF"[digit as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &'static str, value: &'static [u8]) -> Header<'static> {
        Header { name, value }
    }

    fn line(format: Format, asked: LoggedRequest<'_>) -> String {
        let answer = Answer {
            peer: "10.0.0.1".parse().unwrap(),
            begun: Instant::START,
            asked,
            code: 200,
            head_len: 200,
            len: 1234,
            cache: None,
            tls: None,
            is_early: false,
        };
        let mut text = Text::default();
        render(format, &answer, &mut text);
        let numbers = Numbers {
            peer: answer.peer,
            logged: b"",
            sent: 1234,
            body: 1034,
            micros: 1_002_003,
        };
        let mut out = Vec::new();
        finish(format, &text, "TIME", &numbers, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn the_three_forms() {
        let fields = [
            header("Host", b"a.example"),
            header("user-AGENT", b" curl/8 "),
            header("Referer", b"http://b/"),
        ];
        let asked = || LoggedRequest::Request {
            method: "GET",
            target: b"/a?b",
            version: Version::Http11,
            fields: &fields,
        };
        let common = "10.0.0.1 - - [TIME] \"GET /a?b HTTP/1.1\" 200 1034";
        assert_eq!(line(Format::Common, asked()), format!("{common}\n"));
        assert_eq!(
            line(Format::Combined, asked()),
            format!("{common} \"http://b/\" \"curl/8\"\n")
        );
        assert_eq!(
            line(Format::Json, asked()),
            "{\"time\":\"TIME\",\"peer\":\"10.0.0.1\",\"request\":\"GET /a?b HTTP/1.1\",\"status\":200,\
             \"body_bytes_sent\":1034,\"bytes_sent\":1234,\"request_time\":1.002003,\"host\":\"a.example\",\
             \"referer\":\"http://b/\",\"user_agent\":\"curl/8\"}\n"
        );
    }

    #[test]
    fn what_is_no_request_is_shown_as_far_as_its_line_goes() {
        for (bytes, want) in [
            (&b""[..], "-"),
            (b"\r\n", "-"),
            (b"GET /unfini", "GET /unfini"),
            (b"\x16\x03\x01 TLS\r\nmore", "\\x16\\x03\\x01 TLS"),
        ] {
            let wanted = format!("10.0.0.1 - - [TIME] \"{want}\" 200 1034 \"-\" \"-\"\n");
            assert_eq!(line(Format::Combined, LoggedRequest::Bytes(bytes)), wanted);
        }
    }

    /// Every byte, at every place where a client can put it.
    #[test]
    fn no_byte_forges_a_line_a_field_or_a_terminal_sequence() {
        for byte in 0..=u8::MAX {
            let value: &'static [u8] = vec![b'a', byte, b'b'].leak();
            let fields = ["Referer", "User-Agent", "Host"].map(|name| header(name, value));
            let asked = || LoggedRequest::Request {
                method: "GET",
                target: value,
                version: Version::Http11,
                fields: &fields,
            };
            let text = line(Format::Combined, asked());
            assert_eq!(text.matches('"').count(), 6, "{text}");
            assert_eq!(text.find('\n'), Some(text.len() - 1), "{text}");
            assert!(text.trim_end().bytes().all(|b| matches!(b, b' '..=b'~')));
            let text = line(Format::Json, asked());
            assert!(text.trim_end().bytes().all(|b| matches!(b, b' '..=b'~')));
            let object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let wanted: String = value.iter().map(|&b| char::from(b)).collect();
            let agent = object["user_agent"].as_str().expect("a string");
            assert_eq!(agent, wanted, "the bytes can be had back");
        }
    }

    #[test]
    fn long_values_end_with_dots() {
        let long: &'static [u8] = vec![0xff; 20_000].leak();
        let fields = ["Referer", "User-Agent", "Host"].map(|name| header(name, long));
        for format in [Format::Common, Format::Combined, Format::Json] {
            let text = line(
                format,
                LoggedRequest::Request {
                    method: "GET",
                    target: long,
                    version: Version::Http10,
                    fields: &fields,
                },
            );
            assert!(
                text.len() <= crate::limits::LOG_BUFFER_LEN,
                "{}",
                text.len()
            );
            assert!(text.contains("FF... HTTP/1.0\""), "{text}");
        }
    }
}
