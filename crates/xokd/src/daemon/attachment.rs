//! What the daemon knows of a slot beside what the ledger does: its connection, its record, its place in the kernel, and
//! what is to become of it.

use std::collections::VecDeque;

use exos_host::shared::LentMemory;
use exos_xok::message::{GrantId, Revoked};

use super::answers::RequestId;
use crate::clock::Now;
use crate::server::ConnectionId;
use crate::slot::SlotPair;
use crate::state;

/// A program's slot, as far as it is not in the ledger.
#[derive(Debug)]
pub(super) struct Attachment {
    /// What it has, as a successor of this daemon is told.
    pub(super) record: state::Slot,
    /// Its connection; `None` while an adopted program has not come back.
    pub(super) connection: Option<ConnectionId>,
    /// The interface, by index.
    pub(super) interface: u32,
    /// Its place in the kernel, kept for what it holds; `None` when it has a queue of the interface itself.
    pub(super) place: Option<SlotPair>,
    /// Tells who has its memory; `None` for what an earlier daemon lent.
    pub(super) memory: Option<LentMemory>,
    /// When it is taken because its program has not come back.
    pub(super) ends: Option<Now>,
    /// What it is asked to give back.
    pub(super) revoked: Revocations,
    /// What is to become of its filters.
    pub(super) changes: Changes,
}

/// What becomes of a slot's filters.
#[derive(Debug)]
pub(super) enum Change {
    /// One that the ledger has comes into force, and the asker is told.
    Claim(RequestId, GrantId),
    /// These go, and anyone who asked for it is told: the program, or nobody when policy took them.
    Release(Option<RequestId>, Vec<GrantId>),
    /// They are as policy says now.
    Renew,
}

impl Change {
    /// What is to go.
    pub(super) fn released(&self) -> &[GrantId] {
        match self {
            Self::Release(_, grants) => grants,
            Self::Claim(..) | Self::Renew => &[],
        }
    }
}

/// Changes of a slot's filters that are not done yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The programs of a change are being made: the number tells them from those of a slot that had this one's.
    pub(super) making: Option<u64>,
    pub(super) waiting: VecDeque<Change>,
}

/// What a slot is asked to give back, and when it is taken.
#[derive(Debug, Default)]
pub(super) struct Revocations {
    /// The slot, or grants of it.
    pub(super) taken: Vec<(Revoked, Now)>,
    /// Its share becomes this.
    pub(super) terms: Option<(Terms, Now)>,
}

/// How a slot shares the link: its weight, and its cap in bytes per second.
pub(super) type Terms = (u32, Option<u64>);

impl Revocations {
    /// When the next thing is taken.
    pub(super) fn deadline(&self) -> Option<Now> {
        let taken = self.taken.iter().map(|(_, at)| *at);
        taken.chain(self.terms.map(|(_, at)| at)).min()
    }

    /// What could not be taken is taken then.
    pub(super) fn take_later(&mut self, what: impl Iterator<Item = Revoked>, at: Now) {
        self.taken.extend(what.map(|what| (what, at)));
    }
}
