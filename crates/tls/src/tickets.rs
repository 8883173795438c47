//! Tickets of a server that takes early data: it keeps what they stand for, and each is good once.
//!
//! Who has seen a client's first flight can send it again, and early data in it would be answered twice (RFC 8446 §8). So a ticket is a
//! number without a meaning, the session that it stands for is in a table here, and the first that shows it takes it out, under a lock
//! (§8.1). All cores of a process, and all protocols that go by its configuration, have one table. Nothing of it is left when the
//! process ends, and no other process has it: there the same flight comes to a full handshake, without early data.
//!
//! The table is bounded, by number and by bytes, and tickets go when they are too old: the oldest first. A client whose ticket is gone shakes hands in full. Servers that take no early
//! data had better give tickets that stand for themselves, encrypted, for these need no memory.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustls::ServerConfig;
use rustls::server::{ProducesTickets, StoresServerSessions};
use zeroize::Zeroizing;

use crate::limits::{
    EARLY_DATA_LEN_MAX, KEPT_TICKETS_FOR, KEPT_TICKETS_LEN_MAX, KEPT_TICKETS_MAX, TICKET_COST,
    TICKET_SHARDS,
};

/// Bytes of a ticket, and of the name of a session of TLS 1.2.
const ID_LEN: usize = 32;

type Id = [u8; ID_LEN];

/// The tickets that a server has given, and the sessions that they stand for.
pub struct TicketTable {
    shards: Vec<Mutex<Shard>>,
    /// Tickets of one shard at most, and bytes of these.
    most: usize,
    len_max: usize,
}

#[derive(Default)]
struct Shard {
    sessions: HashMap<Id, Kept>,
    /// In the order in which they were given; of some the session is gone.
    order: VecDeque<Id>,
    /// Bytes that the sessions take.
    len: usize,
}

struct Kept {
    session: Zeroizing<Box<[u8]>>,
    since: Instant,
}

impl Kept {
    /// A copy that takes no more than it has to; the original is overwritten.
    fn new(session: Vec<u8>, since: Instant) -> Kept {
        let session = Zeroizing::new(session);
        Kept {
            session: Zeroizing::new((**session).into()),
            since,
        }
    }

    fn len(&self) -> usize {
        self.session.len() + TICKET_COST
    }

    fn is_good(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < KEPT_TICKETS_FOR
    }
}

/// Has a server with this configuration take early data, by tickets that are kept in this table.
pub fn accept_early_data(config: &mut ServerConfig, tickets: Arc<TicketTable>) {
    config.ticketer = Arc::new(NoTickets);
    config.session_storage = tickets;
    config.max_early_data_size = EARLY_DATA_LEN_MAX;
    config.send_half_rtt_data = true;
}

impl Default for TicketTable {
    fn default() -> TicketTable {
        TicketTable::of(KEPT_TICKETS_MAX, KEPT_TICKETS_LEN_MAX)
    }
}

impl TicketTable {
    /// For about this many tickets, and no more than this many bytes of them.
    pub fn of(most: usize, len_max: usize) -> TicketTable {
        TicketTable {
            shards: (0..TICKET_SHARDS).map(|_| Mutex::default()).collect(),
            most: most.div_ceil(TICKET_SHARDS),
            len_max: len_max.div_ceil(TICKET_SHARDS),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| lock(shard).sessions.len()).sum()
    }

