//! The program with memory of its own, in the kernel and in an interpreter, and what user space makes of the same packets.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use exos_filter::handler::forward::flows::{Flows, HashKey};
use exos_filter::handler::forward::{Exit, Shape as HandlerShape, WayOut, layout};
use exos_filter::handler::{ForwardHandler, Handler as _};
use exos_forward::packets::packet::{Packet, Segment, Transport};
use exos_forward::packets::reach::Reach;
use exos_forward::packets::rewrite::{Sums, keep_ends};
use exos_host::bpf::{Map, MappedArray, Prog, TestRun, permitted};
use exos_testing::ebpf;
use exos_wire::Mac;
use exos_wire::tcp::TcpFlags;

use super::super::common::Ends;
use super::super::{MAC, rewrite_to};

pub(super) const PASS: u32 = 2;
pub(super) const TX: u32 = 3;
const REDIRECT: u32 = 4;
/// Those of traffic control.
const TC_NEXT: u32 = -1_i32 as u32;
const TC_REDIRECT: u32 = 7;
/// Next hops towards servers and towards clients.
pub(super) const NEXT: [Mac; 2] = [Mac([2, 0, 0, 0, 7, 7]), Mac([2, 0, 0, 0, 8, 8])];
/// What the flow of a test names, and where it is.
pub(super) const HOPS: [u32; 2] = [3, 6];
pub(super) const PAIR: u32 = 2;
pub(super) const PLACE: u32 = 11;
pub(super) const BUCKETS: u32 = 16;
pub(super) const PLACES: u32 = 16;
const TALLIES: u32 = 8;
pub(super) const RECORD_LEN: usize = layout::record_len(true);
pub(super) const KEY: HashKey = HashKey::new([7, 0x0123_4567_89ab_cdef]);

