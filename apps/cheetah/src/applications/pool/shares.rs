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

/// Clients that are counted in a row: to look through so few takes less than the keyed hash of one.
const FEW: usize = 8;

/// How many requests of each client that counts are carried. Clients choose their addresses: the hash of the table for those beyond the first
/// few is keyed.
#[derive(Debug, Default)]
pub(super) struct Shares {
    few: Vec<(Peer, usize)>,
    /// All others; none of them is among the few.
    others: HashMap<Peer, usize>,
}

impl Shares {
    /// Another request is carried, of a client that counts or of another.
    pub(super) fn begin(&mut self, peer: Option<Peer>) {
        let Some(peer) = peer else {
            return;
        };
        if let Some((_, count)) = self.few.iter_mut().find(|(of, _)| *of == peer) {
            *count += 1;
        } else if self.few.len() < FEW && !self.others.contains_key(&peer) {
            self.few.push((peer, 1));
        } else {
            *self.others.entry(peer).or_default() += 1;
        }
    }

    /// One that was begun is carried no more.
    pub(super) fn end(&mut self, peer: Option<Peer>) {
        let Some(peer) = peer else {
            return;
        };
        if let Some(at) = self.few.iter().position(|(of, _)| *of == peer) {
            self.few[at].1 -= 1;
            if self.few[at].1 == 0 {
                self.few.swap_remove(at);
            }
        } else if let Entry::Occupied(mut count) = self.others.entry(peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// How many are carried for this client.
    pub(super) fn count(&self, peer: Peer) -> usize {
        let few = self.few.iter().find(|(of, _)| *of == peer);
        let other = || self.others.get(&peer);
        few.map(|(_, count)| count)
            .or_else(other)
            .copied()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each is counted in one place, whatever others begin and end meanwhile.
    #[test]
    fn every_client_has_its_own_count_however_many_there_are() {
        let peer = |number: usize| Some(Peer::V4([10, 0, 0, number as u8]));
        let mut shares = Shares::default();
        let mut wanted = [0; 3 * FEW];
        // A walk that begins and ends requests of few and of many clients at once.
        let mut at = 7_usize;
        for step in 0..20_000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (at >> 33) % wanted.len();
            let most = if step / 500 % 2 == 0 { 3 } else { 0 };
            if wanted[number] < most {
                shares.begin(peer(number));
                wanted[number] += 1;
            } else if wanted[number] > 0 {
                shares.end(peer(number));
                wanted[number] -= 1;
            }
            let counts = (0..wanted.len()).map(|it| shares.count(peer(it).expect("it counts")));
            assert!(counts.eq(wanted), "step {step}");
        }
        shares.begin(None);
        shares.end(None);
        let carried = wanted.iter().filter(|count| **count > 0).count();
        assert_eq!(shares.few.len() + shares.others.len(), carried);
        assert!(shares.few.len() <= FEW);
    }
}
