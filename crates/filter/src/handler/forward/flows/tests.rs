//! The shared memory against a plain map, and how full it gets.

mod interleaved;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use proptest::prelude::*;

use super::super::layout::{Ends, record_len};
use super::*;

const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0x1357_9bdf_0246_8ace]);

/// Memory as the kernel would give it.
struct Memory {
    index: Vec<AtomicU64>,
    records: Vec<AtomicU64>,
    record_len: usize,
}

impl Memory {
    fn new(places: u32, buckets: u32, ipv6: bool) -> Self {
        let words = |len: usize| (0..len).map(|_| AtomicU64::new(0)).collect();
        let record_len = record_len(ipv6);
        Self {
            index: words(buckets as usize * BUCKET_ENTRIES),
            records: words(places as usize * record_len / 8),
            record_len,
        }
    }

    fn flows(&self) -> Flows<'_> {
        Flows::new(&self.index, &self.records, self.record_len, KEY)
    }

    /// Where the program would look for a packet of this flow: by its ends alone.
    fn find(&self, flow: &Flow, way: usize) -> Option<(u32, usize)> {
        let key = flow.key(way);
        let hash = KEY.hash(&key);
        let entries = self.flows().buckets(hash).into_iter().flatten();
        let entries = entries.map(|entry| entry.load(Ordering::Relaxed));
        let found = entries.into_iter().find(|entry| entry >> 32 == tag(hash))?;
        let (place, found_way) = ((found as u32) >> 1, (found & 1) as usize);
        let there = self.flows().get(place)?;
        (there.key(found_way) == key).then_some((place, found_way))
    }

    fn taken(&self) -> usize {
        let entries = self.index.iter();
        entries.filter(|e| e.load(Ordering::Relaxed) != 0).count()
    }
}

/// The flow of the n-th client, to one of some servers.
fn flow(n: u32, ipv6: bool) -> Flow {
    let (client, [a, b, c, d]) = ((n % 60_000) as u16 + 1024, (n / 60_000).to_be_bytes());
    let end = |text: &str, port: u16| SocketAddr::new(text.parse().unwrap(), port);
    let ends = if ipv6 {
        Ends {
            client: end(&format!("fd00::{a:x}{b:02x}:{c:x}{d:02x}"), client),
            listener: end("fd00:1::20", 80),
            ours: end("fd00:1::20", client),
            server: end(&format!("fd00:2::{:x}", n % 20), 8080),
        }
    } else {
        Ends {
            client: end(&format!("10.{b}.{c}.{d}"), client),
            listener: end("192.0.2.20", 80),
            ours: end("192.0.2.21", client),
            server: end(&format!("198.51.{c}.{d}"), 8080),
        }
    };
    Flow {
        protocol: if n.is_multiple_of(3) { 17 } else { 6 },
        ends,
        links: [n as u8 % 16, n as u8 / 3 % 16],
        hops: [n, n + 1],
        pair: n % 7,
        is_one_way: false,
    }
}

/// What is put to places and taken from them.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u32, u32),
    Remove(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..40u32, 0..60u32).prop_map(|(place, n)| Step::Insert(place, n)),
        (0..40u32).prop_map(Step::Remove),
    ]
}

proptest! {
    /// Whatever comes and goes: each flow that is there is found by its packets both ways, or the one that it has; what is not
    /// there is not, and no entry is left behind.
    #[test]
    fn it_is_a_map(steps in prop::collection::vec(step(), 1..200), ipv6: bool, buckets in 1..24u32) {
        let memory = Memory::new(40, buckets, ipv6);
        let flows = memory.flows();
        let flow = |n: u32| Flow {
            is_one_way: n % 5 == 2,
            ..flow(n, ipv6)
        };
        let mut there: HashMap<u32, Flow> = HashMap::new();
        for (at, step) in (0..).zip(steps) {
            match step {
                Step::Insert(place, n) => {
                    let new = flow(n);
                    let is_known = there.values().any(|flow| flow.ends == new.ends);
                    if is_known || there.contains_key(&place) {
                        continue;
                    }
                    if flows.insert(place, &new, at).is_ok() {
                        prop_assert_eq!(flows.seen(place), Some(at));
                        there.insert(place, new);
                    }
                }
                Step::Remove(place) => prop_assert_eq!(flows.remove(place), there.remove(&place)),
            }
            let ways = there.values().map(|flow| flow.ways().len());
            prop_assert_eq!(memory.taken(), ways.sum::<usize>());
            for place in 0..40 {
                prop_assert_eq!(flows.get(place), there.get(&place).copied());
                prop_assert_eq!(flows.seen(place).is_some(), there.contains_key(&place));
            }
            for n in 0..60 {
                let flow = flow(n);
                let place = there.iter().find(|(_, there)| there.ends == flow.ends);
                let place = place.map(|(place, _)| *place);
                for way in 0..2 {
                    let place = place.filter(|_| flow.ways().contains(&way));
                    prop_assert_eq!(memory.find(&flow, way), place.map(|place| (place, way)));
                }
            }
        }
    }
}

