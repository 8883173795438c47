//! What a list of pipes becomes: the function's instructions, and the operands that they read.
//!
//! Words lie in the registers as in memory, with the low byte first; where a pipe needs the numbers, their bytes are turned round.
//! Sums are taken in lanes of 64 bits, wherein words of half the width are added until there is one. Words of different gauges need no
//! conversion: each pipe works on all words in a register at once.
//!
//! | register | |
//! |---|---|
//! | 0 | 32 bytes of the message |
//! | 1, 2 | what a pipe makes of them on the way |
//! | 3 to 15 | lanes: of each sum as many as there is room for, up to one for each vector of a step, because an addition waits for the last |

use crate::assembler::{Assembler, Base, Operand, Operation, Vector};
use crate::code::{Constant, Frame, UNROLLED, VECTOR};
use crate::pipe::{FNV_PRIME, Gauge, Pipe};

const VALUE: Vector = Vector(0);
const WORDS: Vector = Vector(1);
const HALVES: Vector = Vector(2);

/// Registers for lanes, and the first of them.
const LANES: usize = 13;
const FIRST_LANES: usize = 3;

/// Code and operands of a function that writes to the destination if it is to store.
pub(crate) fn lower(pipes: &[Pipe], store: bool) -> (Vec<u8>, Vec<Constant>) {
    let sums = pipes.iter().filter(|pipe| pipe.sums()).count();
    let mut function = Function {
        pipes,
        store,
        copies: (LANES / sums.max(1)).min(UNROLLED),
        code: Assembler::default(),
        constants: Vec::new(),
    };
    function.all();
    (function.code.finish(), function.constants)
}

/// A function as it is written.
struct Function<'l> {
    pipes: &'l [Pipe],
    store: bool,
    /// Registers of each sum.
    copies: usize,
    code: Assembler,
    constants: Vec<Constant>,
}

