//! The program that rewrites in the kernel against the rewriting in user space, packet by packet: what the one sends on
//! is, byte for byte, what the other makes of it, and what it does not send on it leaves as it was. The program runs in
//! the kernel (`BPF_PROG_TEST_RUN`). And that it sends on nothing by halves of two flows, and what it makes of memory that
//! is not as it should be. Needs the privilege to load programs; without it each test says that it was skipped.

#[path = "in_kernel_memory.rs"]
mod memory;

use std::cell::Cell;
use std::sync::atomic::Ordering;

use exos_filter::handler::forward::flows::{Flows, HashKey};
use exos_filter::handler::forward::{Shape as HandlerShape, WayOut, layout};
use exos_filter::handler::{ForwardHandler, Handler as _};
use exos_forward::packet::{Packet, Segment, Transport};
use exos_forward::rewrite::{Rewrite, Sums};
use exos_host::bpf::{Map, MappedArray, Prog, permitted};
use exos_testing::Random;
use exos_wire::Mac;
use exos_wire::tcp::TcpFlags;
use proptest::prelude::*;

use super::common::{Ends, Shape, build, unfinish};
use super::{MAC, rewrite_to, shape, two_ends};

const PASS: u32 = 2;
const TX: u32 = 3;
/// Next hops towards servers and towards clients.
const NEXT: [Mac; 2] = [Mac([2, 0, 0, 0, 7, 7]), Mac([2, 0, 0, 0, 8, 8])];
/// What the flow of a test names, and where it is.
const HOPS: [u32; 2] = [3, 6];
const PAIR: u32 = 2;
const PLACE: u32 = 11;
const BUCKETS: u32 = 16;
const PLACES: u32 = 16;
const RECORD_LEN: usize = layout::record_len(true);
const KEY: HashKey = HashKey::new([7, 0x0123_4567_89ab_cdef]);

fn allowed(test: &str) -> bool {
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

/// The program with its maps.
struct Bench {
    index: MappedArray,
    records: MappedArray,
    hops: MappedArray,
    tallies: Map,
    prog: Prog,
    sums: Sums,
    /// Kept, for the program goes on to what is in it: nothing, and so packets pass.
    _slots: Map,
    /// Which way of its flow the next packet goes.
    way: Cell<usize>,
    sent: Cell<u64>,
}

impl Bench {
    fn new(sums: Sums) -> Self {
        Self::with_fences(sums, ForwardHandler::NEEDS_FENCES)
    }

    fn with_fences(sums: Sums, fences: bool) -> Self {
        let index = MappedArray::new("index", layout::BUCKET_LEN, BUCKETS).unwrap();
        let records = MappedArray::new("records", RECORD_LEN, PLACES).unwrap();
        let hops = MappedArray::new("hops", layout::HOP_LEN, 8).unwrap();
        let tallies = Map::percpu_array("tallies", layout::TALLY_LEN, 8).unwrap();
        let slots = Map::prog_array(2).unwrap();
        let shapes = [(false, false), (false, true), (true, false), (true, true)];
        let handler = ForwardHandler {
            mac: MAC,
            shapes: shapes
                .map(|(ipv6, tcp)| HandlerShape { ipv6, tcp })
                .to_vec(),
            index_fd: index.raw_fd(),
            buckets: BUCKETS,
            key: KEY,
            records_fd: records.raw_fd(),
            hops_fd: hops.raw_fd(),
            tallies_fd: tallies.raw_fd(),
            way_out: WayOut::Transmit,
            may_be_partial: sums == Sums::MaybePartial,
            fences,
        };
        let code = handler.program(slots.raw_fd(), -1);
        let prog = Prog::load(&code.words(), handler.name(), false)
            .unwrap_or_else(|e| panic!("{}\n{}\n{e}", code.disassemble(), e.log));
        let bench = Self {
            index,
            records,
            hops,
            tallies,
            prog,
            sums,
            _slots: slots,
            way: Cell::new(0),
            sent: Cell::new(0),
        };
        for (hop, next) in HOPS.into_iter().zip(NEXT) {
            bench.set_hop(hop, Some(next));
        }
        bench
    }

    fn set_hop(&self, hop: u32, mac: Option<Mac>) {
        self.hops.words()[hop as usize].store(layout::hop(mac), Ordering::Release);
    }

    fn flows(&self) -> Flows<'_> {
        Flows::new(self.index.words(), self.records.words(), RECORD_LEN, KEY)
    }

    /// Of both its ways.
    fn tallies(&self) -> [(u64, u64); 2] {
        [0, 1].map(|way| {
            let sums = self.tallies.sum_percpu_u64(2 * PAIR + way).unwrap();
            (sums[0], sums[1])
        })
    }

    /// Gives a frame to the program, which knows of a flow between these ends: what it sends on, if it does. All that it
    /// is to write beside is looked at here. Packets go the one way and the other in turns.
    fn run(
        &self,
        transport: Transport,
        (from, to): (&Ends, &Ends),
        frame: &[u8],
    ) -> Option<Vec<u8>> {
        let way = 1 - self.way.get();
        self.way.set(way);
        let flow = flow(transport, (from, to), way);
        self.flows().insert(PLACE, &flow, 0).unwrap();
        let before = self.tallies();
        let run = self.prog.test_run(frame);
        let seen = self.flows().seen(PLACE).expect("it stays");
        assert_eq!(self.flows().remove(PLACE), Some(flow), "it is as it was");
        let run = run.unwrap();
        let mut wanted = before;
        if run.verdict == PASS {
            assert_eq!(run.packet, frame, "what is not sent on is as it was");
            assert_eq!((seen, self.tallies()), (0, before));
            return None;
        }
        assert_eq!(run.verdict, TX);
        let packet = Packet::read(frame, MAC).expect("a packet that is forwarded");
        wanted[way].0 += 1;
        wanted[way].1 += u64::from(packet.end - packet.ip_at);
        assert_eq!(self.tallies(), wanted);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        assert!(
            seen <= now && now - seen < 60_000_000_000,
            "{seen} at {now}"
        );
        self.sent.set(self.sent.get() + 1);
        Some(run.packet)
    }

    /// What user space makes of the frame, if it is one that the program is to send on.
    fn oracle(
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
        if packet.ends() != Some(wanted) {
            return None;
        }
        const CHANGES: u8 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0;
        let upper = &frame[packet.upper_range()];
        if transport == Transport::Tcp && Segment::read(upper).flags.0 & CHANGES != 0 {
            return None;
        }
        let mut onward = frame.to_vec();
        let rewrite: Rewrite = rewrite_to(to);
        rewrite.apply(&packet, &mut onward, self.sums);
        onward[..6].copy_from_slice(&NEXT[self.way.get()].0);
        onward[6..12].copy_from_slice(&MAC.0);
        Some(onward)
    }

    fn compare(&self, transport: Transport, ends: (&Ends, &Ends), frame: &[u8]) -> Option<Vec<u8>> {
        let ours = self.run(transport, ends, frame);
        let theirs = self.oracle(transport, ends, frame);
        assert_eq!(ours, theirs, "of {frame:02x?}");
        ours
    }
}

