//! Packets of known flows sent on with other ends, in the kernel: what a forwarder in user space does to each packet, as
//! a program.
//!
//! Which flows there are and what becomes of their packets is in memory that user space writes ([`layout`], [`flows`]); the
//! program finds a packet's flow by its ends, copies what it says, changes the packet, has the checksums follow, notes
//! when that was, and has the packet leave by the link that its next hop is on:
//!
//! ```text
//! ends, protocol ──> index ──> record: new ends, the sums' changes ──┬─> hops:    the next hop's link, and address there
//!                                                                    └─> tallies: packets and bytes, for each CPU
//! ```
//!
//! On several links each has a program of its own, and all have the same memory. A flow's packets are believed on the link that
//! they are to come by. How packets leave by a link depends on the one that they came by ([`Exit`]).
//!
//! Forwarded are packets of the shapes that nearly all have: Ethernet, IPv4 without options or IPv6 without extension
//! headers, whole, with hops left, carrying UDP, or a TCP segment without SYN, FIN and RST. All else goes on to the
//! filter and so to user space: flows that are not there, or are being changed at that moment, what may change how a flow
//! stands, fragments, tags, damage, packets of which the next hop is not known, and those that are too long for the link that it is on. Nothing of a packet is changed before it is sure that it is forwarded.
//!
//! Checksums follow by the difference, so that a wrong one stays wrong; one that a kernel left unfinished is made
//! ([`sums`]), or stays unfinished where packets leave as socket buffers ([`WayOut::Buffers`]).
//!
//! Registers: r6 context, r7 frame, r8 the hash of the ends and then the flow's record, r9 end of the frame; what is needed
//! later waits on the stack.
//!
//! It needs Linux 5.18: its time is of 5.11, memory that is shared of 5.5; fences, where there are any, of 5.12; the sum of
//! a packet's last part is of what 5.18 lets programs read.

mod expect;
mod find;
pub mod flows;
pub mod layout;
mod rewrite;
mod settings;
mod shape;
mod sums;

use super::attached::{Handler, go_on};
use crate::ebpf::{Assembler, Condition, Emit, Helper, Label, Reg, Size};
use crate::program::{Program, classifier, xdp};
use shape::{CONTEXT, EXIT};

pub use settings::{Exit, ForwardHandler, WayOut};
pub use shape::Shape;

impl Handler for ForwardHandler {
    fn name(&self) -> &'static str {
        "exos_forward"
    }

    fn may_be_kept(&self) -> bool {
        true
    }

    fn program(&self, prog_array_fd: i32, _counters_fd: i32) -> Program {
        let mut asm = Assembler::new();
        let [filter, v4, v6] = [asm.label(), asm.label(), asm.label()];
        self.expect_frame(&mut asm, [v4, v6], filter);
        for (ipv6, family) in [(false, v4), (true, v6)] {
            asm.bind(family);
            self.forward_family(&mut asm, ipv6, filter);
        }
        asm.bind(filter);
        let unknown = match self.is_of_buffers() {
            true => classifier::NEXT,
            false => xdp::PASS,
        };
        go_on(&mut asm, CONTEXT, prog_array_fd, unknown);
        let insns = asm.finish();
        Program::new(insns.expect("jumps within a few thousand instructions"))
    }
}

impl ForwardHandler {
    /// Whether this machine's processors read memory in another order than the program says. Those that do not are the ones
    /// with total store order.
    pub const NEEDS_FENCES: bool = !cfg!(any(target_arch = "x86_64", target_arch = "s390x"));

    fn forward_family(&self, asm: &mut Assembler, ipv6: bool, other: Label) {
        let shapes = self.shapes.iter().filter(|shape| shape.ipv6 == ipv6);
        let shapes: Vec<(Shape, Label)> = shapes.map(|shape| (*shape, asm.label())).collect();
        if !shapes.is_empty() {
            self.expect_header(asm, ipv6, other);
            expect::choose_protocol(asm, &shapes);
        }
        asm.jump(other);
        for (shape, here) in shapes {
            asm.bind(here);
            self.forward(asm, shape, other);
        }
    }

    fn forward(&self, asm: &mut Assembler, shape: Shape, other: Label) {
        let unfinished = asm.label();
        expect::expect_upper(asm, shape, other);
        self.find_flow(asm, shape, other);
        if self.is_of_buffers() {
            self.note(asm, shape);
            sums::keep_changes(asm, shape);
            self.write(asm, shape);
            sums::follow_in_buffer(asm, shape);
            return self.leave(asm);
        }
        if self.may_be_partial {
            sums::expect_finished(asm, shape, unfinished, other);
        }
        self.note(asm, shape);
        self.write(asm, shape);
        sums::follow(asm, shape);
        self.leave(asm);
        if self.may_be_partial {
            asm.bind(unfinished);
            self.note(asm, shape);
            self.write(asm, shape);
            sums::make(asm, shape);
            self.leave(asm);
        }
    }

    fn leave(&self, asm: &mut Assembler) {
        self.at_exit(asm, |asm, exit| match exit.way_out {
            WayOut::Transmit => asm.set(Reg::R0, xdp::TX),
            WayOut::Redirect(interface) | WayOut::Buffers(interface) => {
                asm.alu32(crate::ebpf::Alu::Move, Reg::R1, interface as i32);
                asm.set(Reg::R2, 0);
                asm.call(Helper::Redirect);
            }
        });
        asm.exit();
    }

    /// Does what is to be done for the link that the packet leaves by. Loses r1.
    fn at_exit(&self, asm: &mut Assembler, what: impl Fn(&mut Assembler, &Exit)) {
        let done = asm.label();
        if self.has_several_links() {
            asm.load(Size::Byte, Reg::R1, Reg::R10, EXIT);
        }
        // It is one of them: the last, where it is none before.
        let (last, others) = self.exits.split_last().expect("a link");
        for (number, exit) in (0..).zip(others) {
            let next = asm.label();
            asm.jump_if(Reg::R1, Condition::NotEqual, number, next);
            what(asm, exit);
            asm.jump(done);
            asm.bind(next);
        }
        what(asm, last);
        asm.bind(done);
    }
}
