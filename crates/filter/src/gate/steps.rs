//! Steps of handlers: nanoseconds of processor time, of which a slot may use a bounded number in each period.

use super::code::share::TOKENS;
use super::code::{Side, scratch};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Insn, Label, Reg, Size};

/// Where a handler takes steps from beside those that were taken for it beforehand: two maps of the gate.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// [`Maps::scratch`](super::Maps::scratch).
    pub scratch_fd: i32,
    /// [`Maps::handler_budgets`](super::Maps::handler_budgets).
    pub budgets_fd: i32,
}

impl Steps {
    /// Takes as many as `steps_at` on the stack says, or goes to `none` where the slot has none left; what time gives, it was given when the packet
    /// came. The key of maps stands `key_at` on the stack; r0 to r5 are lost.
    pub(crate) fn take(self, asm: &mut Assembler, (key_at, steps_at): (i16, i16), none: Label) {
        let (left, less) = (Reg::R1, Reg::R2);
        let gates = Side::In.scratch_index();
        asm.store_imm(Size::Word, Reg::R10, key_at, gates);
        asm.look_up(self.scratch_fd, key_at, none);
        asm.load(Size::Word, Reg::R1, Reg::R0, scratch::SLOT);
        asm.store(Size::Word, Reg::R10, key_at, Reg::R1);
        asm.look_up(self.budgets_fd, key_at, none);
        asm.load(Size::Double, left, Reg::R0, TOKENS);
        asm.jump_if(left, Condition::SignedLessOrEqual, 0, none);
        asm.kept(Reg::R1, steps_at);
        asm.set(less, 0);
        asm.alu(Alu::Sub, less, Reg::R1);
        asm.push(Insn::atomic_add(Reg::R0, TOKENS, less));
    }
}
