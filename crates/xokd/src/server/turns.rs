//! Whose turn it is: users take turns, and so do the connections of each.
//!
//! In a turn of the daemon each user gets so much done and no more ([`Turn`]), over however many connections he asks.
//! What he could not say waits in his sockets; the next turn begins with the connection behind the last one that was
//! heard, so that none of them waits for ever.

use std::collections::BTreeMap;

use super::ConnectionId;
use crate::ledger::Now;
use crate::limits::{MESSAGES_PER_TURN, TURN_TIME};

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

/// How far each user's turn went.
#[derive(Debug, Default)]
pub struct Turns {
    last: BTreeMap<u32, ConnectionId>,
}

impl Turns {
    /// Connections that have something to say, by user, each user's in the order in which they are to be heard.
    pub fn order(
        &mut self,
        ready: impl Iterator<Item = (u32, ConnectionId)>,
    ) -> BTreeMap<u32, Vec<ConnectionId>> {
        let mut users: BTreeMap<u32, Vec<ConnectionId>> = BTreeMap::new();
        for (user, id) in ready {
            users.entry(user).or_default().push(id);
        }
        // Who has nothing to say has nothing to wait for.
        self.last.retain(|user, _| users.contains_key(user));
        for (user, ids) in &mut users {
            ids.sort_unstable();
            let last = self.last.get(user);
            let behind = last.map_or(0, |last| ids.partition_point(|id| id <= last));
            ids.rotate_left(behind);
        }
        users
    }

    /// This one of a user's was heard.
    pub fn heard(&mut self, user: u32, id: ConnectionId) {
        self.last.insert(user, id);
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
        let ready = || (1..=100).map(|id| (7, id)).chain([(8, 101)]);
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
}
