//! Whose turn it is: users take turns, and so do the connections of each.
//!
//! In a turn of the daemon each user gets so much done and no more ([`Turn`]), over however many connections they ask.
//! What they could not say waits in their sockets; the next turn begins with the connection behind the last one that was
//! heard, so that none of them waits for ever.
//!
//! Whom the policy knows better is heard first, and one person may be many users whom it does not name: these have so
//! much time together ([`goes_on`]), as those have who are named by a group only. Users who had none of it are the
//! first of the next turn.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::ids::{ConnectionId, User};
use crate::clock::Now;
use crate::limits::{MESSAGES_PER_TURN, STANDING_TURN_TIME, TURN_TIME};
use crate::pool::Standing;

/// What is left of a user's turn. It ends by whichever comes first: messages, so that many small ones do not keep the
/// others waiting, or time, so that a large one is the last. The others wait for one large one at most.
#[derive(Debug)]
pub struct Turn {
    messages: usize,
    until: Now,
}

impl Turn {
    /// A turn that begins now.
    pub fn begin(now: Now) -> Self {
        Self {
            messages: MESSAGES_PER_TURN,
            until: now + TURN_TIME,
        }
    }

    /// A message was heard and what it asks is done; false when the turn is over with that.
    pub fn goes_on(&mut self, now: Now) -> bool {
        self.messages = self.messages.saturating_sub(1);
        self.messages > 0 && now < self.until
    }
}

/// Whether more users of a standing are heard in a turn of the daemon that came to them at `begun`.
pub fn goes_on(standing: Standing, begun: Now, now: Now) -> bool {
    standing >= Standing::Named || now < begun + STANDING_TURN_TIME
}

/// How far each user's turn went, and that of the users of each standing.
#[derive(Debug, Default)]
pub struct Turns {
    last: BTreeMap<User, ConnectionId>,
    last_user: BTreeMap<Standing, u32>,
}

impl Turns {
    /// Connections that have something to say, by user, best known first, each user's in the order in which they are to
    /// be heard.
    pub fn order(
        &mut self,
        ready: impl Iterator<Item = (User, ConnectionId)>,
    ) -> Vec<(User, Vec<ConnectionId>)> {
        let mut users: BTreeMap<User, Vec<ConnectionId>> = BTreeMap::new();
        for (user, id) in ready {
            users.entry(user).or_default().push(id);
        }
        // A user that has nothing to say has nothing to wait for.
        self.last.retain(|user, _| users.contains_key(user));
        for (user, ids) in &mut users {
            ids.sort_unstable();
            let last = self.last.get(user);
            let behind = last.map_or(0, |last| ids.partition_point(|id| id <= last));
            ids.rotate_left(behind);
        }
        let mut order: Vec<_> = users.into_iter().collect();
        order.sort_by_key(|((standing, _), _)| Reverse(*standing));
        for alike in order.chunk_by_mut(|(one, _), (next, _)| one.0 == next.0) {
            let last = self.last_user.get(&alike[0].0.0);
            let behind = last.map_or(0, |last| alike.partition_point(|(user, _)| user.1 <= *last));
            alike.rotate_left(behind);
        }
        order
    }

    /// This one of a user's was heard.
    pub fn heard(&mut self, user: User, id: ConnectionId) {
        self.last.insert(user, id);
        self.last_user.insert(user.0, user.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_messages_or_by_time() {
        let start = Now::from_secs(7);
        let mut turn = Turn::begin(start);
        for _ in 1..MESSAGES_PER_TURN {
            assert!(turn.goes_on(start));
        }
        assert!(!turn.goes_on(start), "so many messages");
        let mut turn = Turn::begin(start);
        let nearly = TURN_TIME - Now::from_nanos(1);
        assert!(turn.goes_on(start + nearly));
        assert!(!turn.goes_on(start + TURN_TIME), "so much time");
    }

    /// One user with a hundred connections and one with one; three are heard of a user in a turn.
    #[test]
    fn all_connections_of_all_users_are_heard() {
        let mut turns = Turns::default();
        let [many, one] = [(Standing::Named, 7), (Standing::Named, 8)];
        let ready = || (1..=100).map(|id| (many, id)).chain([(one, 101)]);
        let mut heard = BTreeMap::new();
        for _ in 0..34 {
            for (user, ids) in turns.order(ready()) {
                for id in ids.into_iter().take(3) {
                    *heard.entry(id).or_insert(0) += 1;
                    turns.heard(user, id);
                }
            }
        }
        assert_eq!(heard.remove(&101), Some(34), "in every turn");
        assert_eq!(heard.len(), 100);
        assert!(heard.values().all(|times| (1..=2).contains(times)));
    }

    /// A hundred strangers of whom each keeps the daemon longer than all of them may, and one user who is named.
    #[test]
    fn strangers_are_heard_one_in_a_turn_and_all_of_them() {
        let mut turns = Turns::default();
        let named = ((Standing::Named, 1000), 0);
        let strangers = (1..=100).map(|id| ((Standing::Unnamed, id as u32), id));
        let ready: Vec<_> = strangers.chain([named]).collect();
        let mut heard: BTreeMap<User, usize> = BTreeMap::new();
        for _ in 0..100 {
            let order = turns.order(ready.iter().copied());
            assert_eq!(order[0].0, named.0, "first");
            let (begun, mut now) = (Now::ZERO, Now::ZERO);
            for (user, ids) in &order[1..] {
                turns.heard(*user, ids[0]);
                *heard.entry(*user).or_default() += 1;
                now += STANDING_TURN_TIME;
                if !goes_on(user.0, begun, now) {
                    break;
                }
            }
        }
        assert_eq!(heard.len(), 100);
        assert!(heard.values().all(|times| *times == 1), "{heard:?}");
        assert!(
            goes_on(Standing::Named, Now::ZERO, Now::MAX),
            "each has a turn of their own"
        );
    }
}
