//! How a handler ends.

use exos_filter::Counter;
use exos_filter::ebpf::Emit as _;

use super::{CONTEXT, Generator, stack};

impl Generator<'_> {
    /// The message was dealt with, and nobody sees it.
    pub(super) fn done(&mut self) {
        self.behind.count(&mut self.asm, stack::KEY, Counter::Done);
        self.behind.drop(&mut self.asm, CONTEXT);
    }

    /// The frame is the reply.
    pub(super) fn answered(&mut self) {
        self.behind
            .count(&mut self.asm, stack::KEY, Counter::Answered);
        self.behind
            .transmit(&mut self.asm, CONTEXT, self.of.way_out);
    }

    /// The packet is the program's, as it came.
    pub(super) fn pass_on(&mut self) {
        self.bind(self.labels.filter);
        self.behind.pass_on(&mut self.asm, CONTEXT);
    }
}
