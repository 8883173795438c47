//! Connections that are over, and what becomes of the requests on them.

use std::collections::VecDeque;

use exos_inet::Instant;
use exos_inet::tcp::Reason;

use super::super::clients::Engine;
use super::connections::{SharedConnections, Spoken, Stage};
use crate::statistics::{EARLY_LEFT, ErrorKind, Handshake};
use crate::transport::Transport;

/// What is done with a connection that is given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Nothing: it is gone.
    Gone,
    /// It ends in good order.
    Leave,
    /// It is reset.
    Abort,
}

impl Engine {
    pub(in super::super) fn shared(&mut self) -> &mut SharedConnections {
        self.shared.as_mut().expect("slots share connections")
    }

    /// A connection is over whose peer has ended it.
    pub(super) fn shared_closed(
        &mut self,
        at: u32,
        reason: Reason,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let is_opening = matches!(self.shared().get(at).stage, Stage::Opening);
        let (kind, word) = match reason {
            Reason::Refused => (ErrorKind::Refused, "reset"),
            Reason::Unreachable => (ErrorKind::Unreachable, "unreachable"),
            Reason::TimedOut if is_opening => (ErrorKind::ConnectTimeout, "timeout"),
            Reason::TimedOut => (ErrorKind::Timeout, "timeout"),
            Reason::Reset | Reason::Aborted => (ErrorKind::Reset, "reset"),
            Reason::Done => (ErrorKind::Closed, "closed"),
        };
        match self.shared().get(at).stage {
            Stage::Securing => self.shared_not_secured(at, word, Farewell::Gone, now, transport),
            _ => self.lose_shared(at, kind, Farewell::Gone, now, transport),
        }
    }

    /// A connection is secured, or will not be for this reason.
    pub(in super::super) fn shared_handshake(
        &mut self,
        now: Instant,
        token: u64,
        handshake: Result<&Handshake, &'static str>,
        transport: &mut impl Transport,
    ) {
        let Some(at) = self.shared().of_token(token) else {
            return;
        };
        match handshake {
            Ok(handshake) => {
                self.heard = now;
                let it = self.shared().get_mut(at);
                it.heard = now;
                let begun = it.begun;
                self.statistics.secured(begun, handshake);
                // On one that was early it has been asked already, but for what had to wait.
                self.shared().get_mut(at).is_early = false;
                if self.shared_awaits_handshake(token) {
                    self.open_for_requests(at, spoken_by(transport));
                }
                self.settle(at, now, transport);
            }
            Err(reason) => self.shared_not_secured(at, reason, Farewell::Abort, now, transport),
        }
    }

    /// What waits is asked before a connection is secured, if nothing of it is unsafe; and what comes until then, up to what is unsafe.
    pub(in super::super) fn shared_early(
        &mut self,
        now: Instant,
        token: u64,
        transport: &mut impl Transport,
    ) {
        let Some(at) = self.shared().of_token(token) else {
            return;
        };
        let shared = self.shared.as_ref().expect("slots share connections");
        let mut waiting = shared.get(at).waiting.iter();
        if waiting.all(|slot| self.is_safe(*slot)) {
            self.shared().get_mut(at).is_early = true;
            self.open_for_requests(at, spoken_by(transport));
            self.settle(at, now, transport);
        }
    }

