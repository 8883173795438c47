//! Data that comes, and windows that the peer opens (RFC 9113 §6.1, §6.9).

use super::{Connection, Event};
use crate::error::{ErrorCode, Fault};
use crate::frame::{FrameHead, StreamId, flag, payload};
use crate::limits::{SMALL_WINDOW_LEN, SMALL_WINDOWS, SURPLUS_LEN_MAX, WINDOW_MAX};
use crate::state::{State, StreamEvent};

impl Connection {
    pub(super) fn handle_data<'a>(
        &'a mut self,
        head: &FrameHead,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        let (id, len) = (head.stream, head.len as u32);
        if id == 0 {
            return Err(Fault::StreamNumber);
        }
        let data = payload::without_padding(head, bytes)?;
        self.check_used(id)?;
        if !self.receive_window.take(len) {
            return Err(Fault::BeyondWindow);
        }
        let is_end = head.has(flag::END_STREAM);
        if data.is_empty() && !is_end {
            self.allow_useless()?;
        }
        let fault = match self.streams.get_mut(id) {
            None => Fault::ClosedStream,
            Some(stream) => {
                let event = match is_end {
                    true => StreamEvent::ReceiveLastData,
                    false => StreamEvent::ReceiveData,
                };
                let left = stream.length_left;
                let left = left.map(|left| left.checked_sub(data.len() as u64));
                match (stream.state.on(event), left) {
                    (Err(fault), _) => fault,
                    (Ok(_), _) if !stream.receive_window.take(len) => Fault::BeyondWindow,
                    (Ok(_), Some(None)) => Fault::ContentLength,
                    (Ok(_), Some(Some(1..))) if is_end => Fault::ContentLength,
                    (Ok(state), left) => {
                        stream.length_left = left.flatten();
                        // Padding is thrown away.
                        self.consume(id, head.len - data.len(), out);
                        if state == State::HalfClosedLocal || (state == State::Closed) {
                            return Ok(self.discard(id, state, data.len(), out));
                        }
                        self.change_state(id, state);
                        return Ok(Some(Event::Data {
                            stream: id,
                            bytes: data,
                            is_end,
                        }));
                    }
                }
            }
        };
        // It is thrown away, and its stream is no more.
        self.consume_of_connection(head.len, out);
        if self.streams.was_reset(id) {
            return Ok(None);
        }
        self.fail_stream(id, fault, out).map(Some)
    }

    /// Data has come behind the response.
    fn discard<'a>(
        &mut self,
        id: StreamId,
        state: State,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Option<Event<'a>> {
        self.consume(id, len, out);
        self.change_state(id, state);
        let stream = self.streams.get_mut(id)?;
        stream.surplus += len as u32;
        if stream.surplus > SURPLUS_LEN_MAX {
            // RFC 9113 §8.1: nobody needs the rest.
            self.reset(id, ErrorCode::NO_ERROR, out);
        }
        None
    }

    /// WINDOW_UPDATE has come.
    pub(super) fn handle_window_update<'a>(
        &mut self,
        head: &FrameHead,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        let (id, by) = (head.stream, payload::window_update(bytes)?);
        if id != 0 {
            self.check_used(id)?;
        }
        // What opens nothing is little, too.
        let is_small = by < SMALL_WINDOW_LEN || (id != 0 && self.streams.get(id).is_none());
        if is_small && !self.allowances.windows.take(SMALL_WINDOWS, self.now) {
            return Err(Fault::WindowFlood);
        }
        let window = match id {
            0 => &mut self.send_window,
            _ => match self.streams.get_mut(id) {
                Some(stream) => &mut stream.send_window,
                None if by == 0 => return self.fail_stream(id, Fault::WindowZero, out).map(Some),
                None => return Ok(None), // It was under way.
            },
        };
        let opened = i64::from(*window) + i64::from(by);
        let fault = if by == 0 {
            Fault::WindowZero
        } else if opened > i64::from(WINDOW_MAX) {
            Fault::WindowOverflow
        } else {
            *window = opened as i32;
            return Ok(Some(Event::Room));
        };
        match id {
            0 => Err(fault),
            _ => self.fail_stream(id, fault, out).map(Some),
        }
    }
}
