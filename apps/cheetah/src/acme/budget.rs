//! How much is asked of an authority that it counts: orders and accounts, whatever the names are, and certificates of one name.
//!
//! What was asked lately is in the folder, so that a restart does not forget it, and several processes of the folder count together.
//! When a name is tried again that has failed is [`schedule`](super::schedule)'s.

use exos_tls::certificate::UnixSecs;
use serde::{Deserialize, Serialize};

use crate::limits::{
    ACME_ACCOUNTS_MAX, ACME_BUDGET_TIME, ACME_ORDERS_BEGUN_MAX, ACME_SIGNED_MAX, ACME_SIGNED_TIME,
};

/// What an authority counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// A new order.
    Order,
    /// A new account.
    Account,
}

/// When it was asked, of the last [`ACME_BUDGET_TIME`]; in seconds since 1970, the oldest first.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Budget {
    #[serde(default)]
    orders: Vec<UnixSecs>,
    #[serde(default)]
    accounts: Vec<UnixSecs>,
}

impl Budget {
    /// How many seconds to wait before this is asked for; none where it may be at once.
    pub fn wait(&self, what: Asked, now: UnixSecs) -> UnixSecs {
        let (all, max) = match what {
            Asked::Order => (&self.orders, ACME_ORDERS_BEGUN_MAX),
            Asked::Account => (&self.accounts, ACME_ACCOUNTS_MAX),
        };
        let lately: Vec<_> = all.iter().filter(|at| is_lately(**at, now)).collect();
        match lately.len().checked_sub(max) {
            Some(beyond) => lately[beyond] + ACME_BUDGET_TIME.as_secs() as UnixSecs - now,
            None => 0,
        }
    }

    /// It is asked for now.
    pub fn spend(&mut self, what: Asked, now: UnixSecs) {
        let all = match what {
            Asked::Order => &mut self.orders,
            Asked::Account => &mut self.accounts,
        };
        all.retain(|at| is_lately(*at, now));
        all.push(now);
    }
}

/// Certificates of one name that it was asked to sign. It forgets one after the other, each in the same time, so that one number tells of all:
/// when it will have forgotten the last, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Signed {
    forgotten_at: UnixSecs,
}

impl Signed {
    /// How many seconds to wait before another is asked for; none where it may be at once. `valid_for` is how long the one is valid that is kept, if
    /// there is one: an authority whose certificates are renewed within days counts over days.
    pub fn wait(self, valid_for: Option<UnixSecs>, now: UnixSecs) -> UnixSecs {
        let each = each(valid_for);
        let all_but_one = (i64::from(ACME_SIGNED_MAX) - 1) * each;
        (self.forgotten_at(each, now) - all_but_one - now).max(0)
    }

    /// Another is asked for now.
    pub fn spend(self, valid_for: Option<UnixSecs>, now: UnixSecs) -> Signed {
        let each = each(valid_for);
        Signed {
            forgotten_at: self.forgotten_at(each, now) + each,
        }
    }

    /// What would be forgotten later than all that may be asked for is of a clock that was wrong, and counts for nothing.
    fn forgotten_at(self, each: UnixSecs, now: UnixSecs) -> UnixSecs {
        match self.forgotten_at > now + i64::from(ACME_SIGNED_MAX) * each {
            true => now,
            false => self.forgotten_at.max(now),
        }
    }
}

/// In how many seconds one certificate is forgotten.
fn each(valid_for: Option<UnixSecs>) -> UnixSecs {
    let week = ACME_SIGNED_TIME.as_secs() as UnixSecs;
    let days = valid_for.filter(|it| *it > 0);
    let all = days.map_or(week, |it| it.min(week));
    all / i64::from(ACME_SIGNED_MAX)
}

