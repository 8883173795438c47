//! Heads of responses, and trailers: header blocks in one frame or several (RFC 9113 §6.2, §6.10, §8.1).

use exos_http2::frame::{FrameHead, flag, payload};
use exos_http2::{Fault, StreamId};

use super::connection::Connection;
use super::reading::{FRAME_HEAD_LEN, Reading, Unfinished};
use crate::limits::HEAD_LEN_MAX;
use crate::multiplexed::{News, Part};

impl Connection {
    pub(super) fn headers(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
    ) -> Result<News<'static>, Fault> {
        self.check_opened(head.stream)?;
        let (block, _) = payload::headers(head, payload)?;
        let is_end = head.has(flag::END_STREAM);
        let framing = (FRAME_HEAD_LEN + head.len) as u64;
        if head.has(flag::END_HEADERS) {
            return self.fields(head.stream, block, framing, is_end);
        }
        self.reading = Reading::Block(Unfinished {
            id: head.stream,
            is_end,
            framing,
            bytes: block.to_vec(),
        });
        Ok(News::Nothing)
    }

    pub(super) fn continuation(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
    ) -> Result<News<'static>, Fault> {
        let Reading::Block(mut block) = std::mem::replace(&mut self.reading, Reading::Frame) else {
            return Err(Fault::HeadersOrder);
        };
        if block.bytes.len() + payload.len() > HEAD_LEN_MAX {
            return Err(Fault::HeaderBlockTooLong);
        }
        block.bytes.extend_from_slice(payload);
        block.framing += (FRAME_HEAD_LEN + head.len) as u64;
        if head.has(flag::END_HEADERS) {
            return self.fields(block.id, &block.bytes, block.framing, block.is_end);
        }
        self.reading = Reading::Block(block);
        Ok(News::Nothing)
    }

    /// A whole header block. That of a stream that is over has to be read too: it may change the table.
    fn fields(
        &mut self,
        id: StreamId,
        block: &[u8],
        framing: u64,
        is_end: bool,
    ) -> Result<News<'static>, Fault> {
        let answer = self.answers.read(block)?;
        let Some(stream) = self.streams.get(id) else {
            return Ok(News::Nothing);
        };
        let mut part = Part {
            slot: stream.slot,
            status: None,
            framing,
            content: &[],
            is_end,
        };
        match (answer.status, stream.has_head) {
            _ if answer.is_wrong => return Ok(self.spoil(id)),
            // Behind the content come trailers, and nothing behind these (§8.1).
            (None, true) if is_end => (),
            // An interim response is no end (§8.1).
            (Some(100..200), false) if !is_end => (),
            (Some(status @ 200..), false) => {
                stream.has_head = true;
                stream.is_head |= matches!(status, 204 | 304);
                stream.length = answer.length;
                part.status = Some(status);
            }
            _ => return Ok(self.spoil(id)),
        }
        Ok(self.part(id, part))
    }
}
