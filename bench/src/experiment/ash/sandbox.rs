//! What it costs that a handler is not written by hand: the counters' handler as it is generated, beside the same as somebody would write
//! it in eBPF who knows that messages have 12 bytes. Each message is run on its own, in the kernel's test run, by turns.

use super::server::{HANDLER, PORT, parsed};
use crate::experiment::figure::{Figures, Goal};
use crate::stage::frames::ipv4_frame;
use crate::stage::xdp;
use exos::ash::Layout;
use exos::ash::kernel::InKernel;
use exos_filter::ebpf::{Alu, Assembler, Condition, Emit, Fetch, Insn, Label, Reg, Size};
use exos_filter::handler::Handler as _;
use exos_filter::handler::arithmetic::{
    add_words, expect_half, expect_word, fold, half, set_wide, word,
};
use exos_filter::handler::forward::WayOut;
use exos_filter::program::xdp::TX;
use exos_filter::{Counter, Program};
use exos_host::bpf::{Map, MappedArray, Prog};
use exos_host::{Error, Result};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::udp::UdpHeader;
use exos_wire::{Mac, Sum, protocol};
use std::net::{IpAddr, Ipv4Addr};

pub(super) const OURS: (Mac, Ipv4Addr) = (Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(192, 0, 2, 1));
pub(super) const THEIRS: (Mac, Ipv4Addr) = (Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(192, 0, 2, 2));

/// Messages that each is given.
const MESSAGES: u32 = 20_000;

/// Where things lie in a frame: a word of a message is behind 42 bytes of headers.
const IP: usize = 14;
const UDP: usize = 34;
const MESSAGE: usize = 42;
/// Bytes of a datagram with its header.
const DATAGRAM: i32 = 20;

/// Measures both.
pub(super) fn compare(figures: &mut Figures) -> Result<()> {
    let [counters, programs] = maps()?;
    let (generated, memory) = generate(HANDLER, [&counters, &programs])?;
    let by_hand = by_hand(memory.raw_fd(), counters.raw_fd());
    let [generated_ns, by_hand_ns] = time([&generated, &by_hand], |_| [message(), message()])?;
    figures.add("sandbox/handler", "ns", generated_ns);
    figures.add("sandbox/by-hand", "ns", by_hand_ns);
    let ratio = generated_ns / by_hand_ns;
    figures.add_goal("sandbox/ratio", "", Goal::AtMost(1.1), ratio);
    let nothing = xdp::answering(MESSAGE, |_, _, _| {});
    let [nothing_ns, _] = time([&nothing, &nothing], |_| [message(), message()])?;
    figures.add("sandbox/nothing", "ns", nothing_ns);
    for (name, program) in [("handler", &generated), ("by-hand", &by_hand)] {
        let instructions = program.insns().len() as f64;
        figures.add(format!("sandbox/{name}/instructions"), "", instructions);
    }
    Ok(())
}

/// Where verdicts are counted, and the filter would be.
pub(super) fn maps() -> Result<[Map; 2]> {
    let counters = Map::percpu_array("verdicts", 8, Counter::COUNT)?;
    Ok([counters, Map::prog_array(2)?])
}

/// The kernel's program of a handler, and its memory, which has to stay.
pub(super) fn generate(
    handler: &str,
    [counters, programs]: [&Map; 2],
) -> Result<(Program, MappedArray)> {
    let handler = parsed(handler)?;
    let bytes = Layout::of(handler.handler()).bytes() as usize;
    let memory = MappedArray::new("memory", bytes, 1)?;
    let generated = InKernel {
        handler: &handler,
        memory_fd: memory.raw_fd(),
        mac: OURS.0,
        addresses: vec![IpAddr::V4(OURS.1)],
        not_from: Vec::new(),
        port: PORT,
        may_be_partial: false,
        way_out: WayOut::Transmit,
    };
    let program = generated.program(programs.raw_fd(), counters.raw_fd());
    Ok((program, memory))
}

