//! A client that speaks HTTP/2 by prior knowledge, on a socket that blocks.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use exos_http2::frame::{self, FrameHead, flag, kind, payload};
use exos_http2::hpack::Decoder;
pub use exos_http2::hpack::encoder::block;
use exos_http2::limits::{DEFAULT_WINDOW, STREAM_WINDOW};
use exos_http2::{ErrorCode, StreamId};

/// What has come on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub is_whole: bool,
    pub reset: Option<ErrorCode>,
}

impl Response {
    pub fn status(&self) -> u16 {
        let status = self.fields.iter().find(|(name, _)| name == ":status");
        status.expect("a status").1.parse().expect("a number")
    }
}

/// A connection.
pub struct FrameClient {
    stream: TcpStream,
    received: Vec<u8>,
    decoder: Decoder,
    pub responses: BTreeMap<StreamId, Response>,
    /// Streams in the order in which their data came.
    pub order: Vec<StreamId>,
    pub gone: Option<(StreamId, ErrorCode)>,
    pub pongs: usize,
    /// What the server's windows let it send: of all streams (0), and of those that have sent a body.
    rooms: BTreeMap<StreamId, usize>,
    /// A server's farewell is answered.
    ping: Option<[u8; 8]>,
}

/// A frame.
pub fn framed(kind: u8, flags: u8, stream: StreamId, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push(&mut out, kind, flags, stream, payload);
    out
}

/// A request.
pub fn request(
    stream: StreamId,
    method: &str,
    path: &str,
    more: &[(&str, &str)],
    is_end: bool,
) -> Vec<u8> {
    let own = [
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", "a"),
    ];
    let block = block(&[&own[..], more].concat());
    let mut out = Vec::new();
    frame::push_headers(&mut out, stream, &[&block], is_end, 16_384);
    out
}

/// WINDOW_UPDATE.
pub fn window(stream: StreamId, by: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_window_update(&mut out, stream, by);
    out
}

impl FrameClient {
    /// One that lets each stream send so much at first, and all together as much as they like.
    pub fn new(stream: TcpStream, stream_window: u32) -> FrameClient {
        stream.set_nodelay(true).unwrap();
        let mut client = FrameClient {
            stream,
            received: Vec::new(),
            decoder: Decoder::new(4096),
            responses: BTreeMap::new(),
            order: Vec::new(),
            gone: None,
            pongs: 0,
            rooms: BTreeMap::from([(0, DEFAULT_WINDOW as usize)]),
            ping: None,
        };
        let mut begin = frame::PREFACE.to_vec();
        frame::push_settings(&mut begin, &[(4, stream_window)]);
        begin.extend(window(0, (1 << 31) - 1 - 65_535));
        client.send(&begin);
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it reads");
    }

    /// Sends a body, perhaps with the stream's end, as fast as the server's windows open.
    pub fn send_body(&mut self, stream: StreamId, body: &[u8], is_whole: bool) {
        self.rooms.insert(stream, STREAM_WINDOW as usize);
        let parts: Vec<&[u8]> = body.chunks(10_000).collect();
        for (n, part) in parts.iter().enumerate() {
            for of in [0, stream] {
                self.until(|client| client.rooms[&of] >= part.len());
            }
            for of in [0, stream] {
                self.rooms.entry(of).and_modify(|room| *room -= part.len());
            }
            let end = u8::from(is_whole && n + 1 == parts.len()) * flag::END_STREAM;
            self.send(&framed(kind::DATA, end, stream, part));
        }
    }

    /// Asks, and waits for the whole answer.
    pub fn ask(&mut self, stream: StreamId, bytes: &[u8]) -> Response {
        self.send(bytes);
        self.until(|client| client.responses.get(&stream).is_some_and(|it| it.is_whole));
        self.responses[&stream].clone()
    }

    /// Reads frames until this is so.
    pub fn until(&mut self, is_so: impl Fn(&FrameClient) -> bool) {
        while !is_so(self) {
            assert!(self.read(), "more is to come");
        }
    }

    /// Reads until the server ends the connection.
    pub fn read_to_the_end(&mut self) {
        while self.read() {}
    }

    /// Acknowledges a farewell.
    pub fn hear(&mut self) {
        self.until(|client| client.ping.is_some());
        let opaque = self.ping.take().expect("a ping");
        let mut out = Vec::new();
        frame::push_ping(&mut out, true, opaque);
        self.send(&out);
    }

    fn read(&mut self) -> bool {
        let mut buffer = [0; 65_536];
        let count = self.stream.read(&mut buffer).unwrap_or(0);
        self.received.extend_from_slice(&buffer[..count]);
        while let Some(head) = FrameHead::parse(&self.received)
            && self.received.len() >= 9 + head.len
        {
            let whole: Vec<u8> = self.received.drain(..9 + head.len).collect();
            self.take(&head, &whole[9..]);
        }
        count > 0
    }

    fn take(&mut self, head: &FrameHead, bytes: &[u8]) {
        let response = match head.stream {
            0 => &mut Response::default(),
            stream => self.responses.entry(stream).or_default(),
        };
        match head.kind {
            kind::HEADERS => {
                assert!(head.has(flag::END_HEADERS));
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                let field =
                    |name: &[u8], value: &[u8]| response.fields.push((text(name), text(value)));
                self.decoder.decode(bytes, field).expect("a block");
            }
            kind::DATA => {
                response.body.extend_from_slice(bytes);
                self.order.push(head.stream);
            }
            kind::RST_STREAM => response.reset = Some(payload::reset(bytes).expect("a code")),
            kind::GOAWAY => self.gone = Some(payload::go_away(bytes).expect("a code")),
            kind::PING if head.has(flag::ACK) => self.pongs += 1,
            kind::PING => self.ping = Some(payload::ping(bytes).expect("eight bytes")),
            kind::WINDOW_UPDATE => {
                let by = payload::window_update(bytes).expect("four bytes") as usize;
                self.rooms.entry(head.stream).and_modify(|room| *room += by);
            }
            kind::SETTINGS => {}
            other => panic!("a frame of type {other}"),
        }
        if matches!(head.kind, kind::HEADERS | kind::DATA) && head.has(flag::END_STREAM) {
            response.is_whole = true;
        }
    }
}
