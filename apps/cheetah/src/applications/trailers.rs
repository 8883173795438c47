//! Fields behind a body (RFC 9110 §6.5), of a request or of an answer: which of them go on.
//!
//! A program may put them to the fields of the head. So none goes on that says where a message ends, whom it is for, who sends it or how
//! it is to be handled (§6.5.1), and those that go on are written again from what was understood of them.

use httparse::{EMPTY_HEADER, Header, Status};

use super::head::{fields_named, push_field};
use crate::limits::FIELDS_MAX;
use crate::message::request::{Request, list};

/// Fields that are of a head alone, in lower case.
const OF_HEADS: [&str; 48] = [
    "age",
    "alt-svc",
    "authorization",
    "cache-control",
    "cdn-cache-control",
    "clear-site-data",
    "connection",
    "content-disposition",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-security-policy",
    "content-type",
    "cookie",
    "date",
    "early-data",
    "expect",
    "expires",
    "forwarded",
    "host",
    "keep-alive",
    "location",
    "max-forwards",
    "origin",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "referer",
    "refresh",
    "retry-after",
    "server",
    "set-cookie",
    "status",
    "strict-transport-security",
    "surrogate-control",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-http-method-override",
    "x-sendfile",
];

/// How the names of others begin.
const OF_HEADS_FROM: [&str; 5] = ["accept", "access-control-", "if-", "sec-", "x-accel-"];

/// The fields of these lines that go on, as lines, and how many do not. Where the lines are no fields none does, which counts as one.
pub fn passed_on(lines: &[u8], may_pass: impl Fn(&str) -> bool) -> (Vec<u8>, u64) {
    let text = [lines, b"\r\n"].concat();
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let Ok(Status::Complete((_, fields))) = httparse::parse_headers(&text, &mut fields) else {
        return (Vec::new(), 1);
    };
    let (mut out, mut left_out) = (Vec::new(), 0);
    for Header { name, value } in fields {
        match goes_on(name) && may_pass(name) {
            true => push_field(&mut out, name, value),
            false => left_out += 1,
        }
    }
    (out, left_out)
}

fn goes_on(name: &str) -> bool {
    let begins_so = |it: &&str| {
        let begin = name.get(..it.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(it))
    };
    !OF_HEADS_FROM.iter().any(begins_so) && !OF_HEADS.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Whether the client of a request says that it takes fields behind an answer (RFC 9110 §10.1.4).
pub fn are_wanted(request: &Request<'_, '_>) -> bool {
    let mut said = fields_named(request.fields, "te").flat_map(|field| list(field.value));
    said.any(|it| it.eq_ignore_ascii_case(b"trailers"))
}

/// A body in one chunk, with these fields behind it.
pub fn chunked(content: &[u8], trailers: &[u8]) -> Vec<u8> {
    let mut out = chunk(content);
    push_last_chunk(&mut out, trailers);
    out
}

/// Content of a body in one chunk; nothing where there is none, for that would be the last one.
pub fn chunk(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 32);
    if !content.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", content.len()).as_bytes());
        out.extend_from_slice(content);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The end of a body in chunks, with these fields behind it.
pub fn push_last_chunk(out: &mut Vec<u8>, trailers: &[u8]) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::upload::Chunked;
    use crate::message::request::{FieldStore, parse};

    #[test]
    fn what_is_of_heads_alone_does_not_go_on() {
        assert!(OF_HEADS.is_sorted());
        let lines = b"X-Sum: 1\r\nContent-Length: 5\r\nIF-Match: *\r\nhost: b\r\ngrpc-status:  0 \r\nX-Set: no\r\nAccess-Control-Allow-Origin: *\r\nX-Accel-Expires: 5\r\nSec-Fetch-Site: none\r\nSurrogate-Control: no-store\r\n";
        let (passed, left_out) = passed_on(lines, |name| name != "X-Set");
        let wanted = "X-Sum: 1\r\ngrpc-status: 0\r\n";
        assert_eq!(
            (&*String::from_utf8(passed).unwrap(), left_out),
            (wanted, 8)
        );
        assert_eq!(passed_on(b"", |_| true), (Vec::new(), 0));
    }

    #[test]
    fn what_is_no_field_has_none_go_on() {
        let many = "a: b\r\n".repeat(FIELDS_MAX + 1);
        for lines in [
            "a\r\n",
            "a: b\r\n c\r\n",
            "a b: c\r\n",
            "a: \0\r\n",
            "a : b\r\n",
            &many,
        ] {
            assert_eq!(
                passed_on(lines.as_bytes(), |_| true),
                (Vec::new(), 1),
                "{lines}"
            );
        }
    }

    #[test]
    fn a_body_is_read_as_it_was_written() {
        for (content, trailers) in [
            (&b"abc"[..], &b"X: y\r\n"[..]),
            (b"", b"X: y\r\nZ: 1\r\n"),
            (b"abc", b""),
        ] {
            let text = chunked(content, trailers);
            for step in 1..=text.len() {
                let mut body = Chunked::new(100);
                let taken: usize = text
                    .chunks(step)
                    .map(|part| body.take(part, usize::MAX).unwrap())
                    .sum();
                assert!(taken == text.len() && body.is_over());
                assert_eq!(body.take_trailers(), trailers);
                assert_eq!(body.content, content);
            }
        }
    }

    #[test]
    fn a_client_says_whether_it_takes_them() {
        for (fields, wanted) in [
            ("TE: trailers\r\n", true),
            ("te: gzip;q=0.5, Trailers\r\n", true),
            ("TE: gzip\r\n", false),
            ("", false),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let mut store = FieldStore::new();
            let request = parse(text.as_bytes(), &mut store).unwrap().unwrap();
            assert_eq!(are_wanted(&request), wanted, "{fields}");
        }
    }
}
