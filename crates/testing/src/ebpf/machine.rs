//! The machine: programs, and packets on their way through them.

use std::borrow::Borrow;
use std::sync::atomic::AtomicU64;

use super::insn::{Insn, class, source};
use super::layout::{CONTEXT, STACK, STACK_LEN};

/// Instructions with the maps that they name, by descriptor. Words of maps are atomic, or have something atomic in them.
#[derive(Debug)]
pub struct Program<'a, W = AtomicU64> {
    pub(super) words: &'a [u64],
    pub(super) maps: Vec<(i32, Map<'a, W>)>,
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
    /// A table: a value of this many bytes for each key, all of them of one length.
    Table {
        /// The keys.
        keys: &'a [Vec<u8>],
        /// Their values, one after the other.
        words: &'a [W],
        /// Bytes of one: whole words.
        value_len: usize,
    },
    /// Programs to go on to, of which none is there.
    Programs,
}

impl<W> Map<'_, W> {
    /// All values, and the bytes of one.
    pub(super) const fn values(&self) -> Option<(&[W], usize)> {
        match self {
            Self::Array { words, value_len }
            | Self::Table {
                words, value_len, ..
            } => Some((words, *value_len)),
            Self::Programs => None,
        }
    }
}

/// A packet on its way through a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The instruction that is next.
    pub(super) at: usize,
    /// What nothing was written to yet, or a call has left without meaning, is none.
    pub(super) registers: [Option<u64>; 11],
    pub(super) stack: [u8; STACK_LEN],
    pub(super) packet: Vec<u8>,
    pub(super) now_ns: u64,
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

    pub(super) fn get(&self, register: u8) -> u64 {
        match self.registers.get(usize::from(register)) {
            Some(Some(value)) => *value,
            _ => self.refuse(&format!("r{register} holds nothing")),
        }
    }

    pub(super) fn set(&mut self, register: u8, value: u64) {
        match self.registers.get_mut(usize::from(register)) {
            Some(place) if register != 10 => *place = Some(value),
            _ => self.refuse(&format!("r{register} cannot be written")),
        }
    }

    /// The second operand: a register, or the immediate, which grows by its sign.
    pub(super) fn operand(&self, insn: Insn) -> u64 {
        match insn.code & source::REGISTER {
            0 => i64::from(insn.imm) as u64,
            _ => self.get(insn.src),
        }
    }

    pub(super) fn arithmetic(&mut self, insn: Insn) {
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

    pub(super) fn jump(&mut self, insn: Insn) {
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
    pub(super) fn refuse(&self, why: &str) -> ! {
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
            if let Some((words, value_len)) = map.values() {
                let is_whole = value_len > 0
                    && value_len.is_multiple_of(8)
                    && words.len().is_multiple_of(value_len / 8);
                assert!(is_whole, "map {fd}: values of {value_len} bytes");
            }
        }
        Self { words, maps }
    }
}
