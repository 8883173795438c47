//! Which port to choose, when a program leaves that to us.
//!
//! Any of those that are free, each with the same probability, so that strangers cannot guess it (RFC 6056 §3.3.2):
//! never one that is somebody's, and one that was released lately only when there is no other, because a connection in
//! TIME-WAIT at the other end would meet its successor. Then it is the one that has rested longest.
//!
//! Each address has a bit for each port of a protocol, so that choosing costs a look at 442 words, however many ports
//! are taken and whatever policy leaves of them.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use exos_xok::{Claim, Protocol};

use crate::clock::Now;
use crate::limits::{EPHEMERAL_PORTS, PORT_REST, PORTS_RESTING_MAX};

const FIRST: u16 = *EPHEMERAL_PORTS.start();
const LAST: u16 = *EPHEMERAL_PORTS.end();
const WORDS: usize = (LAST - FIRST) as usize / 64 + 1;

/// A bit for each port.
type Bits = [u64; WORDS];

/// Interface, protocol, address: ports are chosen within.
type SpaceKey = (u32, Protocol, IpAddr);

#[derive(Debug)]
struct Space {
    used: Bits,
    resting: Bits,
}

pub(super) struct Ports {
    spaces: BTreeMap<SpaceKey, Space>,
    /// Until when which ports rest, in the order of their release.
    resting: VecDeque<(Now, SpaceKey, u16)>,
    random: u64,
}

impl Ports {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            spaces: BTreeMap::new(),
            resting: VecDeque::new(),
            random: seed,
        }
    }

    /// A port for a claim, of those in `allowed`; `None` when all of them are somebody's.
    pub(super) fn choose(
        &mut self,
        claim: &Claim,
        allowed: &[RangeInclusive<u16>],
        now: Now,
    ) -> Option<u16> {
        self.wake(now);
        let allowed = bits_of(allowed);
        let place = place(claim);
        let Some(space) = self.spaces.get(&place) else {
            return self.any_of(&allowed);
        };
        let unused = and_not(&allowed, &space.used);
        let fresh = and_not(&unused, &space.resting);
        self.any_of(&fresh).or_else(|| {
            let resting = self.resting.iter().filter(|(_, of, _)| *of == place);
            let mut ports = resting.map(|(_, _, port)| *port);
            ports.find(|port| has(&unused, *port))
        })
    }

    /// The port of a claim is somebody's.
    pub(super) fn take(&mut self, claim: &Claim) {
        if !EPHEMERAL_PORTS.contains(&claim.port) {
            return;
        }
        let (place, port) = (place(claim), claim.port);
        let space = self.spaces.entry(place).or_insert(Space {
            used: [0; WORDS],
            resting: [0; WORDS],
        });
        set(&mut space.used, port, true);
        if has(&space.resting, port) {
            set(&mut space.resting, port, false);
            self.resting
                .retain(|(_, of, resting)| (*of, *resting) != (place, port));
        }
    }

    /// The port of a claim is nobody's any more, and rests.
    pub(super) fn rest(&mut self, claim: &Claim, now: Now) {
        let (place, port) = (place(claim), claim.port);
        let space = self.spaces.get_mut(&place);
        let Some(space) = space.filter(|_| EPHEMERAL_PORTS.contains(&port)) else {
            return;
        };
        set(&mut space.used, port, false);
        set(&mut space.resting, port, true);
        self.resting.push_back((now + PORT_REST, place, port));
        if self.resting.len() > PORTS_RESTING_MAX {
            self.wake_oldest();
        }
    }

    fn wake(&mut self, now: Now) {
        while self
            .resting
            .front()
            .is_some_and(|(until, ..)| *until <= now)
        {
            self.wake_oldest();
        }
    }

    fn wake_oldest(&mut self) {
        let Some((_, place, port)) = self.resting.pop_front() else {
            return;
        };
        if let Some(space) = self.spaces.get_mut(&place) {
            set(&mut space.resting, port, false);
            if space
                .used
                .iter()
                .chain(&space.resting)
                .all(|word| *word == 0)
            {
                self.spaces.remove(&place);
            }
        }
    }

    /// One of these ports.
    fn any_of(&mut self, bits: &Bits) -> Option<u16> {
        let count: u32 = bits.iter().map(|word| word.count_ones()).sum();
        let mut left = self.below(count)?;
        for (at, word) in bits.iter().enumerate() {
            let Some(beyond) = left.checked_sub(word.count_ones()) else {
                return Some(FIRST + at as u16 * 64 + nth_one(*word, left));
            };
            left = beyond;
        }
        None
    }

    /// A number below `end`; `None` when there is none.
    fn below(&mut self, end: u32) -> Option<u32> {
        // SplitMix64: good enough to spread, and the seed is secret.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) as u32).checked_rem(end)
    }
}

fn place(claim: &Claim) -> SpaceKey {
    (claim.interface, claim.protocol, claim.local)
}

fn has(bits: &Bits, port: u16) -> bool {
    let at = usize::from(port - FIRST);
    bits[at / 64] >> (at % 64) & 1 == 1
}

