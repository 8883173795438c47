//! What the books are about: owners, grants, and what the packet path is told of them.

use std::fmt;
use std::rc::Rc;

use exos_xok::Claim;
use exos_xok::message::GrantId;

use crate::policy::{Standing, Who};

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
    /// Who claimed it first: anyone who has it by a ticket has it by their right.
    pub origin: Rc<Who>,
}

impl Grant {
    /// The slot that gets the packets.
    pub fn slot(&self) -> SlotId {
        self.holders[0]
    }
}

/// What the packet path has to be told: this claim's packets go to that slot, or to none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which grant.
    pub grant: GrantId,
    /// What it covers.
    pub claim: Claim,
    /// Where its packets go now; `None` when the claim is nobody's any more.
    pub slot: Option<SlotId>,
}
