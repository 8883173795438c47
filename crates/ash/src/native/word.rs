//! Words that are computed, and what decides.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{Block as Label, InstBuilder, MemFlags, Type, Value};

use super::Generator;
use crate::code::{Comparison, Condition, Expression, Format, Operator};

impl Generator<'_, '_> {
    pub(super) fn word(&mut self, expression: &Expression) -> Value {
        match expression {
            Expression::Constant(value) => self.constant(*value as i64),
            Expression::Variable(variable) => self.variable(*variable),
            Expression::Length => self.length,
            Expression::Number(format, at) => match at.constant() {
                // The message is known to have it.
                Some(at) => self.number(*format, self.message, at as i32),
                None => {
                    let (at, bytes) = (self.word(at), self.constant(format.bytes.into()));
                    let from = self.part(at, bytes);
                    self.number(*format, from, 0)
                }
            },
            Expression::Word(place) => {
                let (place, flags) = (self.variable(*place), MemFlags::trusted());
                self.build.ins().atomic_load(I64, flags, place)
            }
            Expression::Binary(operator, a, b) => {
                let (a, b) = (self.word(a), self.word(b));
                self.binary(*operator, a, b)
            }
        }
    }

    /// A number at `base + at`.
    fn number(&mut self, format: Format, base: Value, at: i32) -> Value {
        let width = width(format);
        let flags = MemFlags::new();
        let number = self.build.ins().load(width, flags, base, at);
        let number = self.order(format, number);
        match width {
            I64 => number,
            _ => self.build.ins().uextend(I64, number),
        }
    }

    /// The bytes of a number between this machine's order, the low one first, and its own.
    pub(super) fn order(&mut self, format: Format, number: Value) -> Value {
        match format.bytes == 1 || format.little_endian {
            true => number,
            false => self.build.ins().bswap(number),
        }
    }

    fn binary(&mut self, operator: Operator, a: Value, b: Value) -> Value {
        let ins = self.build.ins();
        match operator {
            Operator::Add => ins.iadd(a, b),
            Operator::Subtract => ins.isub(a, b),
            Operator::Multiply => ins.imul(a, b),
            Operator::Divide | Operator::Remainder => self.divide(operator, a, b),
            Operator::And => ins.band(a, b),
            Operator::Or => ins.bor(a, b),
            Operator::Xor => ins.bxor(a, b),
            // By the low 6 bits.
            Operator::ShiftLeft => ins.ishl(a, b),
            Operator::ShiftRight => ins.ushr(a, b),
        }
    }

    /// The processor's division faults by zero, so that is never done: the quotient is zero then, and the rest what was divided.
    fn divide(&mut self, operator: Operator, a: Value, b: Value) -> Value {
        let [zero, one] = [0, 1].map(|value| self.constant(value));
        let by_zero = self.compare(IntCC::Equal, b, zero);
        let build = &mut self.build;
        let by = build.ins().select(by_zero, one, b);
        let (result, instead) = match operator {
            Operator::Divide => (build.ins().udiv(a, by), zero),
            _ => (build.ins().urem(a, by), a),
        };
        build.ins().select(by_zero, instead, result)
    }

    /// Goes to the one label or the other.
    pub(super) fn branch(&mut self, condition: &Condition, yes: Label, no: Label) {
        match condition {
            Condition::Compare(how, a, b) => {
                let (a, b) = (self.word(a), self.word(b));
                let holds = self.compare(code(*how), a, b);
                self.build.ins().brif(holds, yes, &[], no, &[]);
            }
            Condition::Both(a, b) | Condition::Either(a, b) => {
                let second = self.build.create_block();
                match condition {
                    Condition::Both(..) => self.branch(a, second, no),
                    _ => self.branch(a, yes, second),
                }
                self.build.switch_to_block(second);
                self.branch(b, yes, no);
            }
        }
    }
}

/// How a number is loaded and stored.
pub(super) fn width(format: Format) -> Type {
    match format.bytes {
        1 => I8,
        2 => I16,
        4 => I32,
        _ => I64,
    }
}

fn code(how: Comparison) -> IntCC {
    match how {
        Comparison::Equal => IntCC::Equal,
        Comparison::NotEqual => IntCC::NotEqual,
        Comparison::Less => IntCC::UnsignedLessThan,
        Comparison::LessOrEqual => IntCC::UnsignedLessThanOrEqual,
        Comparison::Greater => IntCC::UnsignedGreaterThan,
        Comparison::GreaterOrEqual => IntCC::UnsignedGreaterThanOrEqual,
    }
}
