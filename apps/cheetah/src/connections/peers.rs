//! How many connections each peer has, over all cores.
//!
//! A peer's connections are counted when their handshake is complete: before that, anybody could use up another's share
//! with forged addresses. One too many is reset: an answer (503) would keep the control block, for which the limit is,
//! for as long as the client likes.
//!
//! The table holds an entry for each peer that has a connection, and nothing without a limit. It is one for all cores, and
//! is looked at when a connection comes or goes, never for a request.
//!
//! Where the kernel answers requests, its connections and ours are counted there, together, and what only we can count is here
//! ([`PeerRoom`]).

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos::requests::{Admission, PeerRoom};

use crate::site::rules::access::peer::Peer;

/// Parts of the table of a server on several cores, each with a lock: two cores rarely want the same at once.
const PARTS: usize = 64;

/// The connections of each peer on all cores. A clone is the same table. Its hash is keyed: peers choose their addresses.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    parts: Arc<[Mutex<HashMap<Peer, u32>>]>,
    hash: RandomState,
    in_kernel: Option<PeerRoom>,
}

impl Default for Peers {
    fn default() -> Self {
        let part = || Mutex::new(HashMap::new());
        Self {
            parts: (0..PARTS).map(|_| part()).collect(),
            hash: RandomState::new(),
            in_kernel: None,
        }
    }
}

impl Peers {
    /// This table, beside what the kernel counts.
    #[must_use]
    pub(crate) fn beside(self, in_kernel: Option<PeerRoom>) -> Self {
        Self { in_kernel, ..self }
    }

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
        let count = part.get(&peer).copied().unwrap_or(0);
        let in_kernel = self.in_kernel.as_ref();
        let admission = in_kernel.map_or(Admission::Beside, |room| room.admit(ip, count));
        match admission {
            Admission::Beside if count < most => {
                part.insert(peer, count + 1);
                true
            }
            Admission::Beside | Admission::Refused => false,
            Admission::Counted => true,
        }
    }

    /// A peer has as many as it may, those included that the kernel counts, where another is counted for the moment of the question.
    pub(crate) fn has_all(&self, ip: IpAddr, most: u32) -> bool {
        let peer = Peer::of(ip);
        let part = self.part(&peer);
        let count = part.get(&peer).copied().unwrap_or(0);
        let Some(room) = &self.in_kernel else {
            return count >= most;
        };
        let admission = room.admit(ip, count);
        if admission != Admission::Refused {
            room.leave(ip, admission == Admission::Beside);
        }
        admission == Admission::Refused
    }

    /// A connection that was counted is over.
    pub(crate) fn leave(&self, ip: IpAddr) {
        let peer = Peer::of(ip);
        let mut part = self.part(&peer);
        let ours = part.entry(peer);
        if let Some(room) = &self.in_kernel {
            room.leave(ip, matches!(ours, Entry::Occupied(_)));
        }
        if let Entry::Occupied(mut count) = ours {
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
        assert!(peers.has_all(ip("2001:db8::4"), 2) && !peers.has_all(ip("2001:db8::4"), 3));
        assert!(!peers.has_all(ip("10.0.0.2"), 2) && !peers.has_all(ip("10.0.0.9"), 1));
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
}
