//! Frames that come on a connection, one after another (RFC 9113 §5, §6).

use exos_http2::frame::{self, FrameHead, flag, kind};
use exos_http2::limits;
use exos_http2::{ErrorCode, Fault, StreamId};

use super::connection::Connection;
use super::reading::{Data, FRAME_HEAD_LEN, Reading};
use crate::limits::{IDLE_FRAMES_MAX, WINDOW};
use crate::multiplexed::{Loss, News, Part};

/// A response has come further.
fn brings_something(news: &News<'_>) -> bool {
    match news {
        News::Part(part) => part.is_end || part.status.is_some() || !part.content.is_empty(),
        News::Nothing | News::Lost { .. } | News::GoingAway { .. } => false,
    }
}

impl Connection {
    /// Takes a frame, or what has come of one with data: how many bytes it takes, and what they say. `None` when more has to
    /// come first.
    ///
    /// # Errors
    ///
    /// The server does what no server may. The connection is of no use any more.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(usize, News<'a>)>, Fault> {
        if let Reading::Data(data) = self.reading {
            if bytes.is_empty() {
                return Ok(None);
            }
            let (taken, news) = self.take_data(data, bytes, 0);
            if brings_something(&news) {
                self.idle_frames = 0;
            }
            return Ok(Some((taken, news)));
        }
        let Some(head) = FrameHead::parse(bytes) else {
            return Ok(None);
        };
        self.check_order(&head)?;
        if head.kind == kind::DATA {
            return self.begin_data(&head, bytes);
        }
        let Some(payload) = bytes[FRAME_HEAD_LEN..].get(..head.len) else {
            return Ok(None);
        };
        self.reading = match std::mem::replace(&mut self.reading, Reading::Frame) {
            block @ Reading::Block(_) => block,
            Reading::Start | Reading::Frame | Reading::Data(_) => Reading::Frame,
        };
        let news = self.take_frame(&head, payload)?;
        self.count_idle(&news)?;
        Ok(Some((FRAME_HEAD_LEN + head.len, news)))
    }

    /// A frame may come now (§3.4, §4.2, §6.10).
    fn check_order(&self, head: &FrameHead) -> Result<(), Fault> {
        match &self.reading {
            Reading::Start if head.kind != kind::SETTINGS || head.has(flag::ACK) => {
                Err(Fault::Preface)
            }
            _ if head.len > limits::FRAME_LEN_MAX => Err(Fault::FrameLength),
            Reading::Block(block) if head.kind != kind::CONTINUATION || head.stream != block.id => {
                Err(Fault::HeadersOrder)
            }
            _ => Ok(()),
        }
    }

    fn take_frame(&mut self, head: &FrameHead, payload: &[u8]) -> Result<News<'static>, Fault> {
        match head.kind {
            kind::HEADERS => self.headers(head, payload),
            kind::CONTINUATION => self.continuation(head, payload),
            kind::RST_STREAM => self.reset(head, payload),
            kind::SETTINGS => self.settings(head, payload),
            // We have said that we want none (§6.6).
            kind::PUSH_PROMISE => Err(Fault::Push),
            kind::PING => self.ping(head, payload),
            kind::GOAWAY => self.going_away(head, payload),
            kind::WINDOW_UPDATE => self.window_update(head, payload),
            // Priorities of ours are no server's to say; what is not known means nothing (§5.5).
            _ => Ok(News::Nothing),
        }
    }

    /// A server that keeps us busy with what brings nothing is left.
    fn count_idle(&mut self, news: &News<'_>) -> Result<(), Fault> {
        if brings_something(news) {
            self.idle_frames = 0;
        } else {
            self.idle_frames += 1;
        }
        if self.idle_frames > IDLE_FRAMES_MAX {
            return Err(Fault::EmptyFlood);
        }
        Ok(())
    }

    /// A stream that we have opened, which may be over.
    pub(super) fn check_opened(&self, id: StreamId) -> Result<(), Fault> {
        match id {
            0 => Err(Fault::StreamNumber),
            // Servers open streams of even numbers, and these may not (§5.1.1).
            id if id % 2 == 0 || id >= self.next => Err(Fault::IdleStream),
            _ => Ok(()),
        }
    }

    // Data (§6.1).

    fn begin_data<'a>(
        &mut self,
        head: &FrameHead,
        bytes: &'a [u8],
    ) -> Result<Option<(usize, News<'a>)>, Fault> {
        self.check_opened(head.stream)?;
        let (before, padding) = if head.has(flag::PADDED) {
            let Some(&padding) = bytes.get(FRAME_HEAD_LEN) else {
                return Ok(None);
            };
            (1, usize::from(padding))
        } else {
            (0, 0)
        };
        let content = head.len.checked_sub(before + padding);
        let content = content.ok_or(Fault::Padding)?;
        let is_end = head.has(flag::END_STREAM);
        self.owe(head.stream, head.len as u32, is_end)?;
        let data = Data {
            id: head.stream,
            content,
            padding,
            is_end,
        };
        let begun = FRAME_HEAD_LEN + before;
        let (taken, news) = self.take_data(data, &bytes[begun..], begun as u64);
        let news = match self.streams.get(head.stream) {
            Some(stream) if !stream.has_head => self.spoil(head.stream),
            _ => news,
        };
        self.count_idle(&news)?;
        Ok(Some((begun + taken, news)))
    }

    /// Content and padding that have come.
    fn take_data<'a>(&mut self, data: Data, bytes: &'a [u8], begun: u64) -> (usize, News<'a>) {
        let content = &bytes[..data.content.min(bytes.len())];
        let padding = data.padding.min(bytes.len() - content.len());
        let left = Data {
            content: data.content - content.len(),
            padding: data.padding - padding,
            ..data
        };
        let is_over = left.content + left.padding == 0;
        self.reading = if is_over {
            Reading::Frame
        } else {
            Reading::Data(left)
        };
        let taken = content.len() + padding;
        let Some(stream) = self.streams.get(data.id) else {
            return (taken, News::Nothing);
        };
        stream.came += content.len() as u64;
        let part = Part {
            slot: stream.slot,
            status: None,
            framing: begun + padding as u64,
            content,
            is_end: is_over && data.is_end,
        };
        (taken, self.part(data.id, part))
    }

    /// Data takes room of the windows; what is half used up is given back, for nothing is kept here.
    fn owe(&mut self, id: StreamId, len: u32, is_end: bool) -> Result<(), Fault> {
        self.owed += len;
        if self.owed >= WINDOW / 2 {
            frame::push_window_update(&mut self.out.bytes, 0, self.owed);
            self.owed = 0;
        }
        let Some(stream) = self.streams.get(id) else {
            return Ok(());
        };
        stream.owed += len;
        if stream.owed >= WINDOW / 2 && !is_end {
            frame::push_window_update(&mut self.out.bytes, id, stream.owed);
            stream.owed = 0;
        }
        Ok(())
    }

    /// A part of a response, which may be its last.
    pub(super) fn part<'a>(&mut self, id: StreamId, part: Part<'a>) -> News<'a> {
        if !part.is_end {
            return News::Part(part);
        }
        match self.streams.get(id) {
            Some(stream) if stream.has_head && stream.is_whole() => {
                if stream.upload.is_some() {
                    // It has answered without the rest of the body (§8.1).
                    frame::push_reset(&mut self.out.bytes, id, ErrorCode::CANCEL);
                }
                self.forget(id);
                News::Part(part)
            }
            _ => self.spoil(id),
        }
    }

    /// What came on a stream is no response (§8.1.1).
    pub(super) fn spoil(&mut self, id: StreamId) -> News<'static> {
        match self.forget(id) {
            None => News::Nothing,
            Some(stream) => {
                frame::push_reset(&mut self.out.bytes, id, ErrorCode::PROTOCOL_ERROR);
                News::Lost {
                    slot: stream.slot,
                    why: Loss::Malformed,
                }
            }
        }
    }
}
