//! Code of the gate's programs: the few moves that they are made of, on fields of the stack (`stack.rs`).
//!
//! Packets are read with the kernel's `load_bytes` into the stack, never by pointer: it works alike for XDP and for
//! socket buffers, whose bytes may lie in several places, and the verifier need not follow offsets. What is found is
//! kept in fields of the stack frame, so that the parts of a program hand each other fields, not registers.
//!
//! Registers: r6 context, always; r7 to r9 belong to the part that runs; r0 to r5 are lost in each call.

mod arrivals;
pub(super) mod checksum;
pub(super) mod classify;
mod field;
pub(super) mod parse;
pub(super) mod share;
mod side;
pub(super) mod splice;
mod stack;

use super::counter::Counter;
use super::limits::TAPS_MAX;
use super::maps::MapFds;
use super::tap::{TapRecord, Verdict};
use crate::ebpf::{Alu, Assembler, Condition, Helper, Insn, Label, Operand, Reg, Size};
pub(super) use crate::ebpf::{Emit, half};
pub(super) use field::{Field, Unlearned};
pub(super) use side::{Side, tcx};
pub(super) use stack::*;

/// Values of [`FRAGMENT`].
pub(super) mod fragment {
    pub(in crate::gate) const WHOLE: i32 = 0;
    pub(in crate::gate) const FIRST: i32 = 1;
    pub(in crate::gate) const LATER: i32 = 2;
}

/// No ICMP type has this number.
pub(super) const NO_TYPE: i32 = 256;

/// Offsets in a value of `scratch`: words.
pub(super) mod scratch {
    pub(in crate::gate) const RESULT: i16 = 0;
    pub(in crate::gate) const LENGTH: i16 = 4;
    pub(in crate::gate) const SLOT: i16 = 8;
    pub(in crate::gate) const VERDICT: i16 = 12;
    pub(in crate::gate) const IFINDEX: i16 = 16;
    pub(in crate::gate) const DIRECTION: i16 = 20;
    pub(in crate::gate) const STRAY: i16 = 24;
    pub(in crate::gate) const PEER: i16 = 28;
}

/// How much a counter grows.
#[derive(Clone, Copy)]
pub(super) enum Amount {
    /// By one.
    One,
    /// By the frame's length.
    Length,
    /// By the length of the frame that a handler has answered.
    Arrived,
}

impl Amount {
    /// The field that says how much; none is one.
    const fn field(self) -> Option<i16> {
        match self {
            Self::One => None,
            Self::Length => Some(LENGTH),
            Self::Arrived => Some(ARRIVED),
        }
    }
}

/// A program in the making.
pub(super) struct Code<'a> {
    pub(super) asm: Assembler,
    pub(super) maps: &'a MapFds,
    pub(super) side: Side,
    /// Where a packet is dropped and counted for [`SLOT`], for each counter that is used so.
    refusals: [Option<Label>; Counter::COUNT],
    pub(super) end: Label,
}

impl Emit for Code<'_> {
    fn asm(&mut self) -> &mut Assembler {
        &mut self.asm
    }
}

impl<'a> Code<'a> {
    /// With the context saved and the fields set to zero.
    pub(super) fn new(maps: &'a MapFds, side: Side) -> Self {
        let mut asm = Assembler::new();
        let end = asm.label();
        let mut code = Self {
            asm,
            maps,
            side,
            refusals: [None; Counter::COUNT],
            end,
        };
        code.set(Reg::R6, Reg::R1);
        code
    }

    /// Gives every field a value.
    pub(super) fn clear(&mut self) {
        for field in ZERO {
            self.put_imm(field, 0);
        }
        for field in UNLEARNED_ZERO {
            self.put_imm(field, 0);
        }
        self.put_imm(ICMP_TYPE, NO_TYPE);
        self.clear_ends();
    }

    /// Gives those fields a value that a program reads which goes on with a decided packet, and need not have set.
    pub(super) fn clear_ends(&mut self) {
        self.put_imm(TAPS, 0);
        self.put_imm(PEER, i32::from(TapRecord::NO_SLOT));
    }

    /// `reg = field`.
    pub(super) fn get(&mut self, reg: Reg, field: impl Field) {
        field.get(&mut self.asm, reg);
    }

    /// `field = reg`.
    pub(super) fn put(&mut self, field: impl Field, reg: Reg) {
        field.put(&mut self.asm, reg);
    }

