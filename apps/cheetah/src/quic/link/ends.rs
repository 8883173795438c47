//! How requests end before they are answered, and a connection with all of its own.

use bytes::Bytes;
use exos_http2::limits::RESETS;
use exos_http3::{ErrorCode, Fault, frame};
use exos_inet::tcp::{EventSet, Reason};
use quinn_proto::{StreamId, VarInt};

use super::Link;
use crate::quic::shared::Shared;

impl Link {
    /// Nothing of what comes of a request is looked at any more.
    pub(in crate::quic) fn discard(&mut self, stream: StreamId) {
        // RFC 9114 §4.1: it is said with an error that is none. One that has come whole cannot be stopped, and need not.
        let code = VarInt::from_u32(ErrorCode::NO_ERROR.0);
        let _ = self.quic.recv_stream(stream).stop(code);
    }

    /// Ends a stream in both directions, if they have not ended.
    pub(super) fn refuse(&mut self, stream: StreamId, code: ErrorCode) {
        let code = VarInt::from_u32(code.0);
        let _ = self.quic.recv_stream(stream).stop(code);
        let _ = self.quic.send_stream(stream).reset(code);
    }

    /// The client has given up a request.
    pub(super) fn cancel(&mut self, stream: StreamId, shared: &mut Shared) -> Result<(), Fault> {
        if self.requests.get(stream).is_none() {
            return Ok(());
        }
        shared.counters.given_up += 1;
        self.give_up(stream, ErrorCode::REQUEST_CANCELLED, shared);
        self.spend(shared)
    }

    /// A request came to nothing, which may not be too often: each costs as much as one that is answered (CVE-2023-44487).
    pub(super) fn spend(&mut self, shared: &Shared) -> Result<(), Fault> {
        let second = (shared.now.micros() / 1_000_000) as u32;
        match self.resets.take(RESETS, second) {
            true => Ok(()),
            false => Err(Fault::WasteFlood),
        }
    }

    /// Gives up a request: the server hears that it is over.
    pub(in crate::quic) fn give_up(
        &mut self,
        stream: StreamId,
        code: ErrorCode,
        shared: &mut Shared,
    ) {
        self.refuse(stream, code);
        self.end(stream, EventSet::CLOSED, Reason::Reset, shared);
    }

    /// The server gives a request up.
    pub(in crate::quic) fn abort(
        &mut self,
        stream: StreamId,
        code: ErrorCode,
        shared: &mut Shared,
    ) {
        self.refuse(stream, code);
        self.end(stream, EventSet::NONE, Reason::Aborted, shared);
    }

    pub(super) fn end(
        &mut self,
        stream: StreamId,
        set: EventSet,
        reason: Reason,
        shared: &mut Shared,
    ) {
        let Some(id) = self.requests.remove(stream) else {
            return;
        };
        self.active = shared.now;
        let request = shared.requests.remove(id);
        let is_known = request.is_some_and(|request| {
            self.waiting.left(request.waiting_len());
            if !request.has_ended {
                self.discard(stream);
            }
            let is_known = request.is_known;
            shared.requests.put_away(request);
            is_known
        });
        if is_known && !set.is_empty() {
            shared.news.tell(id, set, reason);
        }
        // What is said of one that came to nothing leaves before: the connection is closed when it is looked at the next time.
        if self.is_going && self.requests.is_empty() && reason == Reason::Done {
            self.close(ErrorCode::NO_ERROR, shared);
        }
    }

    /// It is over, and so are its requests, for this reason.
    pub(in crate::quic) fn drop_requests(&mut self, reason: Reason, shared: &mut Shared) {
        self.is_over = true;
        for (_, id) in std::mem::take(&mut self.requests).iter() {
            let Some(request) = shared.requests.remove(id) else {
                continue;
            };
            if request.is_known {
                shared.news.tell(id, EventSet::CLOSED, reason);
            }
            shared.requests.put_away(request);
        }
    }

    // Its end.

    pub(super) fn fail(&mut self, fault: Fault, shared: &mut Shared) {
        shared.counters.count_fault(fault);
        self.close(fault.code(), shared);
    }

    /// Ends it, with all its requests.
    pub(in crate::quic) fn close(&mut self, code: ErrorCode, shared: &mut Shared) {
        if self.is_over {
            return;
        }
        self.drop_requests(Reason::Reset, shared);
        let code = VarInt::from_u32(code.0);
        self.quic.close(shared.time, code, Bytes::new());
    }

    /// No more requests are wanted: those that are under way are answered.
    pub(in crate::quic) fn go_away(&mut self, shared: &mut Shared) {
        if self.is_going || self.is_over {
            return;
        }
        self.is_going = true;
        if !self.has_stood {
            return self.close(ErrorCode::NO_ERROR, shared);
        }
        // One without requests, too, hears that what it asks from now on may be asked elsewhere (RFC 9114 §5.2), before it is closed.
        self.control.push(frame::go_away(self.next_stream));
        self.control.send(&mut self.quic);
    }
}
