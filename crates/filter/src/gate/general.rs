//! General filters as claims: which may be claimed, and what may be sent under one.
//!
//! What comes in and matches the filter, and is covered by no exact grant, is the slot's. What goes out is looked at from
//! the other end: it may go when its mirror (source and destination exchanged, [`Filter::mirrored`]) would come in. And
//! it comes from one of the addresses that the claim may use, whether the filter names addresses or not; and a word
//! that the filter tests is there, also where the filter says `not`, because the check may see a cut packet.

use std::fmt;
use std::net::IpAddr;

use super::code::parse::OFFSET;
use super::code::splice::splice;
use super::code::{CELL, Code, Side};
use super::limits::GENERAL_CONJUNCTIONS_MAX;
use crate::ebpf::{Emit, Label};
use crate::filter::{Filter, TooLarge};
use crate::literal::{Literal, Test};
use crate::mirror::NoMirror;
use crate::program::CompileError;

/// Why a filter cannot be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoClaim {
    /// It has too many alternatives: this many.
    Alternatives(usize),
    /// No packet matches it.
    Nothing,
    /// What may be sent under it cannot be said.
    NoMirror(NoMirror),
}

impl fmt::Display for NoClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alternatives(count) => write!(
                f,
                "the filter has {count} alternatives, and a claim {GENERAL_CONJUNCTIONS_MAX} at most; claim its parts"
            ),
            Self::Nothing => f.write_str("no packet matches the filter"),
            Self::NoMirror(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NoClaim {}

impl From<TooLarge> for NoClaim {
    fn from(error: TooLarge) -> Self {
        Self::NoMirror(error.into())
    }
}

/// What may be sent by the one that holds a filter and may use these addresses; nothing without any.
///
/// # Errors
///
/// The filter cannot be claimed.
pub fn sending(filter: &Filter, sources: &[IpAddr]) -> Result<Filter, NoClaim> {
    let count = filter.conjunctions().len();
    if count > GENERAL_CONJUNCTIONS_MAX {
        return Err(NoClaim::Alternatives(count));
    }
    if count == 0 {
        return Err(NoClaim::Nothing);
    }
    let mirrored = filter.mirrored().map_err(NoClaim::NoMirror)?;
    let mut from = Filter::nothing();
    for source in sources {
        from = from.or(&Filter::from_host(*source)?)?;
    }
    Ok(present(&mirrored)?.and(&from)?)
}

/// Only packets that have every word that is tested.
fn present(filter: &Filter) -> Result<Filter, TooLarge> {
    let mut all = Filter::nothing();
    for conjunction in filter.conjunctions() {
        let there = conjunction.literals().iter().map(|l| {
            let test = &l.test;
            Literal::from(Test::present(test.base(), test.offset(), test.width()))
        });
        let literals = conjunction.literals().iter().copied().chain(there);
        all = all.or(&Filter::all_of(literals)?)?;
    }
    Ok(all)
}

impl Code<'_> {
    /// What no exact grant covers: to `allowed` when it lies in the slot's filter for sending, else to `wrong`. r7 is kept: by it
    /// the destination's member is found.
    pub(super) fn in_general(
        &mut self,
        filter: &Filter,
        allowed: Label,
        wrong: Label,
    ) -> Result<(), CompileError> {
        assert!(
            self.side == Side::Out,
            "what comes in has programs of its own"
        );
        let own = self.label();
        self.put(CELL, OFFSET);
        self.make_readable();
        splice(self, filter, own)?;
        self.jump(wrong);
        self.bind(own);
        self.get(OFFSET, CELL);
        self.jump(allowed);
        Ok(())
    }
}
