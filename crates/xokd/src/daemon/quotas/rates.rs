//! How often a user may ask for what takes the daemon long.
//!
//! A program's place takes the kernel some tens of milliseconds to make and to remove, and the daemon can do nothing else
//! meanwhile; then as much for the program that it sends by, and for a filter (claimed, or of copies), on a thread for which
//! others wait. So users have a few at once and then some in a
//! second, over all their programs: the generic cell rate algorithm (ITU-T I.371), which remembers one time for each
//! user. One person may be many users, so all of them whom no rule of the policy names have such a rate together, and so
//! have those whom rules name by a group only. What was asked for and took longer than its part of the time is charged as
//! more. A part of what was counted before counts as one only until it is done, and then for its time; where a user's time is
//! used up one such part at a time goes on as that user's debt, which is bounded. The user that the daemon runs as is not
//! bounded: it can do all of it itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use exos_xok::limits::SLOTS_MAX;

use crate::clock::{Now, now};
use crate::daemon::answers::{Refused, busy};
use crate::limits::{
    ATTACH_EVERY, ATTACHES_AT_ONCE, ATTACHES_OF_MANY, FILTER_EVERY, FILTER_TIME_PART,
    FILTERS_AT_ONCE, FILTERS_OF_MANY, FILTERS_OWED,
};
use crate::pool::Standing;
use crate::server::User;

const FILTERS_TOO_OFTEN: &str = "ask for filters too often (several can be one, with \"or\")";

/// What each user has asked for lately.
#[derive(Debug)]
pub(in crate::daemon) struct Rates {
    attaches: Rate,
    filters: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            attaches: Rate::new(ATTACHES_OF_MANY, ATTACH_EVERY),
            filters: Rate::new(FILTERS_OF_MANY, FILTER_EVERY),
        }
    }
}

impl Rates {
    /// Counts an attachment that is asked for, and refuses it when there are too many.
    /// Of a user that may have this many programs as many may attach at once.
    pub(in crate::daemon) fn count_attach(
        &mut self,
        user: User,
        programs_max: usize,
    ) -> Result<(), Refused> {
        let at_once = u32::try_from(programs_max).unwrap_or(u32::MAX);
        let at_once = at_once.clamp(ATTACHES_AT_ONCE, SLOTS_MAX as u32);
        self.attaches.ask(user, at_once, "attach too often")
    }

    /// Counts a filter that is asked for, to claim it or for copies, and refuses it when there are too many.
    pub(in crate::daemon) fn count_filter(&mut self, user: User) -> Result<(), Refused> {
        self.filters.ask(user, FILTERS_AT_ONCE, FILTERS_TOO_OFTEN)
    }

    /// Reserves as much for a part of what was counted before as a filter counts, until it is charged as [`Charge::Reserved`]. Where that is
    /// not left, it refuses all but one at a time of a user, and of [`FILTERS_OWED`]; the user waits for these with what is asked for next.
    pub(in crate::daemon) fn reserve_part(&mut self, user: User) -> Result<(), Refused> {
        let reserved = self.filters.reserve((user, FILTERS_AT_ONCE), now());
        reserved.map_err(|refused| too_often(refused, FILTERS_TOO_OFTEN))
    }

    /// Charges a user with what was done for filters of theirs, as measured.
    pub(in crate::daemon) fn charge(&mut self, user: User, took: Duration, charge: Charge) {
        let (takes, user, now) = (took * FILTER_TIME_PART, (user, FILTERS_AT_ONCE), now());
        match charge {
            Charge::Beyond => {
                let beyond = takes.saturating_sub(FILTER_EVERY);
                self.filters.charge(user, beyond, now);
            }
            Charge::Whole => self.filters.charge(user, takes, now),
            Charge::Reserved => self.filters.settle(user, takes, now),
            Charge::Nothing => {}
        }
    }

    /// How much a user has had of the time for filters and for places lately: together with those like them, and themselves.
    pub(in crate::daemon) fn used(&self, user: User, now: Now) -> [Duration; 2] {
        let of = |whose| self.filters.taken(whose, now) + self.attaches.taken(whose, now);
        let (own, all) = (of(Whose::User(user.1)), of(Whose::All(user.0)));
        [own.max(all), own]
    }
}

