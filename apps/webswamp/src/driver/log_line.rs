//! A line of an access log in the common or the combined format, as `exos serve`, nginx and Apache write them:
//!
//! ```text
//! 10.0.0.1 - - [22/Nov/2026:14:32:23 +0100] "GET /a HTTP/1.1" 200 1234 ...
//! ```
//!
//! Looked at are the time and the request; the rest only has to have the form. The name of a user, which comes before,
//! may have anything in it.

use std::fmt;

use http::Uri;

use crate::request::target_of;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Seconds since 1970, UTC.
    pub time: u64,
    /// Method.
    pub method: String,
    /// Path and query, or `*`.
    pub target: String,
}

/// Why a line cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum NoRequest {
    /// It is of another format.
    Format,
    /// What the client sent was no request.
    Request,
    /// Its target is none that we could send: the end of a tunnel, or with control characters in it.
    Target,
    /// It is longer than lines of logs are.
    Length,
}

impl fmt::Display for NoRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "it is not of the common or combined log format",
            Self::Request => "what it logs was no request",
            Self::Target => "it asks for what is no path",
            Self::Length => "it is too long",
        })
    }
}

impl LogLine {
    /// Reads a line, without its end.
    ///
    /// # Errors
    ///
    /// It is none, or of no request.
    pub fn parse(line: &[u8]) -> Result<Self, NoRequest> {
        let (time, rest) = after_time(line).ok_or(NoRequest::Format)?;
        let (request, rest) = quoted(rest).ok_or(NoRequest::Format)?;
        let is_status = rest.len() >= 4
            && rest[0] == b' '
            && rest[1..4].iter().all(u8::is_ascii_digit)
            && rest.get(4).is_none_or(|&b| b == b' ');
        if !is_status {
            return Err(NoRequest::Format);
        }
        let words: Vec<&[u8]> = request.split(|&b| b == b' ').collect();
        let [method, target, version] = words[..] else {
            return Err(NoRequest::Request);
        };
        if !is_token(method) || !version.starts_with(b"HTTP/") {
            return Err(NoRequest::Request);
        }
        Ok(Self {
            time,
            method: String::from_utf8_lossy(method).into_owned(),
            target: sendable(target).ok_or(NoRequest::Target)?,
        })
    }
}

/// RFC 9110 §5.6.2.
pub(crate) fn is_token(word: &[u8]) -> bool {
    let is_good = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !word.is_empty() && word.iter().all(is_good)
}

/// The time, and what follows the quote that opens the request.
fn after_time(line: &[u8]) -> Option<(u64, &[u8])> {
    const LEN: usize = "22/Nov/2026:14:32:23 +0100".len();
    let starts = line.windows(2).enumerate().filter(|(_, w)| *w == b" [");
    let mut candidates = starts.map(|(at, _)| &line[at + 2..]);
    candidates.find_map(|rest| {
        let (text, rest) = rest.split_at_checked(LEN)?;
        Some((time(text)?, rest.strip_prefix(b"] \"")?))
    })
}

/// A number of just this many digits.
fn digits(text: &[u8]) -> Option<u64> {
    let step = |sum: u64, b: &u8| b.is_ascii_digit().then(|| sum * 10 + u64::from(b - b'0'));
    text.iter().try_fold(0, step)
}

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// `22/Nov/2026:14:32:23 +0100`, from 1970 on.
fn time(text: &[u8]) -> Option<u64> {
    let marks = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':')];
    let has_form = marks.iter().all(|&(at, mark)| text[at] == mark) && text[20] == b' ';
    let month = MONTHS.iter().position(|name| **name == text[3..6])? as u64 + 1;
    let (day, year) = (digits(&text[..2])?, digits(&text[7..11])?);
    let (hour, minute) = (digits(&text[12..14])?, digits(&text[15..17])?);
    let second = digits(&text[18..20])?;
    let offset = digits(&text[22..24])? * 3600 + digits(&text[24..])? * 60;
    // A second may be a leap second.
    let is_time = (1..=31).contains(&day) && year >= 1970 && hour < 24 && minute < 60;
    if !has_form || !is_time || second > 60 || offset >= 86_400 {
        return None;
    }
    let local = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    match text[21] {
        b'+' => local.checked_sub(offset),
        b'-' => Some(local + offset),
        _ => None,
    }
}

/// Days since 1970 of a date of the Gregorian calendar, counted in years that begin with March, so that leap days come
/// last (Richards 1998).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year / 4 - year / 100 + year / 400;
    year * 365 + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// A quoted field, read, and what follows its closing quote.
fn quoted(mut text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut read = Vec::new();
    loop {
        let (&first, rest) = text.split_first()?;
        text = match (first, rest) {
            (b'"', _) => return Some((read, rest)),
            (b'\\', [b'x', high, low, rest @ ..]) => {
                let digit = |b: &u8| char::from(*b).to_digit(16);
                read.push((digit(high)? * 16 + digit(low)?) as u8);
                rest
            }
            (b'\\', [b @ (b'"' | b'\\'), rest @ ..]) => {
                read.push(*b);
                rest
            }
            // \n, \t and their like: no request has them.
            (b'\\', [_, rest @ ..]) => {
                read.push(0);
                rest
            }
            _ => {
                read.push(first);
                rest
            }
        };
    }
}

