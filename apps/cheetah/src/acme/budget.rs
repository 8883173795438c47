//! How much is asked of an authority that it counts for a whole account, or for the host, whatever the names are.
//!
//! What was asked lately is in the folder, so that a restart does not forget it, and several processes of the folder count together.
//! Bounds of one name are [`schedule`](super::schedule)'s.

use exos_tls::certificate::UnixSecs;
use serde::{Deserialize, Serialize};

use crate::limits::{ACME_ACCOUNTS_MAX, ACME_BUDGET_TIME, ACME_ORDERS_BEGUN_MAX};

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
}
