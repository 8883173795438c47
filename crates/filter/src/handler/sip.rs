//! SipHash-1-3 in eBPF: the keyed hash of cookies.
//!
//! The state is in r0 to r3, the word that is taken in next in r4; r5 is spare. Aumasson and Bernstein, "SipHash: a
//! fast short-input PRF", 2012.

use super::arithmetic::set_wide;
use crate::ebpf::{Alu, Assembler, Emit, Reg};

const STATE: [Reg; 4] = [Reg::R0, Reg::R1, Reg::R2, Reg::R3];
/// The word that [`take`] takes in.
pub(super) const WORD: Reg = Reg::R4;
const SPARE: Reg = Reg::R5;

/// Begins a hash.
pub(super) fn begin(asm: &mut Assembler, key: [u64; 2]) {
    let start = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    for (register, value) in STATE.into_iter().zip(start) {
        set_wide(asm, register, value);
    }
}

/// Takes in the word in r4.
pub(super) fn take(asm: &mut Assembler) {
    asm.alu(Alu::Xor, STATE[3], WORD);
    round(asm);
    asm.alu(Alu::Xor, STATE[0], WORD);
}

/// Ends a hash of this many words, and leaves it in r0.
pub(super) fn finish(asm: &mut Assembler, words: u64) {
    // The length in bytes, in the last block's top byte.
    set_wide(asm, WORD, (words * 8) << 56);
    take(asm);
    asm.alu(Alu::Xor, STATE[2], 0xff);
    for _ in 0..3 {
        round(asm);
    }
    for register in &STATE[1..] {
        asm.alu(Alu::Xor, STATE[0], *register);
    }
}

fn round(asm: &mut Assembler) {
    let [v0, v1, v2, v3] = STATE;
    asm.alu(Alu::Add, v0, v1);
    asm.alu(Alu::Add, v2, v3);
    rotate_left(asm, v1, 13);
    asm.alu(Alu::Xor, v1, v0);
    rotate_left(asm, v3, 16);
    asm.alu(Alu::Xor, v3, v2);
    rotate_left(asm, v0, 32);
    asm.alu(Alu::Add, v2, v1);
    asm.alu(Alu::Add, v0, v3);
    rotate_left(asm, v1, 17);
    asm.alu(Alu::Xor, v1, v2);
    rotate_left(asm, v3, 21);
    asm.alu(Alu::Xor, v3, v0);
    rotate_left(asm, v2, 32);
}

fn rotate_left(asm: &mut Assembler, register: Reg, bits: i32) {
    asm.set(SPARE, register);
    asm.alu(Alu::ShiftLeft, SPARE, bits);
    asm.alu(Alu::ShiftRight, register, 64 - bits);
    asm.alu(Alu::Or, register, SPARE);
}
