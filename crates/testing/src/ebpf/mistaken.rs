//! What a processor does ahead, with wrong predictions of where jumps go: which addresses it reaches, where the other jumps go, and whether they
//! tell what no instruction should have read.
//!
//! Everything a program cannot point at, what is behind a packet or a map's values, and what nobody has written to the stack, reads as
//! one byte. A program that is run twice, with other such bytes and the same jumps wrong, reaches the same addresses if none of them becomes
//! one, and takes the same ways if none decides a jump (Guarnieri and others, *Spectector*, 2020: speculative non-interference).
//!
//! It is also told where a program reaches beyond the values of its maps at all. An array's number is not compared with how many there are when
//! a value is looked up: that comparison may come out wrongly, and no mask stands behind it (`array_map_gen_lookup`, for who is privileged).
//!
//! Bounds: loads and stores are in the program's order, and what is stored is what is loaded, also by an atomic change. What helpers read and
//! write is followed of those that copy.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::insn::{Insn, class};
use super::layout::{CONTEXT, MAPS, PACKET, STACK, STACK_LEN, VALUES};
use super::machine::{Map, Program};

/// Instructions that are executed behind a wrong prediction.
const AHEAD: usize = 600;
/// Instructions before one.
const STEPS: usize = 100_000;

const MAP_LOOKUP_ELEM: i32 = 1;
const CSUM_DIFF: i32 = 28;
const XDP_ADJUST_TAIL: i32 = 65;
const XDP_GET_BUFF_LEN: i32 = 188;
const XDP_LOAD_BYTES: i32 = 189;
const XDP_STORE_BYTES: i32 = 190;
const TAIL_CALL: i32 = 12;
/// Bytes that are copied of what a helper is asked for, and of a packet.
const COPIED_MAX: u64 = 4096;

/// What was done ahead.
#[derive(Debug)]
pub struct Ahead {
    /// The addresses, and what helpers were told of such, in order.
    pub reached: Vec<u64>,
    /// Those of bytes that are behind the values of a map, or before them.
    pub beyond: Vec<u64>,
    /// Each jump with a condition: which of the instructions it is, and whether it went.
    pub jumps: Vec<(usize, bool)>,
    /// What instructions may take longer or shorter for, or decide a jump of the machine code: both numbers of a division, and both that are
    /// compared before a word is changed.
    pub timed: Vec<u64>,
}

impl Program<'_, AtomicU64> {
    /// Runs a packet through the program, whose maps stay as they are. Jumps with a condition go where they should, but for those with the
    /// numbers `wrong`, as they are in [`Ahead::jumps`].
    pub fn ahead(&self, packet: &[u8], unknown: u8, wrong: &[usize]) -> Ahead {
        self.ahead_with(&[], packet, unknown, wrong)
    }

    /// As [`Self::ahead`], with metadata before the packet.
    pub fn ahead_with(
        &self,
        metadata: &[u8],
        packet: &[u8],
        unknown: u8,
        wrong: &[usize],
    ) -> Ahead {
        let meta = PACKET - metadata.len() as u64;
        let mut registers = [u64::from_ne_bytes([unknown; 8]); 11];
        registers[1] = CONTEXT;
        registers[10] = STACK + STACK_LEN as u64;
        let mut way = Way {
            program: self,
            at: 0,
            registers,
            packet,
            len: packet.len() as u64,
            meta,
            written: (meta..).zip(metadata.iter().copied()).collect(),
            unknown,
            is_wrong: false,
            done: Ahead {
                reached: Vec::new(),
                beyond: Vec::new(),
                jumps: Vec::new(),
                timed: Vec::new(),
            },
        };
        let mut left = STEPS;
        while left > 0 && way.step(wrong).is_some() {
            left = match way.is_wrong {
                true => left.min(AHEAD) - 1,
                false => left - 1,
            };
        }
        way.done
    }
}

struct Way<'a> {
    program: &'a Program<'a, AtomicU64>,
    at: usize,
    registers: [u64; 11],
    packet: &'a [u8],
    /// The packet's length, as far as it was changed.
    len: u64,
    /// Where the metadata before it begins.
    meta: u64,
    /// Bytes that were written, by their addresses.
    written: HashMap<u64, u8>,
    unknown: u8,
    is_wrong: bool,
    done: Ahead,
}