    /// `field = constant`.
    pub(super) fn put_imm(&mut self, field: impl Field, value: i32) {
        field.put_imm(&mut self.asm, value);
    }

    /// `reg = *(size *)(stack + at)`.
    pub(super) fn read(&mut self, size: Size, reg: Reg, at: i16) {
        self.load(size, reg, Reg::R10, at);
    }

    /// `*(size *)(stack + at) = reg`.
    pub(super) fn write(&mut self, size: Size, at: i16, reg: Reg) {
        self.store(size, Reg::R10, at, reg);
    }

    /// Copy 16 bytes of the stack.
    pub(super) fn copy_address(&mut self, from: i16, to: i16) {
        for part in [0, 8] {
            self.get(Reg::R1, from + part);
            self.put(to + part, Reg::R1);
        }
    }

    /// An IPv4 address of the stack, mapped into IPv6 (RFC 4291 §2.5.5.2).
    pub(super) fn map_address(&mut self, from: i16, to: i16) {
        self.put_imm(to, 0);
        let prefix = i32::from_ne_bytes([0, 0, 0xff, 0xff]);
        self.store_imm(Size::Word, Reg::R10, to + 8, prefix);
        self.read(Size::Word, Reg::R1, from);
        self.write(Size::Word, to + 12, Reg::R1);
    }

    /// To `mapped` when the 16 bytes are an IPv4-mapped address (RFC 4291 §2.5.5.2).
    pub(super) fn refuse_mapped(&mut self, at: i16, mapped: Label) {
        let other = self.label();
        let prefix = [(0, 0), (4, 0), (8, i32::from_ne_bytes([0, 0, 0xff, 0xff]))];
        for (part, word) in prefix {
            self.read(Size::Word, Reg::R1, at + part);
            self.jump_if32(Reg::R1, Condition::NotEqual, word, other);
        }
        self.jump(mapped);
        self.bind(other);
    }

