//! Which bytes of a file these are: its length and the times of its last changes, before and after it is read.
//!
//! Times are those of the kernel's last tick, so a file that changes twice within one has the same version twice. A version is *settled*, and
//! means its bytes for good, once the clock has gone on past its tick: only settled ones are read into the cache.
//!
//! That holds where the kernel keeps nanoseconds and a store into a mapping is a change: on the [file systems](is_kept) from which the cache takes
//! files. What is stored into a mapping *while* a file is read is told by a [lease](exos_host::lease): where the file is the service's user's,
//! nobody has it open for writing then. Where it is another's, a single `write` that is under way for longer than [`SETTLED_AFTER`], and stores
//! into a mapping by which it was stored before, are not found out.

use crate::limits::SETTLED_AFTER;
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Version {
    pub len: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// linux/magic.h: ext4 (and ext2 and ext3, as which it mounts them), XFS, Btrfs. Each notes a change when a page of a mapping is stored to for
/// the first time after it was written back or read; tmpfs does not, where the page was read before.
const KEPT: [i64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

/// Whether the cache takes files of a file system of this kind. Those of others are made up by programs (FUSE) or by the kernel (/proc, /sys),
/// come from elsewhere, or have times that do not tell of all changes.
pub(crate) fn is_kept(system: i64) -> bool {
    KEPT.contains(&system)
}

impl Version {
    /// Whether the file's times have nanoseconds. An ext4 whose inodes have 128 bytes keeps seconds: there, what changes twice within one has the
    /// same version twice. By chance this says so of one file in a billion that has them.
    pub fn has_nanoseconds(&self) -> bool {
        self.changed.1 != 0
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn version(changed: (i64, u64)) -> Version {
        Version {
            len: 1,
            modified: (1, 0),
            changed,
        }
    }

    /// The time of the last write is set by programs, often to a whole second; that of the last change is the kernel's.
    #[test]
    fn seconds_are_not_enough() {
        assert!(version((1, 4_000_000)).has_nanoseconds());
        assert!(!version((1, 0)).has_nanoseconds());
    }

    #[test]
    fn what_is_still_to_come_is_not_settled() {
        assert!(version((1, 1)).is_settled());
        assert!(!version((i64::MAX, 1)).is_settled());
    }

    #[test]
    fn memory_and_made_up_files_are_not_kept() {
        for path in ["/proc", "/sys"] {
            let system = rustix::fs::statfs(path).expect("Linux has it");
            assert!(!is_kept(system.f_type), "{path}");
        }
        assert!(!is_kept(0x0102_1994), "tmpfs");
        assert!(is_kept(0xef53), "ext4");
    }
}
