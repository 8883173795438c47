//! Which paths must be looked at again, and when.
//!
//! Most changes are whole when the kernel tells of them: a name leads elsewhere, a writer has closed
//! its file. Those are due at once. But a file that somebody writes to in place, or a new one, passes
//! through states that nobody is meant to see. The old version is served meanwhile (none, of a new
//! one), until the file is closed; or until nothing has happened to it for [`SETTLE_TIME`], as when
//! its writer keeps it open; or at the latest after [`SETTLE_TIME_MAX`], as with a log. That holds too of
//! a file that was whole and is written to again before it has been looked at.

use std::collections::BTreeMap;
use std::time::Instant;

use super::root::Version;
use super::watch::What;
use crate::limits::{DIRTY_MAX, SETTLE_TIME, SETTLE_TIME_MAX};
use crate::site::path::SitePath;

/// A path that must be looked at.
#[derive(Clone, Copy, Debug)]
struct Entry {
    due: Instant,
    /// When the changes began that are not over yet, and what was last seen; `None` when they are.
    unsettled: Option<(Instant, Option<Version>)>,
    /// Somebody has written to it: read it even if its times are the same.
    written: bool,
}

/// The paths that must be looked at.
#[derive(Debug, Default)]
pub struct Dirty {
    entries: BTreeMap<SitePath, Entry>,
}

/// What to do with a path that is due.
#[derive(Debug)]
pub struct Due {
    /// The path.
    pub path: SitePath,
    /// Read it even if its times are the same.
    pub written: bool,
    /// Nobody has closed it, but it has been waited for long enough.
    pub at_rest: bool,
}

impl Dirty {
    /// Something happened to a path. False when there are too many: then all of them are to be looked at.
    pub fn note(&mut self, path: SitePath, what: What, now: Instant) -> bool {
        let settling = Entry {
            due: now + SETTLE_TIME,
            unsettled: Some((now, None)),
            written: false,
        };
        let entry = self.entries.entry(path).or_insert(settling);
        match what {
            What::Touched | What::Altered if entry.unsettled.is_some() => entry.written = true,
            What::Touched => (entry.due, entry.unsettled) = (settling.due, settling.unsettled),
            What::Altered => {}
            What::Named | What::Written => {
                entry.due = now;
                entry.unsettled = None;
                entry.written |= what == What::Written;
            }
        }
        self.entries.len() <= DIRTY_MAX
    }

    /// Whether somebody is at a file who has not closed it, nor left it alone for long enough.
    pub fn is_unsettled(&self, path: &SitePath) -> bool {
        let entry = self.entries.get(path);
        entry.is_some_and(|entry| entry.unsettled.is_some())
    }

    /// Forgets all paths, for all are about to be looked at. What is being written to stays.
    pub fn forget_settled(&mut self) {
        self.entries.retain(|_, entry| entry.unsettled.is_some());
    }

    /// Takes the paths that are due, in order. `look` gives what is at a path now: `None` when it is
    /// no regular file, which has nothing to settle.
    pub fn take_due(
        &mut self,
        now: Instant,
        mut look: impl FnMut(&SitePath) -> Option<Version>,
    ) -> Vec<Due> {
        let mut due = Vec::new();
        self.entries.retain(|path, entry| {
            let mut at_rest = false;
            let ready = match &mut entry.unsettled {
                None => entry.due <= now,
                Some((_, seen @ None)) => {
                    *seen = look(path);
                    seen.is_none()
                }
                Some(_) if entry.due > now => false,
                Some((first, seen)) => {
                    let settled = std::mem::replace(seen, look(path)) == *seen;
                    entry.due = now + SETTLE_TIME;
                    at_rest = settled || now >= *first + SETTLE_TIME_MAX;
                    at_rest
                }
            };
            if ready {
                due.push(Due {
                    path: path.clone(),
                    written: entry.written,
                    at_rest,
                });
            }
            !ready
        });
        due
    }

