//! The first lines of a response: status, server, date and connection.
//!
//! They are the same for every response of one status within one second, so they are one shared
//! slice, made when first needed in that second; its checksum too is computed once and reused.
//! After it comes what belongs to the document and never changes:
//!
//! ```text
//! HTTP/1.1 200 OK                          |
//! Server: exos                             | opening: shared, remade each second
//! Date: Sun, 06 Nov 1994 08:49:37 GMT      |
//! [Connection: close | keep-alive]         |
//! Content-Type: text/html; charset=utf-8   |
//! ...                                      | document: made when it was loaded
//!                                          |
//! body                                     |
//! ```

use exos_buf::{Buffer, Slice};
use exos_http2::hpack::encoder;

use crate::message::date::date_text;
use crate::message::{Status, Version};

/// What a response says about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Persistence {
    /// Nothing: an HTTP/1.1 connection persists by default.
    Implied,
    /// `Connection: keep-alive`, for HTTP/1.0 clients that asked.
    KeepAlive,
    /// `Connection: close`: this response is the last.
    Close,
    /// Nothing, in a header block of HTTP/2, of which that of HTTP/3 is made.
    Http2,
}

const PERSISTENCES: usize = 4;

impl Persistence {
    /// Whether another request may follow one that was asked so.
    #[inline]
    pub(super) fn of(version: Version, persistent: bool) -> Persistence {
        match (version, persistent) {
            (Version::Http2 | Version::Http3, _) => Persistence::Http2,
            (_, false) => Persistence::Close,
            (Version::Http10, true) => Persistence::KeepAlive,
            (Version::Http11, true) => Persistence::Implied,
        }
    }
}

/// The openings of the current second.
#[derive(Debug)]
pub struct Openings {
    now_secs: u64,
    made: [Option<Slice>; Status::ALL.len() * PERSISTENCES],
}

impl Openings {
    /// Openings for a time in seconds since 1970 (UTC).
    pub fn new(now_secs: u64) -> Openings {
        Openings {
            now_secs,
            made: [const { None }; _],
        }
    }

    /// Moves to another second; a call within the same second costs a comparison.
    #[inline]
    pub fn set_time(&mut self, now_secs: u64) {
        if now_secs != self.now_secs {
            *self = Openings::new(now_secs);
        }
    }

    /// The time in seconds since 1970 (UTC).
    pub fn now_secs(&self) -> u64 {
        self.now_secs
    }

    /// The opening of a response.
    #[inline]
    pub fn get(&mut self, status: Status, persistence: Persistence) -> Slice {
        let now_secs = self.now_secs;
        self.made[status as usize * PERSISTENCES + persistence as usize]
            .get_or_insert_with(|| make(now_secs, status, persistence))
            .clone()
    }
}

/// Makes an opening.
pub(super) fn make(now_secs: u64, status: Status, persistence: Persistence) -> Slice {
    match persistence {
        Persistence::Http2 => Buffer::from(block(now_secs, status.code())).into(),
        _ => Buffer::from(text(now_secs, status.code(), status.reason(), persistence)).into(),
    }
}

/// The text of an opening with any status.
pub(super) fn text(now_secs: u64, code: u16, reason: &str, persistence: Persistence) -> String {
    let connection = match persistence {
        Persistence::Implied | Persistence::Http2 => "",
        Persistence::KeepAlive => "Connection: keep-alive\r\n",
        Persistence::Close => "Connection: close\r\n",
    };
    let date = date_text(now_secs);
    format!("HTTP/1.1 {code} {reason}\r\nServer: exos\r\nDate: {date}\r\n{connection}")
}

/// What of a header block of HTTP/2 says as much.
pub(super) fn block(now_secs: u64, code: u16) -> Vec<u8> {
    let mut block = Vec::new();
    encoder::push(&mut block, b":status", code.to_string().as_bytes());
    encoder::push(&mut block, b"server", b"exos");
    encoder::push(&mut block, b"date", date_text(now_secs).as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(openings: &mut Openings, status: Status, persistence: Persistence) -> String {
        String::from_utf8(openings.get(status, persistence).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn one_buffer_serves_all_responses_of_a_second() {
        let mut openings = Openings::new(784_111_777);
        let first = openings.get(Status::Ok, Persistence::Implied);
        openings.set_time(784_111_777);
        assert!(
            openings
                .get(Status::Ok, Persistence::Implied)
                .buffer()
                .same(first.buffer())
        );
        openings.set_time(784_111_778);
        let later = openings.get(Status::Ok, Persistence::Implied);
        assert!(!later.buffer().same(first.buffer()));
        assert!(
            first
                .as_bytes()
                .ends_with(b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n")
        );
        assert!(
            later
                .as_bytes()
                .ends_with(b"Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n")
        );
    }

    #[test]
    fn every_opening_says_its_status_and_connection() {
        let mut openings = Openings::new(0);
        for status in Status::ALL {
            let start = format!("HTTP/1.1 {} {}\r\n", status.code(), status.reason());
            for (persistence, end) in [
                (Persistence::Implied, "GMT\r\n"),
                (Persistence::KeepAlive, "\r\nConnection: keep-alive\r\n"),
                (Persistence::Close, "\r\nConnection: close\r\n"),
            ] {
                let text = text_of(&mut openings, status, persistence);
                assert!(text.starts_with(&start) && text.ends_with(end), "{text}");
            }
        }
    }
}
