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

use super::arithmetic::{
    add_words, expect_half, expect_word, fold, get, half, put, put_known, set_wide,
};
use super::sip;
use crate::ebpf::{Alu, Assembler, Condition, Helper, Insn, Label, Reg, Size};
use crate::program::{Counter, Program};
use exos_wire::tcp::cookie::{
    EPOCH_SHIFT, HASH_MASK, MSS_SHIFT, MSS_TABLE, Recipe, SACK_BIT, TIMESTAMP_BITS,
};
use exos_wire::{Mac, protocol};
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
const TYPE: usize = 12;
const IP: usize = 14;
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

/// The second slot of the program array: the filter.
pub const FILTER_SLOT: u32 = 1;

/// `XDP_TX`: out by the interface that it came in by.
const TX: i32 = 3;

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

    const fn frame_len(self) -> i32 {
        (TCP + 4 * self.words()) as i32
    }

    /// The IPv4 packet's length.
    const fn total_len(self) -> u16 {
        (20 + 4 * self.words()) as u16
    }
}

impl SynHandler {
    /// The program. It goes on to slot [`FILTER_SLOT`] of the program array with what it does not answer, and counts
    /// what it does as [`Counter::Answered`].
    pub fn program(&self, prog_array_fd: i32, counters_fd: i32) -> Program {
        let mut asm = Assembler::new();
        let [filter, full] = [asm.label(), asm.label()];
        self.expect_syn(&mut asm, filter, full);
        self.answer(&mut asm, Shape::Bare, filter, counters_fd);
        asm.bind(full);
        self.answer(&mut asm, Shape::Full, filter, counters_fd);
        asm.bind(filter);
        asm.set(Reg::R1, CONTEXT);
        asm.load_map(Reg::R2, prog_array_fd);
        asm.set(Reg::R3, FILTER_SLOT as i32);
        asm.call(Helper::TailCall);
        asm.set(Reg::R0, crate::program::xdp::PASS);
        asm.exit();
        Program::new(
            asm.finish()
                .expect("jumps within a few thousand instructions"),
        )
    }

    /// A SYN to us in Ethernet, IPv4 and TCP headers without anything unusual. Leaves the end of the frame in r9.
    fn expect_syn(&self, asm: &mut Assembler, other: Label, full: Label) {
        asm.set(CONTEXT, Reg::R1);
        asm.load(Size::Word, FRAME, CONTEXT, 0);
        asm.load(Size::Word, Reg::R9, CONTEXT, 4);
        expect_room(asm, Shape::Bare, other);
        let [m0, m1, m2, m3, m4, m5] = self.mac.0;
        expect_word(asm, FRAME, 0, u32::from_be_bytes([m0, m1, m2, m3]), other);
        expect_half(asm, FRAME, 4, u16::from_be_bytes([m4, m5]), other);
        // From one host, not a group.
        asm.load(Size::Byte, Reg::R1, FRAME, 6);
        asm.jump_if(Reg::R1, Condition::Set, 1, other);
        expect_half(asm, FRAME, TYPE, 0x0800, other);
        asm.load(Size::Byte, Reg::R1, FRAME, IP);
        asm.jump_if(Reg::R1, Condition::NotEqual, 0x45, other);
        // No fragment.
        asm.load(Size::Half, Reg::R1, FRAME, IP + 6);
        asm.jump_if(Reg::R1, Condition::Set, half(0xbfff), other);
        asm.load(Size::Byte, Reg::R1, FRAME, IP + 9);
        let tcp = i32::from(protocol::TCP);
        asm.jump_if(Reg::R1, Condition::NotEqual, tcp, other);
        self.expect_addresses(asm, other);
        asm.load(Size::Half, Reg::R1, FRAME, TCP);
        asm.jump_if(Reg::R1, Condition::Equal, 0, other);
        expect_half(asm, FRAME, TCP + 2, self.recipe.port, other);
        // The header's length, and SYN alone.
        asm.load(Size::Half, Reg::R1, FRAME, TCP + 12);
        let shape = |shape: Shape| half((shape.words() as u16) << 12 | 0x02);
        asm.jump_if(Reg::R1, Condition::Equal, shape(Shape::Full), full);
        asm.jump_if(Reg::R1, Condition::NotEqual, shape(Shape::Bare), other);
    }

