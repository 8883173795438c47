//! Responses that packets have no room for: what XDP does not write of them is written in traffic control.
//!
//! A veth hands packets of another kernel to XDP in buffers that end some 64 bytes behind them. A socket buffer can have any length. So
//! where the response does not fit, XDP writes the headers, says before the packet what is to follow, and passes the packet; the next that sees
//! it is this program, at the interface's ingress. It makes the packet longer, copies the response into it, completes the
//! checksum as the buffer says that it is to be, and has it leave. On a shared interface each slot has its own, and one program at the
//! ingress goes on in that ([`ingress`](crate::gate::handling::ingress)).
//!
//! ```text
//! before the packet   0  mark | 8  place of the response among the entries | 12  its bytes |
//!                     16  where it begins in the frame, 18  where TCP's checksum is, 20  sum of the segment | 22  sum of its pseudo header, 16 bits each |
//!                     24  on a shared interface: the slot
//! ```
//!
//! What stands before a packet was written by a program of this host: nothing of it comes from a wire. The mark is random, so that other
//! programs do not have it by chance. What has it never goes on to the host: it leaves or is dropped. Where this program is not there any
//! more, the host's stack drops such a packet as another station's, for its link address is the peer's.

use super::layout::{ENTRIES, Entries, copy};
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Helper, Label, Reg, Size};
use crate::handler::arithmetic::{fold, set_wide};
use crate::handler::behind::Behind;
use crate::program::classifier::{self, field};
use crate::program::{Counter, Program};

/// What a gate reads of it, too.
pub(crate) mod announced {
    /// Bytes before the packet.
    pub(crate) const LEN: i32 = 28;
    pub(crate) const BYTES: i16 = 12;
    pub(crate) const BEGIN: i16 = 16;
    /// Which the gate writes.
    pub(crate) const SLOT: i16 = 24;
}

use announced::{BEGIN, BYTES, LEN as ANNOUNCED_LEN};
const MARK: i16 = 0;
const PLACE: i16 = 8;
const FIELD: i16 = 18;
const SUM: i16 = 20;
const PSEUDO: i16 = 22;
/// What changes is of the pseudo header (`BPF_F_PSEUDO_HDR`): the sum in a field that is left to a device has just that.
const IS_PSEUDO: i32 = 0x10;

/// What makes packets longer.
#[derive(Clone, Debug)]
pub struct SecondStage {
    /// The index of the interface that they leave by, which is the one that they came by.
    pub interface: u32,
    /// Drawn by chance.
    pub mark: u64,
}

impl Generator<'_> {
    /// Has room before the packet for what the second stage is told; to `other` where there is none.
    pub(super) fn announce(&mut self, other: Label) {
        self.set(Reg::R1, CONTEXT);
        self.set(Reg::R2, -ANNOUNCED_LEN);
        self.call(Helper::XdpAdjustMeta);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, other);
        self.store_imm(Size::Double, Reg::R10, IS_SHORT, 1);
    }

    /// The headers are written. Passes the packet where the second stage is to make it longer.
    pub(super) fn pass_to(&mut self, of: &WebHandler, second_stage: &SecondStage) {
        let fits = self.label();
        let (meta, value, spare) = (Reg::R9, Reg::R1, Reg::R2);
        self.kept(value, IS_SHORT);
        self.jump_if(value, Condition::Equal, 0, fits);
        // struct xdp_md: data, data_meta.
        self.load(Size::Word, meta, CONTEXT, 8);
        self.load(Size::Word, FRAME, CONTEXT, 0);
        self.set(value, meta);
        self.alu(Alu::Add, value, ANNOUNCED_LEN);
        self.jump_if(value, Condition::Greater, FRAME, self.labels.drop);
        set_wide(self.asm, value, second_stage.mark);
        self.store(Size::Double, meta, MARK, value);
        self.copy_place(of, value, spare);
        self.alu(Alu::Add, value, copy::BYTES as i32);
        self.store(Size::Word, meta, PLACE, value);
        self.kept(value, OUT_LEN);
        self.store(Size::Word, meta, BYTES, value);
        for (from, to) in [(HEADERS, BEGIN), (CHECKSUM_AT, FIELD)] {
            self.kept(value, from);
            self.store(Size::Half, meta, to, value);
        }
        for (from, to) in [(SEGMENT_SUM, SUM), (PSEUDO_SUM, PSEUDO)] {
            self.kept(value, from);
            fold(self.asm, value, spare);
            self.to_big_endian(value, 16);
            self.store(Size::Half, meta, to, value);
        }
        self.behind.count(self.asm, COUNTER, Counter::Answered);
        super::leave::unlock(self.asm);
        self.behind.announce(self.asm, CONTEXT);
        self.bind(fits);
    }
}

