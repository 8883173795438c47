//! Which bytes of a file these are: its length and the times of its last changes, before and after it is read.
//!
//! Times are those of the kernel's last tick, so a file that changes twice within one has the same version twice. A version is *settled*, and
//! means its bytes for good, once the clock has gone on past its tick: only settled ones are read into the cache.
//!
//! What the times do not tell is told by a [lease](exos_host::lease): where the file is the service's user's, nobody has it open for writing
//! while it is read. Where it is another's, a single `write` that is under way for longer than [`SETTLED_AFTER`], and a writable mapping, are
//! not found out.

use crate::limits::SETTLED_AFTER;
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version {
    pub len: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Version {
    pub fn of(stat: &Stat) -> Self {
        Self {
            len: stat.st_size.unsigned_abs(),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Whether any change from now on gives another version. Never where the time of the last one is still to come.
    pub fn is_settled(&self) -> bool {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        let later = |(seconds, part): (i64, u64)| {
            ns(now.tv_sec, now.tv_nsec) - ns(seconds, part.cast_signed())
        };
        let margin = SETTLED_AFTER.as_nanos().cast_signed();
        later(self.modified) > margin && later(self.changed) > margin
    }
}