fn set(bits: &mut Bits, port: u16, to: bool) {
    let at = usize::from(port - FIRST);
    let bit = 1 << (at % 64);
    bits[at / 64] = bits[at / 64] & !bit | if to { bit } else { 0 };
}

fn and_not(bits: &Bits, without: &Bits) -> Bits {
    std::array::from_fn(|at| bits[at] & !without[at])
}

/// The ports of these ranges that are ours to choose.
fn bits_of(ranges: &[RangeInclusive<u16>]) -> Bits {
    let mut bits = [0; WORDS];
    for range in ranges {
        let (first, last) = (*range.start().max(&FIRST), *range.end().min(&LAST));
        for port in first..=last {
            set(&mut bits, port, true);
        }
    }
    bits
}

/// The place of a word's n-th one, counted from 0 and from the low end; the word has more than `n`.
fn nth_one(word: u64, n: u32) -> u16 {
    let higher = (0..n).fold(word, |word, _| word & word.wrapping_sub(1));
    higher.trailing_zeros() as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    fn claim(port: u16) -> Claim {
        Claim {
            interface: 2,
            protocol: Protocol::Udp,
            local: IpAddr::from([192, 0, 2, 7]),
            port,
            remote: None,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Choose,
        Take(u16),
        Release(prop::sample::Index),
        Pass(Duration),
    }

    fn step(ports: RangeInclusive<u16>) -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Choose),
            1 => ports.prop_map(Step::Take),
            3 => any::<prop::sample::Index>().prop_map(Step::Release),
            1 => (0..70_u64).prop_map(|s| Step::Pass(Duration::from_secs(s))),
        ]
    }

    /// A range that crosses words, and one at either end.
    fn ranges() -> Vec<RangeInclusive<u16>> {
        vec![1024..=FIRST + 2, FIRST + 60..=FIRST + 67, LAST..=u16::MAX]
    }

    proptest! {
        /// Beside sets: what is chosen is allowed, nobody's, and rested if any is; there is always one while any is
        /// nobody's, and of those that rest it is the one that was released first.
        #[test]
        fn what_is_chosen_is_free_and_rested(
            seed: u64,
            steps in prop::collection::vec(step(FIRST..=FIRST + 70), 1..200),
        ) {
            let allowed: BTreeSet<u16> = ranges().into_iter().flatten().filter(|p| EPHEMERAL_PORTS.contains(p)).collect();
            let (mut ports, mut now) = (Ports::new(seed), Duration::ZERO);
            let mut used = BTreeSet::new();
            let mut released: BTreeMap<u16, (Now, usize)> = BTreeMap::new();
            for (order, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Choose => {
                        let rests = |p: &&u16| released.get(*p).is_some_and(|(at, _)| *at + PORT_REST > now);
                        let free = || allowed.iter().filter(|p| !used.contains(*p));
                        let chosen = ports.choose(&claim(0), &ranges(), now);
                        let fresh: BTreeSet<u16> = free().filter(|p| !rests(p)).copied().collect();
                        match chosen {
                            None => prop_assert_eq!(free().next(), None),
                            Some(port) if fresh.is_empty() => {
                                prop_assert_eq!(free().min_by_key(|p| released[*p].1), Some(&port));
                            }
                            Some(port) => prop_assert!(fresh.contains(&port), "{port} of {fresh:?}"),
                        }
                        if let Some(port) = chosen {
                            ports.take(&claim(port));
                            used.insert(port);
                        }
                    }
                    Step::Take(port) => {
                        ports.take(&claim(port));
                        used.insert(port);
                    }
                    Step::Release(index) if !used.is_empty() => {
                        let port = **index.get(&used.iter().collect::<Vec<_>>());
                        used.remove(&port);
                        ports.rest(&claim(port), now);
                        released.insert(port, (now, order));
                    }
                    Step::Release(_) => {}
                    Step::Pass(time) => now += time,
                }
            }
        }
    }

    #[test]
    fn every_port_is_as_likely_as_the_others() {
        let mut ports = Ports::new(7);
        (FIRST + 3..=LAST - 5).for_each(|port| ports.take(&claim(port)));
        let mut counts = BTreeMap::new();
        for _ in 0..8000 {
            let port = ports.choose(&claim(0), &[EPHEMERAL_PORTS], Duration::ZERO);
            *counts.entry(port.expect("eight are free")).or_insert(0) += 1;
        }
        // 1,000 each, with a deviation of 30.
        assert_eq!(counts.len(), 8);
        assert!(
            counts.values().all(|n| (850..1150).contains(n)),
            "{counts:?}"
        );
    }

    #[test]
    fn an_address_without_ports_in_use_takes_no_memory() {
        let mut ports = Ports::new(7);
        ports.take(&claim(FIRST));
        ports.take(&claim(80));
        ports.rest(&claim(80), Duration::ZERO);
        ports.rest(&claim(FIRST), Duration::ZERO);
        assert_eq!((ports.spaces.len(), ports.resting.len()), (1, 1));
        ports.wake(PORT_REST);
        assert_eq!((ports.spaces.len(), ports.resting.len()), (0, 0));
    }
}
