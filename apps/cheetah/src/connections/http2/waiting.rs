//! What a connection of HTTP/2 waits for, and what becomes of it when that has not come in time.

use exos_inet::Instant;
use exos_program::Timed as _;

use super::Http2;
use super::driver::Driver;
use crate::connections::connection::{Outcome, Turn};
use crate::connections::transport::Transport;
use crate::connections::wait::Wait;
use crate::limits::{GOODBYE_TIME, WINDOW_REST_LEN};

impl<T: Transport> Driver<'_, T> {
    pub(super) fn follow(&mut self) -> Outcome {
        let mut turn = Turn {
            now: self.now,
            shared: self.shared,
            transport: self.transport,
        };
        if !self.connection.follow_frames(&mut turn) {
            return Outcome::Broken;
        }
        let pending = self.transport.unacknowledged(self.connection.id());
        if self.connection.is_finished() {
            if pending == 0 && self.connection.waits_for() != Wait::Lingering {
                self.connection.wait(self.now, Wait::Lingering);
            }
            return Outcome::GoesOn;
        }
        let (mut wait, mut until) = self.what_is_next(pending);
        let is_stalled = self.http2.core.receive_room() < WINDOW_REST_LEN;
        let stalled_since = self.http2.stalled_since.unwrap_or(self.now);
        self.http2.stalled_since = is_stalled.then_some(stalled_since);
        // Whatever else goes on: a client that sends a body may wait for its answer, or to send it.
        let of_bodies = [self.http2.held_since(), self.http2.stalled_since];
        if let Some(since) = of_bodies.into_iter().flatten().min()
            && since + Wait::Body.time() < until
        {
            (wait, until) = (Wait::Body, since + Wait::Body.time());
        }
        self.connection.wait_until(wait, until);
        Outcome::GoesOn
    }

    /// What is waited for, but for bodies, and until when; `pending` bytes are not taken.
    fn what_is_next(&mut self, pending: usize) -> (Wait, Instant) {
        if self.http2.core.is_telling() {
            return (Wait::Idle, self.http2.going_since + GOODBYE_TIME);
        }
        let idle_until = self.http2.active.max(self.http2.progressed) + Wait::Idle.time();
        let owes = pending > 0 || !self.http2.schedule.is_empty();
        let owes_since = owes.then(|| self.http2.owes_since.unwrap_or(self.now));
        self.http2.owes_since = owes_since;
        let (wait, since) = if let Some(since) = owes_since {
            (Wait::Sending, since.max(self.http2.progressed))
        } else if let Some(begun) = self.http2.frame_begun {
            (Wait::Request, begun)
        } else {
            // An idle connection keeps nothing of long requests.
            self.http2.core.shrink();
            return (Wait::Idle, idle_until);
        };
        let mut until = since
            + match wait {
                Wait::Request => self.shared.bounds.head_time(self.begun_len()),
                _ => wait.time(),
            };
        if wait == Wait::Request && self.http2.streams.is_empty() {
            // Frames that bring nothing do not prolong the wait for a request.
            until = until.min(idle_until);
        }
        (wait, until)
    }

    /// Bytes that have come of the header block or the frame that is not whole.
    fn begun_len(&self) -> usize {
        let id = self.connection.id();
        self.transport.readable(id).len() + self.http2.core.headers_len()
    }

    /// A frame or a header block was given less time than without a least rate, and took longer.
    fn is_slow_head(&self) -> bool {
        let begun = self.http2.frame_begun;
        let has_rate = self.shared.bounds.head_rate.is_some();
        has_rate && begun.is_some_and(|begun| self.now < begun + Wait::Request.time())
    }

    pub(super) fn end_wait(&mut self) -> Outcome {
        let wait = self.connection.waits_for();
        let has_streams = !self.http2.streams.is_empty();
        match wait {
            Wait::Idle if self.http2.core.is_telling() => {}
            Wait::Idle if has_streams => {
                // They have times of their own.
                self.http2.active = self.now;
                return self.follow();
            }
            Wait::Body => {
                self.end_body_wait();
                return self.go_on();
            }
            Wait::Request if self.is_slow_head() => self.shared.counters.slow_heads += 1,
            Wait::Request | Wait::Idle => self.shared.ends.count(wait, wait == Wait::Idle),
            _ => {
                self.shared.ends.count(wait, false);
                return Outcome::Broken;
            }
        }
        let Http2 { core, frames, .. } = &mut *self.http2;
        core.finish_going(frames);
        if wait == Wait::Request {
            self.drop_streams();
            self.http2.has_failed = true;
        }
        self.go_on()
    }

    /// A body was to come, or to be taken, for which others wait.
    fn end_body_wait(&mut self) {
        let time = Wait::Body.time();
        let is_over = |since| self.now >= since + time;
        if self.http2.held_since().is_some_and(is_over) {
            self.shared.ends.count(Wait::Body, false);
            self.http2.release(Some(time), self.now);
        }
        if self.http2.stalled_since.is_some_and(is_over) {
            self.end_longest_body();
        }
    }

    /// Bodies that nobody takes have used up what their client may send: the request goes of whose body most is kept, of several the first,
    /// as if its own time were over, so that others go on.
    fn end_longest_body(&mut self) {
        let streams = self.http2.streams.iter().rev();
        let Some(longest) = streams.max_by_key(|stream| stream.held_from_others()) else {
            return;
        };
        let Some(exchange) = longest.exchange() else {
            return;
        };
        self.shared.counters.http2.stalled_bodies += 1;
        self.http2.stalled_since = None;
        self.with(exchange, |connection, turn| connection.end_wait(turn));
    }

    /// Its session of TLS has failed: nothing of what was sent will be taken.
    pub(super) fn end_failed(&mut self) -> Outcome {
        self.drop_streams();
        self.http2.has_failed = true;
        let mut turn = Turn {
            now: self.now,
            shared: self.shared,
            transport: self.transport,
        };
        self.connection.ends_failed(&mut turn);
        Outcome::GoesOn
    }
}
