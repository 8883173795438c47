//! Responses out: heads at once, bodies as windows and priorities let them, all of a turn together.

use std::mem::take;

use exos_buf::{Buffer, Slice};
use exos_http2::limits::FRAME_LEN_MAX;
use exos_http2::{ErrorCode, StreamId};
use exos_inet::{Duration, Instant};

use super::stream::{Owner, Stream};
use super::{Finished, Flight, Http2};
use crate::limits::{JOINED_LEN_MAX, PROGRESS_LEN};
use crate::log::Unfinished;

impl Http2 {
    /// Where what is put together now ends among all that the connection is given.
    fn position(&self) -> u64 {
        self.given + self.pending_len() as u64
    }

    /// Bytes that are put together and not handed on.
    pub(super) fn pending_len(&self) -> usize {
        self.slices_len + self.frames.len()
    }

    /// A response that is whole: sent at once where it may be, else queued.
    #[inline]
    pub(super) fn send_whole(
        &mut self,
        stream: StreamId,
        response: &mut Vec<Slice>,
        lines: Unfinished,
        now: Instant,
    ) {
        let mut slices = response.drain(..);
        let block = [slices.next(), slices.next()];
        let block: [&[u8]; 2] = block
            .each_ref()
            .map(|part| part.as_ref().map_or(&[][..], Slice::as_bytes));
        let len: usize = slices.as_slice().iter().map(Slice::len).sum();
        let block_len = self
            .core
            .send_head(stream, &block, len == 0, &mut self.frames);
        self.progressed = now;
        let may_leave =
            self.schedule.is_empty() && len <= FRAME_LEN_MAX.min(self.core.room(stream));
        if len > 0 && !may_leave {
            let mut waiting = Stream::new(stream, Owner::Nobody);
            slices.for_each(|slice| waiting.push(slice));
            (waiting.is_last, waiting.lines, waiting.head_len) = (true, lines, block_len);
            waiting.has_head = true;
            self.add(waiting);
            self.schedule.insert(stream, self.core.priority(stream));
            return self.note_flight(stream, block_len);
        }
        if len > 0 {
            self.core.begin_data(stream, len, true, &mut self.frames);
            for slice in slices {
                emit(
                    slice,
                    &mut self.frames,
                    &mut self.slices,
                    &mut self.slices_len,
                );
            }
        }
        self.note_line(lines, block_len);
    }

    /// Sends what was held until a body had come; and, where that is said, what has been held for this long.
    pub(super) fn release(&mut self, held_for: Option<Duration>, now: Instant) {
        let is_late = |since| held_for.is_some_and(|time| now - since >= time);
        let is_due = |it: &&Stream| it.is_due() || it.held_since().is_some_and(is_late);
        while let Some(id) = self.streams.iter().find(is_due).map(Stream::id) {
            let Some(stream) = self.remove(id) else {
                return;
            };
            if let Owner::Held(mut held) = stream.owner {
                self.send_whole(id, &mut held.response, stream.lines, now);
            }
        }
    }

    /// Sends what is held, and says that the bodies are not wanted (RFC 9113 §8.1).
    pub(super) fn end_holds(&mut self, now: Instant) {
        let held: Vec<StreamId> = self
            .streams
            .iter()
            .filter(|it| it.held_since().is_some())
            .map(Stream::id)
            .collect();
        self.release(Some(Duration::ZERO), now);
        for id in held {
            if self.find(id).is_none() {
                self.core.reset(id, ErrorCode::NO_ERROR, &mut self.frames);
            }
        }
    }

    /// Since when a response is held, the one that is held for longest.
    pub(super) fn held_since(&self) -> Option<Instant> {
        self.streams.iter().filter_map(Stream::held_since).min()
    }

    /// The header block of a response that an exchange makes: how long it has become.
    pub(super) fn send_head(&mut self, id: StreamId, block: &[Slice], is_end: bool) -> usize {
        let parts: Vec<&[u8]> = block.iter().map(Slice::as_bytes).collect();
        let len = self.core.send_head(id, &parts, is_end, &mut self.frames);
        self.note_flight(id, len);
        len
    }

    /// A response ends here, whose header block was so long.
    fn note_line(&mut self, lines: Unfinished, head_len: usize) {
        self.lines.push(Finished {
            lines,
            head_len,
            end: self.position(),
        });
    }

