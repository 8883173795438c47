//! A request: what of it has come, as text of HTTP/1.1, and what is to leave of its response.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};
use exos_buf::Slice;
use exos_http2::fields::Fields;
use exos_http3::Fault;
use exos_http3::frame::{self, kind};
use exos_http3::qpack::encoder;
use exos_http3::request::{Part, Reader};
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use quinn_proto::{ConnectionHandle, SendStream, StreamId, WriteError};

use crate::limits::{QUIC_COPIED_LEN_MAX, QUIC_PIECE_LEN, QUIC_SPARE_LEN_MAX};
use crate::message::http2::lines_of;
use crate::message::http3;

/// Room for frames that leave together: a head and a short body.
const FRAMES_LEN: usize = 512;
/// Pieces for which there is room in requests that are over.
const QUEUE_LEN: usize = 8;

/// A request and its response.
pub(super) struct Request {
    pub(super) id: ConnectionId,
    pub(super) link: ConnectionHandle,
    pub(super) stream: StreamId,
    pub(super) begun: Instant,
    reader: Reader,
    /// The text of its head has no end, as it is not known whether a body without a length follows.
    is_open: bool,
    /// It says how long its body is, or has none that ends.
    has_length: bool,
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
    /// Memory for frames.
    spare: Vec<u8>,
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
    /// Frames, with content where that is short, as far as QUIC has not taken them; to which others can be added.
    Frames(Vec<u8>, usize),
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

impl Came {
    /// This has come behind it.
    pub(super) fn add(&mut self, more: Came) {
        self.urgency = self.urgency.or(more.urgency);
        self.has_news |= more.has_news;
    }
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
            is_open: false,
            has_length: false,
            received: Vec::new(),
            body: BodyForm::Plain,
            has_last_chunk: false,
            has_ended: false,
            is_held: false,
            is_known: false,
            is_tunnel: false,
            has_head: false,
            queue: VecDeque::new(),
            spare: Vec::new(),
            queue_len: 0,
            is_last: false,
            is_finished: false,
        }
    }

    /// Another begins, in its memory.
    pub(super) fn begin_again(
        &mut self,
        id: ConnectionId,
        link: ConnectionHandle,
        stream: StreamId,
        begun: Instant,
    ) {
        (self.id, self.link, self.stream, self.begun) = (id, link, stream, begun);
    }

    /// It is over: there is nothing of it but some memory.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.queue.shrink_to(QUEUE_LEN);
        *self = Request {
            received: emptied(std::mem::take(&mut self.received)),
            queue: std::mem::take(&mut self.queue),
            spare: std::mem::take(&mut self.spare),
            ..Request::new(self.id, self.link, self.stream, self.begun)
        };
    }

    // The request.

    /// Takes what has come; `is_end` when nothing follows. Fields are decoded where those of others were.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        is_end: bool,
        fields: &mut Fields,
    ) -> Result<Came, Fault> {
        let mut came = Came::default();
        while !bytes.is_empty() {
            let (taken, part) = self.reader.receive(bytes, fields)?;
            bytes = &bytes[taken..];
            match part {
                None => {}
                Some(Part::Head(head)) => {
                    came.urgency = Some(head.urgency());
                    let request = head.request();
                    self.is_tunnel = request.protocol().is_some();
                    http3::head_lines(&request, head.is_too_long(), &mut self.received);
                    self.is_open = true;
                    self.has_length = self.is_tunnel || request.length().is_some();
                    if self.has_length || request.fields().any(|(name, _)| name == "expect") {
                        self.begin(false);
                        came.has_news = true;
                    }
                }
                Some(Part::Trailers(fields)) => self.end_chunks(&lines_of(fields)),
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

    /// Ends the text of the head, if that is open: `is_end` where no body follows.
    fn begin(&mut self, is_end: bool) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        self.is_known = true;
        if !is_end && !self.has_length {
            self.body = BodyForm::Chunked;
            self.received
                .extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        self.received.extend_from_slice(b"\r\n");
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
            self.received = emptied(std::mem::take(&mut self.received));
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
            let mut frames = std::mem::take(&mut self.spare);
            frames.reserve(FRAMES_LEN);
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
            Piece::Frames(frames, counted) => {
                let len = out.write(frames)?;
                frames.drain(..len);
                let is_whole = frames.is_empty();
                if is_whole {
                    self.queue_len -= *counted;
                    self.spare = emptied(std::mem::take(frames));
                }
                is_whole
            }
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

/// Memory for other bytes, unless there is much of it.
fn emptied(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    bytes.shrink_to(QUIC_SPARE_LEN_MAX);
    bytes
}
