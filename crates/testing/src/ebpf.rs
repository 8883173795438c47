//! An interpreter for the eBPF programs that are generated here, so that a test can stop one between any two of its steps,
//! look at it, and change the memory that it shares.
//!
//! A [`Program`] is instructions, as bpf(2) takes them, and the maps that they name. A [`Run`] is a packet on its way
//! through it: registers, stack and packet. [`Program::step`] executes one instruction; between two of them the run can be
//! cloned and compared, other runs go on, and the maps change.
//!
//! ```text
//! let mut run = Run::new(&frame, now_ns);
//! loop {
//!     // Anything may happen here.
//!     if let Some(verdict) = program.step(&mut run) { break verdict; }
//! }
//! ```
//!
//! Rules: it knows the instructions and helpers that the generator emits for programs that run on packets of the driver
//! (XDP). All else it refuses with a panic that says where: other instructions, and what the kernel's verifier would not have
//! let pass, such as accesses outside of packet, stack and values, and reads of registers that hold nothing. An instruction
//! is one step, and steps are in the program's order: what processors make of that is not here.
//!
//! It reads instructions by itself, and so depends on nothing that it is to check. That it agrees with the kernel is tested
//! where there are programs.
//!
//! Source: Linux Documentation/bpf/standardization/instruction-set.rst (RFC 9669).

mod disassembly;
mod helpers;
mod insn;
mod memory;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::sync::atomic::AtomicU64;

pub use disassembly::disassemble;
use insn::{Insn, class, source};
use memory::{CONTEXT, MAPS, STACK, STACK_LEN};

/// Instructions with the maps that they name, by descriptor. Words of maps are atomic, or have something atomic in them.
#[derive(Debug)]
pub struct Program<'a, W = AtomicU64> {
    words: &'a [u64],
    maps: Vec<(i32, Map<'a, W>)>,
}

/// What a program has as a map.
#[derive(Debug)]
pub enum Map<'a, W = AtomicU64> {
    /// An array of values of this many bytes, one after the other. Of one that has values for each processor, those of this one.
    Array {
        /// All of them.
        words: &'a [W],
        /// Bytes of one: whole words.
        value_len: usize,
    },
    /// Programs to go on to, of which none is there.
    Programs,
}

/// A packet on its way through a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The instruction that is next.
    at: usize,
    /// What nothing was written to yet, or a call has left without meaning, is none.
    registers: [Option<u64>; 11],
    stack: [u8; STACK_LEN],
    packet: Vec<u8>,
    now_ns: u64,
}

impl Run {
    /// A packet at the beginning of a program, at this time of the monotonic clock.
    pub fn new(packet: &[u8], now_ns: u64) -> Self {
        let mut registers = [None; 11];
        registers[1] = Some(CONTEXT);
        registers[10] = Some(STACK + STACK_LEN as u64);
        Self {
            at: 0,
            registers,
            // Not zero: nobody has written it.
            stack: [0xa5; STACK_LEN],
            packet: packet.to_vec(),
            now_ns,
        }
    }

    /// The packet as it is now.
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// The number of the instruction that is next.
    pub const fn at(&self) -> usize {
        self.at
    }

    fn get(&self, register: u8) -> u64 {
        match self.registers.get(usize::from(register)) {
            Some(Some(value)) => *value,
            _ => self.refuse(&format!("r{register} holds nothing")),
        }
    }

    fn set(&mut self, register: u8, value: u64) {
        match self.registers.get_mut(usize::from(register)) {
            Some(place) if register != 10 => *place = Some(value),
            _ => self.refuse(&format!("r{register} cannot be written")),
        }
    }

    /// The second operand: a register, or the immediate, which grows by its sign.
    fn operand(&self, insn: Insn) -> u64 {
        match insn.code & source::REGISTER {
            0 => i64::from(insn.imm) as u64,
            _ => self.get(insn.src),
        }
    }

    fn arithmetic(&mut self, insn: Insn) {
        if insn.offset != 0 {
            self.refuse("arithmetic with an offset");
        }
        let is_wide = insn.code & class::MASK == class::ALU64;
        let value = match (insn.swap(), insn.is_move()) {
            (Some(swap), _) => swap(self.get(insn.dst)),
            (None, true) => self.operand(insn),
            (None, false) => {
                let operands = (self.get(insn.dst), self.operand(insn));
                let value = match is_wide {
                    true => insn.compute::<64>(operands.0, operands.1),
                    false => insn.compute::<32>(operands.0, operands.1),
                };
                value.unwrap_or_else(|| self.refuse("unknown arithmetic"))
            }
        };
        let is_whole = is_wide || insn.swap().is_some();
        self.set(insn.dst, if is_whole { value } else { value as u32 as u64 });
    }

    fn jump(&mut self, insn: Insn) {
        let goes = insn.is_jump_always() || {
            let operands = (self.get(insn.dst), self.operand(insn));
            let holds = insn.compare(operands.0, operands.1);
            holds.unwrap_or_else(|| self.refuse("unknown condition"))
        };
        if goes {
            let to = self.at.checked_add_signed(insn.offset.into());
            self.at = to.unwrap_or_else(|| self.refuse("a jump before the beginning"));
        }
    }

    /// The instruction that is executed is none that is known here, or none that the kernel would execute.
    fn refuse(&self, why: &str) -> ! {
        panic!("instruction {}: {why}", self.at.wrapping_sub(1));
    }
}

impl<'a, W: Borrow<AtomicU64>> Program<'a, W> {
    /// Of these instructions, with these maps.
    ///
    /// # Panics
    ///
    /// If the words of an array are no whole values.
    pub fn new(words: &'a [u64], maps: Vec<(i32, Map<'a, W>)>) -> Self {
        for (fd, map) in &maps {
            if let Map::Array { words, value_len } = map {
                let is_whole = *value_len > 0
                    && value_len.is_multiple_of(8)
                    && words.len().is_multiple_of(value_len / 8);
                assert!(is_whole, "map {fd}: values of {value_len} bytes");
            }
        }
        Self { words, maps }
    }

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

    fn next(&self, run: &Run) -> Insn {
        match self.words.get(run.at) {
            Some(word) => Insn::of_word(*word),
            None => panic!("there is no instruction {}", run.at),
        }
    }

    /// A constant of 64 bits, or a map: two instructions.
    fn load_wide(&self, run: &mut Run, insn: Insn) {
        let upper = self.next(run);
        run.at += 1;
        let value = match insn.wide(upper) {
            Some(insn::Wide::Constant(value)) => value,
            Some(insn::Wide::Map(fd)) => {
                let number = self.maps.iter().position(|(known, _)| *known == fd);
                let number = number.unwrap_or_else(|| run.refuse(&format!("no map {fd}")));
                MAPS + number as u64
            }
            None => run.refuse("an unknown load of 64 bits"),
        };
        run.set(insn.dst, value);
    }
}
