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

use crate::limits::ALTERNATIVE_TIME;
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
    pub(crate) fn of(version: Version, persistent: bool) -> Persistence {
        match (version, persistent) {
            (Version::Http2 | Version::Http3, _) => Persistence::Http2,
            (_, false) => Persistence::Close,
            (Version::Http10, true) => Persistence::KeepAlive,
            (Version::Http11, true) => Persistence::Implied,
        }
    }
}

/// What a response says besides its status, and before its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// About the connection.
    pub persistence: Persistence,
    /// It goes by HTTPS: the client hears where HTTP/3 is spoken.
    pub is_encrypted: bool,
}

/// The openings of the current second.
#[derive(Debug)]
pub struct Openings {
    now_secs: u64,
    /// Where HTTP/3 is spoken, as an Alt-Svc field says it (RFC 7838 §3); empty where it is not.
    alternative: String,
    made: [Option<Slice>; Status::ALL.len() * PERSISTENCES * 2],
}

impl Openings {
    /// Openings for a time in seconds since 1970 (UTC).
    pub fn new(now_secs: u64) -> Openings {
        Openings {
            now_secs,
            alternative: String::new(),
            made: [const { None }; _],
        }
    }

    /// Moves to another second; a call within the same second costs a comparison.
    #[inline]
    pub fn set_time(&mut self, now_secs: u64) {
        if now_secs != self.now_secs {
            let alternative = std::mem::take(&mut self.alternative);
            *self = Openings {
                alternative,
                ..Openings::new(now_secs)
            };
        }
    }

    /// The time in seconds since 1970 (UTC).
    pub fn now_secs(&self) -> u64 {
        self.now_secs
    }

    /// HTTP/3 is spoken at this port, which responses by HTTPS say from now on.
    pub fn announce_http3(&mut self, port: u16) {
        let secs = ALTERNATIVE_TIME.as_secs();
        let alternative = format!("h3=\":{port}\"; ma={secs}");
        *self = Openings {
            alternative,
            ..Openings::new(self.now_secs)
        };
    }

    /// What a response that is so says of HTTP/3; empty where that is nothing.
    pub(crate) fn alternative(&self, is_encrypted: bool) -> &str {
        match is_encrypted {
            true => &self.alternative,
            false => "",
        }
    }

    /// The opening of a response.
    #[inline]
    pub fn get(&mut self, status: Status, how: Manner) -> Slice {
        let place = status as usize * PERSISTENCES + how.persistence as usize;
        let place = place * 2 + usize::from(how.is_encrypted);
        if let Some(made) = &self.made[place] {
            return made.clone();
        }
        self.made[place].insert(self.make(status, how)).clone()
    }

    /// Makes an opening.
    pub(crate) fn make(&self, status: Status, how: Manner) -> Slice {
        Buffer::from(self.bytes(status.code(), status.reason(), how)).into()
    }

    /// Appends the opening of a response with any status and reason.
    pub(crate) fn push(&mut self, code: u16, reason: &str, how: Manner, out: &mut Vec<u8>) {
        let known = Status::ALL.into_iter().find(|status| status.code() == code);
        let says_reason = how.persistence != Persistence::Http2;
        match known.filter(|status| !says_reason || status.reason() == reason) {
            Some(status) => out.extend_from_slice(self.get(status, how).as_bytes()),
            None => out.extend_from_slice(&self.bytes(code, reason, how)),
        }
    }

    fn bytes(&self, code: u16, reason: &str, how: Manner) -> Vec<u8> {
        let alternative = self.alternative(how.is_encrypted);
        match how.persistence {
            Persistence::Http2 => {
                let mut block = block(self.now_secs, code);
                if !alternative.is_empty() {
                    encoder::push(&mut block, b"alt-svc", alternative.as_bytes());
                }
                block
            }
            persistence => {
                let mut text = text(self.now_secs, code, reason, persistence);
                if !alternative.is_empty() {
                    text += &format!("Alt-Svc: {alternative}\r\n");
                }
                text.into_bytes()
            }
        }
    }
}

/// The text of an opening with any status.
pub(crate) fn text(now_secs: u64, code: u16, reason: &str, persistence: Persistence) -> String {
    let connection = match persistence {
        Persistence::Implied | Persistence::Http2 => "",
        Persistence::KeepAlive => "Connection: keep-alive\r\n",
        Persistence::Close => "Connection: close\r\n",
    };
    let date = date_text(now_secs);
    format!("HTTP/1.1 {code} {reason}\r\nServer: exos\r\nDate: {date}\r\n{connection}")
}

/// What of a header block of HTTP/2 says as much.
pub(crate) fn block(now_secs: u64, code: u16) -> Vec<u8> {
    encoder::block(&[
        (":status", &*code.to_string()),
        ("server", "exos"),
        ("date", &*date_text(now_secs)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manner(persistence: Persistence, is_encrypted: bool) -> Manner {
        Manner {
            persistence,
            is_encrypted,
        }
    }

    fn text_of(openings: &mut Openings, status: Status, persistence: Persistence) -> String {
        let opening = openings.get(status, manner(persistence, false));
        String::from_utf8(opening.as_bytes().to_vec()).unwrap()
    }

    /// RFC 7838 §3.
    #[test]
    fn https_says_where_http3_is_spoken() {
        let mut openings = Openings::new(784_111_777);
        let all = [Persistence::Implied, Persistence::Http2];
        for says in [false, true] {
            for persistence in all {
                for is_encrypted in [false, true] {
                    let how = manner(persistence, is_encrypted);
                    let opening = openings.get(Status::Ok, how);
                    let again = openings.get(Status::Ok, how);
                    assert!(again.buffer().same(opening.buffer()));
                    let plain = openings.get(Status::Ok, manner(persistence, false));
                    let more = opening.len() - plain.len();
                    assert_eq!(more > 0, says && is_encrypted, "{how:?}");
                }
            }
            openings.announce_http3(8443);
            openings.set_time(784_111_778);
        }
        let how = manner(Persistence::Implied, true);
        let text = openings.get(Status::Ok, how).as_bytes().to_vec();
        assert!(text.ends_with(b"\r\nAlt-Svc: h3=\":8443\"; ma=86400\r\n"));
    }

    #[test]
    fn one_buffer_serves_all_responses_of_a_second() {
        let mut openings = Openings::new(784_111_777);
        let first = openings.get(Status::Ok, manner(Persistence::Implied, false));
        openings.set_time(784_111_777);
        assert!(
            openings
                .get(Status::Ok, manner(Persistence::Implied, false))
                .buffer()
                .same(first.buffer())
        );
        openings.set_time(784_111_778);
        let later = openings.get(Status::Ok, manner(Persistence::Implied, false));
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
