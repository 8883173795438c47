//! The program that answers requests, and the server's side of its memory.

use exos_filter::Counter;
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::SecondStage;
use exos_filter::handler::web::layout::{self, Entries, Rings, copy, entry, handed};
use exos_filter::handler::{Handler as _, SynHandler, WebHandler};
use exos_host::bpf::{Map, MappedArray, Prog, permitted};
use exos_inet::tcp::ListenOptions;
use exos_inet::{Config, Instant, Neighbors, Stack};
use exos_testing::ebpf::disassemble;
use exos_wire::Sum;
use std::ops::Deref;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};

use super::client::Client;
use super::{ADDRESSES, OURS, PORT};
use crate::common;

pub const KEY: u64 = 0x1234_5678_9abc_def1;

/// Of responses as they are entered.
pub const VERSION: u64 = 6;

pub const ENTRIES: Entries = Entries {
    count: 64,
    response_max: layout::RESPONSE_MAX,
};

pub fn now() -> Instant {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000)
}

/// What answers SYNs as a stack at our addresses does.
pub fn syns(way_out: WayOut, may_be_partial: bool) -> SynHandler {
    let mut config = Config::new(OURS, 1500);
    config.neighbors = Neighbors::External;
    config.addresses = vec![(ADDRESSES[0], 16), (ADDRESSES[1], 32)];
    let mut stack = Stack::new(config, 77, now()).unwrap();
    let listener = stack
        .tcp
        .listen(None, PORT, ListenOptions::default())
        .unwrap();
    SynHandler {
        mac: OURS,
        addresses: ADDRESSES.to_vec(),
        not_from: ADDRESSES.to_vec(),
        recipe: stack.offload_syns(now(), listener).unwrap(),
        may_be_partial,
        may_decline: true,
        way_out,
    }
}

/// A program that has been loaded, and what it refers to.
pub struct Loaded {
    pub prog: Prog,
    pub handler: WebHandler,
    memory: MappedArray,
    /// The last has what is counted.
    pub maps: [Map; 3],
}

/// The program, and the server's side of its memory.
///
/// The kernel takes a quarter of a second to verify one. So those that answer at once, which is nearly all, are kept for the next test that
/// wants the same, which finds the memory as it is at first.
pub struct Bench {
    /// There until it is dropped.
    loaded: Option<Loaded>,
    /// Its clients come over IPv6.
    pub ipv6: bool,
}

/// Programs that no test has now.
static KEPT: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

impl Deref for Bench {
    type Target = Loaded;

    fn deref(&self) -> &Loaded {
        self.loaded.as_ref().expect("it is there until then")
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let loaded = self.loaded.take();
        let kept = loaded.filter(|loaded| {
            let of = &loaded.handler;
            of.syn.way_out == WayOut::Transmit && of.second_stage.is_none()
        });
        let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(kept);
    }
}

impl Loaded {
    /// The memory as it is at first.
    fn clear(&self) {
        let scratch = &self.maps[0];
        for (map, len) in [
            (self.memory.map(), self.memory.words().len() * 8),
            (scratch, scratch.user_value_size()),
        ] {
            map.update(&0_u32.to_ne_bytes(), &vec![0; len]).unwrap();
        }
    }
}

impl Bench {
    /// For clients of either family.
    pub fn both() -> impl Iterator<Item = Self> {
        [false, true].into_iter().filter_map(Self::new)
    }

    pub fn new(ipv6: bool) -> Option<Self> {
        if let Err(error) = permitted() {
            common::skipped(&format!("requests in the kernel: {error}"));
            return None;
        }
        Some(Self::of(ipv6, WayOut::Transmit, None))
    }

    /// On an interface, or on none. With reports: what else happens is the same with and without.
    pub fn of(ipv6: bool, way_out: WayOut, second_stage: Option<SecondStage>) -> Self {
        Self::reporting(ipv6, way_out, second_stage, true)
    }

    /// With reports, or without.
    pub fn reporting(
        ipv6: bool,
        way_out: WayOut,
        second_stage: Option<SecondStage>,
        reports: bool,
    ) -> Self {
        let parts = (None, rings(1));
        Self::with(ipv6, way_out, second_stage, reports, parts)
    }

    /// With a limit of connections of a peer, of a server on several cores: all that comes by the first queue.
    pub fn limited(ipv6: bool, of_peer: u32, cores: u32) -> Option<Self> {
        Self::new(ipv6)?;
        let parts = (Some(of_peer), rings(cores));
        Some(Self::with(ipv6, WayOut::Transmit, None, true, parts))
    }

    /// Of a server on several cores: all that comes by the first queue.
    pub fn of_cores(ipv6: bool, cores: u32) -> Option<Self> {
        Self::of_rings(ipv6, rings(cores))
    }

    /// On one of several interfaces, of a server on three cores, of which this interface has the last two.
    pub fn of_interface(ipv6: bool) -> Option<Self> {
        Self::of_rings(ipv6, rings(3).of_interface(1, 2))
    }

    fn of_rings(ipv6: bool, rings: Rings) -> Option<Self> {
        Self::new(ipv6)?;
        let parts = (None, rings);
        Some(Self::with(ipv6, WayOut::Transmit, None, true, parts))
    }

