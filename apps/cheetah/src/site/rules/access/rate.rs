//! Requests a second of each client: this many on average, and this many at once (GCRA, ITU-T I.371 Annex A).
//!
//! For each client one time is kept: when its allowance will be whole again. The table is one for all cores and bounded; a client
//! whose allowance is whole takes no place once room is needed.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use exos_inet::Instant;

use super::peer::Peer;
use crate::limits::RATE_CLIENTS_MAX;

/// Parts of the table, each with a lock: two cores rarely want the same at once.
const PARTS: usize = 16;

/// A limit, and what clients have of it.
#[derive(Debug)]
pub struct Rate {
    /// Between two requests, in microseconds.
    interval: u64,
    /// How far a client may be ahead of that.
    ahead: u64,
    parts: [Mutex<HashMap<Peer, u64>>; PARTS],
    /// Keyed: clients choose their addresses.
    hash: RandomState,
}

impl Rate {
    /// This many requests a second, and this many at once beyond the first.
    pub fn new(per_second: u32, burst: u32) -> Rate {
        let interval = 1_000_000 / u64::from(per_second.max(1));
        Rate {
            interval,
            ahead: interval * u64::from(burst),
            parts: Default::default(),
            hash: RandomState::new(),
        }
    }

    /// Takes a request of a client's allowance, or says in how many seconds there will be one.
    pub fn take(&self, ip: IpAddr, now: Instant) -> Result<(), u64> {
        let (peer, now) = (Peer::of(ip), now.micros());
        let part = &self.parts[self.hash.hash_one(peer) as usize % PARTS];
        // Nothing is left half done when a thread panics with the lock.
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        let whole_at = part.get(&peer).map_or(now, |&at| at.max(now));
        let too_early = (whole_at - now).saturating_sub(self.ahead);
        if too_early > 0 {
            return Err(too_early.div_ceil(1_000_000));
        }
        if part.len() >= RATE_CLIENTS_MAX / PARTS && !part.contains_key(&peer) {
            make_room(&mut part, now);
        }
        part.insert(peer, whole_at + self.interval);
        Ok(())
    }

    /// Clients in the table.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.parts
            .iter()
            .map(|part| part.lock().expect("no panic").len())
            .sum()
    }
}

/// Forgets clients whose allowance is whole, and at least a half: those whose allowance is whole soonest. New clients are not
/// refused because of others, and those that ask most are remembered.
fn make_room(part: &mut HashMap<Peer, u64>, now: u64) {
    let mut all: Vec<(Peer, u64)> = part.drain().collect();
    let middle = all.len() / 2;
    all.select_nth_unstable_by_key(middle, |&(_, at)| at);
    let later = all.drain(middle..);
    part.extend(later.filter(|&(_, at)| at > now));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let rate = Rate::new(10, 4);
        let at = Instant::from_millis;
        let passed = |ms: u64| {
            (0..100)
                .filter(|_| rate.take(ip("10.0.0.1"), at(ms)).is_ok())
                .count()
        };
        assert_eq!([1000, 1000, 1100, 1250, 9000].map(passed), [5, 0, 1, 1, 5]);
        assert_eq!(Rate::new(1, 0).take(ip("10.0.0.1"), at(0)), Ok(()));
        let slow = Rate::new(1, 0);
        assert_eq!(slow.take(ip("10.0.0.1"), at(0)), Ok(()));
        assert_eq!(slow.take(ip("10.0.0.1"), at(1)), Err(1), "in a second");
        assert_eq!(slow.take(ip("10.0.0.2"), at(1)), Ok(()), "another client");
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let rate = Rate::new(1, 0);
        let now = Instant::from_millis(1);
        assert_eq!(rate.take(ip("2001:db8::1"), now), Ok(()));
        assert!(rate.take(ip("2001:db8::2"), now).is_err());
        assert_eq!(rate.take(ip("2001:db8:0:1::1"), now), Ok(()));
    }

    #[test]
    fn the_table_is_bounded() {
        let rate = Rate::new(1, 0);
        for n in 0..3 * RATE_CLIENTS_MAX as u32 {
            let ip = std::net::Ipv4Addr::from_bits(n).into();
            let _ = rate.take(ip, Instant::from_millis(1));
            if n % 1000 == 0 {
                assert!(rate.len() <= RATE_CLIENTS_MAX);
            }
        }
    }

    /// However many others come, a client that asks all the time is remembered.
    #[test]
    fn many_others_do_not_make_it_forget_who_asks_most() {
        let rate = Rate::new(1, 9);
        let (busy, now) = (ip("10.0.0.1"), Instant::from_millis(1));
        while rate.take(busy, now).is_ok() {}
        for n in 0..3 * RATE_CLIENTS_MAX as u32 {
            let other = std::net::Ipv4Addr::from_bits(0xc000_0000 + n).into();
            assert_eq!(rate.take(other, now), Ok(()), "a new one is not refused");
        }
        assert!(rate.take(busy, now).is_err());
    }
}