    fn note_flight(&mut self, id: StreamId, len: usize) {
        let end = self.position();
        if let Some(stream) = self.find(id) {
            stream.unacknowledged += len;
            self.flights.push_back(Flight {
                stream: id,
                len,
                end,
            });
        }
    }

    /// Frames what is queued, the most urgent first, while there is less than `len_max` of it.
    pub(super) fn frame(&mut self, len_max: usize, now: Instant) {
        while self.pending_len() < len_max {
            let Http2 {
                core,
                streams,
                schedule,
                ..
            } = self;
            let connection_room = core.connection_room();
            let next = schedule.next(|id| {
                let at = streams.binary_search_by_key(&id, Stream::id);
                let is_empty = at.is_ok_and(|at| streams[at].queue_len() == 0);
                is_empty || (connection_room > 0 && core.room(id) > 0) || !core.owes(id)
            });
            let Some(id) = next else {
                return;
            };
            let len = self.frame_one(id);
            self.note_progress(len, now);
        }
    }

    /// Frames some of what is queued on a stream.
    fn frame_one(&mut self, id: StreamId) -> usize {
        let Ok(at) = self.streams.binary_search_by_key(&id, Stream::id) else {
            self.schedule.remove(id);
            return 0;
        };
        let stream = &mut self.streams[at];
        let queued = stream.queue_len();
        let is_last = stream.is_last && queued <= FRAME_LEN_MAX;
        let wanted = queued.min(FRAME_LEN_MAX);
        let ends = is_last && stream.trailers.is_none();
        let len = self.core.begin_data(id, wanted, ends, &mut self.frames);
        let mut left = len;
        while left > 0
            && let Some(slice) = stream.pop(left)
        {
            left -= slice.len();
            emit(
                slice,
                &mut self.frames,
                &mut self.slices,
                &mut self.slices_len,
            );
        }
        let is_whole = is_last && len == wanted;
        if stream.queue_len() == 0 || len == 0 {
            self.schedule.remove(id);
        }
        let trailers = stream.trailers.take_if(|_| is_whole);
        self.note_flight(id, len);
        if let Some(block) = trailers {
            self.core.send_head(id, &[&block], true, &mut self.frames);
        }
        if is_whole {
            if matches!(self.streams[at].owner, Owner::Nobody) {
                let stream = self.streams.remove(at);
                self.note_line(stream.lines, stream.head_len);
            }
            return PROGRESS_LEN;
        }
        len
    }

    /// This much of a response goes. A client that opens windows by bytes takes nothing: only some of these together are progress.
    fn note_progress(&mut self, len: usize, now: Instant) {
        self.dripped += len;
        if self.dripped >= PROGRESS_LEN {
            (self.dripped, self.progressed) = (0, now);
        }
    }

    /// What was put together, as slices.
    pub(super) fn take_slices(&mut self) -> Vec<Slice> {
        close(&mut self.frames, &mut self.slices, &mut self.slices_len);
        self.given += self.slices_len as u64;
        self.slices_len = 0;
        take(&mut self.slices)
    }

    /// The connection's client has taken all up to here: marks the streams of which something was.
    pub(super) fn acknowledge(&mut self, position: u64, now: Instant) {
        while let Some(flight) = self.flights.pop_front_if(|flight| flight.end <= position) {
            self.note_progress(flight.len, now);
            if let Some(stream) = self.find(flight.stream) {
                stream.unacknowledged -= flight.len.min(stream.unacknowledged);
                stream.has_taken = true;
            }
        }
    }
}

/// Appends a part of a body: a long one as it is, a short one to the frames around it.
#[inline]
fn emit(slice: Slice, frames: &mut Vec<u8>, slices: &mut Vec<Slice>, slices_len: &mut usize) {
    if slice.len() <= JOINED_LEN_MAX {
        return slice.append_to(frames);
    }
    close(frames, slices, slices_len);
    *slices_len += slice.len();
    slices.push(slice);
}

/// Makes a slice of the frames that were put together.
fn close(frames: &mut Vec<u8>, slices: &mut Vec<Slice>, slices_len: &mut usize) {
    if !frames.is_empty() {
        *slices_len += frames.len();
        slices.push(Buffer::sent_once(frames.to_vec()).whole());
        frames.clear();
    }
}
