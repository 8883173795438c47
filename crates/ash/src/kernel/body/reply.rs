//! What goes back: all of it is computed, then the packet is made as long as it, then it is written.

use exos_filter::ebpf::{Alu, Condition as Jump, Helper, Reg, Size};

use super::super::{CONTEXT, Generator, KEPT, LENGTH, Labels, MESSAGE, stack};
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
        self.length_of(reply);
        for (number, part) in reply.parts.iter().enumerate() {
            self.compute(part, number, reply.length.constant().is_some());
        }
        let is_as_long = reply.length == Expression::Length;
        let handler = self.of.handler;
        match () {
            // Without room for another reply the packet is as long as the message.
            () if handler.is_cut() && is_as_long => {}
            () if handler.is_cut() => self.cut_message(reply),
            () => {
                self.set_length(KEPT, self.labels.wrong);
                self.needed = 0;
            }
        }
        let follows = reply.parts.iter().all(Part::can_follow);
        if follows {
            self.asm.load(Size::Double, SUM, Reg::R10, stack::SUM);
            // Never 0, whatever is added: nothing of the message decides whether it is known.
            self.asm.alu32(Alu::Xor, SUM, -1);
        }
        for (number, part) in reply.parts.iter().enumerate() {
            self.write(part, number, follows);
        }
        self.leave_with_sum(follows, is_as_long || handler.is_cut());
        self.are_headers_known &= self.needed > 0;
    }

    /// r9 = the reply's length. The check has seen that one which is known is no longer than it says.
    fn length_of(&mut self, reply: &Reply) {
        match reply.length.constant() {
            Some(length) => self.asm.set(KEPT, length as i32),
            None => {
                self.word(&reply.length, 0);
                self.asm.set(KEPT, Reg::R0);
            }
        }
        let is_known = reply.length.constant().is_some();
        if !is_known && (reply.length != Expression::Length || reply.most < MESSAGE_MAX) {
            let most = i32::from(reply.most);
            self.asm
                .jump_if(KEPT, Jump::Greater, most, self.labels.give_up);
        }
    }

    /// Makes the packet, which ends with the message, as long as the reply; unless it is, the sum is not known. What of the message was known
    /// to be there is known still, as far as numbers are written.
    fn cut_message(&mut self, reply: &Reply) {
        let as_it_is = self.asm.label();
        self.asm.jump_if(KEPT, Jump::Equal, LENGTH, as_it_is);
        self.asm.set(Reg::R2, KEPT);
        self.asm.alu(Alu::Sub, Reg::R2, LENGTH);
        self.move_end(self.labels.wrong);
        self.asm.store_imm(Size::Double, Reg::R10, stack::SUM, 0);
        let written = reply.parts.iter().map(|part| match part {
            Part::Number { format, at, .. } => end(*format, *at),
            Part::Row { .. } => 0,
        });
        let written = written.max().unwrap_or(0);
        if written <= self.needed {
            self.expect_bytes(written, self.labels.wrong);
        } else {
            self.needed = 0;
        }
        self.asm.bind(as_it_is);
    }

    /// The sum is known of a reply as long as its message, if that was known; where `is_told` it says so itself.
    fn leave_with_sum(&mut self, follows: bool, is_told: bool) {
        let Labels {
            leave,
            leave_unknown,
            ..
        } = self.labels;
        let asm = &mut self.asm;
        if !follows {
            asm.set(SUM, 0);
            return asm.jump(leave);
        }
        asm.load(Size::Double, Reg::R1, Reg::R10, stack::SUM);
        asm.jump_if(Reg::R1, Jump::Equal, 0, leave_unknown);
        if !is_told {
            asm.jump_if(KEPT, Jump::NotEqual, LENGTH, leave_unknown);
        }
        asm.jump(leave);
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

    /// The check has seen that a reply whose length is known has room for its numbers.
    fn compute(&mut self, part: &Part, number: usize, has_room: bool) {
        let give_up = self.labels.give_up;
        match part {
            Part::Number { format, at, value } => {
                if !has_room {
                    self.asm
                        .jump_if(KEPT, Jump::Less, end(*format, *at), give_up);
                }
                if is_at_hand(value) {
                    return;
                }
                self.bare = true;
                self.word(value, 0);
                self.bare = false;
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
            self.expect_bytes(end(format, at), self.labels.wrong);
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

    fn write_row(&mut self, at: u16, row: VariableId, number: usize) {
        let written = self.asm.label();
        let asm = &mut self.asm;
        asm.load(Size::Double, Reg::R4, Reg::R10, stack::part(number));
        asm.jump_if(Reg::R4, Jump::Less, 1, written);
        self.load_start(Reg::R2);
        let asm = &mut self.asm;
        asm.alu(Alu::Add, Reg::R2, i32::from(at));
        asm.load(Size::Double, Reg::R3, Reg::R10, stack::variable(row));
        asm.set(Reg::R1, CONTEXT);
        asm.call(Helper::XdpStoreBytes);
        asm.jump_if(Reg::R0, Jump::NotEqual, 0, self.labels.wrong);
        asm.bind(written);
    }
}
