//! A packet counted, and changed as its flow says, by what was copied of that to the stack.

use super::settings::ForwardHandler;
use super::shape::{ADDRESSES, CHANGES, FLOW, FRAME, HOP, LENGTH, PORTS, Shape, TALLY};
use super::{layout, sums};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Helper, Reg, Size};
use crate::handler::arithmetic::{half, word};
use crate::packet::NETWORK as IP;

impl ForwardHandler {
    /// Notes that a packet of the flow has come now, and counts it. Where another flow has the record by now, it has just
    /// been put there: it is as young as this packet.
    pub(super) fn note(&self, asm: &mut Assembler, shape: Shape) {
        let [is_young, missing] = [asm.label(), asm.label()];
        asm.call(Helper::KtimeGetCoarseNs);
        asm.load(Size::Double, Reg::R1, FLOW, layout::SEEN);
        asm.set(Reg::R2, Reg::R0);
        asm.alu(Alu::Sub, Reg::R2, Reg::R1);
        let step = layout::SEEN_STEP.as_nanos() as i32;
        asm.jump_if(Reg::R2, Condition::Less, step, is_young);
        let seen = layout::SEEN as i16;
        asm.store(Size::Double, FLOW, seen, Reg::R0);
        asm.bind(is_young);
        asm.look_up(self.tallies_fd, TALLY, missing);
        // The value is this CPU's own and XDP does not nest: no atomics.
        asm.add_to(Reg::R0, 0, 1);
        asm.load(Size::Double, Reg::R1, Reg::R0, layout::BYTES);
        asm.kept(Reg::R2, LENGTH);
        asm.alu(Alu::Add, Reg::R1, Reg::R2);
        asm.alu(Alu::Add, Reg::R1, shape.ip_header_len() as i32);
        let bytes = layout::BYTES as i16;
        asm.store(Size::Double, Reg::R0, bytes, Reg::R1);
        asm.bind(missing);
    }

    /// Link addresses, addresses, ports, a hop less, and IPv4's checksum.
    pub(super) fn write(&self, asm: &mut Assembler, shape: Shape) {
        for (size, at) in [(Size::Word, 0), (Size::Half, 4)] {
            copy(asm, size, HOP + at, at);
        }
        self.at_exit(asm, |asm, exit| {
            let [m0, m1, m2, m3, m4, m5] = exit.mac.0;
            let first = word(u32::from_be_bytes([m0, m1, m2, m3]));
            let last = half(u16::from_be_bytes([m4, m5]));
            asm.store_imm(Size::Word, FRAME, 6, first);
            asm.store_imm(Size::Half, FRAME, 10, last);
        });
        for n in 0..shape.address_words() as i16 {
            let at = shape.addresses() as i16 + 4 * n;
            copy(asm, Size::Word, ADDRESSES + 4 * n, at);
        }
        copy(asm, Size::Word, PORTS, shape.upper() as i16);
        asm.load(Size::Byte, Reg::R1, FRAME, shape.hops());
        asm.alu(Alu::Sub, Reg::R1, 1);
        asm.store(Size::Byte, FRAME, shape.hops(), Reg::R1);
        if !shape.ipv6 {
            sums::change(asm, IP + 10, CHANGES + 2, |_| {});
        }
    }
}

/// From the stack to the frame.
fn copy(asm: &mut Assembler, size: Size, from: i16, to: i16) {
    asm.load(size, Reg::R1, Reg::R10, from);
    asm.store(size, FRAME, to, Reg::R1);
}
