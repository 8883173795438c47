//! Bytes on their way: from the message to a row, through pipes, and from a row to a reply.

use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Type, Value};

use super::Generator;
use crate::code::{Pipe, Take};

impl Generator<'_, '_> {
    /// The registers of pipes, in their order.
    pub(super) fn take(&mut self, take: &Take) -> Vec<Value> {
        let pipes = &take.pipes;
        let keys: Vec<_> = pipes.iter().map(|pipe| self.key(pipe)).collect();
        let (from, length) = (self.word(&take.from), self.word(&take.length));
        let bytes = self.part(from, length);
        let most = self.constant(self.handler.row_len(take.row).into());
        self.give_up_if_more(length, most);
        let widest = i64::from(Pipe::widest(pipes));
        if widest > 1 {
            let rest = self.build.ins().band_imm(length, widest - 1);
            self.give_up_if(rest);
        }
        let row = self.variable(take.row);
        self.each_word((bytes, row), length, |generator, width, mut word| {
            for (pipe, key) in pipes.iter().zip(&keys) {
                word = generator.through(pipe, *key, (width, word));
            }
            word
        });
        let with_registers = Pipe::with_registers(pipes);
        with_registers
            .map(|number| self.register(&pipes[number], keys[number]))
            .collect()
    }

    /// Copies bytes.
    pub(super) fn copy(&mut self, from: Value, to: Value, length: Value) {
        self.each_word((from, to), length, |_, _, word| word);
    }

    /// Copies bytes by words of 64 bits, and by shorter ones at the end, each made another.
    fn each_word(
        &mut self,
        (from, to): (Value, Value),
        length: Value,
        mut change: impl FnMut(&mut Self, Type, Value) -> Value,
    ) {
        let mut first = self.constant(0);
        for width in [I64, I32, I16, I8] {
            let step = i64::from(width.bytes());
            let end = self.build.ins().band_imm(length, -step);
            self.each(step, first, end, |generator, at| {
                let build = &mut generator.build;
                let [from, to] = [from, to].map(|base| build.ins().iadd(base, at));
                let mut word = build.ins().load(width, MemFlags::new(), from, 0);
                if width != I64 {
                    word = build.ins().uextend(I64, word);
                }
                let mut word = change(generator, width, word);
                let build = &mut generator.build;
                if width != I64 {
                    word = build.ins().ireduce(width, word);
                }
                build.ins().store(MemFlags::new(), word, to, 0);
            });
            first = end;
        }
    }
}
