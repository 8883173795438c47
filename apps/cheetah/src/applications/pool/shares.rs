//! Which clients keep connections to an application busy: none of them may take all.
//!
//! A client of this host is not counted: a proxy or what ends TLS stands there, and asks for all of its own clients.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::net::IpAddr;

use super::carriers::Upstream;

use crate::limits::CLIENT_SHARE;
use crate::site::hash::PathHasher;
use crate::site::rules::access::peer::Peer;

/// What a client is counted as; nothing where it is of this host.
pub(super) fn counted(ip: IpAddr) -> Option<Peer> {
    let is_here = ip.to_canonical().is_loopback();
    (!is_here).then(|| Peer::of(ip))
}

/// How many of these are one client's at most.
pub(super) fn share_of(all: usize) -> usize {
    all.div_ceil(CLIENT_SHARE)
}

/// Connections that carry a request of a client that counts.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Whose request each carries.
    of_connections: HashMap<Upstream, Peer, BuildHasherDefault<PathHasher>>,
    counts: HashMap<Peer, usize>,
}

impl Shares {
    /// A connection carries a request from now on, which ends nothing that it carried before.
    pub(super) fn begin(&mut self, connection: Upstream, peer: Option<Peer>) {
        if let Some(peer) = peer
            && self.of_connections.insert(connection, peer).is_none()
        {
            *self.counts.entry(peer).or_default() += 1;
        }
    }

    /// A connection carries none any more, if it did.
    pub(super) fn end(&mut self, connection: Upstream) {
        let Some(peer) = self.of_connections.remove(&connection) else {
            return;
        };
        if let Entry::Occupied(mut count) = self.counts.entry(peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// How many carry a request of this client.
    pub(super) fn count(&self, peer: Peer) -> usize {
        self.counts.get(&peer).copied().unwrap_or(0)
    }
}
