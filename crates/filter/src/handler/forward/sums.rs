//! The checksum of TCP and UDP behind a change of what it covers.
//!
//! It follows by the difference (RFC 1624, equation 3), so that it is afterwards as right or as wrong as before. A UDP
//! checksum of zero says that there is none, and stays (RFC 768). Where a kernel on this machine has left only the pseudo
//! header's sum in its field, for a device to complete that there is not, it is made: no device comes after us either.
//! One of 65,536 complete ones looks the same; made again it is the same, if it was right.
//!
//! The sum of a packet is taken in parts, since a part that is read where it lies has to have a length that the verifier
//! knows; the last one is copied.

use super::shape::{CHANGES, CONTEXT, END, FLOW, FRAME, LENGTH, PART, PART_LEN, PORTS, Shape};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Helper, Label, Reg, Size};
use crate::handler::arithmetic::{add_words, fold, half};

/// Where changes wait on the stack that a socket buffer's checksum follows: no part of it is summed.
const PSEUDO_CHANGE: i16 = PART;
const PORTS_CHANGE: i16 = PART + 8;
/// `BPF_F_PSEUDO_HDR`.
const OF_PSEUDO_HEADER: i32 = 0x10;
/// `BPF_F_MARK_MANGLED_0`.
const ZERO_IS_NONE: i32 = 0x20;

/// Parts of a packet at most: the longest that native XDP takes in one buffer, 4 KiB with what surrounds it.
const PARTS_MAX: usize = 16;

/// The checksum at `at` after a change by so much as the stack says at `by`. `special` sees the new one, in r1, before it is written.
pub(super) fn change(
    asm: &mut Assembler,
    at: usize,
    by: i16,
    special: impl FnOnce(&mut Assembler),
) {
    asm.load(Size::Half, Reg::R1, FRAME, at);
    asm.alu(Alu::Xor, Reg::R1, 0xffff);
    asm.load(Size::Half, Reg::R2, Reg::R10, by);
    asm.alu(Alu::Add, Reg::R1, Reg::R2);
    // Of two words: 17 bits, of which one carry is left to be added.
    asm.set(Reg::R2, Reg::R1);
    asm.alu(Alu::ShiftRight, Reg::R2, 16);
    asm.alu(Alu::And, Reg::R1, 0xffff);
    asm.alu(Alu::Add, Reg::R1, Reg::R2);
    asm.alu(Alu::Xor, Reg::R1, 0xffff);
    special(asm);
    asm.store(Size::Half, FRAME, at, Reg::R1);
}

/// Has the checksum follow the change of addresses and ports.
pub(super) fn follow(asm: &mut Assembler, shape: Shape) {
    let none = asm.label();
    if !shape.tcp {
        asm.load(Size::Half, Reg::R1, FRAME, shape.checksum());
        asm.jump_if(Reg::R1, Condition::Equal, 0, none);
    }
    change(asm, shape.checksum(), CHANGES, |asm| some(asm, shape));
    asm.bind(none);
}

/// Of a socket buffer the kernel knows whether its checksum is unfinished, of the pseudo header alone, and we do not. So the
/// change is told it in two parts: that of the addresses, which are in the pseudo header, and that of the ports. Both to the
/// stack, before the packet is written to.
pub(super) fn keep_changes(asm: &mut Assembler, shape: Shape) {
    let (ports, spare) = (Reg::R1, Reg::R2);
    asm.set(ports, 0);
    for at in [0, 2] {
        asm.load(Size::Half, spare, FRAME, shape.upper() + at as usize);
        asm.alu(Alu::Xor, spare, 0xffff);
        asm.alu(Alu::Add, ports, spare);
        asm.load(Size::Half, spare, Reg::R10, PORTS + at);
        asm.alu(Alu::Add, ports, spare);
    }
    fold(asm, ports, spare);
    asm.keep(PORTS_CHANGE, ports);
    asm.alu(Alu::Xor, ports, 0xffff);
    asm.load(Size::Half, spare, Reg::R10, CHANGES);
    asm.alu(Alu::Add, ports, spare);
    fold(asm, ports, spare);
    asm.keep(PSEUDO_CHANGE, ports);
}

/// Has the checksum of a socket buffer follow. What points into the packet is lost.
pub(super) fn follow_in_buffer(asm: &mut Assembler, shape: Shape) {
    let zero_is_none = if shape.tcp { 0 } else { ZERO_IS_NONE };
    for (by, what) in [(PSEUDO_CHANGE, OF_PSEUDO_HEADER), (PORTS_CHANGE, 0)] {
        asm.set(Reg::R1, CONTEXT);
        asm.set(Reg::R2, shape.checksum() as i32);
        asm.set(Reg::R3, 0);
        asm.kept(Reg::R4, by);
        asm.set(Reg::R5, what | zero_is_none);
        asm.call(Helper::L4CsumReplace);
    }
}

