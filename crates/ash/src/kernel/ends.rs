//! What a handler goes on in, when it has decided: the filter of a link of the program's own, or the gate of an interface that many
//! programs share.

use exos_filter::Counter;
use exos_filter::ebpf::{Assembler, Helper, Reg};
use exos_filter::gate::handling::Outcome;
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::{count, go_on};
use exos_filter::program::xdp;

use super::{CONTEXT, Generator, stack};

/// Who has the packet behind the handler.
#[derive(Clone, Copy, Debug)]
pub(super) enum Behind {
    /// The link's filter, in this program array; what is dealt with is counted in this map.
    Filter {
        prog_array_fd: i32,
        counters_fd: i32,
    },
    /// The gate: it has a program for each outcome, in this program array.
    Gate { outcomes_fd: i32 },
}

impl Generator<'_> {
    /// The message was dealt with, and nobody sees it.
    pub(super) fn done(&mut self) {
        match self.behind {
            Behind::Filter { counters_fd, .. } => {
                count(&mut self.asm, counters_fd, stack::KEY, Counter::Done);
                drop_it(&mut self.asm);
            }
            Behind::Gate { outcomes_fd } => end_as(&mut self.asm, outcomes_fd, Outcome::Done),
        }
    }

    /// The frame is the reply.
    pub(super) fn answered(&mut self) {
        let (asm, way_out) = (&mut self.asm, self.of.way_out);
        match (self.behind, way_out) {
            (Behind::Gate { outcomes_fd }, WayOut::Transmit) => {
                end_as(asm, outcomes_fd, Outcome::Transmitted);
            }
            (Behind::Gate { outcomes_fd }, _) => end_as(asm, outcomes_fd, Outcome::Redirected),
            (Behind::Filter { counters_fd, .. }, way_out) => {
                count(asm, counters_fd, stack::KEY, Counter::Answered);
                match way_out {
                    WayOut::Transmit => asm.set(Reg::R0, xdp::TX),
                    WayOut::Redirect(interface) | WayOut::Buffers(interface) => {
                        asm.set(Reg::R1, interface as i32);
                        asm.set(Reg::R2, 0);
                        asm.call(Helper::Redirect);
                    }
                }
                asm.exit();
            }
        }
    }

    /// The packet is the program's, as it came.
    pub(super) fn pass_on(&mut self) {
        self.asm.bind(self.labels.filter);
        match self.behind {
            Behind::Filter { prog_array_fd, .. } => {
                go_on(&mut self.asm, CONTEXT, prog_array_fd, xdp::PASS);
            }
            Behind::Gate { outcomes_fd } => end_as(&mut self.asm, outcomes_fd, Outcome::GaveUp),
        }
    }
}

/// Goes on in the gate's program. It is there for as long as the gate is.
fn end_as(asm: &mut Assembler, outcomes_fd: i32, outcome: Outcome) {
    asm.set(Reg::R1, CONTEXT);
    asm.load_map(Reg::R2, outcomes_fd);
    asm.set(Reg::R3, outcome as i32);
    asm.call(Helper::TailCall);
    drop_it(asm);
}

pub(super) fn drop_it(asm: &mut Assembler) {
    asm.set(Reg::R0, xdp::DROP);
    asm.exit();
}
