//! The table against a model that is obviously right, and what it takes of memory.

use std::collections::HashMap;

use exos_testing::Random;
use strum::VariantArray as _;

use super::index::Index;
use super::table::ticks;
use super::*;
use crate::packets::endpoint::Endpoint;
use crate::packets::reach::Reach;

fn key(n: u32) -> Key {
    let address: std::net::Ipv4Addr = n.into();
    Key {
        client: Endpoint {
            address: address.into(),
            port: (n % 7) as u16 + 1,
        },
        listener: (n % 3) as u16,
    }
}

/// The server of all flows.
const SERVER: u16 = 1;

fn begun(key: Key, reach: Reach) -> Begun {
    Begun {
        key,
        server: SERVER,
        our_port: 2,
        reach,
    }
}

/// What the table should be: flows by their keys, each with when it was seen and in which order, to a period of its class.
#[derive(Default)]
struct Model {
    flows: HashMap<Key, (FlowId, State, Tick, u64)>,
    order: u64,
}

impl Model {
    fn seen(&mut self, key: Key, id: FlowId, state: State, now: Tick) {
        self.order += 1;
        let order = match self.flows.get(&key) {
            Some(&(_, before, seen, order))
                if before == state && is_one_period(state, seen, now) =>
            {
                order
            }
            _ => self.order,
        };
        self.flows.insert(key, (id, state, now, order));
    }

    /// When the one was seen that was not seen for longest.
    fn oldest_seen(&self, class: Class) -> Option<Tick> {
        let of_class = self.flows.values().filter(|f| f.1.class() == class);
        of_class.map(|f| f.2).min()
    }

    fn oldest(&self, class: Class) -> Option<FlowId> {
        let of_class = self.flows.values().filter(|f| f.1.class() == class);
        of_class.min_by_key(|f| f.3).map(|f| f.0)
    }
}

fn is_one_period(state: State, seen: Tick, now: Tick) -> bool {
    let period = state.class().period();
    seen / period == now / period
}

fn check(table: &FlowTable, model: &Model) {
    assert_eq!(table.len() as usize, model.flows.len());
    for &class in Class::VARIANTS {
        let oldest = table.oldest(class);
        assert_eq!(oldest, model.oldest(class), "{class:?}");
        // Who is first in the list is not far from who should be.
        let seen = oldest.map(|id| table.get(id).seen);
        let late = seen
            .zip(model.oldest_seen(class))
            .map_or(0, |(is, least)| is - least);
        assert!(late < class.period(), "{class:?}: {late}");
    }
    for (key, &(id, state, seen, _)) in &model.flows {
        assert_eq!(table.find(key), Some(id));
        let flow = table.get(id);
        assert_eq!((flow.key, flow.state, flow.seen), (*key, state, seen));
        let back = (flow.reach == Reach::Transparent).then_some(id);
        assert_eq!(table.find_back(key.client, SERVER), back);
        assert_eq!(table.find_back(key.client, SERVER + 1), None);
    }
}

/// Any order of flows that come, are seen and go, in tables that are nearly full all the time.
#[test]
fn does_what_a_plain_map_does() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let capacity = 1 + random.below(40) as u32;
        let mut table = FlowTable::new(capacity, seed);
        let (mut model, mut now) = (Model::default(), 0);
        for _ in 0..600 {
            now += random.below(2) as Tick;
            let key = key(random.below(60) as u32);
            let state = random.pick(State::VARIANTS);
            match (table.find(&key), table.next_place()) {
                (Some(id), _) if random.chance(40) => {
                    assert_eq!(table.remove(id).key, key);
                    assert!(model.flows.remove(&key).is_some());
                }
                (Some(id), _) => {
                    table.see(now, id, state);
                    model.seen(key, id, state, now);
                }
                (None, Some(place)) => {
                    let reach = random.pick(&Reach::ALL);
                    let id = table.insert(now, begun(key, reach), state);
                    assert_eq!(id, place);
                    assert!(model.flows.values().all(|f| f.0 != id), "a place for each");
                    model.seen(key, id, state, now);
                }
                (None, None) => assert_eq!(model.flows.len(), capacity as usize),
            }
        }
        check(&table, &model);
    }
}

