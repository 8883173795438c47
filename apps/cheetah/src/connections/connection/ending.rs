//! The end of a connection: its client's, ours, one for which a time was too long, and that of a session which failed.

use super::{Connection, Outcome, Told, Turn};
use crate::connections::shared::Shared;
use crate::connections::transport::{Abort, Transport};
use crate::connections::wait::Wait;
use crate::http::Attempt;
use crate::limits::REQUEST_TIME;
use crate::message::Status;

impl Connection {
    /// Ends it, if its session has failed: its client hears why, and will not take what it has not taken.
    pub(in crate::connections) fn ends_failed<T: Transport>(
        &mut self,
        turn: &mut Turn<'_, T>,
    ) -> bool {
        if self.has_failed || !turn.transport.has_failed(self.id) {
            return self.has_failed;
        }
        self.has_failed = true;
        let pending = turn.transport.unacknowledged(self.id);
        let taken = self.given.saturating_sub(pending as u64);
        self.count_taken(taken, &mut turn.shared.server);
        self.abandon_answering(turn.shared);
        let left = self.stream.as_ref().map_or(0, |s| s.left()) as usize;
        let server = &mut turn.shared.server;
        self.http.acknowledged(server, pending + left);
        self.http.end(server);
        if let Some(stream) = self.stream.take() {
            stream.end(&mut turn.shared.streams);
        }
        self.finish(turn);
        if self.wait != Wait::Handshake {
            self.wait(turn.now, Wait::Lingering);
        }
        true
    }

    /// What it waits for has not come in time.
    pub(in crate::connections) fn end_wait<T: Transport>(
        &mut self,
        turn: &mut Turn<'_, T>,
    ) -> Outcome {
        if self.secure_by.is_some_and(|until| until <= turn.now) {
            self.secure_by = None;
            if turn.transport.is_handshaking(self.id) {
                turn.shared.ends.count(Wait::Handshake, false);
                return Outcome::Broken;
            }
            if turn.now < self.deadline {
                return Outcome::GoesOn;
            }
        }
        if self.http2.is_some() {
            return Outcome::Http2(Told::Late);
        }
        let is_idle = self.http.is_between_requests();
        if self.finished && matches!(self.wait, Wait::Request | Wait::Idle) {
            // It has ended before its session stood, and nothing more has come since.
            turn.shared.ends.count(Wait::Lingering, false);
            return Outcome::Broken;
        }
        if self.wait == Wait::Handshake && !turn.transport.is_handshaking(self.id) {
            self.wait_until(Wait::Request, self.begun + REQUEST_TIME);
            return Outcome::GoesOn;
        }
        // A head that was given less time came too slowly.
        let is_slow_head = self.wait == Wait::Request
            && !is_idle
            && turn.shared.bounds.head_rate.is_some()
            && turn.now < self.begun + REQUEST_TIME;
        if is_slow_head {
            turn.shared.counters.slow_heads += 1;
        } else {
            turn.shared.ends.count(self.wait, is_idle);
        }
        match self.wait {
            Wait::Request if !is_idle => self.give_up(Status::RequestTimeout, turn),
            // It waits no more, and goes to the upstream.
            Wait::Answer => return self.resume(None, turn),
            Wait::Fetching => self.give_up(Status::ServiceUnavailable, turn),
            Wait::Request | Wait::Idle => self.finish(turn),
            Wait::Body | Wait::Application | Wait::Upstream | Wait::Tunnel => {
                return self.end_wait_answering(turn);
            }
            Wait::Sending | Wait::Lingering => {
                self.is_untaken = true;
                return Outcome::Broken;
            }
            Wait::Reading | Wait::Handshake => return Outcome::Broken,
        }
        Outcome::GoesOn
    }

    /// Why it is to be reset, where it is [broken](Outcome::Broken).
    pub(in crate::connections) fn broken_by(&self) -> Abort {
        let is_cancelled = self.answering.as_ref().is_some_and(|it| it.is_cancelled());
        match is_cancelled || self.is_untaken {
            true => Abort::Cancelled,
            false => Abort::Failed,
        }
    }

    /// Why it is to be reset, where the server ends and waits no longer.
    pub(in crate::connections) fn given_up_by(&self) -> Abort {
        let is_unasked = self.answering.as_ref().is_none_or(|it| it.is_unasked());
        match is_unasked && self.given == 0 {
            true => Abort::Untouched,
            false => Abort::Cancelled,
        }
    }

    /// Answers a request that is not whole, or whose document does not come, and ends the connection.
    fn give_up<T: Transport>(&mut self, status: Status, turn: &mut Turn<'_, T>) {
        let shared = &mut *turn.shared;
        let attempt = Attempt::default().of(self.peer, self.begun, turn.now);
        let attempt = attempt.on_stream(self.on_stream);
        let bytes = turn.transport.readable(self.id);
        let (server, out) = (&mut shared.server, &mut shared.out);
        self.http.refuse(server, status, bytes, &attempt, out);
        self.send_out(&mut shared.out, turn.transport);
        self.finish(turn);
    }

    /// No further requests are wanted: it ends now, or after the response that is under way.
    pub(in crate::connections) fn stop<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> Outcome {
        if self.http2.is_some() {
            return Outcome::Http2(Told::Stop);
        }
        let pending = turn.transport.unacknowledged(self.id);
        if pending == 0 && !self.waits_to_serve() {
            self.finish(turn);
        }
        Outcome::GoesOn
    }

    pub(in crate::connections) fn finish_if_the_client_has<T: Transport>(
        &mut self,
        turn: &mut Turn<'_, T>,
    ) {
        if self.client_finished && !self.waits_to_serve() {
            self.finish(turn);
        }
    }

    /// Nothing more will be sent, and nothing that comes is looked at.
    pub(in crate::connections) fn finish<T: Transport>(&mut self, turn: &mut Turn<'_, T>) {
        if self.finished {
            return;
        }
        self.finished = true;
        self.held = false;
        turn.transport.finish(self.id);
        turn.transport.discard_received(self.id);
        self.wait_for_the_end(turn);
    }

    /// Finished: first the client takes what is sent, then it finishes too.
    pub(super) fn wait_for_the_end<T: Transport>(&mut self, turn: &Turn<'_, T>) {
        if turn.transport.is_handshaking(self.id) {
            return; // Without a session there is nothing to take: its time stays what it was.
        }
        let is_taken = turn.transport.unacknowledged(self.id) == 0;
        let wait = if is_taken {
            Wait::Lingering
        } else {
            Wait::Sending
        };
        self.wait(turn.now, wait);
    }

    /// It is over; `done` when its client has taken everything.
    pub(in crate::connections) fn close(mut self, done: bool, shared: &mut Shared) {
        let done = done && !self.has_failed;
        if done {
            self.count_taken(self.given, &mut shared.server);
        }
        if done {
            self.http.acknowledged(&mut shared.server, 0);
        } else if self.answering.is_some() {
            self.abandon_answering(shared);
            let left = (self.given - self.counted) as usize;
            self.http.acknowledged(&mut shared.server, left);
        }
        self.http.end(&mut shared.server);
        if let Some(stream) = self.stream.take() {
            stream.end(&mut shared.streams);
        }
    }
}