    /// When the next path is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.entries.values().map(|entry| entry.due).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn version(len: u64) -> Version {
        Version {
            identity: (1, 2),
            len,
            modified: (0, 0),
            changed: (0, 0),
        }
    }

    /// What is due when a file has had some length at each time.
    fn due(dirty: &mut Dirty, now: Instant, len: u64) -> Vec<bool> {
        let due = dirty.take_due(now, |_| Some(version(len)));
        due.into_iter().map(|due| due.written).collect()
    }

    #[test]
    fn what_is_whole_is_due_at_once() {
        let (mut dirty, now) = (Dirty::default(), Instant::now());
        for (what, written) in [(What::Named, false), (What::Written, true)] {
            assert!(dirty.note(b"/a"[..].into(), what, now));
            assert_eq!(due(&mut dirty, now, 0), [written]);
            assert_eq!(dirty.next_due(), None);
        }
    }

    #[test]
    fn what_is_written_to_is_due_when_it_rests_or_after_some_time() {
        let start = Instant::now();
        let mut dirty = Dirty::default();
        dirty.note(b"/a"[..].into(), What::Touched, start);
        assert_eq!(due(&mut dirty, start, 1), [false; 0]);
        let mut now = start + SETTLE_TIME;
        assert_eq!(dirty.next_due(), Some(now));
        assert_eq!(due(&mut dirty, now, 2), [false; 0], "it has grown");
        now += SETTLE_TIME / 2;
        assert_eq!(due(&mut dirty, now, 2), [false; 0], "too early");
        now += SETTLE_TIME / 2;
        assert_eq!(due(&mut dirty, now, 2), [true]);

        dirty.note(b"/log"[..].into(), What::Touched, now);
        let seconds = (1..).find(|&second| {
            let now = now + Duration::from_secs(second);
            !due(&mut dirty, now, second).is_empty()
        });
        assert_eq!(seconds, Some(SETTLE_TIME_MAX.as_secs()));
    }

    /// The writer closes the file, or it gets another name: no reason to wait any more.
    #[test]
    fn waiting_ends_when_it_is_whole() {
        for what in [What::Named, What::Written] {
            let (mut dirty, now) = (Dirty::default(), Instant::now());
            dirty.note(b"/a"[..].into(), What::Touched, now);
            assert_eq!(due(&mut dirty, now, 1), [false; 0]);
            dirty.note(b"/a"[..].into(), what, now);
            assert_eq!(due(&mut dirty, now, 2), [true]);
        }
    }

    /// It was whole, and before it was looked at somebody has begun to write to it.
    #[test]
    fn what_is_written_to_again_is_waited_for_again() {
        for what in [What::Named, What::Written] {
            let (mut dirty, now) = (Dirty::default(), Instant::now());
            dirty.note(b"/a"[..].into(), what, now);
            dirty.note(b"/a"[..].into(), What::Altered, now);
            assert!(
                !dirty.is_unsettled(&b"/a"[..].into()),
                "its bytes are the same"
            );
            dirty.note(b"/a"[..].into(), What::Touched, now);
            assert!(dirty.is_unsettled(&b"/a"[..].into()));
            assert_eq!(due(&mut dirty, now, 1), [false; 0]);
            dirty.note(b"/a"[..].into(), What::Written, now);
            assert_eq!(due(&mut dirty, now, 2), [true]);
        }
    }

    #[test]
    fn what_is_no_file_has_nothing_to_settle() {
        let (mut dirty, now) = (Dirty::default(), Instant::now());
        dirty.note(b"/link"[..].into(), What::Touched, now);
        assert_eq!(dirty.take_due(now, |_| None).len(), 1);
    }

    #[test]
    fn too_many_paths_are_all_paths() {
        let (mut dirty, now) = (Dirty::default(), Instant::now());
        let path = |n: usize| n.to_ne_bytes()[..].into();
        assert!((0..DIRTY_MAX).all(|n| dirty.note(path(n), What::Named, now)));
        assert!(!dirty.note(path(DIRTY_MAX), What::Named, now));
        dirty.forget_settled();
        assert_eq!(dirty.next_due(), None);
    }
}
