//! The hashing table of a listener, which another replaces when it is whole.

use crate::maglev::{Building, Maglev};

/// A table that is to take the other's place when it is whole.
pub(super) enum NextTable {
    /// None: the one that there is tells it.
    Settled,
    /// It is wanted. So however much changes at once, one is begun.
    Wanted,
    /// It is being made, of servers at these places.
    Building(Building, Vec<u16>),
}

/// Which server a key belongs to.
pub(super) struct Table {
    pub(super) maglev: Maglev,
    /// The servers' places in the order in which the table knows them.
    pub(super) servers: Vec<u16>,
}

impl Table {
    pub(super) fn server_of(&self, hash: u64) -> u16 {
        self.servers[self.maglev.server_of(hash)]
    }
}
