//! A word on its way through pipes.
//!
//! What each is made with waits on the stack, or its register does while it is not at hand: one at a time is in r9, between words that of the
//! first pipe that has one.

use exos_filter::ebpf::{Alu, Emit, Reg, Size};
use exos_filter::handler::arithmetic::{fold, set_wide};

use super::super::{Generator, KEPT, stack};
use super::take::WORD;
use crate::code::{FNV_PRIME, Pipe, VariableId};
use crate::limits::{PARTS_MAX, PIPES_MAX};

const _: () = assert!(PIPES_MAX <= PARTS_MAX, "they wait where a reply's parts do");

/// The register of a pipe, and what words are prepared in for it.
const REGISTER: Reg = KEPT;
const PART: Reg = Reg::R1;
const SPARE: Reg = Reg::R2;

impl Generator<'_> {
    /// Words that pipes are made with wait on the stack as 64 bits full of them; and what registers begin with, checksums in memory order.
    pub(super) fn compute_keys(&mut self, pipes: &[Pipe]) {
        for (number, pipe) in pipes.iter().enumerate() {
            let Some(word) = pipe.word() else {
                continue;
            };
            self.word(word, 0);
            match pipe {
                Pipe::Xor(bytes, _) | Pipe::And(bytes, _) | Pipe::Or(bytes, _) => {
                    self.fill_with(*bytes);
                }
                Pipe::Checksum(begin) if begin.constant() != Some(0) => self.begin_checksum(),
                _ => {}
            }
            let waiting = stack::part(number);
            self.keep(waiting, WORD);
        }
    }

    fn fill_with(&mut self, bytes: u8) {
        let bits = 8 * i32::from(bytes);
        match bytes {
            1 => self.alu(Alu::And, WORD, 0xff),
            _ => self.to_big_endian(WORD, bits),
        }
        if bytes < 8 {
            set_wide(&mut self.asm, PART, u64::MAX / (u64::MAX >> (64 - bits)));
            self.alu(Alu::Mul, WORD, PART);
        }
    }

    /// 64 bits become 16 that are congruent.
    fn begin_checksum(&mut self) {
        self.set(PART, WORD);
        self.alu(Alu::ShiftRight, PART, 32);
        self.alu32(Alu::Move, WORD, WORD);
        self.alu(Alu::Add, WORD, PART);
        fold(&mut self.asm, WORD, PART);
        self.to_big_endian(WORD, 16);
    }

    /// The first register comes to hand.
    pub(super) fn take_up_registers(&mut self, pipes: &[Pipe]) {
        if let Some(first) = Pipe::with_registers(pipes).next() {
            let waiting = stack::part(first);
            self.kept(REGISTER, waiting);
        }
    }

    /// Another register comes to hand.
    fn exchange(&mut self, at_hand: usize, number: usize) {
        if number != at_hand {
            self.keep(stack::part(at_hand), REGISTER);
            self.kept(REGISTER, stack::part(number));
        }
    }

    /// A word through all pipes. Of a short one the low bytes of the register count.
    pub(super) fn pass(&mut self, pipes: &[Pipe], size: Size, into: (Reg, i16)) {
        let first = Pipe::with_registers(pipes).next().unwrap_or(0);
        let mut at_hand = first;
        for (number, pipe) in pipes.iter().enumerate() {
            if pipe.has_register() {
                self.exchange(at_hand, number);
                at_hand = number;
            }
            match pipe {
                Pipe::Swap(bytes) => self.turn_round(*bytes),
                Pipe::Xor(..) => self.with_key(Alu::Xor, number),
                Pipe::And(..) => self.with_key(Alu::And, number),
                Pipe::Or(..) => self.with_key(Alu::Or, number),
                Pipe::Checksum(_) => self.add_to_checksum(size),
                Pipe::Sum(bytes, _) => self.add_words(*bytes, size),
                Pipe::Hash(bytes, _) => self.hash_words(*bytes, size),
            }
        }
        self.exchange(at_hand, first);
        self.store(size, into.0, into.1, WORD);
    }

    fn with_key(&mut self, change: Alu, number: usize) {
        let key = stack::part(number);
        self.kept(PART, key);
        self.alu(change, WORD, PART);
    }

    /// The bytes of each word in the register.
    fn turn_round(&mut self, bytes: u8) {
        const LOW_BYTES: u64 = 0x00ff_00ff_00ff_00ff;
        let (low, mask) = (PART, SPARE);
        match bytes {
            2 => {
                set_wide(&mut self.asm, mask, LOW_BYTES);
                self.set(low, WORD);
                self.alu(Alu::And, low, mask);
                self.alu(Alu::ShiftLeft, low, 8);
                self.alu(Alu::ShiftRight, WORD, 8);
                self.alu(Alu::And, WORD, mask);
                self.alu(Alu::Or, WORD, low);
            }
            4 => {
                self.to_big_endian(WORD, 64);
                self.set(low, WORD);
                self.alu(Alu::ShiftLeft, low, 32);
                self.alu(Alu::ShiftRight, WORD, 32);
                self.alu(Alu::Or, WORD, low);
            }
            _ => self.to_big_endian(WORD, 64),
        }
    }

    /// In memory order, which a checksum does not mind.
    fn add_to_checksum(&mut self, size: Size) {
        if size == Size::Double {
            self.set(PART, WORD);
            self.alu(Alu::ShiftRight, PART, 32);
            self.alu(Alu::Add, REGISTER, PART);
            self.alu32(Alu::Move, PART, WORD);
        } else {
            self.own_bytes(size);
        }
        self.alu(Alu::Add, REGISTER, PART);
    }

    /// r1 = the word, of a short one its own bytes alone.
    fn own_bytes(&mut self, size: Size) {
        match size {
            Size::Word => return self.alu32(Alu::Move, PART, WORD),
            _ => self.set(PART, WORD),
        }
        match size {
            Size::Half => self.alu(Alu::And, PART, 0xffff),
            Size::Byte => self.alu(Alu::And, PART, 0xff),
            Size::Word | Size::Double => {}
        }
    }

    /// Numbers that are shorter are added in pairs, and the pairs by a product, whose highest bits are the sum of all.
    fn add_words(&mut self, bytes: u8, size: Size) {
        self.own_bytes(size);
        if bytes > 1 {
            self.to_big_endian(PART, 64);
        }
        let bits = 8 * i32::from(bytes);
        match bytes {
            8 => {}
            4 => {
                self.set(SPARE, PART);
                self.alu(Alu::ShiftRight, SPARE, bits);
                self.alu32(Alu::Move, PART, PART);
                self.alu(Alu::Add, PART, SPARE);
            }
            _ => {
                let pairs = u64::MAX / (u64::MAX >> (64 - 2 * bits));
                let lower = u64::MAX >> (64 - bits);
                set_wide(&mut self.asm, SPARE, pairs * lower);
                self.alu(Alu::And, SPARE, PART);
                self.alu(Alu::Sub, PART, SPARE);
                self.alu(Alu::ShiftRight, PART, bits);
                self.alu(Alu::Add, PART, SPARE);
                set_wide(&mut self.asm, SPARE, pairs);
                self.alu(Alu::Mul, PART, SPARE);
                self.alu(Alu::ShiftRight, PART, 64 - 2 * bits);
            }
        }
        self.alu(Alu::Add, REGISTER, PART);
    }

    fn hash_words(&mut self, bytes: u8, size: Size) {
        set_wide(&mut self.asm, SPARE, FNV_PRIME);
        let len = match size {
            Size::Double => 8,
            Size::Word => 4,
            Size::Half => 2,
            Size::Byte => 1,
        };
        for at in (0..len).step_by(bytes.into()) {
            self.set(PART, WORD);
            if at > 0 {
                self.alu(Alu::ShiftRight, PART, 8 * at);
            }
            match bytes {
                1 => self.alu(Alu::And, PART, 0xff),
                _ => self.to_big_endian(PART, 8 * i32::from(bytes)),
            }
            self.alu(Alu::Xor, REGISTER, PART);
            self.alu(Alu::Mul, REGISTER, SPARE);
        }
    }

    /// Variables become the registers; 0 where the message does not have the last byte of those that are known and few.
    pub(super) fn keep_registers(
        &mut self,
        pipes: &[Pipe],
        variables: &[VariableId],
        last: Option<i32>,
    ) {
        let numbers: Vec<_> = Pipe::with_registers(pipes).collect();
        for (number, variable) in numbers.iter().zip(variables) {
            if *number != numbers[0] {
                let waiting = stack::part(*number);
                self.kept(REGISTER, waiting);
            }
            if let Some(last) = last {
                self.set(PART, last);
                self.mask_of_part(PART);
                self.alu(Alu::And, REGISTER, PART);
            }
            if let Pipe::Checksum(_) = pipes[*number] {
                fold(&mut self.asm, REGISTER, PART);
                self.to_big_endian(REGISTER, 16);
                self.forget(REGISTER);
            }
            self.set(WORD, REGISTER);
            self.assign(*variable);
        }
    }
}