    /// To an address of ours, from one that a host may have.
    fn expect_addresses(&self, asm: &mut Assembler, other: Label) {
        let ours = asm.label();
        get(asm, Reg::R1, FRAME, DESTINATION);
        for address in &self.addresses {
            asm.jump_if32(Reg::R1, Condition::Equal, address.to_bits() as i32, ours);
        }
        asm.jump(other);
        asm.bind(ours);
        asm.load(Size::Byte, Reg::R1, FRAME, SOURCE);
        for network in [0, 127] {
            asm.jump_if(Reg::R1, Condition::Equal, network, other);
        }
        asm.jump_if(Reg::R1, Condition::GreaterOrEqual, 224, other);
        get(asm, Reg::R1, FRAME, SOURCE);
        for address in &self.not_from {
            asm.jump_if32(Reg::R1, Condition::Equal, address.to_bits() as i32, other);
        }
    }

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
        asm.set(Reg::R0, TX);
        asm.exit();
    }

    /// Right checksums, of IPv4 and TCP.
    fn expect_sums(&self, asm: &mut Assembler, shape: Shape, other: Label) {
        let (sum, spare, right) = (Reg::R3, Reg::R2, asm.label());
        expect_half(asm, FRAME, IP + 2, shape.total_len(), other);
        asm.set(sum, 0);
        add_words(asm, sum, FRAME, IP, 5);
        fold(asm, sum, spare);
        asm.jump_if(sum, Condition::NotEqual, 0xffff, other);
        let length = (4 * shape.words()) as u16;
        let pseudo = half(u16::from(protocol::TCP)) + half(length);
        asm.set(sum, pseudo);
        add_words(asm, sum, FRAME, SOURCE, 2);
        asm.set(Reg::R4, sum);
        add_words(asm, sum, FRAME, TCP, shape.words());
        fold(asm, sum, spare);
        if self.may_be_partial {
            asm.jump_if(sum, Condition::Equal, 0xffff, right);
            fold(asm, Reg::R4, spare);
            asm.load(Size::Half, Reg::R1, FRAME, CHECKSUM);
            asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R4, other);
        } else {
            asm.jump_if(sum, Condition::NotEqual, 0xffff, other);
        }
        asm.bind(right);
    }

    /// Puts the four-tuple and the time aside.
    fn look(&self, asm: &mut Assembler) {
        asm.call(Helper::KtimeGetNs);
        asm.alu(Alu::Div, Reg::R0, 1000);
        asm.set(Reg::R1, Reg::R0);
        asm.alu(Alu::Div, Reg::R1, self.recipe.epoch_us as i32);
        keep(asm, EPOCH, Reg::R1);
        asm.alu(Alu::Div, Reg::R0, 1000);
        keep(asm, MILLIS, Reg::R0);
        // IPv4 addresses in IPv6's form (RFC 4291 §2.5.5.2): their second halves.
        set_wide(asm, Reg::R3, 0xffff_0000_0000);
        get(asm, Reg::R1, FRAME, DESTINATION);
        asm.set(Reg::R2, Reg::R1);
        asm.alu(Alu::ShiftLeft, Reg::R2, 32);
        asm.alu(Alu::Or, Reg::R1, Reg::R3);
        keep(asm, LOCAL, Reg::R1);
        get(asm, Reg::R1, FRAME, SOURCE);
        asm.alu(Alu::Or, Reg::R2, Reg::R1);
        keep(asm, PAIR, Reg::R2);
        asm.alu(Alu::Or, Reg::R1, Reg::R3);
        keep(asm, REMOTE, Reg::R1);
        asm.load(Size::Half, Reg::R1, FRAME, TCP);
        asm.push(Insn::to_big_endian(Reg::R1, 16));
        asm.alu(Alu::ShiftLeft, Reg::R1, 32);
        set_wide(asm, Reg::R2, u64::from(self.recipe.port) << 48);
        asm.alu(Alu::Or, Reg::R1, Reg::R2);
        keep(asm, PORTS, Reg::R1);
    }

    /// The initial sequence number; the bits that a timestamp carries stay in r9.
    fn cookie(&self, asm: &mut Assembler, shape: Shape) {
        let (index, bits) = (Reg::R8, Reg::R9);
        self.mss_index(asm, index);
        match shape {
            // One more than all bits: there are no timestamps.
            Shape::Bare => asm.set(bits, TIMESTAMP_BITS as i32 + 1),
            Shape::Full => {
                asm.load(Size::Byte, bits, FRAME, OPTIONS + 19);
                asm.alu(Alu::Or, bits, SACK_BIT as i32);
            }
        }
        get(asm, Reg::R1, FRAME, TCP + 4);
        asm.alu(Alu::ShiftLeft, Reg::R1, 24);
        asm.alu(Alu::Or, Reg::R1, index);
        asm.alu(Alu::ShiftLeft, Reg::R1, 8);
        asm.alu(Alu::Or, Reg::R1, bits);
        keep(asm, SAID, Reg::R1);
        sip::begin(asm, self.recipe.key);
        sip::take_zero(asm);
        take(asm, LOCAL);
        sip::take_zero(asm);
        take(asm, REMOTE);
        self.take_ports(asm, self.recipe.cookie_salt);
        take(asm, EPOCH);
        take(asm, SAID);
        sip::finish(asm, 7);
        asm.alu32(Alu::And, Reg::R0, HASH_MASK as i32);
        kept(asm, Reg::R1, EPOCH);
        asm.alu32(Alu::ShiftLeft, Reg::R1, EPOCH_SHIFT as i32);
        asm.alu32(Alu::Or, Reg::R0, Reg::R1);
        asm.alu32(Alu::ShiftLeft, index, MSS_SHIFT as i32);
        asm.alu32(Alu::Or, Reg::R0, index);
        keep(asm, ISS, Reg::R0);
    }

    /// The greatest entry of the table that is not above the SYN's MSS.
    fn mss_index(&self, asm: &mut Assembler, index: Reg) {
        let found = asm.label();
        asm.load(Size::Half, Reg::R1, FRAME, OPTIONS + 2);
        asm.push(Insn::to_big_endian(Reg::R1, 16));
        asm.set(index, 0);
        for (at, &entry) in MSS_TABLE.iter().enumerate().skip(1) {
            asm.jump_if(Reg::R1, Condition::Less, i32::from(entry), found);
            asm.set(index, at as i32);
        }
        asm.bind(found);
    }

    /// The latest timestamp with the bits in r9 that is not ahead of the clock; leaves it in r9.
    fn timestamp(&self, asm: &mut Assembler) {
        let (clock, bits, not_ahead) = (Reg::R0, Reg::R9, asm.label());
        sip::begin(asm, self.recipe.key);
        take(asm, PAIR);
        self.take_ports(asm, self.recipe.sequence_salt);
        sip::finish(asm, 2);
        asm.alu(Alu::ShiftRight, clock, 32);
        kept(asm, Reg::R1, MILLIS);
        asm.alu32(Alu::Add, clock, Reg::R1);
        asm.set(Reg::R1, clock);
        asm.alu32(Alu::And, Reg::R1, TIMESTAMP_BITS as i32);
        asm.alu32(Alu::And, clock, !(TIMESTAMP_BITS as i32));
        asm.alu32(Alu::Or, clock, bits);
        asm.jump_if(bits, Condition::LessOrEqual, Reg::R1, not_ahead);
        asm.alu32(Alu::Sub, clock, TIMESTAMP_BITS as i32 + 1);
        asm.bind(not_ahead);
        asm.set(Reg::R9, clock);
    }

    fn take_ports(&self, asm: &mut Assembler, salt: u32) {
        kept(asm, sip::WORD, PORTS);
        asm.alu(Alu::Or, sip::WORD, salt as i32);
        sip::take(asm);
    }

    /// Ethernet and IPv4 of the answer. Leaves our address in r4 and the peer's in r5.
    fn write_before_tcp(&self, asm: &mut Assembler, shape: Shape) {
        let (sum, local, remote) = (Reg::R8, Reg::R4, Reg::R5);
        asm.load(Size::Word, Reg::R1, FRAME, 6);
        asm.load(Size::Half, Reg::R2, FRAME, 10);
        asm.push(Insn::store(Size::Word, FRAME, 0, Reg::R1));
        asm.push(Insn::store(Size::Half, FRAME, 4, Reg::R2));
        let [m0, m1, m2, m3, m4, m5] = self.mac.0;
        put_known(asm, FRAME, 6, u32::from_be_bytes([m0, m1, m2, m3]));
        let last = half(u16::from_be_bytes([m4, m5]));
        asm.push(Insn::store_imm(Size::Half, FRAME, 10, last));
        let first = 0x4500_0000 | u32::from(self.recipe.class) << 16 | u32::from(shape.total_len());
        let tcp = u32::from(protocol::TCP);
        let hops = u32::from(self.recipe.hop_limit) << 24 | tcp << 16;
        let known = u64::from(first) + u64::from(ATOMIC) + u64::from(hops);
        get(asm, local, FRAME, DESTINATION);
        get(asm, remote, FRAME, SOURCE);
        set_wide(asm, sum, known);
        asm.alu(Alu::Add, sum, local);
        asm.alu(Alu::Add, sum, remote);
        fold(asm, sum, Reg::R1);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.alu32(Alu::Or, sum, hops as i32);
        put_known(asm, FRAME, IP, first);
        put_known(asm, FRAME, IP + 4, ATOMIC);
        put(asm, FRAME, IP + 8, sum);
        for (at, address) in [(SOURCE, local), (DESTINATION, remote)] {
            asm.set(Reg::R1, address);
            put(asm, FRAME, at, Reg::R1);
        }
    }

    /// TCP of the answer; the timestamp is in r9.
    fn write_tcp(&self, asm: &mut Assembler, shape: Shape) {
        let (sum, word) = (Reg::R8, Reg::R1);
        let offset_flags_window =
            (shape.words() as u32) << 28 | SYN_ACK << 16 | u32::from(self.recipe.window);
        let mut known = vec![(TCP + 12, offset_flags_window), (TCP + 16, 0)];
        known.push((OPTIONS, MSS_OPTION | u32::from(self.recipe.mss)));
        if shape == Shape::Full {
            known.push((OPTIONS + 4, SACK_AND_TIMESTAMPS));
            known.push((OPTIONS + 16, SCALE_OPTION | u32::from(self.recipe.scale)));
        }
        let length = 4 * shape.words() as u64 + u64::from(protocol::TCP);
        let all: u64 = known.iter().map(|&(_, word)| u64::from(word)).sum();
        set_wide(asm, sum, all + length);
        asm.alu(Alu::Add, sum, Reg::R4);
        asm.alu(Alu::Add, sum, Reg::R5);
        for (at, value) in known {
            put_known(asm, FRAME, at, value);
        }
        kept(asm, word, PORTS);
        asm.alu(Alu::ShiftRight, word, 32);
        asm.alu32(Alu::And, word, 0xffff);
        asm.alu32(Alu::Or, word, (u32::from(self.recipe.port) << 16) as i32);
        add_and_put(asm, TCP);
        kept(asm, word, ISS);
        add_and_put(asm, TCP + 4);
        kept(asm, word, SAID);
        asm.alu(Alu::ShiftRight, word, 32);
        asm.alu32(Alu::Add, word, 1);
        add_and_put(asm, TCP + 8);
        if shape == Shape::Full {
            get(asm, word, FRAME, OPTIONS + 8);
            add_and_put(asm, OPTIONS + 12);
            asm.set(word, Reg::R9);
            add_and_put(asm, OPTIONS + 8);
        }
        fold(asm, sum, word);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.push(Insn::to_big_endian(sum, 16));
        asm.push(Insn::store(Size::Half, FRAME, CHECKSUM as i16, sum));
    }
}

