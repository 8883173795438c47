//! What goes back: all of it is computed, then the packet is made as long as it, then it is written.

use exos_filter::ebpf::{Alu, Condition as Jump, Helper, Reg, Size};

use super::super::{CONTEXT, Generator, KEPT, LENGTH, MESSAGE, stack};
use super::word::size;
use crate::code::{Expression, Format, Part, Reply, VariableId};
use crate::limits::MESSAGE_MAX;

/// The datagram's sum, while numbers are written.
const SUM: Reg = Reg::R4;

fn end(format: Format, at: u16) -> i32 {
    i32::from(at) + i32::from(format.bytes)
}

/// Whether a word is the same whenever it is asked for, so that it need not wait on the stack.
fn is_at_hand(value: &Expression) -> bool {
    matches!(value, Expression::Constant(_) | Expression::Variable(_))
}

impl Generator<'_> {
    /// Its length waits in r9, its parts on the stack.
    pub(super) fn reply(&mut self, reply: &Reply) {
        self.word(&reply.length, 0);
        self.asm.set(KEPT, Reg::R0);
        let most = i32::from(reply.most);
        let is_as_long = reply.length == Expression::Length;
        if !is_as_long || reply.most < MESSAGE_MAX {
            self.asm
                .jump_if(KEPT, Jump::Greater, most, self.labels.give_up);
        }
        for (number, part) in reply.parts.iter().enumerate() {
            self.compute(part, number);
        }
        // Without room for another reply the packet is as long as the message.
        if !is_as_long || self.of.handler.room() > 0 {
            self.set_length(KEPT, self.labels.wrong);
            self.needed = 0;
        }
        let follows = reply.parts.iter().all(Part::can_follow);
        if follows {
            self.asm.load(Size::Double, SUM, Reg::R10, stack::SUM);
            self.asm.alu(Alu::Xor, SUM, 0xffff);
        }
        for (number, part) in reply.parts.iter().enumerate() {
            self.write(part, number, follows);
        }
        self.keep_sum_if(follows, is_as_long);
        self.asm.jump(self.labels.leave);
    }

    /// The sum is known of a reply as long as its message, if that was known.
    fn keep_sum_if(&mut self, follows: bool, is_as_long: bool) {
        let [unknown, kept] = [self.asm.label(), self.asm.label()];
        let asm = &mut self.asm;
        if follows {
            asm.load(Size::Double, Reg::R1, Reg::R10, stack::SUM);
            asm.jump_if(Reg::R1, Jump::Equal, 0, kept);
            if !is_as_long {
                asm.jump_if(KEPT, Jump::NotEqual, LENGTH, unknown);
            }
            asm.store(Size::Double, Reg::R10, stack::SUM, SUM);
        }
        if follows && !is_as_long {
            asm.jump(kept);
        }
        asm.bind(unknown);
        if !follows || !is_as_long {
            asm.store_imm(Size::Double, Reg::R10, stack::SUM, 0);
        }
        asm.bind(kept);
    }

    /// Takes r0, a number as it lies there, out of the sum, or adds it (RFC 1624). r0 and r2 are lost.
    fn add_to_sum(&mut self, format: Format, at: u16, is_taken_out: bool) {
        let (number, high) = (Reg::R0, Reg::R2);
        let asm = &mut self.asm;
        // The second byte of its half word.
        if format.bytes == 1 && at % 2 == 1 {
            asm.alu(Alu::ShiftLeft, number, 8);
        }
        match (format.bytes, is_taken_out) {
            (_, false) => {}
            (8, _) => asm.alu(Alu::Xor, number, -1),
            (4, _) => asm.alu32(Alu::Xor, number, -1),
            _ => asm.alu(Alu::Xor, number, 0xffff),
        }
        if format.bytes == 8 {
            asm.set(high, number);
            asm.alu(Alu::ShiftRight, high, 32);
            asm.alu(Alu::Add, SUM, high);
            asm.alu32(Alu::Move, number, number);
        }
        asm.alu(Alu::Add, SUM, number);
    }

    fn compute(&mut self, part: &Part, number: usize) {
        let give_up = self.labels.give_up;
        match part {
            Part::Number { format, at, value } => {
                self.asm
                    .jump_if(KEPT, Jump::Less, end(*format, *at), give_up);
                if is_at_hand(value) {
                    return;
                }
                self.word(value, 0);
            }
            Part::Row { at, row, length } => self.length_of_row(*at, *row, length),
        }
        self.asm
            .store(Size::Double, Reg::R10, stack::part(number), Reg::R0);
    }

    /// r0 = bytes of a row that the reply has room for.
    fn length_of_row(&mut self, at: u16, row: VariableId, length: &Expression) {
        let give_up = self.labels.give_up;
        let most = self.of.handler.handler().row_len(row) as i32;
        self.word(length, 0);
        self.asm.jump_if(Reg::R0, Jump::Greater, most, give_up);
        self.asm.set(Reg::R1, Reg::R0);
        self.asm.alu(Alu::Add, Reg::R1, i32::from(at));
        self.asm.jump_if(Reg::R1, Jump::Greater, KEPT, give_up);
    }

    fn write(&mut self, part: &Part, number: usize, follows: bool) {
        let (format, at, value) = match part {
            Part::Number { format, at, value } => (*format, *at, value),
            Part::Row { at, row, .. } => return self.write_row(*at, *row, number),
        };
        if end(format, at) > self.needed {
            self.expect_number(format, at);
        }
        if follows {
            self.asm.load(size(format), Reg::R0, MESSAGE, at);
            self.add_to_sum(format, at, true);
        }
        if is_at_hand(value) {
            self.word(value, 0);
        } else {
            self.asm
                .load(Size::Double, Reg::R0, Reg::R10, stack::part(number));
        }
        if format.bytes == 1 {
            self.asm.alu(Alu::And, Reg::R0, 0xff);
        }
        self.order(format, Reg::R0);
        self.asm.store(size(format), MESSAGE, at, Reg::R0);
        if follows {
            self.add_to_sum(format, at, false);
        }
    }

    /// Says what is so: the packet has it.
    fn expect_number(&mut self, format: Format, at: u16) {
        self.asm.set(Reg::R1, MESSAGE);
        self.asm.alu(Alu::Add, Reg::R1, end(format, at));
        self.end_of_packet(Reg::R2);
        self.asm
            .jump_if(Reg::R1, Jump::Greater, Reg::R2, self.labels.wrong);
    }

    fn write_row(&mut self, at: u16, row: VariableId, number: usize) {
        let written = self.asm.label();
        let asm = &mut self.asm;
        asm.load(Size::Double, Reg::R4, Reg::R10, stack::part(number));
        asm.jump_if(Reg::R4, Jump::Less, 1, written);
        asm.load(Size::Double, Reg::R2, Reg::R10, stack::START);
        asm.alu(Alu::Add, Reg::R2, i32::from(at));
        asm.load(Size::Double, Reg::R3, Reg::R10, stack::variable(row));
        asm.set(Reg::R1, CONTEXT);
        asm.call(Helper::XdpStoreBytes);
        asm.jump_if(Reg::R0, Jump::NotEqual, 0, self.labels.wrong);
        asm.bind(written);
    }
}
