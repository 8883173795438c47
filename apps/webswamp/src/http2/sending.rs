//! What is to leave on a connection: frames put together into few pieces, and bodies by reference.

use std::vec::Drain;

use exos_buf::{Recycled, Slice};
use exos_http2::frame::{flag, kind, push_head};

use super::stream::Stream;

/// Content up to this length is copied beside its frame's head, which costs less than a piece of its own.
const COPIED_LEN_MAX: usize = 2048;

/// What is to leave, in order.
#[derive(Debug, Default)]
pub(super) struct Out {
    /// The last of it.
    pub(super) bytes: Vec<u8>,
    before: Vec<Slice>,
    buffers: Recycled,
}

impl Out {
    fn content(&mut self, content: Slice) {
        if content.len() <= COPIED_LEN_MAX {
            return self.bytes.extend_from_slice(content.as_bytes());
        }
        self.seal();
        self.before.push(content);
    }

    fn seal(&mut self) {
        if !self.bytes.is_empty() {
            self.before.push(self.buffers.slice(&self.bytes));
            self.bytes.clear();
        }
    }

    /// All of it.
    pub(super) fn take(&mut self) -> Drain<'_, Slice> {
        self.seal();
        self.before.drain(..)
    }
}

/// What was sent of a body.
#[derive(PartialEq)]
pub(super) enum Sent {
    /// There is no body, or a part of it is left.
    Some,
    /// Its last byte.
    All,
}

/// Sends of a request's body what the windows, of the connection and its own, allow.
pub(super) fn send_body(
    stream: &mut Stream,
    window: &mut i64,
    frame_len: usize,
    out: &mut Out,
) -> Sent {
    while let Some(body) = &mut stream.upload {
        let room = (*window).min(stream.window).max(0) as usize;
        let len = body.len().min(room).min(frame_len);
        if len == 0 {
            return Sent::Some;
        }
        let is_last = len == body.len();
        let flags = u8::from(is_last) * flag::END_STREAM;
        push_head(&mut out.bytes, len, kind::DATA, flags, stream.id);
        out.content(body.sub(0..len));
        *body = body.sub(len..body.len());
        *window -= len as i64;
        stream.window -= len as i64;
        if is_last {
            stream.upload = None;
            return Sent::All;
        }
    }
    Sent::Some
}
