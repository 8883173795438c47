//! What goes back: all of it is computed, then written.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};

use super::word::width;
use super::{Generator, REPLY};
use crate::code::{Part, Reply};

impl Generator<'_, '_> {
    pub(super) fn reply(&mut self, reply: &Reply) {
        let length = self.word(&reply.length);
        let most = self.constant(reply.most.into());
        self.give_up_if_more(length, most);
        let parts = reply.parts.iter();
        let values: Vec<_> = parts.map(|part| self.compute(part, length)).collect();
        self.of_message(length);
        for (part, value) in reply.parts.iter().zip(values) {
            self.write(part, value);
        }
        let outcome = self.build.ins().iadd_imm(length, REPLY);
        self.build.ins().return_(&[outcome]);
    }

    /// A number's value, or a row's bytes, for which the reply has room.
    fn compute(&mut self, part: &Part, length: Value) -> Value {
        let (value, end) = match part {
            Part::Number { format, at, value } => {
                let end = i64::from(*at) + i64::from(format.bytes);
                (self.word(value), self.constant(end))
            }
            Part::Row {
                at,
                row,
                length: bytes,
            } => {
                let bytes = self.word(bytes);
                let most = self.constant(self.handler.row_len(*row).into());
                self.give_up_if_more(bytes, most);
                (bytes, self.build.ins().iadd_imm(bytes, i64::from(*at)))
            }
        };
        self.give_up_if_more(end, length);
        value
    }

    /// The reply becomes the message, cut or followed by zeros.
    fn of_message(&mut self, length: Value) {
        let shorter = self.compare(IntCC::UnsignedLessThan, self.length, length);
        let copied = self.build.ins().select(shorter, self.length, length);
        self.copy(self.message, self.reply, copied);
        self.each(1, copied, length, |generator, at| {
            let to = generator.build.ins().iadd(generator.reply, at);
            let zero = generator.build.ins().iconst(I8, 0);
            generator.build.ins().store(MemFlags::new(), zero, to, 0);
        });
    }

    fn write(&mut self, part: &Part, value: Value) {
        match part {
            Part::Number { format, at, .. } => {
                let number = match width(*format) {
                    I64 => value,
                    narrow => self.build.ins().ireduce(narrow, value),
                };
                let number = self.order(*format, number);
                let (flags, at) = (MemFlags::new(), i32::from(*at));
                self.build.ins().store(flags, number, self.reply, at);
            }
            Part::Row { at, row, .. } => {
                let row = self.variable(*row);
                let to = self.build.ins().iadd_imm(self.reply, i64::from(*at));
                self.copy(row, to, value);
            }
        }
    }
}
