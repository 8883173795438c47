//! A connection of HTTP/2 as its client sees it.
//!
//! A request is asked where there is [room](Multiplexed::room); [`take`](Connection::take) gives what has come, frame by frame, and
//! [`poll_out`](Connection::poll_out) what leaves, which the caller sends at the end of its turn, so that the frames of many
//! streams leave together.

use exos_buf::Slice;
use exos_http2::frame::setting;
use exos_http2::frame::{self, PREFACE, flag, kind, push_head};
use exos_http2::limits;
use exos_http2::{ErrorCode, StreamId};

use super::answer::Answers;
use super::peer::Peer;
use super::reading::Reading;
use super::sending::{Out, Sent, send_body};
use super::stream::{Stream, Streams};
use crate::limits::{STREAM_NUMBER_MAX, WINDOW};
use crate::multiplexed::Multiplexed;
use crate::request::Request;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) out: Out,
    pub(super) peer: Peer,
    pub(super) streams: Streams,
    /// The number of the next stream.
    pub(super) next: StreamId,
    /// Bodies that are not sent whole.
    pub(super) uploads: u32,
    /// How much of bodies may be sent on all streams together.
    pub(super) window: i64,
    /// Bytes of bodies that were sent, and whose room the server has not given back: on the connection, and on its streams together.
    pub(super) unreturned: [u64; 2],
    /// Bytes of content that have come and whose room was not given back.
    pub(super) owed: u32,
    pub(super) reading: Reading,
    pub(super) answers: Answers,
    /// Frames in a row that brought nothing of a response, nor room for what was sent.
    pub(super) idle_frames: u32,
    /// The server takes no more streams.
    pub(super) is_going_away: bool,
    /// What the first request has entered into the server's table of fields.
    common: Option<Box<[u8]>>,
    /// The server was told that its table is not used.
    is_table_given_up: bool,
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}

impl Connection {
    /// One that stands: what a client says first is to leave.
    pub fn new() -> Self {
        let mut out = Out::default();
        out.bytes.extend_from_slice(PREFACE);
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, WINDOW),
        ];
        frame::push_settings(&mut out.bytes, &settings);
        frame::push_window_update(&mut out.bytes, 0, WINDOW - limits::DEFAULT_WINDOW);
        Self {
            out,
            peer: Peer::default(),
            streams: Streams::default(),
            next: 1,
            uploads: 0,
            window: limits::DEFAULT_WINDOW.into(),
            unreturned: [0; 2],
            owed: 0,
            reading: Reading::Start,
            answers: Answers::default(),
            idle_frames: 0,
            is_going_away: false,
            common: None,
            is_table_given_up: false,
        }
    }

    // Commands.

    /// The frames of a request's head (RFC 9113 §6.2).
    fn head(&mut self, id: StreamId, request: &Request, is_all: bool) {
        let block = request.block().expect("it was made for HTTP/2");
        let mut resized: &[u8] = &[];
        let bytes = if !self.peer.has_table {
            if !self.is_table_given_up {
                // A table of no bytes, which is never larger than the server's (RFC 7541 §4.2, §6.3).
                resized = &[0x20];
                self.is_table_given_up = true;
                self.common = Some(Box::default());
            }
            block.plain()
        } else if let Some(common) = &self.common {
            match **common == *block.common() {
                true => block.later(),
                false => block.plain(),
            }
        } else {
            self.common = Some(block.common().into());
            block.first()
        };
        let len = resized.len() + bytes.len();
        if len <= self.peer.frame_len {
            let flags = flag::END_HEADERS | (u8::from(is_all) * flag::END_STREAM);
            push_head(&mut self.out.bytes, len, kind::HEADERS, flags, id);
            self.out.bytes.extend_from_slice(resized);
            self.out.bytes.extend_from_slice(bytes);
        } else {
            let most = self.peer.frame_len;
            frame::push_headers(&mut self.out.bytes, id, &[resized, bytes], is_all, most);
        }
    }

    /// Sends of the bodies of requests what the windows allow, oldest first.
    pub(super) fn send_bodies(&mut self) {
        if self.uploads == 0 {
            return;
        }
        let frame_len = self.peer.frame_len;
        for stream in self.streams.iter_mut() {
            let before = self.window;
            let sent = send_body(stream, &mut self.window, frame_len, &mut self.out);
            for unreturned in &mut self.unreturned {
                *unreturned += (before - self.window) as u64;
            }
            self.uploads -= u32::from(sent == Sent::All);
        }
    }

    /// A stream is over.
    pub(super) fn forget(&mut self, id: StreamId) -> Option<Stream> {
        let stream = self.streams.remove(id)?;
        self.uploads -= u32::from(stream.upload.is_some());
        Some(stream)
    }

    /// Says goodbye, for this reason.
    pub fn go_away(&mut self, code: ErrorCode) {
        // The server opens no streams, so the last of its streams is none.
        frame::push_go_away(&mut self.out.bytes, 0, code, &[]);
    }

    // What leaves.

    /// What is to leave, in order.
    pub fn poll_out(&mut self) -> impl Iterator<Item = Slice> {
        self.out.take()
    }
}

impl Multiplexed for Connection {
    fn streams(&self) -> usize {
        self.streams.len()
    }

    fn room(&mut self, most: u32) -> usize {
        if self.is_used_up() {
            return 0;
        }
        let most = most.min(self.peer.streams) as usize;
        most.saturating_sub(self.streams.len())
    }

    fn allowed(&self) -> Option<u32> {
        self.peer.is_known.then_some(self.peer.streams)
    }

    fn is_used_up(&self) -> bool {
        self.is_going_away || self.next > STREAM_NUMBER_MAX
    }

    fn ask(&mut self, slot: u32, request: &Request) {
        let id = self.next;
        self.next += 2;
        let body = request.body().filter(|body| !body.is_empty());
        self.head(id, request, body.is_none());
        self.streams.push(Stream {
            id,
            slot,
            has_head: false,
            is_head: request.is_head(),
            length: None,
            came: 0,
            owed: 0,
            window: self.peer.window.into(),
            upload: body.cloned(),
        });
        if body.is_some() {
            self.uploads += 1;
            self.send_bodies();
        }
    }

    fn cancel(&mut self, slot: u32) {
        if let Some(id) = self.streams.of_slot(slot) {
            self.forget(id);
            frame::push_reset(&mut self.out.bytes, id, ErrorCode::CANCEL);
        }
    }

    fn take_slots(&mut self) -> Vec<u32> {
        self.uploads = 0;
        let streams = std::mem::take(&mut self.streams);
        streams.iter().map(|stream| stream.slot).collect()
    }
}