/// How a user is charged for what was done beside the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) enum Charge {
    /// For a filter that was asked for, and so paid for the usual time: for what it took beyond that.
    Beyond,
    /// For what was not counted as it was asked for: for all of it.
    Whole,
    /// For that for which time was reserved ([`Rates::reserve_part`]): for all of it, and no longer for what was reserved.
    Reserved,
    /// For a place: how many of these a user has is counted as it attaches.
    Nothing,
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

fn too_often((whose, wait): (Whose, Duration), what: &str) -> Refused {
    busy(&format!("{} {what}", whose.name()), wait)
}

/// Who has asked for one kind of thing lately.
#[derive(Debug)]
struct Rate {
    /// How many all users may ask for at once whom no rule names, and all whom rules name by a group.
    of_many: [u32; 2],
    every: Duration,
    /// Until when each has asked in advance.
    until: BTreeMap<Whose, Now>,
    /// What each is to be charged with that is not done yet, at `every` each.
    reserved: BTreeMap<Whose, u32>,
}

impl Rate {
    /// This many at once of many users, and after that one in each such time.
    fn new(of_many: [u32; 2], every: Duration) -> Self {
        Self {
            of_many,
            every,
            until: BTreeMap::new(),
            reserved: BTreeMap::new(),
        }
    }

    /// Counts what a user asks for who may ask for this many at once.
    fn ask(&mut self, asker: User, at_once: u32, what: &str) -> Result<(), Refused> {
        let counted = self.count((asker, at_once), now());
        counted.map_err(|refused| too_often(refused, what))
    }

    /// Whose times a user's are, and how much of each may be used at once.
    fn pools(&self, ((standing, uid), at_once): (User, u32)) -> Vec<(Whose, Duration)> {
        let user = (Whose::User(uid), self.every * at_once);
        match standing {
            Standing::Own => Vec::new(),
            Standing::Named => vec![user],
            Standing::Member | Standing::Unnamed => {
                let at_once = self.of_many[standing as usize];
                vec![user, (Whose::All(standing), self.every * at_once)]
            }
        }
    }

    /// Counts an attempt, or says in whose way it is and when there may be one again.
    fn count(&mut self, user: (User, u32), now: Now) -> Result<(), (Whose, Duration)> {
        self.check(user, now)?;
        self.charge(user, self.every, now);
        Ok(())
    }

    /// Says likewise whether there may be an attempt.
    fn check(&mut self, user: (User, u32), now: Now) -> Result<(), (Whose, Duration)> {
        self.until.retain(|_, until| *until > now);
        // A user that is refused for one of them uses up nothing of the other.
        self.check_pools(self.pools(user).into_iter(), now)
    }

    fn check_pools(
        &self,
        mut pools: impl Iterator<Item = (Whose, Duration)>,
        now: Now,
    ) -> Result<(), (Whose, Duration)> {
        let refused = pools.find_map(|(whose, at_once)| {
            let wait = (self.taken(whose, now) + self.every).saturating_sub(at_once);
            (!wait.is_zero()).then_some((whose, wait))
        });
        refused.map_or(Ok(()), Err)
    }

    /// Has an attempt count as long as it is not settled, or says likewise why not. Of a user whose time is used up one goes on at a time,
    /// if there may be that much more debt; it waits for those like them all the same.
    fn reserve(&mut self, user: (User, u32), now: Now) -> Result<(), (Whose, Duration)> {
        match self.check(user, now) {
            Err((whose @ Whose::User(_), wait)) => {
                if self.reserved.contains_key(&whose) {
                    // That one may be settled any time, and this one then goes on.
                    return Err((whose, wait.min(self.every)));
                }
                let wait = wait.saturating_sub(self.debt_max());
                if !wait.is_zero() {
                    return Err((whose, wait));
                }
                let pools = self.pools(user).into_iter();
                self.check_pools(pools.filter(|(one, _)| *one != whose), now)?;
            }
            checked => checked?,
        }
        for (whose, _) in self.pools(user) {
            *self.reserved.entry(whose).or_default() += 1;
        }
        Ok(())
    }

    /// Charges a user with what an attempt took that was reserved, also where that is more than may be used at once, up to the debt that
    /// there may be. Those like them do not wait longer for it.
    fn settle(&mut self, user: (User, u32), takes: Duration, now: Now) {
        let debt_max = self.debt_max();
        self.charge_up_to(user, takes, now, |whose, at_once| match whose {
            Whose::User(_) => at_once + debt_max,
            Whose::All(_) => at_once,
        });
        for (whose, _) in self.pools(user) {
            if let Entry::Occupied(mut reserved) = self.reserved.entry(whose) {
                *reserved.get_mut() -= 1;
                if *reserved.get() == 0 {
                    reserved.remove();
                }
            }
        }
    }