/// A flow of which the packets that go this way come with these ends and leave with those.
fn flow(transport: Transport, (from, to): (&Ends, &Ends), way: usize) -> layout::Flow {
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
        hops: HOPS,
        pair: PAIR,
    }
}

/// Something unusual about a packet.
fn twist(frame: &mut Vec<u8>, seed: u64) {
    let mut random = Random(seed);
    let at = random.below(frame.len());
    match random.below(12) {
        0 => frame.truncate(at.max(14)),
        1 => frame[0] ^= 1 << random.below(8),
        // A tag.
        2 => drop(frame.splice(12..12, [0x81, 0, 0, random.byte()])),
        // Version, length, fragments, hops: where they lie in IPv4 and IPv6.
        3 => frame[14] = random.byte(),
        4 => frame[16 + random.below(4)] = random.byte(),
        5 => frame[20 + random.below(4)] = random.byte(),
        6 => frame[21] = random.below(3) as u8,
        7 => frame[22] = random.below(3) as u8,
        // Flags of TCP.
        8 => {
            let upper = if frame[12] == 8 { 34 } else { 54 };
            if let Some(flags) = frame.get_mut(upper + 13) {
                *flags = random.byte();
            }
        }
        9 => random.mutate(frame),
        _ => frame[at] ^= 1 << random.below(8),
    }
    if random.one_in(2) {
        mend_header(frame);
    }
}

