//! A packet's flow looked up, and the packet changed as it says.

use super::{FLOW, FRAME, ForwardHandler, HOP, INDEX, IP, KEY_END, LENGTH, Shape, layout};
use crate::ebpf::{Alu, Assembler, Condition, Helper, Insn, Label, Reg, Size};
use crate::handler::arithmetic::{half, word};

impl ForwardHandler {
    /// The flow of these ends.
    pub(super) fn find_flow(&self, asm: &mut Assembler, shape: Shape, other: Label) {
        let words = shape.address_words();
        let (addresses, ports) = (shape.addresses(), shape.upper());
        let at = |n: usize| KEY_END - 4 * (words as i16 + 2) + 4 * n as i16;
        let fields = (0..words).map(|n| addresses + 4 * n).chain([ports]);
        for (n, field) in fields.enumerate() {
            asm.load(Size::Word, Reg::R1, FRAME, field);
            asm.push(Insn::store(Size::Word, Reg::R10, at(n), Reg::R1));
        }
        let protocol = word(u32::from(shape.protocol()) << 24);
        asm.push(Insn::store_imm(
            Size::Word,
            Reg::R10,
            at(words + 1),
            protocol,
        ));
        self.look_up(asm, self.flows_fd[usize::from(shape.ipv6)], at(0), other);
        asm.set(FLOW, Reg::R0);
    }

    /// The link address that its packets go to, if that is known.
    pub(super) fn find_hop(&self, asm: &mut Assembler, other: Label) {
        asm.load(Size::Word, Reg::R1, FLOW, layout::HOP);
        asm.push(Insn::store(Size::Word, Reg::R10, INDEX, Reg::R1));
        self.look_up(asm, self.hops_fd, INDEX, other);
        // At once, for it may be about to change.
        asm.load(Size::Double, Reg::R1, Reg::R0, 0);
        asm.push(Insn::store(Size::Double, Reg::R10, HOP, Reg::R1));
        let is_known = HOP + layout::IS_KNOWN as i16;
        asm.push(Insn::load(Size::Byte, Reg::R1, Reg::R10, is_known));
        asm.jump_if(Reg::R1, Condition::Equal, 0, other);
    }

    fn look_up(&self, asm: &mut Assembler, map_fd: i32, key: i16, missing: Label) {
        asm.set(Reg::R2, Reg::R10);
        asm.alu(Alu::Add, Reg::R2, i32::from(key));
        asm.load_map(Reg::R1, map_fd);
        asm.call(Helper::MapLookupElem);
        asm.jump_if(Reg::R0, Condition::Equal, 0, missing);
    }

    /// Notes that a packet of the flow has come now, and counts it.
    pub(super) fn note(&self, asm: &mut Assembler, shape: Shape) {
        asm.call(Helper::KtimeGetCoarseNs);
        asm.push(Insn::store(
            Size::Double,
            FLOW,
            layout::SEEN as i16,
            Reg::R0,
        ));
        let missing = asm.label();
        asm.load(Size::Word, Reg::R1, FLOW, layout::TALLY);
        asm.push(Insn::store(Size::Word, Reg::R10, INDEX, Reg::R1));
        self.look_up(asm, self.tallies_fd, INDEX, missing);
        // The value is this CPU's own and XDP does not nest: no atomics.
        asm.load(Size::Double, Reg::R1, Reg::R0, 0);
        asm.alu(Alu::Add, Reg::R1, 1);
        asm.push(Insn::store(Size::Double, Reg::R0, 0, Reg::R1));
        asm.load(Size::Double, Reg::R1, Reg::R0, layout::BYTES);
        asm.push(Insn::load(Size::Double, Reg::R2, Reg::R10, LENGTH));
        asm.alu(Alu::Add, Reg::R1, Reg::R2);
        asm.alu(Alu::Add, Reg::R1, shape.ip_header_len() as i32);
        asm.push(Insn::store(
            Size::Double,
            Reg::R0,
            layout::BYTES as i16,
            Reg::R1,
        ));
        asm.bind(missing);
    }

    /// Link addresses, addresses, ports, a hop less, and IPv4's checksum.
    pub(super) fn write(&self, asm: &mut Assembler, shape: Shape) {
        for (size, at) in [(Size::Word, 0), (Size::Half, 4)] {
            asm.push(Insn::load(size, Reg::R1, Reg::R10, HOP + at));
            asm.push(Insn::store(size, FRAME, at, Reg::R1));
        }
        let [m0, m1, m2, m3, m4, m5] = self.mac.0;
        let (first, last) = ([m0, m1, m2, m3], [m4, m5]);
        asm.push(Insn::store_imm(
            Size::Word,
            FRAME,
            6,
            word(u32::from_be_bytes(first)),
        ));
        asm.push(Insn::store_imm(
            Size::Half,
            FRAME,
            10,
            half(u16::from_be_bytes(last)),
        ));
        for n in 0..shape.address_words() {
            copy_word(asm, layout::ADDRESSES + 4 * n, shape.addresses() + 4 * n);
        }
        copy_word(asm, layout::PORTS, shape.upper());
        asm.load(Size::Byte, Reg::R1, FRAME, shape.hops());
        asm.alu(Alu::Sub, Reg::R1, 1);
        asm.push(Insn::store(Size::Byte, FRAME, shape.hops() as i16, Reg::R1));
        if !shape.ipv6 {
            super::sums::change(asm, IP + 10, layout::IP_CHANGE, |_| {});
        }
    }
}

/// From the flow's value to the frame.
fn copy_word(asm: &mut Assembler, from: usize, to: usize) {
    asm.load(Size::Word, Reg::R1, FLOW, from);
    asm.push(Insn::store(Size::Word, FRAME, to as i16, Reg::R1));
}
