//! What waits on a stream: a request that is to be begun with, its body, slices of its response.

use std::collections::VecDeque;

use exos_buf::Slice;
use exos_http2::StreamId;
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use crate::connections::shared::Shared;
use crate::http::{Asking, Missing, Tail};
use crate::limits::BODY_SKIP_LEN_MAX;
use crate::log::Unfinished;

/// What an exchange begins with.
pub(super) enum Start {
    /// The beginning of a response is queued, and this follows.
    Tail(Box<Tail>, Vec<Slice>, Unfinished),
    /// It waits for this.
    Waits(Box<Missing>),
    /// An application is asked.
    Asks(Box<Asking>),
}

/// A response that waits until the body of its request has come, and since when.
pub(super) struct Held {
    pub(super) response: Vec<Slice>,
    pub(super) since: Instant,
}

/// Who sees to a stream.
pub(super) enum Owner {
    /// Nobody: its response is queued.
    Nobody,
    /// Nobody: its response is there, and goes when the body has come, or too much time has passed.
    Held(Held),
    /// An exchange that is to begin.
    Start(Start),
    /// An exchange.
    Exchange(ConnectionId),
}

/// How the body of a request is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyForm {
    /// As it comes.
    Plain,
    /// In chunks, as HTTP/1.1 has a body without a length.
    Chunked,
    /// Not at all.
    Discarded,
}

/// What waits on a stream.
pub(super) struct Stream {
    id: StreamId,
    pub(super) owner: Owner,
    /// What of the request is not consumed: its text, where that is kept, and what has come of its body.
    received: Vec<u8>,
    /// Bytes of the body of which the client was not told that they are consumed.
    uncredited: usize,
    /// Bytes of it that were thrown away.
    discarded: u64,
    pub(super) form: BodyForm,
    /// What comes is another protocol: it waits within its stream's window alone.
    pub(super) is_tunnel: bool,
    /// The last chunk of it, if nothing of that is consumed: where it begins in what was received, and the length of its content.
    last_chunk: Option<(usize, usize)>,
    /// All of the request has come, which the exchange has to hear.
    pub(super) has_ended: bool,
    /// The exchange has to hear of something.
    pub(super) has_news: bool,
    pub(super) has_taken: bool,
    /// The header block of the response was sent, and how long it was where nobody sees to the stream.
    pub(super) has_head: bool,
    pub(super) head_len: usize,
    queue: VecDeque<Slice>,
    queue_len: usize,
    /// Nothing follows what is queued, but this header block.
    pub(super) is_last: bool,
    pub(super) trailers: Option<Vec<u8>>,
    /// Bytes that were sent and not taken.
    pub(super) unacknowledged: usize,
    /// Chunks of a long file that its exchange holds.
    pub(super) chunks: usize,
    /// The line of a response that nobody sees to.
    pub(super) lines: Unfinished,
}

impl Stream {
    pub(super) fn new(id: StreamId, owner: Owner) -> Stream {
        Stream {
            id,
            owner,
            received: Vec::new(),
            uncredited: 0,
            discarded: 0,
            form: BodyForm::Discarded,
            is_tunnel: false,
            last_chunk: None,
            has_ended: false,
            has_news: false,
            has_taken: false,
            has_head: false,
            head_len: 0,
            queue: VecDeque::new(),
            queue_len: 0,
            is_last: false,
            trailers: None,
            unacknowledged: 0,
            chunks: 0,
            lines: Unfinished::default(),
        }
    }

    pub(super) fn id(&self) -> StreamId {
        self.id
    }

    /// The exchange that sees to it.
    pub(super) fn exchange(&self) -> Option<ConnectionId> {
        match self.owner {
            Owner::Exchange(id) => Some(id),
            Owner::Nobody | Owner::Held(_) | Owner::Start(_) => None,
        }
    }

    // The request.

    /// The text of the request is kept, before its body.
    pub(super) fn keep_text(&mut self, text: Vec<u8>) {
        self.received = text;
    }

