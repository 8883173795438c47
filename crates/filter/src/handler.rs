//! Handlers: programs that deal with packets in the kernel, before the filter, as the application would.
//!
//! A handler looks at a packet first. What it can deal with it changes, in place, and has it leave by the interface
//! that it came from: the application never sees it. Everything else it hands on to the filter, so a handler that knows
//! only the commonest packets is complete. It is the application's own code in the kernel, made safe by the verifier
//! (ASHs; *Fast and Flexible*, section 8).
//!
//! - [`syn`] answers SYNs, so that who opens a connection costs the application nothing until they have shown that they are
//!   where they say.
//! - [`forward`] sends packets of known flows on, with other ends.

mod arithmetic;
pub mod forward;
mod sip;
pub mod syn;

use crate::ebpf::{Assembler, Helper, Reg};
use crate::program::Program;

pub use forward::ForwardHandler;
pub use syn::SynHandler;

/// What is attached before the filter.
pub trait Handler {
    /// What the kernel calls the program.
    fn name(&self) -> &'static str;

    /// The program. It goes on to slot [`FILTER_SLOT`] of the program array with what it does not deal with, and may
    /// count in the map of [`Counter`](crate::Counter)s.
    fn program(&self, prog_array_fd: i32, counters_fd: i32) -> Program;
}

/// The second slot of the program array: the filter.
pub const FILTER_SLOT: u32 = 1;

/// Goes on to the filter; `context` is where the context waits. `unknown` is the verdict where there is none.
fn go_on(asm: &mut Assembler, context: Reg, prog_array_fd: i32, unknown: i32) {
    asm.set(Reg::R1, context);
    asm.load_map(Reg::R2, prog_array_fd);
    asm.set(Reg::R3, FILTER_SLOT as i32);
    asm.call(Helper::TailCall);
    asm.set(Reg::R0, unknown);
    asm.exit();
}