/// RFC 768: a computed zero, in r1, is sent as all ones, because zero says "none".
fn some(asm: &mut Assembler, shape: Shape) {
    if !shape.tcp {
        let is_some = asm.label();
        asm.jump_if(Reg::R1, Condition::NotEqual, 0, is_some);
        asm.set(Reg::R1, 0xffff);
        asm.bind(is_some);
    }
}

/// Goes to `unfinished` where the checksum's field has the pseudo header's sum; to `other` if there is then more to be
/// summed than is summed here.
pub(super) fn expect_finished(asm: &mut Assembler, shape: Shape, unfinished: Label, other: Label) {
    let (sum, finished) = (Reg::R3, asm.label());
    pseudo(asm, sum, shape);
    fold(asm, sum, Reg::R2);
    asm.load(Size::Half, Reg::R1, FRAME, shape.checksum());
    asm.jump_if(Reg::R1, Condition::NotEqual, sum, finished);
    asm.kept(Reg::R1, LENGTH);
    let most = (PARTS_MAX * PART_LEN) as i32;
    asm.jump_if(Reg::R1, Condition::Greater, most, other);
    asm.jump(unfinished);
    asm.bind(finished);
}

/// `sum` = the pseudo header's, of the addresses that are in the frame. Loses r2.
fn pseudo(asm: &mut Assembler, sum: Reg, shape: Shape) {
    asm.kept(sum, LENGTH);
    asm.to_big_endian(sum, 16);
    asm.alu(Alu::Add, sum, half(u16::from(shape.protocol())));
    add_words(asm, sum, FRAME, shape.addresses(), shape.address_words());
}

/// Makes the checksum of a packet that is otherwise as it will leave. The flow's register is lost.
pub(super) fn make(asm: &mut Assembler, shape: Shape) {
    let (sum, upper) = (FLOW, shape.upper());
    let [rest, done, wrong] = [asm.label(), asm.label(), asm.label()];
    asm.store_imm(Size::Half, FRAME, shape.checksum(), 0);
    asm.set(sum, 0);
    for part in 0..=PARTS_MAX {
        let (from, at) = ((part * PART_LEN) as i32, (upper + part * PART_LEN) as i32);
        let whole = asm.label();
        asm.kept(Reg::R4, LENGTH);
        asm.alu(Alu::Sub, Reg::R4, from);
        if part < PARTS_MAX {
            asm.jump_if(Reg::R4, Condition::GreaterOrEqual, PART_LEN as i32, whole);
        }
        asm.set(Reg::R2, at);
        asm.jump(rest);
        asm.bind(whole);
        if part < PARTS_MAX {
            add_part(asm, at, sum, wrong);
        }
    }
    asm.bind(rest);
    add_rest(asm, sum, done, wrong);
    asm.bind(wrong);
    // Never taken: for the verifier. XDP_ABORTED.
    asm.set(Reg::R0, 0);
    asm.exit();
    asm.bind(done);
    pseudo(asm, Reg::R1, shape);
    asm.alu(Alu::Add, Reg::R1, sum);
    fold(asm, Reg::R1, Reg::R2);
    asm.alu(Alu::Xor, Reg::R1, 0xffff);
    some(asm, shape);
    asm.store(Size::Half, FRAME, shape.checksum(), Reg::R1);
}

/// Adds a part of the frame where it lies.
fn add_part(asm: &mut Assembler, at: i32, sum: Reg, wrong: Label) {
    asm.set(Reg::R3, FRAME);
    asm.alu(Alu::Add, Reg::R3, at);
    asm.set(Reg::R1, Reg::R3);
    asm.alu(Alu::Add, Reg::R1, PART_LEN as i32);
    asm.jump_if(Reg::R1, Condition::Greater, END, wrong);
    add(asm, sum);
}

/// Adds the r4 bytes of the frame from r2 on, of which there are fewer than a part has, if there are any.
fn add_rest(asm: &mut Assembler, sum: Reg, done: Label, wrong: Label) {
    // Not a comparison with 0 for equality, of which the verifier before Linux 6.2 learns no least length.
    asm.jump_if(Reg::R4, Condition::Less, 1, done);
    asm.jump_if(Reg::R4, Condition::Greater, PART_LEN as i32, wrong);
    for at in (PART..PART + PART_LEN as i16).step_by(8) {
        asm.store_imm(Size::Double, Reg::R10, at, 0);
    }
    asm.set(Reg::R1, CONTEXT);
    asm.stack(Reg::R3, PART);
    asm.call(Helper::XdpLoadBytes);
    asm.jump_if(Reg::R0, Condition::NotEqual, 0, wrong);
    asm.stack(Reg::R3, PART);
    add(asm, sum);
    asm.jump(done);
}

/// Adds a part at r3.
fn add(asm: &mut Assembler, sum: Reg) {
    asm.set(Reg::R1, 0);
    asm.set(Reg::R2, 0);
    asm.set(Reg::R4, PART_LEN as i32);
    asm.alu32(Alu::Move, Reg::R5, sum);
    asm.call(Helper::CsumDiff);
    asm.set(sum, Reg::R0);
}