    /// A connection is to be secured, or secured as it is opened.
    pub(in super::super) fn shared_awaits_handshake(&self, token: u64) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| {
            let at = shared.of_token(token);
            at.is_some_and(|at| matches!(shared.get(at).stage, Stage::Opening | Stage::Securing))
        })
    }

    fn shared_not_secured(
        &mut self,
        at: u32,
        reason: &'static str,
        farewell: Farewell,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let it = self.shared().get_mut(at);
        it.is_early = false;
        let begun = it.begun;
        self.statistics.not_secured(begun, reason);
        self.lose_shared(at, ErrorKind::Handshake, farewell, now, transport);
    }

    /// The server does what no server may; it hears so.
    pub(super) fn spoilt_shared(
        &mut self,
        at: u32,
        fault: &'static str,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        self.statistics.server_fault(now, fault);
        let it = self.shared().get_mut(at);
        if let (Some(id), Some(http)) = (it.id, it.http2()) {
            for slice in http.poll_out() {
                transport.send(id, &slice);
            }
        }
        if self.shared().get_mut(at).is_idle(transport) {
            // What went before it was answered.
            self.statistics.failed(ErrorKind::Malformed, now, now);
        }
        self.lose_shared(at, ErrorKind::Malformed, Farewell::Leave, now, transport);
    }

    /// A connection is of no use any more. What was asked on it fails; what has yet to be is asked on another, or fails with the
    /// connection that was opened for it.
    pub(super) fn lose_shared(
        &mut self,
        at: u32,
        kind: ErrorKind,
        farewell: Farewell,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let waiting = self.shared().retire(at);
        let it = self.shared().get_mut(at);
        let was_open = matches!(it.stage, Stage::Open(_));
        let asked = it.requests(transport).map(|it| it.take_slots());
        let asked = asked.unwrap_or_default();
        let kind = match kind {
            ErrorKind::Closed if it.is_refused => ErrorKind::GoAway,
            kind => kind,
        };
        self.forget_shared(at, farewell, transport);
        for slot in asked {
            self.shared().clear_slot(slot);
            self.fail(slot, kind, now, transport);
        }
        for slot in waiting {
            self.shared().clear_slot(slot);
            match was_open {
                true => self.enlist(slot, now, transport),
                false => self.fail(slot, kind, now, transport),
            }
        }
    }

    /// A connection on which all has been answered ends.
    pub(super) fn leave_shared(&mut self, at: u32, transport: &mut impl Transport) {
        self.forget_shared(at, Farewell::Leave, transport);
    }

    /// A connection ends: what was asked on it left with the hello, and the handshake is not over.
    fn early_left(&mut self, at: u32) {
        let it = self.shared().get_mut(at);
        let (is_early, begun) = (std::mem::take(&mut it.is_early), it.begun);
        if is_early {
            self.statistics.not_secured(begun, EARLY_LEFT);
        }
    }

    fn forget_shared(&mut self, at: u32, farewell: Farewell, transport: &mut impl Transport) {
        self.early_left(at);
        let Some(id) = self.shared().remove(at) else {
            return;
        };
        self.connections -= 1;
        match farewell {
            Farewell::Gone => (),
            Farewell::Leave => transport.leave(id),
            Farewell::Abort => transport.abort(id),
        }
    }

    /// A slot's request has taken too long.
    pub(in super::super) fn shared_timed_out(
        &mut self,
        slot: u32,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let since = self.slots[slot as usize].since;
        let Some(at) = self.shared().of_slot(slot) else {
            return self.fail(slot, ErrorKind::Timeout, now, transport);
        };
        let it = self.shared().get(at);
        let is_silent = it.heard <= since;
        match it.stage {
            Stage::Opening => self.shared_late(slot, at, ErrorKind::ConnectTimeout, now, transport),
            Stage::Securing => self.shared_late(slot, at, ErrorKind::Handshake, now, transport),
            Stage::Open(_) if is_silent => self.shared_silent(slot, at, now, transport),
            Stage::Open(_) => self.fail(slot, ErrorKind::Timeout, now, transport),
        }
    }

    /// Nothing has come on a connection since a request was asked, whose time is over. Nothing more is asked there; what was has
    /// the rest of its time, and the connection ends with the last of it.
    fn shared_silent(&mut self, slot: u32, at: u32, now: Instant, transport: &mut impl Transport) {
        let waiting = self.shared().retire(at);
        self.fail(slot, ErrorKind::Timeout, now, transport);
        self.enlist_others(slot, waiting, now, transport);
        let it = self.shared().get_mut(at);
        if matches!(it.stage, Stage::Open(_)) && it.is_idle(transport) {
            self.forget_shared(at, Farewell::Abort, transport);
        }
    }

    /// A request has waited too long for a connection that does not come to stand. The connection is given up when it had as long,
    /// or nothing else waits for it: requests that have time left wait for another then.
    fn shared_late(
        &mut self,
        slot: u32,
        at: u32,
        kind: ErrorKind,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let timeout = self.behaviour.timeout;
        let it = self.shared().get(at);
        let (begun, is_securing) = (it.begun, matches!(it.stage, Stage::Securing));
        if begun + timeout > now && it.waiting.len() > 1 {
            return self.fail(slot, kind, now, transport);
        }
        if is_securing {
            self.statistics.not_secured(begun, "timeout");
        }
        let waiting = self.shared().retire(at);
        self.forget_shared(at, Farewell::Abort, transport);
        // Those whose time is over as well open no other connection.
        let (late, in_time): (VecDeque<u32>, VecDeque<u32>) = waiting
            .into_iter()
            .partition(|slot| self.slots[*slot as usize].since + timeout <= now);
        for slot in late {
            self.shared().clear_slot(slot);
            self.fail(slot, kind, now, transport);
        }
        self.enlist_others(slot, in_time, now, transport);
    }

    /// Has requests that waited for a connection wait for another, but for this slot's.
    fn enlist_others(
        &mut self,
        slot: u32,
        waiting: VecDeque<u32>,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        for &other in waiting.iter().filter(|other| **other != slot) {
            self.shared().clear_slot(other);
            self.enlist(other, now, transport);
        }
    }

    /// A slot's request is given up, wherever it is.
    pub(in super::super) fn drop_request(&mut self, slot: u32, transport: &mut impl Transport) {
        let shared = self.shared();
        let Some(at) = shared.of_slot(slot) else {
            return;
        };
        shared.clear_slot(slot);
        let it = shared.get_mut(at);
        it.waiting.retain(|waiting| *waiting != slot);
        if let Some(requests) = it.requests(transport) {
            requests.cancel(slot);
        }
        shared.touch(at);
    }

    /// Resets connections until no more than these are left.
    pub(in super::super) fn abort_shared(&mut self, left: usize, transport: &mut impl Transport) {
        for at in 0..self.shared().places() {
            if self.connections <= left {
                return;
            }
            self.shared().get_mut(at).is_early = false; // The load ends: no handshake has failed.
            self.forget_shared(at, Farewell::Abort, transport);
        }
    }
}

/// What is spoken on connections that share requests.
fn spoken_by(transport: &impl Transport) -> Spoken {
    match transport.speaks_http3() {
        true => Spoken::Http3,
        false => Spoken::Http2(Box::default()),
    }
}
