//! Filters as sets of packets: meaning, boolean algebra, comparison.
//!
//! Invariants of a [`Filter`]: at most [`CONJUNCTIONS_MAX`] conjunctions of at most [`LITERALS_MAX`] literals; the
//! literals of a conjunction are sorted, none is constant, none of them is implied by another one as far as [`Literal::implies`] sees,
//! no two exclude each other; no conjunction is contained in another one as far as that sees. Every operation keeps
//! the exact set of packets: simplification only drops what changes nothing.

use crate::layers::{IPV4, IPV6, Layers};
use crate::limits::{CONJUNCTIONS_MAX, LITERALS_MAX, SEARCH_STEPS_MAX};
use crate::literal::{Base, Literal, Test};
use crate::satisfy;
use std::collections::BTreeSet;
use std::fmt;

/// Literals that must all hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conjunction {
    literals: Vec<Literal>,
}

/// A set of packets: those that pass at least one of the conjunctions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    any: Vec<Conjunction>,
}

/// The result would need more conjunctions or literals than a filter may have, or more work than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// How many pairs of literals may be looked at while filters are combined, about: texts of strangers are parsed by those
/// who have others to serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work(usize);

impl Work {
    /// This many pairs.
    pub(crate) const fn at_most(pairs: usize) -> Self {
        Self(pairs)
    }

    fn take(&mut self, pairs: usize) -> Result<(), TooLarge> {
        self.0 = self.0.checked_sub(pairs).ok_or(TooLarge)?;
        Ok(())
    }
}

impl Conjunction {
    /// The conjunction of the literals, simplified; None when it plainly contradicts itself.
    fn new(literals: impl IntoIterator<Item = Literal>) -> Option<Self> {
        let mut kept: Vec<Literal> = Vec::new();
        for literal in literals {
            match (literal.test.accepts_nothing(), literal.negated) {
                (true, true) => continue,
                (true, false) => return None,
                (false, _) => {}
            }
            if kept.iter().any(|k| k.excludes(&literal)) {
                return None;
            }
            if !kept.iter().any(|k| k.implies(&literal)) {
                kept.retain(|k| !literal.implies(k));
                kept.push(literal);
            }
        }
        kept.sort_unstable();
        let conjunction = Self { literals: kept };
        if conjunction.wants_ip_in_another_type() {
            return None;
        }
        Some(conjunction)
    }

    /// A protocol or transport header in a packet whose type is neither IPv4 nor IPv6: there is no such packet.
    fn wants_ip_in_another_type(&self) -> bool {
        let asks = |wanted: &[Base]| {
            let wanted = wanted.to_vec();
            self.literals
                .iter()
                .filter(move |l| !l.negated && wanted.contains(&l.test.base()))
        };
        asks(&[Base::Protocol, Base::Transport]).next().is_some()
            && asks(&[Base::Type])
                .any(|l| !l.test.accepts(IPV4.into()) && !l.test.accepts(IPV6.into()))
    }

    /// The literals, in the order in which the program tests them.
    pub fn literals(&self) -> &[Literal] {
        &self.literals
    }

    /// The conjunction's meaning.
    fn matches(&self, packet: &[u8], layers: &Layers) -> bool {
        self.literals
            .iter()
            .all(|literal| literal.matches(packet, layers))
    }

    /// Both. None when they plainly exclude each other.
    fn and(&self, other: &Self) -> Option<Self> {
        Self::new(self.literals.iter().chain(&other.literals).copied())
    }

    /// How much work it makes to combine it, for the literals that are looked at: ordinary ones have a few.
    const fn cost(&self) -> usize {
        1 + self.literals.len() / 8
    }

    /// Whether each literal of `other` follows from one of `self`.
    fn plainly_implies(&self, other: &Self) -> bool {
        other
            .literals
            .iter()
            .all(|wanted| self.literals.iter().any(|given| given.implies(wanted)))
    }
}

impl Filter {
    /// All packets.
    pub fn everything() -> Self {
        Self {
            any: vec![Conjunction {
                literals: Vec::new(),
            }],
        }
    }

    /// No packet.
    pub fn nothing() -> Self {
        Self { any: Vec::new() }
    }

    /// The packets that pass all the literals.
    pub fn all_of(literals: impl IntoIterator<Item = Literal>) -> Result<Self, TooLarge> {
        Self::of(Conjunction::new(literals), &mut Work(usize::MAX))
    }

    /// The packets that pass one test.
    pub fn test(test: Test) -> Self {
        Self {
            any: Conjunction::new([test.into()]).into_iter().collect(),
        }
    }

    /// The disjunction of what is given, simplified, within the limits.
    fn of(
        conjunctions: impl IntoIterator<Item = Conjunction>,
        work: &mut Work,
    ) -> Result<Self, TooLarge> {
        let mut any: Vec<Conjunction> = Vec::new();
        for new in conjunctions {
            work.take(any.len() * new.cost())?;
            if any.iter().any(|kept| new.plainly_implies(kept)) {
                continue;
            }
            any.retain(|kept| !kept.plainly_implies(&new));
            any.push(new);
            if any.len() > CONJUNCTIONS_MAX || any[any.len() - 1].literals.len() > LITERALS_MAX {
                return Err(TooLarge);
            }
        }
        Ok(Self { any })
    }

