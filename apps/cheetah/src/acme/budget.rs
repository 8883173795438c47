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

/// Certificates of one name that it was asked to sign, and that were not kept. It forgets one after the other, each in
/// [`ACME_SIGNED_TIME`], so that one number tells of all: when it will have forgotten the last, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Signed {
    forgotten_at: UnixSecs,
}

impl Signed {
    /// How many seconds to wait before another is asked for; none where it may be at once.
    pub fn wait(self, now: UnixSecs) -> UnixSecs {
        (self.forgotten_at(now) - (ALL - EACH) - now).max(0)
    }

    /// Another is asked for now.
    pub fn spend(self, now: UnixSecs) -> Signed {
        Signed {
            forgotten_at: self.forgotten_at(now) + EACH,
        }
    }

    /// A clock that is set back somewhat makes no more of it than all that may be asked for. What is a day farther away is of a clock that was
    /// wrong, and counts for nothing.
    fn forgotten_at(self, now: UnixSecs) -> UnixSecs {
        match self.forgotten_at > now + ALL + DAY {
            true => now,
            false => self.forgotten_at.clamp(now, now + ALL),
        }
    }
}

/// In how many seconds one certificate is forgotten.
const EACH: UnixSecs = ACME_SIGNED_TIME.as_secs() as UnixSecs;

/// In how many seconds as many are forgotten as may be asked for at once.
const ALL: UnixSecs = ACME_SIGNED_MAX as UnixSecs * EACH;

const DAY: UnixSecs = 24 * 3600;

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

    /// Let's Encrypt signs 5 certificates of a name at once, and then one in 34 hours.
    #[test]
    fn no_more_certificates_of_a_name_are_asked_for_than_an_authority_signs() {
        let (mut signed, mut theirs, mut count) = (Signed::default(), 0, 0);
        for now in (1_000_000..1_000_000 + 28 * DAY).step_by(60) {
            if signed.wait(now) == 0 {
                signed = signed.spend(now);
                theirs = now.max(theirs) + 34 * HOUR;
                assert!(theirs <= now + 5 * 34 * HOUR, "{count} came before");
                count += 1;
            }
        }
        assert!((23..=25).contains(&count), "{count}");
    }

    #[test]
    fn certificates_of_a_name_are_forgotten_one_after_the_other() {
        let (mut signed, mut now) = (Signed::default(), 50_000_000);
        for _ in 0..5 {
            assert_eq!(signed.wait(now), 0);
            signed = signed.spend(now);
        }
        for _ in 0..3 {
            assert_eq!(signed.wait(now), 34 * HOUR);
            now += 34 * HOUR;
            assert_eq!(signed.wait(now - 1), 1);
            signed = signed.spend(now);
        }
        // By a clock that is set back somewhat the wait is no longer, nor is it over; by one that was wrong there is none.
        for (back, wait) in [(60, 34 * HOUR), (DAY, 34 * HOUR), (DAY + 1, 0)] {
            assert_eq!(signed.wait(now - back), wait, "{back}");
        }
    }
}
