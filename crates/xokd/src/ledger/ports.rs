//! Which ports to choose, when a program leaves that to us.
//!
//! From a random beginning upwards (RFC 6056 §3.3.1), leaving out those that were released lately: a connection in
//! TIME-WAIT at the other end would meet its successor. Resting ports are remembered in the order of their release.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;

use exos_xok::{Claim, Protocol};

use super::Now;
use crate::limits::{EPHEMERAL_PORTS, PORT_REST, PORTS_RESTING_MAX};

type Place = (u32, Protocol, IpAddr, u16);

pub(super) struct Ports {
    resting: VecDeque<(Now, Place)>,
    places: HashSet<Place>,
    random: u64,
}

impl Ports {
    /// How many there are to choose from.
    pub(super) const COUNT: u16 = *EPHEMERAL_PORTS.end() - *EPHEMERAL_PORTS.start() + 1;

    pub(super) fn new(seed: u64) -> Self {
        Self {
            resting: VecDeque::new(),
            places: HashSet::new(),
            random: seed,
        }
    }

    /// Where to begin looking.
    pub(super) fn first_candidate(&mut self) -> u16 {
        // SplitMix64: good enough to spread, and the seed is secret.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let step = (z ^ z >> 31) % u64::from(Self::COUNT);
        *EPHEMERAL_PORTS.start() + step as u16
    }

    /// The next candidate.
    pub(super) fn after(port: u16) -> u16 {
        if port >= *EPHEMERAL_PORTS.end() {
            *EPHEMERAL_PORTS.start()
        } else {
            port + 1
        }
    }

    /// A port was released.
    pub(super) fn rest(&mut self, claim: &Claim, now: Now) {
        let place = place(claim);
        if claim.port == 0 || !self.places.insert(place) {
            return;
        }
        self.resting.push_back((now + PORT_REST, place));
        if self.resting.len() > PORTS_RESTING_MAX {
            self.wake_oldest();
        }
    }

    /// True when a port was released lately.
    pub(super) fn rests(&mut self, claim: &Claim, now: Now) -> bool {
        while self.resting.front().is_some_and(|(until, _)| *until <= now) {
            self.wake_oldest();
        }
        self.places.contains(&place(claim))
    }

    fn wake_oldest(&mut self) {
        if let Some((_, place)) = self.resting.pop_front() {
            self.places.remove(&place);
        }
    }
}

fn place(claim: &Claim) -> Place {
    (claim.interface, claim.protocol, claim.local, claim.port)
}
