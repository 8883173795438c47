//! A word on its way through pipes.

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use cranelift_frontend::Variable;

use super::Generator;
use crate::code::{Expression, FNV_PRIME, Pipe};

impl Generator<'_, '_> {
    /// What a pipe has: 64 bits full of the word that it is made with, as it lies in memory; or its register, a checksum's in memory order.
    pub(super) fn key(&mut self, pipe: &Pipe) -> Option<Variable> {
        let word = pipe.word()?;
        let begin = self.word(word);
        let begin = match pipe {
            Pipe::Xor(bytes, _) | Pipe::And(bytes, _) | Pipe::Or(bytes, _) => {
                self.filled(*bytes, begin)
            }
            Pipe::Checksum(Expression::Constant(0)) => begin,
            Pipe::Checksum(_) => {
                let build = &mut self.build;
                let high = build.ins().ushr_imm(begin, 32);
                let low = build.ins().band_imm(begin, 0xffff_ffff);
                let both = build.ins().iadd(high, low);
                self.folded(both)
            }
            Pipe::Swap(_) | Pipe::Sum(..) | Pipe::Hash(..) => begin,
        };
        let key = self.build.declare_var(I64);
        self.build.def_var(key, begin);
        Some(key)
    }

    fn filled(&mut self, bytes: u8, word: Value) -> Value {
        let bits = 8 * i64::from(bytes);
        let turned = self.build.ins().bswap(word);
        let low = self.build.ins().ushr_imm(turned, 64 - bits);
        let repeated = u64::MAX / (u64::MAX >> (64 - bits));
        self.build.ins().imul_imm(low, repeated as i64)
    }

    /// What a register has come to.
    pub(super) fn register(&mut self, pipe: &Pipe, key: Option<Variable>) -> Value {
        let register = self.build.use_var(key.expect("it has one"));
        match pipe {
            Pipe::Checksum(_) => self.folded(register),
            _ => register,
        }
    }

    /// What a pipe makes of a word. Of one that is shorter than 64 bits the low bytes count.
    pub(super) fn through(
        &mut self,
        pipe: &Pipe,
        key: Option<Variable>,
        (width, word): (Type, Value),
    ) -> Value {
        let build = &mut self.build;
        let before = key.map(|key| build.use_var(key));
        let Some((key, before)) = key.zip(before) else {
            return self.turned(pipe.gauge(), word);
        };
        let own = match width {
            I64 => word,
            _ => {
                let short = build.ins().ireduce(width, word);
                build.ins().uextend(I64, short)
            }
        };
        let now = match pipe {
            Pipe::Xor(..) => return build.ins().bxor(word, before),
            Pipe::And(..) => return build.ins().band(word, before),
            Pipe::Or(..) => return build.ins().bor(word, before),
            Pipe::Checksum(_) => self.checksum_of(before, own),
            Pipe::Sum(bytes, _) => {
                let sum = self.sum_of(*bytes, own);
                self.build.ins().iadd(before, sum)
            }
            Pipe::Hash(bytes, _) => self.hash_of(before, *bytes, (width, own)),
            Pipe::Swap(_) => unreachable!("it has no key"),
        };
        self.build.def_var(key, now);
        word
    }

    fn turned(&mut self, bytes: u8, word: Value) -> Value {
        const LOW_BYTES: i64 = 0x00ff_00ff_00ff_00ff;
        let build = &mut self.build;
        match bytes {
            2 => {
                let low = build.ins().band_imm(word, LOW_BYTES);
                let low = build.ins().ishl_imm(low, 8);
                let high = build.ins().ushr_imm(word, 8);
                let high = build.ins().band_imm(high, LOW_BYTES);
                build.ins().bor(low, high)
            }
            4 => {
                let turned = build.ins().bswap(word);
                build.ins().rotl_imm(turned, 32)
            }
            _ => build.ins().bswap(word),
        }
    }

    fn checksum_of(&mut self, before: Value, word: Value) -> Value {
        let build = &mut self.build;
        let high = build.ins().ushr_imm(word, 32);
        let low = build.ins().band_imm(word, 0xffff_ffff);
        let both = build.ins().iadd(high, low);
        build.ins().iadd(before, both)
    }

    /// The sum of the numbers that are in 64 bits: those that are shorter are added in pairs, and the pairs by a product.
    fn sum_of(&mut self, bytes: u8, word: Value) -> Value {
        let build = &mut self.build;
        let bits = 8 * i64::from(bytes);
        let numbers = match bytes {
            1 => word,
            _ => build.ins().bswap(word),
        };
        if bytes == 8 {
            return numbers;
        }
        let pairs = u64::MAX / (u64::MAX >> (64 - 2 * bits));
        let lower = (pairs * (u64::MAX >> (64 - bits))) as i64;
        let low = build.ins().band_imm(numbers, lower);
        let high = build.ins().ushr_imm(numbers, bits);
        let high = build.ins().band_imm(high, lower);
        let both = build.ins().iadd(low, high);
        let all = build.ins().imul_imm(both, pairs as i64);
        build.ins().ushr_imm(all, 64 - 2 * bits)
    }

    fn hash_of(&mut self, mut hash: Value, bytes: u8, (width, word): (Type, Value)) -> Value {
        let build = &mut self.build;
        let bits = 8 * i64::from(bytes);
        for at in (0..i64::from(width.bits())).step_by(8 * usize::from(bytes)) {
            let first = build.ins().ushr_imm(word, at);
            let turned = build.ins().bswap(first);
            let number = build.ins().ushr_imm(turned, 64 - bits);
            hash = build.ins().bxor(hash, number);
            hash = build.ins().imul_imm(hash, FNV_PRIME as i64);
        }
        hash
    }

    /// A sum of words in memory order as 16 bits in the network's (RFC 1071 §2), or the other way round.
    fn folded(&mut self, mut sum: Value) -> Value {
        let build = &mut self.build;
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