/// A time to come is of a clock that was wrong, and counts for nothing.
fn is_lately(at: UnixSecs, now: UnixSecs) -> bool {
    at <= now && now - at < ACME_BUDGET_TIME.as_secs() as UnixSecs
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: UnixSecs = ACME_BUDGET_TIME.as_secs() as UnixSecs;

    /// Let's Encrypt allows 300 orders of an account and 10 accounts of a host, each in three hours.
    #[test]
    fn no_more_is_asked_than_an_authority_allows() {
        for (what, theirs) in [(Asked::Order, 300), (Asked::Account, 10)] {
            let (mut budget, mut at) = (Budget::default(), vec![]);
            // One each second, as fast as the keeper begins them, over two of their times.
            for now in 1_000..1_000 + 2 * TIME {
                if budget.wait(what, now) == 0 {
                    budget.spend(what, now);
                    at.push(now);
                }
            }
            let most = at.iter().map(|begin| {
                let within = |it: &&UnixSecs| (*begin..begin + TIME).contains(*it);
                at.iter().filter(within).count()
            });
            let most = most.max().unwrap();
            assert!(most < theirs && most * 2 >= theirs, "{what:?}: {most}");
            // How long to wait is told, and then one may be asked for again.
            let now = at[at.len() - 1];
            let wait = budget.wait(what, now);
            assert!(wait > 0 && budget.wait(what, now + wait) == 0);
            assert!(budget.wait(what, now + wait - 1) > 0);
        }
    }

    #[test]
    fn orders_are_no_accounts_and_a_wrong_clock_does_not_count() {
        let mut budget = Budget::default();
        for _ in 0..ACME_ACCOUNTS_MAX {
            budget.spend(Asked::Account, 5_000_000);
        }
        assert_eq!(budget.wait(Asked::Account, 5_000_000), TIME);
        assert_eq!(budget.wait(Asked::Order, 5_000_000), 0);
        assert_eq!(budget.wait(Asked::Account, 4_000_000), 0);
        budget.spend(Asked::Account, 4_000_000);
        assert_eq!(budget.accounts, [4_000_000]);
    }

    const HOUR: UnixSecs = 3600;
    const WEEK: UnixSecs = 7 * 24 * HOUR;

    /// Let's Encrypt allows 5 certificates of a name in 7 days, and forgets one in 34 hours (rounded up).
    #[test]
    fn no_more_certificates_of_a_name_are_asked_for_than_an_authority_signs() {
        for valid_for in [None, Some(90 * 24 * HOUR), Some(160 * HOUR)] {
            let (mut signed, mut theirs, mut count) = (Signed::default(), 0, 0);
            for now in (1_000_000..1_000_000 + 4 * WEEK).step_by(60) {
                if signed.wait(valid_for, now) == 0 {
                    signed = signed.spend(valid_for, now);
                    theirs = now.max(theirs) + 34 * HOUR;
                    assert!(theirs <= now + 5 * 34 * HOUR, "{count} came before");
                    count += 1;
                }
            }
            assert!((16..=21).contains(&count), "{valid_for:?}: {count}");
        }
    }

    /// A name that loses what it gets has four at once, and then one in 42 hours.
    #[test]
    fn certificates_of_a_name_are_forgotten_one_after_the_other() {
        let (mut signed, mut now) = (Signed::default(), 5_000_000);
        for _ in 0..4 {
            assert_eq!(signed.wait(None, now), 0);
            signed = signed.spend(None, now);
        }
        for _ in 0..3 {
            assert_eq!(signed.wait(None, now), 42 * HOUR);
            now += 42 * HOUR;
            assert_eq!(signed.wait(None, now - 1), 1);
            signed = signed.spend(None, now);
        }
        // By a clock that is set back.
        assert_eq!(signed.wait(None, now - WEEK), 0);
    }

    /// However short a time its authority gives: two thirds of that are between one and the next, or somewhat less.
    #[test]
    fn a_name_that_keeps_what_it_gets_is_never_held_up() {
        for valid_for in [60, 24 * HOUR, WEEK, 90 * 24 * HOUR] {
            let (mut signed, mut now) = (Signed::default(), 5_000_000);
            for kept in [None].into_iter().chain([Some(valid_for); 50]) {
                assert_eq!(signed.wait(kept, now), 0, "{valid_for}");
                signed = signed.spend(kept, now);
                now += valid_for * 61 / 100;
            }
        }
    }
}
