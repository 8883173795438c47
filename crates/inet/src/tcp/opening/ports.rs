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
//! numbers ([`Tcp::set_local_part`]), no two of them give out the same pair.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use crate::limits::{LOCAL_PORTS, PORT_NOTES_MAX, PORT_PROBES};
use crate::part::Part;
use crate::route::Prefix;
use crate::tcp::flow::Flow;
use crate::tcp::{OpenError, Tcp};

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
}

impl Tcp {
    /// Open connections from these ports from now on, where no port is said.
    ///
    /// Panics when there is none.
    pub fn set_local_ports(&mut self, range: Range<u16>) {
        assert!(!range.is_empty(), "a connection needs a port");
        self.ports.range = range;
        self.ports.may_have_become_free();
    }

    /// Take a part of all pairs of address and port from now on, where no port is said: what other stacks with the same
    /// addresses, ports and seed take of the rest is not taken twice.
    pub fn set_local_part(&mut self, part: Part) {
        self.ports.part = part;
        self.ports.may_have_become_free();
    }

    /// A flow to `remote` that nobody has.
    pub(in crate::tcp) fn choose_flow(
        &mut self,
        from: &Source<'_>,
        remote: SocketAddr,
    ) -> Result<Flow, OpenError> {
        let all = from.addresses() * self.ports.range.len() as u64;
        let pairs = self.ports.part.count(all);
        for _ in 0..PORT_PROBES.min(pairs) {
            if let Some(flow) = self.next_flow(from, remote, pairs) {
                return Ok(flow);
            }
        }
        self.ports.crowded = true;
        while let Some(pair) = self.ports.free.pop_front() {
            let flow = Flow::new(pair, remote);
            if self.is_of_our_part(from, &flow) && self.is_for_us(&flow) {
                return Ok(flow);
            }
        }
        let these = Some((from.address(0), remote));
        if self.ports.exhausted == these {
            return Err(OpenError::NoPort);
        }
        for _ in 0..pairs {
            if let Some(flow) = self.next_flow(from, remote, pairs) {
                return Ok(flow);
            }
        }
        self.ports.exhausted = these;
        Err(OpenError::NoPort)
    }

    /// The flow of the next of our pairs, of which there are this many, if it is free.
    fn next_flow(&mut self, from: &Source<'_>, remote: SocketAddr, pairs: u64) -> Option<Flow> {
        let n = self.ports.part.number(self.ports.tried % pairs);
        self.ports.tried += 1;
        let addresses = from.addresses();
        let ip = from.address(n % addresses);
        let range = &self.ports.range;
        let place = (self.first_place(ip, remote) + n / addresses) % range.len() as u64;
        let flow = Flow::new(SocketAddr::new(ip, range.start + place as u16), remote);
        self.is_for_us(&flow).then_some(flow)
    }

    /// Where among the ports those of an address begin.
    fn first_place(&self, ip: IpAddr, remote: SocketAddr) -> u64 {
        let hash = Flow::new(SocketAddr::new(ip, 0), remote).hash(&self.key, SALT_PORT) as u32;
        u64::from(hash) % self.ports.range.len() as u64
    }

    /// It begins at one of these pairs, and the number of that is in our part.
    fn is_of_our_part(&self, from: &Source<'_>, flow: &Flow) -> bool {
        let (pair, range) = (flow.local(), &self.ports.range);
        let ports = range.len() as u64;
        let (Some(address), true) = (from.number(pair.ip()), range.contains(&pair.port())) else {
            return false;
        };
        let place = u64::from(pair.port() - range.start);
        let turn = (place + ports - self.first_place(pair.ip(), flow.remote())) % ports;
        self.ports.part.contains(turn * from.addresses() + address)
    }

    /// Nobody listens on its port, and no connection has it.
    fn is_for_us(&self, flow: &Flow) -> bool {
        let listened = self.listeners.iter().any(|l| l.port == flow.local_port());
        !listened && !self.is_taken(flow)
    }

    /// A connection that is nobody's any more has left its pair, unless it waits in TIME-WAIT.
    #[cold]
    pub(in crate::tcp) fn note_end(&mut self, flow: &Flow) {
        if !self.is_taken(flow) {
            self.ports.has_become_free(flow.local());
        }
    }
}

#[cfg(test)]
mod tests;
