//! Limits that an operator sets: connections of each peer, and the least rates of clients.
//!
//! Connections in all are the stack's limit: beyond it SYNs are not answered, which costs nothing, and the client's next
//! try may find room. Those of a peer are counted when their handshake is complete: before that, anybody could use up
//! another's share with forged addresses. One too many is reset: an answer (503) would keep the control block, for which
//! the limit is, for as long as the client likes.
//!
//! The table holds an entry for each peer that has a connection, and nothing without a limit. It is one for all cores, and
//! is looked at when a connection comes or goes, never for a request.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exos_inet::Instant;

use crate::access::peer::Peer;
use crate::limits::{HEAD_GRACE_TIME, READ_RATE_TIME, REQUEST_TIME};

/// What is limited, and how much; without a number, not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Connections of an IPv4 address, or of an IPv6 network of 64 bits: what one subscriber usually has.
    pub peer_connections: Option<u32>,
    /// Bytes a second that a client takes of its responses at least.
    pub read_rate: Option<u32>,
    /// Bytes a second that a client sends of a request's head at least, after a few seconds.
    pub head_rate: Option<u32>,
}

/// What the command line and a configuration say of these limits.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundsArgs {
    /// Most connections at once; further SYNs are not answered [default: 1048576]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
    /// Most connections at once from one IPv4 address or IPv6 /64; further ones are reset
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_peer_connections: Option<u32>,
    /// Bytes a second that a client takes of its responses at least; slower ones are reset
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_read_rate: Option<u32>,
    /// Bytes a second that a client sends of a request's head at least; slower ones are answered with 408
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_head_rate: Option<u32>,
}

impl BoundsArgs {
    /// This, and what a file says where this says nothing.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        Self {
            max_connections: self.max_connections.or(file.max_connections),
            max_peer_connections: self.max_peer_connections.or(file.max_peer_connections),
            min_read_rate: self.min_read_rate.or(file.min_read_rate),
            min_head_rate: self.min_head_rate.or(file.min_head_rate),
        }
    }

    /// The limits of each client.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            peer_connections: self.max_peer_connections,
            read_rate: self.min_read_rate,
            head_rate: self.min_head_rate,
        }
    }
}

impl Bounds {
    /// How long a head of which `len` bytes have come may take in all.
    pub(crate) fn head_time(&self, len: usize) -> Duration {
        let Some(rate) = self.head_rate else {
            return REQUEST_TIME;
        };
        let earned = Duration::from_secs_f64(len as f64 / f64::from(rate.max(1)));
        REQUEST_TIME.min(HEAD_GRACE_TIME + earned)
    }
}

/// How a client takes its responses: what it had taken when it was looked at last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    at: Instant,
    taken: u64,
}

impl Pace {
    /// From here on.
    pub(crate) fn new(at: Instant, taken: u64) -> Self {
        Self { at, taken }
    }

    /// Looks again, when it is time to; true when too little was taken since.
    pub(crate) fn is_too_slow(&mut self, bounds: &Bounds, now: Instant, taken: u64) -> bool {
        let Some(rate) = bounds.read_rate else {
            return false;
        };
        let time = now - self.at;
        if time < READ_RATE_TIME {
            return false;
        }
        let least = f64::from(rate) * time.as_secs_f64();
        let is_slow = ((taken - self.taken) as f64) < least;
        *self = Self::new(now, taken);
        is_slow
    }
}

/// Parts of the table of a server on several cores, each with a lock: two cores rarely want the same at once.
const PARTS: usize = 64;

/// The connections of each peer on all cores. A clone is the same table. Its hash is keyed: peers choose their addresses.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    parts: Arc<[Mutex<HashMap<Peer, u32>>]>,
    hash: RandomState,
}

impl Default for Peers {
    fn default() -> Self {
        let part = || Mutex::new(HashMap::new());
        Self {
            parts: (0..PARTS).map(|_| part()).collect(),
            hash: RandomState::new(),
        }
    }
}

