//! Grants whose holder has gone after saying that another program of theirs follows: nobody gets their packets until it is there.
//!
//! What is *promised* is held as before; when its last holder goes, however that happens, it is *awaited*: in the books, of
//! no program ([`NOBODY`](crate::limits::NOBODY)), so that the packet path drops its packets in silence and nobody else gets them. Programs of the
//! same user may claim it, or what meets it; then, or when its time is over, it is awaited no more. Awaited grants count as
//! the user's, and are whole addresses' alone, of which an interface has few.

use std::collections::BTreeMap;
use std::time::Duration;

use exos_xok::message::GrantId;

use super::grant::{Owner, SlotId};
use crate::clock::Now;

/// Who had a grant for which a successor is awaited, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awaited {
    /// The program that has gone.
    pub owner: Owner,
    /// When it is nobody's.
    pub until: Now,
}

/// What is promised, and what is awaited.
#[derive(Default)]
pub(super) struct Successors {
    pub(super) promised: BTreeMap<(SlotId, GrantId), Duration>,
    pub(super) awaited: BTreeMap<GrantId, Awaited>,
}

impl Successors {
    /// The grant is not the slot's any more, or is given back: it leaves nothing behind.
    pub(super) fn forget(&mut self, slot: SlotId, grant: GrantId) {
        self.promised.remove(&(slot, grant));
    }

    /// The grant has a holder, or is gone.
    pub(super) fn end(&mut self, grant: GrantId) {
        self.awaited.remove(&grant);
    }

    pub(super) fn awaited(&self, grant: GrantId) -> Option<&Awaited> {
        self.awaited.get(&grant)
    }

    pub(super) fn owners(&mut self) -> impl Iterator<Item = &mut Owner> {
        self.awaited.values_mut().map(|awaited| &mut awaited.owner)
    }
}