/// A target as we can send it: of a URL its path (RFC 9112 §3.2), and what is not ASCII as a client should have sent it.
fn sendable(target: &[u8]) -> Option<String> {
    let mut text = String::new();
    for &b in target {
        match b {
            b'!'..=b'~' => text.push(char::from(b)),
            0x80.. => text.push_str(&format!("%{b:02X}")),
            _ => return None,
        }
    }
    if text.starts_with('/') || text == "*" {
        return Some(text);
    }
    let url: Uri = text.parse().ok()?;
    let is_url = matches!(url.scheme_str(), Some("http" | "https"));
    is_url.then(|| target_of(&url))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<LogLine, NoRequest> {
        LogLine::parse(line.as_bytes())
    }

    fn of_request(request: &str) -> Result<(String, String), NoRequest> {
        let line = format!("::1 - - [22/Nov/2026:14:32:23 +0100] \"{request}\" 200 5");
        parse(&line).map(|line| (line.method, line.target))
    }

    #[test]
    fn both_formats() {
        let wanted = LogLine {
            time: 1_795_354_343,
            method: "GET".to_owned(),
            target: "/a?b".to_owned(),
        };
        for line in [
            r#"10.0.0.1 - - [22/Nov/2026:14:32:23 +0100] "GET /a?b HTTP/1.1" 200 1234"#,
            r#"h - me [22/Nov/2026:13:32:23 +0000] "GET /a?b HTTP/2.0" 304 - "-" "curl/8 \"x\"""#,
            r#"h - a [b] "c" [22/Nov/2026:08:02:23 -0530] "GET /a?b HTTP/1.0" 200"#,
        ] {
            assert_eq!(parse(line), Ok(wanted.clone()), "{line}");
        }
    }

    #[test]
    fn targets() {
        for (request, target) in [
            ("GET / HTTP/1.1", "/"),
            ("GET http://a/b?c HTTP/1.1", "/b?c"),
            ("GET http://a HTTP/1.1", "/"),
            ("GET //a HTTP/1.1", "//a"),
            (r"GET /\xC3\xa9\x22\x5C HTTP/1.1", "/%C3%A9\"\\"),
            (r#"GET /\"\\ HTTP/1.1"#, "/\"\\"),
            ("OPTIONS * HTTP/1.1", "*"),
        ] {
            assert_eq!(of_request(request).expect(request).1, target);
        }
    }

    #[test]
    fn what_is_no_request() {
        for (request, why) in [
            ("-", NoRequest::Request),
            ("", NoRequest::Request),
            ("GET /", NoRequest::Request),
            ("GET /a b HTTP/1.1", NoRequest::Request),
            (r"\x16\x03\x01 / HTTP/1.1", NoRequest::Request),
            ("GET / SPDY/3", NoRequest::Request),
            ("CONNECT a:443 HTTP/1.1", NoRequest::Target),
            ("GET a HTTP/1.1", NoRequest::Target),
            (r"GET /\n HTTP/1.1", NoRequest::Target),
            (r"GET /\x00 HTTP/1.1", NoRequest::Target),
            (r"GET /\x HTTP/1.1", NoRequest::Format),
        ] {
            assert_eq!(of_request(request), Err(why), "{request}");
        }
        for line in [
            "",
            "GET / HTTP/1.1",
            r#"h - - [22/Nov/2026:14:32:23 +0100] "GET / HTTP/1.1"#,
            r#"h - - [22/Nov/2026:14:32:23 +0100] "GET / HTTP/1.1""#,
            r#"h - - [22/Nov/2026:14:32:23 +0100] "GET / HTTP/1.1" 2000 5"#,
            r#"h - - [32/Nov/2026:14:32:23 +0100] "GET / HTTP/1.1" 200 5"#,
            r#"h - - [22/nov/2026:14:32:23 +0100] "GET / HTTP/1.1" 200 5"#,
            r#"h - - [22/Nov/1969:14:32:23 +0100] "GET / HTTP/1.1" 200 5"#,
            r#"h - - [22/Nov/2026:24:32:23 +0100] "GET / HTTP/1.1" 200 5"#,
            r#"h - - [22/Nov/2026:14:32:23 *0100] "GET / HTTP/1.1" 200 5"#,
            r#"h - - [01/Jan/1970:00:32:23 +0100] "GET / HTTP/1.1" 200 5"#,
        ] {
            assert_eq!(parse(line), Err(NoRequest::Format), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = LogLine::parse(&line);
        }

        /// Near a line: what is read can be sent.
        #[test]
        fn any_request(request in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut line = b"h - - [22/Nov/2026:14:32:23 +0100] \"GET /".to_vec();
            line.extend(request);
            line.extend(b" HTTP/1.1\" 200 5");
            if let Ok(read) = LogLine::parse(&line) {
                prop_assert!(read.target.bytes().all(|b| b.is_ascii_graphic()));
            }
        }

        /// Times against the crate that writes HTTP's.
        #[test]
        fn times(secs in 86_400u64..253_000_000_000) {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs));
            // Sun, 06 Nov 1994 08:49:37 GMT
            let (date, hours) = (text[5..16].replace(' ', "/"), &text[17..25]);
            prop_assert_eq!(time(format!("{date}:{hours} +0000").as_bytes()), Some(secs));
            prop_assert_eq!(time(format!("{date}:{hours} -0130").as_bytes()), Some(secs + 5400));
            let _: SystemTime = UNIX_EPOCH;
        }
    }
}
