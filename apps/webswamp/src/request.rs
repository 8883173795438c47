//! A request, made once and sent many times: its bytes lie in a buffer with their checksum at hand.

use bytes::Bytes;
use exos_buf::{Buffer, Slice};
use http::Uri;
use http::uri::Authority;

use crate::http2::Block;
use crate::http3;

/// Whether more requests come on the connection after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// More may come.
    Between,
    /// None does: the server is told, and closes.
    Last,
}

/// Fields that HTTP itself needs; what a person gives replaces them.
const HOST: &str = "Host";
const CONNECTION: &str = "Connection";
const CONTENT_LENGTH: &str = "Content-Length";
const USER_AGENT: &str = "User-Agent";

/// A version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Version {
    /// RFC 1945: a connection is for one request unless both say otherwise.
    #[value(name = "1.0")]
    Http10,
    /// RFC 9112: a connection stays open unless one says otherwise.
    #[default]
    #[value(name = "1.1")]
    Http11,
    /// RFC 9113: many requests are under way on a connection.
    #[value(name = "2")]
    Http2,
    /// RFC 9114: many requests are under way on a connection of QUIC.
    #[value(name = "3")]
    Http3,
}

/// What a request says.
#[derive(Clone, Debug)]
pub struct Content {
    /// Method, of HTTP's token characters.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The server's name, for the Host field.
    pub host: String,
    /// Version.
    pub version: Version,
    /// It is asked over TLS.
    pub is_secured: bool,
    /// Further fields, in order.
    pub headers: Vec<(String, String)>,
    /// Body; `None` sends no Content-Length either.
    pub body: Option<Vec<u8>>,
}

impl Content {
    /// A GET of a URL.
    pub fn get(url: &Uri) -> Self {
        Self {
            method: "GET".to_owned(),
            target: target_of(url),
            host: url.authority().map_or("", Authority::as_str).to_owned(),
            version: Version::default(),
            is_secured: url.scheme_str() == Some("https"),
            headers: Vec::new(),
            body: None,
        }
    }

    /// This request for another URL.
    #[must_use]
    pub fn of(&self, url: &Uri) -> Self {
        let it = Self::get(url);
        Self {
            target: it.target,
            host: it.host,
            is_secured: it.is_secured,
            ..self.clone()
        }
    }

    fn bytes(&self, place: Position) -> Vec<u8> {
        let version = match self.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 | Version::Http3 => return Vec::new(),
        };
        let mut head = format!("{} {} HTTP/{version}\r\n", self.method, self.target);
        let mut field = |name: &str, value: &str| {
            head.extend([name, ": ", value, "\r\n"]);
        };
        if !self.says(HOST) {
            field(HOST, &self.host);
        }
        if !self.says(USER_AGENT) {
            field(USER_AGENT, "exos-load");
        }
        for (name, value) in &self.headers {
            field(name, value);
        }
        match (self.version, place) {
            _ if self.says(CONNECTION) => (),
            (Version::Http11, Position::Last) => field(CONNECTION, "close"),
            (Version::Http10, Position::Between) => field(CONNECTION, "keep-alive"),
            _ => (),
        }
        if let Some(body) = &self.body
            && !self.says(CONTENT_LENGTH)
        {
            field(CONTENT_LENGTH, &body.len().to_string());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(self.body.iter().flatten());
        bytes
    }

    fn says(&self, field: &str) -> bool {
        self.header(field).is_some()
    }

    /// The value of a field that a person gave.
    pub(crate) fn header(&self, field: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        let found = all.find(|(name, _)| name.eq_ignore_ascii_case(field));
        found.map(|(_, value)| &value[..])
    }
}

/// Path and query of a URL, of which a path may be missing (RFC 9112 §3.2.1).
pub fn target_of(url: &Uri) -> String {
    match url.path_and_query().map_or("/", |both| both.as_str()) {
        query if query.starts_with('?') => format!("/{query}"),
        whole => whole.to_owned(),
    }
}

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    between: Slice,
    last: Slice,
    is_head: bool,
    is_safe: bool,
    framed: Option<Box<Framed>>,
    /// All frames of it over HTTP/3.
    frames: Option<Bytes>,
}

