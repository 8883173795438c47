//! Code for plans and literals.
//!
//! A bounds check is emitted only where the length is not known already: [`Known`] carries what has been checked on
//! the way to the present instruction. The verifier follows the same reasoning, so what is known here is known there.
//! No unreachable instruction may be emitted: the verifier refuses programs that have one.

use super::plan::{Class, Plan, Version};
use super::switch::Switch;
use super::verdicts::Verdict;
use super::{Action, ProgramMaps, xdp};
use crate::ebpf::{Alu, Assembler, Condition, Label, Reg, Size};
use crate::literal::{Base, Literal, Test, Width};
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
    word: Option<Word>,
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
    fn behind(&mut self, base: Base) -> Option<(Reg, usize, &mut usize)> {
        match base {
            Base::Type | Base::Protocol => None,
            Base::Network => Some((FRAME, NETWORK, &mut self.frame)),
            Base::Transport => Some((TRANSPORT, 0, &mut self.transport)),
            Base::Link => Some((LINK, 0, &mut self.link)),
        }
    }
}

/// Bytes behind `base` that a packet must have for any of these conjunctions to hold.
fn common_reach(conjunctions: &[(Vec<Literal>, Action)], base: Base) -> usize {
    let reach = |literals: &[Literal]| {
        let positive = literals
            .iter()
            .filter(|l| !l.negated && l.test.base() == base);
        positive.map(|l| l.test.end()).max().unwrap_or(0)
    };
    conjunctions
        .iter()
        .map(|(literals, _)| reach(literals))
        .min()
        .unwrap_or(0)
}

/// What code may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// The next instruction is reached.
    Continues,
    /// It is not.
    Ends,
}

