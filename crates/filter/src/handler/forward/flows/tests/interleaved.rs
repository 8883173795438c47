//! A packet meets its flow while user space takes that away and puts another to its place: in every order in which the steps of
//! the program and the stores of user space can come.
//!
//! User space runs first, alone, in memory that tells of each access; what that memory was before each of them is kept.
//! Then the program runs in an interpreter. Before each of its steps that reads or writes what is shared, user space may have gone
//! on by any number of stores. Runs that have come to be the same are one, so all orders are tried, of which there
//! are more than can be counted.
//!
//! Steps and stores are in the order in which they are written: what processors make of that is for fences and `Ordering`.

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::SocketAddr;

use exos_testing::ebpf::{Map, Program, Run};
use exos_wire::{Mac, ethernet};

use super::super::*;
use crate::handler::Handler as _;
use crate::handler::forward::layout::{Ends, HOP_LEN, TALLY_LEN, hop, record_len};
use crate::handler::forward::{Exit, ForwardHandler, Shape, WayOut};

const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0x1357_9bdf_0246_8ace]);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const NEXT: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
/// The verdicts.
const PASS: u32 = 2;
const TX: u32 = 3;
/// What the program knows maps by.
const INDEX: i32 = 3;
const RECORDS: i32 = 4;
const HOPS: i32 = 5;
const TALLIES: i32 = 6;
const SLOTS: i32 = 7;

const INDEX_WORDS: usize = BUCKET_ENTRIES;
const RECORD_WORDS: usize = record_len(false) / 8;
const HOP_WORDS: usize = HOP_LEN / 8;
const SHARED_WORDS: usize = INDEX_WORDS + RECORD_WORDS + HOP_WORDS;

/// Index, record and hop, of one place.
type Shared = [u64; SHARED_WORDS];

/// A word of memory that is written down, all of it, before each access.
struct Watched<'a> {
    at: usize,
    all: &'a [AtomicU64; SHARED_WORDS],
    before: &'a RefCell<Vec<Shared>>,
}

impl Borrow<AtomicU64> for Watched<'_> {
    fn borrow(&self) -> &AtomicU64 {
        self.before.borrow_mut().push(values(self.all));
        &self.all[self.at]
    }
}

fn values(words: &[AtomicU64; SHARED_WORDS]) -> Shared {
    words.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// What user space writes to.
struct Table<'a> {
    flows: Flows<'a, Watched<'a>>,
    hop: &'a Watched<'a>,
}

impl Table<'_> {
    /// A flow takes its hop, and then its place.
    fn put(&self, flow: &Flow, next: Mac) {
        self.set_hop(Some(next));
        self.flows.insert(0, flow, 5).unwrap();
    }

    /// The flow gives up its place, and then its hop, which is free for others.
    fn take(&self) {
        self.flows.remove(0).unwrap();
        self.set_hop(None);
    }

    fn set_hop(&self, mac: Option<Mac>) {
        let word: &AtomicU64 = self.hop.borrow();
        word.store(hop(0, mac), Ordering::Release);
    }
}

/// What the memory is, one store after the other, while user space does something.
fn stores(act: impl FnOnce(&Table<'_>)) -> Vec<Shared> {
    let (all, before) = ([const { AtomicU64::new(0) }; _], RefCell::default());
    let words: [Watched<'_>; SHARED_WORDS] = std::array::from_fn(|at| Watched {
        at,
        all: &all,
        before: &before,
    });
    let [index, records, hops] = parts(&words);
    act(&Table {
        flows: Flows::new(index, records, record_len(false), KEY),
        hop: &hops[0],
    });
    let mut states = before.into_inner();
    states.push(values(&all));
    states.dedup();
    states
}

/// Index, records and hops.
fn parts<W>(words: &[W; SHARED_WORDS]) -> [&[W]; 3] {
    let (index, others) = words.split_at(INDEX_WORDS);
    let (records, hops) = others.split_at(RECORD_WORDS);
    [index, records, hops]
}

/// Two flows that the same packet is of: it goes the one way of the first and the other way of the second, so that nothing of what
/// becomes of it is alike. The second one has the first one's hop, where another neighbour is by then.
fn flows(from: [SocketAddr; 2]) -> [Flow; 2] {
    let at = |text: &str| text.parse().unwrap();
    let to = [
        [at("10.0.0.3:3000"), at("10.0.0.4:4000")],
        [at("172.16.5.6:5001"), at("192.168.7.8:6001")],
    ];
    [0, 1].map(|way| {
        let ends = match way {
            0 => Ends {
                client: from[0],
                listener: from[1],
                ours: to[0][0],
                server: to[0][1],
            },
            _ => Ends {
                server: from[0],
                ours: from[1],
                listener: to[1][0],
                client: to[1][1],
            },
        };
        Flow {
            protocol: 17,
            ends,
            links: [0; 2],
            hops: [0; 2],
            pair: way as u32,
            is_one_way: false,
        }
    })
}

/// The program, with memory of the test's own.
struct Bench {
    words: Vec<u64>,
    shared: [AtomicU64; SHARED_WORDS],
    tallies: [AtomicU64; 8],
}

/// Where a packet is on its way, and what was counted for it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Course {
    run: Run,
    counted: [u64; 8],
}

