//! How often a user may ask for what takes the daemon long.
//!
//! A program's place takes the kernel some tens of milliseconds to make and to remove, a filter (claimed, or of copies)
//! as much to verify, and the daemon can do nothing else meanwhile. So users have a few at once and then some in a
//! second, over all their programs: the generic cell rate algorithm (ITU-T I.371), which remembers one time for each
//! user. The user that the daemon runs as is not bounded: it can do all of it itself.

use std::collections::BTreeMap;
use std::time::Duration;

use exos_xok::message::Refusal;

use super::requests::{Refused, refuse};
use super::{Daemon, now};
use crate::ledger::Now;
use crate::limits::{ATTACH_EVERY, ATTACHES_AT_ONCE, FILTER_EVERY, FILTERS_AT_ONCE};

/// What each user has asked for lately.
#[derive(Debug)]
pub(super) struct Rates {
    attaches: Rate,
    filters: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            attaches: Rate::new(ATTACHES_AT_ONCE, ATTACH_EVERY),
            filters: Rate::new(FILTERS_AT_ONCE, FILTER_EVERY),
        }
    }
}

impl Daemon {
    /// Counts an attachment that is asked for, and refuses it when there are too many.
    pub(super) fn count_attach(&mut self, user: u32) -> Result<(), Refused> {
        let what = "programs of this user attach too often";
        self.rates.attaches.ask(user, what)
    }

    /// Counts a filter that is asked for, to claim it or for copies, and refuses it when there are too many.
    pub(super) fn count_filter(&mut self, user: u32) -> Result<(), Refused> {
        let what =
            "programs of this user ask for filters too often (several can be one, with \"or\")";
        self.rates.filters.ask(user, what)
    }
}

/// Who has asked for one kind of thing lately.
#[derive(Debug)]
struct Rate {
    at_once: u32,
    every: Duration,
    /// Until when each user has asked in advance.
    until: BTreeMap<u32, Now>,
}

impl Rate {
    /// So many at once, and after that one in each such time.
    fn new(at_once: u32, every: Duration) -> Self {
        let until = BTreeMap::new();
        Self {
            at_once,
            every,
            until,
        }
    }

    fn ask(&mut self, user: u32, what: &str) -> Result<(), Refused> {
        if user == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        let counted = self.count(user, now());
        counted.map_err(|wait| busy(what, wait))
    }

    /// Counts an attempt, or says when there may be one again.
    fn count(&mut self, user: u32, now: Now) -> Result<(), Duration> {
        self.until.retain(|_, until| *until > now);
        let until = self.until.get(&user).copied().unwrap_or(now);
        let ahead = until + self.every - now;
        match ahead.checked_sub(self.every * self.at_once) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                self.until.insert(user, until + self.every);
                Ok(())
            }
        }
    }
}

/// What a program is told that has to wait.
pub(super) fn busy(why: &str, wait: Duration) -> Refused {
    let text = format!("{why}; try again in {} ms", wait.as_millis() + 1);
    refuse(Refusal::Busy, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_at_once_and_then_one_at_a_time() {
        const AT_ONCE: u32 = 5;
        const EVERY: Duration = Duration::from_millis(250);
        let mut rate = Rate::new(AT_ONCE, EVERY);
        let start = Now::from_secs(7);
        for _ in 0..AT_ONCE {
            assert_eq!(rate.count(1, start), Ok(()));
        }
        assert_eq!(rate.count(1, start), Err(EVERY));
        assert_eq!(rate.count(2, start), Ok(()), "another user");
        let later = start + EVERY;
        assert_eq!(rate.count(1, later), Ok(()));
        assert_eq!(rate.count(1, later), Err(EVERY));
        // After a while it is as if nothing had been.
        let rested = later + EVERY * AT_ONCE;
        for _ in 0..AT_ONCE {
            assert_eq!(rate.count(1, rested), Ok(()));
        }
        assert_eq!(rate.until.len(), 1);
    }
}
