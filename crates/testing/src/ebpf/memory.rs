//! What a program can point at, and its loads and stores.
//!
//! Addresses are numbers of this interpreter's own: the high 32 bits say what they are of, the low ones where in it. Packet
//! and stack are the run's; values of maps are shared, and read and written a word at once.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::insn::{Access, Insn, class};
use super::layout::{CONTEXT, MAPS, PACKET, STACK, STACK_LEN, VALUES};
use super::machine::{Program, Run};

/// Where something lies.
enum Target<'a> {
    Packet(usize),
    Stack(usize),
    /// A byte of a word.
    Shared(&'a AtomicU64, usize),
}

/// An instruction's address, from what its register holds.
pub(super) fn offset(base: u64, insn: Insn) -> u64 {
    base.wrapping_add_signed(insn.offset.into())
}

pub(super) const fn is_of_a_value(address: u64) -> bool {
    address >= VALUES
}

impl<W: Borrow<AtomicU64>> Program<'_, W> {
    pub(super) fn load(&self, run: &mut Run, insn: Insn) {
        if insn.access() != Some(Access::Plain) {
            run.refuse("an unknown load");
        }
        let address = offset(run.get(insn.src), insn);
        let value = match address.wrapping_sub(CONTEXT) {
            // The kernel makes pointers of these two words: data and data_end.
            0 if insn.len() == 4 => PACKET,
            4 if insn.len() == 4 => PACKET + run.packet.len() as u64,
            _ => self.read(run, address, insn.len()),
        };
        run.set(insn.dst, value);
    }

    pub(super) fn store(&self, run: &mut Run, insn: Insn) {
        let Some(access) = insn.access() else {
            run.refuse("an unknown store");
        };
        let address = offset(run.get(insn.dst), insn);
        let value = match insn.code & class::MASK {
            class::ST => i64::from(insn.imm) as u64,
            _ => run.get(insn.src),
        };
        match access {
            Access::Plain => self.write(run, address, insn.len(), value),
            Access::Add => {
                self.exchange(run, address, |old| old.wrapping_add(value));
            }
            Access::FetchAdd => {
                let old = self.exchange(run, address, |old| old.wrapping_add(value));
                run.set(insn.src, old);
            }
            Access::CompareExchange => {
                let wanted = run.get(0);
                let change = |old| if old == wanted { value } else { old };
                let old = self.exchange(run, address, change);
                run.set(0, old);
            }
        }
    }

    /// The value of a map at this place among all of them, if it is there.
    pub(super) fn value(&self, run: &Run, map: u64, at: u32) -> Option<u64> {
        let number = map.wrapping_sub(MAPS);
        let map = self.maps.get(number as usize);
        let Some((words, value_len)) = map.and_then(|(_, map)| map.values()) else {
            run.refuse("no map of values");
        };
        let is_there = (at as usize) < words.len() * 8 / value_len;
        is_there.then(|| VALUES + (number << 32) + u64::from(at) * value_len as u64)
    }

    /// This many bytes, as a number.
    fn read(&self, run: &Run, address: u64, len: usize) -> u64 {
        match self.target(run, address, len) {
            Target::Packet(at) => of_bytes(&run.packet[at..at + len]),
            Target::Stack(at) => of_bytes(&run.stack[at..at + len]),
            Target::Shared(word, at) => {
                let bytes = word.load(Ordering::SeqCst).to_ne_bytes();
                of_bytes(&bytes[at..at + len])
            }
        }
    }

    fn write(&self, run: &mut Run, address: u64, len: usize, value: u64) {
        match self.target(run, address, len) {
            Target::Packet(at) => put(&mut run.packet[at..at + len], value),
            Target::Stack(at) => put(&mut run.stack[at..at + len], value),
            Target::Shared(word, at) => {
                change(word, |old| {
                    let mut bytes = old.to_ne_bytes();
                    put(&mut bytes[at..at + len], value);
                    u64::from_ne_bytes(bytes)
                });
            }
        }
    }

    /// Changes a word at once: what it was.
    fn exchange(&self, run: &mut Run, address: u64, new: impl Fn(u64) -> u64) -> u64 {
        match self.target(run, address, 8) {
            Target::Packet(_) => run.refuse("an atomic access to the packet"),
            Target::Stack(at) => {
                let old = of_bytes(&run.stack[at..at + 8]);
                put(&mut run.stack[at..at + 8], new(old));
                old
            }
            Target::Shared(word, _) => change(word, new),
        }
    }

    /// Bytes that a helper reads: of the packet or the stack.
    pub(super) fn bytes<'r>(&self, run: &'r Run, address: u64, len: usize) -> &'r [u8] {
        match self.target(run, address, len) {
            Target::Packet(at) => &run.packet[at..at + len],
            Target::Stack(at) => &run.stack[at..at + len],
            Target::Shared(..) => run.refuse("a helper that reads a map's value"),
        }
    }

    /// Bytes that a helper writes: of the stack.
    pub(super) fn stack_bytes<'r>(
        &self,
        run: &'r mut Run,
        address: u64,
        len: usize,
    ) -> &'r mut [u8] {
        match self.target(run, address, len) {
            Target::Stack(at) => &mut run.stack[at..at + len],
            _ => run.refuse("a helper that writes elsewhere than to the stack"),
        }
    }

    /// Where these bytes lie, all of them in one of what there is to point at.
    fn target(&self, run: &Run, address: u64, len: usize) -> Target<'_> {
        let at = address as u32 as usize;
        let is_within = |room: usize| at + len <= room;
        match address & !0xffff_ffff {
            PACKET if is_within(run.packet.len()) => Target::Packet(at),
            STACK if is_within(STACK_LEN) => Target::Stack(at),
            VALUES.. if at % 8 + len <= 8 => {
                let number = (address - VALUES) >> 32;
                let map = self.maps.get(number as usize);
                let Some((words, _)) = map.and_then(|(_, map)| map.values()) else {
                    run.refuse("no such map");
                };
                match words.get(at / 8) {
                    Some(word) => Target::Shared(word.borrow(), at % 8),
                    None => run.refuse("beyond a map's values"),
                }
            }
            _ => run.refuse(&format!("no {len} bytes at {address:#x}")),
        }
    }
}

/// Changes a word at once: what it was.
fn change(word: &AtomicU64, new: impl Fn(u64) -> u64) -> u64 {
    let order = Ordering::SeqCst;
    let old = word.fetch_update(order, order, |old| Some(new(old)));
    old.unwrap_or_else(|_| unreachable!("it always changes"))
}

/// Where a number of this many bytes is among the eight of the machine.
const fn low(len: usize) -> std::ops::Range<usize> {
    match cfg!(target_endian = "little") {
        true => 0..len,
        false => 8 - len..8,
    }
}

fn of_bytes(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[low(bytes.len())].copy_from_slice(bytes);
    u64::from_ne_bytes(all)
}

fn put(bytes: &mut [u8], value: u64) {
    let range = low(bytes.len());
    bytes.copy_from_slice(&value.to_ne_bytes()[range]);
}
