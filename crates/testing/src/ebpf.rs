//! An interpreter for the eBPF programs that are generated here, so that a test can stop one between any two of its steps,
//! look at it, and change the memory that it shares.
//!
//! A [`Program`] is instructions, as bpf(2) takes them, and the maps that they name. A [`Run`] is a packet on its way
//! through it: registers, stack and packet. [`Program::step`] executes one instruction; between two of them the run can be
//! cloned and compared, other runs go on, and the maps change.
//!
//! ```text
//! let mut run = Run::new(&frame, now_ns);
//! loop {
//!     // Anything may happen here.
//!     if let Some(verdict) = program.step(&mut run) { break verdict; }
//! }
//! ```
//!
//! Rules: it knows the instructions and helpers that the generator emits for programs that run on packets of the driver
//! (XDP). All else it refuses with a panic that says where: other instructions, and what the kernel's verifier would not have
//! let pass, such as accesses outside of packet, stack and values, and reads of registers that hold nothing. An instruction
//! is one step, and steps are in the program's order: what processors make of that is not here, but for what they do ahead on mistaken
//! ways ([`Program::ahead`]).
//!
//! It reads instructions by itself, and so depends on nothing that it is to check. That it agrees with the kernel is tested
//! where there are programs.
//!
//! Source: Linux Documentation/bpf/standardization/instruction-set.rst (RFC 9669).

mod disassembly;
mod execute;
mod helpers;
mod insn;
mod layout;
mod machine;
mod memory;
mod mistaken;
#[cfg(test)]
mod tests;

pub use disassembly::disassemble;
pub use machine::{Map, Program, Run};
pub use mistaken::Ahead;
