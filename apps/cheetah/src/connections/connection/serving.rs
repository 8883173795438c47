//! Requests of a connection: readable bytes to HTTP, its responses to the transport.

use exos::requests::Requests;
use exos_buf::Slice;
use exos_inet::Instant;

use super::{Connection, Outcome, Turn};
use crate::connections::bounds::Pace;
use crate::connections::http2::Http2;
use crate::connections::transport::Transport;
use crate::connections::wait::Wait;
use crate::http::{Attempt, Missing, Next};
use crate::limits::{QUEUE_LEN_MAX, REQUESTS_AT_ONCE};
use crate::site::Wanted;

impl Connection {
    /// Answers a request that has waited, and those behind it; `failed` is what could not be read.
    pub(in crate::connections) fn resume<T: Transport>(
        &mut self,
        failed: Option<&Wanted>,
        turn: &mut Turn<'_, T>,
    ) -> Outcome {
        self.wait(turn.now, Wait::Sending);
        let missing = self.serve(Attempt::after_waiting(failed), turn);
        self.finish_if_the_client_has(turn);
        missing.into()
    }

    /// Hands the readable bytes to HTTP, and its responses to the transport. Gives what the first request left waits for.
    pub(in crate::connections) fn serve<T: Transport>(
        &mut self,
        mut attempt: Attempt,
        turn: &mut Turn<'_, T>,
    ) -> Option<Box<Missing>> {
        loop {
            match self.serve_some(attempt, turn) {
                Served::TailQueued => attempt.has_waited = false,
                Served::AllThereIs => return None,
                Served::Waits(missing) => return Some(missing),
            }
        }
    }

    /// Hands the readable bytes to HTTP, up to a response whose content is to be read.
    fn serve_some<T: Transport>(&mut self, attempt: Attempt, turn: &mut Turn<'_, T>) -> Served {
        let (now, id) = (turn.now, self.id);
        let (shared, transport) = (&mut *turn.shared, &mut *turn.transport);
        let queued = transport.unacknowledged(id);
        let room = QUEUE_LEN_MAX.saturating_sub(queued);
        let bytes = transport.readable(id);
        let has_waited = attempt.has_waited || self.held;
        if self.http.is_between_requests() && !has_waited {
            self.begun = now;
        }
        let attempt = attempt.of(self.peer, self.begun, now);
        let mut attempt = attempt
            .by_https(self.is_encrypted)
            .on_stream(self.on_stream);
        // Over TLS it is agreed on by ALPN alone (RFC 9113 §3.2).
        let is_plain = !self.is_encrypted && !self.is_stream();
        if self.is_encrypted {
            attempt.tls = transport.tls(id);
            attempt.is_early = transport.is_early(id);
        }
        attempt.may_be_http2 = self.given == 0 && shared.speaks_http2 && is_plain;
        let bytes_len = bytes.len();
        let http = &mut self.http;
        let hits = shared.server.counters().cache_hits;
        let handled = http.handle_again(&mut shared.server, bytes, room, attempt, &mut shared.out);
        // No other is rendered for the kernel, so none need be tried.
        if let Some(in_kernel) = &mut shared.in_kernel
            && !self.is_encrypted
            && !self.is_stream()
            && handled.responses == 1
            && handled.are_for_all
            && handled.consumed == bytes_len
            && shared.server.counters().cache_hits == hits + 1
            && shared.out.iter().map(Slice::len).sum::<usize>() <= Requests::RESPONSE_MAX
        {
            in_kernel.note(transport.readable(id));
        }
        if queued == 0 {
            // Nothing was asked of the client until now.
            self.pace = Pace::new(now, self.given);
        }
        self.send_out(&mut shared.out, transport);
        let left = bytes_len - handled.consumed;
        transport.consume(id, handled.consumed);
        if handled.responses > 0 {
            // What there is of another request came with the last one.
            self.begun = now;
        }
        let has_tail = matches!(handled.next, Next::Tail(_) | Next::Ask(_));
        let is_last = matches!(handled.next, Next::Close);
        if is_last || (shared.stopping && handled.responses > 0 && !has_tail) {
            // The FIN rides on the last data, and this request's acknowledgement on the first.
            self.finish(turn);
        }
        self.held = matches!(handled.next, Next::Send);
        if self.held && handled.responses == REQUESTS_AT_ONCE {
            // Others have theirs before it goes on.
            turn.shared.unread.push(id);
        }
        match handled.next {
            Next::Http2 => {
                self.http2 = Some(Box::new(Http2::new(now)));
                return Served::AllThereIs;
            }
            Next::Ask(asking) => match self.begin_answering(asking, turn) {
                true => return Served::TailQueued,
                false => return Served::AllThereIs,
            },
            Next::Tail(tail) => match self.begin_stream(*tail, turn) {
                true => return Served::TailQueued,
                false => return Served::AllThereIs,
            },
            Next::Wait(missing) if !self.finished => {
                self.wait_for_content(&missing, now);
                return Served::Waits(missing);
            }
            _ => {}
        }
        if handled.responses > 0 && !self.finished {
            self.wait(now, Wait::Sending);
        } else if handled.consumed > 0 || !self.http.is_between_requests() {
            // Part of a request: its time runs on from where it was, unless it is the first of it.
            if self.wait == Wait::Idle {
                self.wait(now, Wait::Request);
            }
            let bounds = &turn.shared.bounds;
            if bounds.head_rate.is_some() && self.wait == Wait::Request && left > 0 {
                self.deadline = self.begun + bounds.head_time(left);
            }
        }
        Served::AllThereIs
    }

    /// Queues what HTTP has given out.
    #[inline]
    pub(in crate::connections) fn send_out(
        &mut self,
        out: &mut Vec<Slice>,
        transport: &mut impl Transport,
    ) {
        let mut slices = out.drain(..);
        if self.is_stream()
            && let (Some(opening), Some(fields)) = (slices.next(), slices.next())
        {
            self.send_head(&[opening, fields], transport);
        }
        for slice in slices {
            self.send(slice, transport);
        }
    }

    /// Queues the header block of a stream's response: how many bytes of it count as queued.
    pub(in crate::connections) fn send_head(
        &mut self,
        block: &[Slice],
        transport: &mut impl Transport,
    ) -> usize {
        let len = transport.send_head(self.id, block);
        self.given += len as u64;
        len
    }

    #[inline]
    pub(in crate::connections) fn send(&mut self, slice: Slice, transport: &mut impl Transport) {
        self.given += slice.len() as u64;
        transport.send(self.id, slice);
    }

    /// Nothing was asked of the client until now.
    pub(in crate::connections) fn begin_pace(&mut self, now: Instant) {
        self.pace = Pace::new(now, self.given);
    }

    /// An application's answer is queued whole: what there is of another request begins now.
    pub(in crate::connections) fn begin_next<T: Transport>(&mut self, turn: &mut Turn<'_, T>) {
        self.begun = turn.now;
        if self.http.is_closing() || turn.shared.stopping {
            self.finish(turn);
        }
        let pending = turn.transport.unacknowledged(self.id);
        self.http.acknowledged(&mut turn.shared.server, pending);
    }
}

/// What became of readable bytes.
enum Served {
    /// They are answered as far as they can be now.
    AllThereIs,
    /// A response whose content was to be read is queued whole: there may be more.
    TailQueued,
    /// The first request left waits for this.
    Waits(Box<Missing>),
}
