//! Neighbours that programs ask for, and how many: each can cost a broadcast.
//!
//! A user has some in a second, over all its programs. One person may be many users, so users whom no rule of the policy
//! names have some together, as have those with them whom rules name by a group, and so on.

use std::collections::BTreeMap;
use std::time::Duration;

use exos_xok::message::Refusal;

use crate::clock::Now;
use crate::daemon::answers::{Refused, refuse};
use crate::limits::{RESOLVES, RESOLVES_PER_SECOND};
use crate::pool::Standing;
use crate::server::User;

/// What users have asked for lately.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Resolves(BTreeMap<u32, Lately>);

/// What a user has asked for in the second that began then.
#[derive(Clone, Copy, Debug)]
struct Lately {
    since: Now,
    standing: Standing,
    count: usize,
}

impl Resolves {
    /// Counts one more of a user's, or says why that is too many.
    pub(in crate::daemon) fn count(
        &mut self,
        (standing, uid): User,
        now: Now,
    ) -> Result<(), Refused> {
        // Of those that asked nothing for a second there is nothing to remember.
        let second = Duration::from_secs(1);
        self.0
            .retain(|_, lately| now.saturating_sub(lately.since) < second);
        let own = self.0.get(&uid).map_or(0, |lately| lately.count);
        if own >= RESOLVES_PER_SECOND {
            let text = format!(
                "programs of this user asked for {own} neighbours within a second; wait until it is over"
            );
            return Err(refuse(Refusal::Limit, text));
        }
        let taken = self.0.values().map(|l| (l.standing, l.count));
        let room = RESOLVES.check(standing, "neighbours asked for within a second", taken);
        room.map_err(|text| refuse(Refusal::Limit, text))?;
        let lately = self.0.entry(uid).or_insert(Lately {
            since: now,
            standing,
            count: 0,
        });
        lately.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Now = Now::from_secs(7);

    fn granted(resolves: &mut Resolves, user: User, now: Now) -> usize {
        let asked = (0..2 * RESOLVES_PER_SECOND).map(|_| resolves.count(user, now));
        asked.filter(Result::is_ok).count()
    }

    #[test]
    fn many_users_whom_nobody_names_ask_for_as_many_as_a_few() {
        let mut resolves = Resolves::default();
        let strangers = (1000..1100).map(|uid| (Standing::Unnamed, uid));
        let granted_to = |user| granted(&mut resolves, user, START);
        let all: usize = strangers.map(granted_to).sum();
        assert_eq!(all, RESOLVES.most(Standing::Unnamed));
        let named = (Standing::Named, 7);
        assert_eq!(granted(&mut resolves, named, START), RESOLVES_PER_SECOND);
        // What was refused is not counted, and a second later it is as if nothing had been.
        let later = START + Duration::from_secs(1);
        let stranger = (Standing::Unnamed, 1000);
        assert_eq!(granted(&mut resolves, stranger, later), RESOLVES_PER_SECOND);
        assert_eq!(resolves.0.len(), 1);
    }
}
