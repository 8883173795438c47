//! Neighbours that programs ask for, and how many: each can cost a broadcast.
//!
//! A user has some in a second, over all its programs. One person may be many users, so users whom no rule of the policy
//! names have some together, as have those with them whom rules name by a group, and so on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use exos_xok::message::{Answer, Refusal};

use super::requests::{Answered, plain, refuse};
use super::{Daemon, now};
use crate::ledger::{Now, SlotId};
use crate::limits::{RESOLVES, RESOLVES_PER_SECOND};
use crate::policy::Standing;
use crate::server::User;

/// What users have asked for lately.
#[derive(Debug, Default)]
pub(super) struct Resolves(BTreeMap<u32, Lately>);

/// What a user has asked for in the second that began then.
#[derive(Clone, Copy, Debug)]
struct Lately {
    since: Now,
    standing: Standing,
    count: usize,
}

impl Resolves {
    /// Counts one more of a user's, or says why that is too many.
    fn count(&mut self, (standing, uid): User, now: Now) -> Result<(), String> {
        // Of those that asked nothing for a second there is nothing to remember.
        let second = Duration::from_secs(1);
        self.0
            .retain(|_, lately| now.saturating_sub(lately.since) < second);
        let own = self.0.get(&uid).map_or(0, |lately| lately.count);
        if own >= RESOLVES_PER_SECOND {
            return Err(format!(
                "programs of this user asked for {own} neighbours within a second; wait until it is over"
            ));
        }
        let taken = self.0.values().map(|l| (l.standing, l.count));
        RESOLVES.check(standing, "neighbours asked for within a second", taken)?;
        let lately = self.0.entry(uid).or_insert(Lately {
            since: now,
            standing,
            count: 0,
        });
        lately.count += 1;
        Ok(())
    }
}

impl Daemon {
    pub(super) fn resolve(&mut self, slot: SlotId, ip: IpAddr) -> Answered {
        let now = now();
        let owner = self.ledger.owner(slot).expect("a attachment has an owner");
        let counted = self.resolves.count((owner.standing, owner.who.uid), now);
        counted.map_err(|text| refuse(Refusal::Limit, text))?;
        let index = self.attachments[&slot].interface;
        let (netlink, tables) = (&self.netlink, &mut self.tables);
        if let Some(interface) = self.interfaces.iter_mut().find(|i| i.link.index == index)
            && let Some(known) = interface.resolve(netlink, now, ip)?
            && tables.write_quietly(|w| w.set_neighbour(&known))
        {
            tables.news();
        }
        plain(Answer::Done)
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