/// With as many flows as there are places all find room, and with their entries taken away all is as at the beginning.
#[test]
fn as_many_flows_as_places_fit() {
    for (flows, ipv6) in [(1, false), (64, true), (1000, false), (200_000, false)] {
        let memory = Memory::new(flows, buckets_for(flows), ipv6);
        let table = memory.flows();
        for n in 0..flows {
            table.insert(n, &flow(n, ipv6), 0).unwrap();
        }
        assert_eq!(memory.taken(), 2 * flows as usize);
        assert!((0..flows).all(|n| memory.find(&flow(n, ipv6), 1) == Some((n, 1))));
        let in_first = |n: &u32| {
            let hash = KEY.hash(&flow(*n, ipv6).key(0));
            let [first, _] = table.buckets(hash);
            let sought = entry(hash, *n, 0);
            first
                .iter()
                .any(|entry| entry.load(Ordering::Relaxed) == sought)
        };
        let in_first = (0..flows).filter(in_first).count();
        assert!(in_first >= flows as usize * 9 / 10, "{in_first} of {flows}");
        assert!((0..flows).all(|n| table.remove(n).is_some()));
        assert_eq!(memory.taken(), 0);
    }
}

/// Clients that change the upper bits of an address's first half, and in its second half what one multiplication makes of that, for all that
/// the factor's lowest bits may be: whatever the key, no two meet.
#[test]
fn chosen_addresses_do_not_meet() {
    let end = |text: &str, port: u16| SocketAddr::new(text.parse().unwrap(), port);
    let key_of = |client: [u64; 2]| {
        // A hash takes the bytes as they lie in the packet.
        let bytes: Vec<u8> = client.iter().flat_map(|half| half.to_le_bytes()).collect();
        let ip = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap());
        let ends = Ends {
            client: SocketAddr::new(ip.into(), 4000),
            listener: end("fd00:1::20", 80),
            ours: end("fd00:1::20", 4000),
            server: end("fd00:2::1", 8080),
        };
        let flow = flow(1, true);
        Flow { ends, ..flow }.key(0)
    };
    let chosen = (1..8_u64).flat_map(|upper| (1..16).map(move |factor| (upper << 61, factor)));
    let chosen = chosen.map(|(upper, factor): (u64, u64)| {
        let changed = upper.wrapping_mul(factor);
        key_of([upper ^ 0xfd, changed ^ changed >> 32 ^ 1 << 56])
    });
    let keys: Vec<Key> = chosen.chain([key_of([0xfd, 1 << 56])]).collect();
    let different: HashSet<[u32; 8]> = keys.iter().map(|key| key.addresses).collect();
    let mut word = 1_u64;
    for _ in 0..200 {
        let drawn = [0; 2].map(|_: u64| {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
            word ^ word >> 29
        });
        let key = HashKey::new(drawn);
        let hashes: HashSet<u64> = keys.iter().map(|it| key.hash(it)).collect();
        assert_eq!(hashes.len(), different.len(), "{key:?}");
    }
}

/// What does not fit leaves nothing behind, and room that is made is used.
#[test]
fn what_does_not_fit_is_refused() {
    let memory = Memory::new(100, 2, false);
    let table = memory.flows();
    let refused: Vec<u32> = (0..100)
        .filter(|n| table.insert(*n, &flow(*n, false), 0).is_err())
        .collect();
    // Sixteen entries: of at most eight flows.
    assert!((92..=96).contains(&refused.len()), "{refused:?}");
    assert_eq!(memory.taken(), 2 * (100 - refused.len()));
    assert!(refused.iter().all(|n| table.get(*n).is_none()));
    let gone = (0..100).filter(|n| table.remove(*n).is_some()).count();
    assert_eq!(gone, 100 - refused.len());
    assert_eq!(memory.taken(), 0);
    table.insert(5, &flow(5, false), 0).unwrap();
}

/// Numbers of a record tell every flow that was there from every other, and from none.
#[test]
fn numbers_grow() {
    let memory = Memory::new(1, 16, false);
    let table = memory.flows();
    let number = || memory.records[0].load(Ordering::Relaxed);
    for n in 0..10 {
        assert_eq!(number(), 2 * n);
        table.insert(0, &flow(n as u32, false), 0).unwrap();
        assert_eq!(number(), 2 * n + 1);
        table.remove(0).unwrap();
    }
}

/// Whatever is in the memory, reading it is safe, and what is taken away is what was put there.
#[test]
fn strange_memory_is_read_safely() {
    let memory = Memory::new(4, 16, true);
    let table = memory.flows();
    let mut word = 1u64;
    for round in 0..1000 {
        for place in memory.records.iter().chain(&memory.index) {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(round);
            place.store(word ^ word >> 29, Ordering::Relaxed);
        }
        for place in 0..5 {
            let flow = table.get(place);
            assert_eq!(table.remove(place), flow);
        }
    }
}
