//! What a handler goes on in when it has decided: the filter of a link of the program's own, or the gate of an interface that many
//! programs share.
//!
//! A link's program says itself how packets leave, and counts in the link's map. The gate has a program for each way that a handler ends
//! ([`Outcome`]), which counts and charges; what a handler counts beside that is in its own memory, which its program reads.

use super::attached::{count, go_on};
use super::forward::WayOut;
use crate::ebpf::{Assembler, Emit, Helper, Insn, Reg};
use crate::gate::outcome::Outcome;
use crate::gate::steps::Steps;
use crate::program::{Counter, xdp};

/// Who has packets behind a handler.
#[derive(Clone, Copy, Debug)]
pub enum Behind {
    /// A link's filter.
    Filter {
        /// The program array that has it, at [`FILTER_SLOT`](super::FILTER_SLOT).
        prog_array_fd: i32,
        /// Where what is dealt with is counted: a map of [`Counter`]s.
        counters_fd: i32,
    },
    /// A gate.
    Gate {
        /// The program array that has its [`Outcome`]s.
        outcomes_fd: i32,
        /// Where the handler counts besides: words in the order of [`Counter`]s, from this byte on of an array's first value.
        counts: Option<(i32, u32)>,
        /// Where it takes steps from beside those that the gate took beforehand.
        steps: Option<Steps>,
    },
}

impl Behind {
    /// Counts one. The key stands `key_at` on the stack; r0 to r5 are lost.
    pub fn count(self, asm: &mut Assembler, key_at: i16, counter: Counter) {
        match self {
            Self::Filter { counters_fd, .. } => count(asm, counters_fd, key_at, counter),
            Self::Gate { counts: None, .. } => {}
            Self::Gate {
                counts: Some((memory_fd, at)),
                ..
            } => {
                asm.load_map_value(Reg::R1, memory_fd, at + 8 * counter as u32);
                asm.set(Reg::R2, 1);
                asm.push(Insn::atomic_add(Reg::R1, 0, Reg::R2));
            }
        }
    }

    /// Where steps are taken from.
    pub(super) const fn steps(self) -> Option<Steps> {
        match self {
            Self::Filter { .. } => None,
            Self::Gate { steps, .. } => steps,
        }
    }

    /// The packet is the program's, as it came. `context` is where the context waits.
    pub fn pass_on(self, asm: &mut Assembler, context: Reg) {
        match self {
            Self::Filter { prog_array_fd, .. } => go_on(asm, context, prog_array_fd, xdp::PASS),
            Self::Gate { outcomes_fd, .. } => end_as(asm, context, outcomes_fd, Outcome::GaveUp),
        }
    }

    /// Nothing more becomes of the packet, and nobody sees it.
    pub fn drop(self, asm: &mut Assembler, context: Reg) {
        match self {
            Self::Filter { .. } => end(asm, xdp::DROP),
            Self::Gate { outcomes_fd, .. } => end_as(asm, context, outcomes_fd, Outcome::Done),
        }
    }

    /// The frame is the answer, and leaves.
    pub fn transmit(self, asm: &mut Assembler, context: Reg, way_out: WayOut) {
        match (self, way_out) {
            (Self::Gate { outcomes_fd, .. }, WayOut::Transmit) => {
                end_as(asm, context, outcomes_fd, Outcome::Transmitted);
            }
            (Self::Gate { outcomes_fd, .. }, _) => {
                end_as(asm, context, outcomes_fd, Outcome::Redirected);
            }
            (Self::Filter { .. }, WayOut::Transmit) => end(asm, xdp::TX),
            (Self::Filter { .. }, WayOut::Redirect(to) | WayOut::Buffers(to)) => {
                asm.set(Reg::R1, to as i32);
                asm.set(Reg::R2, 0);
                asm.call(Helper::Redirect);
                asm.exit();
            }
        }
    }

    /// The frame is the beginning of the answer: a second stage completes it, and has it leave.
    pub(super) fn announce(self, asm: &mut Assembler, context: Reg) {
        match self {
            Self::Filter { .. } => end(asm, xdp::PASS),
            Self::Gate { outcomes_fd, .. } => end_as(asm, context, outcomes_fd, Outcome::Announced),
        }
    }
}

/// Goes on in the gate's program. It is there for as long as the gate is.
fn end_as(asm: &mut Assembler, context: Reg, outcomes_fd: i32, outcome: Outcome) {
    asm.tail_call(context, outcomes_fd, outcome as i32);
    end(asm, xdp::DROP);
}

fn end(asm: &mut Assembler, verdict: i32) {
    asm.set(Reg::R0, verdict);
    asm.exit();
}
