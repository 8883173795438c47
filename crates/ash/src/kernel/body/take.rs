//! Bytes of the message on their way to a row.
//!
//! By themselves they are copied word by word where it is known which they are and they are few, else by one call. Through pipes each word is
//! loaded once, goes through all of them in a register, and is stored: written out for bytes that are known and few, else in a loop that the
//! verifier follows to the longest row.
//!
//! Where a prediction is wrong a loop reads on behind the bytes that it was to take, and stores on behind the row. Less than none are left then:
//! each word is masked with that, so that what it stores, and what it adds to its sum, is of nothing that the handler may not read.

use exos_filter::ebpf::{Alu, Condition as Jump, Emit, Helper, Reg, Size};

use super::super::{CONTEXT, Generator, LENGTH, MESSAGE, stack};
use crate::code::{Expression, Pipe, Take, VariableId};
use crate::limits::{MESSAGE_MAX, TAKEN_BY_WORDS_MAX};

/// What is at hand, and where it comes from and goes to; r1 and r2 are lost with each word.
pub(super) const WORD: Reg = Reg::R0;
const FROM: Reg = Reg::R3;
const LEFT: Reg = Reg::R4;
const INTO: Reg = Reg::R5;

/// First byte and number of bytes where both are known, and few.
fn few_taken(from: &Expression, length: &Expression) -> Option<(i32, i32)> {
    let (from, bytes) = (from.constant()?, length.constant()?);
    let is_there = from < u64::from(MESSAGE_MAX) && bytes <= TAKEN_BY_WORDS_MAX;
    is_there.then_some((from as i32, bytes as i32))
}

/// The longest word that this many bytes begin with.
fn word_of(bytes: i32) -> (Size, i32) {
    match bytes {
        8.. => (Size::Double, 8),
        4.. => (Size::Word, 4),
        2.. => (Size::Half, 2),
        _ => (Size::Byte, 1),
    }
}

