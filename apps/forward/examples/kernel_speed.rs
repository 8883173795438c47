//! What forwarding a packet in the kernel costs, and what telling the kernel of a flow does, by how many flows there are.
//!
//! The program runs in the kernel on one packet after the other (`BPF_PROG_TEST_RUN`), each made by another program just
//! before to be of any of the flows; what that one costs alone is taken off. No interface is in it. Beside it what two
//! entries of a hash table of the kernel's cost to be put there and deleted, by four calls of bpf(2). Needs root.
//!
//!     cargo run --release -p exos-forward --example kernel_speed

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::time::Instant as Clock;

use exos_filter::ebpf::{Alu, Assembler, Condition, Emit, Helper, Insn, Reg, Size};
use exos_filter::handler::forward::flows::{Flows, HashKey, buckets_for};
use exos_filter::handler::forward::layout::{self, Ends, Flow};
use exos_filter::handler::forward::{Exit, Shape, WayOut};
use exos_filter::handler::{ForwardHandler, Handler as _};
use exos_host::bpf::{Map, MappedArray, Prog};
use exos_wire::{Mac, Sum};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0x9e37_79b9_7f4a_7c15]);
/// Clients are at addresses from here on, with this many ports each.
const CLIENTS: u32 = 0x0b00_0000;
const PORT_BITS: u32 = 14;
const PORT_FIRST: u16 = 1024;
const RECORD_LEN: usize = layout::record_len(false);
const REPEAT: u32 = 1_000_000;
/// Verdicts of XDP.
const PASS: i32 = 2;
const TX: i32 = 3;
/// The length of the frame: a segment without options or data.
const LEN: usize = 54;

fn main() {
    for flows in [1_000, 10_000, 100_000, 1_000_000] {
        let maps = Maps::new(flows);
        let told = maps.tell(flows);
        let [made, all] = [false, true].map(|forwards| maps.measure(flows, forwards));
        println!(
            "{flows:>9} flows: {} ns a packet, {told:.0} ns to tell of a flow and to take it back, {:.0} ns by calls",
            all - made,
            tell_by_calls(flows)
        );
    }
}

/// What the programs share.
struct Maps {
    index: MappedArray,
    records: MappedArray,
    hops: MappedArray,
    tallies: Map,
    /// The state of a generator of random numbers.
    random: MappedArray,
    buckets: u32,
}

impl Maps {
    fn new(flows: u32) -> Self {
        let array = |name, len, entries| MappedArray::new(name, len, entries).expect("root");
        let buckets = buckets_for(flows);
        let maps = Self {
            index: array("index", layout::BUCKET_LEN, buckets),
            records: array("records", RECORD_LEN, flows),
            hops: array("hops", layout::HOP_LEN, 1),
            tallies: Map::percpu_array("tallies", layout::TALLY_LEN, 2).expect("root"),
            random: array("random", 8, 1),
            buckets,
        };
        maps.hops.words()[0].store(layout::hop(0, Some(MAC)), Ordering::Release);
        maps.random.words()[0].store(1, Ordering::Release);
        maps
    }

    fn flows(&self) -> Flows<'_> {
        Flows::new(self.index.words(), self.records.words(), RECORD_LEN, KEY)
    }

    /// Has all flows be there; what it took to tell of one and take it back, in nanoseconds.
    fn tell(&self, flows: u32) -> f64 {
        let all: Vec<Flow> = (0..flows).map(flow).collect();
        let table = self.flows();
        let put = |n: u32| table.insert(n, &all[n as usize], 0).is_ok();
        let there = (0..flows).filter(|n| put(*n)).count();
        assert!(there >= flows as usize - 3, "{there} of {flows}");
        // Each at random, as connections end and begin.
        let mut n = 0;
        let begun = Clock::now();
        for step in 0..REPEAT {
            n = (n + 7919 * (step % 97 + 1)) % flows;
            table.remove(n);
            put(n);
        }
        begun.elapsed().as_nanos() as f64 / f64::from(REPEAT)
    }

    /// Nanoseconds to make a packet, and to forward it if it is to be: the least of some runs, since others only had
    /// something else in the way.
    fn measure(&self, flows: u32, forwards: bool) -> u32 {
        let slots = Map::prog_array(2).expect("root");
        let handler = ForwardHandler {
            link: 0,
            exits: vec![Exit {
                mac: MAC,
                mtu: 1500,
                way_out: WayOut::Transmit,
            }],
            shapes: vec![Shape {
                ipv6: false,
                tcp: true,
            }],
            index_fd: self.index.raw_fd(),
            buckets: self.buckets,
            key: KEY,
            records_fd: self.records.raw_fd(),
            hops_fd: self.hops.raw_fd(),
            tallies_fd: self.tallies.raw_fd(),
            may_be_partial: true,
            fences: ForwardHandler::NEEDS_FENCES,
        };
        let handler = load(&handler.program(slots.raw_fd(), -1).words());
        if forwards {
            slots.set_fd(0, handler.as_fd()).expect("a slot");
        }
        let maker = load(&maker(flows, self.random.raw_fd(), slots.raw_fd()));
        let run = |_| {
            let run = maker.test_run_repeated(&[0; LEN], REPEAT).expect("root");
            assert_eq!(run.verdict, if forwards { TX as u32 } else { PASS as u32 });
            run.nanoseconds
        };
        (0..7).map(run).min().expect("some runs")
    }
}