    fn with(
        ipv6: bool,
        way_out: WayOut,
        second_stage: Option<SecondStage>,
        reports: bool,
        (peer_connections, rings): (Option<u32>, Rings),
    ) -> Self {
        let is_it = |kept: &Loaded| {
            let of = &kept.handler;
            let is_plain = of.syn.way_out == way_out && second_stage.is_none();
            is_plain
                && (of.reports, of.peer_connections, of.rings) == (reports, peer_connections, rings)
        };
        let kept = {
            let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            let at = all.iter().position(is_it);
            at.map(|at| all.swap_remove(at))
        };
        let loaded = match kept {
            Some(kept) => {
                kept.clear();
                kept
            }
            None => Self::load(way_out, second_stage, reports, (peer_connections, rings)),
        };
        let bench = Self {
            loaded: Some(loaded),
            ipv6,
        };
        bench.set(layout::UNTIL, u64::MAX);
        bench.set(layout::ROOM, 1 << 20);
        bench
    }

    fn load(
        way_out: WayOut,
        second_stage: Option<SecondStage>,
        reports: bool,
        (peer_connections, rings): (Option<u32>, Rings),
    ) -> Loaded {
        let syn = syns(way_out, second_stage.is_some());
        let memory = MappedArray::new("web", rings.memory_len() as usize, 1).unwrap();
        let scratch = Map::percpu_array("scratch", WebHandler::SCRATCH_LEN, 1).unwrap();
        let handler = WebHandler {
            syn,
            entries: ENTRIES,
            peer_connections,
            rings,
            memory_fd: memory.raw_fd(),
            scratch_fd: scratch.raw_fd(),
            key: KEY,
            second_stage,
            reports,
            http: true,
        };
        let slots = Map::prog_array(2).unwrap();
        let counters = Map::percpu_array("test", 8, Counter::COUNT).unwrap();
        let code = handler.program(slots.raw_fd(), counters.raw_fd());
        let prog = Prog::load(&code.words(), "web", false)
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&code.words()), e.log));
        Loaded {
            prog,
            handler,
            memory,
            maps: [scratch, slots, counters],
        }
    }

    pub fn set(&self, at: u64, value: u64) {
        self.memory.words()[(at / 8) as usize].store(value, SeqCst);
    }

    pub fn get(&self, at: u64) -> u64 {
        self.memory.words()[(at / 8) as usize].load(SeqCst)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        for (n, part) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.set(at + 8 * n as u64, u64::from_ne_bytes(word));
        }
    }

    /// Where the entry is, whose first copy is up to date.
    pub fn enter(&self, request: &[u8], response: &[u8], closes: bool) -> u64 {
        let hash = layout::hash(KEY, request);
        let first = layout::ENTRIES + ENTRIES.first_way(hash);
        // The second way, or another where it is of another request.
        let mut ways = [1, 2, 3, 0]
            .map(|way| first + way * ENTRIES.entry_len())
            .into_iter();
        let at = ways.find(|at| [0, hash].contains(&self.get(at + entry::TAG)));
        let at = at.unwrap_or(first + ENTRIES.entry_len());
        self.write(at + ENTRIES.request(), request);
        for number in 0..2 {
            self.set_copy(at, number, response, closes);
        }
        self.set(at + entry::REQUEST_LEN, request.len() as u64);
        self.set(at + entry::VERSION, VERSION);
        self.set(at + entry::TAG, hash);
        at
    }

    /// Another response is up to date, in the second copy.
    pub fn replace(&self, at: u64, response: &[u8]) {
        self.set_copy(at, 1, response, false);
        self.set(at + entry::VERSION, VERSION + 3);
    }

    fn set_copy(&self, at: u64, number: u64, response: &[u8], closes: bool) {
        let to = at + entry::COPIES + number * ENTRIES.copy_len();
        self.set(to + copy::SUM, u64::from(Sum::of(response).value()));
        self.set(to + copy::LEN, response.len() as u64);
        self.set(to + copy::CLOSES, u64::from(closes));
        self.write(to + copy::BYTES, response);
    }

    /// Where the slot of a client's connection is.
    pub fn slot(&self, client: &Client) -> u64 {
        let (ends, ports) = client.ends();
        layout::SLOTS + layout::slot_of(KEY, ends, ports) * layout::SLOT_LEN
    }

    /// A field of what was handed up with this number.
    pub fn handed(&self, number: u64, field: u64) -> u64 {
        let at = layout::RING + number * layout::HANDED_LEN;
        assert_eq!(self.get(at + handed::NUMBER), number + 1);
        self.get(at + field)
    }

    /// The next number of the peer that was handed up, and ours.
    pub fn handed_numbers(&self, number: u64) -> (u32, u32) {
        let word = self.handed(number, handed::NUMBERS).to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes(word[at..at + 4].try_into().unwrap());
        (half(0), half(4))
    }

    pub fn run(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        let run = self.prog.test_run(frame).unwrap();
        (run.verdict, run.packet)
    }
}

fn rings(cores: u32) -> Rings {
    Rings::new(cores, ENTRIES.memory_len_with_reports())
}
