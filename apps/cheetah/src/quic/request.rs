//! A request: what of it has come, as text of HTTP/1.1, and what is to leave of its response.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};
use exos_buf::Slice;
use exos_http3::Fault;
use exos_http3::frame::{self, kind};
use exos_http3::qpack::encoder;
use exos_http3::request::{Head, Part, Reader};
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use quinn_proto::{ConnectionHandle, SendStream, StreamId, WriteError};

use crate::limits::{QUIC_COPIED_LEN_MAX, QUIC_PIECE_LEN};
use crate::message::http2::lines_of;
use crate::message::http3;

/// Room for frames that leave together: a head and a short body.
const FRAMES_LEN: usize = 512;

/// A request and its response.
pub(super) struct Request {
    pub(super) id: ConnectionId,
    pub(super) link: ConnectionHandle,
    pub(super) stream: StreamId,
    pub(super) begun: Instant,
    reader: Reader,
    /// Its head, until it is known whether a body follows.
    head: Option<Box<Head>>,
    /// Its text, and what has come of its body, as far as nobody has consumed it.
    received: Vec<u8>,
    body: BodyForm,
    /// The last chunk of it is there, with the fields behind it.
    has_last_chunk: bool,
    /// All of it has come.
    pub(super) has_ended: bool,
    /// There was no room for what has come: it is read when there is.
    pub(super) is_held: bool,
    /// There is a text, and the server hears of it.
    pub(super) is_known: bool,
    /// Another protocol is to be spoken on its stream.
    pub(super) is_tunnel: bool,
    has_head: bool,
    queue: VecDeque<Piece>,
    /// Bytes of the response, as the server counts them, that QUIC has not taken.
    queue_len: usize,
    /// Nothing follows what is queued.
    is_last: bool,
    /// QUIC knows that, too.
    pub(super) is_finished: bool,
}

/// How the body is kept.
#[derive(Clone, Copy, PartialEq)]
enum BodyForm {
    /// As it comes.
    Plain,
    /// In chunks, as HTTP/1.1 has a body without a length.
    Chunked,
    /// Not at all.
    Discarded,
}

/// Something to be sent, and what of it the server counts.
enum Piece {
    /// Frames, with content where that is short; to which others can be added.
    Frames(Vec<u8>, usize),
    /// Those, as far as QUIC has not taken them.
    Leaving(Bytes, usize),
    Body(Slice),
    /// Some of a document, in the memory in which all threads have it.
    Document(Bytes),
}

/// What has come of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    /// Its head, which is so urgent.
    pub(super) urgency: Option<u8>,
    /// Something to read, or the end.
    pub(super) has_news: bool,
}

impl Request {
    pub(super) fn new(
        id: ConnectionId,
        link: ConnectionHandle,
        stream: StreamId,
        begun: Instant,
    ) -> Request {
        Request {
            id,
            link,
            stream,
            begun,
            reader: Reader::default(),
            head: None,
            received: Vec::new(),
            body: BodyForm::Plain,
            has_last_chunk: false,
            has_ended: false,
            is_held: false,
            is_known: false,
            is_tunnel: false,
            has_head: false,
            queue: VecDeque::new(),
            queue_len: 0,
            is_last: false,
            is_finished: false,
        }
    }

    // The request.

    /// Takes what has come; `is_end` when nothing follows.
    pub(super) fn receive(&mut self, mut bytes: &[u8], is_end: bool) -> Result<Came, Fault> {
        let mut came = Came::default();
        while !bytes.is_empty() {
            let (taken, part) = self.reader.receive(bytes)?;
            bytes = &bytes[taken..];
            match part {
                None => {}
                Some(Part::Head(head)) => {
                    came.urgency = Some(head.urgency());
                    let request = head.request();
                    self.is_tunnel = request.protocol().is_some();
                    let is_certain = self.is_tunnel
                        || request.length().is_some()
                        || request.fields().any(|(name, _)| name == "expect");
                    self.head = Some(head);
                    if is_certain {
                        self.begin(false);
                        came.has_news = true;
                    }
                }
                Some(Part::Trailers(fields)) => self.end_chunks(&lines_of(&fields)),
                Some(Part::Data(data)) => {
                    came.has_news = true;
                    self.begin(false);
                    self.keep(data);
                }
            }
        }
        if is_end {
            self.reader.end()?;
            self.has_ended = true;
            self.begin(true);
            came.has_news = true;
            self.end_chunks(b"");
            if self.body == BodyForm::Chunked {
                self.received.extend_from_slice(b"\r\n");
            }
        }
        Ok(came)
    }

    /// The last chunk of a body that comes in chunks, and the lines behind it, unless they are there. Behind any other there are none.
    fn end_chunks(&mut self, lines: &[u8]) {
        if self.body == BodyForm::Chunked && !std::mem::replace(&mut self.has_last_chunk, true) {
            self.received.extend_from_slice(b"0\r\n");
            self.received.extend_from_slice(lines);
        }
    }

    /// Makes the text, if that is not made: `is_end` where no body follows.
    fn begin(&mut self, is_end: bool) {
        let Some(head) = self.head.take() else {
            return;
        };
        self.is_known = true;
        let request = head.request();
        let is_chunked = !is_end && request.length().is_none() && !self.is_tunnel;
        self.received = http3::head_text(&request, is_chunked, head.is_too_long());
        if is_chunked {
            self.body = BodyForm::Chunked;
        }
    }