/// Keys that all belong at the same entry of the index are found all the same, however they come and go.
#[test]
fn keys_that_collide_are_told_apart() {
    let mut index = Index::new(64);
    for round in 0..50u32 {
        let places: Vec<u32> = (0..64).map(|n| (n * 37 + round) % 64).collect();
        // Few hashes, some of which wrap around the end.
        let hash = |place: u32| [u32::MAX, u32::MAX - 1, u32::MAX >> 1][place as usize % 3];
        places
            .iter()
            .for_each(|&place| index.insert(hash(place), place));
        for (n, &gone) in places.iter().enumerate() {
            index.remove(hash(gone), gone);
            for (m, &place) in places.iter().enumerate() {
                let found = index.find(hash(place), |p| p == place);
                assert_eq!(found.is_some(), m > n, "{place} after {gone}");
            }
        }
    }
}

/// What is read ahead is what is looked up then: the flow is found by its hash alone.
#[test]
fn a_flow_is_likely_where_it_is() {
    let mut table = FlowTable::new(4096, 1);
    for n in 0..4096 {
        let key = key(n);
        let id = table.insert(0, begun(key, Reach::Transparent), State::SynSeen);
        assert_eq!(table.likely(table.hash_of(&key)), Some(id));
        let back = table.hash_back(key.client, SERVER);
        assert_eq!(table.likely_back(back), Some(id));
    }
    assert_eq!(table.likely(table.hash_of(&key(5000))), None);
}

/// Each class is forgotten after its own time, and not a second before.
#[test]
fn silence_ends_a_flow() {
    for &state in State::VARIANTS {
        let mut table = FlowTable::new(4, 1);
        let id = table.insert(100, begun(key(1), Reach::Nat), state);
        let last = 100 + state.class().time().as_secs() as Tick;
        assert_eq!(table.next_expiry(), Some(last + 1));
        assert_eq!(table.expired(last), None, "{state:?}");
        assert_eq!(table.expired(last + 1), Some(id), "{state:?}");
        table.see(last, id, state);
        assert_eq!(table.expired(last + 1), None, "{state:?}");
    }
}

/// With others of its class behind it in the list that were seen for longer, a flow is forgotten within a period of its time.
#[test]
fn silence_ends_flows_in_time() {
    let begin = 3200;
    for &state in State::VARIANTS {
        let (time, period) = (ticks(state.class().time()), state.class().period());
        let mut table = FlowTable::new(4, 1);
        let first = table.insert(begin, begun(key(1), Reach::Nat), state);
        let second = table.insert(begin, begun(key(2), Reach::Nat), state);
        // Often, and for the last time at the end of the period, which moves it nowhere.
        (begin..begin + period).for_each(|now| table.see(now, first, state));
        assert_eq!(table.oldest(state.class()), Some(first));
        let over = begin + time + period;
        assert_eq!(table.expired(over - 1), None);
        assert_eq!(table.expired(over), Some(first), "{state:?}");
        table.remove(first);
        assert_eq!(table.expired(over), Some(second), "{state:?}");
        // In the next one it moves.
        let third = table.insert(begin, begun(key(3), Reach::Nat), state);
        table.see(begin + period, second, state);
        assert_eq!(table.oldest(state.class()), Some(third), "{state:?}");
    }
}

/// A million flows take 100 MB at most, with the entries of their servers' ports.
#[test]
fn a_million_flows_are_small() {
    let flows = 1_000_000usize;
    let index = (2 * flows).next_power_of_two() * size_of::<u64>();
    let ports = flows * size_of::<u32>();
    let all = flows * size_of::<Flow>() + index + ports;
    assert!(all <= 100_000_000, "{all}");
    // As they are made.
    let table = FlowTable::new(flows as u32, 1);
    assert_eq!(table.index.bytes(), index);
    assert!(table.flows.capacity() <= flows + flows / 100);
}
