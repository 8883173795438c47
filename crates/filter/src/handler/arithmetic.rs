//! What the answers are computed with: words in the packet's order, and the Internet checksum.

use crate::ebpf::{Alu, Assembler, Condition, Insn, Label, Reg, Size};
pub use crate::ebpf::{Emit, half};
use exos_wire::ipv4;

/// A word of a packet as it is loaded on this machine.
pub const fn word(value: u32) -> i32 {
    i32::from_ne_bytes(value.to_be_bytes())
}

/// `dst = value`.
pub fn set_wide(asm: &mut Assembler, dst: Reg, value: u64) {
    for insn in Insn::load_imm64(dst, value) {
        asm.push(insn);
    }
}

/// Adds what `sum` has beyond 16 bits to these until 16 bits are left (RFC 1071 §2). It is that of 32,768 words of 32 bits at most. `spare` is
/// lost.
pub fn fold(asm: &mut Assembler, sum: Reg, spare: Reg) {
    // Of 47 bits 32 are left, then 17, then 16.
    for _ in 0..3 {
        add_high(asm, sum, spare);
    }
}

/// A sum of at most 47 bits that is not 0 becomes the checksum that goes with it, without a jump that would tell of it (Spectre, variant 1). It
/// is never 0: what is not 0 stays so while its parts are added up, and all ones say as much (RFC 768). `spare` is lost.
pub fn checksum(asm: &mut Assembler, sum: Reg, spare: Reg) {
    // Less than 2^32 - 1 is left; that is a multiple of 65,535, which the rest is taken from.
    add_high(asm, sum, spare);
    asm.alu32(Alu::Xor, sum, -1);
    for _ in 0..2 {
        add_high(asm, sum, spare);
    }
}

/// Jumps unless a sum is right that a checksum is part of (RFC 1071 §3), and something that is not zero. It is that of 32,768 words of 32 bits
/// at most: added up to less than 2 × 65,535, it is right if it is 65,535. `sum` and `spare` are lost.
pub fn expect_right(asm: &mut Assembler, sum: Reg, spare: Reg, other: Label) {
    for _ in 0..2 {
        add_high(asm, sum, spare);
    }
    asm.jump_if(sum, Condition::NotEqual, 0xffff, other);
}

fn add_high(asm: &mut Assembler, sum: Reg, spare: Reg) {
    asm.set(spare, sum);
    asm.alu(Alu::ShiftRight, spare, 16);
    asm.alu(Alu::And, sum, 0xffff);
    asm.alu(Alu::Add, sum, spare);
}

/// Adds the words of the packet from `at` on, in memory order, to `sum`; a checksum does not mind the order.
pub fn add_words(asm: &mut Assembler, sum: Reg, packet: Reg, at: usize, words: usize) {
    let spare = Reg::R2;
    for at in (at..at + 4 * words).step_by(4) {
        asm.load(Size::Word, spare, packet, at);
        asm.alu(Alu::Add, sum, spare);
    }
}

/// `dst` = the word of the packet at `at`.
pub fn get(asm: &mut Assembler, dst: Reg, packet: Reg, at: usize) {
    asm.load(Size::Word, dst, packet, at);
    asm.to_big_endian(dst, 32);
}

/// Writes the word `src` into the packet; `src` is lost.
pub fn put(asm: &mut Assembler, packet: Reg, at: usize, src: Reg) {
    asm.to_big_endian(src, 32);
    asm.store(Size::Word, packet, at, src);
}

/// Writes a word that is known.
pub fn put_known(asm: &mut Assembler, packet: Reg, at: usize, value: u32) {
    asm.store_imm(Size::Word, packet, at, word(value));
}

/// Jumps unless the packet's half word at `at` is `value`.
pub fn expect_half(asm: &mut Assembler, packet: Reg, at: usize, value: u16, other: Label) {
    asm.load(Size::Half, Reg::R1, packet, at);
    asm.jump_if(Reg::R1, Condition::NotEqual, half(value), other);
}

/// Jumps unless the packet's word at `at` is `value`.
pub fn expect_word(asm: &mut Assembler, packet: Reg, at: usize, value: u32, other: Label) {
    asm.load(Size::Word, Reg::R1, packet, at);
    asm.jump_if32(Reg::R1, Condition::NotEqual, word(value), other);
}

/// The IPv4 header at this place of the packet, which has no options, has a right checksum. Loses r2 and r3.
pub fn expect_header_sum(asm: &mut Assembler, packet: Reg, at: usize, other: Label) {
    let sum = Reg::R3;
    asm.set(sum, 0);
    add_words(asm, sum, packet, at, ipv4::LEN / 4);
    fold(asm, sum, Reg::R2);
    asm.jump_if(sum, Condition::NotEqual, 0xffff, other);
}
