//! Policies of the cache beside one another and beside what is possible, on requests as a site gets them: few documents
//! are most asked for, sizes spread over four orders, and now and then somebody walks through everything.
//!
//! `cargo test -p exos-replacement --test all traces -- --nocapture` prints the tables.

use crate::reference;
use exos_replacement::queue::{Links, Queue};
use exos_replacement::trace::{self, Simulated};
use exos_replacement::{GreedyDualSize, Key, Lru, Newcomer, Policy, PolicyName, S3Fifo};
use exos_sim::random::{Random, Seed};

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

/// The bytes of each document.
fn sizes(random: &mut Random) -> Vec<u64> {
    trace::sizes(&mut || random.next_u64(), DOCUMENTS)
}

/// Requests by Zipf's law, with walks in between if there are any.
fn requests(random: &mut Random, has_walks: bool) -> Vec<Request> {
    let asked = trace::requests(&mut || random.next_u64(), DOCUMENTS, REQUESTS);
    let with_walk = |(at, document)| {
        let step = at % WALK_EVERY;
        let walk = (has_walks && step < DOCUMENTS).then_some(Request {
            document: step,
            is_walk: true,
        });
        let asked = Request {
            document,
            is_walk: false,
        };
        std::iter::once(asked).chain(walk)
    };
    asked.into_iter().enumerate().flat_map(with_walk).collect()
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

fn decided<P: Policy>(policy: P, limit: u64) -> Simulated<P> {
    Simulated::new(policy, limit, DOCUMENTS)
}

/// The part of requests that are hits, of those that are no walks.
fn hit_rate<P: Policy>(mut cache: Simulated<P>, requests: &[Request], sizes: &[u64]) -> f64 {
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
            if !lru.0.takes(bytes) {
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
    let requests = trace::requests(&mut || random.next_u64(), DOCUMENTS, REQUESTS);
    for part in [20, 10, 4] {
        let limit = sizes.iter().sum::<u64>() / part;
        let [s3_fifo, lru, gds] = PolicyName::ALL.map(|name| {
            let hits = decided(name.policy(), limit).hits(&requests, &sizes);
            println!("cache 1/{part}, {name}: {hits:?}");
            hits
        });
        assert!(
            s3_fifo.by_object > lru.by_object && s3_fifo.by_byte > lru.by_byte,
            "1/{part}"
        );
        assert!(gds.by_object > lru.by_object, "1/{part}");
    }
    let bytes: u64 = requests.iter().map(|document| sizes[*document]).sum();
    let mean = bytes / REQUESTS as u64;
    assert!((15_000..22_000).contains(&mean), "{mean} bytes a request");
}
