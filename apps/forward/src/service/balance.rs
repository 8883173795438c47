//! Which of a listener's servers a new flow goes to.
//!
//! Maglev hashing looks at the client alone, so that forwarders agree and one that has forgotten everything decides as before. The
//! other two look at what there was: they know only their own flows, and begin again when the forwarder does.

use exos_inet::siphash::SipKey;

use crate::packets::endpoint::Endpoint;

use super::listener::{Listener, Member};
use super::policy::{Affinity, Balance};
use super::server::Server;
use super::services::Services;
use super::table::NextTable;

impl Services {
    /// Chooses servers so from now on.
    pub fn set_balance(&mut self, balance: Balance) {
        if self.balance == balance {
            return;
        }
        self.balance = balance;
        (0..self.listeners.len() as u16).for_each(|place| self.want_table(place));
    }

    /// What of a client decides which server it belongs to, from now on.
    pub fn set_affinity(&mut self, affinity: Affinity) {
        if self.affinity == affinity {
            return;
        }
        self.affinity = affinity;
        (0..self.listeners.len() as u16).for_each(|place| self.want_table(place));
    }

    /// What of a client decides that.
    pub fn affinity(&self) -> Affinity {
        self.affinity
    }

    /// What others call a server of a listener too: its end, or its address alone where clients belong to machines, by
    /// whatever port they are reached.
    pub(super) fn name(&self, listener: &Listener, server: u16) -> u64 {
        let Endpoint { address, port } = self.servers[usize::from(server)].at;
        let port = match self.affinity {
            Affinity::Client if listener.has_an_address_each => 0,
            _ => port,
        };
        SipKey::from_seed(0).hash_and_half(address.words(), port.into())
    }

    /// The server that a new flow with this hash goes to.
    pub fn choose(&mut self, listener: u16, hash: u64) -> Option<usize> {
        let listener = &mut self.listeners[usize::from(listener)];
        let chosen = match self.balance {
            Balance::Maglev => listener.by_hash(hash),
            Balance::Least => listener.least(&self.servers, hash),
            Balance::RoundRobin => listener.next_in_turn(),
        };
        chosen.map(usize::from)
    }

    /// Another server for a flow with this hash that `server` does not take, after this many that have refused it; `None` when all
    /// others have. For each flow servers have an order of their own, so that those of one that is gone go to all others.
    pub fn another(&self, listener: u16, server: u16, hash: u64, refusals: u8) -> Option<usize> {
        let members = self.listeners[usize::from(listener)].members.iter();
        let others = members
            .filter(is_open)
            .map(|member| member.server)
            .filter(|other| *other != server);
        if others.clone().count() <= usize::from(refusals) {
            return None;
        }
        let key = SipKey::from_seed(0);
        let listener = &self.listeners[usize::from(listener)];
        let rank = |server: &u16| (key.hash(&[hash, self.name(listener, *server)]), *server);
        let from = rank(&server);
        let next = others.clone().filter(|other| rank(other) < from);
        let next = next.max_by_key(rank).or_else(|| others.max_by_key(rank));
        next.map(usize::from)
    }
}

fn is_open(member: &&Member) -> bool {
    member.effective_weight() > 0
}

impl Listener {
    /// The server that a key belongs to. While a table is made, the old one may name servers that are to have nothing more;
    /// their keys go to the others until then.
    fn by_hash(&self, hash: u64) -> Option<u16> {
        let chosen = self.table.as_ref().map(|table| table.server_of(hash));
        if matches!(self.next, NextTable::Settled) {
            return chosen;
        }
        let named = chosen.and_then(|server| self.member(server));
        if named.as_ref().is_some_and(is_open) {
            return chosen;
        }
        let all = self.members.iter().filter(is_open).count() as u64;
        let nth = hash.checked_rem(all)? as usize;
        let mut others = self.members.iter().filter(is_open);
        others.nth(nth).map(|member| member.server)
    }

    /// The server that would have the fewest flows for its weight with one more; of several such any, by the hash.
    fn least(&self, servers: &[Server], hash: u64) -> Option<u16> {
        let begin = hash.checked_rem(self.members.len() as u64)? as usize;
        let (before, from) = self.members.split_at(begin);
        let load = |member: &Member| {
            let open = u64::from(servers[usize::from(member.server)].open) + 1;
            (open, u64::from(member.effective_weight()))
        };
        let all = from.iter().chain(before).filter(is_open);
        let least = all.reduce(|least, member| {
            let ((open, weight), (least_open, least_weight)) = (load(member), load(least));
            if open * least_weight < least_open * weight {
                member
            } else {
                least
            }
        });
        least.map(|member| member.server)
    }

    /// Each server's credit grows by its weight; who has most is next, and pays for all. So the turns of a heavy one lie apart.
    fn next_in_turn(&mut self) -> Option<u16> {
        let mut sum = 0;
        for member in &mut self.members {
            let weight = i64::from(member.effective_weight());
            member.credit = if weight == 0 {
                0
            } else {
                member.credit + weight
            };
            sum += weight;
        }
        let open = self.members.iter_mut().filter(|member| is_open(&&**member));
        let next = open.reduce(|next, m| if m.credit > next.credit { m } else { next })?;
        next.credit -= sum;
        Some(next.server)
    }
}
