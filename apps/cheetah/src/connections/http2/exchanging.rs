//! The streams of a connection and their exchanges: how they begin, what becomes of them, and their ends.

use exos_http2::{ErrorCode, StreamId};
use exos_inet::tcp::{ConnectionId, EventSet};
use exos_program::Timed as _;

use super::Http2;
use super::driver::Driver;
use super::exchanges::Exchange;
use super::stream::{Owner, Start, Stream};
use super::transport::StreamTransport;
use crate::connections::connection::{Connection, Outcome, Turn};
use crate::connections::transport::Transport;
use crate::connections::wait::Wait;
use crate::http::{Attempt, ServerConnection};

impl<T: Transport> Driver<'_, T> {
    /// Requests that were not answered at once become exchanges.
    pub(super) fn start_exchanges(&mut self, asked: Vec<StreamId>) {
        for id in asked {
            let Some(stream) = self.http2.find(id) else {
                continue;
            };
            match std::mem::replace(&mut stream.owner, Owner::Nobody) {
                Owner::Start(start) => self.start(id, start),
                owner => stream.owner = owner,
            }
        }
        debug_assert!(
            !self
                .http2
                .streams
                .iter()
                .any(|stream| matches!(stream.owner, Owner::Start(_))),
            "each has begun"
        );
    }

    fn start(&mut self, stream: StreamId, start: Start) {
        let most = self.shared.bounds.peer_streams;
        let peer = self.connection.peer();
        if most.is_some_and(|most| !self.exchanges.admit(peer, most)) {
            self.shared.counters.http2.peer_refusals += 1;
            return self.refuse(stream, start);
        }
        let id = self.exchanges.next_id();
        let http = match &start {
            Start::Tail(..) => None,
            Start::Waits(_) | Start::Asks(_) => Some(ServerConnection::new()),
        };
        let (start, http) = match (start, http) {
            (Start::Tail(tail, slices, lines), _) => {
                let http = ServerConnection::answered(lines);
                (Start::Tail(tail, slices, Default::default()), http)
            }
            (start, http) => (start, http.unwrap_or_default()),
        };
        let connection = Connection::stream_of(self.connection, id, http, self.now);
        self.exchanges.insert(Exchange {
            connection,
            carrier: self.connection.id(),
            stream,
            is_admitted: most.is_some(),
        });
        if let Some(stream) = self.http2.find(stream) {
            stream.owner = Owner::Exchange(id);
            stream.has_news |= stream.has_ended;
        }
        self.with(id, |connection, turn| match start {
            Start::Tail(tail, mut slices, _) => {
                connection.send_out(&mut slices, turn.transport);
                match connection.begin_stream(*tail, turn) {
                    true => connection.serve(Attempt::default(), turn).into(),
                    false => Outcome::GoesOn,
                }
            }
            Start::Waits(missing) => {
                connection.wait_for_content(&missing, turn.now);
                Outcome::Waits(missing)
            }
            Start::Asks(asking) => match connection.begin_answering(asking, turn) {
                true => connection.serve(Attempt::default(), turn).into(),
                false => Outcome::GoesOn,
            },
        });
    }

    /// Nothing was done about a request: its client may ask again (RFC 9113 §8.7), but not without end.
    fn refuse(&mut self, id: StreamId, start: Start) {
        if let Some(stream) = self.http2.find(id) {
            stream.owner = Owner::Start(start);
        }
        let Http2 { core, frames, .. } = &mut *self.http2;
        let refused = core.refuse(id, frames);
        self.end_stream(id, false);
        if let Err(fault) = refused {
            self.fail(fault);
        }
    }

    /// Handles one of its streams, if that is still there, and sees to what becomes of it.
    pub(super) fn with(
        &mut self,
        id: ConnectionId,
        handle: impl FnOnce(&mut Connection, &mut Turn<'_, StreamTransport<'_>>) -> Outcome,
    ) {
        let Some(exchange) = self.exchanges.find(id) else {
            return;
        };
        let stream = exchange.stream;
        let mut transport = StreamTransport {
            http2: &mut self.http2,
            stream,
            below: self.transport,
            carrier: self.connection.id(),
        };
        let mut turn = Turn {
            now: self.now,
            shared: self.shared,
            transport: &mut transport,
        };
        let outcome = handle(&mut exchange.connection, &mut turn);
        let is_finished = exchange.connection.is_finished();
        let code = exchange.connection.broken_by().by_http2();
        let pending = turn.transport.unacknowledged(id);
        self.exchanges.arm(id);
        match outcome {
            Outcome::Broken => {
                let Http2 { core, frames, .. } = &mut *self.http2;
                core.reset(stream, code, frames);
                self.end_stream(stream, false);
            }
            Outcome::Waits(missing) => self.missing.push((id, *missing)),
            Outcome::GoesOn | Outcome::Http2(_) => {
                let is_open = self.http2.core.owes(stream);
                if is_finished && !is_open {
                    // It was reset, or all of it is sent.
                    if pending == 0 {
                        self.end_stream(stream, true);
                    }
                }
            }
        }
    }

    /// A stream is over; `done` when its client has taken everything.
    pub(super) fn end_stream(&mut self, id: u32, done: bool) {
        let Some(mut stream) = self.http2.remove(id) else {
            return;
        };
        match std::mem::replace(&mut stream.owner, Owner::Nobody) {
            Owner::Exchange(exchange) if done => {
                if let Some(exchange) = self.exchanges.remove(exchange) {
                    exchange.connection.close(true, self.shared);
                }
            }
            owner => {
                stream.owner = owner;
                self.exchanges.close_stream(stream, self.shared);
            }
        }
    }

    pub(super) fn drop_streams(&mut self) {
        for stream in std::mem::take(&mut self.http2.streams) {
            self.exchanges.close_stream(stream, self.shared);
        }
        self.http2.schedule = Default::default();
        self.http2.starved.clear();
        self.http2.chunks = 0;
    }

    /// Exchanges that were finished before all of it was framed; true when there was one.
    pub(super) fn end_whole_streams(&mut self) -> bool {
        let core = &self.http2.core;
        let is_over = |stream: &&Stream| {
            let is_done = stream.is_last && stream.queue_len() == 0 && stream.unacknowledged == 0;
            is_done && !core.owes(stream.id()) && stream.exchange().is_some()
        };
        let over: Vec<u32> = self
            .http2
            .streams
            .iter()
            .filter(is_over)
            .map(Stream::id)
            .collect();
        for id in &over {
            self.end_stream(*id, true);
        }
        !over.is_empty()
    }

    /// Lets streams read ahead for which there is room now; true when there was one.
    pub(super) fn feed_starved(&mut self) -> bool {
        let mut has_fed = false;
        while let Some(stream) = self.http2.next_starved() {
            let exchange = self.http2.find(stream).and_then(|it| it.exchange());
            if let Some(id) = exchange {
                let set = EventSet::NONE.with(EventSet::ACKNOWLEDGED);
                self.with(id, |connection, turn| connection.handle_event(set, turn));
            }
            self.http2.leave_row(stream);
            has_fed = true;
        }
        has_fed
    }

    /// A stream that could be sent on and has to wait for those that are sent before it, while its connection goes on.
    pub(super) fn waits_for_others(&mut self, id: ConnectionId) -> bool {
        let until = self.http2.progressed + Wait::Sending.time();
        let Some(exchange) = self.exchanges.find(id) else {
            return false;
        };
        let is_sending = exchange.connection.waits_for() == Wait::Sending;
        if !is_sending || self.http2.core.room(exchange.stream) == 0 || until <= self.now {
            return false;
        }
        exchange.connection.wait_until(Wait::Sending, until);
        self.exchanges.arm(id);
        true
    }

    /// Its client sends no more, no window and nothing of a body: ends the streams that wait for that.
    pub(super) fn end_what_cannot_end(&mut self) {
        let Http2 { core, streams, .. } = &*self.http2;
        let cannot_end = |stream: &&Stream| match &stream.owner {
            Owner::Held(_) => true,
            Owner::Exchange(_) if !stream.has_ended => true,
            Owner::Nobody | Owner::Start(_) | Owner::Exchange(_) => {
                let is_ready = stream.queue_len() > 0 || self.http2.is_starved(stream.id());
                is_ready && core.room(stream.id()) == 0
            }
        };
        let over: Vec<StreamId> = streams.iter().filter(cannot_end).map(Stream::id).collect();
        for id in over {
            let Http2 { core, frames, .. } = &mut *self.http2;
            core.reset(id, ErrorCode::CANCEL, frames);
            self.end_stream(id, false);
        }
    }
}