    /// Adds to what a user has used, up to all that may be used at once.
    fn charge(&mut self, user: (User, u32), takes: Duration, now: Now) {
        self.charge_up_to(user, takes, now, |_, at_once| at_once);
    }

    fn charge_up_to(
        &mut self,
        user: (User, u32),
        takes: Duration,
        now: Now,
        most: impl Fn(Whose, Duration) -> Duration,
    ) {
        for (whose, at_once) in self.pools(user) {
            let before = self.ahead(whose, now);
            let used = (before + takes).min(most(whose, at_once).max(before));
            self.until.insert(whose, now + used);
        }
    }

    /// What a user may have used beyond what may be used at once.
    fn debt_max(&self) -> Duration {
        self.every * FILTERS_OWED
    }

    /// What is used or reserved.
    fn taken(&self, whose: Whose, now: Now) -> Duration {
        let reserved = self.reserved.get(&whose).copied().unwrap_or(0);
        self.ahead(whose, now) + self.every * reserved
    }

    fn ahead(&self, whose: Whose, now: Now) -> Duration {
        let until = self.until.get(&whose).copied();
        until.unwrap_or(now).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos::limits::{BUSY_PAUSE, BUSY_TIME};

    const AT_ONCE: u32 = 5;
    const OF_MANY: [u32; 2] = [8, 12];
    const EVERY: Duration = Duration::from_millis(250);
    const START: Now = Now::from_secs(7);

    fn rate() -> Rate {
        Rate::new(OF_MANY, EVERY)
    }

    #[test]
    fn some_at_once_and_then_one_at_a_time() {
        let mut rate = rate();
        let [one, other] = [1, 2].map(|uid| ((Standing::Named, uid), AT_ONCE));
        let wait = Err((Whose::User(1), EVERY));
        for _ in 0..AT_ONCE {
            assert_eq!(rate.count(one, START), Ok(()));
        }
        assert_eq!(rate.count(one, START), wait);
        assert_eq!(rate.count(other, START), Ok(()), "another user");
        let later = START + EVERY;
        assert_eq!(rate.count(one, later), Ok(()));
        assert_eq!(rate.count(one, later), wait);
        // After a while it is as if nothing had been.
        let rested = later + EVERY * AT_ONCE;
        for _ in 0..AT_ONCE {
            assert_eq!(rate.count(one, rested), Ok(()));
        }
        assert_eq!(rate.until.len(), 1);
    }

    #[test]
    fn who_may_have_more_programs_attaches_more_at_once() {
        let mut rates = Rates::default();
        let refused_after = |rates: &mut Rates, uid, programs_max| {
            let mut asked = 0..u32::MAX;
            asked.find(|_| {
                let user = (Standing::Named, uid);
                rates.count_attach(user, programs_max).is_err()
            })
        };
        // One may come back while they are asked for.
        for (uid, programs_max, most) in [(1, 1, ATTACHES_AT_ONCE), (2, 100, 100)] {
            let after = refused_after(&mut rates, uid, programs_max).expect("some time");
            assert!((most..most + 4).contains(&after), "{after}");
        }
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
                    .map(|uid| rate.count(((standing, uid), AT_ONCE), at))
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
            let named = ((Standing::Named, 0), AT_ONCE);
            assert_eq!(
                rate.count(named, START),
                Ok(()),
                "who is named does not wait for them"
            );
        }
    }

    #[test]
    fn who_asks_too_often_himself_takes_nothing_from_those_like_him() {
        let mut rate = rate();
        let count = |_| rate.count(((Standing::Unnamed, 1), AT_ONCE), START);
        let granted: Vec<_> = (0..100).map(count).collect();
        assert_eq!(granted.iter().flatten().count(), AT_ONCE as usize);
        assert_eq!(rate.count(((Standing::Unnamed, 2), AT_ONCE), START), Ok(()));
    }

    #[test]
    fn what_takes_longer_is_charged() {
        let mut rate = rate();
        let user = ((Standing::Unnamed, 1), AT_ONCE);
        rate.charge(user, EVERY * (AT_ONCE - 1), START);
        assert_eq!(rate.count(user, START), Ok(()));
        assert_eq!(rate.count(user, START), Err((Whose::User(1), EVERY)));
        let rested = START + EVERY * AT_ONCE;
        rate.charge(user, Duration::MAX / 2, rested);
        let wait = Err((Whose::User(1), EVERY));
        assert_eq!(
            rate.count(user, rested),
            wait,
            "nobody waits longer than after all at once"
        );
        let all = (Whose::All(Standing::Unnamed), EVERY);
        assert_eq!(
            rate.count(((Standing::Unnamed, 2), AT_ONCE), rested),
            Err(all)
        );
    }

