//! The link addresses of the hosts that were looked up lately.
//!
//! A connection keeps its path, but has none when its SYN is answered; what answers for connections in
//! TIME-WAIT, and whatever belongs to none, has no place to keep one. For these there is a small table, each
//! entry good for as long as the stack's path generation stands: any change of routes, and any change of a
//! neighbour that should be asked for again, makes all of it worthless at once.
//!
//! Invariant: an entry is that of a unicast host that is reached by a route and may send to us
//! (RFC 1122 §3.2.1.3 was checked), so that a packet from it needs no look at the routes either.

use std::net::IpAddr;
use std::num::NonZeroU64;

use exos_wire::Mac;

use crate::limits::PATHS_KEPT;

#[derive(Copy, Clone)]
struct Known {
    host: IpAddr,
    generation: NonZeroU64,
    mac: Mac,
}

/// The table: an address has one place.
pub(in crate::stack) struct PathCache([Option<Known>; PATHS_KEPT]);

impl PathCache {
    pub const fn new() -> Self {
        Self([None; PATHS_KEPT])
    }

    /// The link address to which packets to `host` go, if that is known to hold still.
    #[inline]
    pub fn get(&self, host: IpAddr, generation: NonZeroU64) -> Option<Mac> {
        self.0[place_of(host)]
            .filter(|known| known.generation == generation && known.host == host)
            .map(|known| known.mac)
    }

    /// Remember what a look-up gave.
    pub fn put(&mut self, host: IpAddr, generation: NonZeroU64, mac: Mac) {
        self.0[place_of(host)] = Some(Known {
            host,
            generation,
            mac,
        });
    }
}

/// Hosts of one network differ in their last bits. One that is chosen to share a place costs a look-up.
#[inline]
fn place_of(host: IpAddr) -> usize {
    let bits = match host {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => v6.to_bits() as u32,
    };
    (bits ^ bits >> 8) as usize % PATHS_KEPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_for_one_generation_and_one_host() {
        let mut paths = PathCache::new();
        let host = |n: u8| IpAddr::from([10, 0, 0, n]);
        let (first, second) = (NonZeroU64::MIN, NonZeroU64::new(2).unwrap());
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        paths.put(host(1), first, mac);
        assert_eq!(paths.get(host(1), first), Some(mac));
        assert_eq!(paths.get(host(1), second), None);
        assert_eq!(paths.get(host(2), first), None);
        let rival = (2..=255u8)
            .map(host)
            .find(|&h| place_of(h) == place_of(host(1)))
            .expect("more hosts than places");
        paths.put(rival, first, Mac::ZERO);
        assert_eq!(paths.get(host(1), first), None);
    }
}