/// Has a changed IPv4 header be whole again.
fn mend_header(frame: &mut [u8]) {
    if frame.len() >= 34 && frame[12..15] == [8, 0, 0x45] {
        frame[24..26].fill(0);
        let sum = exos_wire::Sum::of(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Runs a property on generated packets.
fn for_all(
    cases: u32,
    mut property: impl FnMut(&(Ends, Ends), &Shape, u64) -> Result<(), TestCaseError>,
) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..Default::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let property = std::cell::RefCell::new(&mut property);
    let strategy = (two_ends(), shape(), any::<u64>());
    let run = |(ends, shape, seed)| (property.borrow_mut())(&ends, &shape, seed);
    runner.run(&strategy, run).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn packets_are_rewritten_as_in_user_space() {
    if !allowed("packets_are_rewritten_as_in_user_space") {
        return;
    }
    for (sums, fences) in [
        (Sums::Complete, false),
        (Sums::MaybePartial, false),
        (Sums::Complete, true),
    ] {
        let bench = Bench::with_fences(sums, fences);
        for_all(1500, |(from, to), shape, seed| {
            let mut frame = build(MAC, from, shape);
            // Often with an unfinished checksum, or none, or a wrong one.
            let at = usize::from(Packet::read(&frame, MAC).unwrap().upper_at);
            let sum = at + shape.transport.checksum_at();
            match seed % 8 {
                0..3 if shape.options != 1 => unfinish(&mut frame, MAC),
                3 => frame[sum..sum + 2].fill(0),
                4 => frame[sum] ^= seed.to_ne_bytes()[7] | 1,
                _ => {}
            }
            let sent = bench.compare(shape.transport, (from, to), &frame);
            prop_assert_eq!(sent.is_some(), shape.options != 1);
            Ok(())
        });
        assert!(bench.sent.get() > 500, "{} of 1500", bench.sent.get());
    }
}

/// Whatever else comes is either sent on as user space would, or left as it was.
#[test]
fn whatever_is_unusual_is_left_or_rewritten_as_in_user_space() {
    if !allowed("whatever_is_unusual_is_left_or_rewritten_as_in_user_space") {
        return;
    }
    for sums in [Sums::Complete, Sums::MaybePartial] {
        let bench = Bench::new(sums);
        for_all(4000, |(from, to), shape, seed| {
            let mut frame = build(MAC, from, shape);
            twist(&mut frame, seed);
            // What is shorter is no frame for the kernel.
            prop_assume!(frame.len() >= 14);
            bench.compare(shape.transport, (from, to), &frame);
            Ok(())
        });
        let sent = bench.sent.get();
        assert!((400..3600).contains(&sent), "{sent} of 4000");
    }
}

/// Packets of any length that native XDP takes are summed whole.
#[test]
fn unfinished_checksums_of_long_packets_are_made() {
    if !allowed("unfinished_checksums_of_long_packets_are_made") {
        return;
    }
    let bench = Bench::new(Sums::MaybePartial);
    let from = Ends::of("10.0.0.1:1000", "10.0.0.2:2000");
    let to = Ends::of("10.0.0.3:3000", "10.0.0.4:4000");
    let mut random = Random(7);
    for len in (0..3400).step_by(7).chain([236, 237, 1460, 3399]) {
        for transport in [Transport::Tcp, Transport::Udp] {
            let shape = Shape {
                transport,
                payload: (0..len).map(|_| random.byte()).collect(),
                hops: 2,
                options: 0,
                padding: len % 3,
            };
            let mut frame = build(MAC, &from, &shape);
            unfinish(&mut frame, MAC);
            let sent = bench.compare(transport, (&from, &to), &frame);
            let wanted = build(MAC, &to, &Shape { hops: 1, ..shape });
            assert_eq!(sent.expect("sent on")[14..], wanted[14..], "{len} bytes");
        }
    }
}

/// Every way that a sum can come out: as in user space where it is zero, too.
#[test]
fn sums_that_come_out_as_zero_are_written_alike() {
    if !allowed("sums_that_come_out_as_zero_are_written_alike") {
        return;
    }
    let bench = Bench::new(Sums::Complete);
    let from = Ends::of("10.0.0.1:1000", "10.0.0.2:2000");
    let (mut ones, mut zeros) = (0, 0);
    for transport in [Transport::Tcp, Transport::Udp] {
        let shape = Shape {
            transport,
            payload: vec![0; 4],
            hops: 9,
            options: 0,
            padding: 0,
        };
        let frame = build(MAC, &from, &shape);
        let sum = 34 + transport.checksum_at();
        for port in 1..=u16::MAX {
            let to = Ends::of("10.0.0.3:1", &format!("10.0.0.4:{port}"));
            let sent = bench.compare(transport, (&from, &to), &frame);
            match sent.expect("sent on")[sum..sum + 2] {
                [0, 0] => zeros += 1,
                [0xff, 0xff] => ones += 1,
                _ => {}
            }
        }
    }
    assert_eq!((zeros, ones), (1, 1), "of TCP one is zero, of UDP none");
}
