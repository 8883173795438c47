//! A request: what of it has come, as text of HTTP/1.1, and what is to leave of its response.

use std::collections::VecDeque;

use exos_buf::Slice;
use exos_http2::hpack;
use exos_http3::Fault;
use exos_http3::frame::{self, kind};
use exos_http3::qpack::encoder;
use exos_http3::request::{Head, Part, Reader};
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use quinn_proto::{ConnectionHandle, StreamId};

use crate::message::http3;

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
    /// All of it has come.
    pub(super) has_ended: bool,
    /// There was no room for what has come: it is read when there is.
    pub(super) is_held: bool,
    /// There is a text, and the server hears of it.
    pub(super) is_known: bool,
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

/// Something to be sent.
enum Piece {
    /// Bytes of the protocol, of which this many are sent; and what the server counts them as.
    Frames(Vec<u8>, usize, usize),
    Body(Slice),
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
            has_ended: false,
            is_held: false,
            is_known: false,
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
                    let is_certain = head.request().length().is_some()
                        || head.request().fields().any(|(name, _)| name == "expect");
                    self.head = Some(head);
                    if is_certain {
                        self.begin(false);
                        came.has_news = true;
                    }
                }
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
            if self.body == BodyForm::Chunked {
                self.received.extend_from_slice(b"0\r\n\r\n");
            }
        }
        Ok(came)
    }

    /// Makes the text, if that is not made: `is_end` where no body follows.
    fn begin(&mut self, is_end: bool) {
        let Some(head) = self.head.take() else {
            return;
        };
        self.is_known = true;
        let request = head.request();
        let is_chunked = !is_end && request.length().is_none();
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

    /// Queues the head of the response, which comes as a header block of HTTP/2.
    pub(super) fn send_head(&mut self, block: &[Slice]) {
        let block: Vec<u8> = block
            .iter()
            .flat_map(|part| part.as_bytes())
            .copied()
            .collect();
        let mut section = Vec::with_capacity(block.len() + 2);
        encoder::begin(&mut section);
        let push = |name: &[u8], value: &[u8]| encoder::push(&mut section, name, value);
        let decoded = hpack::Decoder::new(0).decode(&block, push);
        debug_assert!(
            decoded.is_ok(),
            "blocks of our own name fixed entries alone"
        );
        self.has_head = true;
        self.push_frame(&section, block.len());
    }

    /// Queues that the client may send the body (RFC 9110 §10.1.1).
    pub(super) fn send_leave(&mut self) {
        self.push_frame(&encoder::section(&[(":status", "100")]), 0);
    }

    fn push_frame(&mut self, section: &[u8], counted: usize) {
        let mut frames = Vec::with_capacity(section.len() + frame::HEAD_LEN_MAX);
        frame::push_head(&mut frames, kind::HEADERS, section.len() as u64);
        frames.extend_from_slice(section);
        self.queue_len += counted;
        self.queue.push_back(Piece::Frames(frames, 0, counted));
    }

    /// Queues a part of the body.
    pub(super) fn send(&mut self, slice: Slice) {
        if slice.is_empty() {
            return;
        }
        let mut head = Vec::with_capacity(frame::HEAD_LEN_MAX);
        frame::push_head(&mut head, kind::DATA, slice.len() as u64);
        self.queue_len += slice.len();
        self.queue.push_back(Piece::Frames(head, 0, 0));
        self.queue.push_back(Piece::Body(slice));
    }

    /// Nothing follows. False where there is no response, and so never will be.
    pub(super) fn finish(&mut self) -> bool {
        self.is_last = true;
        self.has_head
    }

    /// What is to be sent next.
    pub(super) fn next(&self) -> Option<&[u8]> {
        Some(match self.queue.front()? {
            Piece::Frames(frames, sent, _) => &frames[*sent..],
            Piece::Body(slice) => slice.as_bytes(),
        })
    }

    /// This many bytes of [`next`](Self::next) were sent.
    pub(super) fn advance(&mut self, len: usize) {
        let is_whole = match self.queue.front_mut() {
            None => return,
            Some(Piece::Frames(frames, sent, counted)) => {
                *sent += len;
                let is_whole = *sent == frames.len();
                self.queue_len -= if is_whole { *counted } else { 0 };
                is_whole
            }
            Some(Piece::Body(slice)) => {
                self.queue_len -= len;
                *slice = slice.sub(len..slice.len());
                slice.is_empty()
            }
        };
        if is_whole {
            self.queue.pop_front();
        }
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
