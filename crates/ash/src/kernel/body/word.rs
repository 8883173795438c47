//! Words that are computed, into r0, and what decides. Words that wait for others are on the stack.

use exos_filter::ebpf::{Alu, Condition as Jump, Emit, Insn, Reg, Size};
use exos_filter::handler::arithmetic::set_wide;

use super::super::addresses::takes_its_time;
use super::super::{Generator, LENGTH, MESSAGE, stack};
use crate::code::{Comparison, Condition, Expression, Format, Operator};
use crate::limits::MESSAGE_MAX;

impl Generator<'_> {
    /// r0 = the word; r1 to r5 are lost. `depth` words wait on the stack.
    pub(super) fn word(&mut self, expression: &Expression, depth: usize) {
        match expression {
            Expression::Constant(value) => self.constant(Reg::R0, *value),
            Expression::Variable(variable) => {
                let at = stack::variable(*variable);
                self.kept(Reg::R0, at);
            }
            Expression::Length => self.set(Reg::R0, LENGTH),
            Expression::Number(format, at) => match at.constant() {
                // The message is known to have it.
                Some(at) => {
                    self.number(*format, MESSAGE, at as i16);
                    if !self.bare {
                        let last = at as i32 + i32::from(format.bytes) - 1;
                        self.set(Reg::R1, last);
                        self.mask_of_part(Reg::R1);
                        self.alu(Alu::And, Reg::R0, Reg::R1);
                    }
                }
                None => self.number_somewhere(*format, at, depth),
            },
            Expression::Word(place) => {
                self.place(*place);
                self.load(Size::Double, Reg::R0, Reg::R1, 0);
            }
            Expression::Binary(operator, a, b) => self.binary(*operator, a, b, depth),
        }
    }

    fn constant(&mut self, dst: Reg, value: u64) {
        match i32::try_from(value) {
            Ok(small) => self.set(dst, small),
            Err(_) => set_wide(&mut self.asm, dst, value),
        }
    }

    /// r0 = a number at `base + at`.
    fn number(&mut self, format: Format, base: Reg, at: i16) {
        self.load(size(format), Reg::R0, base, at);
        self.order(format, Reg::R0);
    }

    /// The bytes of a number between this machine's order and its own.
    pub(super) fn order(&mut self, format: Format, number: Reg) {
        match (format.bytes, format.little_endian) {
            (1, _) => {}
            (bytes, true) => self.push(Insn::to_little_endian(number, 8 * i32::from(bytes))),
            (bytes, false) => self.push(Insn::to_big_endian(number, 8 * i32::from(bytes))),
        }
    }

    fn number_somewhere(&mut self, format: Format, at: &Expression, depth: usize) {
        let bytes = i32::from(format.bytes);
        let bare = std::mem::take(&mut self.bare);
        self.word(at, depth);
        self.bare = bare;
        let give_up = self.labels.give_up;
        let (from, end, mask) = (Reg::R2, Reg::R3, Reg::R5);
        self.jump_if(
            Reg::R0,
            Jump::Greater,
            i32::from(MESSAGE_MAX) - bytes,
            give_up,
        );
        self.set(end, Reg::R0);
        self.alu(Alu::Add, end, bytes);
        self.jump_if(end, Jump::Greater, LENGTH, give_up);
        self.alu32(Alu::Move, Reg::R0, Reg::R0);
        self.set(mask, Reg::R0);
        self.alu(Alu::Add, mask, bytes - 1);
        self.mask_of_part(mask);
        self.alu(Alu::And, Reg::R0, mask);
        self.set(from, MESSAGE);
        self.alu(Alu::Add, from, Reg::R0);
        self.set(end, from);
        self.alu(Alu::Add, end, bytes);
        self.end_of_packet(Reg::R4);
        self.jump_if(end, Jump::Greater, Reg::R4, give_up);
        self.number(format, from, 0);
        if !bare {
            self.alu(Alu::And, Reg::R0, mask);
        }
    }

    fn binary(&mut self, operator: Operator, a: &Expression, b: &Expression, depth: usize) {
        let bare = self.bare;
        self.bare &= !takes_its_time(operator);
        self.of_two(operator, a, b, depth);
        self.bare = bare;
    }

    fn of_two(&mut self, operator: Operator, a: &Expression, b: &Expression, depth: usize) {
        if let Some(small) = b.constant().and_then(|b| immediate(operator, b)) {
            self.word(a, depth);
            return self.alu(alu(operator), Reg::R0, small);
        }
        self.two(a, b, depth);
        if matches!(operator, Operator::ShiftLeft | Operator::ShiftRight) {
            self.alu(Alu::And, Reg::R1, 63);
        }
        self.alu(alu(operator), Reg::R0, Reg::R1);
    }

    /// r0 and r1 = two words.
    fn two(&mut self, a: &Expression, b: &Expression, depth: usize) {
        self.word(a, depth);
        match b {
            Expression::Variable(variable) => {
                let at = stack::variable(*variable);
                self.kept(Reg::R1, at);
            }
            Expression::Constant(value) => self.constant(Reg::R1, *value),
            Expression::Length => self.set(Reg::R1, LENGTH),
            _ => {
                let waiting = stack::intermediate(depth);
                self.keep(waiting, Reg::R0);
                self.word(b, depth + 1);
                self.set(Reg::R1, Reg::R0);
                self.kept(Reg::R0, waiting);
            }
        }
    }

    /// Jumps where the condition comes out so; else goes on.
    pub(super) fn jump_where(
        &mut self,
        condition: &Condition,
        holds: bool,
        to: exos_filter::ebpf::Label,
    ) {
        match condition {
            Condition::Compare(how, a, b) => {
                let how = jump(*how, holds);
                match b.constant().and_then(|b| i32::try_from(b).ok()) {
                    Some(small) => {
                        self.word(a, 0);
                        self.jump_if(Reg::R0, how, small, to);
                    }
                    None => {
                        self.two(a, b, 0);
                        self.jump_if(Reg::R0, how, Reg::R1, to);
                    }
                }
            }
            // What the first decides alone, and what only the second can.
            Condition::Both(a, b) | Condition::Either(a, b) => {
                let decides = matches!(condition, Condition::Either(..));
                if decides == holds {
                    self.jump_where(a, holds, to);
                    self.jump_where(b, holds, to);
                } else {
                    let decided = self.label();
                    self.jump_where(a, decides, decided);
                    self.jump_where(b, holds, to);
                    self.bind(decided);
                }
            }
        }
    }
}