impl Bench {
    fn new(fences: bool) -> Self {
        let shape = Shape {
            ipv6: false,
            tcp: false,
        };
        let handler = ForwardHandler {
            link: 0,
            exits: vec![Exit {
                mac: MAC,
                mtu: 1500,
                way_out: WayOut::Transmit,
            }],
            shapes: vec![shape],
            index_fd: INDEX,
            buckets: 1,
            key: KEY,
            records_fd: RECORDS,
            hops_fd: HOPS,
            tallies_fd: TALLIES,
            may_be_partial: false,
            fences,
        };
        Self {
            words: handler.program(SLOTS, -1).words(),
            shared: [const { AtomicU64::new(0) }; _],
            tallies: [const { AtomicU64::new(0) }; _],
        }
    }

    fn program(&self) -> Program<'_> {
        let array = |words, value_len| Map::Array { words, value_len };
        let [index, records, hops] = parts(&self.shared);
        let maps = vec![
            (INDEX, array(index, BUCKET_LEN)),
            (RECORDS, array(records, record_len(false))),
            (HOPS, array(hops, HOP_LEN)),
            (TALLIES, array(&self.tallies, TALLY_LEN)),
            (SLOTS, Map::Programs),
        ];
        Program::new(&self.words, maps)
    }

    /// Goes on to the next step that others could notice, with the memory like this; the verdict when that was the end.
    fn advance(&self, program: &Program<'_>, course: &mut Course, shared: &Shared) -> Option<u32> {
        for (word, value) in self.shared.iter().zip(shared) {
            word.store(*value, Ordering::Relaxed);
        }
        for (word, value) in self.tallies.iter().zip(course.counted) {
            word.store(value, Ordering::Relaxed);
        }
        let verdict = loop {
            if let Some(verdict) = program.step(&mut course.run) {
                break Some(verdict);
            }
            if program.is_shared(&course.run) {
                break None;
            }
        };
        let tallies = self.tallies.each_ref();
        course.counted = tallies.map(|word| word.load(Ordering::Relaxed));
        verdict
    }

    /// What becomes of a packet, whatever is when: verdict, packet and what was counted.
    fn outcomes(&self, frame: &[u8], states: &[Shared]) -> HashSet<(u32, Vec<u8>, [u64; 8])> {
        let program = self.program();
        let begin = Course {
            run: Run::new(frame, 1 << 40),
            counted: [0; 8],
        };
        let (mut waiting, mut known) = (vec![(0, begin.clone())], HashSet::from([(0, begin)]));
        let mut ends = HashSet::new();
        while let Some((at, course)) = waiting.pop() {
            let mut after = course.clone();
            let next = match self.advance(&program, &mut after, &states[at]) {
                Some(verdict) => {
                    ends.insert((verdict, after.run.packet().to_vec(), after.counted));
                    None
                }
                None => Some((at, after)),
            };
            let later = (at + 1 < states.len()).then_some((at + 1, course));
            for reached in [next, later].into_iter().flatten() {
                if known.insert(reached.clone()) {
                    waiting.push(reached);
                }
            }
        }
        ends
    }
}

fn frame([src, dst]: [SocketAddr; 2]) -> Vec<u8> {
    let (SocketAddr::V4(src), SocketAddr::V4(dst)) = (src, dst) else {
        unreachable!("constants of IPv4");
    };
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 7], MAC.0)
        .ipv4(src.ip().octets(), dst.ip().octets(), 9)
        .udp(src.port(), dst.port());
    let mut frame = Vec::new();
    builder.write(&mut frame, &[1, 2, 3]).unwrap();
    frame
}

/// Whatever the order, the packet is forwarded and counted as of the one flow or of the other, or goes to user space as it came.
#[test]
fn a_packet_is_of_one_flow_in_every_order() {
    let from = ["10.0.0.1:1000", "10.0.0.2:2000"].map(|end| end.parse().unwrap());
    let frame = frame(from);
    let [first, second] = flows(from);
    for fences in [false, true] {
        let bench = Bench::new(fences);
        let forwarded = [(&first, NEXT[0]), (&second, NEXT[1])].map(|(flow, next)| {
            let there = stores(|table| table.put(flow, next)).pop().unwrap();
            let outcomes = bench.outcomes(&frame, &[there]);
            assert_eq!(outcomes.len(), 1);
            outcomes.into_iter().next().unwrap()
        });
        for (way, (verdict, packet, counted)) in forwarded.iter().enumerate() {
            assert_eq!((*verdict, &packet[..6]), (TX, &NEXT[way].0[..]));
            // One of the pair's two tallies: a packet, and its bytes from the IP header on.
            let counts = counted[4 * way..4 * way + 4].iter().filter(|n| **n > 0);
            let bytes = (frame.len() - ethernet::LEN) as u64;
            assert_eq!(counts.copied().collect::<Vec<_>>(), [1, bytes]);
        }
        let left = (PASS, frame.clone(), [0; 8]);
        let wanted: HashSet<_> = forwarded.into_iter().chain([left]).collect();
        assert_eq!(wanted.len(), 3, "all of them differ");

        // There is the first, then the second, and the first again: a number that comes back would be taken for the old one.
        let states = stores(|table| {
            table.put(&first, NEXT[0]);
            for (flow, next) in [(&second, NEXT[1]), (&first, NEXT[0])] {
                table.take();
                table.put(flow, next);
            }
        });
        assert!(states.len() > 30, "{} stores", states.len());
        assert_eq!(bench.outcomes(&frame, &states), wanted);
    }
}
