//! A client that writes frames, and reads those of a server.

use exos_http2::connection::{Connection, Event};
use exos_http2::frame::{FrameHead, flag, kind, payload};
pub use exos_http2::hpack::encoder::block;
use exos_http2::{ErrorCode, Fault, StreamId, frame};

/// The fields of a request for a path.
pub const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/"),
    (":authority", "here"),
];

/// A frame.
pub fn framed(kind: u8, flags: u8, stream: StreamId, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push(&mut out, kind, flags, stream, payload);
    out
}

/// A request without a body, or only its head.
pub fn request(stream: StreamId, is_end: bool) -> Vec<u8> {
    let end = u8::from(is_end) * flag::END_STREAM;
    framed(kind::HEADERS, flag::END_HEADERS | end, stream, &block(&GET))
}

/// WINDOW_UPDATE.
pub fn window(stream: StreamId, by: u32) -> Vec<u8> {
    framed(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

/// SETTINGS with one value.
pub fn setting(id: u16, value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_settings(&mut out, &[(id, value)]);
    out
}

/// What a server says, in a word for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Request(StreamId, bool),
    TooLong(StreamId),
    Data(StreamId, Vec<u8>, bool),
    Trailers(StreamId, Vec<(String, String)>),
    Reset(StreamId, ErrorCode),
    Fault(StreamId, Fault),
    Priority(StreamId, u8),
    Room,
    Gone,
    GoAway(ErrorCode),
}

/// A server's connection, and what it has sent.
pub struct Server {
    pub connection: Connection,
    pub out: Vec<u8>,
}

impl Server {
    /// One whose client has begun in order; what it has said until then is forgotten.
    pub fn begun() -> Server {
        let mut server = Server::new();
        let mut begin = frame::PREFACE.to_vec();
        frame::push_settings(&mut begin, &[]);
        assert_eq!(server.receive(&begin), Ok(vec![Told::Room]));
        server.out.clear();
        server
    }

    pub fn new() -> Server {
        let mut out = Vec::new();
        let connection = Connection::server(&mut out);
        Server { connection, out }
    }

    /// Takes all of these bytes.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Told>, Fault> {
        let (mut told, mut rest) = (Vec::new(), bytes);
        loop {
            let (taken, event) = self.connection.receive(rest, &mut self.out)?;
            told.extend(event.map(|event| match event {
                Event::Request { stream, is_end, .. } => Told::Request(stream, is_end),
                Event::FieldsTooLong { stream } => Told::TooLong(stream),
                Event::Data {
                    stream,
                    bytes,
                    is_end,
                } => Told::Data(stream, bytes.to_vec(), is_end),
                Event::Trailers { stream, fields } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let fields = fields.iter();
                    let fields = fields.map(|(name, value)| (text(name), text(value)));
                    Told::Trailers(stream, fields.collect())
                }
                Event::Reset { stream, code } => Told::Reset(stream, code),
                Event::Fault { stream, fault } => Told::Fault(stream, fault),
                Event::Priority { stream, priority } => Told::Priority(stream, priority.urgency),
                Event::Room => Told::Room,
                Event::Gone => Told::Gone,
                Event::GoAway { code } => Told::GoAway(code),
            }));
            rest = &rest[taken..];
            if taken == 0 {
                return Ok(told);
            }
        }
    }

    /// The frames that it has sent since the last call.
    pub fn sent(&mut self) -> Vec<(FrameHead, Vec<u8>)> {
        let out = std::mem::take(&mut self.out);
        let (mut rest, mut frames) = (&out[..], Vec::new());
        while let Some(head) = FrameHead::parse(rest) {
            frames.push((head, rest[9..][..head.len].to_vec()));
            rest = &rest[9 + head.len..];
        }
        assert!(rest.is_empty(), "whole frames");
        frames
    }

    /// The code of the last frame, which is GOAWAY.
    pub fn gone(&mut self) -> ErrorCode {
        let sent = self.sent();
        let (head, bytes) = sent.last().expect("a frame");
        assert_eq!(head.kind, kind::GOAWAY);
        payload::go_away(bytes).expect("whole").1
    }
}
