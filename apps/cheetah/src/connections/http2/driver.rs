//! What happens to a connection that speaks HTTP/2: frames in, frames out, and its end.

use exos_http2::Fault;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet};
use exos_program::Timed as _;

use super::exchanges::Exchanges;
use super::receiving::Reading;
use super::{Finished, Http2};
use crate::connections::connection::{Connection, Outcome, Task, Told, Turn};
use crate::connections::shared::Shared;
use crate::connections::transport::Transport;
use crate::http::{Attempt, Missing};
use crate::limits::{FRAMED_AHEAD_LEN, QUEUE_LEN_MAX, REQUESTS_AT_ONCE};
use crate::message::Version;

/// A connection with its streams, for the time of a turn.
pub(in crate::connections) struct Driver<'a, T: Transport> {
    pub(super) connection: &'a mut Connection,
    /// Taken out of the connection until [`Driver::end`].
    pub(super) http2: Box<Http2>,
    pub(super) exchanges: &'a mut Exchanges,
    pub(super) shared: &'a mut Shared,
    pub(super) transport: &'a mut T,
    pub(super) now: Instant,
    pub(super) missing: Vec<(ConnectionId, Missing)>,
}

impl<'a, T: Transport> Driver<'a, T> {
    /// Nothing where the connection does not speak HTTP/2.
    pub(in crate::connections) fn new(
        connection: &'a mut Connection,
        exchanges: &'a mut Exchanges,
        shared: &'a mut Shared,
        transport: &'a mut T,
        now: Instant,
    ) -> Option<Driver<'a, T>> {
        let mut http2 = connection.http2.take()?;
        // What is there of frames is a connection's first.
        let first = std::mem::take(&mut http2.frames);
        http2.frames = std::mem::take(&mut shared.frames);
        http2.frames.extend(first);
        http2.given = connection.given;
        http2.core.set_time((now.micros() / 1_000_000) as u32);
        Some(Driver {
            connection,
            http2,
            exchanges,
            shared,
            transport,
            now,
            missing: Vec::new(),
        })
    }

    /// Gives what its requests wait for.
    pub(in crate::connections) fn end(mut self) -> Vec<(ConnectionId, Missing)> {
        // Frames that are left are of a connection that sends no more.
        self.http2.frames.clear();
        self.shared.frames = std::mem::take(&mut self.http2.frames);
        self.connection.http2 = Some(self.http2);
        self.missing
    }

    /// Something that is about all of its streams.
    pub(in crate::connections) fn tell(&mut self, told: Told) -> Outcome {
        match told {
            Told::Events(set) => self.handle_events(set),
            Told::Late => self.end_wait(),
            Told::Stop => {
                if !self.connection.is_finished() {
                    let Http2 { core, frames, .. } = &mut *self.http2;
                    core.begin_going(frames);
                    self.http2.going_since = self.now;
                    // A body that does not come is no reason to stay.
                    self.http2.end_holds(self.now);
                }
                self.go_on()
            }
        }
    }

    /// Does something with one of its streams that has waited.
    pub(in crate::connections) fn run(&mut self, id: ConnectionId, task: &Task<'_>) -> Outcome {
        if !matches!(task, Task::EndWait) || !self.waits_for_others(id) {
            self.with(id, |connection, turn| task.run(connection, turn));
        }
        self.go_on()
    }

    // What arrives.

    fn handle_events(&mut self, set: EventSet) -> Outcome {
        if self.transport.has_failed(self.connection.id()) {
            return self.end_failed();
        }
        if set.contains(EventSet::FINISHED) {
            self.connection.note_client_finished();
        }
        if set.contains(EventSet::ACKNOWLEDGED) {
            self.acknowledge();
        }
        let is_new = self.is_new();
        let may_read = set.contains(EventSet::READABLE) || self.http2.held || is_new;
        if may_read && !self.connection.is_finished() {
            self.receive();
        }
        self.go_on()
    }

    /// Nothing was sent: the connection has just come to speak HTTP/2.
    fn is_new(&mut self) -> bool {
        let is_new = self.connection.given == 0;
        self.shared.counters.http2.connections += u64::from(is_new);
        is_new
    }

    /// Its client has taken something: streams that wait for that hear of it.
    fn acknowledge(&mut self) {
        let unacknowledged = self.transport.unacknowledged(self.connection.id()) as u64;
        self.http2
            .acknowledge(self.connection.given - unacknowledged, self.now);
        self.tell_streams();
    }

    /// Streams hear of what was taken, and of what has come.
    fn tell_streams(&mut self) {
        let mut at = 0;
        while let Some(stream) = self.http2.streams.get_mut(at) {
            at += 1;
            let Some(id) = stream.exchange() else {
                continue;
            };
            let mut set = EventSet::NONE;
            if std::mem::take(&mut stream.has_taken) {
                set = set.with(EventSet::ACKNOWLEDGED);
            }
            if std::mem::take(&mut stream.has_news) {
                set = set.with(EventSet::READABLE);
                if stream.has_ended {
                    set = set.with(EventSet::FINISHED);
                }
            }
            if !set.is_empty() {
                let before = self.http2.streams.len();
                self.with(id, |connection, turn| connection.handle_event(set, turn));
                // It may be no more.
                at -= before - self.http2.streams.len();
            }
        }
    }

    /// Reads frames, while there is room for what answers them.
    fn receive(&mut self) {
        let id = self.connection.id();
        let (unacknowledged, unsent) =
            (self.transport.unacknowledged(id), self.transport.unsent(id));
        let was_idle = self.http2.schedule.is_empty();
        let bytes = self.transport.readable(id);
        let attempt = Attempt::default().of(self.connection.peer(), self.now, self.now);
        let mut attempt = attempt.by_https(self.connection.is_encrypted());
        attempt.tls = self.transport.tls(id);
        attempt.is_early = self.transport.is_early(id);
        let Shared {
            server,
            counters,
            out,
            unread,
            ..
        } = &mut *self.shared;
        let mut reading = Reading {
            server,
            counters: &mut counters.http2,
            response: out,
            attempt: attempt.on_stream(Some(Version::Http2)),
            now: self.now,
            gone: Vec::new(),
            asked: Vec::new(),
        };
        let was_within = self.http2.core.is_within_headers();
        let begun_before = reading.counters.streams;
        let mut taken = 0;
        let read = loop {
            // What is under way holds nothing up: resets and windows are heard meanwhile.
            let is_full = unsent + self.http2.pending_len() >= QUEUE_LEN_MAX;
            let begun = reading.counters.streams - begun_before;
            let has_had_its_turn = begun >= REQUESTS_AT_ONCE as u64;
            self.http2.held = is_full || has_had_its_turn;
            if has_had_its_turn {
                unread.push(id);
            }
            if self.http2.held {
                break Ok(());
            }
            match self.http2.take_frame(&bytes[taken..], &mut reading) {
                Ok(0) => break Ok(()),
                Ok(count) => taken += count,
                Err(fault) => break Err(fault),
            }
        };
        let is_partial = taken < bytes.len() || self.http2.core.is_within_headers();
        let (gone, asked) = (reading.gone, reading.asked);
        if unacknowledged == 0 && was_idle {
            self.connection.begin_pace(self.now);
        }
        self.http2.frame_begun = match (is_partial && !self.http2.held, taken) {
            (false, _) => None,
            // A header block goes on from its first frame on.
            (true, 0) => self.http2.frame_begun.or(Some(self.now)),
            (true, _) if was_within => self.http2.frame_begun.or(Some(self.now)),
            (true, _) => Some(self.now),
        };
        self.transport.consume(id, taken);
        for stream in gone {
            self.exchanges.close_stream(stream, self.shared);
        }
        if let Err(fault) = read {
            return self.fail(fault);
        }
        self.start_exchanges(asked);
        self.tell_streams();
    }

    /// It is over by a fault, of which its client is told.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.shared.counters.http2.count_fault(fault);
        self.drop_streams();
        self.http2.has_failed = true;
    }

    // What leaves.

    /// Sends what may leave, and looks what is waited for then.
    pub(super) fn go_on(&mut self) -> Outcome {
        if self.connection.is_finished() {
            return self.follow();
        }
        let id = self.connection.id();
        let room = FRAMED_AHEAD_LEN.saturating_sub(self.transport.unsent(id));
        self.feed_starved();
        self.http2.frame(room, self.now);
        if self.connection.has_client_finished() && !self.http2.held {
            self.end_what_cannot_end();
        }
        while self.end_whole_streams() && self.feed_starved() {
            self.http2.frame(room, self.now);
        }
        for slice in self.http2.take_slices() {
            self.connection.send(slice, self.transport);
        }
        let http = self.connection.http_mut();
        for Finished {
            lines,
            head_len,
            end,
        } in self.http2.lines.drain(..)
        {
            http.join(&mut self.shared.server, lines, head_len, end);
        }
        if self.http2.has_failed || self.is_over() {
            self.finish();
        }
        self.follow()
    }

    /// Nothing is under way, and nothing will be.
    fn is_over(&self) -> bool {
        let Http2 { core, streams, .. } = &*self.http2;
        let is_heard = core.has_gone() && core.stream_count() == 0;
        // What it has said before it closed is still read.
        let has_closed = self.connection.has_client_finished() && !self.http2.held;
        streams.is_empty() && (is_heard || has_closed)
    }

    fn finish(&mut self) {
        let mut turn = Turn {
            now: self.now,
            shared: self.shared,
            transport: self.transport,
        };
        self.connection.finish(&mut turn);
    }
}
