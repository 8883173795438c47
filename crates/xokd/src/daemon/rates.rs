//! How often a user may attach.
//!
//! A program's place takes the kernel some tens of milliseconds to make and to remove, in which the daemon can do
//! nothing else. So users have a few at once and then some in a second: the generic cell rate algorithm (ITU-T I.371),
//! which remembers one time for each user. The user that the daemon runs as is not bounded: it can do all of it itself.

use std::collections::BTreeMap;
use std::time::Duration;

use exos_xok::message::Refusal;

use super::requests::{Refused, refuse};
use crate::ledger::Now;
use crate::limits::{ATTACH_EVERY, ATTACHES_AT_ONCE};

/// Who has attached lately.
#[derive(Debug, Default)]
pub(super) struct Attaches {
    /// Until when each user has attached in advance.
    until: BTreeMap<u32, Now>,
}

impl Attaches {
    /// Counts an attempt, or says when there may be one again.
    pub(super) fn count(&mut self, user: u32, now: Now) -> Result<(), Duration> {
        self.until.retain(|_, until| *until > now);
        let until = self.until.get(&user).copied().unwrap_or(now);
        let ahead = until + ATTACH_EVERY - now;
        match ahead.checked_sub(ATTACH_EVERY * ATTACHES_AT_ONCE) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                self.until.insert(user, until + ATTACH_EVERY);
                Ok(())
            }
        }
    }
}

/// What a program is told that has to wait.
pub(super) fn too_often(wait: Duration) -> Refused {
    let text = format!(
        "programs of this user attach too often; try again in {} ms",
        wait.as_millis() + 1
    );
    refuse(Refusal::Busy, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_at_once_and_then_one_at_a_time() {
        let mut attaches = Attaches::default();
        let start = Now::from_secs(7);
        for _ in 0..ATTACHES_AT_ONCE {
            assert_eq!(attaches.count(1, start), Ok(()));
        }
        assert_eq!(attaches.count(1, start), Err(ATTACH_EVERY));
        assert_eq!(attaches.count(2, start), Ok(()), "another user");
        let later = start + ATTACH_EVERY;
        assert_eq!(attaches.count(1, later), Ok(()));
        assert_eq!(attaches.count(1, later), Err(ATTACH_EVERY));
        // After a while it is as if nothing had been.
        let rested = later + ATTACH_EVERY * ATTACHES_AT_ONCE;
        for _ in 0..ATTACHES_AT_ONCE {
            assert_eq!(attaches.count(1, rested), Ok(()));
        }
        assert_eq!(attaches.until.len(), 1);
    }
}