    fn keep(&mut self, data: &[u8]) {
        match self.body {
            BodyForm::Plain => self.received.extend_from_slice(data),
            BodyForm::Chunked => {
                let line = format!("{:x}\r\n", data.len());
                self.received.extend_from_slice(line.as_bytes());
                self.received.extend_from_slice(data);
                self.received.extend_from_slice(b"\r\n");
            }
            BodyForm::Discarded => {}
        }
    }

    pub(super) fn received(&self) -> &[u8] {
        &self.received
    }

    pub(super) fn received_len(&self) -> usize {
        self.received.len()
    }

    /// Takes this many bytes from the beginning.
    pub(super) fn consume(&mut self, count: usize) {
        self.received.drain(..count.min(self.received.len()));
        if self.received.is_empty() {
            self.received = Vec::new();
        }
    }

    /// Throws away what has come, and what comes.
    pub(super) fn discard(&mut self) {
        self.body = BodyForm::Discarded;
        self.received = Vec::new();
    }

    // The response.

    /// Queues the head of the response: its field section, which the server counts as this many bytes.
    pub(super) fn send_head(&mut self, section: &[u8], counted: usize) {
        self.has_head = true;
        self.push_frame(section, counted);
    }

    /// Queues that the client may send the body (RFC 9110 §10.1.1).
    pub(super) fn send_leave(&mut self) {
        let mut section = Vec::new();
        encoder::begin(&mut section);
        encoder::push(&mut section, b":status", b"100");
        self.push_frame(&section, 0);
    }

    /// Queues the field section behind the content.
    pub(super) fn send_trailers(&mut self, section: &[u8]) {
        self.push_frame(section, 0);
    }

    fn push_frame(&mut self, section: &[u8], counted: usize) {
        let frames = self.frames(counted);
        frame::push(frames, kind::HEADERS, section);
    }

    /// Queues a part of the body. A short one leaves with what is before it.
    pub(super) fn send(&mut self, slice: Slice) {
        if slice.is_empty() {
            return;
        }
        let is_short = slice.len() <= QUIC_COPIED_LEN_MAX;
        let frames = self.frames(if is_short { slice.len() } else { 0 });
        frame::push_head(frames, kind::DATA, slice.len() as u64);
        if is_short {
            frames.extend_from_slice(slice.as_bytes());
        } else {
            self.queue_len += slice.len();
            self.queue.push_back(match slice.buffer().shared() {
                Some(shared) => {
                    Piece::Document(Bytes::from_owner(shared.clone()).slice(slice.range()))
                }
                None => Piece::Body(slice),
            });
        }
    }

    /// The frames that leave last, to which something is added that the server counts so.
    fn frames(&mut self, counted: usize) -> &mut Vec<u8> {
        self.queue_len += counted;
        if !matches!(self.queue.back(), Some(Piece::Frames(..))) {
            let frames = Vec::with_capacity(FRAMES_LEN);
            self.queue.push_back(Piece::Frames(frames, 0));
        }
        match self.queue.back_mut() {
            Some(Piece::Frames(frames, all)) => {
                *all += counted;
                frames
            }
            _ => unreachable!("they were queued last"),
        }
    }

    /// Nothing follows. False where there is no response, and so never will be.
    pub(super) fn finish(&mut self) -> bool {
        self.is_last = true;
        self.has_head
    }

    /// Gives QUIC some of what is queued, in short pieces; false where nothing is.
    ///
    /// # Errors
    ///
    /// It takes no more, for now or for good.
    pub(super) fn write(&mut self, out: &mut SendStream<'_>) -> Result<bool, WriteError> {
        let Some(piece) = self.queue.front_mut() else {
            return Ok(false);
        };
        if let Piece::Frames(frames, counted) = piece {
            *piece = Piece::Leaving(std::mem::take(frames).into(), *counted);
        }
        let is_whole = match piece {
            Piece::Body(slice) => {
                let most = slice.len().min(QUIC_PIECE_LEN);
                let len = out.write(&slice.as_bytes()[..most])?;
                self.queue_len -= len;
                *slice = slice.sub(len..slice.len());
                slice.is_empty()
            }
            Piece::Document(bytes) => {
                let mut next = [bytes.slice(..bytes.len().min(QUIC_PIECE_LEN))];
                let len = out.write_chunks(&mut next)?.bytes;
                self.queue_len -= len;
                bytes.advance(len);
                bytes.is_empty()
            }
            Piece::Leaving(bytes, counted) => {
                // QUIC keeps them as they are, without a copy.
                let mut left = [std::mem::take(bytes)];
                let written = out.write_chunks(&mut left);
                [*bytes] = left;
                written?;
                self.queue_len -= if bytes.is_empty() { *counted } else { 0 };
                bytes.is_empty()
            }
            Piece::Frames(..) => unreachable!("they are leaving"),
        };
        if is_whole {
            self.queue.pop_front();
        }
        Ok(true)
    }

    /// All is sent that ever will be.
    pub(super) fn is_whole(&self) -> bool {
        self.is_last && self.queue.is_empty()
    }

    /// Bytes, as the server counts them, that QUIC has not taken.
    pub(super) fn unsent(&self) -> usize {
        self.queue_len
    }

    /// Bytes that the client has not taken, as far as is known: of a response that QUIC has whole, one, until all was acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.queue_len
            .max(usize::from(self.is_last && self.has_head))
    }
}