impl Peers {
    /// The part that has a peer.
    fn part(&self, peer: &Peer) -> MutexGuard<'_, HashMap<Peer, u32>> {
        let at = self.hash.hash_one(peer) as usize % self.parts.len();
        // Nothing is left half done by the one that panics with the lock.
        let part = self.parts[at].lock();
        part.unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection, unless its peer has as many as it may.
    pub(crate) fn admit(&self, ip: IpAddr, most: u32) -> bool {
        let peer = Peer::of(ip);
        let mut part = self.part(&peer);
        let count = part.entry(peer).or_insert(0);
        let has_room = *count < most;
        *count += u32::from(has_room);
        has_room
    }

    /// A connection that was counted is over.
    pub(crate) fn leave(&self, ip: IpAddr) {
        let peer = Peer::of(ip);
        if let Entry::Occupied(mut count) = self.part(&peer).entry(peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Peers that have connections.
    #[cfg(test)]
    fn len(&self) -> usize {
        let parts = self
            .parts
            .iter()
            .map(|part| part.lock().expect("no panic").len());
        parts.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn connections_are_counted_by_address_or_network() {
        let peers = Peers::default();
        for (peer, is_admitted) in [
            ("10.0.0.1", true),
            ("10.0.0.1", true),
            ("10.0.0.1", false),
            ("10.0.0.2", true),
            ("2001:db8::1", true),
            ("2001:db8::2", true),
            ("2001:db8::3", false),
            ("2001:db8:0:1::1", true),
        ] {
            assert_eq!(peers.admit(ip(peer), 2), is_admitted, "{peer}");
        }
        peers.leave(ip("2001:db8::ffff"));
        assert!(peers.admit(ip("2001:db8::3"), 2));
        for peer in ["10.0.0.1", "10.0.0.1", "10.0.0.2"] {
            peers.leave(ip(peer));
        }
        assert_eq!(peers.len(), 2, "nobody is remembered who has no connection");
    }

    /// A peer whose connections come to several cores has as many as it may, not as many on each.
    #[test]
    fn connections_are_counted_over_all_cores() {
        const MOST: u32 = 100;
        let peers = Peers::default();
        let admitted: usize = std::thread::scope(|scope| {
            let core = || {
                scope.spawn(|| {
                    (0..1000)
                        .filter(|_| peers.clone().admit(ip("10.0.0.1"), MOST))
                        .count()
                })
            };
            let cores = [core(), core(), core(), core()];
            cores
                .into_iter()
                .map(|core| core.join().expect("no panic"))
                .sum()
        });
        assert_eq!(admitted, MOST as usize);
        (0..MOST).for_each(|_| peers.leave(ip("10.0.0.1")));
        assert_eq!(peers.len(), 0);
    }

    #[test]
    fn a_head_earns_time_by_coming() {
        let bounds = Bounds {
            head_rate: Some(100),
            ..Bounds::default()
        };
        assert_eq!(bounds.head_time(0), HEAD_GRACE_TIME);
        assert_eq!(
            bounds.head_time(300),
            HEAD_GRACE_TIME + Duration::from_secs(3)
        );
        assert_eq!(bounds.head_time(1 << 20), REQUEST_TIME);
        assert_eq!(Bounds::default().head_time(0), REQUEST_TIME);
    }

    #[test]
    fn a_reader_is_judged_now_and_then_by_what_it_took_since() {
        let bounds = Bounds {
            read_rate: Some(1000),
            ..Bounds::default()
        };
        let secs = READ_RATE_TIME.as_secs();
        let at = |second: u64| Instant::from_millis(1000 * second);
        let mut pace = Pace::new(at(0), 0);
        assert!(!pace.is_too_slow(&bounds, at(secs - 1), 0), "not yet");
        assert!(!pace.is_too_slow(&bounds, at(secs), 1000 * secs));
        assert!(pace.is_too_slow(&bounds, at(2 * secs), 2000 * secs - 1));
        assert!(!pace.is_too_slow(&Bounds::default(), at(9 * secs), 0));
    }
}
