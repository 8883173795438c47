//! What is to become of the connection of a slot: it goes on in the kernel, the stack takes it on, or its peer is reset.

use exos_filter::handler::web::layout::{Entries, slot};
use exos_inet::{Duration, Instant};

use super::super::memory::Memory;
use super::super::sent::SentCopy;
use super::sent;

/// A connection on which nothing has come for so long becomes the stack's.
pub(super) const QUIET: Duration = Duration::from_secs(5);
/// So does one on which something is not acknowledged, so that this is sent again.
pub(super) const UNACKNOWLEDGED: Duration = Duration::from_secs(1);
/// A connection that the stack cannot have for want of its response, or whose peer does not end it, is reset then.
pub(in crate::requests) const FORGOTTEN: Duration = Duration::from_secs(60);

/// What is to become of the connection of a slot.
pub(super) type FateOf = fn(Entries, &Memory, Instant, u64) -> Fate;

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    GoesOn,
    /// The stack takes it on, and with it this.
    TakenOn(Option<SentCopy>),
    Reset,
}

/// While the server serves.
pub(super) fn fate(entries: Entries, memory: &Memory, now: Instant, at: u64) -> Fate {
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
    let is_partly = una != nxt && memory.half(at + slot::GENERATION) & slot::PARTLY != 0;
    match as_it_is(entries, memory, at) {
        Fate::Reset if !is_over(FORGOTTEN) && !is_partly => Fate::GoesOn,
        fate => fate,
    }
}

/// When it ends.
pub(super) fn last_fate(entries: Entries, memory: &Memory, _: Instant, at: u64) -> Fate {
    let is_over = || {
        let (una, nxt) = sent(memory, at);
        una == nxt
    };
    match memory.get(at + slot::STATE) as i32 {
        slot::FREE | slot::DONE => Fate::GoesOn,
        slot::FINISHED if is_over() => Fate::GoesOn,
        _ => as_it_is(entries, memory, at),
    }
}

/// Whether the stack can have a connection.
fn as_it_is(entries: Entries, memory: &Memory, at: u64) -> Fate {
    let (una, nxt) = sent(memory, at);
    // Of these all data is acknowledged.
    let needs_no_copy = match memory.get(at + slot::STATE) as i32 {
        slot::OPEN => una == nxt,
        slot::LAST_ACK => una.wrapping_add(1) == nxt,
        _ => false,
    };
    match SentCopy::of_slot(entries, memory, at) {
        _ if needs_no_copy => Fate::TakenOn(None),
        None => Fate::Reset,
        some => Fate::TakenOn(some),
    }
}
