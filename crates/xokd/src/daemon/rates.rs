//! How often a user may ask for what takes the daemon long.
//!
//! A program's place takes the kernel some tens of milliseconds to make and to remove, a filter (claimed, or of copies)
//! as much to verify, and the daemon can do nothing else meanwhile. So users have a few at once and then some in a
//! second, over all their programs: the generic cell rate algorithm (ITU-T I.371), which remembers one time for each
//! user. One person may be many users, so all of them whom no rule of the policy names have such a rate together, and so
//! have those whom rules name by a group only. The user that the daemon runs as is not bounded: it can do all of it
//! itself.

use std::collections::BTreeMap;
use std::time::Duration;

use exos_xok::message::Refusal;

use super::requests::{Refused, refuse};
use super::{Daemon, now};
use crate::ledger::Now;
use crate::limits::{
    ATTACH_EVERY, ATTACHES_AT_ONCE, ATTACHES_OF_MANY, ATTACHES_PER_COPY, FILTER_EVERY,
    FILTERS_AT_ONCE, FILTERS_OF_MANY,
};
use crate::policy::{Standing, Who};
use crate::server::User;

/// What each user has asked for lately.
#[derive(Debug)]
pub(super) struct Rates {
    attaches: Rate,
    filters: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            attaches: Rate::new(ATTACHES_AT_ONCE, ATTACHES_OF_MANY, ATTACH_EVERY),
            filters: Rate::new(FILTERS_AT_ONCE, FILTERS_OF_MANY, FILTER_EVERY),
        }
    }
}

impl Daemon {
    /// Counts an attachment that is asked for, and refuses it when there are too many.
    pub(super) fn count_attach(&mut self, who: &Who) -> Result<(), Refused> {
        let asker = (self.standing(who), who.uid);
        let what = "attach too often";
        // The programs of copies are made anew when the place is made, and when it is removed.
        let times = 1 + ATTACHES_PER_COPY * self.taps.made_anew_for(who.uid);
        self.rates.attaches.ask(asker, times, what)
    }

    /// Counts a filter that is asked for, to claim it or for copies, and refuses it when there are too many.
    pub(super) fn count_filter(&mut self, who: &Who) -> Result<(), Refused> {
        let asker = (self.standing(who), who.uid);
        let what = "ask for filters too often (several can be one, with \"or\")";
        self.rates.filters.ask(asker, 1, what)
    }
}

/// Whose a time is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Whose {
    User(u32),
    All(Standing),
}

impl Whose {
    /// For a sentence.
    const fn name(self) -> &'static str {
        match self {
            Self::User(_) => "programs of this user",
            Self::All(Standing::Member) => "programs of users whom rules name by a group only",
            Self::All(_) => "programs of users whom no rule of the policy names",
        }
    }
}

/// Who has asked for one kind of thing lately.
#[derive(Debug)]
struct Rate {
    at_once: u32,
    /// Of all users whom no rule names, and of all whom rules name by a group.
    of_many: [u32; 2],
    every: Duration,
    /// Until when each has asked in advance.
    until: BTreeMap<Whose, Now>,
}

impl Rate {
    /// So many at once, of one user and of many, and after that one in each such time.
    fn new(at_once: u32, of_many: [u32; 2], every: Duration) -> Self {
        Self {
            at_once,
            of_many,
            every,
            until: BTreeMap::new(),
        }
    }

    fn ask(&mut self, asker: User, times: u32, what: &str) -> Result<(), Refused> {
        let counted = self.count(asker, times, now());
        counted.map_err(|(whose, wait)| busy(&format!("{} {what}", whose.name()), wait))
    }

