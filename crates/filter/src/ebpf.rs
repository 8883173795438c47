//! A small assembler for eBPF: instructions and labels.
//!
//! An instruction is 8 bytes (`struct bpf_insn`): opcode, destination and source register (4 bits each), a signed
//! 16-bit offset and a signed 32-bit immediate. Only loading a 64-bit immediate takes two. [`Emit`] appends
//! instructions and resolves jumps to [`Label`]s, forward ones too; [`Insn::to_word`] gives what bpf(2) takes.
//!
//! Source: Linux Documentation/bpf/standardization/instruction-set.rst (RFC 9669).

mod assembler;
mod insn;

pub use assembler::{Assembler, Emit, JumpTooFar, Label};
pub use insn::half;
pub use insn::{Alu, Condition, Fetch, Helper, Insn, Operand, Reg, Size};

#[cfg(test)]
mod tests;