    /// To `different` unless the 16 bytes are the same.
    pub(super) fn same_address(&mut self, one: i16, other: i16, different: Label) {
        for part in [0, 8] {
            self.get(Reg::R1, one + part);
            self.get(Reg::R2, other + part);
            self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, different);
        }
    }

    /// `len` bytes of the packet from `offset` on, to the stack; to `missing` when they are not there.
    pub(super) fn load_bytes(
        &mut self,
        offset: impl Into<Operand>,
        len: i32,
        to: i16,
        missing: Label,
    ) {
        self.set(Reg::R2, offset);
        self.set(Reg::R1, Reg::R6);
        self.stack(Reg::R3, to);
        self.set(Reg::R4, len);
        self.call(if self.side.is_xdp() {
            Helper::XdpLoadBytes
        } else {
            Helper::SkbLoadBytes
        });
        self.jump_if(Reg::R0, Condition::NotEqual, 0, missing);
    }

    /// The length of the frame, and what it is charged with, into their fields.
    pub(super) fn measure(&mut self) {
        if self.side.is_xdp() {
            self.set(Reg::R1, Reg::R6);
            self.call(Helper::XdpGetBuffLen);
        } else {
            // struct __sk_buff: len is the first word.
            self.load(Size::Word, Reg::R0, Reg::R6, 0);
        }
        self.put(LENGTH, Reg::R0);
        self.weigh();
    }

    /// `r0 = &map[key]`; to `missing` when it has none.
    pub(super) fn lookup(&mut self, map: i32, key: i16, missing: Label) {
        self.look_up(map, key, missing);
    }

    /// [`Self::lookup`] with a constant 32-bit key.
    pub(super) fn lookup_index(&mut self, map: i32, index: i32, missing: Label) {
        self.store_imm(Size::Word, Reg::R10, CELL, index);
        self.lookup(map, CELL, missing);
    }

    /// [`Self::lookup`] with a field as 32-bit key.
    pub(super) fn lookup_field(&mut self, map: i32, field: impl Field, missing: Label) {
        self.get(Reg::R1, field);
        self.write(Size::Word, CELL, Reg::R1);
        self.lookup(map, CELL, missing);
    }

    /// Let counters of the slot in `field` grow. The value is this CPU's own, and no program of the gate interrupts
    /// another on one CPU, but for a batch, which before Linux 6.11 others interrupt: atomics for that one alone.
    pub(super) fn count(&mut self, field: impl Field, counters: &[(Counter, Amount)]) {
        let missing = self.label();
        self.lookup_field(self.maps.counters, field, missing);
        for (counter, amount) in counters {
            let offset = *counter as i16 * 8;
            if self.side == Side::Batch {
                match amount.field() {
                    None => self.set(Reg::R1, 1),
                    Some(field) => self.get(Reg::R1, field),
                }
                self.push(Insn::atomic_add(Reg::R0, offset, Reg::R1));
                continue;
            }
            self.load(Size::Double, Reg::R1, Reg::R0, offset);
            match amount.field() {
                None => self.alu(Alu::Add, Reg::R1, 1),
                Some(field) => {
                    self.get(Reg::R2, field);
                    self.alu(Alu::Add, Reg::R1, Reg::R2);
                }
            }
            self.store(Size::Double, Reg::R0, offset, Reg::R1);
        }
        self.bind(missing);
    }

    /// Where a packet is dropped, and counted so for [`SLOT`].
    pub(super) fn refuse(&mut self, counter: Counter) -> Label {
        let asm = &mut self.asm;
        *self.refusals[counter as usize].get_or_insert_with(|| asm.label())
    }

    /// The packet is decided: result, verdict and slot are in their fields.
    pub(super) fn finish(&mut self) {
        self.jump(self.end);
    }

    /// [`Self::finish`] with these.
    pub(super) fn finish_with(&mut self, result: i32, verdict: Verdict) {
        self.put_imm(RESULT, result);
        self.put_imm(VERDICT, i32::from(verdict.to_byte()));
        self.finish();
    }

    /// Where decided packets come together, the refused ones counted.
    pub(super) fn gather(&mut self) {
        for (counter, _) in Counter::ALL {
            if let Some(label) = self.refusals[counter as usize] {
                self.bind(label);
                self.count(SLOT, &[(counter, Amount::One)]);
                self.finish_with(self.side.drop(), Verdict::Dropped(counter));
            }
        }
        self.bind(self.end);
    }

    /// What all paths end with: refusals, copies, the return. Call last.
    pub(super) fn close(mut self) -> Vec<Insn> {
        self.gather();
        let done = self.label();
        self.get(Reg::R1, TAPS);
        self.jump_if(Reg::R1, Condition::Equal, 0, done);
        self.leave_for_taps(done);
        let taps = match self.side {
            Side::In => self.maps.taps_in,
            _ => self.maps.taps_out,
        };
        self.call_any(taps, 0..TAPS_MAX);
        self.bind(done);
        self.get(Reg::R0, RESULT);
        self.exit();
        // 32 jumps of 16 bits reach over any program here; the tests generate them all.
        self.asm.finish().expect("the programs are short")
    }

    /// A field into the value of `scratch` that r0 points to.
    pub(super) fn leave(&mut self, field: impl Field, offset: i16) {
        self.get(Reg::R1, field);
        self.store(Size::Word, Reg::R0, offset, Reg::R1);
    }

    /// What was left in the value of `scratch` that r0 points to, into a field.
    pub(super) fn resume_field(&mut self, field: impl Field, offset: i16) {
        self.load(Size::Word, Reg::R1, Reg::R0, offset);
        self.put(field, Reg::R1);
    }

    /// What the copy programs need, into `scratch`.
    fn leave_for_taps(&mut self, missing: Label) {
        self.lookup_index(self.maps.scratch, self.side.scratch_index(), missing);
        self.leave(RESULT, scratch::RESULT);
        self.leave(LENGTH, scratch::LENGTH);
        self.leave(SLOT, scratch::SLOT);
        self.leave(VERDICT, scratch::VERDICT);
        self.leave(PEER, scratch::PEER);
        let ifindex = match self.side {
            Side::In => 12, // struct xdp_md: ingress_ifindex
            _ => 40,        // struct __sk_buff: ifindex
        };
        self.load(Size::Word, Reg::R1, Reg::R6, ifindex);
        self.store(Size::Word, Reg::R0, scratch::IFINDEX, Reg::R1);
        let direction = self.side.direction() as i32;
        self.store_imm(Size::Word, Reg::R0, scratch::DIRECTION, direction);
    }

    /// Go on in the first of these programs that there is; comes back when there is none.
    pub(super) fn call_any(&mut self, programs: i32, indices: std::ops::Range<u32>) {
        for index in indices {
            self.tail_call(Reg::R6, programs, index as i32);
        }
    }
}