/// Nanoseconds of a message in each of two programs, by turns; of each turn the messages in their frames, all of which are answered.
///
/// What runs second in a turn takes some 6 ns less, so each is second in every other one.
pub(super) fn time(
    programs: [&Program; 2],
    messages: impl Fn(u32) -> [Vec<u8>; 2],
) -> Result<[f64; 2]> {
    let load = |program: &Program| Prog::load(&program.words(), "handler", false);
    let both = [load(programs[0])?, load(programs[1])?];
    let mut took_ns = [Vec::new(), Vec::new()];
    for turn in 0..MESSAGES {
        let messages = messages(turn);
        for which in [turn as usize % 2, (turn as usize + 1) % 2] {
            let run = both[which].test_run(&messages[which])?;
            if run.verdict != TX as u32 {
                return Err(Error::new("a handler did not answer in the test run"));
            }
            took_ns[which].push(f64::from(run.nanoseconds));
        }
    }
    Ok(took_ns.map(mean_of_the_middle))
}

/// Of the half of the values that are nearest to the median: the kernel's clock tells steps of 10 ns.
fn mean_of_the_middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = &values[values.len() / 4..values.len() * 3 / 4];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// A message in its frame: one more for counter 7.
pub(super) fn message() -> Vec<u8> {
    in_frame(&[&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat())
}

/// A message in its frame.
pub(super) fn in_frame(payload: &[u8]) -> Vec<u8> {
    frame(THEIRS, OURS, payload)
}

/// A message to the port of the handlers, in a frame between these ends.
pub(super) fn frame(theirs: (Mac, Ipv4Addr), ours: (Mac, Ipv4Addr), payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len();
    let ip = Ipv4Header::atomic(theirs.1, ours.1, protocol::UDP);
    let mut frame = ipv4_frame((theirs.0, ours.0), ip, len);
    let (from, to) = (theirs.1.into(), ours.1.into());
    let pseudo = Sum::pseudo(from, to, protocol::UDP, len as u32);
    let header = UdpHeader {
        src_port: 50_000,
        dst_port: PORT,
    };
    header.emit(
        payload.len(),
        pseudo.plus(Sum::of(payload)),
        &mut frame[UDP..],
    );
    frame[MESSAGE..].copy_from_slice(payload);
    frame
}

/// Looks at what the generated one does, changes what has to be changed, and has the checksum follow.
fn by_hand(counters_fd: i32, verdicts_fd: i32) -> Program {
    xdp::answering(UDP + DATAGRAM as usize, |asm, frame, pass| {
        expect_message(asm, frame, pass);
        increase(asm, frame, counters_fd, pass);
        turn_around(asm, frame);
        let uncounted = asm.label();
        asm.store_imm(Size::Word, Reg::R10, -4, Counter::Answered as i32);
        asm.look_up(verdicts_fd, -4, uncounted);
        asm.add_to(Reg::R0, 0, 1);
        asm.bind(uncounted);
    })
}

/// Sends each datagram for a port back as it came, and passes everything else.
pub(super) fn reflector(port: u16) -> Program {
    xdp::answering(MESSAGE, |asm, frame, pass| {
        expect_half(asm, frame, 12, 0x0800, pass);
        asm.load(Size::Byte, Reg::R1, frame, IP + 9);
        asm.jump_if(Reg::R1, Condition::NotEqual, i32::from(protocol::UDP), pass);
        expect_half(asm, frame, UDP + 2, port, pass);
        turn_around(asm, frame);
    })
}

/// UDP over IPv4 to us, whole, both checksums right.
fn expect_message(asm: &mut Assembler, frame: Reg, pass: Label) {
    let [m0, m1, m2, m3, m4, m5] = OURS.0.0;
    expect_word(asm, frame, 0, u32::from_be_bytes([m0, m1, m2, m3]), pass);
    expect_half(asm, frame, 4, u16::from_be_bytes([m4, m5]), pass);
    expect_half(asm, frame, 12, 0x0800, pass);
    asm.load(Size::Byte, Reg::R1, frame, IP);
    asm.jump_if(Reg::R1, Condition::NotEqual, 0x45, pass);
    expect_half(asm, frame, IP + 2, 40, pass);
    asm.load(Size::Half, Reg::R1, frame, IP + 6);
    asm.jump_if(Reg::R1, Condition::Set, half(0x3fff), pass);
    asm.load(Size::Byte, Reg::R1, frame, IP + 9);
    asm.jump_if(Reg::R1, Condition::NotEqual, i32::from(protocol::UDP), pass);
    expect_word(asm, frame, IP + 16, OURS.1.to_bits(), pass);
    expect_half(asm, frame, UDP + 2, PORT, pass);
    expect_half(asm, frame, UDP + 4, DATAGRAM as u16, pass);
    let sum = Reg::R4;
    asm.set(sum, 0);
    add_words(asm, sum, frame, IP, 5);
    fold(asm, sum, Reg::R1);
    asm.jump_if(sum, Condition::NotEqual, 0xffff, pass);
    // The pseudo header's (RFC 768) begins the datagram's.
    let rest = u32::from(protocol::UDP) + DATAGRAM as u32;
    set_wide(asm, sum, word(rest) as u32 as u64);
    add_words(asm, sum, frame, IP + 12, 2);
    add_words(asm, sum, frame, UDP, DATAGRAM as usize / 4);
    fold(asm, sum, Reg::R1);
    asm.jump_if(sum, Condition::NotEqual, 0xffff, pass);
}

/// The counter that the message names becomes greater, and what it was stands in the message; so does the checksum of that.
fn increase(asm: &mut Assembler, frame: Reg, counters_fd: i32, pass: Label) {
    let (counter, value, sum) = (Reg::R0, Reg::R2, Reg::R4);
    asm.load(Size::Word, counter, frame, MESSAGE);
    asm.to_big_endian(counter, 32);
    asm.jump_if(counter, Condition::Greater, 1023, pass);
    asm.alu(Alu::Mul, counter, 8);
    asm.load_map_value(Reg::R1, counters_fd, 0);
    asm.alu(Alu::Add, Reg::R1, counter);
    asm.load(Size::Double, value, frame, MESSAGE + 4);
    // RFC 1624: what was there is taken out of the sum, which is stored as its complement.
    asm.set(Reg::R3, value);
    asm.to_big_endian(value, 64);
    asm.push(Insn::fetch(Fetch::Add, Reg::R1, 0, value));
    asm.to_big_endian(value, 64);
    asm.store(Size::Double, frame, MESSAGE + 4, value);
    asm.load(Size::Half, sum, frame, UDP + 6);
    asm.alu(Alu::Xor, sum, 0xffff);
    for (part, taken_out) in [(Reg::R3, true), (value, false)] {
        if taken_out {
            asm.alu(Alu::Xor, part, -1);
        }
        asm.set(Reg::R1, part);
        asm.alu(Alu::ShiftRight, Reg::R1, 32);
        asm.alu(Alu::Add, sum, Reg::R1);
        asm.alu32(Alu::Move, Reg::R1, part);
        asm.alu(Alu::Add, sum, Reg::R1);
    }
    fold(asm, sum, Reg::R1);
    asm.alu(Alu::Xor, sum, 0xffff);
    let is_some = asm.label();
    asm.jump_if(sum, Condition::NotEqual, 0, is_some);
    asm.set(sum, 0xffff);
    asm.bind(is_some);
    asm.store(Size::Half, frame, UDP + 6, sum);
}

/// Back to who sent it; the sums do not mind.
fn turn_around(asm: &mut Assembler, frame: Reg) {
    xdp::turn_around(asm, frame);
    xdp::swap(asm, frame, Size::Word, IP + 12, IP + 16);
    xdp::swap(asm, frame, Size::Half, UDP, UDP + 2);
}