/// How a number is loaded and stored.
pub(super) fn size(format: Format) -> Size {
    match format.bytes {
        1 => Size::Byte,
        2 => Size::Half,
        4 => Size::Word,
        _ => Size::Double,
    }
}

/// A second operand that the instruction can have in itself. A division by zero it cannot.
fn immediate(operator: Operator, b: u64) -> Option<i32> {
    let b = match operator {
        Operator::ShiftLeft | Operator::ShiftRight => b & 63,
        Operator::Divide | Operator::Remainder if b == 0 => return None,
        _ => b,
    };
    i32::try_from(b).ok()
}

fn alu(operator: Operator) -> Alu {
    match operator {
        Operator::Add => Alu::Add,
        Operator::Subtract => Alu::Sub,
        Operator::Multiply => Alu::Mul,
        Operator::Divide => Alu::Div,
        Operator::Remainder => Alu::Remainder,
        Operator::And => Alu::And,
        Operator::Or => Alu::Or,
        Operator::Xor => Alu::Xor,
        Operator::ShiftLeft => Alu::ShiftLeft,
        Operator::ShiftRight => Alu::ShiftRight,
    }
}

/// The jump that is taken where a comparison comes out so.
fn jump(how: Comparison, holds: bool) -> Jump {
    match (how, holds) {
        (Comparison::Equal, true) | (Comparison::NotEqual, false) => Jump::Equal,
        (Comparison::NotEqual, true) | (Comparison::Equal, false) => Jump::NotEqual,
        (Comparison::Less, true) | (Comparison::GreaterOrEqual, false) => Jump::Less,
        (Comparison::LessOrEqual, true) | (Comparison::Greater, false) => Jump::LessOrEqual,
        (Comparison::Greater, true) | (Comparison::LessOrEqual, false) => Jump::Greater,
        (Comparison::GreaterOrEqual, true) | (Comparison::Less, false) => Jump::GreaterOrEqual,
    }
}