    /// Counts an attempt that takes as long as so many, or says in whose way it is and when there may be one again.
    fn count(
        &mut self,
        (standing, uid): User,
        times: u32,
        now: Now,
    ) -> Result<(), (Whose, Duration)> {
        // No more than there may be at once, or it would never be allowed.
        let takes = self.every * times.min(self.at_once);
        let user = (Whose::User(uid), self.at_once);
        let counted = match standing {
            Standing::Own => return Ok(()),
            Standing::Named => vec![user],
            Standing::Member | Standing::Unnamed => {
                let at_once = self.of_many[standing as usize];
                vec![user, (Whose::All(standing), at_once)]
            }
        };
        self.until.retain(|_, until| *until > now);
        // Who is refused for one of them uses up nothing of the other.
        for (whose, at_once) in &counted {
            let ahead = self.until(*whose, now) + takes - now;
            let wait = ahead.saturating_sub(self.every * *at_once);
            if !wait.is_zero() {
                return Err((*whose, wait));
            }
        }
        for (whose, _) in counted {
            let until = self.until(whose, now) + takes;
            self.until.insert(whose, until);
        }
        Ok(())
    }

    fn until(&self, whose: Whose, now: Now) -> Now {
        self.until.get(&whose).copied().unwrap_or(now)
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

    const AT_ONCE: u32 = 5;
    const OF_MANY: [u32; 2] = [8, 12];
    const EVERY: Duration = Duration::from_millis(250);
    const START: Now = Now::from_secs(7);

    fn rate() -> Rate {
        Rate::new(AT_ONCE, OF_MANY, EVERY)
    }

    #[test]
    fn some_at_once_and_then_one_at_a_time() {
        let mut rate = rate();
        let [one, other] = [(Standing::Named, 1), (Standing::Named, 2)];
        let wait = Err((Whose::User(1), EVERY));
        for _ in 0..AT_ONCE {
            assert_eq!(rate.count(one, 1, START), Ok(()));
        }
        assert_eq!(rate.count(one, 1, START), wait);
        assert_eq!(rate.count(other, 1, START), Ok(()), "another user");
        let later = START + EVERY;
        assert_eq!(rate.count(one, 1, later), Ok(()));
        assert_eq!(rate.count(one, 1, later), wait);
        // After a while it is as if nothing had been.
        let rested = later + EVERY * AT_ONCE;
        for _ in 0..AT_ONCE {
            assert_eq!(rate.count(one, 1, rested), Ok(()));
        }
        assert_eq!(rate.until.len(), 1);
    }

    #[test]
    fn who_is_many_has_the_rate_of_one() {
        for (standing, most) in [Standing::Unnamed, Standing::Member]
            .into_iter()
            .zip(OF_MANY)
        {
            let mut rate = rate();
            let all = Whose::All(standing);
            let mut ask = |at| {
                (1..100)
                    .map(|uid| rate.count((standing, uid), 1, at))
                    .collect()
            };
            let asked: Vec<_> = ask(START);
            assert_eq!(
                asked.iter().flatten().count(),
                most as usize,
                "{standing:?}"
            );
            assert_eq!(asked.last(), Some(&Err((all, EVERY))));
            let later: Vec<_> = ask(START + EVERY);
            assert_eq!(later.iter().flatten().count(), 1);
            let named = (Standing::Named, 0);
            assert_eq!(
                rate.count(named, 1, START),
                Ok(()),
                "who is named does not wait for them"
            );
        }
    }

    #[test]
    fn who_asks_too_often_himself_takes_nothing_from_those_like_him() {
        let mut rate = rate();
        let count = |_| rate.count((Standing::Unnamed, 1), 1, START);
        let granted: Vec<_> = (0..100).map(count).collect();
        assert_eq!(granted.iter().flatten().count(), AT_ONCE as usize);
        assert_eq!(rate.count((Standing::Unnamed, 2), 1, START), Ok(()));
    }

    #[test]
    fn what_takes_longer_is_counted_as_often() {
        let mut rate = rate();
        let user = (Standing::Named, 1);
        assert_eq!(rate.count(user, AT_ONCE - 1, START), Ok(()));
        let wait = Err((Whose::User(1), EVERY));
        assert_eq!(rate.count(user, 2, START), wait);
        assert_eq!(rate.count(user, 1, START), Ok(()));
        let rested = START + EVERY * AT_ONCE;
        assert_eq!(
            rate.count(user, u32::MAX, rested),
            Ok(()),
            "it is allowed some time"
        );
        assert_eq!(rate.count(user, 1, rested), wait);
    }
}
