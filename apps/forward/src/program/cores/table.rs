//! What all cores have in common: the flows, who keeps them for a successor, and what the kernel has of them.
//!
//! Invariant: while nobody holds the lock, all that has changed of flows, listeners and servers has been told to the keeper and the
//! kernel. So a packet leaves after what it has changed is kept, whichever core sends it.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant as Clock};

use exos_inet::Instant;

use crate::forwarder::Forwarder;
use crate::kernel::Kernel;
use crate::program::keeper::Keeper;
use crate::program::links::Links;

/// The flows, and who hears of them.
pub struct Table {
    pub forwarder: Forwarder,
    pub keeper: Option<Keeper>,
    pub kernel: Option<Kernel>,
    /// The latest time of a core's turn. Their clocks are read one after the other, and time here never goes back.
    now: Instant,
}

impl Table {
    /// These together.
    pub fn new(forwarder: Forwarder, keeper: Option<Keeper>, kernel: Option<Kernel>) -> Self {
        Self {
            forwarder,
            keeper,
            kernel,
            now: Instant::START,
        }
    }

    /// The time of this core's turn, or of another's that was later.
    pub fn time(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Flows that are silent for too long end; with some of them in the kernel, those that it has not seen either.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.time(now);
        match &self.kernel {
            None => self.forwarder.handle_timeout(now),
            Some(kernel) => {
                let seen = |id| kernel.seen(now, id);
                self.forwarder.handle_timeout_unless(now, seen);
            }
        }
    }

    /// What the kernel has forwarded so far is to be in what is reported.
    pub fn read_tallies(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.read_tallies(&mut self.forwarder);
        }
    }

    /// Anyone who keeps flows, or forwards them, hears of those that have changed before the packets leave that changed them; and of
    /// listeners and servers. To be called before the lock is given back, with the links of this core.
    pub fn tell_of_changes(&mut self, now: Instant, links: &mut Links) {
        let mut next = self.forwarder.poll_changed();
        let mut stacks = match next {
            Some(_) if self.kernel.is_some() => links.stacks_mut(),
            _ => Vec::new(),
        };
        while let Some(id) = next {
            if let Some(keeper) = &mut self.keeper {
                keeper.keep(&self.forwarder, id);
            }
            if let Some(kernel) = &mut self.kernel {
                kernel.follow(now, &mut self.forwarder, &mut stacks, id);
            }
            next = self.forwarder.poll_changed();
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.keep_names(&self.forwarder);
        }
    }
}

/// The table behind its lock.
pub struct Shared(Mutex<Table>);

impl Shared {
    /// All cores' table.
    pub fn new(table: Table) -> Self {
        Self(Mutex::new(table))
    }

    /// Has the table, when others have done with it.
    pub fn lock(&self) -> MutexGuard<'_, Table> {
        // After a core that has panicked the others end, in order as far as that goes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is not locked yet: a turn without packets does without.
    pub fn begin_turn(&self) -> Turn<'_> {
        Turn {
            shared: self,
            held: None,
            since: None,
            waited: false,
        }
    }

    /// What is in it, with all other cores gone.
    pub fn into_inner(self) -> Table {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table for one turn of a core: locked from the first packet on to its end.
pub struct Turn<'a> {
    shared: &'a Shared,
    held: Option<MutexGuard<'a, Table>>,
    /// When it was had.
    since: Option<Clock>,
    waited: bool,
}

impl Turn<'_> {
    /// The table.
    #[inline]
    pub fn table(&mut self) -> &mut Table {
        match self.held {
            Some(ref mut table) => table,
            None => self.lock(),
        }
    }

    #[cold]
    fn lock(&mut self) -> &mut Table {
        let table = match self.shared.0.try_lock() {
            Ok(table) => table,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.waited = true;
                self.shared.lock()
            }
        };
        self.since = Some(Clock::now());
        self.held.insert(table)
    }

    /// There was something to do with the table.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Another core had it first.
    pub fn has_waited(&self) -> bool {
        self.waited
    }

    /// For how long it was held, and gives it back.
    pub fn end(self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use exos_wire::Mac;

    use super::*;
    use crate::service::Services;

    /// A turn has the table from when it needs it to its end, and one that does not need it leaves it to others.
    #[test]
    fn a_turn_without_packets_locks_nothing() {
        let forwarder = Forwarder::new(Services::default(), Mac([2; 6]), 10, 1);
        let shared = Shared::new(Table::new(forwarder, None, None));
        let mut turn = shared.begin_turn();
        assert!(!turn.is_held() && shared.0.try_lock().is_ok());
        assert_eq!(shared.begin_turn().end(), Duration::ZERO);
        let at = |millis| Instant::from_millis(millis);
        assert_eq!(turn.table().time(at(5)), at(5));
        assert_eq!(turn.table().time(at(4)), at(5), "it never goes back");
        assert!(turn.is_held() && shared.0.try_lock().is_err());
        assert!(turn.end() > Duration::ZERO && shared.0.try_lock().is_ok());
    }
}