    /// A part of the body has come, perhaps the last, with the lines of the fields behind it: gives how much of it is consumed at once.
    pub(super) fn receive(&mut self, bytes: &[u8], is_end: bool, behind: &[u8]) -> usize {
        self.has_ended |= is_end;
        self.has_news = true;
        match self.form {
            BodyForm::Discarded => {
                self.discarded += bytes.len() as u64;
                return bytes.len();
            }
            BodyForm::Plain => self.received.extend_from_slice(bytes),
            BodyForm::Chunked => {
                if !bytes.is_empty() {
                    self.receive_in_chunk(bytes);
                }
                if is_end {
                    self.received.extend_from_slice(b"0\r\n");
                    self.received.extend_from_slice(behind);
                    self.received.extend_from_slice(b"\r\n");
                }
            }
        }
        self.uncredited += bytes.len();
        0
    }

    /// Puts a part of the body behind the last one, in one chunk: a client may send each byte by itself.
    fn receive_in_chunk(&mut self, bytes: &[u8]) {
        let (at, before) = self.last_chunk.unwrap_or((self.received.len(), 0));
        let len = before + bytes.len();
        self.last_chunk = Some((at, len));
        // As long for each length, so that it can be written over.
        let line = format!("{len:06x}\r\n");
        if before > 0 {
            self.received.truncate(self.received.len() - b"\r\n".len());
            self.received[at..][..line.len()].copy_from_slice(line.as_bytes());
        } else {
            self.received.extend_from_slice(line.as_bytes());
        }
        self.received.extend_from_slice(bytes);
        self.received.extend_from_slice(b"\r\n");
    }

    /// Its response has waited for long enough: the body has come, or is longer than is waited for.
    pub(super) fn is_due(&self) -> bool {
        self.held_since().is_some() && (self.has_ended || self.discarded > BODY_SKIP_LEN_MAX)
    }

    /// When its response was there, if that waits.
    pub(super) fn held_since(&self) -> Option<Instant> {
        match &self.owner {
            Owner::Held(held) => Some(held.since),
            Owner::Nobody | Owner::Start(_) | Owner::Exchange(_) => None,
        }
    }

    pub(super) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Bytes of the body that are not consumed, for which others of its connection have no room.
    pub(super) fn held_from_others(&self) -> usize {
        match self.is_tunnel {
            true => 0,
            false => self.uncredited,
        }
    }

    /// Takes this many of what was received, from the beginning: gives how many the client is to hear of.
    pub(super) fn consume(&mut self, count: usize) -> usize {
        self.received.drain(..count.min(self.received.len()));
        let last_chunk = self.last_chunk.take();
        self.last_chunk = last_chunk.and_then(|(at, len)| Some((at.checked_sub(count)?, len)));
        // The body is behind the text of the head.
        let left = self.received.len().min(self.uncredited);
        let credit = self.uncredited - left;
        self.uncredited = left;
        if self.received.is_empty() {
            self.received = Vec::new();
        }
        credit
    }

    /// Throws away what has come, and what comes: gives how much the client is to hear of.
    pub(super) fn discard(&mut self) -> usize {
        self.form = BodyForm::Discarded;
        (self.received, self.last_chunk) = (Vec::new(), None);
        std::mem::take(&mut self.uncredited)
    }

    // The response.

