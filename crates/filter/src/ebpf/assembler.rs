//! Appends instructions and resolves jumps.
//!
//! Rules: a [`Label`] is made by [`Emit::label`], bound once by [`Emit::bind`] to the place where the next
//! instruction goes, and may be jumped to before and after. [`Assembler::finish`] panics when a label that was
//! jumped to is not bound: that is a bug of the generator.

use std::fmt::Debug;

use super::insn::{Alu, Condition, Helper, Insn, Operand, Reg, Size};

/// A place in a program that is being assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// A jump needs more than 16 bits of distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JumpTooFar;

/// A program in the making.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    insns: Vec<Insn>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether anything jumps to the label so far.
    pub fn is_target(&self, label: Label) -> bool {
        self.jumps.iter().rev().any(|(_, to)| *to == label)
    }

    fn jump_with(&mut self, insn: Insn, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.insns.push(insn);
    }

    /// Instructions so far.
    pub fn len(&self) -> usize {
        self.insns.len()
    }

    /// Whether there is no instruction yet.
    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }

    /// The program, its jumps resolved.
    pub fn finish(mut self) -> Result<Vec<Insn>, JumpTooFar> {
        for &(at, label) in &self.jumps {
            let place = self.places[label.0].expect("every label that is jumped to is bound");
            // A jump counts from the instruction behind it (RFC 9669 §4.3).
            let distance = place as isize - (at as isize + 1);
            self.insns[at].offset = i16::try_from(distance).map_err(|_| JumpTooFar)?;
        }
        Ok(self.insns)
    }
}

/// What appends instructions: an [`Assembler`], and each generator that has one, which has no other methods of these names.
pub trait Emit {
    /// What they are appended to.
    fn asm(&mut self) -> &mut Assembler;

    /// A new label, not bound yet.
    fn label(&mut self) -> Label {
        let places = &mut self.asm().places;
        places.push(None);
        Label(places.len() - 1)
    }

    /// The label is here.
    fn bind(&mut self, label: Label) {
        let asm = self.asm();
        let place = &mut asm.places[label.0];
        assert!(place.is_none(), "label bound twice");
        *place = Some(asm.insns.len());
    }

    /// Append any instruction that is not a jump.
    fn push(&mut self, insn: Insn) {
        self.asm().insns.push(insn);
    }

    /// `dst op= operand`, 64 bits.
    fn alu(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        self.push(Insn::alu64(op, dst, operand.into()));
    }

    /// `dst op= operand`, 32 bits.
    fn alu32(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        self.push(Insn::alu32(op, dst, operand.into()));
    }

    /// `dst = operand`.
    fn set(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu(Alu::Move, dst, operand);
    }

    /// `dst = *(size *)(src + offset)`.
    fn load(&mut self, size: Size, dst: Reg, src: Reg, offset: impl TryInto<i16, Error: Debug>) {
        self.push(Insn::load(size, dst, src, short(offset)));
    }

    /// `*(size *)(dst + offset) = src`.
    fn store(&mut self, size: Size, dst: Reg, offset: impl TryInto<i16, Error: Debug>, src: Reg) {
        self.push(Insn::store(size, dst, short(offset), src));
    }

    /// `*(size *)(dst + offset) = value`.
    fn store_imm(
        &mut self,
        size: Size,
        dst: Reg,
        offset: impl TryInto<i16, Error: Debug>,
        value: i32,
    ) {
        self.push(Insn::store_imm(size, dst, short(offset), value));
    }

    /// The low bits of `dst` from the machine's order into big-endian, or back.
    fn to_big_endian(&mut self, dst: Reg, bits: i32) {
        self.push(Insn::to_big_endian(dst, bits));
    }

    /// `dst = map`.
    fn load_map(&mut self, dst: Reg, fd: i32) {
        self.asm().insns.extend(Insn::load_map(dst, fd));
    }

    /// `dst = &value[offset]`, of the only value of an array.
    fn load_map_value(&mut self, dst: Reg, fd: i32, offset: u32) {
        self.asm()
            .insns
            .extend(Insn::load_map_value(dst, fd, offset));
    }

    /// Call a function of the kernel.
    fn call(&mut self, helper: Helper) {
        self.push(Insn::call(helper));
    }

    /// `dst = &stack[at]`.
    fn stack(&mut self, dst: Reg, at: i16) {
        self.set(dst, Reg::R10);
        self.alu(Alu::Add, dst, i32::from(at));
    }

