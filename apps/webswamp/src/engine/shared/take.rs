//! What comes on connections that slots share.

use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet, Reason};

use super::super::clients::Engine;
use super::super::slot::Slot;
use super::connections::{Spoken, Stage};
use super::end::Farewell;
use crate::expect::Expect;
use crate::http2;
use crate::multiplexed::{Code, Loss, News};
use crate::statistics::ErrorKind;
use crate::transport::Transport;

/// What is to be done about what has come.
pub(in super::super) enum Outcome {
    /// A slot's response is whole.
    Answered(u32),
    /// A slot's request is over without.
    Lost(u32, Loss),
    /// The server goes away, having done nothing about these slots' requests, but about others, or not.
    GoingAway {
        code: Code,
        is_first: bool,
        has_taken: bool,
        unasked: Vec<u32>,
    },
}

impl Engine {
    /// News of a connection that slots share.
    pub(in super::super) fn handle_shared(
        &mut self,
        now: Instant,
        token: u64,
        set: EventSet,
        reason: Reason,
        transport: &mut impl Transport,
    ) {
        let Some(at) = self.shared().of_token(token) else {
            return;
        };
        let it = self.shared().get_mut(at);
        let id = it.id.expect("a connection of a token is there");
        it.is_finished |= set.contains(EventSet::FINISHED);
        if set.contains(EventSet::CONNECTED) {
            self.shared_stands(at, id, now, transport);
        }
        // That a connection stands the server's kernel says while the server itself is silent.
        let of_server = [EventSet::READABLE, EventSet::FINISHED, EventSet::CLOSED];
        if of_server.into_iter().any(|one| set.contains(one)) {
            self.shared().get_mut(at).heard = now;
        }
        if set.contains(EventSet::FINISHED) || set.contains(EventSet::CLOSED) {
            self.heard = now;
        }
        if set.contains(EventSet::READABLE) || set.contains(EventSet::FINISHED) {
            self.take_shared(at, id, now, transport);
        }
        if self.shared().of_token(token).is_none() {
            return;
        }
        if set.contains(EventSet::CLOSED) {
            return self.shared_closed(at, reason, now, transport);
        }
        if self.shared().get(at).is_finished {
            return self.lose_shared(at, ErrorKind::Closed, Farewell::Leave, now, transport);
        }
        self.settle(at, now, transport);
    }

    /// Takes all that has come on a connection.
    fn take_shared(
        &mut self,
        at: u32,
        id: ConnectionId,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        loop {
            let shared = self.shared.as_mut().expect("there are connections");
            let it = shared.get_mut(at);
            let Stage::Open(spoken) = &mut it.stage else {
                break;
            };
            let (slots, expect) = (&mut self.slots, &self.behaviour.expect);
            let heard = &mut self.heard;
            let mut hear = |news: News<'_>| {
                // Pings and settings end no silence: they may come of what stands before the server.
                if matches!(news, News::Part(_) | News::Lost { .. }) {
                    *heard = now;
                }
                note(slots, expect, now, news, &mut outcomes);
            };
            let (taken, went) = match spoken {
                Spoken::Http2(http) => {
                    let (taken, went) = take_bytes(http, transport.readable(id), &mut hear);
                    transport.consume(id, taken);
                    (taken, went)
                }
                Spoken::Http3 => match transport.http3(id) {
                    Some(http) => (0, http.take(&mut hear).map_err(|fault| fault.reason())),
                    None => (0, Ok(())),
                },
            };
            let allowed = it.requests(transport).and_then(|it| it.allowed());
            if let Some(streams) = allowed {
                self.statistics.streams_allowed(streams);
            }
            for outcome in outcomes.drain(..) {
                self.go_by(outcome, at, now, transport);
            }
            if let Err(fault) = went {
                self.spoilt_shared(at, fault, now, transport);
                break;
            }
            if taken == 0 {
                break;
            }
        }
        self.outcomes = outcomes;
    }

    fn go_by(&mut self, outcome: Outcome, at: u32, now: Instant, transport: &mut impl Transport) {
        match outcome {
            Outcome::Answered(slot) => {
                self.shared().clear_slot(slot);
                self.count_answer(slot, now);
                self.is_no_longer_busy(slot);
                self.go_on(slot, now, transport);
            }
            Outcome::Lost(slot, why) => {
                self.shared().clear_slot(slot);
                let kind = match why {
                    Loss::Reset(code) => {
                        let intended = self.slots[slot as usize].intended;
                        self.statistics.stream_reset(intended, code);
                        ErrorKind::StreamReset
                    }
                    Loss::Malformed => ErrorKind::Malformed,
                };
                self.fail(slot, kind, now, transport);
            }
            Outcome::GoingAway {
                code,
                is_first,
                has_taken,
                unasked,
            } => {
                if is_first {
                    self.statistics.went_away(now, code);
                }
                let it = self.shared().get_mut(at);
                it.is_refused |= code.is_error;
                self.shared().touch(at);
                for slot in unasked {
                    self.ask_again(slot, at, has_taken, now, transport);
                }
            }
        }
    }

    /// A server that goes away has done nothing about a slot's request, so that it may be asked elsewhere (RFC 9113 §8.7). From
    /// servers that do nothing about anybody's that is taken once.
    fn ask_again(
        &mut self,
        slot: u32,
        at: u32,
        has_taken: bool,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let shared = self.shared();
        shared.clear_slot(slot);
        if !has_taken && !shared.may_ask_again(slot) {
            return self.fail(slot, ErrorKind::GoAway, now, transport);
        }
        if !shared.get(at).is_retired {
            for waiting in shared.retire(at) {
                self.enlist(waiting, now, transport);
            }
        }
        let intended = self.slots[slot as usize].intended;
        self.statistics.asked_again(intended);
        self.enlist(slot, now, transport);
    }
}

/// Has HTTP/2 take what has come: how many bytes it takes, and whether the server keeps to the rules. Where it does not, it is told so
/// with what leaves next.
fn take_bytes(
    http: &mut http2::Connection,
    bytes: &[u8],
    hear: &mut impl FnMut(News<'_>),
) -> (usize, Result<(), &'static str>) {
    let mut taken = 0;
    loop {
        match http.take(&bytes[taken..]) {
            Ok(Some((count, news))) => {
                taken += count;
                hear(news);
            }
            Ok(None) => return (taken, Ok(())),
            Err(fault) => {
                http.go_away(fault.code());
                return (taken, Err(fault.reason()));
            }
        }
    }
}

/// Notes what came for its slot.
fn note(
    slots: &mut [Slot],
    expect: &Expect,
    now: Instant,
    news: News<'_>,
    outcomes: &mut Vec<Outcome>,
) {
    match news {
        News::Nothing => (),
        News::Part(part) => {
            let it = &mut slots[part.slot as usize];
            it.framing += part.framing;
            if let Some(status) = part.status {
                it.first = now;
                it.status = status;
                it.summing.begin(expect);
            }
            if !part.content.is_empty() {
                it.content += part.content.len() as u64;
                it.summing.add(part.content);
            }
            if part.is_end {
                outcomes.push(Outcome::Answered(part.slot));
            }
        }
        News::Lost { slot, why } => outcomes.push(Outcome::Lost(slot, why)),
        News::GoingAway {
            code,
            is_first,
            has_taken,
            unasked,
        } => outcomes.push(Outcome::GoingAway {
            code,
            is_first,
            has_taken,
            unasked,
        }),
    }
}