    pub(super) fn push(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.queue_len += slice.len();
            self.queue.push_back(slice);
        }
    }

    pub(super) fn queue_len(&self) -> usize {
        self.queue_len
    }

    /// The next slice of what is queued, of at most `len` bytes.
    pub(super) fn pop(&mut self, len: usize) -> Option<Slice> {
        let first = self.queue.front_mut()?;
        let slice = match first.len() > len {
            true => {
                let part = first.sub(0..len);
                *first = first.sub(len..first.len());
                part
            }
            false => self.queue.pop_front()?,
        };
        self.queue_len -= slice.len();
        Some(slice)
    }

    /// It is over before its end; gives the exchange that is to end with it.
    pub(super) fn close(self, shared: &mut Shared) -> Option<ConnectionId> {
        match self.owner {
            Owner::Exchange(id) => return Some(id),
            Owner::Start(Start::Tail(tail, _, mut lines)) => {
                shared.streams.put_away(tail.file);
                if let Some(log) = shared.server.log_mut() {
                    log.ended(&mut lines);
                }
            }
            Owner::Start(Start::Waits(_) | Start::Asks(_)) => {}
            Owner::Nobody | Owner::Held(_) => {
                let left = self.unacknowledged + self.queue_len;
                let mut lines = self.lines;
                if let Some(log) = shared.server.log_mut() {
                    if matches!(self.owner, Owner::Nobody) {
                        log.acknowledged(&mut lines, left);
                    }
                    log.ended(&mut lines);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use exos_buf::Buffer;

    use super::*;

    #[test]
    fn a_body_is_credited_when_it_was_consumed() {
        let mut stream = Stream::new(1, Owner::Nobody);
        stream.form = BodyForm::Plain;
        stream.keep_text(b"head".to_vec());
        assert_eq!(stream.receive(b"12345", false, b""), 0);
        assert_eq!(stream.consume(3), 0, "of the head");
        assert_eq!(stream.consume(3), 2);
        assert_eq!(
            (stream.received(), stream.held_from_others()),
            (&b"345"[..], 3)
        );
        assert_eq!(stream.discard(), 3);
        assert_eq!(stream.receive(b"67", true, b""), 2);
        assert!(stream.has_ended);
    }

    #[test]
    fn a_body_without_a_length_is_in_chunks() {
        let mut stream = Stream::new(1, Owner::Nobody);
        stream.form = BodyForm::Chunked;
        for part in [&b"0123456789abcdef"[..], b"", b"x"] {
            stream.receive(part, part == b"x", b"");
        }
        let wanted = b"000011\r\n0123456789abcdefx\r\n0\r\n\r\n";
        assert_eq!(stream.received(), wanted);
        assert_eq!(stream.consume(wanted.len()), 17);
        let mut stream = Stream::new(1, Owner::Nobody);
        stream.form = BodyForm::Chunked;
        stream.receive(b"x", false, b"");
        stream.receive(b"", true, b"a: b\r\n");
        assert_eq!(stream.received(), b"000001\r\nx\r\n0\r\na: b\r\n\r\n");
    }

    /// Bodies that come byte by byte take what they are long, and a chunk of which something is consumed does not grow.
    #[test]
    fn bytes_that_come_alone_are_joined() {
        let mut stream = Stream::new(1, Owner::Nobody);
        stream.form = BodyForm::Chunked;
        stream.keep_text(b"head".to_vec());
        for byte in 0..=u8::MAX {
            stream.receive(&[byte], false, b"");
        }
        assert_eq!(stream.received().len(), 4 + 8 + 256 + 2);
        stream.consume(4);
        stream.receive(b"more", false, b"");
        assert!(stream.received().starts_with(b"000104\r\n\x00\x01"));
        stream.consume(1);
        stream.receive(b"x", true, b"");
        let end = b"more\r\n000001\r\nx\r\n0\r\n\r\n";
        assert!(stream.received().ends_with(end));
    }

    #[test]
    fn slices_leave_in_parts() {
        let mut stream = Stream::new(1, Owner::Nobody);
        stream.push(Buffer::from(&b"abcdef"[..]).whole());
        stream.push(Buffer::from(&b""[..]).whole());
        stream.push(Buffer::from(&b"gh"[..]).whole());
        let mut out = Vec::new();
        for len in [4, 4, 4] {
            out.push(stream.pop(len).map(|slice| slice.as_bytes().to_vec()));
        }
        assert_eq!(
            out,
            [
                Some(b"abcd".to_vec()),
                Some(b"ef".to_vec()),
                Some(b"gh".to_vec())
            ]
        );
        assert_eq!(stream.queue_len(), 0);
    }
}
