//! Bytes on their way: from the message to a row, through pipes, and from a row to a reply.

use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Type, Value};
use cranelift_frontend::Variable;

use super::Generator;
use crate::code::{Expression, Pipe, VariableId};

impl Generator<'_, '_> {
    /// The checksum of what was taken, where a pipe takes one.
    pub(super) fn take(
        &mut self,
        row: VariableId,
        (from, length): (&Expression, &Expression),
        pipes: &[Pipe],
    ) -> Value {
        let keys: Vec<_> = pipes.iter().map(|pipe| self.key(pipe)).collect();
        let (from, length) = (self.word(from), self.word(length));
        let bytes = self.part(from, length);
        let most = self.constant(self.handler.row_len(row).into());
        self.give_up_if_more(length, most);
        let widest = i64::from(Pipe::widest(pipes));
        if widest > 1 {
            let rest = self.build.ins().band_imm(length, widest - 1);
            self.give_up_if(rest);
        }
        let row = self.variable(row);
        let sum = self.build.declare_var(I64);
        let zero = self.constant(0);
        self.build.def_var(sum, zero);
        self.each_word((bytes, row), length, |generator, width, mut word| {
            for (pipe, key) in pipes.iter().zip(&keys) {
                word = generator.through(pipe, *key, (width, word), sum);
            }
            word
        });
        self.folded(sum)
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

    /// 64 bits full of the word that a pipe is made with, as it lies in memory.
    fn key(&mut self, pipe: &Pipe) -> Option<Value> {
        let Pipe::Xor(bytes, word) = pipe else {
            return None;
        };
        let bits = 8 * i64::from(*bytes);
        let word = self.word(word);
        let turned = self.build.ins().bswap(word);
        let low = self.build.ins().ushr_imm(turned, 64 - bits);
        let repeated = u64::MAX / (u64::MAX >> (64 - bits));
        Some(self.build.ins().imul_imm(low, repeated as i64))
    }

    /// What a pipe makes of a word. Of one that is shorter than 64 bits the low bytes count.
    fn through(
        &mut self,
        pipe: &Pipe,
        key: Option<Value>,
        (width, word): (Type, Value),
        sum: Variable,
    ) -> Value {
        const LOW_BYTES: i64 = 0x00ff_00ff_00ff_00ff;
        let build = &mut self.build;
        match pipe {
            Pipe::Swap(2) => {
                let low = build.ins().band_imm(word, LOW_BYTES);
                let low = build.ins().ishl_imm(low, 8);
                let high = build.ins().ushr_imm(word, 8);
                let high = build.ins().band_imm(high, LOW_BYTES);
                build.ins().bor(low, high)
            }
            Pipe::Swap(4) => {
                let turned = build.ins().bswap(word);
                build.ins().rotl_imm(turned, 32)
            }
            Pipe::Swap(_) => build.ins().bswap(word),
            Pipe::Xor(..) => build.ins().bxor(word, key.expect("it has one")),
            Pipe::Checksum => {
                self.add_to_checksum(width, word, sum);
                word
            }
        }
    }

    fn add_to_checksum(&mut self, width: Type, mut word: Value, sum: Variable) {
        let build = &mut self.build;
        if width != I64 {
            word = build.ins().ireduce(width, word);
            word = build.ins().uextend(I64, word);
        }
        let high = build.ins().ushr_imm(word, 32);
        let low = build.ins().band_imm(word, 0xffff_ffff);
        let both = build.ins().iadd(high, low);
        let before = build.use_var(sum);
        let now = build.ins().iadd(before, both);
        build.def_var(sum, now);
    }

    /// A sum of words in memory order as 16 bits in the network's (RFC 1071 §2).
    fn folded(&mut self, sum: Variable) -> Value {
        let build = &mut self.build;
        let mut sum = build.use_var(sum);
        // Up to 41 bits, then 26, 17, and 16.
        for _ in 0..3 {
            let high = build.ins().ushr_imm(sum, 16);
            let low = build.ins().band_imm(sum, 0xffff);
            sum = build.ins().iadd(high, low);
        }
        let turned = build.ins().bswap(sum);
        build.ins().ushr_imm(turned, 48)
    }
}