/// Adds the word in r1 to the sum in r8, and writes it.
fn add_and_put(asm: &mut Assembler, at: usize) {
    asm.alu(Alu::Add, Reg::R8, Reg::R1);
    put(asm, FRAME, at, Reg::R1);
}

/// The frame, whose end is in r9, is long enough.
fn expect_room(asm: &mut Assembler, shape: Shape, other: Label) {
    asm.set(Reg::R1, FRAME);
    asm.alu(Alu::Add, Reg::R1, shape.frame_len());
    asm.jump_if(Reg::R1, Condition::Greater, Reg::R9, other);
}

fn expect_options(asm: &mut Assembler, shape: Shape, other: Label) {
    expect_half(asm, FRAME, OPTIONS, (MSS_OPTION >> 16) as u16, other);
    if shape == Shape::Full {
        expect_word(asm, FRAME, OPTIONS + 4, SACK_AND_TIMESTAMPS, other);
        expect_half(asm, FRAME, OPTIONS + 16, (SCALE_OPTION >> 16) as u16, other);
        asm.load(Size::Byte, Reg::R1, FRAME, OPTIONS + 18);
        asm.jump_if(
            Reg::R1,
            Condition::NotEqual,
            (SCALE_OPTION >> 8 & 0xff) as i32,
            other,
        );
        // More than that is a mistake (RFC 7323 §2.3), which the stack mends.
        asm.load(Size::Byte, Reg::R1, FRAME, OPTIONS + 19);
        asm.jump_if(Reg::R1, Condition::Greater, SCALE_MAX, other);
    }
}

fn keep(asm: &mut Assembler, at: i16, src: Reg) {
    asm.push(Insn::store(Size::Double, Reg::R10, at, src));
}

fn kept(asm: &mut Assembler, dst: Reg, at: i16) {
    asm.push(Insn::load(Size::Double, dst, Reg::R10, at));
}

fn take(asm: &mut Assembler, at: i16) {
    kept(asm, sip::WORD, at);
    sip::take(asm);
}

/// The value is this CPU's own and XDP does not nest: no atomics.
fn count(asm: &mut Assembler, counters_fd: i32) {
    let missing = asm.label();
    let counter = Counter::Answered as i32;
    asm.push(Insn::store_imm(Size::Word, Reg::R10, COUNTER, counter));
    asm.set(Reg::R2, Reg::R10);
    asm.alu(Alu::Add, Reg::R2, i32::from(COUNTER));
    asm.load_map(Reg::R1, counters_fd);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(Reg::R0, Condition::Equal, 0, missing);
    asm.load(Size::Double, Reg::R1, Reg::R0, 0);
    asm.alu(Alu::Add, Reg::R1, 1);
    asm.push(Insn::store(Size::Double, Reg::R0, 0, Reg::R1));
    asm.bind(missing);
}
