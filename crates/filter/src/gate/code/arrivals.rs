//! Code that puts a frame into the memory of the slot's holder, see [`crate::arrivals`].
//!
//! ```text
//! has the slot such memory? ── by interface? ── too long? ── number N, place empty? ── copied ── said ── by interface?
//!      └─ no: interface           └─ yes            └──── yes: from now on ────┘ no                     └─ yes: taken back
//! ```

use super::{CELL, Code, LENGTH, PLACE, RESULT, SLOT};
use crate::arrivals::{
    BY_INTERFACE, FRAME, FRAME_LEN_MAX, LEN_SHIFT, PLACES, PLACES_SHIFT, PUT, REDIRECTED,
    ROUND_SHIFT, TAKEN_BACK,
};
use crate::ebpf::{Alu, Condition, Emit, Helper, Insn, Label, Reg, Size};
use crate::program::xdp;

/// How often a number is tried for, where other processors take the same ones.
const ATTEMPTS: usize = 8;

impl Code<'_> {
    /// Puts the frame there and goes to `put`, or goes on behind this code, for the slot's interface. r7 to r9 are lost.
    pub(in crate::gate) fn put_into_arrivals(&mut self, put: Label) {
        let [none, interface, turn, copy] = [(); 4].map(|()| self.label());
        self.lookup_field(self.maps.arrivals, SLOT, none);
        self.set(Reg::R9, Reg::R0);
        self.store_imm(Size::Word, Reg::R10, CELL, 0);
        self.value_of_r9(none);
        self.set(Reg::R8, Reg::R0);
        self.load(Size::Double, Reg::R1, Reg::R8, BY_INTERFACE as i16);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, interface);
        self.get(Reg::R1, LENGTH);
        self.jump_if(Reg::R1, Condition::Greater, FRAME_LEN_MAX as i32, turn);
        for _ in 0..ATTEMPTS {
            self.take_number(turn, none, copy);
        }
        self.bind(turn);
        self.store_imm(Size::Double, Reg::R8, BY_INTERFACE as i16, 1);
        self.jump(interface);
        self.bind(copy);
        self.copy_and_say(interface);
        self.put_imm(RESULT, xdp::DROP);
        self.jump(put);
        self.bind(interface);
        self.set(Reg::R1, 1);
        self.push(Insn::atomic_add(Reg::R8, REDIRECTED as i16, Reg::R1));
        self.bind(none);
    }

    /// `r0 = &map in r9[CELL]`; to `missing` when it has none.
    fn value_of_r9(&mut self, missing: Label) {
        self.set(Reg::R1, Reg::R9);
        self.look_up_in_r1(CELL, missing);
    }

    /// The next number, if its place is empty: to `taken` with the place in r7 and its state in r9, to `full` when it is not
    /// empty, or on when another processor was faster.
    fn take_number(&mut self, full: Label, missing: Label, taken: Label) {
        self.load(Size::Double, Reg::R7, Reg::R8, PUT as i16);
        self.set(Reg::R1, Reg::R7);
        self.alu(Alu::And, Reg::R1, PLACES as i32 - 1);
        self.alu(Alu::Add, Reg::R1, 1);
        self.write(Size::Word, CELL, Reg::R1);
        self.value_of_r9(missing);
        self.set(Reg::R2, Reg::R7);
        self.alu(Alu::ShiftRight, Reg::R2, PLACES_SHIFT as i32);
        self.alu(Alu::ShiftLeft, Reg::R2, ROUND_SHIFT as i32);
        self.load(Size::Double, Reg::R1, Reg::R0, 0);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, full);
        self.put(PLACE, Reg::R0);
        self.set(Reg::R0, Reg::R7);
        self.set(Reg::R1, Reg::R7);
        self.alu(Alu::Add, Reg::R1, 1);
        self.push(Insn::compare_exchange(Reg::R8, PUT as i16, Reg::R1));
        let faster = self.label();
        self.jump_if(Reg::R0, Condition::NotEqual, Reg::R7, faster);
        self.get(Reg::R7, PLACE);
        self.set(Reg::R9, Reg::R2);
        self.jump(taken);
        self.bind(faster);
    }

    /// The frame into the place in r7, whose state is in r9, and that it is there; to `interface` with a frame that is to go
    /// there after all.
    fn copy_and_say(&mut self, interface: Label) {
        let [lost, done] = [(); 2].map(|()| self.label());
        self.get(Reg::R4, LENGTH);
        // Known already, but not to the verifier, which before Linux 6.8 does not understand `== 0` either.
        self.jump_if(Reg::R4, Condition::Less, 1, lost);
        self.jump_if(Reg::R4, Condition::Greater, FRAME_LEN_MAX as i32, lost);
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, 0);
        self.set(Reg::R3, Reg::R7);
        self.alu(Alu::Add, Reg::R3, FRAME as i32);
        self.call(Helper::XdpLoadBytes);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, lost);
        self.get(Reg::R2, LENGTH);
        self.alu(Alu::ShiftLeft, Reg::R2, LEN_SHIFT as i32);
        self.alu(Alu::Or, Reg::R2, 1);
        self.alu(Alu::Or, Reg::R2, Reg::R9);
        // A full barrier: the frame is there before its state, and the state before the word is looked at.
        self.set(Reg::R0, Reg::R9);
        self.push(Insn::compare_exchange(Reg::R7, 0, Reg::R2));
        self.load(Size::Double, Reg::R1, Reg::R8, BY_INTERFACE as i16);
        self.jump_if(Reg::R1, Condition::Equal, 0, done);
        self.alu(Alu::Or, Reg::R9, TAKEN_BACK as i32);
        self.set(Reg::R0, Reg::R2);
        self.push(Insn::compare_exchange(Reg::R7, 0, Reg::R9));
        self.jump_if(Reg::R0, Condition::Equal, Reg::R2, interface);
        self.jump(done);
        self.bind(lost);
        self.alu(Alu::Or, Reg::R9, TAKEN_BACK as i32);
        self.store(Size::Double, Reg::R7, 0, Reg::R9);
        self.jump(interface);
        self.bind(done);
    }
}