    /// A part of what was counted waits where nothing is left, and counts by itself only until it is done.
    #[test]
    fn parts_that_are_done_are_charged_for_their_time_alone() {
        let mut rates = Rates::default();
        let user = (Standing::Named, 1);
        rates.count_filter(user).expect("the first");
        for _ in 0..10 * FILTERS_AT_ONCE {
            rates.reserve_part(user).expect("those before are done");
            rates.charge(user, Duration::ZERO, Charge::Reserved);
        }
        let took = FILTER_EVERY * FILTERS_AT_ONCE / FILTER_TIME_PART;
        rates.reserve_part(user).expect("nothing was used for it");
        rates.charge(user, took, Charge::Reserved);
        assert!(rates.count_filter(user).is_err(), "all of it is used");
        rates.reserve_part(user).expect("one at a time");
        assert!(rates.reserve_part(user).is_err(), "one is not done");
        assert!(rates.reserve_part((Standing::Named, 2)).is_ok());
    }

    #[test]
    fn parts_that_are_not_done_count() {
        let mut rate = rate();
        let [one, like, named] = [
            (Standing::Unnamed, 1),
            (Standing::Unnamed, 2),
            (Standing::Named, 3),
        ];
        let one = (one, AT_ONCE);
        for _ in 0..AT_ONCE {
            assert_eq!(rate.reserve(one, START), Ok(()));
        }
        // However long they wait for their turn.
        let later = START + EVERY * 100;
        let wait = Err((Whose::User(1), EVERY));
        assert_eq!(rate.reserve(one, later), wait);
        assert_eq!(rate.count(one, later), wait);
        let many = OF_MANY[Standing::Unnamed as usize];
        let of_like = (0..many).filter(|_| rate.reserve((like, many), later).is_ok());
        assert_eq!(of_like.count() as u32, many - AT_ONCE);
        assert_eq!(rate.reserve((named, AT_ONCE), later), Ok(()));
        for _ in 0..AT_ONCE {
            rate.settle(one, Duration::ZERO, later);
        }
        assert!(!rate.reserved.contains_key(&Whose::User(1)));
        assert_eq!(rate.count(one, later), Ok(()));
    }

    /// A user's own debt grows beyond what may be had at once, to its bound, and is waited for; what users have together does not.
    #[test]
    fn parts_that_take_long_are_a_bounded_debt() {
        let mut rate = rate();
        let user = ((Standing::Unnamed, 1), AT_ONCE);
        for (takes, owed) in [
            (EVERY * (AT_ONCE + 3), 3),
            (EVERY * 10 * AT_ONCE, FILTERS_OWED),
        ] {
            rate.until.remove(&Whose::All(Standing::Unnamed));
            assert_eq!(rate.reserve(user, START), Ok(()));
            rate.settle(user, takes, START);
            rate.charge(user, EVERY, START);
            let wait = EVERY * (owed + 1);
            assert_eq!(rate.count(user, START), Err((Whose::User(1), wait)));
        }
        assert_eq!(rate.reserve(user, START), Err((Whose::User(1), EVERY)));
        let like = ((Standing::Unnamed, 2), AT_ONCE);
        let wait = Err((Whose::All(Standing::Unnamed), EVERY));
        assert_eq!(rate.count(like, START), wait);
    }

    /// What waits for one that is not done is told to ask when that may be, not when all of the debt is paid.
    #[test]
    fn a_part_waits_for_another_no_longer_than_one_takes() {
        let mut rate = rate();
        let user = ((Standing::Named, 1), AT_ONCE);
        assert_eq!(rate.reserve(user, START), Ok(()));
        rate.settle(user, EVERY * (AT_ONCE + 4), START);
        assert_eq!(rate.reserve(user, START), Ok(()), "one at a time");
        let wait = Err((Whose::User(1), EVERY));
        assert_eq!(rate.reserve(user, START), wait);
        rate.settle(user, EVERY, START);
        assert_eq!(rate.reserve(user, START), Ok(()));
    }