/// What it takes to delete both entries of a flow from a hash table and to put them there again, in nanoseconds.
fn tell_by_calls(flows: u32) -> f64 {
    let table = Map::hash("flows", 16, 40, 2 * flows).expect("root");
    let keys = |n: u32| [0, 1].map(|way| u128::from(n << 1 | way).to_ne_bytes());
    let put = |n: u32| {
        keys(n)
            .iter()
            .for_each(|key| table.update(key, &[0; 40]).expect("room"));
    };
    (0..flows).for_each(put);
    let mut n = 0;
    let begun = Clock::now();
    for step in 0..REPEAT / 10 {
        n = (n + 7919 * (step % 97 + 1)) % flows;
        for key in keys(n) {
            assert!(table.delete(&key).expect("root"));
        }
        put(n);
    }
    begun.elapsed().as_nanos() as f64 / f64::from(REPEAT / 10)
}

fn load(code: &[u64]) -> Prog {
    Prog::load(code, "speed", false).unwrap_or_else(|e| panic!("{}\n{e}", e.log))
}

fn flow(n: u32) -> Flow {
    let at = |address: u32, port: u16| SocketAddr::from((address.to_be_bytes(), port));
    let (address, port) = (CLIENTS + (n >> PORT_BITS), (n % (1 << PORT_BITS)) as u16);
    let listener = at(0x0a00_0014, 80);
    Flow {
        protocol: 6,
        ends: Ends {
            client: at(address, PORT_FIRST + port),
            listener,
            ours: at(0x0a00_0014, PORT_FIRST + port),
            server: at(0x0a01_0000 + (n >> PORT_BITS), 80),
        },
        links: [0; 2],
        hops: [0; 2],
        pair: 0,
        is_one_way: false,
    }
}

/// Makes the frame one of a client's of the n-th flow, drawn at random, and goes on to the first slot.
fn maker(flows: u32, random_fd: i32, slots_fd: i32) -> Vec<u64> {
    let (frame, client, sum) = (Reg::R7, Reg::R8, Reg::R3);
    let mut asm = Assembler::new();
    let pass = asm.label();
    asm.set(Reg::R6, Reg::R1);
    asm.load(Size::Word, frame, Reg::R1, 0);
    asm.load(Size::Word, Reg::R2, Reg::R1, 4);
    asm.set(Reg::R3, frame);
    asm.alu(Alu::Add, Reg::R3, LEN as i32);
    asm.jump_if(Reg::R3, Condition::Greater, Reg::R2, pass);
    asm.push(Insn::store_imm(Size::Word, Reg::R10, -4, 0));
    asm.set(Reg::R2, Reg::R10);
    asm.alu(Alu::Add, Reg::R2, -4);
    asm.load_map(Reg::R1, random_fd);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(Reg::R0, Condition::Equal, 0, pass);
    // Knuth's linear congruential generator, of which the upper half is used.
    asm.load(Size::Double, client, Reg::R0, 0);
    for (op, constant) in [(Alu::Mul, 6_364_136_223_846_793_005), (Alu::Add, 1)] {
        for insn in Insn::load_imm64(Reg::R1, constant) {
            asm.push(insn);
        }
        asm.alu(op, client, Reg::R1);
    }
    asm.push(Insn::store(Size::Double, Reg::R0, 0, client));
    asm.alu(Alu::ShiftRight, client, 32);
    asm.alu(Alu::Mul, client, flows as i32);
    asm.alu(Alu::ShiftRight, client, 32);
    for (at, byte) in (0..).zip(frame_of_first(flow(0))) {
        asm.push(Insn::store_imm(Size::Byte, frame, at, i32::from(byte)));
    }
    asm.set(Reg::R1, client);
    asm.alu(Alu::And, Reg::R1, (1 << PORT_BITS) - 1);
    asm.alu(Alu::Add, Reg::R1, i32::from(PORT_FIRST));
    asm.push(Insn::to_big_endian(Reg::R1, 16));
    asm.push(Insn::store(Size::Half, frame, 34, Reg::R1));
    asm.alu(Alu::ShiftRight, client, PORT_BITS as i32);
    asm.push(Insn::to_big_endian(client, 16));
    asm.push(Insn::store(Size::Half, frame, 28, client));
    // The header's sum is that of the first client's, and what their address is more.
    asm.load(Size::Half, sum, frame, 24);
    asm.alu(Alu::Xor, sum, 0xffff);
    asm.alu(Alu::Add, sum, client);
    asm.set(Reg::R1, sum);
    asm.alu(Alu::ShiftRight, Reg::R1, 16);
    asm.alu(Alu::Add, sum, Reg::R1);
    asm.alu(Alu::Xor, sum, 0xffff);
    asm.push(Insn::store(Size::Half, frame, 24, sum));
    asm.set(Reg::R1, Reg::R6);
    asm.load_map(Reg::R2, slots_fd);
    asm.set(Reg::R3, 0);
    asm.call(Helper::TailCall);
    asm.bind(pass);
    asm.set(Reg::R0, PASS);
    asm.exit();
    let insns = asm.finish().expect("short");
    insns.into_iter().map(Insn::to_word).collect()
}

/// A segment of the client's, with an acknowledgement and no data.
fn frame_of_first(flow: Flow) -> Vec<u8> {
    let (SocketAddr::V4(src), SocketAddr::V4(dst)) = (flow.ends.client, flow.ends.listener) else {
        unreachable!("IPv4 alone");
    };
    let mut frame = [&MAC.0[..], &[2, 0, 0, 0, 0, 1, 8, 0]].concat();
    let mut ip = [
        &[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0][..],
        &src.ip().octets(),
        &dst.ip().octets(),
    ]
    .concat();
    let sum = Sum::of(&ip).finish();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    frame.extend(src.port().to_be_bytes());
    frame.extend(dst.port().to_be_bytes());
    frame.extend([
        0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0x12, 0x34, 0, 0,
    ]);
    frame
}
