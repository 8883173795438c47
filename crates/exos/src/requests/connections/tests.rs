//! What becomes of connections, on plain memory.

use std::collections::HashSet;

use exos_inet::tcp::ListenOptions;
use exos_inet::{Config, Neighbors, RouteTo};
use exos_wire::Mac;

use super::*;

const ENTRIES: Entries = Entries {
    count: 4,
    response_max: 64,
};
const LEN: u32 = 40;

fn now() -> Instant {
    Instant::from_micros(100_000_000)
}

/// The memory, and a stack that listens.
struct Bench {
    memory: Memory,
    stack: Stack,
    reports: Reports,
    connections: Connections,
}

impl Bench {
    fn new() -> Self {
        let words = (0..ENTRIES.memory_len() / 8).map(|_| 0.into());
        let mut config = Config::new(Mac([2, 0, 0, 0, 0, 1]), 1500);
        config.neighbors = Neighbors::External;
        config.addresses = vec![("10.0.0.1".parse().unwrap(), 24)];
        let gateway = "10.0.0.2".parse().unwrap();
        config.routes = vec![RouteTo {
            network: "10.1.0.0".parse().unwrap(),
            prefix: 16,
            gateway: Some(gateway),
        }];
        let mut stack = Stack::new(config, 7, now()).unwrap();
        stack.set_neighbor(now(), gateway, Mac([2, 0, 0, 0, 0, 2]));
        let listener = stack.tcp.listen(None, 80, ListenOptions::default());
        Self {
            memory: Memory::Plain(words.collect()),
            stack,
            reports: Reports::new(None),
            connections: Connections {
                listener: listener.unwrap(),
                key: 1,
                entries: ENTRIES,
                slots: Slots::ALL,
                next: 0,
                taken: 0,
                sent: VecDeque::new(),
            },
        }
    }

    /// A slot has a connection that stands, on which nothing came for `quiet`.
    fn put(&self, number: u64, state: i32, (una, nxt): (u32, u32), quiet: Duration) -> u64 {
        let at = layout::SLOTS + number * layout::SLOT_LEN;
        let remote = format!("10.1.{}.{}", number / 200, number % 200 + 1);
        let ends = layout::ends("10.0.0.1".parse().unwrap(), remote.parse().unwrap());
        for (word, at) in ends.into_iter().zip((at + slot::ENDS..).step_by(8)) {
            self.memory.set(at, word);
        }
        self.memory.set_halves(at + slot::PORTS, 80 << 16 | 4000, 0);
        self.memory.set(at + slot::STATE, state as u64);
        self.memory.set_halves(at + slot::RCV, 1000, nxt);
        self.memory.set_halves(at + slot::UNA, una, 990);
        self.memory.set_halves(at + slot::KEPT, 3 << 8 | 0xff, 1000);
        self.memory.set_halves(at + slot::GENERATION, 5, 0);
        let time = now().millis() - quiet.as_micros() as u64 / 1000;
        self.memory.set(at + slot::TIME, time);
        at
    }

    fn state(&self, number: u64) -> i32 {
        let at = layout::SLOTS + number * layout::SLOT_LEN;
        self.memory.get(at + slot::STATE) as i32
    }

    fn look(&mut self, is_last: bool) -> bool {
        let mut turn = Turn {
            memory: &self.memory,
            now: now(),
            stack: &mut self.stack,
            reports: &mut self.reports,
        };
        match is_last {
            true => self.connections.end(&mut turn),
            false => self.connections.each_slot(&mut turn, fate),
        }
    }

    /// The peers whose connections are reset with what leaves now.
    fn resets(&mut self) -> HashSet<SocketAddr> {
        let mut peers = HashSet::new();
        while let Some(frame) = self.stack.poll_transmit_within(now(), 1) {
            if frame.head[47] & 4 != 0 {
                let address: [u8; 4] = frame.head[30..34].try_into().unwrap();
                let port = u16::from_be_bytes([frame.head[36], frame.head[37]]);
                peers.insert((address, port).into());
            }
        }
        peers
    }
}

/// However many there are, the stack has all that it can at the end of the server.
#[test]
fn all_that_stand_are_the_stacks_in_the_end() {
    let mut bench = Bench::new();
    let most = layout::SLOT_COUNT;
    for number in 0..most {
        bench.put(number, slot::OPEN, (7, 7), Duration::from_secs(0));
    }
    assert!(!bench.look(true), "nobody is reset");
    assert_eq!(bench.stack.tcp.connections() as u64, most);
    assert!((0..most).all(|number| bench.state(number) == slot::FREE));
}

/// Of those that it cannot have no more are reset at once than there is room for, and each is.
#[test]
fn all_others_are_reset_in_the_end() {
    let mut bench = Bench::new();
    let most = layout::SLOT_COUNT;
    for number in 0..most {
        bench.put(number, slot::OPEN, (7, 7 + LEN), Duration::from_secs(0));
    }
    let mut peers = HashSet::new();
    let mut looks = 0;
    loop {
        let has_more = bench.look(true);
        peers.extend(bench.resets());
        looks += 1;
        if !has_more {
            break;
        }
    }
    assert_eq!(looks, most / RESETS_AT_ONCE as u64 + 1);
    assert_eq!(peers.len() as u64, most);
}

/// A look goes on where the last one stopped, however many are due in low slots again.
#[test]
fn high_slots_are_seen_to() {
    let mut bench = Bench::new();
    let bound = RESETS_AT_ONCE as u64;
    let last = 2 * bound;
    let all = (0..bound).chain([last]);
    for number in all {
        bench.put(number, slot::OPEN, (7, 7 + LEN), FORGOTTEN);
    }
    assert!(bench.look(false));
    for number in 0..bound {
        assert_eq!(bench.state(number), slot::FREE);
        bench.put(number, slot::OPEN, (7, 7 + LEN), FORGOTTEN);
    }
    assert_eq!(bench.state(last), slot::OPEN);
    bench.resets();
    assert!(bench.look(false));
    assert_eq!(bench.state(last), slot::FREE);
}
