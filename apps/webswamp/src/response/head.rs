//! A response's head, and how long the body is that follows (RFC 9112 §6.3).
//!
//! A server under load sends the same head again and again, but for the date once a second. So the last head is kept
//! beside what was read in it, and one that begins with the same bytes is not read again.

use httparse::{EMPTY_HEADER, Header, Status};

use super::body::Body;
use super::chunks::Chunks;
use super::malformed::Malformed;
use crate::limits::{FIELDS_MAX, HEAD_LEN_MAX};

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Bytes of the head.
    pub len: usize,
    /// The server closes the connection after this response.
    pub closes: bool,
    framing: Framing,
}

/// How the fields say where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    /// With the connection.
    End,
}

impl Head {
    /// Another response to the same request follows (RFC 9110 §15.2).
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// The body that follows, to a request that was HEAD or another.
    pub fn body(&self, of_head: bool) -> Body {
        match self.framing {
            _ if of_head || matches!(self.status, 100..200 | 204 | 304) => Body::Length(0),
            Framing::Length(length) => Body::Length(length),
            Framing::Chunked => Body::Chunked(Chunks::default()),
            Framing::End => Body::UntilEnd,
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut fields = [EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let len = match response.parse(bytes) {
            Ok(Status::Complete(len)) => len,
            Ok(Status::Partial) if bytes.len() < HEAD_LEN_MAX => return Ok(None),
            Ok(Status::Partial) => return Err(Malformed::LongHead),
            Err(_) => return Err(Malformed::Head),
        };
        let status = response.code.ok_or(Malformed::Head)?;
        let is_old = response.version == Some(0);
        let keeps = says(response.headers, "connection", "keep-alive");
        let closes = says(response.headers, "connection", "close") || (is_old && !keeps);
        Ok(Some(Self {
            status,
            len,
            closes,
            framing: framing(response.headers)?,
        }))
    }
}

/// The values of a field, in order.
fn values<'a>(
    fields: &'a [Header<'a>],
    name: &'a str,
) -> impl DoubleEndedIterator<Item = &'a [u8]> {
    let named = fields
        .iter()
        .filter(move |f| f.name.eq_ignore_ascii_case(name));
    let lists = named.flat_map(|f| f.value.split(|&b| b == b','));
    lists.map(<[u8]>::trim_ascii).filter(|v| !v.is_empty())
}

fn says(fields: &[Header<'_>], name: &str, word: &str) -> bool {
    values(fields, name).any(|value| value.eq_ignore_ascii_case(word.as_bytes()))
}

fn framing(fields: &[Header<'_>]) -> Result<Framing, Malformed> {
    if let Some(coding) = values(fields, "transfer-encoding").next_back() {
        // RFC 9112 §6.1: it overrides the length; where chunked is not the last, the end is the connection's.
        let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
        return Ok(if is_chunked {
            Framing::Chunked
        } else {
            Framing::End
        });
    }
    let mut lengths = values(fields, "content-length").map(number);
    let Some(first) = lengths.next() else {
        return Ok(Framing::End);
    };
    // RFC 9112 §6.3: the same several times counts once.
    match first {
        Some(length) if lengths.all(|other| other == first) => Ok(Framing::Length(length)),
        _ => Err(Malformed::Framing),
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    text.parse().ok()
}

/// Heads, of which many are the same.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    last: Vec<u8>,
    read: Option<Head>,
}

impl Heads {
    /// The head at the begin of these bytes, when it is whole.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Head>, Malformed> {
        if let Some(head) = self.read
            && bytes.starts_with(&self.last)
        {
            return Ok(Some(head));
        }
        let read = Head::read(bytes)?;
        if let Some(head) = read {
            self.last.clear();
            self.last.extend_from_slice(&bytes[..head.len]);
            self.read = read;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Head>, Malformed> {
        Heads::default().take(text.as_bytes())
    }

    fn head(fields: &str) -> Head {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let head = read(&text).expect("a head").expect("all of it");
        assert_eq!(head.len, text.len());
        head
    }

    #[test]
    fn how_long_bodies_are() {
        let table = [
            ("", Body::UntilEnd),
            ("Content-Length: 5\r\n", Body::Length(5)),
            (
                "content-length:5\r\nContent-Length: 5, 5\r\n",
                Body::Length(5),
            ),
            (
                "Transfer-Encoding: chunked\r\n",
                Body::Chunked(Chunks::default()),
            ),
            (
                "Content-Length: 5\r\nTransfer-Encoding: gzip, Chunked\r\n",
                Body::Chunked(Chunks::default()),
            ),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
                Body::UntilEnd,
            ),
        ];
        for (fields, body) in table {
            assert_eq!(head(fields).body(false), body, "{fields}");
            assert_eq!(head(fields).body(true), Body::Length(0), "{fields}");
        }
        for status in ["101", "204", "304"] {
            let text = format!("HTTP/1.1 {status} x\r\nContent-Length: 9\r\n\r\n");
            let head = read(&text).unwrap().unwrap();
            assert_eq!(head.body(false), Body::Length(0), "{status}");
            assert!(!head.is_interim());
        }
        assert!(
            read("HTTP/1.1 100 Continue\r\n\r\n")
                .unwrap()
                .unwrap()
                .is_interim()
        );
    }

    #[test]
    fn lengths_that_are_none() {
        for value in ["", "x", "-1", "+1", "1, 2", "1 2", "18446744073709551616"] {
            let text =
                format!("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: {value}\r\n\r\n");
            let expected = if value.is_empty() {
                None
            } else {
                Some(Malformed::Framing)
            };
            assert_eq!(read(&text).err(), expected, "{value:?}");
        }
    }

    #[test]
    fn who_closes() {
        assert!(!head("").closes);
        assert!(head("Connection: x, Close\r\n").closes);
        let old = |fields: &str| {
            read(&format!("HTTP/1.0 200 OK\r\n{fields}\r\n"))
                .unwrap()
                .unwrap()
        };
        assert!(old("").closes);
        assert!(!old("Connection: Keep-Alive\r\n").closes);
    }

    #[test]
    fn no_heads() {
        for text in [
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "SSH-2.0-x\r\n",
            "HTTP/1.1 200 OK\r\nA b\r\n\r\n",
        ] {
            assert_eq!(read(text), Err(Malformed::Head), "{text}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_LEN_MAX));
        assert_eq!(read(&long), Err(Malformed::LongHead));
    }

    /// One is read like the last only if it is the same to its end.
    #[test]
    fn heads_that_begin_alike_are_told_apart() {
        let mut heads = Heads::default();
        let first = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";
        let other = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n";
        let cut = &first[..first.len() - 1];
        assert_eq!(heads.take(cut), Ok(None));
        let read = heads.take(&[&first[..], b"x"].concat()).unwrap().unwrap();
        assert_eq!((read.len, read.closes), (first.len(), false));
        assert_eq!(heads.take(cut), Ok(None));
        assert!(heads.take(other).unwrap().unwrap().closes);
        assert!(!heads.take(first).unwrap().unwrap().closes);
    }
}