    /// `*(u64 *)&stack[at] = src`.
    fn keep(&mut self, at: i16, src: Reg) {
        self.store(Size::Double, Reg::R10, at, src);
    }

    /// `dst = *(u64 *)&stack[at]`.
    fn kept(&mut self, dst: Reg, at: i16) {
        self.load(Size::Double, dst, Reg::R10, at);
    }

    /// `r0 = &map[key]`, the key on the stack; to `missing` when the map has none. r1 to r5 are lost.
    fn look_up(&mut self, map_fd: i32, key: i16, missing: Label) {
        self.stack(Reg::R2, key);
        self.load_map(Reg::R1, map_fd);
        self.call(Helper::MapLookupElem);
        self.jump_if(Reg::R0, Condition::Equal, 0, missing);
    }

    /// [`look_up`](Emit::look_up) in the map that r1 points to.
    fn look_up_in_r1(&mut self, key: i16, missing: Label) {
        self.stack(Reg::R2, key);
        self.call(Helper::MapLookupElem);
        self.jump_if(Reg::R0, Condition::Equal, 0, missing);
    }

    /// `map[key] = value`, both on the stack. r0 to r5 are lost.
    fn insert(&mut self, map_fd: i32, key: i16, value: i16) {
        self.load_map(Reg::R1, map_fd);
        self.stack(Reg::R2, key);
        self.stack(Reg::R3, value);
        self.set(Reg::R4, 0);
        self.call(Helper::MapUpdateElem);
    }

    /// `r0` = the verdict by which the packet goes to entry r2 of a map; `otherwise` where there is none. r1 to r5 are lost.
    fn redirect(&mut self, map_fd: i32, otherwise: i32) {
        self.load_map(Reg::R1, map_fd);
        self.set(Reg::R3, otherwise);
        self.call(Helper::RedirectMap);
    }

    /// Goes on in a program of a map, and on here when it is not there. r0 to r5 are lost.
    fn tail_call(&mut self, context: Reg, programs_fd: i32, index: i32) {
        self.set(Reg::R1, context);
        self.load_map(Reg::R2, programs_fd);
        self.set(Reg::R3, index);
        self.call(Helper::TailCall);
    }

    /// Makes a number that is `count` or more one that is less, by arithmetic alone: so it is also where a processor goes on by a wrong
    /// prediction of the comparison that stands before (Spectre, variant 1). Of the number only 32 bits are kept; `spare` is lost.
    fn clamp(&mut self, number: Reg, spare: Reg, count: u32) {
        if count.is_power_of_two() {
            return self.alu(Alu::And, number, count as i32 - 1);
        }
        // Of 32 bits, so that the difference has the right sign.
        self.alu32(Alu::Move, number, number);
        self.set(spare, number);
        self.alu(Alu::Sub, spare, count as i32);
        self.alu(Alu::SignedShiftRight, spare, 63);
        self.alu(Alu::And, number, spare);
    }

    /// `*(u64 *)(dst + offset) += operand`, where nobody else writes: no atomics. r1 is lost.
    fn add_to(&mut self, dst: Reg, offset: i16, operand: impl Into<Operand>) {
        self.load(Size::Double, Reg::R1, dst, offset);
        self.alu(Alu::Add, Reg::R1, operand);
        self.store(Size::Double, dst, offset, Reg::R1);
    }

    /// Return `verdict`.
    fn exit(&mut self) {
        self.push(Insn::exit());
    }

    /// Jump always.
    fn jump(&mut self, to: Label) {
        self.asm().jump_with(Insn::jump(), to);
    }

    /// Jump if the condition holds, 64 bits.
    fn jump_if(&mut self, dst: Reg, condition: Condition, operand: impl Into<Operand>, to: Label) {
        self.asm()
            .jump_with(Insn::jump_if(condition, dst, operand.into()), to);
    }

    /// Jump if the condition holds, 32 bits.
    fn jump_if32(
        &mut self,
        dst: Reg,
        condition: Condition,
        operand: impl Into<Operand>,
        to: Label,
    ) {
        self.asm()
            .jump_with(Insn::jump_if32(condition, dst, operand.into()), to);
    }
}

impl Emit for Assembler {
    fn asm(&mut self) -> &mut Assembler {
        self
    }
}

fn short(offset: impl TryInto<i16, Error: Debug>) -> i16 {
    offset.try_into().expect("offsets are bounded by limits")
}
