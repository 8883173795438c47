//! A packet's flow found, and what it says of the packet taken out of the memory that user space may be writing to.
//!
//! The hash of the packet's ends names two buckets; an entry there with the same part of the hash leads to a record, whose
//! ends are to be the packet's. What is needed of the record is copied, and the record's number read before and after
//! ([`super::flows`]). Everything that is read is bounded: indices by the arrays that they are of, so that whatever is
//! in that memory, the worst is that a packet goes to user space.

use super::flows::STIR;
use super::layout::{self, BUCKET_ENTRIES};
use super::settings::ForwardHandler;
use super::shape::{
    ADDRESSES, CHANGES, EXIT, FLOW, FRAME, HOP, INDEX, LENGTH, NUMBER, PORTS, SPARE, Shape, TALLY,
    WAY,
};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Fetch, Insn, Label, Reg, Size};
use crate::handler::arithmetic::set_wide;

impl ForwardHandler {
    /// The flow of this packet: its record in `FLOW`, and what is to become of the packet on the stack.
    pub(super) fn find_flow(&self, asm: &mut Assembler, shape: Shape, other: Label) {
        let [found, back, copied] = [asm.label(), asm.label(), asm.label()];
        self.hash(asm, shape);
        for second in [false, true] {
            self.search_bucket(asm, second, found, other);
        }
        asm.jump(other);

        asm.bind(found);
        self.read_entry(asm, other);
        // The protocol and the family.
        let kind = u16::from_ne_bytes([shape.protocol(), shape.ipv6.into()]);
        asm.load(Size::Half, Reg::R1, FLOW, layout::WHAT);
        asm.jump_if(Reg::R1, Condition::NotEqual, i32::from(kind), other);
        asm.load(Size::Word, Reg::R1, Reg::R10, WAY);
        asm.jump_if(Reg::R1, Condition::NotEqual, 0, back);
        self.copy_way(asm, shape, 0, other);
        asm.jump(copied);
        asm.bind(back);
        asm.load(Size::Byte, Reg::R1, FLOW, layout::ONE_WAY);
        asm.jump_if(Reg::R1, Condition::NotEqual, 0, other);
        self.copy_way(asm, shape, 1, other);
        asm.bind(copied);

        self.find_hop(asm, other);
        self.expect_exit(asm, shape, other);
        self.fence(asm);
        asm.load(Size::Double, Reg::R1, FLOW, layout::NUMBER);
        asm.kept(Reg::R2, NUMBER);
        asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, other);
    }

    /// The hash of the packet's ends, in `FLOW` until there is one.
    fn hash(&self, asm: &mut Assembler, shape: Shape) {
        let (hash, factor, word, high) = (FLOW, Reg::R4, Reg::R1, Reg::R2);
        let what = layout::what(shape.protocol(), shape.ipv6);
        set_wide(asm, hash, self.key.begin(what));
        set_wide(asm, factor, self.key.factor);
        let mix = |asm: &mut Assembler| {
            asm.alu(Alu::Mul, hash, factor);
            asm.set(word, hash);
            asm.alu(Alu::ShiftRight, word, 32);
            asm.alu(Alu::Xor, hash, word);
        };
        for n in (0..shape.address_words()).step_by(2) {
            let at = shape.addresses() + 4 * n;
            asm.load(Size::Word, word, FRAME, at);
            asm.load(Size::Word, high, FRAME, at + 4);
            asm.alu(Alu::ShiftLeft, high, 32);
            asm.alu(Alu::Or, word, high);
            asm.alu(Alu::Xor, hash, word);
            for _ in 0..2 {
                mix(asm);
            }
        }
        asm.load(Size::Word, word, FRAME, shape.upper());
        asm.alu(Alu::Xor, hash, word);
        mix(asm);
        set_wide(asm, factor, STIR);
        mix(asm);
    }

    /// Looks for the hash in one of its buckets; goes to `found` with the entry in r1.
    fn search_bucket(&self, asm: &mut Assembler, second: bool, found: Label, other: Label) {
        let (bucket, tag, entry, part) = (Reg::R0, Reg::R3, Reg::R1, Reg::R2);
        asm.set(Reg::R1, FLOW);
        if second {
            set_wide(asm, Reg::R2, self.key.factor);
            asm.alu(Alu::Mul, Reg::R1, Reg::R2);
            asm.alu(Alu::ShiftRight, Reg::R1, 32);
        } else {
            asm.alu32(Alu::Move, Reg::R1, FLOW);
        }
        asm.alu(Alu::Mul, Reg::R1, self.buckets as i32);
        asm.alu(Alu::ShiftRight, Reg::R1, 32);
        asm.store(Size::Word, Reg::R10, INDEX, Reg::R1);
        asm.look_up(self.index_fd, INDEX, other);
        asm.set(tag, FLOW);
        asm.alu(Alu::ShiftRight, tag, 32);
        asm.alu(Alu::Or, tag, 1);
        for n in 0..BUCKET_ENTRIES {
            asm.load(Size::Double, entry, bucket, 8 * n);
            asm.set(part, entry);
            asm.alu(Alu::ShiftRight, part, 32);
            asm.jump_if(part, Condition::Equal, tag, found);
        }
    }

    /// The record that the entry in r1 leads to, and which way. Nothing is there unless its number is odd.
    fn read_entry(&self, asm: &mut Assembler, other: Label) {
        asm.set(Reg::R2, Reg::R1);
        asm.alu(Alu::And, Reg::R2, 1);
        asm.store(Size::Word, Reg::R10, WAY, Reg::R2);
        asm.alu32(Alu::ShiftRight, Reg::R1, 1);
        asm.store(Size::Word, Reg::R10, INDEX, Reg::R1);
        asm.look_up(self.records_fd, INDEX, other);
        asm.set(FLOW, Reg::R0);
        asm.load(Size::Double, Reg::R1, FLOW, layout::NUMBER);
        asm.keep(NUMBER, Reg::R1);
        asm.alu(Alu::And, Reg::R1, 1);
        asm.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.fence(asm);
    }

    /// The link address that its packets go to, if that is known. The hop is the flow's as long as the record says so; so
    /// it is read before the record's number is read again.
    fn find_hop(&self, asm: &mut Assembler, other: Label) {
        asm.look_up(self.hops_fd, INDEX, other);
        asm.load(Size::Double, Reg::R1, Reg::R0, 0);
        asm.keep(HOP, Reg::R1);
        let is_known = HOP + layout::IS_KNOWN as i16;
        asm.load(Size::Byte, Reg::R1, Reg::R10, is_known);
        asm.jump_if(Reg::R1, Condition::Equal, 0, other);
    }

    /// There is such a link as the hop says, and the packet is not too long for it: where packets leave as socket buffers, what came
    /// by one link fits the others, and a buffer may stand for several.
    fn expect_exit(&self, asm: &mut Assembler, shape: Shape, other: Label) {
        if !self.has_several_links() {
            return;
        }
        let (link, length, fits) = (Reg::R1, Reg::R2, asm.label());
        asm.load(Size::Byte, link, Reg::R10, EXIT);
        asm.kept(length, LENGTH);
        for (number, exit) in (0..).zip(&self.exits) {
            let next = asm.label();
            asm.jump_if(link, Condition::NotEqual, number, next);
            if !self.is_of_buffers() {
                let most = exit.mtu.saturating_sub(shape.ip_header_len() as u32);
                asm.jump_if(length, Condition::Greater, most as i32, other);
            }
            asm.jump(fits);
            asm.bind(next);
        }
        asm.jump(other);
        asm.bind(fits);
    }

    /// The record's flow has the packet's ends, in this way, and its packets come by this link; what becomes of it goes to the stack.
    fn copy_way(&self, asm: &mut Assembler, shape: Shape, way: usize, other: Label) {
        if self.has_several_links() {
            let (mask, wanted) = (0xf << (4 * way), i32::from(self.link) << (4 * way));
            asm.load(Size::Byte, Reg::R1, FLOW, layout::LINKS);
            asm.alu(Alu::And, Reg::R1, mask);
            asm.jump_if(Reg::R1, Condition::NotEqual, wanted, other);
        }
        let [from, to] = ends_of_way(way);
        let (words, address_len) = (shape.address_words() / 2, 2 * shape.address_words());
        let address = |end: usize, word: usize| layout::ADDRESSES + end * address_len + 4 * word;
        for (n, end) in from.into_iter().enumerate() {
            let (at, field) = (shape.upper() + 2 * n, layout::PORTS + 2 * end);
            expect_same(asm, Size::Half, at, field, other);
            for word in 0..words {
                let at = shape.addresses() + n * address_len + 4 * word;
                expect_same(asm, Size::Word, at, address(end, word), other);
            }
        }
        for (n, end) in to.into_iter().enumerate() {
            let (field, at) = (layout::PORTS + 2 * end, PORTS + 2 * n as i16);
            keep(asm, Size::Half, field, at);
            for word in 0..words {
                let at = ADDRESSES + (n * address_len + 4 * word) as i16;
                keep(asm, Size::Word, address(end, word), at);
            }
        }
        keep(asm, Size::Word, layout::CHANGES + 4 * way, CHANGES);
        keep(asm, Size::Word, layout::HOPS + 4 * way, INDEX);
        asm.load(Size::Word, Reg::R1, FLOW, layout::PAIR);
        asm.alu32(Alu::ShiftLeft, Reg::R1, 1);
        asm.alu32(Alu::Or, Reg::R1, way as i32);
        asm.store(Size::Word, Reg::R10, TALLY, Reg::R1);
    }

    /// What is read before is read before what is read after. Where processors see to that by themselves, it is nothing.
    fn fence(&self, asm: &mut Assembler) {
        if self.fences {
            asm.store_imm(Size::Double, Reg::R10, SPARE, 0);
            asm.set(Reg::R1, 0);
            asm.push(Insn::fetch(Fetch::Add, Reg::R10, SPARE, Reg::R1));
        }
    }
}

/// Where the record has the ends of packets that come this way, and of those that leave: sender and receiver each.
const fn ends_of_way(way: usize) -> [[usize; 2]; 2] {
    match way {
        0 => [[0, 1], [2, 3]],
        _ => [[3, 2], [1, 0]],
    }
}

/// The frame has at `at` what the record has at `field`.
fn expect_same(asm: &mut Assembler, size: Size, at: usize, field: usize, other: Label) {
    asm.load(size, Reg::R1, FRAME, at);
    asm.load(size, Reg::R2, FLOW, field);
    asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, other);
}

/// From the record to the stack.
fn keep(asm: &mut Assembler, size: Size, field: usize, at: i16) {
    asm.load(size, Reg::R1, FLOW, field);
    asm.store(size, Reg::R10, at, Reg::R1);
}