impl Way<'_> {
    /// Executes an instruction; `None` where none follows.
    fn step(&mut self, wrong: &[usize]) -> Option<()> {
        let insn = self.insn()?;
        let dst = usize::from(insn.dst);
        match insn.code & class::MASK {
            class::ALU32 | class::ALU64 => self.registers[dst] = self.arithmetic(insn)?,
            class::JMP if insn.is_exit() => return None,
            class::JMP if insn.is_call() => self.call(insn)?,
            class::JMP | class::JMP32 => self.jump(insn, wrong)?,
            class::LD => {
                let upper = self.insn()?;
                self.registers[dst] = self.program.wide(insn, upper)?;
            }
            class::LDX => self.registers[dst] = self.load(insn),
            _ => self.store(insn),
        }
        Some(())
    }

    fn insn(&mut self) -> Option<Insn> {
        let word = self.program.words.get(self.at)?;
        self.at += 1;
        Some(Insn::of_word(*word))
    }

    fn operand(&self, insn: Insn) -> u64 {
        match insn.code & super::insn::source::REGISTER {
            0 => i64::from(insn.imm) as u64,
            _ => self.registers[usize::from(insn.src)],
        }
    }

    fn arithmetic(&mut self, insn: Insn) -> Option<u64> {
        let is_wide = insn.code & class::MASK == class::ALU64;
        let before = self.registers[usize::from(insn.dst)];
        if insn.is_division() {
            self.done.timed.extend([before, self.operand(insn)]);
        }
        let value = match (insn.swap(), insn.is_move(), is_wide) {
            (Some(swap), ..) => return Some(swap(before)),
            (None, true, _) => self.operand(insn),
            (None, false, true) => insn.compute::<64>(before, self.operand(insn))?,
            (None, false, false) => insn.compute::<32>(before, self.operand(insn))?,
        };
        Some(if is_wide { value } else { value & 0xffff_ffff })
    }

    fn jump(&mut self, insn: Insn, wrong: &[usize]) -> Option<()> {
        let goes = insn.is_jump_always() || {
            let number = self.done.jumps.len();
            let should = insn.compare(self.registers[usize::from(insn.dst)], self.operand(insn))?;
            let goes = should != wrong.contains(&number);
            self.is_wrong |= goes != should;
            self.done.jumps.push((self.at - 1, goes));
            goes
        };
        if goes {
            self.at = self.at.checked_add_signed(insn.offset.into())?;
        }
        Some(())
    }

    /// Its arguments are lost. What would change more than bytes nobody does ahead.
    fn call(&mut self, insn: Insn) -> Option<()> {
        let [_, map, from, to, len, seed] = *self.registers.first_chunk()?;
        let mut result = 0;
        match insn.imm {
            // A function of the kernel that is no helper.
            _ if insn.src != 0 => {}
            TAIL_CALL => return None,
            MAP_LOOKUP_ELEM => result = self.look_up(map, from),
            CSUM_DIFF => result = seed.wrapping_add(self.sum(to, len)),
            XDP_GET_BUFF_LEN => result = self.len,
            XDP_ADJUST_TAIL => {
                let new = self.len.wrapping_add(from);
                match (14..COPIED_MAX).contains(&new) {
                    true => self.len = new,
                    false => result = u64::MAX,
                }
            }
            XDP_LOAD_BYTES => self.copy(PACKET.wrapping_add(from), to, len),
            XDP_STORE_BYTES => self.copy(to, PACKET.wrapping_add(from), len),
            _ => {}
        }
        self.registers[1..6].fill(u64::from_ne_bytes([self.unknown; 8]));
        self.registers[0] = result;
        Some(())
    }

    /// Where an array has a value of this number, if it has as many or not; none of what is no array.
    fn look_up(&mut self, map: u64, key: u64) -> u64 {
        let number = map.wrapping_sub(MAPS);
        let map = self.program.maps.get(number as usize);
        let Some((_, Map::Array { words, value_len })) = map else {
            return 0;
        };
        let (len, value_len) = (8 * words.len() as u64, *value_len as u64);
        let at = self.read(key, 4) * value_len;
        let value = VALUES + (number << 32) + at;
        self.done.reached.push(value);
        if at >= len {
            self.done.beyond.push(value);
        }
        value
    }

    /// The sum of what is added (`bpf_csum_diff`).
    fn sum(&mut self, to: u64, len: u64) -> u64 {
        self.reach(to, len.max(1));
        self.done.reached.push(len);
        let bytes = (0..len.min(COPIED_MAX)).map(|at| u64::from(self.byte(to.wrapping_add(at))));
        let halves = bytes.zip([0, 8].into_iter().cycle());
        halves.map(|(byte, shift)| byte << shift).sum()
    }

    fn reach(&mut self, address: u64, len: u64) {
        self.done.reached.push(address);
        let last = address.wrapping_add(len - 1);
        let is_of_one = address >> 32 == last >> 32 && address <= last;
        let is_within = is_of_one && self.is_of_value(address) && self.is_of_value(last);
        if address >= VALUES && !is_within {
            self.done.beyond.push(address);
        }
    }

    fn copy(&mut self, from: u64, to: u64, len: u64) {
        for address in [from, to] {
            self.reach(address, len.max(1));
        }
        self.done.reached.push(len);
        for at in 0..len.min(COPIED_MAX) {
            let byte = self.byte(from.wrapping_add(at));
            self.written.insert(to.wrapping_add(at), byte);
        }
    }

    fn load(&mut self, insn: Insn) -> u64 {
        let address = super::memory::offset(self.registers[usize::from(insn.src)], insn);
        match address.wrapping_sub(CONTEXT) {
            0 => PACKET,
            4 => PACKET + self.len,
            8 if insn.len() == 4 => self.meta,
            _ => self.read(address, insn.len()),
        }
    }

    fn read(&mut self, address: u64, len: usize) -> u64 {
        self.reach(address, len as u64);
        let mut bytes = [0; 8];
        for (at, byte) in bytes[..len].iter_mut().enumerate() {
            *byte = self.byte(address.wrapping_add(at as u64));
        }
        u64::from_le_bytes(bytes)
    }

    fn store(&mut self, insn: Insn) {
        let address = super::memory::offset(self.registers[usize::from(insn.dst)], insn);
        let is_atomic = insn.code & 0xe0 == 0xc0;
        self.reach(address, insn.len() as u64);
        let value = match insn.code & class::MASK {
            _ if is_atomic => self.change(insn, address),
            class::ST => i64::from(insn.imm) as u64,
            _ => self.registers[usize::from(insn.src)],
        };
        for (at, byte) in value.to_le_bytes()[..insn.len()].iter().enumerate() {
            self.written.insert(address.wrapping_add(at as u64), *byte);
        }
    }

    /// What a word becomes; a register becomes what it was (RFC 9669 §5.3).
    fn change(&mut self, insn: Insn, address: u64) -> u64 {
        const FETCH: i32 = 0x01;
        const EXCHANGE: i32 = 0xe1;
        const COMPARE_EXCHANGE: i32 = 0xf1;
        let before = self.read(address, insn.len());
        let (expected, value) = (self.registers[0], self.registers[usize::from(insn.src)]);
        let kept = if insn.imm == COMPARE_EXCHANGE {
            0
        } else {
            insn.src
        };
        if insn.imm & FETCH != 0 {
            self.registers[usize::from(kept)] = before;
        }
        match insn.imm {
            EXCHANGE => value,
            COMPARE_EXCHANGE => {
                self.done.timed.extend([before, expected]);
                if before == expected { value } else { before }
            }
            // What is left are operations of arithmetic.
            imm => {
                let code = (imm & 0xf0) as u8;
                let operation = Insn { code, ..insn };
                operation.compute::<64>(before, value).unwrap_or(before)
            }
        }
    }

    fn byte(&self, address: u64) -> u8 {
        let known = self.written.get(&address).copied();
        let known = known.or_else(|| match address & !0xffff_ffff {
            PACKET => self.of_packet(address - PACKET),
            VALUES.. => self.of_value(address - VALUES),
            _ => None,
        });
        known.unwrap_or(self.unknown)
    }

    /// What a packet was made longer by is zero.
    fn of_packet(&self, at: u64) -> Option<u8> {
        let byte = self.packet.get(at as usize).copied().unwrap_or(0);
        (at < self.len).then_some(byte)
    }

    fn of_value(&self, at: u64) -> Option<u8> {
        let word = self.word_of_value(at)?.load(Ordering::Relaxed);
        Some(word.to_ne_bytes()[at as usize % 8])
    }

    fn is_of_value(&self, address: u64) -> bool {
        self.word_of_value(address.wrapping_sub(VALUES)).is_some()
    }

    fn word_of_value(&self, at: u64) -> Option<&AtomicU64> {
        let (_, map) = self.program.maps.get((at >> 32) as usize)?;
        let Map::Array { words, .. } = map else {
            return None;
        };
        words.get(at as u32 as usize / 8)
    }
}
