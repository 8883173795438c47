//! Code for plans and literals, each followed by what comes when it holds and when it does not.

use super::emitter::{END, Emitter, Known, SCRATCH, in_memory_order};
use super::plan::{Class, Plan};
use super::rules::Action;
use super::switch::Switch;
use crate::ebpf::{Alu, Condition, Emit, Label, Reg};
use crate::literal::{Base, Literal, Test};

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

impl Emitter<'_> {
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
                if others.is_empty() {
                    return self.switch(&switch, class, known, none);
                }
                let next = self.label();
                self.switch(&switch, class, known, next);
                self.bind(next);
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
            let behind = others.is_empty().then_some(none);
            if self.branch(literal, run, depth, class, &mut known, behind) == Flow::Ends {
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
        known: &mut Known,
        none: Option<Label>,
    ) -> Flow {
        // The last literal of a conjunction with others behind it: to the verdict if it holds.
        if let ([(only, action)], None) = (run, none)
            && only.len() == depth + 1
        {
            let holds = self.verdict_label(*action);
            return self.literal(&literal.negate(), class, known, holds);
        }
        let next = none.unwrap_or_else(|| self.label());
        let mut learnt = *known;
        if self.literal(literal, class, &mut learnt, next) == Flow::Continues {
            self.group(run, depth + 1, class, learnt, next);
        }
        known.word = None;
        // What nothing jumps to is not reached: a literal that is known to hold has no way to fail.
        if none.is_some() || !self.asm.is_target(next) {
            return Flow::Ends;
        }
        self.bind(next);
        Flow::Continues
    }

    /// Jump to `fail` unless the literal holds. What is learnt is added to `known`.
    fn literal(&mut self, literal: &Literal, class: Class, known: &mut Known, fail: Label) -> Flow {
        let test = &literal.test;
        let pass = self.label();
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
        self.bind(pass);
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
                self.jump(fail);
                return Flow::Ends;
            }
            (true, true) => {
                let (pointer, skew, _) = known
                    .behind(test.base())
                    .expect("others are constant in every class");
                self.set(SCRATCH, pointer);
                self.alu(Alu::Add, SCRATCH, (skew + test.end()) as i32);
                self.jump_if(SCRATCH, Condition::LessOrEqual, END, fail);
                known.word = None;
            }
        }
        Flow::Continues
    }

    /// Jump to `fail` unless the word passes.
    fn accepted(&mut self, test: &Test, word: Reg, fail: Label) {
        let (low, high) = test.bounds();
        if low == high {
            let value = in_memory_order(test.width(), low);
            return self.jump_if32(word, Condition::NotEqual, value, fail);
        }
        if low > 0 {
            self.jump_if32(word, Condition::Less, low as i32, fail);
        }
        if high < test.mask() {
            self.jump_if32(word, Condition::Greater, high as i32, fail);
        }
    }

    /// Jump to `fail` if the word passes; `pass` is directly behind.
    fn unless_accepted(&mut self, test: &Test, word: Reg, fail: Label, pass: Label) {
        let (low, high) = test.bounds();
        if low == high {
            let value = in_memory_order(test.width(), low);
            return self.jump_if32(word, Condition::Equal, value, fail);
        }
        if low > 0 && high < test.mask() {
            self.jump_if32(word, Condition::Less, low as i32, pass);
        }
        if high < test.mask() {
            self.jump_if32(word, Condition::LessOrEqual, high as i32, fail);
        } else {
            self.jump_if32(word, Condition::GreaterOrEqual, low as i32, fail);
        }
    }
}