impl Generator<'_> {
    pub(super) fn take(&mut self, take: &Take) {
        if let Some((from, bytes)) = self.few_for(take) {
            self.expect_known(take.row, from, bytes);
            self.each_known(bytes, |generator, (size, at)| {
                generator.load(size, WORD, MESSAGE, from + at);
                generator.store(size, INTO, at, WORD);
            });
            return;
        }
        let taken = self.label();
        let (start, bytes) = self.part_for(take, 1);
        self.jump_if(bytes, Jump::Less, 1, taken);
        self.load_start(Reg::R1);
        self.alu(Alu::Add, start, Reg::R1);
        self.kept(Reg::R3, stack::variable(take.row));
        self.set(Reg::R1, CONTEXT);
        self.call(Helper::XdpLoadBytes);
        self.jump_if(Reg::R0, Jump::NotEqual, 0, self.labels.give_up);
        self.bind(taken);
    }

    pub(super) fn take_through(&mut self, take: &Take) {
        let pipes = &take.pipes;
        self.compute_keys(pipes);
        let few = self.few_for(take);
        match few {
            Some((from, bytes)) => {
                self.expect_known(take.row, from, bytes);
                self.take_up_registers(pipes);
                self.each_known(bytes, |generator, (size, at)| {
                    generator.load(size, WORD, MESSAGE, (from + at) as i16);
                    generator.pass(pipes, size, (INTO, at as i16));
                });
            }
            None => {
                let widest = i32::from(Pipe::widest(pipes));
                let (start, _) = self.part_for(take, widest);
                self.pass_all(take.row, start, pipes);
            }
        }
        let last = few.map(|(from, bytes)| from + bytes - 1);
        self.keep_registers(pipes, &take.registers, last);
    }

    /// Bytes that are known and few, and for which a row has room.
    fn few_for(&self, take: &Take) -> Option<(i32, i32)> {
        let room = self.of.handler.handler().row_len(take.row) as i32;
        few_taken(&take.from, &take.length).filter(|(_, bytes)| *bytes <= room)
    }

    /// Sees to it that the message has these bytes; r5 is the row.
    fn expect_known(&mut self, row: VariableId, from: i32, bytes: i32) {
        let give_up = self.labels.give_up;
        self.jump_if(LENGTH, Jump::Less, from + bytes, give_up);
        self.expect_word(MESSAGE, from + bytes);
        self.kept(INTO, stack::variable(row));
    }

    /// Says what is so: the packet has this many bytes there.
    fn expect_word(&mut self, there: Reg, bytes: i32) {
        self.set(Reg::R1, there);
        self.alu(Alu::Add, Reg::R1, bytes);
        self.end_of_packet(Reg::R2);
        let give_up = self.labels.give_up;
        self.jump_if(Reg::R1, Jump::Greater, Reg::R2, give_up);
    }

    /// Something for each word of this many bytes.
    fn each_known(&mut self, bytes: i32, mut word: impl FnMut(&mut Self, (Size, i32))) {
        let mut at = 0;
        while at < bytes {
            let (size, len) = word_of(bytes - at);
            word(self, (size, at));
            at += len;
        }
    }

    /// A part of the message that there is, of whole words, and that a row has room for: its first byte, and how many, which wait in r4.
    /// r1 is lost.
    fn part_for(&mut self, take: &Take, word: i32) -> (Reg, Reg) {
        let give_up = self.labels.give_up;
        let room = self.of.handler.handler().row_len(take.row);
        let most = room.min(u32::from(MESSAGE_MAX));
        self.word(&take.from, 0);
        let waiting = stack::intermediate(0);
        self.keep(waiting, Reg::R0);
        self.word(&take.length, 1);
        let (start, bytes) = (Reg::R2, LEFT);
        self.set(bytes, Reg::R0);
        // Before it is told how many: the verifier would forget that.
        if word > 1 {
            self.jump_if(bytes, Jump::Set, word - 1, give_up);
        }
        self.jump_if(bytes, Jump::Greater, most as i32, give_up);
        self.kept(start, waiting);
        self.jump_if(start, Jump::Greater, i32::from(MESSAGE_MAX), give_up);
        self.set(Reg::R1, start);
        self.alu(Alu::Add, Reg::R1, bytes);
        self.jump_if(Reg::R1, Jump::Greater, LENGTH, give_up);
        self.clamp_part(start, bytes, Reg::R1);
        (start, bytes)
    }

    /// A loop over words of 8 bytes, then what is left by shorter ones, if pipes have such.
    fn pass_all(&mut self, row: VariableId, start: Reg, pipes: &[Pipe]) {
        let widest = i32::from(Pipe::widest(pipes));
        let [again, rest] = [self.label(), self.label()];
        self.set(FROM, MESSAGE);
        self.alu(Alu::Add, FROM, start);
        self.kept(INTO, stack::variable(row));
        self.take_up_registers(pipes);
        self.bind(again);
        self.jump_if(LEFT, Jump::Less, 8, rest);
        self.pass_next(pipes, 8);
        self.jump(again);
        self.bind(rest);
        for bytes in [4, 2, 1].into_iter().filter(|bytes| *bytes >= widest) {
            let none = self.label();
            self.set(Reg::R1, LEFT);
            self.alu(Alu::And, Reg::R1, bytes);
            self.jump_if(Reg::R1, Jump::Equal, 0, none);
            self.pass_next(pipes, bytes);
            self.bind(none);
        }
    }

    /// A word, 0 where fewer bytes are left, and on to the next.
    fn pass_next(&mut self, pipes: &[Pipe], bytes: i32) {
        let (size, there) = (word_of(bytes).0, Reg::R2);
        self.expect_word(FROM, bytes);
        self.load(size, WORD, FROM, 0);
        self.alu(Alu::Sub, LEFT, bytes);
        self.set(there, LEFT);
        self.alu(Alu::SignedShiftRight, there, 63);
        self.alu(Alu::Xor, there, -1);
        self.alu(Alu::And, WORD, there);
        self.pass(pipes, size, (INTO, 0));
        self.alu(Alu::Add, FROM, bytes);
        self.alu(Alu::Add, INTO, bytes);
    }
}
