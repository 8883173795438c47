//! Many values of one word: found by halving instead of one after another.
//!
//! A listener's port, an address, a protocol: neighbouring conjunctions often differ only in the value that one word
//! must have. Such values exclude each other, so their order does not matter, and a thousand take ten comparisons.

use super::emitter::{Emitter, Known, Word};
use super::plan::Class;
use super::rules::Action;
use crate::ebpf::{Condition, Emit, Label, Reg};
use crate::literal::Literal;

/// Conjunctions with the rule's action.
type Conjunctions<'p> = &'p [(Vec<Literal>, Action)];

/// From how many values on halving needs fewer instructions on the way than comparing one after another.
const SWITCH_MIN: usize = 6;
/// How many values are compared one after another in the end.
const LEAF_MAX: usize = 3;

/// Conjunctions that begin, from some depth on, by comparing the same word with different single values.
pub(super) struct Switch<'p> {
    depth: usize,
    /// The value, as the word lies in memory, and the conjunctions that want it.
    cases: Vec<(u32, Conjunctions<'p>)>,
}

impl<'p> Switch<'p> {
    /// The longest beginning of `conjunctions` that is one, if it is worth it, and what comes behind.
    pub(super) fn split(
        conjunctions: Conjunctions<'p>,
        depth: usize,
    ) -> Option<(Self, Conjunctions<'p>)> {
        let word = single_value(conjunctions.first()?.0.get(depth)?)?;
        let mut cases: Vec<(u32, Conjunctions<'p>)> = Vec::new();
        let mut rest = conjunctions;
        while let Some(literal) = rest.first().and_then(|(c, _)| c.get(depth)) {
            // A value that comes again excludes no other: order matters there.
            let value = word.value_in_memory(literal.test.bounds().0);
            if single_value(literal) != Some(word) || cases.iter().any(|case| case.0 == value) {
                break;
            }
            let same = rest
                .iter()
                .take_while(|(c, _)| c.get(depth) == Some(literal))
                .count();
            let (run, others) = rest.split_at(same);
            cases.push((value, run));
            rest = others;
        }
        cases.sort_unstable_by_key(|case| case.0);
        (cases.len() >= SWITCH_MIN).then_some((Self { depth, cases }, rest))
    }
}

/// The word that a literal compares with one value.
fn single_value(literal: &Literal) -> Option<Word> {
    let (low, high) = literal.test.bounds();
    (!literal.negated && low == high && !literal.test.is_presence())
        .then(|| Word::of(&literal.test))
}

impl Emitter<'_> {
    /// All cases; to `none` when no conjunction of them holds.
    pub(super) fn switch(
        &mut self,
        switch: &Switch<'_>,
        class: Class,
        mut known: Known,
        none: Label,
    ) {
        let test = switch.cases[0].1[0].0[switch.depth].test;
        self.require(test.base(), test.end(), &mut known, none);
        let word = self.word(&test, class, &mut known);
        self.halve(&switch.cases, switch.depth, word, class, known, none);
    }

    fn halve(
        &mut self,
        cases: &[(u32, Conjunctions<'_>)],
        depth: usize,
        word: Reg,
        class: Class,
        known: Known,
        none: Label,
    ) {
        if cases.len() <= LEAF_MAX {
            return self.leaf(cases, depth, word, class, known, none);
        }
        let (left, right) = cases.split_at(cases.len() / 2);
        let upper = self.label();
        self.jump_if32(word, Condition::GreaterOrEqual, right[0].0 as i32, upper);
        self.halve(left, depth, word, class, known, none);
        self.bind(upper);
        self.halve(right, depth, word, class, known, none);
    }

    fn leaf(
        &mut self,
        cases: &[(u32, Conjunctions<'_>)],
        depth: usize,
        word: Reg,
        class: Class,
        known: Known,
        none: Label,
    ) {
        let mut bodies = Vec::new();
        for (value, run) in cases {
            let to = match run {
                [(only, action)] if only.len() == depth + 1 => self.verdict_label(*action),
                _ => {
                    let body = self.label();
                    bodies.push((body, *run));
                    body
                }
            };
            self.jump_if32(word, Condition::Equal, *value as i32, to);
        }
        self.jump(none);
        for (body, run) in bodies {
            self.bind(body);
            self.group(run, depth + 1, class, known, none);
        }
    }
}