impl SecondStage {
    /// The program, of traffic control.
    pub(super) fn program(&self, entries: Entries, memory_fd: i32, behind: Behind) -> Program {
        let mut asm = Assembler::new();
        let [next, drop] = [asm.label(), asm.label()];
        self.read(&mut asm, next);
        lengthen(&mut asm, entries, memory_fd, drop);
        complete_sum(&mut asm, drop);
        behind.count(&mut asm, KEY, Counter::Lengthened);
        asm.set(Reg::R1, self.interface as i32);
        asm.set(Reg::R2, 0);
        asm.call(Helper::Redirect);
        asm.exit();
        asm.bind(drop);
        behind.count(&mut asm, KEY, Counter::NotLengthened);
        asm.set(Reg::R0, classifier::DROP);
        asm.exit();
        asm.bind(next);
        asm.set(Reg::R0, classifier::NEXT);
        asm.exit();
        let insns = asm.finish();
        Program::new(insns.expect("jumps within a few hundred instructions"))
    }

    /// Keeps what was announced; to `next` with all other packets.
    fn read(&self, asm: &mut Assembler, next: Label) {
        let (meta, end, spare) = (Reg::R1, Reg::R2, Reg::R3);
        asm.set(CONTEXT, Reg::R1);
        asm.load(Size::Word, end, CONTEXT, field::DATA);
        asm.load(Size::Word, meta, CONTEXT, field::DATA_META);
        asm.set(spare, meta);
        asm.alu(Alu::Add, spare, ANNOUNCED_LEN);
        asm.jump_if(spare, Condition::Greater, end, next);
        asm.load(Size::Double, spare, meta, MARK);
        set_wide(asm, end, self.mark);
        asm.jump_if(spare, Condition::NotEqual, end, next);
        asm.load(Size::Word, WHERE, meta, PLACE);
        asm.load(Size::Word, MANY, meta, BYTES);
        asm.load(Size::Half, FROM, meta, BEGIN);
        for (from, to) in [(SUM, KEPT_SUM), (PSEUDO, KEPT_PSEUDO), (FIELD, KEPT_FIELD)] {
            asm.load(Size::Half, spare, meta, from);
            asm.keep(to, spare);
        }
    }
}

const WHERE: Reg = Reg::R7;
const MANY: Reg = Reg::R8;
const FROM: Reg = Reg::R9;
/// Of a counter.
const KEY: i16 = -8;
const KEPT_SUM: i16 = -16;
const KEPT_PSEUDO: i16 = -24;
const KEPT_FIELD: i16 = -32;

/// Has the packet end with the response.
fn lengthen(asm: &mut Assembler, entries: Entries, memory_fd: i32, drop: Label) {
    let most = entries.response_max;
    let last = entries.count * entries.entry_len() - most as u64;
    asm.jump_if(WHERE, Condition::Greater, last as i32, drop);
    // Where the mark is mistaken a packet says these.
    asm.clamp(WHERE, Reg::R1, last as u32 + 1);
    asm.clamp(MANY, Reg::R1, most as u32 + 1);
    asm.set(Reg::R1, CONTEXT);
    asm.set(Reg::R2, FROM);
    asm.alu(Alu::Add, Reg::R2, MANY);
    asm.set(Reg::R3, 0);
    asm.call(Helper::SkbChangeTail);
    asm.jump_if(Reg::R0, Condition::NotEqual, 0, drop);
    asm.load_map_value(Reg::R3, memory_fd, ENTRIES as u32);
    asm.alu(Alu::Add, Reg::R3, WHERE);
    asm.jump_if(MANY, Condition::Less, 1, drop);
    asm.jump_if(MANY, Condition::Greater, most as i32, drop);
    asm.set(Reg::R1, CONTEXT);
    asm.set(Reg::R2, FROM);
    asm.set(Reg::R4, MANY);
    asm.set(Reg::R5, 0);
    asm.call(Helper::SkbStoreBytes);
    asm.jump_if(Reg::R0, Condition::NotEqual, 0, drop);
}

/// Where a device is to complete the sum, the field has that of the pseudo header, else the complement of all; only the kernel knows which.
fn complete_sum(asm: &mut Assembler, drop: Label) {
    for is_pseudo in [IS_PSEUDO, 0] {
        asm.kept(Reg::R4, KEPT_PSEUDO);
        if is_pseudo == 0 {
            // What there is besides.
            asm.alu(Alu::Xor, Reg::R4, 0xffff);
            asm.kept(Reg::R1, KEPT_SUM);
            asm.alu(Alu::Add, Reg::R4, Reg::R1);
        }
        asm.set(Reg::R1, CONTEXT);
        asm.kept(Reg::R2, KEPT_FIELD);
        asm.set(Reg::R3, 0);
        asm.set(Reg::R5, is_pseudo);
        asm.call(Helper::L4CsumReplace);
        asm.jump_if(Reg::R0, Condition::NotEqual, 0, drop);
    }
}
