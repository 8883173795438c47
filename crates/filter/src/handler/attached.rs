//! What all handlers have in common: they are attached before the filter, count, and go on to it.

use crate::ebpf::{Assembler, Emit, Reg, Size};
use crate::program::{Counter, Program};

/// What is attached before the filter.
pub trait Handler {
    /// What the kernel calls the program.
    fn name(&self) -> &'static str;

    /// The program. It goes on to slot [`FILTER_SLOT`] of the program array with what it does not deal with, and may
    /// count in the map of [`Counter`](crate::Counter)s.
    fn program(&self, prog_array_fd: i32, counters_fd: i32) -> Program;

    /// Whether its program may be put in force again for the same code: the descriptors in that are open for as long as the link is, so
    /// that they are no other map's by then.
    fn may_be_kept(&self) -> bool {
        false
    }

    /// What is to run in traffic control at the interface's ingress, before the program does: it deals with packets that the program
    /// has passed to it.
    fn second_stage(&self, _counters_fd: i32) -> Option<Program> {
        None
    }
}

/// The second slot of the program array: the filter.
pub const FILTER_SLOT: u32 = 1;

/// Goes on to the filter; `context` is where the context waits. `unknown` is the verdict where there is none.
pub(super) fn go_on(asm: &mut Assembler, context: Reg, prog_array_fd: i32, unknown: i32) {
    asm.tail_call(context, prog_array_fd, FILTER_SLOT as i32);
    asm.set(Reg::R0, unknown);
    asm.exit();
}

/// Counts one; the key stands `key_at` on the stack. r0 to r5 are lost. The value is this CPU's own and XDP does not nest: no atomics.
pub(super) fn count(asm: &mut Assembler, counters_fd: i32, key_at: i16, counter: Counter) {
    let missing = asm.label();
    asm.store_imm(Size::Word, Reg::R10, key_at, counter as i32);
    asm.look_up(counters_fd, key_at, missing);
    asm.add_to(Reg::R0, 0, 1);
    asm.bind(missing);
}
