//! Policies of the cache beside one another and beside what is possible, on requests as a site gets them: few documents
//! are most asked for, sizes spread over four orders, and now and then somebody walks through everything.
//!
//! `cargo test -p exos-replacement --test all traces -- --nocapture` prints the tables.

use crate::reference;
use exos_replacement::queue::{Links, Queue};
use exos_replacement::{GreedyDualSize, Key, Lru, Newcomer, Policy, PolicyName, S3Fifo, USES_MAX};
use exos_sim::random::{Random, Seed};

/// A document that takes more of a cache than this part of it is not kept.
const LARGE_PART: u64 = 10;

const DOCUMENTS: usize = 10_000;
const REQUESTS: usize = 200_000;
/// Between two walks through everything.
const WALK_EVERY: usize = 50_000;

/// A request for a document; `is_walk` if it is one of somebody who asks for all of them.
#[derive(Clone, Copy)]
struct Request {
    document: usize,
    is_walk: bool,
}

/// The bytes of each document: most some KiB, some MiB.
fn sizes(random: &mut Random) -> Vec<u64> {
    let mut uniform = || (random.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
    let mut size = |_| {
        let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        (8192.0 * (1.4 * normal).exp()).clamp(100.0, 4e6) as u64
    };
    (0..DOCUMENTS).map(&mut size).collect()
}

/// Requests by Zipf's law, with walks in between if there are any.
fn requests(random: &mut Random, has_walks: bool) -> Vec<Request> {
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=DOCUMENTS {
        sum += (rank as f64).powf(-0.9);
        sums.push(sum);
    }
    let mut requests = Vec::new();
    for at in 0..REQUESTS {
        let point = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * sum;
        requests.push(Request {
            // The most asked for are anywhere among the names.
            document: sums.partition_point(|&s| s <= point).min(DOCUMENTS - 1) * 7919 % DOCUMENTS,
            is_walk: false,
        });
        let step = at % WALK_EVERY;
        if has_walks && step < DOCUMENTS {
            requests.push(Request {
                document: step,
                is_walk: true,
            });
        }
    }
    requests
}

/// First in, first out: what has been there for longest goes, whether it is used or not. To be measured against.
#[derive(Debug, Default)]
struct Fifo {
    links: Links,
    queue: Queue,
}

impl Policy for Fifo {
    fn admitted(&mut self, document: Newcomer) {
        self.queue
            .push(&mut self.links, document.key, document.bytes);
    }

    fn victim(&mut self, _: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        let oldest = self.queue.oldest()?;
        self.queue.remove(&mut self.links, oldest);
        Some(oldest)
    }

    fn removed(&mut self, document: Key) {
        self.queue.remove(&mut self.links, document);
    }
}

trait Cache {
    /// True when the document is there.
    fn ask(&mut self, document: usize, bytes: u64) -> bool;
}

/// Documents that a policy decides about.
struct Decided<P> {
    policy: P,
    limit: u64,
    held: u64,
    /// By document.
    keys: Vec<Option<Key>>,
    /// By key: the document, its bytes and uses.
    there: Vec<(usize, u64, u8)>,
    free: Vec<Key>,
}

fn decided<P: Policy>(policy: P, limit: u64) -> Decided<P> {
    Decided {
        policy,
        limit,
        held: 0,
        keys: vec![None; DOCUMENTS],
        there: Vec::new(),
        free: Vec::new(),
    }
}

impl<P: Policy> Cache for Decided<P> {
    fn ask(&mut self, document: usize, bytes: u64) -> bool {
        if let Some(key) = self.keys[document] {
            let uses = &mut self.there[key.index()].2;
            *uses = (*uses + 1).min(USES_MAX);
            self.policy.used(key);
            return true;
        }
        if bytes > self.limit / LARGE_PART {
            return false;
        }
        while self.held + bytes > self.limit {
            let there = &mut self.there;
            let victim = self
                .policy
                .victim(&mut |key| std::mem::take(&mut there[key.index()].2));
            let victim = victim.expect("something is there");
            let (gone, len, _) = self.there[victim.index()];
            assert_eq!(self.keys[gone].take(), Some(victim), "it was there");
            self.held -= len;
            self.free.push(victim);
        }
        let key = self.free.pop().unwrap_or_else(|| {
            self.there.push((0, 0, 0));
            Key::new(self.there.len() as u32 - 1)
        });
        // One use is of the request that it was fetched for.
        self.there[key.index()] = (document, bytes, 1);
        self.keys[document] = Some(key);
        self.held += bytes;
        self.policy.admitted(Newcomer {
            key,
            name: document as u64,
            bytes,
            is_asked_for: true,
        });
        false
    }
}

/// The part of requests that are hits, of those that are no walks.
fn hit_rate(mut cache: impl Cache, requests: &[Request], sizes: &[u64]) -> f64 {
    let (mut hits, mut all) = (0, 0);
    for request in requests {
        let is_hit = cache.ask(request.document, sizes[request.document]);
        hits += u64::from(is_hit && !request.is_walk);
        all += u64::from(!request.is_walk);
    }
    hits as f64 / all as f64
}

/// More than anybody can have who knows the future. To hit, a document must have been there since it was last asked for,
/// which takes its bytes for so long; the cheapest of these that fit all memory and time together (PFOO-L: Berger, Beckmann,
/// Harchol-Balter, *Practical bounds on optimal caching with variable object sizes*, 2018). Walks cost it nothing.
struct Bound {
    /// What each hit would take, the cheapest first.
    costs: Vec<u64>,
    /// Requests that are no walks.
    all: usize,
}

impl Bound {
    fn of(requests: &[Request], sizes: &[u64]) -> Self {
        let (mut last, mut costs) = (vec![None; DOCUMENTS], Vec::new());
        let asked = requests.iter().filter(|request| !request.is_walk);
        for (at, request) in asked.clone().enumerate() {
            if let Some(before) = last[request.document].replace(at) {
                costs.push((at - before) as u64 * sizes[request.document]);
            }
        }
        costs.sort_unstable();
        Self {
            costs,
            all: asked.count(),
        }
    }

    /// The part of requests that are hits, with this much memory.
    fn hit_rate(&self, limit: u64) -> f64 {
        let mut left = limit * self.all as u64;
        let hits = self.costs.iter().take_while(|&&cost| {
            let fits = cost <= left;
            left = left.saturating_sub(cost);
            fits
        });
        hits.count() as f64 / self.all as f64
    }
}

/// The default policy beside LRU and FIFO: without walks no worse, with them it keeps what LRU loses.
#[test]
fn walks_through_everything_cost_little() {
    for seed in [1, 2, 3] {
        let mut random = Random::new(Seed(seed), 0);
        let sizes = sizes(&mut random);
        let [quiet, walked] = [false, true].map(|has_walks| {
            let requests = requests(&mut random, has_walks);
            let bound = Bound::of(&requests, &sizes);
            (requests, bound)
        });
        for part in [20, 10, 4] {
            let limit = sizes.iter().sum::<u64>() / part;
            let rates = |(requests, bound): &(Vec<Request>, Bound)| {
                let ours = hit_rate(decided(S3Fifo::default(), limit), requests, &sizes);
                let lru = hit_rate(decided(Lru::default(), limit), requests, &sizes);
                let fifo = hit_rate(decided(Fifo::default(), limit), requests, &sizes);
                let bound = bound.hit_rate(limit);
                println!(
                    "seed {seed}, cache 1/{part}: S3-FIFO {ours:.3}, LRU {lru:.3}, FIFO {fifo:.3}, at most {bound:.3}"
                );
                assert!(ours <= bound && lru <= bound && fifo <= bound);
                (ours, lru, fifo)
            };
            let (ours, lru, fifo) = rates(&quiet);
            assert!(ours > lru && lru > fifo, "without walks");
            let (walked_ours, walked_lru, _) = rates(&walked);
            assert!(walked_ours > walked_lru + 0.03, "with walks");
            let (cost, cost_of_lru) = (ours - walked_ours, lru - walked_lru);
            assert!(cost < 0.75 * cost_of_lru, "{cost:.4}, {cost_of_lru:.4}");
        }
    }
}

/// Documents that go for another reason, in any state, leave a policy whole.
#[test]
fn whatever_goes_is_forgotten() {
    fn check(mut policy: impl Policy) {
        let mut random = Random::new(Seed(7), 0);
        let mut there: Vec<Option<u64>> = vec![None; 50];
        for _ in 0..50_000 {
            let at = random.below(50) as usize;
            match there[at] {
                None => {
                    let name = random.below(200);
                    there[at] = Some(name);
                    policy.admitted(Newcomer {
                        key: Key::new(at as u32),
                        name,
                        bytes: 1 + random.below(1000),
                        is_asked_for: random.below(2) == 0,
                    });
                }
                Some(_) if random.below(2) == 0 => {
                    policy.removed(Key::new(at as u32));
                    there[at] = None;
                }
                Some(_) => {
                    let gone = policy.victim(&mut |_| random.below(4) as u8).unwrap();
                    assert!(there[gone.index()].take().is_some(), "it was there");
                }
            }
        }
        let left = there.iter().flatten().count();
        for _ in 0..left {
            let gone = policy.victim(&mut |_| 0).unwrap();
            assert!(there[gone.index()].take().is_some(), "it was there");
        }
        assert_eq!(policy.victim(&mut |_| 0), None);
    }
    check(S3Fifo::default());
    check(Fifo::default());
    check(Lru::default());
    check(GreedyDualSize::default());
}

/// LRU and GreedyDual-Size as they are said to be, by looking at all that is there: each request is a hit of both or of none.
#[test]
fn policies_are_as_they_are_said_to_be() {
    for seed in 1..=3 {
        let mut random = Random::new(Seed(seed), 0);
        let sizes: Vec<u64> = sizes(&mut random).into_iter().take(300).collect();
        let limit = sizes.iter().sum::<u64>() / 4;
        let mut lru = (decided(Lru::default(), limit), reference::Lru::new(limit));
        let mut gds = (
            decided(GreedyDualSize::default(), limit),
            reference::GreedyDualSize::new(limit),
        );
        for request in 0..20_000 {
            let document = random.below(300).min(random.below(300)) as usize;
            let bytes = sizes[document];
            if bytes > limit / LARGE_PART {
                continue;
            }
            assert_eq!(
                lru.0.ask(document, bytes),
                lru.1.ask(document, bytes),
                "LRU, request {request}"
            );
            assert_eq!(
                gds.0.ask(document, bytes),
                gds.1.ask(document, bytes),
                "GDS, request {request}"
            );
        }
    }
}

/// On the workload of a web server that has more documents than memory (*IO-Lite*, section 4.3: requests for 17 KB on average) the default
/// has more hits than LRU by object and by byte, and GreedyDual-Size the most by object of those.
#[test]
fn the_default_has_more_hits_than_lru() {
    let mut random = Random::new(Seed(11), 0);
    let sizes = sizes(&mut random);
    let requests = requests(&mut random, false);
    for part in [20, 10, 4] {
        let limit = sizes.iter().sum::<u64>() / part;
        let [s3_fifo, lru, gds] = PolicyName::ALL.map(|name| {
            let mut cache = decided(name.policy(), limit);
            let (mut hits, mut hit_bytes, mut bytes) = (0, 0, 0);
            for request in &requests {
                let len = sizes[request.document];
                let is_hit = cache.ask(request.document, len);
                hits += u64::from(is_hit);
                hit_bytes += if is_hit { len } else { 0 };
                bytes += len;
            }
            let (by_object, by_byte) = (hits as f64 / requests.len() as f64, hit_bytes as f64 / bytes as f64);
            println!("cache 1/{part}, {name}: {by_object:.3} by object, {by_byte:.3} by byte, {} bytes on average", bytes / requests.len() as u64);
            (by_object, by_byte)
        });
        assert!(s3_fifo.0 > lru.0 && s3_fifo.1 > lru.1, "1/{part}");
        assert!(gds.0 > lru.0, "1/{part}");
    }
}
