//! What code is emitted with: the registers, what is known of the packet so far, bounds checks and words.
//!
//! A bounds check is emitted only where the length is not known already: [`Known`] carries what has been checked on
//! the way to the present instruction. The verifier follows the same reasoning, so what is known here is known there.
//! No unreachable instruction may be emitted: the verifier refuses programs that have one.

use super::compiled::xdp;
use super::plan::{Class, Version};
use super::rules::{Action, ProgramMaps};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Label, Reg, Size};
use crate::literal::{Base, Test, Width};
use crate::packet::NETWORK;

pub(super) const CONTEXT: Reg = Reg::R1;
/// The frame, moved on by a VLAN tag.
pub(super) const FRAME: Reg = Reg::R2;
pub(super) const END: Reg = Reg::R3;
/// The frame as it came.
pub(super) const LINK: Reg = Reg::R4;
pub(super) const TYPE: Reg = Reg::R5;
pub(super) const TRANSPORT: Reg = Reg::R6;
pub(super) const PROTOCOL: Reg = Reg::R7;
pub(super) const SCRATCH: Reg = Reg::R0;
pub(super) const SCRATCH2: Reg = Reg::R8;

/// Bytes known to be in the packet behind each pointer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub(super) link: usize,
    pub(super) frame: usize,
    pub(super) transport: usize,
    /// What is in [`SCRATCH`].
    pub(super) word: Option<Word>,
}

/// A word of the packet, masked: in host order for ranges, in memory order otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    base: Base,
    offset: usize,
    width: Width,
    mask: u32,
    host_order: bool,
}

impl Word {
    pub(super) fn of(test: &Test) -> Self {
        let (low, high) = test.bounds();
        Self {
            base: test.base(),
            offset: test.offset(),
            width: test.width(),
            mask: test.mask(),
            host_order: low != high,
        }
    }

    /// A value of the word as it lies in memory.
    pub(super) fn value_in_memory(&self, value: u32) -> u32 {
        in_memory_order(self.width, value) as u32
    }
}

impl Known {
    /// Of a packet of at least this many bytes.
    pub(super) fn frame(length: usize) -> Self {
        Self {
            link: length,
            frame: length,
            ..Self::default()
        }
    }

    /// The pointer that a base counts from, its distance to the base, and the bytes known behind it.
    pub(super) fn behind(&mut self, base: Base) -> Option<(Reg, usize, &mut usize)> {
        match base {
            Base::Type | Base::Protocol => None,
            Base::Network => Some((FRAME, NETWORK, &mut self.frame)),
            Base::Transport => Some((TRANSPORT, 0, &mut self.transport)),
            Base::Link => Some((LINK, 0, &mut self.link)),
        }
    }
}

/// A verdict's code: emitted where it is first reached without a jump, otherwise at the end.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) label: Option<Label>,
    pub(super) emitted: bool,
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// In the driver, on frames.
    Xdp,
    /// In traffic control, on socket buffers that come in.
    Ingress {
        /// What is claimed gets this.
        mark: u32,
    },
}

pub(super) struct Emitter<'a> {
    pub(super) asm: Assembler,
    pub(super) hook: Hook,
    pub(super) maps: &'a ProgramMaps,
    /// What to do when a queue has no socket.
    pub(super) fallback: i32,
    pub(super) verdicts: [Verdict; 3],
    /// The code that counts, once it is there.
    pub(super) count: Option<Label>,
}

impl Emit for Emitter<'_> {
    fn asm(&mut self) -> &mut Assembler {
        &mut self.asm
    }
}

impl<'a> Emitter<'a> {
    pub(super) fn new(maps: &'a ProgramMaps, otherwise: Action, hook: Hook) -> Self {
        let fallback = if otherwise == Action::Drop {
            xdp::DROP
        } else {
            xdp::PASS
        };
        Self {
            asm: Assembler::new(),
            hook,
            maps,
            fallback,
            verdicts: Default::default(),
            count: None,
        }
    }

    /// One bounds check for all tests to come: jump to `short` when the base has fewer than `end` bytes.
    pub(super) fn require(&mut self, base: Base, end: usize, known: &mut Known, short: Label) {
        let Some((pointer, skew, length)) = known.behind(base) else {
            return;
        };
        if end == 0 || *length >= skew + end {
            return;
        }
        *length = skew + end;
        known.word = None;
        self.set(SCRATCH, pointer);
        self.alu(Alu::Add, SCRATCH, (skew + end) as i32);
        self.jump_if(SCRATCH, Condition::Greater, END, short);
    }

    /// The word, masked, in the register that is returned: as [`Word`] says.
    pub(super) fn word(&mut self, test: &Test, class: Class, known: &mut Known) -> Reg {
        let word = Word::of(test);
        let partial = word.mask != word.width.max();
        let (pointer, offset) = match (test.base(), class) {
            (Base::Type, _) => (TYPE, None),
            (Base::Protocol, Class::Ip(Version::V6, _)) => (PROTOCOL, None),
            (Base::Protocol, _) => (FRAME, Some(NETWORK + 9)),
            (Base::Network, _) => (FRAME, Some(NETWORK + test.offset())),
            (Base::Transport, _) => (TRANSPORT, Some(test.offset())),
            (Base::Link, _) => (LINK, Some(test.offset())),
        };
        match offset {
            None if !partial && !word.host_order => return pointer,
            _ if known.word == Some(word) => return SCRATCH,
            None => self.set(SCRATCH, pointer),
            Some(offset) => self.load(size(word.width), SCRATCH, pointer, offset),
        }
        if word.host_order && word.width != Width::Byte {
            self.to_big_endian(SCRATCH, 8 * word.width.bytes() as i32);
        }
        if partial {
            let mask = if word.host_order {
                word.mask as i32
            } else {
                in_memory_order(word.width, word.mask)
            };
            self.alu32(Alu::And, SCRATCH, mask);
        }
        known.word = Some(word);
        SCRATCH
    }
}

fn size(width: Width) -> Size {
    match width {
        Width::Byte => Size::Byte,
        Width::Half => Size::Half,
        Width::Word => Size::Word,
    }
}

/// A big-endian word's value as a little-endian machine loads it; the same on big-endian ones.
pub(super) fn in_memory_order(width: Width, value: u32) -> i32 {
    match width {
        Width::Byte => value as i32,
        Width::Half => i32::from((value as u16).to_be()),
        Width::Word => value.to_be() as i32,
    }
}