/// What it is over HTTP/2.
#[derive(Clone, Debug)]
struct Framed {
    block: Block,
    body: Option<Slice>,
}

impl Request {
    /// Writes it.
    pub fn new(content: &Content) -> Self {
        let slice = |place| Buffer::from(content.bytes(place)).whole();
        let framed = || Framed {
            block: Block::new(content),
            body: content.body.clone().map(|body| Buffer::from(body).whole()),
        };
        Self {
            framed: (content.version == Version::Http2).then(|| Box::new(framed())),
            frames: (content.version == Version::Http3).then(|| http3::frames(content)),
            between: slice(Position::Between),
            last: slice(Position::Last),
            is_head: content.method == "HEAD",
            is_safe: matches!(&*content.method, "GET" | "HEAD" | "OPTIONS" | "TRACE"),
        }
    }

    /// Its header block, where it was made for HTTP/2.
    pub(crate) fn block(&self) -> Option<&Block> {
        self.framed.as_ref().map(|framed| &framed.block)
    }

    /// Its body, where it was made for HTTP/2 and has one.
    pub(crate) fn body(&self) -> Option<&Slice> {
        self.framed.as_ref()?.body.as_ref()
    }

    /// Its frames, where it was made for HTTP/3.
    pub(crate) fn frames(&self) -> Option<&Bytes> {
        self.frames.as_ref()
    }

    /// Its bytes; of one for HTTP/2 or HTTP/3 none.
    pub fn bytes(&self, place: Position) -> &Slice {
        match place {
            Position::Between => &self.between,
            Position::Last => &self.last,
        }
    }

    /// It asks for nothing to be changed (RFC 9110 §9.2.1).
    pub fn is_safe(&self) -> bool {
        self.is_safe
    }

    /// The response to it has a head only, whatever that says of a body (RFC 9112 §6.3).
    pub fn is_head(&self) -> bool {
        self.is_head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> Content {
        Content::get(&"http://a.example:8080/b?c".parse().unwrap())
    }

    fn text(content: &Content, place: Position) -> String {
        let request = Request::new(content);
        String::from_utf8(request.bytes(place).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn says_what_http_needs() {
        let start = "GET /b?c HTTP/1.1\r\nHost: a.example:8080\r\nUser-Agent: exos-load\r\n";
        assert_eq!(text(&content(), Position::Between), format!("{start}\r\n"));
        let last = format!("{start}Connection: close\r\n\r\n");
        assert_eq!(text(&content(), Position::Last), last);
    }

    #[test]
    fn a_query_without_a_path_has_one() {
        for (url, target) in [
            ("http://a", "/"),
            ("http://a?b", "/?b"),
            ("http://a/?b", "/?b"),
        ] {
            assert_eq!(Content::get(&url.parse().unwrap()).target, target);
        }
    }

    #[test]
    fn of_the_older_version_says_that_more_come() {
        let content = Content {
            version: Version::Http10,
            ..content()
        };
        assert!(text(&content, Position::Between).contains("HTTP/1.0\r\n"));
        assert!(text(&content, Position::Between).contains("\r\nConnection: keep-alive\r\n"));
        assert!(!text(&content, Position::Last).contains("Connection"));
    }

    #[test]
    fn what_a_person_says_comes_first() {
        let own = [("host", "b"), ("X-A", "1"), ("connection", "upgrade")];
        let content = Content {
            method: "POST".to_owned(),
            headers: own.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
            body: Some(b"12345".to_vec()),
            ..content()
        };
        let text = text(&content, Position::Last);
        assert!(text.starts_with("POST /b?c HTTP/1.1\r\nUser-Agent: exos-load\r\nhost: b\r\n"));
        assert!(text.ends_with("X-A: 1\r\nconnection: upgrade\r\nContent-Length: 5\r\n\r\n12345"));
        assert_eq!(text.matches("onnection").count(), 1);
    }
}
