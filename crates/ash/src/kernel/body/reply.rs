//! What goes back: all of it is computed, then the packet is made as long as it, then it is written.

use exos_filter::ebpf::{Alu, Condition as Jump, Emit, Helper, Reg, Size};

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
            self.kept(SUM, stack::SUM);
            // Never 0, whatever is added: nothing of the message decides whether it is known.
            self.alu32(Alu::Xor, SUM, -1);
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
            Some(length) => self.set(KEPT, length as i32),
            None => {
                self.word(&reply.length, 0);
                self.set(KEPT, Reg::R0);
            }
        }
        let is_known = reply.length.constant().is_some();
        if !is_known && (reply.length != Expression::Length || reply.most < MESSAGE_MAX) {
            let most = i32::from(reply.most);
            self.jump_if(KEPT, Jump::Greater, most, self.labels.give_up);
        }
    }

    /// Makes the packet, which ends with the message, as long as the reply; unless it is, the sum is not known. What of the message was known
    /// to be there is known still, as far as numbers are written.
    fn cut_message(&mut self, reply: &Reply) {
        let as_it_is = self.label();
        self.jump_if(KEPT, Jump::Equal, LENGTH, as_it_is);
        self.set(Reg::R2, KEPT);
        self.alu(Alu::Sub, Reg::R2, LENGTH);
        self.move_end(self.labels.wrong);
        self.store_imm(Size::Double, Reg::R10, stack::SUM, 0);
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
        self.bind(as_it_is);
    }

    /// The sum is known of a reply as long as its message, if that was known; where `is_told` it says so itself.
    fn leave_with_sum(&mut self, follows: bool, is_told: bool) {
        let Labels {
            leave,
            leave_unknown,
            ..
        } = self.labels;
        if !follows {
            self.set(SUM, 0);
            return self.jump(leave);
        }
        self.kept(Reg::R1, stack::SUM);
        self.jump_if(Reg::R1, Jump::Equal, 0, leave_unknown);
        if !is_told {
            self.jump_if(KEPT, Jump::NotEqual, LENGTH, leave_unknown);
        }
        self.jump(leave);
    }

    /// Takes r0, a number as it lies there, out of the sum, or adds it (RFC 1624). r0 and r2 are lost.
    fn add_to_sum(&mut self, format: Format, at: u16, is_taken_out: bool) {
        let (number, high) = (Reg::R0, Reg::R2);
        // The second byte of its half word.
        if format.bytes == 1 && at % 2 == 1 {
            self.alu(Alu::ShiftLeft, number, 8);
        }
        match (format.bytes, is_taken_out) {
            (_, false) => {}
            (8, _) => self.alu(Alu::Xor, number, -1),
            (4, _) => self.alu32(Alu::Xor, number, -1),
            _ => self.alu(Alu::Xor, number, 0xffff),
        }
        if format.bytes == 8 {
            self.set(high, number);
            self.alu(Alu::ShiftRight, high, 32);
            self.alu(Alu::Add, SUM, high);
            self.alu32(Alu::Move, number, number);
        }
        self.alu(Alu::Add, SUM, number);
    }

    /// The check has seen that a reply whose length is known has room for its numbers.
    fn compute(&mut self, part: &Part, number: usize, has_room: bool) {
        let give_up = self.labels.give_up;
        match part {
            Part::Number { format, at, value } => {
                if !has_room {
                    self.jump_if(KEPT, Jump::Less, end(*format, *at), give_up);
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
        self.keep(stack::part(number), Reg::R0);
    }

    /// r0 = bytes of a row that the reply has room for.
    fn length_of_row(&mut self, at: u16, row: VariableId, length: &Expression) {
        let give_up = self.labels.give_up;
        let most = self.of.handler.handler().row_len(row) as i32;
        self.word(length, 0);
        self.jump_if(Reg::R0, Jump::Greater, most, give_up);
        self.set(Reg::R1, Reg::R0);
        self.alu(Alu::Add, Reg::R1, i32::from(at));
        self.jump_if(Reg::R1, Jump::Greater, KEPT, give_up);
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
            self.load(size(format), Reg::R0, MESSAGE, at);
            self.add_to_sum(format, at, true);
        }
        if is_at_hand(value) {
            self.word(value, 0);
        } else {
            self.kept(Reg::R0, stack::part(number));
        }
        if format.bytes == 1 {
            self.alu(Alu::And, Reg::R0, 0xff);
        }
        self.order(format, Reg::R0);
        self.store(size(format), MESSAGE, at, Reg::R0);
        if follows {
            self.add_to_sum(format, at, false);
        }
    }

    fn write_row(&mut self, at: u16, row: VariableId, number: usize) {
        let written = self.label();
        self.kept(Reg::R4, stack::part(number));
        self.jump_if(Reg::R4, Jump::Less, 1, written);
        self.load_start(Reg::R2);
        self.alu(Alu::Add, Reg::R2, i32::from(at));
        self.kept(Reg::R3, stack::variable(row));
        self.set(Reg::R1, CONTEXT);
        self.call(Helper::XdpStoreBytes);
        self.jump_if(Reg::R0, Jump::NotEqual, 0, self.labels.wrong);
        self.bind(written);
    }
}
