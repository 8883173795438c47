//! What is to become of the connection of a slot: it goes on in the kernel, the stack takes it on, or its peer is reset.

use exos_filter::handler::web::layout::slot;
use exos_inet::{Duration, Instant};

use super::super::memory::Memory;
use super::super::sent::{FORGOTTEN, SentResponse};

/// A connection on which nothing has come for so long becomes the stack's.
pub(super) const QUIET: Duration = Duration::from_secs(5);
/// So does one on which something is not acknowledged, so that this is sent again.
pub(super) const UNACKNOWLEDGED: Duration = Duration::from_secs(1);

/// What is to become of the connection of a slot.
pub(super) type FateOf = fn(&Memory, Instant, u64) -> Fate;

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    GoesOn,
    /// The stack takes it on, and with it this.
    TakenOn(Option<SentResponse>),
    Reset,
}

/// While the server serves.
pub(super) fn fate(memory: &Memory, now: Instant, at: u64) -> Fate {
    let state = memory.get(at + slot::STATE) as i32;
    if [slot::FREE, slot::DONE].contains(&state) {
        return Fate::GoesOn;
    }
    let since = now.millis().saturating_sub(memory.get(at + slot::TIME));
    let is_over = |bound: Duration| u128::from(since) >= bound.as_millis();
    let (una, nxt) = sent(memory, at);
    let bound = if una == nxt { QUIET } else { UNACKNOWLEDGED };
    if !is_over(bound) {
        return Fate::GoesOn;
    }
    match as_it_is(memory, at) {
        Fate::Reset if !is_over(FORGOTTEN) => Fate::GoesOn,
        fate => fate,
    }
}

/// When it ends.
pub(super) fn last_fate(memory: &Memory, _: Instant, at: u64) -> Fate {
    let is_over = || {
        let (una, nxt) = sent(memory, at);
        una == nxt
    };
    match memory.get(at + slot::STATE) as i32 {
        slot::FREE | slot::DONE => Fate::GoesOn,
        slot::FINISHED if is_over() => Fate::GoesOn,
        _ => as_it_is(memory, at),
    }
}

/// Whether the stack can have a connection that stands.
pub(super) fn as_it_is(memory: &Memory, at: u64) -> Fate {
    let (una, nxt) = sent(memory, at);
    let state = memory.get(at + slot::STATE) as i32;
    let fin = u32::from(state != slot::OPEN);
    match nxt.wrapping_sub(una) {
        // All is acknowledged, and nothing is to be said any more.
        0 if state == slot::FINISHED => Fate::Reset,
        0 => Fate::TakenOn(None),
        out if out == fin => Fate::TakenOn(None),
        _ => Fate::TakenOn(Some(SentResponse::of_slot(memory, at))),
    }
}

/// The first number of ours that the peer of a slot has not acknowledged, and the next.
pub(super) fn sent(memory: &Memory, at: u64) -> (u32, u32) {
    let (_, nxt) = memory.halves(at + slot::RCV);
    let (una, _) = memory.halves(at + slot::UNA);
    (una, nxt)
}
