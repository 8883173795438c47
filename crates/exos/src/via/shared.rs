//! The daemon's tables, mapped read-only: next hops and routes for a stack.
//!
//! They change under our eyes and have no descriptor to wait on: a generation counts their changes.
//! What the stack waits for is looked up whenever the generation has moved; all of it is read at most
//! every [`READ_EVERY`], since another program's grants move the generation too.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use exos_host::Error;
use exos_host::shared::SharedWords;
use exos_inet::route::Prefix;
use exos_inet::{Instant, RouteTo, Stack};
use exos_xok::tables::{Neighbour, NeighbourState, Tables};

use super::control::bad;
use crate::limits::{AWAITED_MAX, READ_EVERY};

/// The tables, and how far they have been read.
#[derive(Debug)]
pub(super) struct Shared {
    words: SharedWords,
    /// The interface whose rows are ours.
    interface: u32,
    /// The generation of the last look for what is awaited, and of the last look at everything.
    looked: u64,
    read: u64,
    read_at: Instant,
    /// What the stack waits for.
    awaited: Vec<IpAddr>,
}

impl Shared {
    /// Maps what came with the daemon's welcome.
    pub(super) fn map(fds: Vec<OwnedFd>) -> Result<Self, Error> {
        let fd = fds.into_iter().next().ok_or_else(|| bad("no tables"))?;
        let words = SharedWords::open(fd)?;
        Tables::new(words.words()).map_err(|e| Error::new(e.to_string()))?;
        Ok(Self {
            words,
            interface: 0,
            looked: 0,
            read: 0,
            read_at: Instant::START,
            awaited: Vec::new(),
        })
    }

    /// Reads the rows of this interface from now on.
    pub(super) fn select(&mut self, interface: u32) {
        self.interface = interface;
    }

    /// The tables of a daemon that has come back, in place of the old ones.
    pub(super) fn replace(&mut self, new: Self) {
        let awaited = std::mem::take(&mut self.awaited);
        *self = Self {
            interface: self.interface,
            awaited,
            ..new
        };
    }

    pub(super) fn tables(&self) -> Tables<'_> {
        Tables::new(self.words.words()).expect("they were tables when they were mapped")
    }

    /// True while the stack waits for a neighbour.
    pub(super) fn is_awaiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Answers the stack's question from the table; false when the daemon must be asked.
    pub(super) fn resolve(&mut self, now: Instant, ip: IpAddr, stack: &mut Stack) -> bool {
        let known = self.tables().neighbour(self.interface, ip);
        if let Some(neighbour) = known.filter(is_usable) {
            stack.set_neighbor(now, ip, neighbour.mac);
            return neighbour.state == NeighbourState::Reachable;
        }
        if !self.awaited.contains(&ip) && self.awaited.len() < AWAITED_MAX {
            self.awaited.push(ip);
        }
        false
    }

    /// Gives the stack what is new.
    pub(super) fn serve(&mut self, now: Instant, stack: &mut Stack) {
        let generation = self.tables().generation();
        if generation != self.looked && self.is_awaiting() {
            let mut awaited = std::mem::take(&mut self.awaited);
            awaited.retain(|&ip| {
                let known = self.tables().neighbour(self.interface, ip);
                let usable = known.as_ref().is_some_and(is_usable);
                if let Some(neighbour) = known.filter(is_usable) {
                    stack.set_neighbor(now, ip, neighbour.mac);
                }
                // Of one that does not answer the stack hears nothing, and gives up in time.
                let failed = known.is_some_and(|n| n.state == NeighbourState::Failed);
                !usable && !failed
            });
            self.awaited = awaited;
        }
        self.looked = generation;
        if generation != self.read && now - self.read_at >= READ_EVERY {
            self.read_all(now, stack);
            (self.read, self.read_at) = (generation, now);
        }
    }

    fn read_all(&mut self, now: Instant, stack: &mut Stack) {
        let routes = self.routes(stack.addresses());
        if routes != stack.config().routes {
            let gateways = stack.config().gateways.clone();
            // Routes that contradict each other for a moment are read again with the next change.
            let _ = stack.set_routes(routes, gateways);
        }
        for neighbour in self.tables().neighbours() {
            if neighbour.interface == self.interface && is_usable(&neighbour) {
                stack.set_neighbor(now, neighbour.ip, neighbour.mac);
            }
        }
    }

    /// The routes over our interface, those aside that follow from `addresses`. Of several to one
    /// network the first counts.
    pub(super) fn routes(&self, addresses: &[Prefix]) -> Vec<RouteTo> {
        let mut routes: Vec<RouteTo> = Vec::new();
        for row in self.tables().routes() {
            let route = RouteTo {
                network: row.destination,
                prefix: row.prefix,
                gateway: row.gateway,
            };
            let follows = |a: &Prefix| a.len == route.prefix && a.contains(route.network);
            let known = |r: &RouteTo| (r.network, r.prefix) == (route.network, route.prefix);
            let ours = row.interface == self.interface;
            if ours
                && !routes.iter().any(known)
                && (route.gateway.is_some() || !addresses.iter().any(follows))
            {
                routes.push(route);
            }
        }
        routes
    }
}

fn is_usable(neighbour: &Neighbour) -> bool {
    use NeighbourState::{Reachable, Stale};
    matches!(neighbour.state, Reachable | Stale)
}
