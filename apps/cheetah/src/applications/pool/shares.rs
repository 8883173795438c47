//! Which clients keep connections to an application busy: none of them may take all.
//!
//! A client of this host is not counted: a proxy or what ends TLS stands there, and asks for all of its own clients.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use crate::limits::CLIENT_SHARE;
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

/// How many requests of each client that counts are carried. Clients choose their addresses: the table's hash is keyed.
#[derive(Debug, Default)]
pub(super) struct Shares(HashMap<Peer, usize>);

impl Shares {
    /// Another request is carried, of a client that counts or of another.
    pub(super) fn begin(&mut self, peer: Option<Peer>) {
        if let Some(peer) = peer {
            *self.0.entry(peer).or_default() += 1;
        }
    }

    /// One that was begun is carried no more.
    pub(super) fn end(&mut self, peer: Option<Peer>) {
        if let Some(Entry::Occupied(mut count)) = peer.map(|peer| self.0.entry(peer)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// How many are carried for this client.
    pub(super) fn count(&self, peer: Peer) -> usize {
        self.0.get(&peer).copied().unwrap_or(0)
    }
}