pub(super) struct Emitter<'a> {
    pub(super) asm: Assembler,
    pub(super) maps: &'a ProgramMaps,
    /// What to do when a queue has no socket.
    pub(super) fallback: i32,
    pub(super) verdicts: [Verdict; 3],
    /// The code that counts, once it is there.
    pub(super) count: Option<Label>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(maps: &'a ProgramMaps, otherwise: Action) -> Self {
        let fallback = if otherwise == Action::Drop {
            xdp::DROP
        } else {
            xdp::PASS
        };
        Self {
            asm: Assembler::new(),
            maps,
            fallback,
            verdicts: Default::default(),
            count: None,
        }
    }

    /// All of a plan's tests and verdicts. Nothing falls out of its end.
    pub(super) fn plan(&mut self, plan: &Plan, class: Class, known: Known) {
        if plan.is_decided() {
            return self.verdict(plan.otherwise);
        }
        let otherwise = self.verdict_label(plan.otherwise);
        self.group(&plan.conjunctions, 0, class, known, otherwise);
    }

    /// Conjunctions that agree in their first `depth` literals, which have passed. `none` is where to go when no
    /// conjunction holds.
    pub(super) fn group(
        &mut self,
        conjunctions: &[(Vec<Literal>, Action)],
        depth: usize,
        class: Class,
        mut known: Known,
        none: Label,
    ) {
        let mut rest = conjunctions;
        if let Some(next) = conjunctions.first().and_then(|(first, _)| first.get(depth)) {
            let base = next.test.base();
            self.require(base, common_reach(conjunctions, base), &mut known, none);
        }
        while let Some((first, action)) = rest.first() {
            let Some(literal) = first.get(depth) else {
                // All its literals have passed; whatever comes behind it is not reached.
                return self.verdict(*action);
            };
            if let Some((switch, others)) = Switch::split(rest, depth) {
                let next = if others.is_empty() {
                    none
                } else {
                    self.asm.label()
                };
                self.switch(&switch, class, known, next);
                if others.is_empty() {
                    return;
                }
                self.asm.bind(next);
                known.word = None;
                rest = others;
                continue;
            }
            let same = rest
                .iter()
                .take_while(|(c, _)| c.get(depth) == Some(literal))
                .count();
            let (run, others) = rest.split_at(same);
            rest = others;
            let flow = match run {
                // The last literal of a conjunction with others behind it: to the verdict if it holds.
                [(only, action)] if only.len() == depth + 1 && !others.is_empty() => {
                    let holds = self.verdict_label(*action);
                    self.literal(&literal.negate(), class, &mut known, holds)
                }
                _ => {
                    let flow = self.branch(
                        literal,
                        run,
                        depth,
                        class,
                        known,
                        others.is_empty().then_some(none),
                    );
                    known.word = None;
                    flow
                }
            };
            if flow == Flow::Ends {
                return;
            }
        }
    }

    /// Conjunctions that all have `literal` at `depth`. On failure goes to `none`, or behind its end.
    fn branch(
        &mut self,
        literal: &Literal,
        run: &[(Vec<Literal>, Action)],
        depth: usize,
        class: Class,
        mut known: Known,
        none: Option<Label>,
    ) -> Flow {
        let next = none.unwrap_or_else(|| self.asm.label());
        if self.literal(literal, class, &mut known, next) == Flow::Continues {
            self.group(run, depth + 1, class, known, next);
        }
        // What nothing jumps to is not reached: a literal that is known to hold has no way to fail.
        if none.is_some() || !self.asm.is_target(next) {
            return Flow::Ends;
        }
        self.asm.bind(next);
        Flow::Continues
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
        self.asm.set(SCRATCH, pointer);
        self.asm.alu(Alu::Add, SCRATCH, (skew + end) as i32);
        self.asm.jump_if(SCRATCH, Condition::Greater, END, short);
    }

    /// Jump to `fail` unless the literal holds. What is learnt is added to `known`.
    fn literal(&mut self, literal: &Literal, class: Class, known: &mut Known, fail: Label) -> Flow {
        let test = &literal.test;
        let pass = self.asm.label();
        let absent = if literal.negated { pass } else { fail };
        let may_be_absent = known
            .behind(test.base())
            .is_some_and(|(_, skew, length)| *length < skew + test.end());
        let flow = if test.is_presence() {
            self.presence(literal, may_be_absent, known, fail)
        } else {
            // Behind a negated test the word may be absent: nothing is learnt.
            let mut learnt = *known;
            if may_be_absent {
                self.require(test.base(), test.end(), &mut learnt, absent);
            }
            let word = self.word(test, class, &mut learnt);
            if !(literal.negated && may_be_absent) {
                *known = learnt;
            } else {
                known.word = None;
            }
            if literal.negated {
                self.unless_accepted(test, word, fail, pass);
            } else {
                self.accepted(test, word, fail);
            }
            Flow::Continues
        };
        self.asm.bind(pass);
        flow
    }

    /// The literal that asks only whether bytes are there.
    fn presence(
        &mut self,
        literal: &Literal,
        may_be_absent: bool,
        known: &mut Known,
        fail: Label,
    ) -> Flow {
        let test = &literal.test;
        match (literal.negated, may_be_absent) {
            (false, true) => self.require(test.base(), test.end(), known, fail),
            (false, false) => {}
            (true, false) => {
                self.asm.jump(fail);
                return Flow::Ends;
            }
            (true, true) => {
                let (pointer, skew, _) = known
                    .behind(test.base())
                    .expect("others are constant in every class");
                self.asm.set(SCRATCH, pointer);
                self.asm.alu(Alu::Add, SCRATCH, (skew + test.end()) as i32);
                self.asm.jump_if(SCRATCH, Condition::LessOrEqual, END, fail);
                known.word = None;
            }
        }
        Flow::Continues
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
            None => self.asm.set(SCRATCH, pointer),
            Some(offset) => self.asm.load(size(word.width), SCRATCH, pointer, offset),
        }
        if word.host_order && word.width != Width::Byte {
            self.asm
                .to_big_endian(SCRATCH, 8 * word.width.bytes() as i32);
        }
        if partial {
            let mask = if word.host_order {
                word.mask as i32
            } else {
                in_memory_order(word.width, word.mask)
            };
            self.asm.alu32(Alu::And, SCRATCH, mask);
        }
        known.word = Some(word);
        SCRATCH
    }

    /// Jump to `fail` unless the word passes.
    fn accepted(&mut self, test: &Test, word: Reg, fail: Label) {
        let (low, high) = test.bounds();
        if low == high {
            let value = in_memory_order(test.width(), low);
            return self.asm.jump_if32(word, Condition::NotEqual, value, fail);
        }
        if low > 0 {
            self.asm.jump_if32(word, Condition::Less, low as i32, fail);
        }
        if high < test.mask() {
            self.asm
                .jump_if32(word, Condition::Greater, high as i32, fail);
        }
    }

    /// Jump to `fail` if the word passes; `pass` is directly behind.
    fn unless_accepted(&mut self, test: &Test, word: Reg, fail: Label, pass: Label) {
        let (low, high) = test.bounds();
        if low == high {
            let value = in_memory_order(test.width(), low);
            return self.asm.jump_if32(word, Condition::Equal, value, fail);
        }
        if low > 0 && high < test.mask() {
            self.asm.jump_if32(word, Condition::Less, low as i32, pass);
        }
        if high < test.mask() {
            self.asm
                .jump_if32(word, Condition::LessOrEqual, high as i32, fail);
        } else {
            self.asm
                .jump_if32(word, Condition::GreaterOrEqual, low as i32, fail);
        }
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
