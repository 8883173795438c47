//! Pools: prefixes that are ours with all their addresses.
//!
//! A pool is a part of a network on the link, whose hosts ask for each of its addresses, or a network that others route to
//! one address of ours. Both are the same here: anyone who asks for an address of a pool is answered, and what comes to one is
//! ours. Connections begin from all of them (`Source::Pools` of `tcp`).

use std::net::IpAddr;

use exos_wire::Prefix;

use crate::limits::{POOL_ANNOUNCED_MAX, POOLS_MAX};
use crate::route::routes::{RouteError, Routes, is_link_local};

impl Routes {
    /// Take all addresses of a prefix, beside the address by which it is reached. It may be a part of a network on the link,
    /// or one that others route to us.
    pub fn add_pool(&mut self, pool: Prefix) -> Result<(), RouteError> {
        if pool.first() != pool.addr {
            return Err(RouteError::PoolBegin(pool));
        }
        if let Some(reserved) = reserved().find(|reserved| reserved.overlaps(&pool)) {
            return Err(RouteError::PoolReserved(pool, reserved));
        }
        if let Some(other) = self.pools.iter().find(|other| other.overlaps(&pool)) {
            return Err(RouteError::PoolOverlap(pool, *other));
        }
        let of_family = |p: &&Prefix| p.addr.is_ipv4() == pool.addr.is_ipv4();
        let mut networks = self.addresses.iter().filter(of_family).peekable();
        if networks.peek().is_none() {
            return Err(RouteError::PoolAlone(pool));
        }
        if let Some(network) = networks.find(|network| takes_an_end(&pool, network)) {
            return Err(RouteError::PoolNetwork(pool, *network));
        }
        if self.pools.len() == POOLS_MAX {
            return Err(RouteError::Full(POOLS_MAX));
        }
        // Those of a family lie together.
        let place = if pool.addr.is_ipv4() {
            self.pools_of(true).len()
        } else {
            self.pools.len()
        };
        self.pools.insert(place, pool);
        self.generation += 1;
        Ok(())
    }

    /// The pools from which a packet to `dst` may come: of its family, and none where `dst` is only on the link.
    pub fn pools_to(&self, dst: IpAddr) -> &[Prefix] {
        if is_link_local(dst) {
            return &[];
        }
        self.pools_of(dst.is_ipv4())
    }

    /// The pools that are a part of a network on the link, and so small that each of their addresses is treated like a single
    /// one.
    pub fn small_pools(&self) -> impl Iterator<Item = &Prefix> {
        let is_small = |pool: &&Prefix| pool.addresses() <= POOL_ANNOUNCED_MAX;
        let is_near = |pool: &&Prefix| self.addresses.iter().any(|network| network.overlaps(pool));
        self.pools.iter().filter(is_small).filter(is_near)
    }

    /// The pools of a family.
    fn pools_of(&self, ipv4: bool) -> &[Prefix] {
        let (v4, v6) = self
            .pools
            .split_at(self.pools.partition_point(|p| p.addr.is_ipv4()));
        if ipv4 { v4 } else { v6 }
    }
}

/// What no pool may have addresses of: "this network", loopback, link-local addresses, groups and what is above them (RFC
/// 6890), and the same of IPv6 (RFC 4291 §2.4).
fn reserved() -> impl Iterator<Item = Prefix> {
    let v4 = [(0, 8), (127, 8), (224, 3)].map(|(first, len)| (IpAddr::from([first, 0, 0, 0]), len));
    let v6 = [(0, 127), (0xfe80, 10), (0xff00, 8)]
        .map(|(first, len)| (IpAddr::from([first, 0, 0, 0, 0, 0, 0, 0]), len));
    let link_v4 = (IpAddr::from([169, 254, 0, 0]), 16);
    let all = v4.into_iter().chain([link_v4]).chain(v6);
    all.map(|(addr, len)| Prefix { addr, len })
}

/// Whether a pool has the first or the last address of a network in it; of a network of two addresses or one, all.
fn takes_an_end(pool: &Prefix, network: &Prefix) -> bool {
    let all = pool.len <= network.len && pool.contains(network.addr);
    let last = network.broadcast();
    let ends =
        last.is_some_and(|last| pool.contains(last.into()) || pool.contains(network.first()));
    all || ends
}