impl Function<'_> {
    fn all(&mut self) {
        for lanes in 0..LANES {
            let lanes = Vector((FIRST_LANES + lanes) as u8);
            self.compute(Operation::Xor, lanes, lanes, Operand::Register(lanes));
        }
        self.repeat(Frame::LARGE, UNROLLED, false);
        self.repeat(Frame::SMALL, 1, false);
        self.repeat(Frame::TAILS, 1, true);
        for (number, pipe) in self.pipes.iter().enumerate() {
            if pipe.sums() {
                self.store_sum(number);
            }
        }
        self.code.end_function();
    }

    fn store_sum(&mut self, pipe: usize) {
        let sum = self.lanes(pipe, 0);
        for copy in 1..self.copies {
            let lanes = self.lanes(pipe, copy);
            self.add(sum, lanes);
        }
        for order in [0b01_00_11_10, 0b10_11_00_01] {
            self.code.permute(WORDS, sum, order);
            self.add(sum, WORDS);
        }
        self.code
            .store_word(sum, (Base::Frame, Frame::register(pipe)));
    }

    /// The register of a sum to which a step's vector of this number is added.
    fn lanes(&self, pipe: usize, vector: usize) -> Vector {
        let sums = self.pipes[..pipe].iter().filter(|pipe| pipe.sums());
        let first = FIRST_LANES + sums.count() * self.copies;
        Vector((first + vector % self.copies) as u8)
    }

    fn repeat(&mut self, times: u32, vectors: usize, tail: bool) {
        let repeat = self.code.repeat(times);
        for vector in 0..vectors {
            self.vector(vector, tail);
        }
        self.code.end_repeat(repeat, (vectors * VECTOR) as u32);
    }

    /// The next 32 bytes, or those of the tail, which is in the frame.
    fn vector(&mut self, vector: usize, tail: bool) {
        let offset = (vector * VECTOR) as u32;
        let [from, to] = match tail {
            true => [(Base::Frame, Frame::TAIL); 2],
            false => [(Base::From, offset), (Base::To, offset)],
        };
        self.code.load(VALUE, from);
        for (number, pipe) in self.pipes.iter().enumerate() {
            self.pipe((number, vector), *pipe);
            if tail && matches!(pipe, Pipe::Xor(..) | Pipe::Or(..)) {
                // What is behind the message stays zero for the pipes that follow.
                let mask = Operand::Memory((Base::Frame, Frame::MASK));
                self.compute(Operation::And, VALUE, VALUE, mask);
            }
        }
        if self.store {
            self.code.store(VALUE, to);
        }
    }

    fn pipe(&mut self, (number, vector): (usize, usize), pipe: Pipe) {
        let lanes = self.lanes(number, vector);
        match pipe {
            // The ones' complement sum does not depend on the order of bytes (RFC 1071 §2(B)), nor on the width of words (§2(C)).
            Pipe::Checksum => self.add_words(lanes, Gauge::Four, VALUE),
            Pipe::Sum(gauge) => {
                let words = self.numbers(gauge);
                self.add_words(lanes, gauge, words);
            }
            Pipe::Hash(gauge) => {
                let words = self.numbers(gauge);
                self.code.store(words, (Base::Frame, Frame::WORDS));
                let hash = Frame::register(number);
                self.code.hash(hash, FNV_PRIME, Frame::WORDS, gauge.bytes());
            }
            Pipe::Swap(gauge) => self.swap(VALUE, gauge),
            Pipe::Xor(gauge, word) => self.with_word(Operation::Xor, gauge, word),
            Pipe::And(gauge, word) => self.with_word(Operation::And, gauge, word),
            Pipe::Or(gauge, word) => self.with_word(Operation::Or, gauge, word),
        }
    }

    fn with_word(&mut self, operation: Operation, gauge: Gauge, word: u64) {
        let word = self.constant([gauge.repeat(word); 4]);
        self.compute(operation, VALUE, VALUE, word);
    }

    /// Where the numbers of the words are that lie in the value.
    fn numbers(&mut self, gauge: Gauge) -> Vector {
        match gauge {
            Gauge::One => VALUE,
            _ => {
                self.swap(WORDS, gauge);
                WORDS
            }
        }
    }

    fn swap(&mut self, to: Vector, gauge: Gauge) {
        let last = gauge.bytes() as u64 - 1;
        let half = |first: u64| {
            (0..8).fold(0, |order, byte| {
                order | (((first + byte) ^ last) << (8 * byte))
            })
        };
        let order = self.constant([half(0), half(8), half(0), half(8)]);
        self.compute(Operation::Shuffle, to, VALUE, order);
    }

    fn add_words(&mut self, lanes: Vector, gauge: Gauge, words: Vector) {
        match gauge {
            Gauge::One => {
                let zero = Operand::Register(WORDS);
                self.compute(Operation::Xor, WORDS, WORDS, zero);
                self.compute(Operation::SumBytes, WORDS, words, zero);
                self.add(lanes, WORDS);
            }
            Gauge::Two => {
                self.halve(gauge, words);
                self.compute(Operation::Add32, WORDS, WORDS, Operand::Register(HALVES));
                self.add_words(lanes, Gauge::Four, WORDS);
            }
            Gauge::Four => {
                self.halve(gauge, words);
                self.add(WORDS, HALVES);
                self.add(lanes, WORDS);
            }
            Gauge::Eight => self.add(lanes, words),
        }
    }

    /// The lower and the upper of each two words, as words of twice the width.
    fn halve(&mut self, gauge: Gauge, words: Vector) {
        let mask = match gauge {
            Gauge::Two => 0x0000_ffff_0000_ffff,
            _ => 0x0000_0000_ffff_ffff,
        };
        let mask = self.constant([mask; 4]);
        self.compute(Operation::And, HALVES, words, mask);
        let bits = 8 * gauge.bytes();
        self.code
            .shift_right(2 * gauge.bytes(), WORDS, words, bits as u8);
    }

    fn add(&mut self, lanes: Vector, words: Vector) {
        self.compute(Operation::Add64, lanes, lanes, Operand::Register(words));
    }

    fn compute(&mut self, operation: Operation, to: Vector, a: Vector, b: Operand) {
        self.code.compute(operation, to, a, b);
    }

    fn constant(&mut self, words: [u64; 4]) -> Operand {
        let constant = Constant(words);
        let known = self.constants.iter().position(|other| *other == constant);
        let number = known.unwrap_or_else(|| {
            self.constants.push(constant);
            self.constants.len() - 1
        });
        Operand::Memory((Base::Constants, (number * VECTOR) as u32))
    }
}
