//! From where connections are opened: pairs of an address of ours and a port that no other connection to the same peer
//! has, nor one in TIME-WAIT.
//!
//! All pairs are numbered, and taken in order. One after the other is of another address, and within an address the ports
//! begin at a place that only we can foretell (RFC 6056 §3.3.3) and follow one another, so that a pair is used again as
//! late as can be. Nearly always the next pair is free.
//!
//! Where most are taken, those between would be passed over again and again. So once a few in a row were taken, what
//! becomes free is noted, and taken next; and when all are taken, that is remembered until one becomes free. Notes are
//! hints only: whatever they say, a pair is looked up before it is given out.
//!
//! Several stacks with the same addresses, made with the same seed, number the pairs alike. Where each takes a part of the
//! numbers ([`Ports::set_part`]), no two of them give out the same pair.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use crate::limits::{LOCAL_PORTS, PORT_NOTES_MAX, PORT_PROBES};
use crate::part::Part;
use crate::route::Prefix;
use crate::siphash::SipKey;
use crate::tcp::values::event::OpenError;
use crate::tcp::values::flow::Flow;

/// Salt of the keyed hash, one for each of its uses.
const SALT_PORT: u32 = 3;

/// From where a connection may begin.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// From this address and port.
    Exactly(SocketAddr),
    /// From any port of this address.
    Address(IpAddr),
    /// From any port of any address in these prefixes, which are of one family, do not overlap, and are one at least.
    Pools(&'a [Prefix]),
}

impl Source<'_> {
    /// How many addresses there are.
    fn addresses(&self) -> u64 {
        match self {
            Self::Exactly(_) | Self::Address(_) => 1,
            Self::Pools(pools) => pools.iter().map(Prefix::addresses).sum(),
        }
    }

    /// The address of this number.
    fn address(&self, mut n: u64) -> IpAddr {
        match self {
            Self::Exactly(source) => source.ip(),
            Self::Address(ip) => *ip,
            Self::Pools(pools) => {
                for pool in *pools {
                    if n < pool.addresses() {
                        return pool.nth(n);
                    }
                    n -= pool.addresses();
                }
                unreachable!("numbers are below the count of all")
            }
        }
    }

    /// The number of an address.
    fn number(&self, ip: IpAddr) -> Option<u64> {
        let only = |own: IpAddr| (own == ip).then_some(0);
        match self {
            Self::Exactly(source) => only(source.ip()),
            Self::Address(address) => only(*address),
            Self::Pools(pools) => {
                let at = pools.iter().position(|pool| pool.contains(ip))?;
                let before: u64 = pools[..at].iter().map(Prefix::addresses).sum();
                Some(before + pools[at].number(ip)?)
            }
        }
    }
}

/// Which pairs come next.
pub(in crate::tcp) struct Ports {
    range: Range<u16>,
    /// Of the numbers of all pairs, those that are ours.
    part: Part,
    /// How many pairs have been tried.
    tried: u64,
    /// Pairs have been found taken: what becomes free is noted.
    crowded: bool,
    /// Pairs that have become free, the first of them first.
    free: VecDeque<SocketAddr>,
    /// No pair of these addresses, of which this is the first, is free to connect to that peer.
    exhausted: Option<(IpAddr, SocketAddr)>,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            range: LOCAL_PORTS,
            part: Part::WHOLE,
            tried: 0,
            crowded: false,
            free: VecDeque::new(),
            exhausted: None,
        }
    }
}

impl Ports {
    /// Whether [`has_become_free`](Self::has_become_free) wants to be told.
    pub const fn wants_notes(&self) -> bool {
        self.crowded
    }

    /// Nobody has this pair any more.
    pub fn has_become_free(&mut self, pair: SocketAddr) {
        self.exhausted = None;
        if self.free.len() < PORT_NOTES_MAX && self.range.contains(&pair.port()) {
            self.free.push_back(pair);
        }
    }

    /// Some pair may have become free.
    pub const fn may_have_become_free(&mut self) {
        self.exhausted = None;
    }

    /// Give out pairs with these ports from now on. Panics when there is none.
    pub fn set_range(&mut self, range: Range<u16>) {
        assert!(!range.is_empty(), "a connection needs a port");
        self.range = range;
        self.may_have_become_free();
    }

    /// Give out this part of all pairs from now on.
    pub fn set_part(&mut self, part: Part) {
        self.part = part;
        self.may_have_become_free();
    }

    /// A flow to `remote` that is free. `key` says where ports begin.
    pub fn choose(
        &mut self,
        from: &Source<'_>,
        remote: SocketAddr,
        key: &SipKey,
        is_free: impl Fn(&Flow) -> bool,
    ) -> Result<Flow, OpenError> {
        let all = from.addresses() * self.range.len() as u64;
        let pairs = self.part.count(all);
        for _ in 0..PORT_PROBES.min(pairs) {
            let flow = self.next_flow(from, (remote, pairs), key);
            if is_free(&flow) {
                return Ok(flow);
            }
        }
        self.crowded = true;
        while let Some(pair) = self.free.pop_front() {
            let flow = Flow::new(pair, remote);
            if self.is_of_our_part(from, &flow, key) && is_free(&flow) {
                return Ok(flow);
            }
        }
        let these = Some((from.address(0), remote));
        if self.exhausted == these {
            return Err(OpenError::NoPort);
        }
        for _ in 0..pairs {
            let flow = self.next_flow(from, (remote, pairs), key);
            if is_free(&flow) {
                return Ok(flow);
            }
        }
        self.exhausted = these;
        Err(OpenError::NoPort)
    }

    /// The flow of the next of our pairs, of which there are this many.
    fn next_flow(
        &mut self,
        from: &Source<'_>,
        (remote, pairs): (SocketAddr, u64),
        key: &SipKey,
    ) -> Flow {
        let n = self.part.number(self.tried % pairs);
        self.tried += 1;
        let addresses = from.addresses();
        let ip = from.address(n % addresses);
        let range = &self.range;
        let place = (self.first_place(ip, remote, key) + n / addresses) % range.len() as u64;
        Flow::new(SocketAddr::new(ip, range.start + place as u16), remote)
    }

    /// Where among the ports those of an address begin.
    fn first_place(&self, ip: IpAddr, remote: SocketAddr, key: &SipKey) -> u64 {
        let hash = Flow::new(SocketAddr::new(ip, 0), remote).hash(key, SALT_PORT) as u32;
        u64::from(hash) % self.range.len() as u64
    }

    /// It begins at one of these pairs, and the number of that is in our part.
    fn is_of_our_part(&self, from: &Source<'_>, flow: &Flow, key: &SipKey) -> bool {
        let (pair, range) = (flow.local(), &self.range);
        let ports = range.len() as u64;
        let (Some(address), true) = (from.number(pair.ip()), range.contains(&pair.port())) else {
            return false;
        };
        let place = u64::from(pair.port() - range.start);
        let turn = (place + ports - self.first_place(pair.ip(), flow.remote(), key)) % ports;
        self.part.contains(turn * from.addresses() + address)
    }
}

#[cfg(test)]
impl Ports {
    /// How many pairs have been tried.
    pub const fn tried(&self) -> u64 {
        self.tried
    }
}
