//! A SYN answered by a SYN cookie, in the kernel.
//!
//! A server's first packet of every connection says always the same, and so does its answer: all that is needed to make
//! it is known when the program is made (RFC 4987 §3.6 for the cookie). The answer is, byte for byte, the one that the
//! stack would have given had it answered with a cookie; the acknowledgement that brings the cookie back goes to the
//! stack, which makes the connection of it.
//!
//! Most SYNs have one of two shapes, as they lie in the frame:
//!
//! ```text
//!  Ethernet 14 | IPv4 20, no options, whole    | TCP 20: SYN alone | MSS 4                                (58 or 78 bytes)
//!              | IPv6 40, no extension headers |                   | MSS 4, SACK, timestamps, scale 20    (74 or 94 bytes)
//! ```
//!
//! The second is Linux's and Android's. The code for each shape is a straight line of its own. Options in another order, as
//! macOS, iOS and the BSDs have them, are put into that of the shape before ([`options`]). Where SYNs [may be answered
//! so](SynHandler::may_decline), Windows's have a third, without timestamps; others without timestamps are answered with an MSS
//! alone, and ECN is declined. Whatever differs in anything else, a tag, other options, data, a checksum that is wrong, goes on to
//! the filter and so to the stack, which sees to it as ever.
//!
//! Registers: r6 context, r7 frame, r8 and r9 as told at each step; what is needed later waits on the stack.

mod cookie;
pub(super) mod expect;
mod options;
mod settings;
pub(super) mod shape;
mod write;

use super::attached::Handler;
use super::behind::Behind;
use super::forward::Shape as Headers;
use crate::ebpf::{Assembler, Emit, Label};
use crate::program::{Counter, Program};
use expect::{expect_flags, expect_options, expect_room};
use shape::{CONTEXT, COUNTER, FAMILIES, FRAME, Offers, Shape};

pub use settings::SynHandler;

impl Handler for SynHandler {
    fn name(&self) -> &'static str {
        "exos_syn"
    }

    /// What it answers it counts as [`Counter::Answered`].
    fn may_be_kept(&self) -> bool {
        true
    }

    fn program(&self, prog_array_fd: i32, counters_fd: i32) -> Program {
        let mut asm = Assembler::new();
        let filter = asm.label();
        let behind = Behind::Filter {
            prog_array_fd,
            counters_fd,
        };
        self.answer_syn(&mut asm, filter, behind);
        asm.bind(filter);
        behind.pass_on(&mut asm, CONTEXT);
        Program::new(
            asm.finish()
                .expect("jumps within a few thousand instructions"),
        )
    }
}

impl SynHandler {
    /// Answers a SYN, or goes to `other`. The context is in r1.
    pub(super) fn answer_syn(&self, asm: &mut Assembler, other: Label, behind: Behind) {
        let families = self.families(asm);
        self.expect_frame(asm, &families, other);
        for (headers, family) in families {
            let shape = |offers| Shape { headers, offers };
            let [full, odd, known, known_scaled, known_full] = [(); 5].map(|()| asm.label());
            asm.bind(family);
            self.expect_segment(asm, headers, [other, other]);
            expect_flags(asm, headers, [full, odd, other]);
            self.expect(asm, shape(Offers::Mss), odd, other);
            asm.bind(known);
            self.answer(asm, shape(Offers::Mss), behind);
            asm.bind(full);
            self.expect(asm, shape(Offers::All), odd, other);
            asm.bind(known_full);
            self.answer(asm, shape(Offers::All), behind);
            asm.bind(odd);
            self.arrange_options(asm, headers, [known, known_scaled, known_full], other);
            asm.bind(known_scaled);
            if self.may_decline {
                self.answer(asm, shape(Offers::Scaled), behind);
            }
        }
    }

    /// Those that there are addresses of.
    pub(super) fn families(&self, asm: &mut Assembler) -> Vec<(Headers, Label)> {
        let has = |headers: &Headers| self.addresses.iter().any(|a| a.is_ipv6() == headers.ipv6);
        let families = FAMILIES.into_iter().filter(has);
        families.map(|headers| (headers, asm.label())).collect()
    }

    /// A whole SYN of the shape; to `odd` with other options.
    fn expect(&self, asm: &mut Assembler, shape: Shape, odd: Label, other: Label) {
        if shape.offers == Offers::All {
            expect_room(asm, shape, other);
        }
        self.expect_sums(asm, shape, other);
        expect_options(asm, shape, odd);
    }

    fn answer(&self, asm: &mut Assembler, shape: Shape, behind: Behind) {
        self.look(asm, shape.headers, (FRAME, shape.tcp()));
        self.cookie(asm, shape);
        if shape.offers == Offers::All {
            self.timestamp(asm, shape.headers);
        }
        self.write_before_tcp(asm, shape);
        self.write_tcp(asm, shape);
        behind.count(asm, COUNTER, Counter::Answered);
        behind.transmit(asm, CONTEXT, self.way_out);
    }
}
