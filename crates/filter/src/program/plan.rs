//! What remains of the rules once it is known what kind of packet it is.
//!
//! A [`Class`] fixes which layers a packet has. In it many literals are constant: `Protocol = 6` is false in an ARP
//! packet, `not Type = IPv6` true. [`Plan::new`] drops those, and with them whole conjunctions.

use super::rules::{Action, Rule};
use crate::layers::{IPV4, IPV6};
use crate::literal::{Base, Literal};

/// What kind of packet it is, as far as the parse tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// No Ethertype.
    Short,
    /// An Ethertype that is neither IPv4 nor IPv6.
    Other,
    /// IPv4 or IPv6.
    Ip(Version, Part),
}

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V6,
}

/// How much of an IP packet there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The headers are malformed or cut: neither protocol nor transport header.
    Malformed,
    /// A fragment behind the first: a protocol, no transport header.
    Fragment,
    /// Protocol and transport header.
    Whole,
}

impl Version {
    pub(super) const fn ethertype(self) -> u16 {
        match self {
            Self::V4 => IPV4,
            Self::V6 => IPV6,
        }
    }

    /// Bytes of the shortest header.
    pub(super) const fn header_len(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

/// The rules as they look inside one class: the first conjunction that holds decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) conjunctions: Vec<(Vec<Literal>, Action)>,
    pub(super) otherwise: Action,
}

impl Plan {
    /// Specialise the rules for a class.
    pub(super) fn new(rules: &[Rule], otherwise: Action, class: Class) -> Self {
        let mut plan = Self {
            conjunctions: Vec::new(),
            otherwise,
        };
        let all = rules
            .iter()
            .flat_map(|r| r.filter.conjunctions().iter().map(move |c| (c, r.action)));
        for (conjunction, action) in all {
            match remaining(conjunction.literals(), class) {
                None => {}
                Some(open) if open.is_empty() => {
                    // Always taken here: nothing behind it is reached.
                    plan.otherwise = action;
                    break;
                }
                Some(open) => plan.conjunctions.push((open, action)),
            }
        }
        while plan
            .conjunctions
            .pop_if(|(_, action)| *action == plan.otherwise)
            .is_some()
        {}
        plan.sort_within_actions();
        plan
    }

    /// Neighbours of the same action commute: sort them so that equal beginnings meet.
    fn sort_within_actions(&mut self) {
        for run in self.conjunctions.chunk_by_mut(|a, b| a.1 == b.1) {
            run.sort_unstable();
        }
        self.conjunctions.dedup();
    }

    /// Whether nothing is left to test.
    pub(super) fn is_decided(&self) -> bool {
        self.conjunctions.is_empty()
    }

    /// The shortest packet, counted from 14 bytes before its network header, that any conjunction can match.
    pub(super) fn shortest_match(&self, class: Class) -> usize {
        let needs = |literals: &[Literal]| {
            let positive = literals.iter().filter(|l| !l.negated);
            positive.map(|l| needed(l, class)).max().unwrap_or(0)
        };
        self.conjunctions
            .iter()
            .map(|(literals, _)| needs(literals))
            .min()
            .unwrap_or(usize::MAX)
    }
}

/// Bytes that a packet needs, counted as in [`Plan::shortest_match`], for the literal's word to be there.
fn needed(literal: &Literal, class: Class) -> usize {
    let header = match class {
        Class::Ip(version, _) => version.header_len(),
        Class::Short | Class::Other => 0,
    };
    let end = literal.test.end();
    match literal.test.base() {
        Base::Network => 14 + end,
        Base::Protocol => 14 + header,
        Base::Transport => 14 + header + end,
        // A frame with a tag is longer than what this counts.
        Base::Link | Base::Type => 0,
    }
}

/// The literals that are still open in the class; None when one is false there.
fn remaining(literals: &[Literal], class: Class) -> Option<Vec<Literal>> {
    let mut open = Vec::with_capacity(literals.len());
    for literal in literals {
        match truth(literal, class) {
            Some(true) => {}
            Some(false) => return None,
            None => open.push(*literal),
        }
    }
    Some(open)
}

/// Whether the literal holds for all packets of the class, or for none; None when it depends.
fn truth(literal: &Literal, class: Class) -> Option<bool> {
    let test = &literal.test;
    let passes = match (test.base(), class) {
        (Base::Link, _) => None,
        (_, Class::Short) => Some(false),
        (Base::Type, Class::Ip(version, _)) => Some(test.accepts(version.ethertype().into())),
        (Base::Type, Class::Other) => type_in_other(literal),
        (Base::Network, _) => None,
        (Base::Protocol | Base::Transport, Class::Other | Class::Ip(_, Part::Malformed)) => {
            Some(false)
        }
        (Base::Protocol, Class::Ip(..)) => test.is_presence().then_some(true),
        (Base::Transport, Class::Ip(_, Part::Fragment)) => Some(false),
        (Base::Transport, Class::Ip(_, Part::Whole)) => None,
    };
    passes.map(|p| p != literal.negated)
}

/// A test of the type among types that are neither IPv4 nor IPv6.
fn type_in_other(literal: &Literal) -> Option<bool> {
    let test = &literal.test;
    if test.is_presence() {
        return Some(true);
    }
    let only = |t: u16| test.mask() == 0xffff && test.bounds() == (t.into(), t.into());
    (only(IPV4) || only(IPV6)).then_some(false)
}
