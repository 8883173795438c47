//! Tickets of a server that takes early data: it keeps what they stand for, and each is good once.
//!
//! Who has seen a client's first flight can send it again, and early data in it would be answered twice (RFC 8446 §8). So a ticket is a
//! number without a meaning, the session that it stands for is in a table here, and the first that shows it takes it out, under a lock
//! (§8.1). All cores of a process, and all protocols that go by its configuration, have one table. Nothing of it is left when the
//! process ends, and no other process has it: there the same flight comes to a full handshake, without early data.
//!
//! The table is bounded: the oldest tickets go first. A client whose ticket is gone shakes hands in full. Servers that take no early
//! data had better give tickets that stand for themselves, encrypted, for these need no memory.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustls::ServerConfig;
use rustls::server::{ProducesTickets, StoresServerSessions};
use zeroize::Zeroizing;

use crate::limits::{EARLY_DATA_LEN_MAX, KEPT_TICKETS_FOR, KEPT_TICKETS_MAX, TICKET_SHARDS};

/// Bytes of a ticket, and of the name of a session of TLS 1.2.
const ID_LEN: usize = 32;

type Id = [u8; ID_LEN];

/// The tickets that a server has given, and the sessions that they stand for.
pub struct TicketTable {
    shards: Vec<Mutex<Shard>>,
    /// Tickets of one shard at most.
    most: usize,
}

#[derive(Default)]
struct Shard {
    sessions: HashMap<Id, Kept>,
    /// In the order in which they were given; of some the session is gone.
    order: VecDeque<Id>,
}

struct Kept {
    session: Zeroizing<Vec<u8>>,
    since: Instant,
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
        TicketTable::of(KEPT_TICKETS_MAX)
    }
}

impl TicketTable {
    /// For about this many tickets.
    pub fn of(most: usize) -> TicketTable {
        TicketTable {
            shards: (0..TICKET_SHARDS).map(|_| Mutex::default()).collect(),
            most: most.div_ceil(TICKET_SHARDS),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| lock(shard).sessions.len()).sum()
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
    fn put(&mut self, id: Id, kept: Kept, most: usize) {
        while self.sessions.len() >= most || self.order.len() >= 2 * most {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.sessions.remove(&oldest);
        }
        self.order.push_back(id);
        self.sessions.insert(id, kept);
    }
}

/// A session, if its ticket is not too old.
fn still_good(kept: &Kept) -> bool {
    kept.since.elapsed() < KEPT_TICKETS_FOR
}

impl StoresServerSessions for TicketTable {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let Ok(id) = Id::try_from(key) else {
            return false;
        };
        let kept = Kept {
            session: Zeroizing::new(value),
            since: Instant::now(),
        };
        self.shard(&id).put(id, kept, self.most);
        true
    }

    /// For sessions of TLS 1.2, which has no early data: these may be resumed many times.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let id = key.try_into().ok()?;
        let shard = self.shard(id);
        let kept = shard.sessions.get(id).filter(|kept| still_good(kept))?;
        Some(kept.session.to_vec())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let id = key.try_into().ok()?;
        let kept = self.shard(id).sessions.remove(id);
        kept.filter(still_good).map(|kept| kept.session.to_vec())
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