    /// A program has its cores join in turn, and asks for each, and for the first after a restart, as the library does.
    #[test]
    fn a_start_and_the_next_on_many_cores_is_waited_out() {
        let waited = |now: &mut Now, ask: &mut dyn FnMut(Now) -> bool| {
            let since = *now;
            while !ask(*now) && *now < since + BUSY_TIME {
                *now += BUSY_PAUSE;
            }
            *now - since
        };
        let standings = [Standing::Named, Standing::Member, Standing::Unnamed];
        let cases = standings.into_iter().flat_map(|standing| {
            let cores = [2, 8, 9, 16, 23, 24, 32, 48, 64].into_iter();
            cores.flat_map(move |cores| (10..=190).step_by(20).map(move |ms| (standing, cores, ms)))
        });
        for (standing, cores, ms) in cases {
            let took = Duration::from_millis(ms);
            let case = format!("{cores} cores of {standing:?}, {took:?} each");
            let mut rate = Rates::default().filters;
            let user = ((standing, 1), FILTERS_AT_ONCE);
            let mut now = START;
            for start in 0..3 {
                let wait = waited(&mut now, &mut |now| rate.count(user, now).is_ok());
                assert!(wait <= Duration::from_secs(9), "{case}: {wait:?}");
                for _ in 1..cores {
                    let wait = waited(&mut now, &mut |now| rate.reserve(user, now).is_ok());
                    assert!(wait <= FILTER_EVERY, "{case}: {wait:?}");
                    if start == 0 && ms <= 50 {
                        assert!(wait.is_zero(), "{case}: {wait:?}");
                    }
                    now += took;
                    rate.settle(user, took * FILTER_TIME_PART, now);
                }
            }
        }
    }

    /// However often memory for many cores is asked for, and joined by all of them: of the thread's time a user has their part, and what
    /// they may have at once.
    #[test]
    fn parts_of_many_memories_have_a_users_part_of_the_time() {
        const STEP: Duration = Duration::from_millis(10);
        const FOR: Duration = Duration::from_secs(1000);
        for (cores, steps) in [(2, 1), (2, 19), (16, 6), (16, 19), (64, 19)] {
            let mut rate = Rates::default().filters;
            let user = ((Standing::Named, 1), FILTERS_AT_ONCE);
            let took = STEP * steps;
            let (mut may_join, mut waiting, mut done, mut now) = (0_u32, 0_u32, 0, START);
            let mut free_at = None;
            while now < START + FOR {
                if free_at.is_some_and(|at| at <= now) {
                    rate.settle(user, took * FILTER_TIME_PART, now);
                    (free_at, done) = (None, done + 1);
                }
                while may_join > 0 && rate.reserve(user, now).is_ok() {
                    (may_join, waiting) = (may_join - 1, waiting + 1);
                }
                while rate.count(user, now).is_ok() {
                    may_join += cores - 1;
                }
                if free_at.is_none() && waiting > 0 {
                    (free_at, waiting) = (Some(now + took), waiting - 1);
                }
                now += STEP;
            }
            let at_once = took * FILTERS_AT_ONCE * cores;
            let most = FOR / FILTER_TIME_PART + at_once;
            assert!(took * done <= most, "{cores} cores, {took:?} each: {done}");
            assert!(done > 0, "{cores} cores, {took:?} each");
        }
    }

    #[test]
    fn whoever_has_used_least_is_told() {
        let mut rates = Rates::default();
        let [one, like, named] = [
            (Standing::Unnamed, 1),
            (Standing::Unnamed, 2),
            (Standing::Named, 3),
        ];
        rates
            .filters
            .charge((one, FILTERS_AT_ONCE), FILTER_EVERY * 3, START);
        rates
            .filters
            .charge((named, FILTERS_AT_ONCE), FILTER_EVERY, START);
        let used = |rates: &Rates, user| rates.used(user, START);
        assert!(used(&rates, named) < used(&rates, like));
        assert!(used(&rates, like) < used(&rates, one));
        assert_eq!(used(&rates, (Standing::Own, 0)), [Duration::ZERO; 2]);
        // Who has attached often has had the thread's time, too.
        let often = (named, ATTACHES_AT_ONCE);
        rates
            .attaches
            .charge(often, ATTACH_EVERY * ATTACHES_AT_ONCE, START);
        assert!(used(&rates, named) > used(&rates, (Standing::Named, 4)));
        assert!(used(&rates, named) > used(&rates, like));
    }
}
