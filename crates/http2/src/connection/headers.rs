//! Header blocks that come: in one frame or several, decoded, and what they begin or end (RFC 9113 §6.2, §6.10, §8.1).

use super::streams::{ReceiveWindow, Stream};
use super::{Block, Connection, Event, Going};
use crate::error::Fault;
use crate::frame::{FrameHead, StreamId, flag, payload};
use crate::hpack::HpackError;
use crate::limits::{
    CONTINUATIONS_MAX, EMPTY_FRAMES, HEADER_BLOCK_LEN_MAX, KEPT_FIELDS_LEN, PRIORITIES,
    STREAM_WINDOW, STREAMS_MAX,
};
use crate::message::{self, Layout, RequestHead};
use crate::priority::Priority;
use crate::state::{State, StreamEvent};

/// What a block that cannot be decoded says of its peer.
fn fault_of(error: HpackError) -> Fault {
    match error {
        HpackError::Bomb => Fault::HeaderBomb,
        _ => Fault::Compression,
    }
}

/// The last header block of a request, and what it said.
#[derive(Debug, Default)]
pub(super) struct Memo {
    block: Vec<u8>,
    /// How often the table had changed.
    changes: u64,
    layout: Option<Layout>,
}

impl Connection {
    /// HEADERS have come.
    pub(super) fn handle_headers<'a>(
        &'a mut self,
        head: &FrameHead,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        let id = head.stream;
        // Clients open streams of odd numbers (§5.1.1).
        if id.is_multiple_of(2) {
            return Err(Fault::StreamNumber);
        }
        if id <= self.streams.last && self.streams.get(id).is_none() && !self.streams.was_reset(id)
        {
            return Err(match self.streams.may_be_skipped() {
                true => Fault::StreamNumber,
                false => Fault::ClosedStream,
            });
        }
        let (block, depends_on) = payload::headers(head, bytes)?;
        let is_end = head.has(flag::END_STREAM);
        let is_wrong = depends_on == Some(id);
        if head.has(flag::END_HEADERS) {
            return self.handle_block(id, block, is_end, is_wrong, out);
        }
        self.block = Some(Box::new(Block {
            stream: id,
            is_end,
            is_wrong,
            frames: 0,
            bytes: block.to_vec(),
        }));
        Ok(None)
    }

    /// CONTINUATION has come.
    pub(super) fn handle_continuation<'a>(
        &'a mut self,
        head: &FrameHead,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        let mut block = self.block.take().filter(|it| it.stream == head.stream);
        let block = block.as_mut().ok_or(Fault::HeadersOrder)?;
        if block.bytes.len() + bytes.len() > HEADER_BLOCK_LEN_MAX {
            return Err(Fault::HeaderBlockTooLong);
        }
        block.frames += 1;
        let is_useless = bytes.is_empty() && !self.allowances.empty.take(EMPTY_FRAMES, self.now);
        if block.frames > CONTINUATIONS_MAX || is_useless {
            return Err(Fault::ContinuationFlood);
        }
        block.bytes.extend_from_slice(bytes);
        if head.has(flag::END_HEADERS) {
            let block = std::mem::take(&mut **block);
            return self.handle_block(
                block.stream,
                &block.bytes,
                block.is_end,
                block.is_wrong,
                out,
            );
        }
        self.block = Some(Box::new(std::mem::take(&mut **block)));
        Ok(None)
    }

    /// A whole header block.
    fn handle_block<'a>(
        &'a mut self,
        id: StreamId,
        block: &[u8],
        is_end: bool,
        is_wrong: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        if self.streams.get(id).is_some() {
            return self.handle_trailers(id, block, is_end, out);
        }
        let layout = self.decode(block)?;
        if id <= self.streams.last {
            // We have reset it: they were under way.
            if is_end {
                self.streams.forget_reset(id);
            }
            return self.allow_useless().map(|()| None);
        }
        self.streams.use_number(id);
        if let Going::Gone(last) = self.going
            && id > last
        {
            // Nobody sees to it (§6.8).
            self.streams.note_reset(id);
            return self.allow_useless().map(|()| None);
        }
        let fault = if self.streams.count() >= STREAMS_MAX as usize {
            Some(Fault::TooManyStreams)
        } else if is_wrong {
            Some(Fault::SelfDependency)
        } else {
            match layout {
                Some(Layout {
                    length: Some(1..), ..
                }) if is_end => Some(Fault::ContentLength),
                None if !self.fields.is_too_long() => Some(Fault::Malformed),
                _ => None,
            }
        };
        if let Some(fault) = fault {
            return self.fail_stream(id, fault, out).map(Some);
        }
        Ok(Some(self.open(id, is_end, layout)))
    }

    /// A request begins.
    fn open(&mut self, id: StreamId, is_end: bool, layout: Option<Layout>) -> Event<'_> {
        // Some clients send a frame of a type that means nothing beside each, so that servers stay used to that (§5.5).
        self.allowances.empty.give(EMPTY_FRAMES);
        let early = self.streams.take_early(id);
        let priority = early.or(layout.and_then(|layout| layout.priority));
        self.says_priorities |= priority.is_some();
        self.streams.add(Stream {
            id,
            state: match is_end {
                true => State::HalfClosedRemote,
                false => State::Open,
            },
            send_window: self.peer.window as i32,
            receive_window: ReceiveWindow::new(STREAM_WINDOW),
            length_left: layout.and_then(|layout| layout.length),
            is_tunnel: layout.is_some_and(|layout| layout.is_tunnel()),
            surplus: 0,
            priority: priority.unwrap_or(Priority {
                // Of who says nothing, all share (RFC 9218 §10).
                is_incremental: !self.says_priorities,
                ..Priority::default()
            }),
        });
        match layout {
            Some(layout) => Event::Request {
                stream: id,
                head: RequestHead::new(&self.fields, layout),
                is_end,
            },
            None => Event::FieldsTooLong { stream: id },
        }
    }

    /// What is behind a body: it ends the stream. A tunnel has none (RFC 9113 §8.5).
    fn handle_trailers<'a>(
        &'a mut self,
        id: StreamId,
        block: &[u8],
        is_end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        self.memo.layout = None;
        self.fields.clear();
        let fields = &mut self.fields;
        let decoded = self
            .decoder
            .decode(block, |name, value| fields.push(name, value));
        decoded.map_err(fault_of)?;
        let event = match is_end {
            true => StreamEvent::ReceiveLastHeaders,
            false => StreamEvent::ReceiveHeaders,
        };
        let is_sound = message::trailers(&self.fields).is_ok();
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        let fault = match stream.state.on(event) {
            Err(fault) => fault,
            Ok(_) if !is_sound || stream.is_tunnel => Fault::Malformed,
            Ok(_) if stream.length_left.is_some_and(|left| left > 0) => Fault::ContentLength,
            Ok(state) => {
                self.change_state(id, state);
                return Ok(Some(Event::Trailers {
                    stream: id,
                    fields: &self.fields,
                }));
            }
        };
        self.fail_stream(id, fault, out).map(Some)
    }

    /// Decodes the block of a request: its layout, or nothing where it breaks the rules or is too long. One that is the same as the
    /// last is not decoded again, while the table is the same.
    fn decode(&mut self, block: &[u8]) -> Result<Option<Layout>, Fault> {
        let before = self.decoder.changes();
        if let Some(layout) = self.memo.layout
            && self.memo.changes == before
            && self.memo.block == block
        {
            return Ok(Some(layout));
        }
        self.memo.layout = None;
        self.fields.clear();
        let fields = &mut self.fields;
        let decoded = self
            .decoder
            .decode(block, |name, value| fields.push(name, value));
        decoded.map_err(fault_of)?;
        if self.fields.is_too_long() {
            return Ok(None);
        }
        let layout = message::request(&self.fields).ok();
        if self.decoder.changes() == before && block.len() <= KEPT_FIELDS_LEN {
            self.memo.layout = layout;
            self.memo.changes = before;
            self.memo.block.clear();
            self.memo.block.extend_from_slice(block);
        }
        Ok(layout)
    }

    /// Gives back memory that long fields took, when nothing is under way.
    pub fn shrink(&mut self) {
        self.fields.shrink(KEPT_FIELDS_LEN);
        self.decoder.shrink(KEPT_FIELDS_LEN);
        self.encoder.shrink(KEPT_FIELDS_LEN);
        if self.fields.count() == 0 || self.memo.block.capacity() > KEPT_FIELDS_LEN {
            self.memo = Memo::default();
        }
    }

    // Priorities.

    /// PRIORITY has come: it means nothing any more (§5.3), but has to be sound.
    pub(super) fn handle_priority(&mut self, head: &FrameHead, bytes: &[u8]) -> Result<(), Fault> {
        if head.stream == 0 {
            return Err(Fault::StreamNumber);
        }
        if payload::priority(bytes)? == head.stream {
            return Err(Fault::SelfDependency);
        }
        self.allow_priority()
    }

    /// PRIORITY_UPDATE has come (RFC 9218 §7.1); gives the stream, if that is open.
    pub(super) fn handle_priority_update<'a>(
        &mut self,
        head: &FrameHead,
        bytes: &[u8],
    ) -> Result<Option<Event<'a>>, Fault> {
        let (id, value) = payload::priority_update(bytes)?;
        if head.stream != 0 || id == 0 {
            return Err(Fault::StreamNumber);
        }
        self.allow_priority()?;
        let priority = Priority::parse(value);
        self.says_priorities = true;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.priority = priority;
            return Ok(Some(Event::Priority {
                stream: id,
                priority,
            }));
        }
        if id > self.streams.last && !id.is_multiple_of(2) {
            self.streams.note_early(id, priority);
        }
        Ok(None)
    }

    fn allow_priority(&mut self) -> Result<(), Fault> {
        match self.allowances.priority.take(PRIORITIES, self.now) {
            true => Ok(()),
            false => Err(Fault::PriorityFlood),
        }
    }
}