    /// About how many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| lock(shard).len).sum()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Clients choose what they show as tickets, but what is in the table has names of our choice, by chance.
    fn shard(&self, id: &Id) -> MutexGuard<'_, Shard> {
        lock(&self.shards[usize::from(id[0]) % TICKET_SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// Keeps one more, of as many as there may be: those that are too old go, and the oldest beyond.
    fn put(&mut self, id: Id, kept: Kept, most: usize, len_max: usize) {
        let is_full = |shard: &Shard| {
            shard.sessions.len() >= most
                || shard.order.len() >= 2 * most
                || shard.len + kept.len() > len_max
        };
        while let Some(oldest) = self.order.front() {
            let is_good = self
                .sessions
                .get(oldest)
                .is_some_and(|it| it.is_good(kept.since));
            if is_good && !is_full(self) {
                break;
            }
            let oldest = *oldest;
            self.order.pop_front();
            self.take(&oldest);
        }
        self.order.push_back(id);
        self.len += kept.len();
        let before = self.sessions.insert(id, kept);
        self.len -= before.map_or(0, |before| before.len());
    }

    fn take(&mut self, id: &Id) -> Option<Kept> {
        let kept = self.sessions.remove(id)?;
        self.len -= kept.len();
        Some(kept)
    }
}

impl StoresServerSessions for TicketTable {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let Ok(id) = Id::try_from(key) else {
            return false;
        };
        let kept = Kept::new(value, Instant::now());
        let mut shard = self.shard(&id);
        // One that takes more than all may is none of ours.
        let is_kept = kept.len() <= self.len_max;
        if is_kept {
            shard.put(id, kept, self.most, self.len_max);
        }
        is_kept
    }

    /// For sessions of TLS 1.2, which has no early data: these may be resumed many times.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let id = key.try_into().ok()?;
        let shard = self.shard(id);
        let kept = shard.sessions.get(id);
        let kept = kept.filter(|kept| kept.is_good(Instant::now()))?;
        Some(kept.session.to_vec())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let id = key.try_into().ok()?;
        let kept = self.shard(id).take(id);
        let kept = kept.filter(|kept| kept.is_good(Instant::now()));
        kept.map(|kept| kept.session.to_vec())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for TicketTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = f.debug_struct("TicketTable");
        table.field("most", &(self.most * TICKET_SHARDS));
        table.finish_non_exhaustive()
    }
}

/// No tickets that stand for themselves.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LEN: usize = 100 + TICKET_COST;

    fn kept(since: Instant) -> Kept {
        Kept::new(vec![1; 100], since)
    }

    /// Whatever is put and taken, what is there is counted, and keeps to both bounds.
    #[test]
    fn bytes_are_counted_and_bounded() {
        let now = Instant::now();
        let mut shard = Shard::default();
        for round in 0..200_u8 {
            shard.put([round % 50; ID_LEN], kept(now), 20, 10 * LEN + 1);
            if round % 3 == 0 {
                shard.take(&[round.wrapping_mul(7) % 50; ID_LEN]);
            }
            let sum: usize = shard.sessions.values().map(Kept::len).sum();
            assert_eq!(shard.len, sum);
            assert!(shard.sessions.len() <= 10 && shard.order.len() <= 40);
        }
        let long = Kept::new(vec![1; 5 * LEN], now);
        shard.put([99; ID_LEN], long, 20, 10 * LEN + 1);
        assert!(shard.sessions.len() <= 5 && shard.sessions.contains_key(&[99; ID_LEN]));
    }

    #[test]
    fn tickets_go_when_they_are_too_old() {
        let begun = Instant::now();
        let mut shard = Shard::default();
        for number in 0..10 {
            shard.put([number; ID_LEN], kept(begun), 100, 100 * LEN);
        }
        let later = begun + KEPT_TICKETS_FOR - Duration::from_secs(1);
        shard.put([10; ID_LEN], kept(later), 100, 100 * LEN);
        assert_eq!(shard.sessions.len(), 11);
        assert!(shard.sessions[&[0; ID_LEN]].is_good(later));
        let end = begun + KEPT_TICKETS_FOR;
        assert!(!shard.sessions[&[0; ID_LEN]].is_good(end));
        shard.put([11; ID_LEN], kept(end), 100, 100 * LEN);
        assert_eq!((shard.sessions.len(), shard.order.len()), (2, 2));
        assert_eq!(shard.len, 2 * LEN);
    }
}
