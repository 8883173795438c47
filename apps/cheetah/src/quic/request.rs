//! A request: what of it has come, as text of HTTP/1.1, and what is to leave of its response.

use exos_buf::Slice;
use exos_http3::Fault;
use exos_http3::heads::Heads;
use exos_http3::qpack::encoder;
use exos_http3::request::{Part, Reader};
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use quinn_proto::{ConnectionHandle, SendStream, StreamId, WriteError};

use super::queue::{Queue, emptied};
use crate::message::http2::lines_of;
use crate::message::http3;

/// A request and its response.
#[derive(Debug)]
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
    has_head: bool,
    queue: Queue,
    /// Nothing follows what is queued.
    is_last: bool,
    /// QUIC knows that, too.
    pub(super) is_finished: bool,
}

/// How the body is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BodyForm {
    /// As it comes.
    Plain,
    /// In chunks, as HTTP/1.1 has a body without a length.
    Chunked,
    /// Not at all.
    Discarded,
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
        Request::with_memory((Vec::new(), Queue::default()), id, link, stream, begun)
    }

    /// One in this memory, in which there is nothing.
    fn with_memory(
        (received, queue): (Vec<u8>, Queue),
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
            received,
            body: BodyForm::Plain,
            has_last_chunk: false,
            has_ended: false,
            is_held: false,
            is_known: false,
            has_head: false,
            queue,
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
        let received = emptied(std::mem::take(&mut self.received));
        let memory = (received, std::mem::take(&mut self.queue));
        *self = Request::with_memory(memory, self.id, self.link, self.stream, self.begun);
    }

    // The request.

    /// Takes what has come; `is_end` when nothing follows. Heads are decoded where those of others are.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        is_end: bool,
        heads: &mut Heads,
    ) -> Result<Came, Fault> {
        let mut came = Came::default();
        while !bytes.is_empty() {
            let (taken, part) = self.reader.receive(bytes, heads)?;
            bytes = &bytes[taken..];
            match part {
                None => {}
                Some(Part::Head(mut head)) => {
                    came.urgency = Some(head.urgency());
                    let is_too_long = head.is_too_long();
                    let lines =
                        head.text(|request, text| http3::head_lines(request, is_too_long, text));
                    self.received.reserve(http3::HEAD_LEN);
                    self.received.extend_from_slice(lines);
                    let request = head.request();
                    let is_tunnel = request.protocol().is_some();
                    self.is_open = true;
                    self.has_length = is_tunnel || request.length().is_some();
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

    /// How much of it waits for the server: nothing until that hears of it, so that no head waits for what is before it. There is a bound to
    /// heads of their own.
    pub(super) fn waiting_len(&self) -> usize {
        match self.is_known {
            true => self.received.len(),
            false => 0,
        }
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
        self.received = emptied(std::mem::take(&mut self.received));
    }

    // The response.

    /// Queues the head of the response: its field section, which the server counts as this many bytes.
    pub(super) fn send_head(&mut self, section: &[u8], counted: usize) {
        self.has_head = true;
        self.queue.push_section(section, counted);
    }

    /// Queues that the client may send the body (RFC 9110 §10.1.1).
    pub(super) fn send_leave(&mut self) {
        let mut section = Vec::new();
        encoder::begin(&mut section);
        encoder::push(&mut section, b":status", b"100");
        self.queue.push_section(&section, 0);
    }

    /// Queues the field section behind the content.
    pub(super) fn send_trailers(&mut self, section: &[u8]) {
        self.queue.push_section(section, 0);
    }

    /// Queues a part of the body.
    pub(super) fn send(&mut self, slice: Slice) {
        self.queue.push_body(slice);
    }

    /// Nothing follows. False where there is no response, and so never will be.
    pub(super) fn finish(&mut self) -> bool {
        self.is_last = true;
        self.has_head
    }

    /// Gives QUIC some of what is queued; false where nothing is.
    ///
    /// # Errors
    ///
    /// It takes no more, for now or for good.
    pub(super) fn write(&mut self, out: &mut SendStream<'_>) -> Result<bool, WriteError> {
        self.queue.write(out)
    }

    /// All is sent that ever will be.
    pub(super) fn is_whole(&self) -> bool {
        self.is_last && self.queue.is_empty()
    }

    /// Bytes, as the server counts them, that QUIC has not taken.
    pub(super) fn unsent(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that the client has not taken, as far as is known: of a response that QUIC has whole, one, until all was acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        let has_left = self.is_last && self.has_head;
        self.unsent().max(usize::from(has_left))
    }
}

#[cfg(test)]
mod tests {
    use exos_buf::Buffer;
    use exos_http3::frame::{self, kind};
    use quinn_proto::{Dir, Side};

    use super::*;

    /// Whatever a request had come to, with its response, one that is cleared is as one that begins.
    #[test]
    fn one_that_is_cleared_has_nothing_left() {
        let begun = || {
            let stream = StreamId::new(Side::Client, Dir::Bi, 7);
            let (id, link) = (ConnectionId::from_bits(1), ConnectionHandle(0));
            Request::new(id, link, stream, Instant::from_millis(1))
        };
        let head = |method, path| {
            let all = [
                (":method", method),
                (":scheme", "https"),
                (":authority", "a"),
                (":path", path),
                (":protocol", "websocket"),
            ];
            let count = if method == "CONNECT" { 5 } else { 4 };
            let mut bytes = Vec::new();
            frame::push(&mut bytes, kind::HEADERS, &encoder::section(&all[..count]));
            bytes
        };
        let end = |request: &mut Request, way| {
            let body = |len| Buffer::from(vec![b'x'; len]).whole();
            match way {
                0 => {}
                1 => request.discard(),
                2 => drop(request.finish()),
                3 => {
                    request.send_leave();
                    request.send_head(b"section", 100);
                    request.send(body(100));
                    request.queue.taken(9);
                }
                4 => {
                    request.send_head(b"section", 7);
                    request.queue.taken(9);
                    request.send(body(5000));
                    request.queue.taken(3);
                    request.queue.taken(1000);
                    request.finish();
                }
                _ => {
                    (request.is_held, request.is_finished) = (true, true);
                    request.consume(10);
                }
            }
        };
        for method in ["GET", "CONNECT"] {
            let mut bytes = head(method, "/");
            frame::push(&mut bytes, kind::DATA, &[b'x'; 30]);
            for len in 0..=bytes.len() {
                for way in 0..6 {
                    let mut request = begun();
                    let is_end = len == bytes.len();
                    request
                        .receive(&bytes[..len], is_end, &mut Heads::default())
                        .unwrap();
                    end(&mut request, way);
                    request.clear();
                    assert_eq!(
                        format!("{request:?}"),
                        format!("{:?}", begun()),
                        "{method} {len} {way}"
                    );
                }
            }
        }
    }
}
