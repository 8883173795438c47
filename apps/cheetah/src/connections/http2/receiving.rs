//! Frames in: requests are answered or begin exchanges, bodies are kept, and what is given up goes.

use exos_buf::Slice;
use exos_http2::connection::Event;
use exos_http2::{Fault, StreamId};
use exos_inet::Instant;

use super::Http2;
use super::counters::Counters;
use super::stream::{BodyForm, Held, Owner, Start, Stream};
use crate::http::{Attempt, Server, Streamed};
use crate::log::Unfinished;
use crate::message::http2::lines_of;

/// What frames are read with.
pub(super) struct Reading<'a> {
    pub(super) server: &'a mut Server,
    pub(super) counters: &'a mut Counters,
    /// Slices of the response that is made.
    pub(super) response: &'a mut Vec<Slice>,
    pub(super) attempt: Attempt<'a>,
    pub(super) now: Instant,
    /// Streams that are no more.
    pub(super) gone: Vec<Stream>,
    /// Streams whose exchanges are to begin.
    pub(super) asked: Vec<StreamId>,
}

/// What a frame has come to.
enum Came {
    Nothing,
    Request {
        stream: StreamId,
        is_end: bool,
        /// Its body has no length.
        is_chunked: bool,
        /// It is another protocol.
        is_tunnel: bool,
        streamed: Streamed,
        lines: Unfinished,
    },
    Consumed(StreamId, usize),
    /// The end of a body.
    Ended,
    /// A body has come for which a response was held.
    Due(StreamId, usize),
    Gone(StreamId),
}

impl Http2 {
    /// Takes one frame: how many bytes.
    #[inline]
    pub(super) fn take_frame(
        &mut self,
        bytes: &[u8],
        reading: &mut Reading<'_>,
    ) -> Result<usize, Fault> {
        let Http2 {
            core,
            streams,
            schedule,
            frames,
            ..
        } = self;
        let (taken, event) = core.receive(bytes, frames)?;
        let mut waits_of_tunnel = 0;
        let came = match event {
            None | Some(Event::Room | Event::Gone | Event::GoAway { .. }) => Came::Nothing,
            Some(Event::Request {
                stream,
                head,
                is_end,
            }) => {
                let mut lines = Unfinished::default();
                let (attempt, response) = (&reading.attempt, &mut *reading.response);
                let server = &mut *reading.server;
                Came::Request {
                    streamed: server.answer_stream(&head, is_end, attempt, &mut lines, response),
                    is_chunked: !is_end && head.length().is_none() && head.protocol().is_none(),
                    is_tunnel: head.protocol().is_some(),
                    stream,
                    is_end,
                    lines,
                }
            }
            Some(Event::FieldsTooLong { stream }) => {
                let mut lines = Unfinished::default();
                let (attempt, response) = (&reading.attempt, &mut *reading.response);
                reading.server.refuse_stream(attempt, &mut lines, response);
                Came::Request {
                    streamed: Streamed::Whole { behind_body: false },
                    is_chunked: false,
                    is_tunnel: false,
                    stream,
                    is_end: true,
                    lines,
                }
            }
            Some(Event::Data {
                stream,
                bytes,
                is_end,
            }) => {
                let at = streams.binary_search_by_key(&stream, Stream::id);
                let consumed = at.map_or(bytes.len(), |at| streams[at].receive(bytes, is_end, b""));
                if at.is_ok_and(|at| streams[at].is_tunnel) {
                    waits_of_tunnel = bytes.len() - consumed;
                }
                match at {
                    Ok(at) if streams[at].is_due() => Came::Due(stream, consumed),
                    _ => Came::Consumed(stream, consumed),
                }
            }
            Some(Event::Trailers { stream, fields }) => {
                let at = streams.binary_search_by_key(&stream, Stream::id);
                if let Ok(at) = at {
                    streams[at].receive(b"", true, &lines_of(fields));
                }
                match at {
                    Ok(at) if streams[at].is_due() => Came::Due(stream, 0),
                    _ => Came::Ended,
                }
            }
            Some(Event::Priority { stream, priority }) => {
                schedule.change(stream, priority);
                Came::Nothing
            }
            Some(Event::Reset { stream, .. }) => {
                reading.counters.resets += 1;
                Came::Gone(stream)
            }
            Some(Event::Fault { stream, fault }) => {
                reading.counters.count_fault(fault);
                Came::Gone(stream)
            }
        };
        if waits_of_tunnel > 0 {
            core.consume_of_connection(waits_of_tunnel, frames);
        }
        match came {
            Came::Nothing | Came::Ended | Came::Consumed(_, 0) => {}
            Came::Consumed(stream, len) => {
                core.consume(stream, len, frames);
                self.active = reading.now;
            }
            Came::Due(stream, len) => {
                core.consume(stream, len, frames);
                self.release(None, reading.now);
            }
            Came::Gone(stream) => reading.gone.extend(self.remove(stream)),
            Came::Request {
                stream,
                is_end,
                is_chunked,
                is_tunnel,
                streamed,
                lines,
            } => {
                reading.counters.streams += 1;
                self.active = reading.now;
                let form = match is_chunked {
                    true => BodyForm::Chunked,
                    false => BodyForm::Plain,
                };
                self.begin(stream, is_end, form, streamed, lines, reading);
                if is_tunnel && let Some(stream) = self.find(stream) {
                    stream.is_tunnel = true;
                }
            }
        }
        Ok(taken)
    }

    /// A request has come, and what is known of its answer.
    #[inline]
    fn begin(
        &mut self,
        id: StreamId,
        has_ended: bool,
        form: BodyForm,
        streamed: Streamed,
        lines: Unfinished,
        reading: &mut Reading<'_>,
    ) {
        let (start, text) = match streamed {
            Streamed::Whole { behind_body: true } if !has_ended && !self.core.is_telling() => {
                let response = reading.response.drain(..).collect();
                let since = reading.now;
                let mut stream = Stream::new(id, Owner::Held(Held { response, since }));
                stream.lines = lines;
                return self.add(stream);
            }
            Streamed::Whole { .. } => {
                return self.send_whole(id, reading.response, lines, reading.now);
            }
            Streamed::Tail(tail) => {
                let slices = reading.response.drain(..).collect();
                (Start::Tail(tail, slices, lines), Vec::new())
            }
            Streamed::Waits(missing, text) => (Start::Waits(missing), text),
            Streamed::Asks(asking) => (Start::Asks(asking), Vec::new()),
        };
        let is_tail = matches!(start, Start::Tail(..));
        let mut stream = Stream::new(id, Owner::Start(start));
        stream.form = if is_tail { BodyForm::Discarded } else { form };
        stream.keep_text(text);
        stream.has_ended = has_ended;
        self.add(stream);
        reading.asked.push(id);
    }
}
