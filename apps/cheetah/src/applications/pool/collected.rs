//! Bytes of bodies that are kept until they are whole: a bound for all together, and one for each client that counts
//! ([`counted`]), so that none of them takes the others' room.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use super::shares::counted;
use crate::limits::{COLLECTED_LEN_MAX, COLLECTED_PEER_LEN_MAX};
use crate::site::rules::access::peer::Peer;

/// What is kept.
#[derive(Debug)]
pub(crate) struct Collected {
    len: usize,
    /// Of each client that has some.
    of_peers: HashMap<Peer, usize>,
    /// How much there may be, of all and of one.
    most: usize,
    of_peer_most: usize,
}

impl Default for Collected {
    fn default() -> Collected {
        Collected::within(COLLECTED_LEN_MAX, COLLECTED_PEER_LEN_MAX)
    }
}

impl Collected {
    /// Nothing, and later no more than this much, and of each client no more than that.
    pub(crate) fn within(most: usize, of_peer_most: usize) -> Collected {
        Collected {
            len: 0,
            of_peers: HashMap::new(),
            most,
            of_peer_most,
        }
    }

    /// Bytes of a client's are to be kept; false when there is no room for them.
    pub(crate) fn add(&mut self, ip: IpAddr, len: usize) -> bool {
        let peer = counted(ip);
        let before = peer.and_then(|peer| self.of_peers.get(&peer));
        let before = before.copied().unwrap_or(0);
        let has_share = peer.is_none() || len <= self.of_peer_most - before;
        let has_room = has_share && len <= self.most - self.len;
        if has_room && len > 0 {
            self.len += len;
            if let Some(peer) = peer {
                self.of_peers.insert(peer, before + len);
            }
        }
        has_room
    }

    /// This many bytes of a client's are not kept any more.
    pub(crate) fn remove(&mut self, ip: IpAddr, len: usize) {
        if len == 0 {
            return;
        }
        self.len -= len;
        let Some(Entry::Occupied(mut of_peer)) = counted(ip).map(|peer| self.of_peers.entry(peer))
        else {
            return;
        };
        *of_peer.get_mut() -= len;
        if *of_peer.get() == 0 {
            of_peer.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_has_its_share_and_leaves_the_others_theirs() {
        let mut collected = Collected::default();
        let greedy = ip("10.0.0.1");
        assert!(collected.add(greedy, COLLECTED_PEER_LEN_MAX));
        assert!(!collected.add(greedy, 1));
        // Addresses of one network are one client's.
        assert!(collected.add(ip("2001:db8::1"), COLLECTED_PEER_LEN_MAX));
        assert!(!collected.add(ip("2001:db8::2"), 1));
        assert!(collected.add(ip("10.0.0.2"), 1));
        collected.remove(greedy, 1);
        assert!(collected.add(greedy, 1));
        // What ends TLS on this host asks for all of its clients.
        for here in ["127.0.0.1", "::1", "::ffff:127.0.0.2"] {
            let more = COLLECTED_PEER_LEN_MAX + 1;
            assert!(collected.add(ip(here), more), "{here}");
            collected.remove(ip(here), more);
        }
        assert_eq!(collected.len, 2 * COLLECTED_PEER_LEN_MAX + 1);
    }

    #[test]
    fn all_clients_have_a_bound_together() {
        let mut collected = Collected::default();
        let clients: Vec<IpAddr> = (1..=100).map(|n| IpAddr::from([10, 0, 0, n])).collect();
        let full = COLLECTED_LEN_MAX / COLLECTED_PEER_LEN_MAX;
        for client in &clients[..full] {
            assert!(collected.add(*client, COLLECTED_PEER_LEN_MAX));
        }
        assert!(!collected.add(clients[full], 1));
        for client in &clients[..full] {
            collected.remove(*client, COLLECTED_PEER_LEN_MAX);
        }
        // Nothing is left of those that have nothing.
        assert!(collected.of_peers.is_empty() && collected.len == 0);
        assert!(collected.add(clients[full], 0) && collected.of_peers.is_empty());
    }
}
