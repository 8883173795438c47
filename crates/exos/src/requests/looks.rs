//! Until when connections may begin in the kernel: while each core has looked for those that it has, and none ends.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exos_filter::handler::web::layout;

use super::memory::Memory;

/// How long a core that ends waits for the others to end, too. Those that do not have failed.
const ENDS_TOGETHER: Duration = Duration::from_secs(1);

/// What the cores said.
#[derive(Debug)]
pub(super) struct Looks {
    all: Mutex<Box<[Look]>>,
    has_ended: Condvar,
}

/// What a core said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Connections may begin until then, in milliseconds.
    Until(u64),
    /// It ends.
    Ends,
}

impl Looks {
    /// No core has looked yet.
    pub(super) fn of(cores: usize) -> Self {
        Self {
            all: Mutex::new(vec![Look::Until(0); cores].into()),
            has_ended: Condvar::new(),
        }
    }

    /// A core has looked: for its part connections may begin until then. They may where all allow it, since any of them may have
    /// connections that must not begin in the kernel.
    pub(super) fn allow(&self, memory: &Memory, core: usize, until_ms: u64) {
        let mut all = self.lock();
        all[core] = Look::Until(until_ms);
        let each = all.iter().map(|look| match look {
            Look::Until(until) => *until,
            Look::Ends => 0,
        });
        memory.set(layout::UNTIL, each.min().unwrap_or(0));
    }

    /// No connection begins any more, and this core ends with the others, which are waited for: each takes on its own connections. Gives
    /// those that have not come.
    pub(super) fn end(&self, memory: &Memory, core: usize) -> Vec<usize> {
        let mut all = self.lock();
        all[core] = Look::Ends;
        memory.set(layout::UNTIL, 0);
        self.has_ended.notify_all();
        let is_missed = |all: &mut Box<[Look]>| all.iter().any(|look| *look != Look::Ends);
        let waited = self
            .has_ended
            .wait_timeout_while(all, ENDS_TOGETHER, is_missed);
        let (all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let missing = all.iter().enumerate();
        let missing = missing.filter(|(_, look)| **look != Look::Ends);
        missing.map(|(core, _)| core).collect()
    }

    /// Nothing is left half done by the one that panics with it.
    fn lock(&self) -> MutexGuard<'_, Box<[Look]>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        Memory::Plain((0..8).map(|_| 0.into()).collect())
    }

    /// No more when one of them ends, which waits for the others.
    #[test]
    fn connections_begin_while_all_cores_look() {
        let (memory, looks) = (memory(), Looks::of(2));
        for (core, until, least) in [(0, 7, 0), (1, 9, 7), (0, 11, 9)] {
            looks.allow(&memory, core, until);
            assert_eq!(memory.get(layout::UNTIL), least);
        }
        std::thread::scope(|scope| {
            let other = scope.spawn(|| looks.end(&memory, 1));
            assert!(looks.end(&memory, 0).is_empty());
            assert!(other.join().unwrap().is_empty());
        });
        looks.allow(&memory, 1, 20);
        assert_eq!(memory.get(layout::UNTIL), 0, "the other has ended");
    }

    #[test]
    fn one_that_does_not_end_is_not_waited_for_long() {
        let looks = Looks::of(3);
        assert_eq!(looks.end(&memory(), 1), [0, 2]);
    }
}
