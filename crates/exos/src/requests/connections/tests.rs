//! The connections of the kernel's part on plain memory, beside a stack that listens.

mod fates;
mod joined;

use std::collections::HashSet;
use std::sync::Arc;

use exos_filter::handler::web::layout::entry;
use exos_inet::tcp::ListenOptions;
use exos_inet::{Config, Neighbors, RouteTo};
use exos_wire::Mac;

use super::*;
use crate::requests::table::Response;

const ENTRIES: Entries = Entries {
    count: 4,
    response_max: 64,
};
const LEN: u32 = 40;
const REQUEST: &[u8] = b"GET";
/// The numbers wrap within a response.
const UNA: u32 = 0xffff_fff0;

fn now() -> Instant {
    Instant::from_micros(100_000_000)
}

fn memory() -> Arc<Memory> {
    let words = (0..ENTRIES.memory_len_with_reports() / 8).map(|_| 0.into());
    Arc::new(Memory::Plain(words.collect()))
}

/// The memory, and a stack that listens.
struct Bench {
    memory: Arc<Memory>,
    table: Mutex<Table>,
    stack: Stack,
    reports: Reports,
    connections: Connections,
}

impl Bench {
    fn new() -> Self {
        Self::on(memory())
    }

    fn on(memory: Arc<Memory>) -> Self {
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
            memory,
            table: Mutex::new(Table::new(ENTRIES, 7, false)),
            stack,
            reports: Reports::new(ENTRIES, false),
            connections: Connections {
                listener: listener.unwrap(),
                key: 1,
                entries: ENTRIES,
                peers: None,
                cores: vec![0],
                own: 0..3,
                ring: 0,
                next: 0,
                taken: 0,
                sent: VecDeque::new(),
                asked_about: Vec::new(),
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
        let (entry, version) = self.response();
        self.memory.set_halves(at + slot::ENTRY, entry, 0);
        self.memory.set_halves(at + slot::VERSION, version, 0);
        let time = now().millis() - quiet.as_micros() as u64 / 1000;
        self.memory.set(at + slot::TIME, time);
        at
    }

    /// The request is answered with this.
    fn enter(&self, response: &[u8]) {
        let response = Response {
            bytes: response,
            closes: false,
            note: 0,
        };
        // Long after the one before.
        let (_, version) = self.response();
        let then = now() + Duration::from_secs(version.into());
        lock(&self.table).put(&self.memory, then, REQUEST, response);
    }

    /// The entry of the one request that there is, and the version of its response.
    fn response(&self) -> (u32, u32) {
        let entries = (0..ENTRIES.count).map(|place| place * ENTRIES.entry_len());
        let version = |at: u64| self.memory.half(layout::ENTRIES + at + entry::VERSION);
        let mut all = entries.map(|at| (at as u32, version(at)));
        all.find(|(_, version)| *version != 0).unwrap_or_default()
    }

    /// The ring has the connection of a slot, with a response that is not acknowledged.
    fn hand_up(&self, from: u64, closes: bool) {
        let (memory, end) = (&self.memory, UNA.wrapping_add(LEN));
        let to = layout::RING;
        for word in (0..40).step_by(8) {
            memory.set(
                to + handed::ENDS + word,
                memory.get(from + slot::ENDS + word),
            );
        }
        memory.set_halves(to + handed::NUMBERS, 1000, end);
        memory.set(to + handed::KEPT, memory.get(from + slot::KEPT));
        let (entry, version) = self.response();
        memory.set_halves(to + handed::SENT, version, entry);
        let nxt = end.wrapping_add(u32::from(closes));
        memory.set_halves(to + handed::UNA, UNA, nxt);
        memory.set(to + handed::TIME, now().millis());
        memory.set(to + handed::NUMBER, 1);
        memory.set(layout::HANDED, 1);
    }

    fn state(&self, number: u64) -> i32 {
        let at = layout::SLOTS + number * layout::SLOT_LEN;
        self.memory.get(at + slot::STATE) as i32
    }

    fn look(&mut self, is_last: bool) -> bool {
        let mut turn = Turn {
            memory: &self.memory,
            table: &self.table,
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
