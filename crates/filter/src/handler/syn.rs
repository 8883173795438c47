//! A SYN answered by a SYN cookie, in the kernel.
//!
//! A server's first packet of every connection says always the same, and so does its answer: all that is needed to make
//! it is known when the program is made (RFC 4987 §3.6 for the cookie). The answer is, byte for byte, the one that the
//! stack would have given had it answered with a cookie; the acknowledgement that brings the cookie back goes to the
//! stack, which makes the connection of it.
//!
//! Answered are SYNs of the two shapes that nearly all have, over IPv4, as they lie in the frame:
//!
//! ```text
//!  Ethernet 14 | IPv4 20, no options, whole | TCP 20: SYN alone | MSS 4                                (58 bytes)
//!              |                            |                   | MSS 4, SACK, timestamps, scale 20    (74 bytes)
//! ```
//!
//! The second is Linux's and Android's. Whatever differs in anything, a tag, other options, ECN, data, a checksum that
//! is wrong, goes on to the filter and so to the stack, which sees to it as ever.
//!
//! Registers: r6 context, r7 frame, r8 and r9 as told at each step; what is needed later waits on the stack.

mod cookie;
mod expect;
mod write;

use super::Handler;
use crate::ebpf::{Assembler, Label, Reg, Size};
use crate::packet::{Bytes, NETWORK as IP};
use crate::program::{Counter, Program, xdp};
use exos_wire::Mac;
use exos_wire::tcp::cookie::Recipe;
use expect::{expect_options, expect_room};
use std::net::Ipv4Addr;

/// Whose SYNs are answered, and how.
#[derive(Clone, Debug)]
pub struct SynHandler {
    /// The interface's link address.
    pub mac: Mac,
    /// Whose SYNs are answered.
    pub addresses: Vec<Ipv4Addr>,
    /// Who cannot have sent a packet: addresses of ours, and those of all hosts of a network.
    pub not_from: Vec<Ipv4Addr>,
    /// What the answers are made of.
    pub recipe: Recipe,
    /// Frames may come with the checksum left to a device: only the pseudo header's sum is in its field.
    pub may_be_partial: bool,
}

/// Where things lie in the frame.
const SOURCE: usize = IP + 12;
const DESTINATION: usize = IP + 16;
const TCP: usize = IP + 20;
const CHECKSUM: usize = TCP + 16;
const OPTIONS: usize = TCP + 20;

/// Where things wait on the stack: words of eight bytes.
const LOCAL: i16 = -8;
const REMOTE: i16 = -16;
const PORTS: i16 = -24;
const EPOCH: i16 = -32;
const SAID: i16 = -40;
const PAIR: i16 = -48;
const MILLIS: i16 = -56;
const ISS: i16 = -64;
const COUNTER: i16 = -72;

const CONTEXT: Reg = Reg::R6;
const FRAME: Reg = Reg::R7;
/// All of the packet.
const PACKET: Bytes = Bytes {
    start: FRAME,
    end: Reg::R9,
};

/// Don't Fragment, identification 0 (RFC 6864 §4.1).
const ATOMIC: u32 = 0x4000;
const SYN_ACK: u32 = 0x12;
const MSS_OPTION: u32 = 0x0204_0000;
const SACK_AND_TIMESTAMPS: u32 = 0x0402_080a;
const SCALE_OPTION: u32 = 0x0103_0300;

const SCALE_MAX: i32 = 14;

/// The two shapes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// An MSS and nothing else.
    Bare,
    /// Linux's.
    Full,
}

impl Shape {
    /// Words of the TCP header.
    const fn words(self) -> usize {
        match self {
            Self::Bare => 6,
            Self::Full => 10,
        }
    }

    const fn frame_len(self) -> usize {
        TCP + 4 * self.words()
    }

    /// The IPv4 packet's length.
    const fn total_len(self) -> u16 {
        (20 + 4 * self.words()) as u16
    }
}

impl Handler for SynHandler {
    fn name(&self) -> &'static str {
        "exos_syn"
    }

    /// What it answers it counts as [`Counter::Answered`].
    fn program(&self, prog_array_fd: i32, counters_fd: i32) -> Program {
        let mut asm = Assembler::new();
        let [filter, full] = [asm.label(), asm.label()];
        self.expect_syn(&mut asm, filter, full);
        self.answer(&mut asm, Shape::Bare, filter, counters_fd);
        asm.bind(full);
        self.answer(&mut asm, Shape::Full, filter, counters_fd);
        asm.bind(filter);
        super::go_on(&mut asm, CONTEXT, prog_array_fd);
        Program::new(
            asm.finish()
                .expect("jumps within a few thousand instructions"),
        )
    }
}

impl SynHandler {
    fn answer(&self, asm: &mut Assembler, shape: Shape, other: Label, counters_fd: i32) {
        if shape == Shape::Full {
            expect_room(asm, shape, other);
        }
        self.expect_sums(asm, shape, other);
        expect_options(asm, shape, other);
        self.look(asm);
        self.cookie(asm, shape);
        if shape == Shape::Full {
            self.timestamp(asm);
        }
        self.write_before_tcp(asm, shape);
        self.write_tcp(asm, shape);
        count(asm, counters_fd);
        asm.set(Reg::R0, xdp::TX);
        asm.exit();
    }
}

fn keep(asm: &mut Assembler, at: i16, src: Reg) {
    asm.store(Size::Double, Reg::R10, at, src);
}

fn kept(asm: &mut Assembler, dst: Reg, at: i16) {
    asm.load(Size::Double, dst, Reg::R10, at);
}

/// The value is this CPU's own and XDP does not nest: no atomics.
fn count(asm: &mut Assembler, counters_fd: i32) {
    let missing = asm.label();
    let counter = Counter::Answered as i32;
    asm.store_imm(Size::Word, Reg::R10, COUNTER, counter);
    asm.look_up(counters_fd, COUNTER, missing);
    asm.add_to(Reg::R0, 0, 1);
    asm.bind(missing);
}