pub(super) fn allowed(test: &str) -> bool {
    match permitted() {
        Ok(()) => true,
        Err(error) => {
            // Past the test harness, which keeps to itself what passing tests print.
            let text = format!("SKIPPED: {test}: {error}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            false
        }
    }
}

/// What the kernel forwards by.
pub(super) const REACHES: [Reach; 3] = [Reach::Nat, Reach::Transparent, Reach::Direct];

/// The program with its maps.
pub(super) struct Bench {
    pub(super) index: MappedArray,
    pub(super) records: MappedArray,
    pub(super) hops: MappedArray,
    pub(super) tallies: Map,
    pub(super) prog: Prog,
    /// Its instructions.
    pub(super) words: Vec<u64>,
    pub(super) sums: Sums,
    /// How packets leave by each link, and that of the program.
    exits: Vec<Exit>,
    link: u8,
    /// The links that a flow's packets are to come by, each way.
    pub(super) come_by: Cell<[u8; 2]>,
    /// The links that its next hops are on.
    leave_by: Cell<[u8; 2]>,
    /// How its flows reach servers.
    pub(super) reach: Reach,
    /// The program goes on to what is in it: nothing, and so packets pass.
    slots: Map,
    /// Which way of its flow the next packet goes.
    pub(super) way: Cell<usize>,
    pub(super) sent: Cell<u64>,
}

impl Bench {
    pub(super) fn new(sums: Sums) -> Self {
        Self::with_fences(sums, ForwardHandler::NEEDS_FENCES)
    }

    pub(super) fn with_fences(sums: Sums, fences: bool) -> Self {
        Self::on_links(sums, fences, vec![exit(WayOut::Transmit)], 0)
    }

    /// The program in traffic control, whose buffers have all complete checksums here.
    pub(super) fn of_buffers() -> Self {
        let exits = vec![exit(WayOut::Buffers(1))];
        Self::on_links(Sums::Complete, ForwardHandler::NEEDS_FENCES, exits, 0)
    }

    /// The program of one of these links.
    pub(super) fn on_links(sums: Sums, fences: bool, exits: Vec<Exit>, link: u8) -> Self {
        let index = MappedArray::new("index", layout::BUCKET_LEN, BUCKETS).unwrap();
        let records = MappedArray::new("records", RECORD_LEN, PLACES).unwrap();
        let hops = MappedArray::new("hops", layout::HOP_LEN, 8).unwrap();
        let tallies = Map::percpu_array("tallies", layout::TALLY_LEN, TALLIES).unwrap();
        let slots = Map::prog_array(2).unwrap();
        let shapes = [(false, false), (false, true), (true, false), (true, true)];
        let handler = ForwardHandler {
            link,
            exits: exits.clone(),
            shapes: shapes
                .map(|(ipv6, tcp)| HandlerShape { ipv6, tcp })
                .to_vec(),
            index_fd: index.raw_fd(),
            buckets: BUCKETS,
            key: KEY,
            records_fd: records.raw_fd(),
            hops_fd: hops.raw_fd(),
            tallies_fd: tallies.raw_fd(),
            may_be_partial: sums == Sums::MaybePartial,
            fences,
        };
        let code = handler.program(slots.raw_fd(), -1);
        let words = code.words();
        let loaded = match is_of_buffers(&exits) {
            true => Prog::load_classifier(&words, handler.name()),
            false => Prog::load(&words, handler.name(), false),
        };
        let prog = loaded
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", ebpf::disassemble(&code.words()), e.log));
        let bench = Self {
            index,
            records,
            hops,
            tallies,
            prog,
            words,
            sums,
            exits,
            link,
            come_by: Cell::new([link; 2]),
            leave_by: Cell::new([link; 2]),
            reach: Reach::Nat,
            slots,
            way: Cell::new(0),
            sent: Cell::new(0),
        };
        bench.leave_by([link; 2]);
        bench
    }

    /// Next hops are on these links from now on.
    pub(super) fn leave_by(&self, links: [u8; 2]) {
        self.leave_by.set(links);
        for ((hop, next), link) in HOPS.into_iter().zip(NEXT).zip(links) {
            self.hops.words()[hop as usize].store(layout::hop(link, Some(next)), Ordering::Release);
        }
    }

    /// With flows by this reach.
    pub(super) fn by(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    pub(super) fn set_hop(&self, hop: u32, mac: Option<Mac>) {
        self.hops.words()[hop as usize].store(layout::hop(self.link, mac), Ordering::Release);
    }

    pub(super) fn flows(&self) -> Flows<'_> {
        Flows::new(self.index.words(), self.records.words(), RECORD_LEN, KEY)
    }

    /// Of both its ways.
    pub(super) fn tallies(&self) -> [(u64, u64); 2] {
        [0, 1].map(|way| {
            let sums = self.tallies.sum_percpu_u64(2 * PAIR + way).unwrap();
            (sums[0], sums[1])
        })
    }

    /// The program for the interpreter: with the same memory, but for the tallies, which are in the kernel alone.
    pub(super) fn program<'a>(&'a self, tallies: &'a [AtomicU64]) -> ebpf::Program<'a> {
        let array = |words, value_len| ebpf::Map::Array { words, value_len };
        let maps = vec![
            (
                self.index.raw_fd(),
                array(self.index.words(), layout::BUCKET_LEN),
            ),
            (
                self.records.raw_fd(),
                array(self.records.words(), RECORD_LEN),
            ),
            (
                self.hops.raw_fd(),
                array(self.hops.words(), layout::HOP_LEN),
            ),
            (self.tallies.raw_fd(), array(tallies, layout::TALLY_LEN)),
            (self.slots.raw_fd(), ebpf::Map::Programs),
        ];
        ebpf::Program::new(&self.words, maps)
    }

    /// Gives a frame to the program, in the kernel and in the interpreter, which have to agree: on verdict and packet, on what
    /// is counted, and on what becomes of the memory.
    pub(super) fn both(&self, frame: &[u8]) -> TestRun {
        let (before, tallies) = (self.shared(), self.all_tallies());
        let began = now_ns();
        let run = self.prog.test_run(frame).unwrap();
        let ended = now_ns();
        let after = self.shared();
        let counted = self.all_tallies().into_iter().zip(tallies);
        let counted: Vec<u64> = counted.map(|(now, before)| now - before).collect();
        let changed = |after: &[u64], times: RangeInclusive<u64>| {
            let all = (0..).zip(after.iter().zip(&before));
            let changed = all.filter(|(_, (now, before))| now != before);
            let of_time = changed.inspect(|(_, (now, _))| assert!(times.contains(now), "a time"));
            of_time.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let wanted = changed(&after, began..=ended);
        // It may have been its time in the meantime to note that the flow was seen.
        let is_same = [began, ended].into_iter().any(|now| {
            self.set_shared(&before);
            let tallies = [const { AtomicU64::new(0) }; 2 * TALLIES as usize];
            let mut ours = ebpf::Run::new(frame, now);
            let verdict = self.program(&tallies).finish(&mut ours);
            assert_eq!((verdict, ours.packet()), (run.verdict, &*run.packet));
            assert_eq!(tallies.map(AtomicU64::into_inner)[..], counted);
            changed(&self.shared(), now..=now) == wanted
        });
        assert!(is_same, "{wanted:?}");
        self.set_shared(&after);
        run
    }

    /// All that flows are in.
    fn shared_words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.index.words().iter().chain(self.records.words())
    }

    fn shared(&self) -> Vec<u64> {
        let words = self.shared_words();
        words.map(|word| word.load(Ordering::Relaxed)).collect()
    }

    fn set_shared(&self, values: &[u64]) {
        for (word, value) in self.shared_words().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    fn all_tallies(&self) -> Vec<u64> {
        let of = |tally| self.tallies.sum_percpu_u64(tally).unwrap();
        (0..TALLIES).flat_map(of).collect()
    }

    /// Gives a frame to the program, which knows of a flow between these ends: what it sends on, if it does. All that it
    /// is to write beside is looked at here. Packets go the one way and the other in turns, if there are two.
    pub(super) fn run(
        &self,
        transport: Transport,
        (from, to): (&Ends, &Ends),
        frame: &[u8],
    ) -> Option<Vec<u8>> {
        let way = self.next_way();
        self.way.set(way);
        let mut flow = flow(transport, (from, to), way);
        flow.is_one_way = self.reach == Reach::Direct;
        flow.links = self.come_by.get();
        self.flows().insert(PLACE, &flow, 0).unwrap();
        let before = self.tallies();
        let run = match is_of_buffers(&self.exits) {
            // The interpreter has no socket buffers.
            true => self.prog.test_run(frame).unwrap(),
            false => self.both(frame),
        };
        let passed = match is_of_buffers(&self.exits) {
            true => TC_NEXT,
            false => PASS,
        };
        let seen = self.flows().seen(PLACE).expect("it stays");
        assert_eq!(self.flows().remove(PLACE), Some(flow), "it is as it was");
        let mut wanted = before;
        if run.verdict == passed {
            assert_eq!(run.packet, frame, "what is not sent on is as it was");
            assert_eq!((seen, self.tallies()), (0, before));
            return None;
        }
        let exit = self.exit(way).expect("a link");
        let sent = match exit.way_out {
            WayOut::Transmit => TX,
            WayOut::Redirect(_) => REDIRECT,
            WayOut::Buffers(_) => TC_REDIRECT,
        };
        assert_eq!(run.verdict, sent);
        let packet = Packet::read(frame, MAC).expect("a packet that is forwarded");
        wanted[way].0 += 1;
        wanted[way].1 += u64::from(packet.end - packet.ip_at);
        assert_eq!(self.tallies(), wanted);
        let now = now_ns();
        assert!(
            seen <= now && now - seen < 60_000_000_000,
            "{seen} at {now}"
        );
        self.sent.set(self.sent.get() + 1);
        Some(run.packet)
    }

    /// What user space makes of the frame, if it is one that the program is to send on.
    pub(super) fn oracle(
        &self,
        transport: Transport,
        (from, to): (&Ends, &Ends),
        frame: &[u8],
    ) -> Option<Vec<u8>> {
        let packet = Packet::read(frame, MAC)?;
        let plain = if packet.src.is_ipv6() { 40 } else { 20 };
        let is_plain = packet.ip_at == 14 && packet.upper_at == packet.ip_at + plain;
        if !is_plain || packet.fragment.is_some() || packet.hops <= 1 {
            return None;
        }
        let wanted = (transport, from.src.into(), from.dst.into());
        let exit = self.exit(self.way.get())?;
        let is_here = self.come_by.get()[self.way.get()] == self.link;
        let is_asked = self.exits.len() > 1 && !is_of_buffers(&self.exits);
        let fits = !is_asked || u32::from(packet.end - packet.ip_at) <= exit.mtu;
        if packet.ends() != Some(wanted) || !is_here || !fits {
            return None;
        }
        const CHANGES: u8 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0;
        let upper = &frame[packet.upper_range()];
        if transport == Transport::Tcp && Segment::read(upper).flags.0 & CHANGES != 0 {
            return None;
        }
        let mut onward = frame.to_vec();
        match self.reach {
            Reach::Direct => keep_ends(&packet, &mut onward, self.sums),
            _ => rewrite_to(to).apply(&packet, &mut onward, self.sums),
        }
        onward[..6].copy_from_slice(&NEXT[self.way.get()].0);
        onward[6..12].copy_from_slice(&exit.mac.0);
        Some(onward)
    }

    /// The link that packets leave by, this way; `None` where there is no such link.
    fn exit(&self, way: usize) -> Option<&Exit> {
        self.exits.get(usize::from(self.leave_by.get()[way]))
    }

    /// Which way the next packet goes.
    fn next_way(&self) -> usize {
        match self.reach {
            Reach::Direct => 0,
            _ => 1 - self.way.get(),
        }
    }

    /// As what the next packet that comes between these is to leave, if where ends are new they are those.
    pub(super) fn leaving(&self, from: &Ends, new: &Ends) -> Ends {
        match (self.reach, self.next_way()) {
            (Reach::Transparent, 0) => Ends {
                src: from.src,
                dst: new.dst,
            },
            (Reach::Transparent, _) => Ends {
                src: new.src,
                dst: from.dst,
            },
            (Reach::Direct, _) => *from,
            _ => *new,
        }
    }

    pub(super) fn compare(
        &self,
        transport: Transport,
        (from, to): (&Ends, &Ends),
        frame: &[u8],
    ) -> Option<Vec<u8>> {
        let (from, to) = (from, &self.leaving(from, to));
        let ours = self.run(transport, (from, to), frame);
        let theirs = self.oracle(transport, (from, to), frame);
        assert_eq!(ours, theirs, "of {frame:02x?}");
        ours
    }
}

/// The only link.
const fn exit(way_out: WayOut) -> Exit {
    Exit {
        mac: MAC,
        mtu: 1500,
        way_out,
    }
}

/// In traffic control.
fn is_of_buffers(exits: &[Exit]) -> bool {
    exits
        .iter()
        .any(|exit| matches!(exit.way_out, WayOut::Buffers(_)))
}

/// As of the last tick, as the program sees it.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A flow of which the packets that go this way come with these ends and leave with those.
pub(super) fn flow(transport: Transport, (from, to): (&Ends, &Ends), way: usize) -> layout::Flow {
    let ends = match way {
        0 => layout::Ends {
            client: from.src,
            listener: from.dst,
            ours: to.src,
            server: to.dst,
        },
        _ => layout::Ends {
            client: to.dst,
            listener: to.src,
            ours: from.dst,
            server: from.src,
        },
    };
    layout::Flow {
        protocol: transport.number(),
        ends,
        links: [0; 2],
        hops: HOPS,
        pair: PAIR,
        is_one_way: false,
    }
}
