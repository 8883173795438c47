//! Programs at work: one instruction after the other.

use std::borrow::Borrow;
use std::sync::atomic::AtomicU64;

use super::insn::{Insn, Wide, class};
use super::layout::{MAPS, VALUES};
use super::machine::{Program, Run};
use super::memory;

impl<W: Borrow<AtomicU64>> Program<'_, W> {
    /// Executes the instruction that is next; the verdict, when that was the last one.
    ///
    /// # Panics
    ///
    /// If it is unknown here, or the kernel would not have let it pass.
    pub fn step(&self, run: &mut Run) -> Option<u32> {
        let insn = self.next(run);
        run.at += 1;
        match insn.code & class::MASK {
            class::ALU32 | class::ALU64 => run.arithmetic(insn),
            class::JMP if insn.is_exit() => return Some(run.get(0) as u32),
            class::JMP if insn.is_call() => self.call(run, insn),
            class::JMP | class::JMP32 => run.jump(insn),
            class::LD => self.load_wide(run, insn),
            class::LDX => self.load(run, insn),
            class::ST | class::STX => self.store(run, insn),
            _ => unreachable!("three bits"),
        }
        None
    }

    /// Executes all that is left: the verdict.
    pub fn finish(&self, run: &mut Run) -> u32 {
        loop {
            if let Some(verdict) = self.step(run) {
                return verdict;
            }
        }
    }

    /// Whether the instruction that is next reads or writes a map's values: between two that do not, nobody can tell what
    /// happens first.
    pub fn is_shared(&self, run: &Run) -> bool {
        let insn = self.next(run);
        let base = match insn.code & class::MASK {
            class::LDX => insn.src,
            class::ST | class::STX => insn.dst,
            _ => return false,
        };
        memory::is_of_a_value(memory::offset(run.get(base), insn))
    }

    pub(super) fn next(&self, run: &Run) -> Insn {
        match self.words.get(run.at) {
            Some(word) => Insn::of_word(*word),
            None => panic!("there is no instruction {}", run.at),
        }
    }

    /// A constant of 64 bits, or a map: two instructions.
    pub(super) fn load_wide(&self, run: &mut Run, insn: Insn) {
        let upper = self.next(run);
        run.at += 1;
        let value = self.wide(insn, upper);
        run.set(
            insn.dst,
            value.unwrap_or_else(|| run.refuse("an unknown load of 64 bits, or of no map")),
        );
    }

    /// What an instruction of two words loads.
    pub(super) fn wide(&self, insn: Insn, upper: Insn) -> Option<u64> {
        let number = |fd| {
            let found = self.maps.iter().position(|(known, _)| *known == fd);
            found.map(|number| number as u64)
        };
        Some(match insn.wide(upper)? {
            Wide::Constant(value) => value,
            Wide::Map(fd) => MAPS + number(fd)?,
            Wide::Value(fd, at) => VALUES + (number(fd)? << 32) + u64::from(at),
        })
    }
}
