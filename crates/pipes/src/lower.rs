//! What each pipe does to 64 bits, or to two times 64 bits at once: the steps are the same, in general or vector registers.
//!
//! Words lie in the registers as in memory, with the low byte first; where a pipe needs the numbers, their bytes are turned round.
//! Sums are taken in lanes of 64 bits, wherein words of half the width are added until there is one.

use cranelift_codegen::ir::immediates::V128Imm;
use cranelift_codegen::ir::types::{I8X16, I64, I64X2};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlags, Type, Value};
use cranelift_frontend::{FunctionBuilder, Variable};

use crate::pipe::{FNV_PRIME, Gauge, Pipe};

/// Writes steps for values of one width.
pub(crate) struct Steps<'a, 'b> {
    build: &'a mut FunctionBuilder<'b>,
    width: Type,
}

impl<'a, 'b> Steps<'a, 'b> {
    pub(crate) fn new(build: &'a mut FunctionBuilder<'b>, width: Type) -> Self {
        Self { build, width }
    }

    /// What the pipes make of a value; each has a variable for its register.
    pub(crate) fn pipes(&mut self, pipes: &[Pipe], registers: &[Variable], value: Value) -> Value {
        let pairs = pipes.iter().zip(registers);
        pairs.fold(value, |value, (pipe, register)| {
            self.pipe(*pipe, *register, value)
        })
    }

    fn pipe(&mut self, pipe: Pipe, register: Variable, value: Value) -> Value {
        match pipe {
            // The ones' complement sum does not depend on the order of bytes (RFC 1071 §2(B)), nor on the width of words (§2(C)).
            Pipe::Checksum => self.add_words(register, Gauge::Four, value),
            Pipe::Sum(gauge) => {
                let words = self.swap(gauge, value);
                self.add_words(register, gauge, words);
            }
            Pipe::Hash(gauge) => self.hash(register, gauge, value),
            Pipe::Swap(gauge) => return self.swap(gauge, value),
            Pipe::Xor(gauge, key) => {
                let key = self.constant(gauge.repeat(key));
                return self.build.ins().bxor(value, key);
            }
            Pipe::And(gauge, mask) => return self.and(value, gauge.repeat(mask)),
            Pipe::Or(gauge, bits) => {
                let bits = self.constant(gauge.repeat(bits));
                return self.build.ins().bor(value, bits);
            }
        }
        value
    }

    fn add_words(&mut self, register: Variable, gauge: Gauge, words: Value) {
        let sum = self.halve(gauge, words);
        let old = self.build.use_var(register);
        let new = self.build.ins().iadd(old, sum);
        self.build.def_var(register, new);
    }

    /// The sum of the words in each 64 bits.
    fn halve(&mut self, gauge: Gauge, words: Value) -> Value {
        let (mask, next) = match gauge {
            Gauge::One => (0x00ff_00ff_00ff_00ff, Gauge::Two),
            Gauge::Two => (0x0000_ffff_0000_ffff, Gauge::Four),
            Gauge::Four => (0x0000_0000_ffff_ffff, Gauge::Eight),
            Gauge::Eight => return words,
        };
        let low = self.and(words, mask);
        let high = self.build.ins().ushr_imm(words, 8 * gauge.bytes() as i64);
        let high = match gauge {
            Gauge::Four => high, // The shift has taken all that is not of it.
            _ => self.and(high, mask),
        };
        let sum = self.build.ins().iadd(low, high);
        self.halve(next, sum)
    }

    /// One word after the other: only in general registers.
    fn hash(&mut self, register: Variable, gauge: Gauge, value: Value) {
        let words = self.swap(gauge, value);
        let bits = 8 * gauge.bytes() as i64;
        for number in 0..64 / bits {
            let word = self.build.ins().ushr_imm(words, number * bits);
            let word = self.and(word, gauge.mask());
            let old = self.build.use_var(register);
            let mixed = self.build.ins().bxor(old, word);
            let prime = self.constant(FNV_PRIME);
            let new = self.build.ins().imul(mixed, prime);
            self.build.def_var(register, new);
        }
    }

    fn swap(&mut self, gauge: Gauge, value: Value) -> Value {
        match (gauge, self.width) {
            (Gauge::One, _) => value,
            (_, I64X2) => self.shuffle(gauge, value),
            (Gauge::Eight, _) => self.build.ins().bswap(value),
            // All bytes, and then the words back to where they were.
            (Gauge::Four, _) => {
                let all = self.build.ins().bswap(value);
                self.build.ins().rotl_imm(all, 32)
            }
            (Gauge::Two, _) => {
                let mask = 0x00ff_00ff_00ff_00ff;
                let low = self.and(value, mask);
                let low = self.build.ins().ishl_imm(low, 8);
                let high = self.build.ins().ushr_imm(value, 8);
                let high = self.and(high, mask);
                self.build.ins().bor(low, high)
            }
        }
    }

    fn shuffle(&mut self, gauge: Gauge, value: Value) -> Value {
        let last = gauge.bytes() - 1;
        let order: Vec<u8> = (0..16).map(|byte: usize| (byte ^ last) as u8).collect();
        let order = V128Imm::from(order.as_slice());
        let order = self.build.func.dfg.immediates.push(order.0.to_vec().into());
        let flags = MemFlags::new().with_endianness(Endianness::Little);
        let bytes = self.build.ins().bitcast(I8X16, flags, value);
        let swapped = self.build.ins().shuffle(bytes, bytes, order);
        self.build.ins().bitcast(I64X2, flags, swapped)
    }

    fn and(&mut self, value: Value, mask: u64) -> Value {
        let mask = self.constant(mask);
        self.build.ins().band(value, mask)
    }

    fn constant(&mut self, word: u64) -> Value {
        let word = self.build.ins().iconst(I64, word as i64);
        match self.width {
            I64 => word,
            _ => self.build.ins().splat(self.width, word),
        }
    }
}
