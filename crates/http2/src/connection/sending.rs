//! What leaves: heads of responses, data within the windows, and the end of streams.

use super::{Connection, Going};
use crate::error::{ErrorCode, Fault};
use crate::frame::{
    self, StreamId, flag, kind, push_go_away, push_head, push_ping, push_reset, push_window_update,
};
use crate::limits::STREAM_FAULTS;
use crate::priority::Priority;
use crate::state::{State, StreamEvent};

/// What the last ping before the end says.
pub(super) const GOING_PING: [u8; 8] = *b"exos end";

impl Connection {
    /// Bytes that may be sent on a stream now; none on one that is not there.
    #[inline]
    pub fn room(&self, stream: StreamId) -> usize {
        let window = self.streams.get(stream).map_or(0, |it| it.send_window);
        window.min(self.send_window).max(0) as usize
    }

    /// Bytes that may be sent on the connection now.
    #[inline]
    pub fn connection_room(&self) -> usize {
        self.send_window.max(0) as usize
    }

    /// Bytes of bodies that the client may still send, on all streams together.
    #[inline]
    pub fn receive_room(&self) -> usize {
        self.receive_window.left as usize
    }

    /// The priority of a stream.
    pub fn priority(&self, stream: StreamId) -> Priority {
        let stream = self.streams.get(stream);
        stream.map_or(Priority::default(), |it| it.priority)
    }

    /// Appends the head of a response, or an interim one, whose block [`hpack::encoder`](crate::hpack::encoder) made, shorter by what
    /// the peer has in its table; nothing on a stream that is not there. Gives how long the block has become.
    #[inline]
    pub fn send_head(
        &mut self,
        stream: StreamId,
        block: &[&[u8]],
        is_end: bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let Some(state) = self.state_behind(stream, is_end) else {
            return 0;
        };
        let frame_len_max = self.peer.frame_len_max as usize;
        let block = self.encoder.encode(block);
        frame::push_headers(out, stream, &[block], is_end, frame_len_max);
        let len = block.len();
        self.change_state(stream, state);
        len
    }

    /// Appends the head of a DATA frame, for as many of `wanted` bytes as may be sent: how many, which the caller sends behind it. All of
    /// them end the stream if `is_last`. Where none may be sent, nothing is appended; where none are wanted and `is_last`, an
    /// empty frame is.
    #[inline]
    pub fn begin_data(
        &mut self,
        stream: StreamId,
        wanted: usize,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let len = wanted
            .min(self.room(stream))
            .min(self.peer.frame_len_max as usize);
        let is_end = is_last && len == wanted;
        if len == 0 && !is_end {
            return 0;
        }
        let Some(state) = self.state_behind(stream, is_end) else {
            return 0;
        };
        push_head(
            out,
            len,
            kind::DATA,
            u8::from(is_end) * flag::END_STREAM,
            stream,
        );
        self.send_window -= len as i32;
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.send_window -= len as i32;
        }
        self.change_state(stream, state);
        len
    }

    /// Whether a response is owed on a stream, or the rest of one.
    pub fn owes(&self, stream: StreamId) -> bool {
        let stream = self.streams.get(stream);
        stream.is_some_and(|it| it.state != State::HalfClosedLocal)
    }

    fn state_behind(&self, stream: StreamId, is_end: bool) -> Option<State> {
        let event = match is_end {
            true => StreamEvent::SendLast,
            false => StreamEvent::Send,
        };
        self.streams.get(stream)?.state.on(event).ok()
    }

    /// Ends a stream at once; nothing where it is not there. Behind a response that is whole nobody has to: what is left of the request
    /// is thrown away, and the stream reset when it is much.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, out: &mut Vec<u8>) {
        if self.streams.get(stream).is_some() {
            self.change_state(stream, State::Closed);
            self.streams.note_reset(stream);
            push_reset(out, stream, code);
        }
    }

    /// Ends a stream of which nothing was looked at, so that its client may ask again (RFC 9113 §8.7).
    ///
    /// # Errors
    ///
    /// That happens too often: the connection is over. What tells the peer is appended.
    pub fn refuse(&mut self, stream: StreamId, out: &mut Vec<u8>) -> Result<(), Fault> {
        if !self.allowances.faults.take(STREAM_FAULTS, self.now) {
            self.fail(Fault::FaultFlood, out);
            return Err(Fault::FaultFlood);
        }
        self.reset(stream, ErrorCode::REFUSED_STREAM, out);
        Ok(())
    }

    /// Bytes of a body were consumed, or thrown away: their stream and the connection may be sent as much more.
    pub fn consume(&mut self, stream: StreamId, len: usize, out: &mut Vec<u8>) {
        self.consume_of_connection(len, out);
        self.consume_of_stream(stream, len, out);
    }

    /// Of a stream alone, where the connection was given as much before.
    pub fn consume_of_stream(&mut self, stream: StreamId, len: usize, out: &mut Vec<u8>) {
        if let Some(it) = self.streams.get_mut(stream)
            && let Some(by) = it.receive_window.consume(len as u32)
            && matches!(it.state, State::Open | State::HalfClosedLocal)
        {
            push_window_update(out, stream, by);
        }
    }

    /// Of the connection alone: bytes of streams that are no more, or that wait within their stream's window only.
    pub fn consume_of_connection(&mut self, len: usize, out: &mut Vec<u8>) {
        if let Some(by) = self.receive_window.consume(len as u32) {
            push_window_update(out, 0, by);
        }
    }

    // The end.

    /// No further requests are wanted: those under way are still answered. The client is told, and asked to say that it has heard;
    /// then it is told which was the last.
    pub fn begin_going(&mut self, out: &mut Vec<u8>) {
        if self.going == Going::Staying {
            self.going = Going::Told;
            push_go_away(out, (1 << 31) - 1, ErrorCode::NO_ERROR, b"");
            push_ping(out, false, GOING_PING);
        }
    }

    /// Requests that come from now on are not answered, and their client may ask them elsewhere.
    pub fn finish_going(&mut self, out: &mut Vec<u8>) {
        if !matches!(self.going, Going::Gone(_)) {
            self.going = Going::Gone(self.streams.last);
            push_go_away(out, self.streams.last, ErrorCode::NO_ERROR, b"");
        }
    }

    /// The last requests are known, and all of them are answered.
    pub fn has_gone(&self) -> bool {
        matches!(self.going, Going::Gone(_)) && self.streams.owed() == 0
    }

    /// The client has been told, and has not said that it has heard.
    pub fn is_telling(&self) -> bool {
        self.going == Going::Told
    }

    /// Appends what tells the peer why the connection ends.
    pub fn fail(&mut self, fault: Fault, out: &mut Vec<u8>) {
        let last = self.last_seen_to();
        self.going = Going::Gone(last);
        let why = fault.to_string();
        push_go_away(out, last, fault.code(), why.as_bytes());
    }
}
