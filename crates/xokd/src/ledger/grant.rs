//! What the books are about: owners, grants, and what the packet path is told of them.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use exos_xok::Claim;
use exos_xok::message::GrantId;

use crate::policy::Who;
use crate::pool::Standing;

/// The number of a program's place.
pub type SlotId = u32;

/// Whose a slot is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The user, for policy.
    pub who: Rc<Who>,
    /// How well the policy knows the user.
    pub standing: Standing,
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub program: String,
    /// The interface that it is on.
    pub interface: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            program, pid, who, ..
        } = self;
        write!(f, "{program} (pid {pid}, uid {})", who.uid)
    }
}

/// A claim that is somebody's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// What.
    pub claim: Claim,
    /// Whose, the one that gets the packets first. Never empty.
    pub holders: Vec<SlotId>,
    /// All holders get packets, each those of its flows.
    pub is_divided: bool,
    /// Holders of a divided grant that get no new flows.
    pub retired: BTreeSet<SlotId>,
    /// Who claimed it first: anyone who has it by a ticket has it by their right.
    pub origin: Rc<Who>,
}

impl Grant {
    /// The slot that gets the packets; of a divided grant one of those that do.
    pub fn slot(&self) -> SlotId {
        self.holders[0]
    }

    /// Whether a slot gets packets of it.
    pub fn is_received_by(&self, slot: SlotId) -> bool {
        match self.is_divided {
            true => self.holders.contains(&slot),
            false => self.slot() == slot,
        }
    }

    /// Whether all packets of it are this slot's.
    pub fn is_whole_of(&self, slot: SlotId) -> bool {
        self.slot() == slot && (!self.is_divided || self.holders.len() == 1)
    }

    /// The holders, and whether each gets new flows: where all have retired, all do.
    pub fn members(&self) -> Vec<(SlotId, bool)> {
        let all_retired = self.retired.len() == self.holders.len();
        let gets_new = |slot: &SlotId| all_retired || !self.retired.contains(slot);
        let members = self.holders.iter();
        members.map(|slot| (*slot, gets_new(slot))).collect()
    }
}

/// What the packet path has to be told: this claim's packets go to that slot, or to none. Of a divided grant that slot is one of
/// those that [`Ledger::members`](super::Ledger::members) tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which grant.
    pub grant: GrantId,
    /// What it covers.
    pub claim: Claim,
    /// Where its packets go now; `None` when the claim is nobody's any more.
    pub slot: Option<SlotId>,
}