    /// The conjunctions.
    pub fn conjunctions(&self) -> &[Conjunction] {
        &self.any
    }

    /// How many different words of a packet are tested. It is what a program's verification grows with, more than with
    /// alternatives: many values of one word are found by halving.
    pub fn words(&self) -> usize {
        let literals = self.any.iter().flat_map(|all| &all.literals);
        let words = literals.map(|l| (l.test.base(), l.test.offset(), l.test.width()));
        words.collect::<BTreeSet<_>>().len()
    }

    /// The filter's meaning: whether the frame, from its Ethernet header on, belongs to the set.
    pub fn matches(&self, packet: &[u8]) -> bool {
        let layers = Layers::locate(packet);
        self.any
            .iter()
            .any(|conjunction| conjunction.matches(packet, &layers))
    }

    /// Packets in both.
    pub fn and(&self, other: &Self) -> Result<Self, TooLarge> {
        self.and_within(other, &mut Work(usize::MAX))
    }

    /// Packets in either.
    pub fn or(&self, other: &Self) -> Result<Self, TooLarge> {
        self.or_within(other, &mut Work(usize::MAX))
    }

    /// Packets not in it.
    pub fn not(&self) -> Result<Self, TooLarge> {
        self.not_within(&mut Work(usize::MAX))
    }

    pub(crate) fn and_within(&self, other: &Self, work: &mut Work) -> Result<Self, TooLarge> {
        let other = &other.any;
        let longest = |any: &[Conjunction]| any.iter().map(Conjunction::cost).max().unwrap_or(0);
        let pair = longest(&self.any).max(longest(other));
        work.take(self.any.len() * other.len() * pair * pair)?;
        let both = |a: &'_ Conjunction| -> Vec<Conjunction> {
            other.iter().filter_map(|b| a.and(b)).collect()
        };
        Self::of(self.any.iter().flat_map(both), work)
    }

    pub(crate) fn or_within(&self, other: &Self, work: &mut Work) -> Result<Self, TooLarge> {
        Self::of(self.any.iter().chain(&other.any).cloned(), work)
    }

    pub(crate) fn not_within(&self, work: &mut Work) -> Result<Self, TooLarge> {
        let mut outside = Self::everything();
        for conjunction in &self.any {
            let escapes = conjunction.literals.iter().map(|l| Conjunction {
                literals: vec![l.negate()],
            });
            let escapes = Self::of(escapes, work)?;
            outside = outside.and_within(&escapes, work)?;
        }
        Ok(outside)
    }

    /// True when no packet can match both: only then may two owners hold them.
    ///
    /// Never wrongly true. Exact for filters whose tests do not reach the same bytes through different bases; for
    /// others, and when the comparison takes more than [`crate::limits::SEARCH_STEPS_MAX`] steps, it may be wrongly false.
    pub fn is_disjoint_from(&self, other: &Self) -> bool {
        self.is_disjoint_within(other, SEARCH_STEPS_MAX)
    }

    /// [`Self::is_disjoint_from`] with a bound of one's own: false as well when it takes more than `steps`.
    pub fn is_disjoint_within(&self, other: &Self, steps: usize) -> bool {
        let mut steps = satisfy::Steps::at_most(steps);
        let mut exclude = |a: &Conjunction, b: &Conjunction| {
            let Some(both) = a.and(b) else { return true };
            satisfy::is_impossible(both.literals, &[], &mut steps)
        };
        self.any
            .iter()
            .all(|a| other.any.iter().all(|b| exclude(a, b)))
    }

    /// True when every packet that matches `self` matches `other`. Never wrongly true; exact as for
    /// [`Self::is_disjoint_from`].
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.is_subset_within(other, SEARCH_STEPS_MAX)
    }

    /// [`Self::is_subset_of`] with a bound of one's own: false as well when it takes more than `steps`.
    pub fn is_subset_within(&self, other: &Self, steps: usize) -> bool {
        let mut steps = satisfy::Steps::at_most(steps);
        let contained = |a: &Conjunction| {
            if other.any.iter().any(|b| a.plainly_implies(b)) {
                return true;
            }
            // Outside `other` is outside each of its conjunctions; outside those that exclude `a`, `a` is anyway.
            let near = other.any.iter().filter(|b| a.and(b).is_some());
            let outside: Vec<Vec<Literal>> = near
                .map(|b| b.literals.iter().map(|l| l.negate()).collect())
                .collect();
            satisfy::is_impossible(a.literals.iter().copied(), &outside, &mut steps)
        };
        self.any.iter().all(contained)
    }

    /// Whether a packet may match both: the opposite of [`Self::is_disjoint_from`].
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.is_disjoint_from(other)
    }

    /// Whether no packet matches. Never wrongly true.
    pub fn is_nothing(&self) -> bool {
        self.is_subset_of(&Self::nothing())
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the filter is too large: it needs more than {CONJUNCTIONS_MAX} alternatives, or too long to be worked out; split it into several rules"
        )
    }
}

impl std::error::Error for TooLarge {}
